"""GGUF files with I2_S, the type of BitNet's own program: beside its definition, value by value, in
both orders of columns, and what is wrong with a file in one line."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import test_gguf

from conversions import convert_to, refused
from gguf_bytes import F32, STRING, U32, container
from phasor import convert
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile

WIDTH, HIDDEN, HEADS, ROWS = 128, 256, 4, 40
I2_S, F32_TYPE = 36, 0
X86 = ("--i2s-blocks", "128")
MATRICES = {
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (WIDTH // 2, WIDTH),
    "attn_v": (WIDTH // 2, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "ffn_gate": (HIDDEN, WIDTH),
    "ffn_up": (HIDDEN, WIDTH),
    "ffn_down": (WIDTH, HIDDEN),
}
PARTS = {
    R.QKV: ("attn_q", "attn_k", "attn_v"),
    R.ATTENTION_OUT: ("attn_output",),
    R.FFN_IN: ("ffn_gate", "ffn_up"),
    R.FFN_OUT: ("ffn_down",),
}


def i2(shape: tuple[int, int], scale: float, size: int, rng: np.random.Generator):
    """(bytes, values): value j of a block of `size` in byte j % (size/4), the first in the highest
    bits; then the scale, and zeros up to 32 bytes."""
    codes = rng.integers(0, 3, shape[0] * shape[1])
    data, each = bytearray(len(codes) // 4), size // 4
    for i, code in enumerate(codes):
        block, j = divmod(i, size)
        data[block * each + j % each] |= int(code) << 6 - 2 * (j // each)
    raw = bytes(data) + struct.pack("<f", scale) + bytes(28)
    return raw, ((codes - 1) * np.float32(scale)).astype(np.float32).reshape(shape)


def model(size: int = 128, kind: str = "bitnet-b1.58", scale: float | None = None):
    """(keys, tensors, the values of the matrices)."""
    rng = np.random.default_rng(size)
    keys = {
        name.replace("llama.", f"{kind}."): value
        for name, value in test_gguf.metadata(WIDTH, HIDDEN).items()
    }
    keys |= {
        "general.architecture": (STRING, kind),
        f"{kind}.rope.freq_base": (F32, 500000.0),
        f"{kind}.rope.dimension_count": (U32, WIDTH // HEADS),
    }
    tensors, values = {}, {}

    def put(name: str, shape: tuple[int, ...]) -> None:
        data = rng.normal(0.0 if len(shape) == 2 else 1.0, 0.3, shape).astype(np.float32)
        tensors[f"{name}.weight"] = (shape[::-1], F32_TYPE, data.tobytes())

    put("token_embd", (ROWS, WIDTH))
    put("output", (ROWS, WIDTH))
    put("output_norm", (WIDTH,))
    for i in range(2):
        for norm, width in (("attn_norm", WIDTH), ("attn_sub_norm", WIDTH), ("ffn_norm", WIDTH)):
            put(f"blk.{i}.{norm}", (width,))
        put(f"blk.{i}.ffn_sub_norm", (HIDDEN,))
        for name, shape in MATRICES.items():
            own = rng.uniform(0.01, 0.1) if scale is None else scale
            raw, values[f"blk.{i}.{name}"] = i2(shape, own, size, rng)
            tensors[f"blk.{i}.{name}.weight"] = (shape[::-1], I2_S, raw)
    return keys, tensors, values


def write(folder: Path, keys: dict, tensors: dict) -> Path:
    (folder / "m.gguf").write_bytes(container(keys, tensors))
    return folder / "m.gguf"


@pytest.mark.parametrize("size", [128, 64])
def test_values_are_those_of_the_definition(size: int, tmp_path: Path, capsys) -> None:
    keys, tensors, values = model(size)
    flags = ("--i2s-blocks", str(size))
    source = write(tmp_path, keys, tensors)
    exact = PhasorFile(convert_to(source, tmp_path / "f32.phasor", "--type", "f32", *flags))
    capsys.readouterr()
    assert convert.main([str(w) for w in (source, "-o", tmp_path / "m.phasor", *flags)]) == 0
    file, said = PhasorFile(tmp_path / "m.phasor"), capsys.readouterr().err
    assert "14 I2_S to q2r (exactly)" in said
    assert "inputs of 8 bits, as those that the model was trained with" in said
    file.check()
    for slot in R.slots(file.descriptor):
        if slot.stack != R.DECODER or not slot.matrix:
            continue
        names = [f"blk.{slot.set}.{name}" for name in PARTS[slot.role]]
        wanted = np.concatenate([values[name] for name in names])
        entry = file.entries[slot.key]
        assert (entry.type, entry.inputs) == (L.Q2R, 0)
        for found in (file, exact):
            assert np.array_equal(found.weights(slot.key).astype(np.float32), wanted), slot.name
        source_bytes = sum(len(tensors[f"{name}.weight"][2]) for name in names)
        assert entry.bytes <= 1.07 * source_bytes + 64 * entry.panels  # scales of 16 rows


def test_the_other_order_is_another_model(tmp_path: Path) -> None:
    """The file does not say its order, so the wrong one gives other weights and no error."""
    keys, tensors, _ = model(64)
    source = write(tmp_path, keys, tensors)
    files = [
        convert_to(source, tmp_path / f"{n}.phasor", "--i2s-blocks", str(n)).read_bytes()
        for n in (64, 128)
    ]
    assert files[0] != files[1]


def test_a_scale_of_zero_is_zeros(tmp_path: Path) -> None:
    keys, tensors, values = model(scale=0.0)
    file = PhasorFile(convert_to(write(tmp_path, keys, tensors), tmp_path / "m.phasor", *X86))
    file.check()
    slots = [s for s in R.slots(file.descriptor) if s.matrix and s.stack == R.DECODER]
    assert not any(file.weights(slot.key).any() for slot in slots)
    assert {file.entries[slot.key].type for slot in slots} == {L.Q2R}


def test_llama_with_ternary_weights(tmp_path: Path) -> None:
    keys, tensors, values = model(kind="llama")
    tensors = {name: t for name, t in tensors.items() if "sub_norm" not in name}
    file = PhasorFile(convert_to(write(tmp_path, keys, tensors), tmp_path / "m.phasor", *X86))
    slot = next(s for s in R.slots(file.descriptor) if s.role == R.FFN_OUT and s.matrix)
    assert np.array_equal(file.weights(slot.key).astype(np.float32), values["blk.0.ffn_down"])


def test_the_order_must_be_said(tmp_path: Path, capsys) -> None:
    keys, tensors, _ = model()
    source = write(tmp_path, keys, tensors)
    line = refused(source, tmp_path / "m.phasor", capsys)
    assert "does not say in which order" in line and "TRY: --i2s-blocks 128" in line
    convert_to(source, tmp_path / "m.phasor", *X86)


NAME = "blk.0.ffn_down.weight"
WRONG = {
    "a scale below zero": (-0.5, "has the scale -0.5, expected 0 or a number from 2^-38 on"),
    "a scale below the least": (1e-12, "has the scale 1e-12, expected 0 or a number from 2^-38"),
    "a scale that is no number": (np.nan, "a value is not finite"),
    "a scale that is infinite": (np.inf, "a value is not finite"),
    "a scale that leaves f32 with code 3": (3e38, "a value is not finite"),
}


@pytest.mark.parametrize("case", WRONG)
def test_scales_that_are_refused(case: str, tmp_path: Path, capsys) -> None:
    scale, says = WRONG[case]
    keys, tensors, _ = model()
    shape, kind, raw = tensors[NAME]
    tensors[NAME] = (shape, kind, raw[:-32] + struct.pack("<f", scale) + bytes(28))
    line = refused(write(tmp_path, keys, tensors), tmp_path / "m.phasor", capsys, *X86)
    assert NAME in line and says in line
    assert "--type f32" in line or not says.startswith("has")


def test_shapes_and_places_that_are_refused(tmp_path: Path, capsys) -> None:
    keys, tensors, _ = model()
    shape, kind, raw = tensors[NAME]
    for given, says in (
        (((192, 128), kind, raw), "has rows of 192 values, I2_S needs a multiple of 128"),
        ((shape, 37, raw), "has type 37, which is not supported"),
    ):
        source = write(tmp_path, keys, {**tensors, NAME: given})
        line = refused(source, tmp_path / "m.phasor", capsys, *X86)
        assert NAME in line and says in line
    last = {**{n: t for n, t in tensors.items() if n != NAME}, NAME: (shape, kind, raw[:-32])}
    line = refused(write(tmp_path, keys, last), tmp_path / "m.phasor", capsys, *X86)
    assert f"{NAME}: has {len(raw)} bytes" in line  # the scale is behind the end of the file
