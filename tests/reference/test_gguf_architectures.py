"""Every architecture of GGUF files against llama.cpp: small random models, all logits of 24
positions.

llama.cpp rounds the inputs and the values of GELU to f16, so its tolerance is larger where there is
one. For gptneox, falcon and mpt it has the approximation by tanh, which those models were not
trained with: they are compared with it put in.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cyllama")
pytest.importorskip("gguf")

import gguf_models  # noqa: E402
from conversions import convert_to
from llama_cpp import LlamaCpp  # noqa: E402
from phasor import convert  # noqa: E402
from phasor.format import descriptor as D  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.reference.forward import Reference  # noqa: E402
from phasor.sources.gguf import architectures as gguf  # noqa: E402
from places import told

IDS = np.random.default_rng(5).integers(0, gguf_models.VOCABULARY, 24).tolist()
TOLERANCE = {D.SILU: 3e-6, D.GELU_TANH: 1e-3}  # of the largest range of a position's logits
EXACT_GELU = ("gptneox", "falcon", "mpt")


def reference(path: Path, output: Path) -> tuple[np.ndarray, int]:
    """Logits of the converted file in float64, with the activation that llama.cpp has, and which
    that is."""
    model = gguf.read(path)
    kinds = model.descriptor["kinds"]
    assert all(
        (kind["activation"] == D.GELU_ERF)
        == (gguf.GGUF(path).metadata["general.architecture"] in EXACT_GELU)
        for kind in kinds
    )
    for kind in kinds:
        kind["activation"] = D.GELU_TANH if kind["activation"] == D.GELU_ERF else kind["activation"]
    convert.convert(model, output, None, {}, None, quiet=True)
    return Reference(PhasorFile(output)).decode(IDS).logits, kinds[0]["activation"]


@pytest.mark.parametrize("name", gguf_models.CASES)
def test_logits_are_llama_cpps(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.gguf"
    gguf_models.write(path, gguf_models.CASES[name])
    got, activation = reference(path, tmp_path / "model.phasor")
    want = LlamaCpp(path).logits(IDS)
    assert np.abs(got - want).max() <= TOLERANCE[activation] * np.ptp(want, axis=1).max()


def test_every_architecture_has_a_model() -> None:
    """But for names that only the program of BitNet has, a fork of llama.cpp."""
    made = {case["architecture"] for case in gguf_models.CASES.values()}
    assert made | {"bitnet-b1.58", "bitnet-25"} == set(gguf.ARCHITECTURES)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gemma4", "bloom", "olmo2"])
def test_the_program_computes_what_the_reference_does(
    tmp_path: Path, phasor: Path, name: str
) -> None:
    gguf_models.write(tmp_path / "model.gguf", gguf_models.CASES[name])
    convert_to(tmp_path / "model.gguf", tmp_path / "model.phasor")
    told(phasor, "verify", tmp_path / "model.phasor", timeout=60)


@pytest.mark.parametrize("kind", [gguf_models.Q.Q4_0, gguf_models.Q.Q8_0], ids=lambda k: k.name)
def test_gates_of_a_convolution_keep_their_values(tmp_path: Path, kind: gguf_models.Q) -> None:
    """k, q and v of a .phasor file are the rows q, k and v of the file, bit by bit."""
    case, name = gguf_models.CASES["lfm2"], "blk.1.shortconv.in_proj.weight"
    path, output = tmp_path / "model.gguf", tmp_path / "model.phasor"
    value = gguf_models.write(path, case, types={name: kind})[name]
    convert.convert(gguf.read(path), output, None, {}, None, quiet=True)
    stored = gguf_models.gguf.quants.quantize(value, kind)
    k, q, v = np.split(gguf_models.gguf.quants.dequantize(stored, kind), 3)
    found = PhasorFile(output).weights(R.key_of(R.DECODER, 1, R.QKV))
    assert np.array_equal(found, np.concatenate([q, k, v]))


@pytest.mark.parametrize(
    "name, keys, line",
    [
        ("phi3", {"attention.sliding_window": 20}, "a window of 20 positions"),
        (
            "mpt",
            {"attention.head_count": 2, "attention.max_alibi_bias": 4.0},
            "attention.max_alibi_bias: 4 is not supported",
        ),
        (
            "gemma2",
            {"rope.scaling.yarn_log_multiplier": 0.1},
            "gemma2.rope.scaling.yarn_log_multiplier: 0.1",
        ),
        ("lfm2", {"attention.sliding_window": 8}, "attention.sliding_window: is not supported"),
        ("lfm2", {"shortconv.l_cache": 65}, "lfm2.shortconv.l_cache: 65, expected"),
        (
            "gemma4",
            {"attention.sliding_window_pattern": [True, False, False, True, True, False]},
            "attention.shared_kv_layers: 2: the two layers before them",
        ),
        ("gemma4", {"feed_forward_length": [96] * 5}, "for each of 6 layers"),
        ("gemma4", {"attention.value_length_swa": 8}, "attention.value_length_swa: 8, and"),
        ("gemma4", {"expert_count": 4}, "gemma4.expert_count: 4 is not supported"),
        ("gemma4", {"attention.shared_kv_layers": 6}, "attention.shared_kv_layers: 6, expected"),
        ("llama", {"attention.head_count_kv": [2, 0, 2]}, "attention.head_count_kv: values that"),
        (
            "gptneox",
            {"rope.scaling.factor": 2.0, "rope.scaling.type": "su"},
            "gptneox.rope.scaling.type: 'su' is not supported",
        ),
    ],
)
def test_what_is_not_computed_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture, name: str, keys: dict, line: str
) -> None:
    gguf_models.write(tmp_path / "model.gguf", gguf_models.CASES[name], keys=keys)
    convert.main([str(tmp_path / "model.gguf"), "-o", str(tmp_path / "model.phasor")])
    assert line in capsys.readouterr().err
