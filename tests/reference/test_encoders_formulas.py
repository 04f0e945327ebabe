"""Inputs, blocks and outputs of encoders, of random models of odd sizes: the float64 reference and
phasor against the formulas in PyTorch (tests/support/formulas.py), alone and in batches."""

import json

import numpy as np
import pytest
import torch

from formulas import Formulas, call, distance, text_of
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import VECTOR
from phasor.reference.forward import Reference
from random_models import encoder, write_random

DOUBLE, SINGLE = 1e-12, 1e-5
MASK, LENGTHS = 3, (1, 2, 7, 37)
HEAD = {
    "head_width": 15,
    "head_bias": 1,
    "head_activation": D.GELU_ERF,
    "head_norm": D.LAYER_NORM,
    "head_norm_eps": 1e-6,
}
BASE = {
    "attention_biases": D.ATTENTION_BIASES,
    "ffn_biases": D.FFN_BIASES,
    "activation": D.GELU_ERF,
    "heads": 3,
    "head_width": 7,
}


def weights_of(slot: R.Slot) -> np.ndarray:
    """Random: norms near one, the rest near zero."""
    rng, rows = np.random.default_rng(slot.key + 2), sum(slot.parts)
    if slot.type != 1:
        return 500.0 ** (-np.arange(rows) / rows)
    if slot.layout == VECTOR:
        return rng.normal(size=rows) * 0.3 + ("norm" in slot.name and "weight" in slot.name)
    return rng.normal(size=(rows, slot.cols)) * (
        1.0 if slot.stack == R.SOURCE and slot.role < R.EMBEDDING_NORM else 1.3 / np.sqrt(slot.cols)
    )


def descriptor_of(stack: dict | None = None, output: dict | None = None, **kind) -> dict:
    return encoder({"width": 23, **(stack or {})}, output, {"mask": MASK}, **{**BASE, **kind})


def ids_of(count: int) -> list[int]:
    return [MASK, *np.random.default_rng(count).integers(0, 29, count).tolist()][:count]


def segments_of(count: int, rows: int) -> list[int]:
    return np.random.default_rng(50 + count).integers(0, max(rows, 1), count).tolist()


def program_output(phasor, path, what: int, ids: list[int], *more: object) -> np.ndarray:
    """The output rows (R, W) of phasor, or its hidden states."""
    out = path.with_suffix(".npy")
    flags = {
        D.POOLED: ("embed", "--npy"),
        D.HIDDEN: ("embed", "--pooling", "first", "--hidden"),
        D.LOGITS: ("fill", "--logits"),
        D.CLASSES: ("classify", "--logits"),
    }
    command, *flag = flags[what]
    call(phasor, command, path, "--ids", text_of(ids), *more, *flag, out)
    return np.load(out)[-1] if what == D.HIDDEN else np.load(out)


def compare(tmp_path, phasor, descriptor: dict) -> None:
    file = write_random(tmp_path / "m.phasor", descriptor, weights=weights_of)
    theirs, ours = Formulas(file), Reference(file)
    what, rows = ours.d["output"]["output"], ours.d["encoder"]["segments"]
    for count in LENGTHS:
        ids, segments = ids_of(count), segments_of(count, rows)
        hidden, trace = theirs.stack("encoder", ids, None, segments), ours.encode(ids, segments)
        want = hidden if what == D.HIDDEN else theirs.output(hidden)
        assert (
            distance(trace.output, hidden) <= DOUBLE
            and distance(ours.output(trace), want) <= DOUBLE
        )
        got = program_output(
            phasor, file.path, what, ids, *(["--segments", text_of(segments)] if rows else [])
        )
        assert got.shape == tuple(want.shape) and distance(got, want) <= SINGLE, (
            f"phasor, {count} tokens"
        )


@pytest.mark.parametrize(
    "stack",
    [
        {"segments": 3},
        {"embedding_norm": D.LAYER_NORM, "embedding_norm_eps": 1e-12},
        {"embedding_norm": D.RMS_NORM, "embedding_norm_eps": 1e-6},
        {"embedding_width": 9},
        {"embedding_width": 40, "projection_bias": 1, "position": D.HALVES},
        {
            "segments": 2,
            "embedding_width": 13,
            "projection_bias": 1,
            "position": D.LEARNED,
            "max_positions": 37,
            "embedding_norm": D.LAYER_NORM,
            "embedding_norm_eps": 1e-5,
            "embedding_scale": 1.7,
        },
    ],
    ids=lambda stack: " ".join(stack),
)
def test_inputs(tmp_path, phasor, stack):
    compare(tmp_path, phasor, descriptor_of(stack))


@pytest.mark.parametrize(
    "kind",
    [
        {"norm_place": D.AFTER},
        {"norm_place": D.BOTH},
        {"norm_place": D.BOTH, "norm": D.RMS_NORM, "residual_scale": 0.7},
        {"norm_biases": 0},
        {"norm": D.RMS_NORM, "norm_biases": 1},
        {"attention_norm": 0},
        {"qk_norm": D.LAYER_NORM},
        {"qk_norm": D.RMS_NORM, "position": D.ROTARY_HALVES, "rotary_width": 6},
        {"gated": 1, "activation": D.SILU},
        {"gated": 1, "activation": D.GELU_TANH},
        {"kv_heads": 1, "attention_biases": 0},
        {"attention_biases": 2},
        {"cap": 2.0},
        {"window": 1},
        {"window": 3},
        {"window": 33},
        {"window": 101},
    ],
    ids=str,
)
def test_blocks(tmp_path, phasor, kind):
    compare(tmp_path, phasor, descriptor_of(**kind))


