"""The types of GGUF's tensors and the container against the gguf package: what it dequantizes, what
it writes and what it reads."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")

import gguf_models  # noqa: E402
from conversions import convert_to, problems
from phasor.errors import PhasorError  # noqa: E402
from phasor.format import layout as L  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.sources.gguf import container as gguf_file  # noqa: E402
from phasor.sources.gguf import types as gguf_types  # noqa: E402
from phasor.sources.gguf.container import GGUF, TYPES  # noqa: E402
from places import ROOT

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
    if kind.name == "MXFP4":  # whose scales are f16
        blocks["e"] = rng.integers(104, 144, blocks.shape)
    return raw


@pytest.mark.parametrize("number", [n for n in TYPES if n in {*gguf.quants._type_traits, 0, 1}])
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
    named = {**{number: kind.name for number, kind in TYPES.items()}, **gguf_types.OTHERS}
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
    "own, kind",
    [(Q.Q8_0, L.Q8), (Q.Q4_0, L.Q4), (Q.Q4_1, L.Q4M), (Q.Q5_0, L.Q5M), (Q.Q5_1, L.Q5M)],
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


# ---- Codes of four bits and fewer

_WIDTH, _HIDDEN = 512, 1024  # whose scales need no padding
# A name, its number, values of a block, and what a value may take beside the source's bytes.
_CODES = {
    "IQ4_NL": (20, L.Q4T, 1.03),
    "MXFP4": (39, L.Q4T, 1.07),
    "TQ1_0": (34, L.Q2W, 1.25),
    "TQ2_0": (35, L.Q2W, 1.03),
    "Q1_0": (41, L.Q1, 1.03),
    "Q2_0": (42, L.Q2, 1.03),
    "Q2_0 of 64": (42, L.Q2, 1.03),
}


def _large() -> dict[str, np.ndarray]:
    """Tensors of one layer whose rows fill blocks of 256."""
    rng = np.random.default_rng(7)
    shapes = {
        "token_embd": (96, _WIDTH),
        "output": (96, _WIDTH),
        "output_norm": (_WIDTH,),
        "blk.0.attn_norm": (_WIDTH,),
        "blk.0.ffn_norm": (_WIDTH,),
        "blk.0.attn_q": (_WIDTH, _WIDTH),
        "blk.0.attn_k": (_WIDTH // 2, _WIDTH),
        "blk.0.attn_v": (_WIDTH // 2, _WIDTH),
        "blk.0.attn_output": (_WIDTH, _WIDTH),
        "blk.0.ffn_gate": (_HIDDEN, _WIDTH),
        "blk.0.ffn_up": (_HIDDEN, _WIDTH),
        "blk.0.ffn_down": (_WIDTH, _HIDDEN),
    }
    return {f"{n}.weight": rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}


_TENSORS = _large()
_MATRICES = [name for name, value in _TENSORS.items() if value.ndim == 2]
_KEYS = {"embedding_length": _WIDTH, "feed_forward_length": _HIDDEN, "block_count": 1}
_KEYS["rope.dimension_count"] = _WIDTH // 4


def _raw(name: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Rows of blocks (u8) of any bits, with scales of a weight's size."""
    kind = gguf_types.Q2_0_OF_64 if name == "Q2_0 of 64" else TYPES[_CODES[name][0]]
    raw = rng.integers(0, 256, (shape[0], kind.bytes(shape[1])), dtype=np.uint8)
    blocks = raw.reshape(-1).view(kind.block)
    if name == "MXFP4":
        blocks["e"] = rng.integers(118, 126, blocks.shape)
    elif name == "Q2_0 of 64":  # two of one scale
        blocks["b"]["d"] = rng.normal(0, 0.05, (len(blocks), 1)).astype(np.float16)
    else:
        blocks["d"] = rng.normal(0, 0.05, blocks.shape).astype(np.float16)
    return raw


def _formula(name: str, raw: np.ndarray) -> np.ndarray:
    """What the package says; of types that it does not know the published formulas: (code − 1)·d
    and ±d, the first value in the lowest bits."""
    if name not in ("Q1_0", "Q2_0", "Q2_0 of 64"):
        return gguf.quants.dequantize(raw, Q(_CODES[name][0]))
    size, bits = {"Q1_0": (18, 1), "Q2_0": (34, 2), "Q2_0 of 64": (18, 2)}[name]
    values = []
    for block in raw.reshape(-1, size):
        d = np.frombuffer(block[:2].tobytes(), np.float16).astype(np.float32)[0]
        codes = [int(b) >> i & (1 << bits) - 1 for b in block[2:] for i in range(0, 8, bits)]
        values += [d * np.float32(n - 1 if bits == 2 else 2 * n - 1) for n in codes]
    return np.array(values, np.float32).reshape(len(raw), -1)


