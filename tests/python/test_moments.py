"""tools/moments.py: the mean squares of what each matrix reads; and the array that it writes is
taken."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import test_gguf
from test_quantize import quantize

import translators
from conversions import contents, convert_to, refused
from phasor import moments
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.moments import Moments
from phasor.reference.forward import Reference
from phasor.reference.functions import layer_norm, rms_norm
from phasor.runs import Input
from phasor.smoothing import Smoothed
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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is(phasor, tmp_path, monkeypatch):
    model, text = GOLDEN / "tiny-chat-f32.phasor", tmp_path / "text"
    text.write_text("hello world, a text\n" * 20)
    words = [str(model), str(text), "-o", str(tmp_path / "m.npy"), "--phasor", str(phasor)]
    for screen in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setattr(moments, "_BATCH", 25)
        assert moments.main([*words, "--tokens", "60", "--window", "25"]) == 0
        steps = ["moments: 25 of 60 tokens", "moments: 50 of 60 tokens"]
        shown = "".join(f"\r{step}\033[K" for step in [*steps, "", ""])
        assert screen.getvalue() == (shown if screen.isatty() else "")


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", ["tiny-bert", "tiny-merged", "tiny-t5", "tiny-lfm2"])
def test_inputs_that_are_read_together(name, full, monkeypatch):
    """Many short texts in few runs of the model give what each gives alone."""
    file, rng = PhasorFile(GOLDEN / f"{name}-f32.phasor"), np.random.default_rng(5)
    sides = [side in file.descriptor for side in ("encoder", "decoder")]
    given = [
        Input(*(tuple(rng.integers(1, 30, n).tolist()) if n else () for n in sizes))
        for sizes in zip(*(rng.integers(2, 9, 40) * has for has in sides))
    ]
    monkeypatch.setattr(moments, "inputs", lambda *_: iter(given))
    monkeypatch.setattr(moments, "_BATCH", 60)
    together = list(moments.batches(given))
    assert sum(together, []) == given and 1 < len(together) < len(given) / 4
    assert all(sum(map(moments.size_of, batch)) <= 60 for batch in together)
    count = max(part.stop for part in moments.places_of(file.descriptor, full).values())
    sums = np.zeros((2, count), np.float32)
    alone = moments.Observer(file, sums[0] if full else None)
    for source, target in given:
        memory = alone.encode(source) if source else None
        if target:
            alone.decode(target, memory.output if memory else None)
        elif memory is not None:
            alone.output(memory)
    found = moments.measure(file, Path("none"), "", out=sums[1] if full else None)
    if full:
        alone.finish()
        found.finish()
    else:
        sums = np.array([alone.moments(), found.moments()])
    assert np.allclose(sums[0], sums[1], rtol=1e-4, atol=1e-5)
    assert not np.allclose(sums[0], sums[0].mean())


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


def decoder(folder: Path) -> Path:
    """A GGUF file: its inputs are scaled in the norms before them."""
    (folder / "m.gguf").write_bytes(test_gguf.changed(**test_gguf.vocabulary()))
    (folder / "text").write_text('"!#$%&<a>!!\n' * 20)
    return folder / "m.gguf"


def translator(folder: Path) -> Path:
    """Norms come after its layers: its inputs are scaled by vectors of their own."""
    (folder / "text").write_text("ab ba c\na b\n" * 5)
    files = translators.marian_files()
    return translators.write(folder / "m", "marian", files, **translators.MARIAN_IDS)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("make", [decoder, translator])
def test_moments_are_of_the_inputs_that_matrices_read(make, full, phasor, tmp_path, capsys):
    """Those of the plain file, scaled by a conversion that scales inputs, are those that the scaled
    file gives; all others are refused by the converter and by the program."""
    source, files, arrays = make(tmp_path), {}, {}
    for flag in ("--no-smooth", "--smooth"):
        files[flag] = convert_to(source, tmp_path / f"{flag}.phasor", "--type", "f32", flag)
        arrays[flag] = tmp_path / f"{flag}.npy"
        words = [files[flag], tmp_path / "text", "-o", arrays[flag], "--phasor", phasor]
        assert moments.main([*map(str, words), *["--full"] * full]) == 0
    plain, scaled = map(np.load, arrays.values())
    assert plain.shape == scaled.shape and not np.allclose(plain, scaled, rtol=0.1)

    def made(flag: str, array: Path) -> dict[int, bytes]:
        words = ("--type", "q4", flag, "--moments", array)
        return contents(convert_to(source, tmp_path / "o.phasor", *words))

    given = PhasorFile(files["--smooth"])
    smoothed = Smoothed(
        (exact := PhasorFile(files["--no-smooth"])).descriptor, lambda s: exact.weights(s.key)
    )
    scale = given.descriptor, lambda slot: given.weights(slot.key)
    before = exact.descriptor, lambda slot: exact.weights(slot.key)
    second, of = moments.of_conversion(arrays["--no-smooth"], *scale, before, smoothed)
    assert second == full
    moved, right = 0, Moments(given.descriptor, scaled)
    for slot in [slot for slot in R.slots(given.descriptor) if slot.matrix]:
        assert np.allclose(of(slot), right(slot), rtol=1e-4, atol=1e-5), slot.name
        moved += smoothed.scale_of(slot) is not None
    assert moved >= 4

    smooth = made("--smooth", arrays["--smooth"])
    assert made("--smooth", arrays["--no-smooth"]) == smooth
    np.save(tmp_path / "unsaid.npy", plain)
    assert made("--no-smooth", tmp_path / "unsaid.npy") == made(
        "--no-smooth", arrays["--no-smooth"]
    )
    words = ("--type", "q4", "--moments")
    said = refused(source, tmp_path / "no", capsys, *words, tmp_path / "unsaid.npy", "--smooth")
    assert f"{tmp_path / 'unsaid.npy'}: does not say which inputs" in said
    said = refused(source, tmp_path / "no", capsys, *words, arrays["--smooth"], "--no-smooth")
    assert f"{arrays['--smooth']}: moments of other inputs" in said and "TRY: tools/mom" in said
    for flag, file in files.items():
        other = next(path for key, path in arrays.items() if key != flag)
        words = (phasor, file, tmp_path / "p", "--quiet", "--type", "q4", "--moments")
        said = quantize(*words, other, status=1).stderr
        assert f"{other}: moments of other inputs" in said
        assert f"TRY: tools/moments.py with {file}" in said and not (tmp_path / "p").exists()
        if not full:
            quantize(*words, arrays[flag])
            assert contents(tmp_path / "p") == made(flag, arrays[flag])
            (tmp_path / "p").unlink()