def test_shared_layers_and_kinds(tmp_path, phasor):
    """Five layers of three sets and two kinds: one sees all keys, one a window."""
    descriptor = descriptor_of(
        {
            "layers": [0, 0, 1, 1, 0, 0, 0, 2, 1, 1],
            "final_norm": D.LAYER_NORM,
            "final_norm_eps": 1e-5,
        },
        position=D.ROTARY_HALVES,
        rotary_width=6,
    )
    descriptor["kinds"].append(
        {**descriptor["kinds"][0], "window": 5, "position": D.ALIBI, "rotary_width": 0}
    )
    compare(tmp_path, phasor, descriptor)


@pytest.mark.parametrize(
    "output",
    [
        {"output": D.POOLED, "pooling": D.MEAN},
        {"output": D.POOLED, "pooling": D.FIRST, "normalize": 1},
        {"output": D.POOLED, "pooling": D.LAST, "normalize": 1},
        {"output": D.POOLED, "pooling": D.MEAN, "normalize": 1, **HEAD},
        {"output": D.POOLED, "pooling": D.FIRST, "head_width": 40, "head_activation": D.TANH},
        {"output": D.LOGITS},
        {"output": D.LOGITS, "bias": 1, "scale": 0.25, "cap": 3.0},
        {"output": D.LOGITS, "tied": D.TIED_SOURCE, "bias": 1, **{**HEAD, "head_width": 23}},
        {
            "output": D.LOGITS,
            "head_norm": D.RMS_NORM,
            "head_norm_eps": 1e-6,
            "head_activation": D.SILU,
        },
        {"output": D.CLASSES, "classes": 1, "pooling": D.FIRST},
        {"output": D.CLASSES, "classes": 5, "pooling": D.MEAN, "bias": 1, **HEAD},
        {"output": D.CLASSES, "classes": 17, "bias": 1},
        {"output": D.CLASSES, "classes": 5, **HEAD, "head_activation": D.RELU},
    ],
    ids=str,
)
def test_outputs(tmp_path, phasor, output):
    compare(
        tmp_path,
        phasor,
        descriptor_of({"final_norm": D.LAYER_NORM, "final_norm_eps": 1e-5}, output),
    )


def test_a_tied_output_of_a_narrow_embedding(tmp_path, phasor):
    compare(
        tmp_path,
        phasor,
        descriptor_of(
            {"embedding_width": 15, "projection_bias": 1},
            {"output": D.LOGITS, "tied": D.TIED_SOURCE, **HEAD},
        ),
    )


@pytest.mark.parametrize("scores", [D.SOFTMAX, D.SIGMOID, D.PLAIN])
@pytest.mark.parametrize("pooling", [0, D.FIRST])
def test_scores_of_classes(tmp_path, phasor, scores, pooling):
    labels = "".join(f"{name}{D.RECORD_END}" for name in "abcde")
    descriptor = descriptor_of(
        output={
            "output": D.CLASSES,
            "classes": 5,
            "bias": 1,
            "pooling": pooling,
            "scores": scores,
            "labels": labels,
        }
    )
    file = write_random(tmp_path / "m.phasor", descriptor, weights=weights_of)
    theirs = Formulas(file)
    want = theirs.output(theirs.stack("encoder", ids_of(7)))
    want = (
        want.softmax(1) if scores == D.SOFTMAX else want.sigmoid() if scores == D.SIGMOID else want
    )
    found = json.loads(call(phasor, "classify", file.path, "--ids", text_of(ids_of(7)), "--json"))
    rows = [found["labels"]] if pooling else [token["labels"] for token in found["tokens"]]
    assert len(rows) == len(want)
    for row, values in zip(rows, want):
        assert [one["score"] for one in row] == sorted((one["score"] for one in row), reverse=True)
        assert [one["score"] for one in sorted(row, key=lambda one: one["label"])] == pytest.approx(
            values.tolist(), rel=1e-4, abs=1e-5
        )


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"position": D.RELATIVE_KEY_QUERY, "max_distance": 37},
        {"position": D.THREE_WAY, "max_distance": 40},
        {"position": D.DISENTANGLED, "max_distance": 37},
        {"position": D.CLIPPED, "max_distance": 4},
        {"position": D.T5_BIAS, "max_distance": 6},
        {"position": D.ALIBI, "window": 9},
        {"position": D.ROTARY_HALVES, "rotary_width": 6},
        {"score": D.ADDITIVE},
    ],
    ids=str,
)
def test_batches(tmp_path, phasor, kind):
    """Texts of several lengths in one call: the bits of each alone, and near the formulas."""
    file = write_random(
        tmp_path / "m.phasor",
        descriptor_of(output={"output": D.POOLED, "pooling": D.MEAN, "normalize": 1}, **kind),
        weights=weights_of,
    )
    theirs, texts = Formulas(file), [ids_of(count) for count in (5, 37, 1, 16, 2, 17, 33)]
    with torch.no_grad():
        want = torch.cat([theirs.output(theirs.stack("encoder", ids)) for ids in texts])
    found = []
    for batch in (1, 3, 7):
        call(
            phasor,
            "embed",
            file.path,
            "--ids",
            "-",
            "--batch",
            batch,
            "--npy",
            tmp_path / "v.npy",
            stdin="".join(f"{text_of(ids)}\n" for ids in texts),
        )
        found.append(np.load(tmp_path / "v.npy"))
    assert distance(found[0], want) <= SINGLE
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
