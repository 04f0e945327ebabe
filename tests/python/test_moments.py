"""tools/moments.py: the mean squares of what each matrix reads; and the array that it writes is
taken."""

from pathlib import Path

import numpy as np
import pytest

from phasor import moments
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.moments import Moments
from phasor.reference.forward import Reference
from phasor.reference.functions import layer_norm, rms_norm
from places import told

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"
IDS = [1, 5, 9, 3, 17, 22, 8]


def by_slot(file: PhasorFile, values: np.ndarray) -> dict[int, np.ndarray]:
    out, at = {}, 0
    for slot in R.slots(file.descriptor):
        if slot.matrix:
            out[slot.key] = values[at : at + slot.cols]
            at += slot.cols
    assert at == len(values)
    return out


def mean_square(x: np.ndarray) -> np.ndarray:
    mean = (x * x).mean(axis=0)
    return mean / mean.mean()


@pytest.mark.parametrize("name", ["tiny-lm", "tiny-opt", "tiny-gptj", "tiny-olmo2", "tiny-rotary"])
def test_what_a_decoder_reads(name):
    """The first block's input, by the norm of the embedding, and the output's, in float64."""
    file = PhasorFile(GOLDEN / f"{name}-f32.phasor")
    observer, model = moments.Observer(file), Reference(file)
    observer.decode(IDS)
    trace, kind = model.decode(IDS), file.descriptor["kinds"][0]
    found = by_slot(file, observer.moments())
    weight = model.tensor(R.DECODER, 0, R.ATTENTION_BEFORE)
    first = trace.embedding
    if weight is not None:
        first = (rms_norm if kind["norm"] == 2 else layer_norm)(
            first, weight, model.tensor(R.DECODER, 0, R.ATTENTION_BEFORE + 1), kind["norm_eps"]
        )
    assert np.allclose(found[R.DECODER << 24 | R.QKV], mean_square(first), rtol=1e-4, atol=1e-6)
    output = (
        R.OUTPUT << 24 | R.OUTPUT_WEIGHT
        if R.OUTPUT << 24 | R.OUTPUT_WEIGHT in found
        else R.TARGET << 24 | R.EMBEDDING
    )
    if file.descriptor["output"]["head_width"] == 0:
        assert np.allclose(found[output], mean_square(trace.output), rtol=1e-4, atol=1e-6)
    if output >> 24 == R.OUTPUT:
        assert (found[R.TARGET << 24 | R.EMBEDDING] == 1).all()  # only looked up
    for values in found.values():
        assert (
            np.isfinite(values).all()
            and (values >= 0).all()
            and values.mean() == pytest.approx(1, rel=1e-5)
        )


@pytest.mark.parametrize(
    "model,text",
    [
        ("models/zh-en.phasor", "我有一只猫。\n你好。\n"),
        ("tests/golden/models/tiny-chat-f32.phasor", "hello world, a text\n" * 20),
    ],
)
def test_the_tool_and_what_it_is_for(phasor, model, text, tmp_path, capsys):
    """A translator and a language model: the output error of the weighted file is the smaller one,
    on the text itself."""
    source = tmp_path / "f32.phasor"
    told(
        phasor,
        "quantize",
        Path(__file__).resolve().parents[2] / model,
        source,
        "--type",
        "f32",
        "--quiet",
    )
    (tmp_path / "text").write_text(text, encoding="utf-8")
    assert (
        moments.main(
            [
                str(source),
                str(tmp_path / "text"),
                "-o",
                str(tmp_path / "m.npy"),
                "--tokens",
                "60",
                "--window",
                "30",
                "--phasor",
                str(phasor),
            ]
        )
        == 0
    )
    found = np.load(tmp_path / "m.npy")
    file = PhasorFile(source)
    assert found.dtype == np.float32 and len(by_slot(file, found)) == len(
        [s for s in R.slots(file.descriptor) if s.matrix]
    )
    assert (
        sum((values != 1).any() for values in by_slot(file, found).values())
        >= len(by_slot(file, found)) - 2
    )
    weights = Moments(file.descriptor, found)
    for slot in [s for s in R.slots(file.descriptor) if s.matrix][:6]:
        x, m = file.weights(slot.key).astype(np.float32)[:64], weights(slot).astype(np.float64)
        errors = [
            (m * (L.dequantize_q8(*L.quantize(x, L.Q4, given), slot.cols) - x) ** 2).sum()
            for given in (None, weights(slot))
        ]
        assert errors[1] <= errors[0]
    (tmp_path / "empty").write_text("\n")
    assert (
        moments.main(
            [
                str(source),
                str(tmp_path / "empty"),
                "-o",
                str(tmp_path / "n.npy"),
                "--phasor",
                str(phasor),
            ]
        )
        == 1
    )
    assert "the text has no tokens" in capsys.readouterr().err
    assert (
        moments.main(
            [
                str(GOLDEN / "tiny-lm-f32.phasor"),
                str(tmp_path / "text"),
                "-o",
                str(tmp_path / "n.npy"),
                "--phasor",
                str(phasor),
            ]
        )
        == 1
    )
    assert (
        "the file has no tokenizer" in capsys.readouterr().err and not (tmp_path / "n.npy").exists()
    )
    with pytest.raises(L.PhasorError, match="expected .* values of f32"):
        Moments(file.descriptor, found[1:])
