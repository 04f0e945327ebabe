"""BitNet with packed matrices and its own rounding of activations, beside transformers 4 and 5:
their BitLinear and AutoBitLinear (rule 1.24). And the difference from them that the rule names."""

from __future__ import annotations

import json
from pathlib import Path

import make_bitnet
import numpy as np
import pytest

from phasor import convert
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from phasor.reference.functions import round_activations
from places import need_newer, program, run_python, told
from texts import ids_text

IDS = np.random.default_rng(3).integers(3, 61, 23).tolist()
_SHARED = {"vocab_size": 61, "max_position_embeddings": 40, "bos_token_id": 1, "eos_token_id": 2}
CASES = {
    "autobitlinear": {
        **_SHARED,
        "hidden_size": 60,
        "intermediate_size": 92,
        "num_hidden_layers": 3,
        "num_attention_heads": 5,
        "num_key_value_heads": 1,
        "tie_word_embeddings": True,
    },
    "bitlinear": {
        **_SHARED,
        "hidden_size": 132,
        "intermediate_size": 76,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "attention_bias": True,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    },
}
VERSIONS = {"transformers 4": False, "transformers 5": True}
TOLERANCE = 1e-5


def share(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of a logit, in parts of its position's range."""
    spread = theirs.max(axis=-1, keepdims=True) - theirs.min(axis=-1, keepdims=True)
    return float((np.abs(ours - theirs) / spread).max())


@pytest.fixture(scope="module", params=[(v, c) for v in VERSIONS for c in CASES], ids="-".join)
def made(request, tmp_path_factory) -> Path:
    version, case = request.param
    if VERSIONS[version]:
        need_newer()
    folder = tmp_path_factory.mktemp("bitnet")
    (folder / "source").mkdir()
    asked = {"config": CASES[case], "linear_class": case, "ids": IDS}
    (folder / "case.json").write_text(json.dumps(asked))
    words = make_bitnet.__file__, folder / "case.json", folder / "source"
    said = run_python(*words, newer=VERSIONS[version], TORCHDYNAMO_DISABLE="1")
    assert said.strip().startswith("5." if VERSIONS[version] else "4."), said
    return folder


def converted(folder: Path, *flags: str) -> Path:
    words = [str(folder / "source"), "-o", str(folder / "m.phasor"), "--quiet", *flags]
    assert convert.main(words) == 0
    return folder / "m.phasor"


def test_logits_are_those_of_the_reference_that_rounds_the_same_way(made: Path) -> None:
    file = PhasorFile(converted(made))
    blocks = [s for s in R.slots(file.descriptor) if s.matrix and s.stack == R.DECODER]
    assert {file.entries[slot.key].type for slot in blocks} == {L.Q2R}
    ours = Reference(file).decode(np.array(IDS)).logits
    rounded, plain = (np.load(made / "source" / f"{n}.npy") for n in ("rounded", "plain"))
    assert share(ours, rounded) <= TOLERANCE
    assert share(plain, rounded) > 100 * TOLERANCE  # so the rounding is seen


def test_with_the_rounding_switched_off(made: Path) -> None:
    """The same weights in f32."""
    file = PhasorFile(converted(made, "--type", "f32"))
    ours = Reference(file).decode(np.array(IDS)).logits
    assert share(ours, np.load(made / "source" / "plain.npy")) <= TOLERANCE


def test_the_program_beside_float32(made: Path) -> None:
    """Both round float32 values; none of these falls on another side of a half."""
    path, out = converted(made), made / "logits.npy"
    words = (program(), "run", path, "--ids", ids_text(IDS), "-n", 1, "--print-ids", "--quiet")
    told(*words, "--logits", out)
    ours, theirs = np.load(out)[: len(IDS)], np.load(made / "source" / "rounded32.npy")
    print(f"largest difference {share(ours, theirs):.1e} of the range")
    assert share(ours, theirs) <= TOLERANCE


def test_where_the_rule_differs_from_the_library() -> None:
    """Rule 1.24: rows whose largest value is below 1e-5, and nowhere else."""
    import torch

    quant = make_bitnet.bitnet.ActQuant.forward
    quant = getattr(quant, "_torchdynamo_orig_callable", quant)
    rng = np.random.default_rng(5)
    for size in (1e-5, 1e-3, 1.0, 1e3):
        x = (rng.uniform(-1, 1, (200, 70)) * size).astype(np.float32)
        x[:, 0] = size
        theirs = quant(None, torch.from_numpy(x)).numpy()
        ours = round_activations(x, L.Q2R)
        np.testing.assert_allclose(ours, theirs, rtol=2.0**-22, atol=0)
    x = np.full((1, 70), 1e-6, np.float32)
    assert quant(None, torch.from_numpy(x)).numpy().max() < 1.03e-6  # 13 of 1.27e7 · 1e-6
    assert np.allclose(round_activations(x, L.Q2R), 1e-6, rtol=1e-6)
    x[:] = 3e-8
    assert not quant(None, torch.from_numpy(x)).numpy().any()
    assert round_activations(x, L.Q2R).all()