@pytest.mark.parametrize("name", [name for name in _CODES if name != "Q2_0"])
def test_codes_are_llama_cpps(name: str) -> None:
    """Its own function for a row of this type; its Q2_0 has blocks of 64."""
    found = sorted(ROOT.glob(".venv-bench/lib/*/site-packages/llama_cpp/lib/libggml-base.so"))
    if not found:
        pytest.skip("no llama.cpp: `make .venv-bench/ready` installs it")
    library = ctypes.CDLL(str(found[0]))
    widen = getattr(library, "dequantize_row_" + name.split()[0].lower())
    kind = gguf_types.Q2_0_OF_64 if name == "Q2_0 of 64" else TYPES[_CODES[name][0]]
    raw = _raw(name, (16, 512), np.random.default_rng(3))
    want = np.zeros((16, 512), np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (raw, want)]
    widen(*pointers, ctypes.c_int64(want.size))
    assert np.array_equal(gguf_file.Tensor(kind, want.shape, raw.reshape(-1)).load(), want)


class _Converted:
    """A file whose matrices have types of _CODES, converted. raw: blocks by the tensor's name."""

    def __init__(self, folder: Path, names: dict[str, str], monkeypatch: Any) -> None:
        own = {name: Q(_CODES[name][0]) for name in names.values() if not name.startswith("Q2")}
        for name, size in (("Q2_0", (128, 34)), ("Q2_0 of 64", (64, 18))):
            if name in names.values():  # which the package does not know
                own[name] = fake = int.__new__(Q, 42)
                fake._name_, fake._value_ = "Q2_0", 42
                monkeypatch.setitem(gguf.GGML_QUANT_SIZES, fake, size)
        rng = np.random.default_rng(len(names))
        self.names, self.raw = (
            names,
            {tensor: _raw(name, _TENSORS[tensor].shape, rng) for tensor, name in names.items()},
        )
        made = {_TENSORS[tensor].tobytes(): raw for tensor, raw in self.raw.items()}
        gguf_models.write(
            folder / "m.gguf",
            gguf_models.CASES["llama"],
            _TENSORS,
            {tensor: own[name] for tensor, name in names.items()},
            _KEYS,
            quantize=lambda value, _: made[value.tobytes()],
        )
        convert_to(folder / "m.gguf", folder / "m.phasor")
        self.file = PhasorFile(folder / "m.phasor")
        self.file.check()

    def check(self) -> dict[str, tuple[int, float]]:
        """Every value is the formula's. For each matrix its type, and how many times the source's
        bytes it has without the tables of its panels."""
        parts = {
            R.QKV: ("attn_q", "attn_k", "attn_v"),
            R.ATTENTION_OUT: ("attn_output",),
            R.FFN_IN: ("ffn_gate", "ffn_up"),
            R.FFN_OUT: ("ffn_down",),
        }
        found = {}
        for slot in R.slots(self.file.descriptor):
            if not slot.matrix:
                continue
            names = [f"blk.0.{part}.weight" for part in parts.get(slot.role, ())]
            if slot.stack != R.DECODER:
                names = ["output.weight" if slot.stack == R.OUTPUT else "token_embd.weight"]
            want = np.concatenate([_formula(self.names[n], self.raw[n]) for n in names])
            entry = self.file.entries[slot.key]
            assert np.array_equal(self.file.weights(slot.key).astype(np.float32), want), slot.name
            source = sum(self.raw[n].size for n in names)
            tables = 64 * max(1, entry.panels) if entry.type in L.TABLES else 0
            found[slot.name] = entry.type, (entry.bytes - tables) / source
        return found


@pytest.mark.parametrize("name", _CODES)
def test_codes_are_kept_as_they_are(tmp_path: Path, name: str, monkeypatch: Any) -> None:
    _, kind, most = _CODES[name]
    names = dict.fromkeys(_MATRICES, name)
    for where, (own, size) in _Converted(tmp_path, names, monkeypatch).check().items():
        assert own == kind and size <= most, (where, size)


