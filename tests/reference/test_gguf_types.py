"""The types of GGUF's tensors and the container against the gguf package: what it dequantizes, what
it writes and what it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")

import gguf_models  # noqa: E402
from conversions import convert_to
from phasor.format import layout as L  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.sources.gguf import container as gguf_file  # noqa: E402
from phasor.sources.gguf.container import GGUF, TYPES  # noqa: E402

Q = gguf.GGMLQuantizationType


def random_blocks(kind: gguf_file.Type, rng: np.random.Generator) -> np.ndarray:
    """Rows of 512 values (u8): every bit pattern of the integers, f16 scales and numbers that are
    finite."""
    raw = rng.integers(0, 256, (40, kind.bytes(512)), dtype=np.uint8)
    blocks = raw.reshape(-1).view(kind.block)
    for name in ("d", "m", "x"):
        if name in (kind.block.names or ()):
            values = rng.normal(size=blocks.shape).astype(np.float32)
            blocks[name] = values.view("<u4") >> 16 if kind.name == "BF16" else values
    return raw


@pytest.mark.parametrize("number", TYPES)
def test_every_value_is_the_packages(number: int) -> None:
    kind, own = TYPES[number], Q(number)
    assert (kind.name, (kind.size, kind.block.itemsize)) == (own.name, gguf.GGML_QUANT_SIZES[own])
    raw = random_blocks(kind, np.random.default_rng(number))
    want = gguf.quants.dequantize(raw.view({"F32": "<f4", "F16": "<f2"}.get(own.name, "u1")), own)
    tensor = gguf_file.Tensor(kind, want.shape, raw.reshape(-1))
    assert np.array_equal(tensor.load(), want)
    if kind.keeps in L.QUANTIZED:
        packed = (*tensor.quantized(), want.shape[1], kind.keeps)
        assert np.array_equal(L.dequantize(*packed, np.float32), want)


def test_names_of_other_types_are_the_packages() -> None:
    named = {**{number: kind.name for number, kind in TYPES.items()}, **gguf_file._OTHERS}
    assert {own.value: own.name for own in Q} == {
        number: named.get(number) for number in (own.value for own in Q)
    }


def test_a_file_is_read_as_the_package_reads_it(tmp_path: Path) -> None:
    gguf_models.write(tmp_path / "model.gguf", gguf_models.CASES["gemma3"])
    ours, theirs = GGUF(tmp_path / "model.gguf"), gguf.GGUFReader(tmp_path / "model.gguf")
    assert ours.metadata == {
        name: field.contents()
        for name, field in theirs.fields.items()
        if not name.startswith("GGUF.")
    }
    assert list(ours) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        assert np.array_equal(ours.load(tensor.name), tensor.data.reshape(tensor.shape[::-1]))


@pytest.mark.parametrize(
    "own, kind", [(Q.Q8_0, L.Q8), (Q.Q4_0, L.Q4), (Q.Q4_1, L.Q4M), (Q.Q5_0, L.Q8)]
)
def test_quantized_files_are_repacked_without_loss(tmp_path: Path, own: Q, kind: int) -> None:
    case = gguf_models.CASES["llama"]
    types = {name: own for name, value in gguf_models.tensors_of(case).items() if value.ndim == 2}
    values = gguf_models.write(tmp_path / "model.gguf", case, types=types)
    convert_to(tmp_path / "model.gguf", tmp_path / "model.phasor")
    file = PhasorFile(tmp_path / "model.phasor")
    exact = {
        name: gguf.quants.dequantize(gguf.quants.quantize(value, own), own)
        for name, value in values.items()
        if name in types
    }
    for slot in R.slots(file.descriptor):
        if slot.stack == R.DECODER and slot.matrix:
            names = {
                R.QKV: ("attn_q", "attn_k", "attn_v"),
                R.ATTENTION_OUT: ("attn_output",),
                R.FFN_IN: ("ffn_gate", "ffn_up"),
                R.FFN_OUT: ("ffn_down",),
            }[slot.role]
            want = np.concatenate([exact[f"blk.{slot.set}.{name}.weight"] for name in names])
            assert file.entries[slot.key].type == kind
            assert np.array_equal(file.weights(slot.key).astype(np.float32), want), slot.name
    for key, name in (
        (R.TARGET << 24 | R.EMBEDDING, "token_embd.weight"),
        (R.OUTPUT << 24 | R.OUTPUT_WEIGHT, "output.weight"),
    ):
        assert file.entries[key].type == kind and np.array_equal(
            file.weights(key).astype(np.float32), exact[name]
        )