def test_two_types_of_a_matrix_have_the_finer_scales(tmp_path: Path, monkeypatch: Any) -> None:
    names = dict.fromkeys(_MATRICES, "TQ1_0")
    names |= {"blk.0.attn_k.weight": "TQ2_0", "blk.0.ffn_up.weight": "Q2_0"}
    found = _Converted(tmp_path, names, monkeypatch).check()
    types = {where: own for where, (own, _) in found.items()}
    assert sorted(types.values()) == sorted([L.Q2] + (len(types) - 1) * [L.Q2W])
    (mixed,) = (where for where, own in types.items() if own == L.Q2)
    assert mixed == "decoder 0 feed-forward in weight"


def test_i2s_is_tq2_with_its_fields_turned_around() -> None:
    """Of blocks of 128, by the package: TQ2_0 has the same bytes, the first value in the lowest
    bits and not in the highest."""
    kind, rng = TYPES[gguf_types.I2_S], np.random.default_rng(9)
    raw = rng.integers(0, 256, (16, 512 // 4), dtype=np.uint8)
    turned = sum((raw >> 2 * i & 3) << 6 - 2 * i for i in range(4)).astype(np.uint8)
    blocks = np.zeros((16, 2, 66), np.uint8)
    blocks[:, :, :64] = turned.reshape(16, 2, 64)
    blocks[:, :, 64:] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    scale = np.float32(0.0371)
    want = gguf.quants.dequantize(blocks.reshape(16, -1), Q.TQ2_0) * scale
    data = np.concatenate([raw.reshape(-1), np.frombuffer(scale.tobytes() + bytes(28), np.uint8)])
    tensor = gguf_file.Tensor(kind, (16, 512), data)
    assert data.size == kind.bytes(16 * 512) and np.array_equal(tensor.load(), want)
    packed = (*tensor.quantized(), 512, L.Q2R)
    assert np.array_equal(L.dequantize(*packed, np.float32), want)


def test_what_codes_do_not_hold_is_refused_by_name(tmp_path: Path) -> None:
    kind = TYPES[39]
    raw = np.zeros((2, kind.bytes(64)), np.uint8)
    blocks = raw.reshape(-1).view(kind.block)
    blocks["e"] = 40
    tensor = gguf_file.Tensor(kind, (2, 64), raw.reshape(-1))
    assert not tensor.quantized()[0].any()  # zeros have any scale
    blocks["q"] = 0x21
    with pytest.raises(PhasorError, match="scale of MXFP4 is outside of f16"):
        tensor.quantized()
    kind = gguf_types.Q2_0_OF_64
    blocks = np.zeros(4, kind.block)
    blocks["b"]["d"] = 1
    tensor = gguf_file.Tensor(kind, (2, 256), blocks.view(np.uint8))
    assert tensor.quantized()[0].tolist() == [[1, 1], [1, 1]]
    blocks["b"]["d"][3, 1] = 2
    with pytest.raises(PhasorError, match="scales of Q2_0 differ within 128 values"):
        tensor.quantized()


def test_a_scale_outside_of_f16_is_refused_and_f32_takes_it(tmp_path: Path, capsys) -> None:
    def quantize(value: np.ndarray, _: Q) -> np.ndarray:
        raw = _raw("MXFP4", value.shape, np.random.default_rng(1))
        raw.reshape(-1).view(TYPES[39].block)["e"] = 90
        return raw

    source, name = tmp_path / "m.gguf", "blk.0.ffn_down.weight"
    gguf_models.write(
        source,
        gguf_models.CASES["llama"],
        _TENSORS,
        {name: Q.MXFP4},
        _KEYS,
        quantize=quantize,
    )
    said = problems(source, tmp_path / "m.phasor", capsys)
    assert f"{name}: a scale of MXFP4 is outside of f16" in said and "--type f32" in said
    file = PhasorFile(convert_to(source, tmp_path / "m.phasor", "--type", "f32"))
    want = gguf.quants.dequantize(quantize(_TENSORS[name], Q.MXFP4), Q.MXFP4)
    slot = next(s for s in R.slots(file.descriptor) if s.role == R.FFN_OUT and s.matrix)
    assert np.array_equal(file.weights(slot.key).astype(np.float32), want)
