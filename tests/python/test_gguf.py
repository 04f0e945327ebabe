"""GGUF files: what is kept without loss, what is widened, and what is refused with one line. The
files are written here, from the format's definition."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from gguf_bytes import ARRAY, BOOL, F32, I32, STRING, U32, U64, container, text
from phasor import convert  # noqa: E402
from phasor.format import layout as L  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.format.layout import PhasorError  # noqa: E402
from phasor.sources.gguf import architectures as gguf  # noqa: E402
from phasor.sources.gguf import container as gguf_file  # noqa: E402
from phasor.sources.gguf.container import GGUF, twos_of  # noqa: E402
from phasor.sources.gguf.types import Q2_0, Q2_0_OF_64, TYPES  # noqa: E402
from places import told

WIDTH, HIDDEN, VOCABULARY, HEADS = 64, 96, 50, 4
NUMBER = {name: number for number, (name, *_) in gguf_file.TYPES.items()}


def metadata(width: int = WIDTH, hidden: int = HIDDEN) -> dict[str, tuple[int, Any]]:
    return {
        "general.architecture": (STRING, "llama"),
        "general.name": (STRING, "Small"),
        "llama.block_count": (U32, 2),
        "llama.context_length": (U32, 40),
        "llama.embedding_length": (U32, width),
        "llama.feed_forward_length": (U32, hidden),
        "llama.attention.head_count": (U32, HEADS),
        "llama.attention.head_count_kv": (U32, 2),
        "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
    }


def quantized(
    kind: str, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[bytes, np.ndarray]:
    """Blocks of random values with scales of both signs, and what they mean in float64."""
    scales = rng.normal(0, 0.02, (shape[0], shape[1] // 32)).astype(np.float16)
    q = rng.integers(*((-128, 128) if kind == "Q8_0" else (-8, 8)), (*scales.shape, 32))
    if kind == "Q8_0":
        packed = q.astype(np.int8).view(np.uint8)
    else:
        packed = (q[..., :16] + 8 | q[..., 16:] + 8 << 4).astype(np.uint8)
    raw = np.concatenate(
        [scales[..., None].view(np.uint8).reshape(*scales.shape, 2), packed], axis=2
    )
    return raw.tobytes(), (q * scales.astype(np.float64)[..., None]).reshape(shape)


def numbers(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 0.02, shape).astype(np.float16)


def nibbles(n: np.ndarray) -> np.ndarray:
    """(…, 2, H) of 0 … 15 -> bytes (…, H): the first half in the low bits."""
    return (n[..., 0, :] | n[..., 1, :] << 4).astype(np.uint8)


def with_minima(
    kind: str, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[bytes, np.ndarray]:
    """Blocks of Q4_1, Q4_K, Q5_1 and Q5_K, written from their definition."""
    most = 32 if kind.startswith("Q5") else 16
    if kind.endswith("_1"):
        both = numbers((shape[0], shape[1] // 32, 2), rng)
        n = rng.integers(0, most, (*both.shape[:2], 32))
        raw = [both.view(np.uint8), nibbles(n.reshape(*both.shape[:2], 2, 16) & 15)]
        if most == 32:
            raw.insert(1, np.packbits(n >> 4, axis=2, bitorder="little"))
        d, m = np.moveaxis(both.astype(np.float64), 2, 0)
        return np.concatenate(raw, axis=2).tobytes(), (n * d[..., None] + m[..., None]).reshape(
            shape
        )
    both = numbers((shape[0], shape[1] // 256, 2), rng)
    s, t = rng.integers(0, 64, (2, *both.shape[:2], 8))
    codes = np.zeros((*both.shape[:2], 12), np.uint8)
    for j in range(4):
        codes[..., j] = s[..., j] | s[..., j + 4] >> 4 << 6
        codes[..., j + 4] = t[..., j] | t[..., j + 4] >> 4 << 6
        codes[..., j + 8] = s[..., j + 4] & 15 | (t[..., j + 4] & 15) << 4
    n = rng.integers(0, most, (*both.shape[:2], 8, 32))
    packed = nibbles(n.reshape(*both.shape[:2], 4, 2, 32) & 15).reshape(*both.shape[:2], 128)
    if most == 32:  # a bit of each sub-block in a byte
        high = np.packbits(n >> 4, axis=2, bitorder="little").reshape(*both.shape[:2], 32)
        packed = np.concatenate([high, packed], axis=2)
    d, m = np.moveaxis(both.astype(np.float64), 2, 0)[..., None]
    values = n * (d * s)[..., None] - (m * t)[..., None]
    raw = np.concatenate([both.view(np.uint8), codes, packed], axis=2)
    return raw.tobytes(), values.reshape(shape)


def blocks(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> tuple[bytes, np.ndarray]:
    """Random blocks of any other type, and what the reader says that they are."""
    own = gguf_file.TYPES[NUMBER[kind]]
    raw = rng.integers(0, 256, own.bytes(shape[0] * shape[1]), dtype=np.uint8)
    for name in {"d", "m"} & set(own.block.names):
        raw.view(own.block)[name] = numbers(raw.size // own.block.itemsize, rng)
    return raw.tobytes(), gguf_file.Tensor(own, shape, raw).load().astype(np.float64)


def tensors(
    kinds: Callable[[str], str] = lambda name: "F32", width: int = WIDTH, hidden: int = HIDDEN
) -> tuple[dict[str, tuple], dict[str, np.ndarray]]:
    """(name -> dimensions in the file's order, type, bytes), and the values in float64."""
    rng, shapes = (
        np.random.default_rng(2),
        {"token_embd": (VOCABULARY, width), "output_norm": (width,)},
    )
    for i in range(2):
        shapes |= {
            f"blk.{i}.{name}": shape
            for name, shape in (
                ("attn_norm", (width,)),
                ("attn_q", (width, width)),
                ("attn_k", (width // 2, width)),
                ("attn_v", (width // 2, width)),
                ("attn_output", (width, width)),
                ("ffn_norm", (width,)),
                ("ffn_gate", (hidden, width)),
                ("ffn_up", (hidden, width)),
                ("ffn_down", (width, hidden)),
            )
        }
    out, values = {}, {}
    for name, shape in shapes.items():
        kind = kinds(name) if len(shape) == 2 else "F32"
        if kind in ("Q8_0", "Q4_0"):
            raw, exact = quantized(kind, shape, rng)
        elif kind in ("Q4_1", "Q4_K", "Q5_1", "Q5_K"):
            raw, exact = with_minima(kind, shape, rng)
        elif kind not in ("F32", "F16", "BF16"):
            raw, exact = blocks(kind, shape, rng)
        else:
            plain = rng.normal(1 if len(shape) == 1 else 0, 0.1, shape).astype(
                {"F32": "<f4", "F16": "<f2"}.get(kind, "<f4")
            )
            if kind == "BF16":
                plain = (plain.view("<u4") >> 16).astype("<u2")
            exact = ((plain.astype("<u4") << 16).view("<f4") if kind == "BF16" else plain).astype(
                np.float64
            )
            raw = plain.tobytes()
        out[f"{name}.weight"], values[f"{name}.weight"] = (shape[::-1], NUMBER[kind], raw), exact
    return out, values


def file_bytes(
    keys: dict | None = None,
    given: dict[str, tuple] | None = None,
    offsets: dict[str, int] | None = None,
    alignment: int = 32,
) -> bytes:
    """gguf_bytes.container, of the small model where nothing else is given."""
    keys, given = metadata() if keys is None else keys, tensors()[0] if given is None else given
    return container(keys, given, offsets, alignment)


def convert_bytes(folder: Path, data: bytes, *more: str) -> int:
    (folder / "small.gguf").write_bytes(data)
    return convert.main([str(folder / "small.gguf"), "-o", str(folder / "small.phasor"), *more])


# ---- What is kept

MIXED = {
    "token_embd": "Q8_0",
    "attn_q": "Q4_0",
    "attn_k": "Q8_0",
    "attn_v": "Q4_0",
    "attn_output": "Q4_0",
    "ffn_gate": "BF16",
    "ffn_up": "BF16",
    "ffn_down": "F16",
}
QKV, OUT, FFN_IN, FFN_OUT = R.QKV, R.ATTENTION_OUT, R.FFN_IN, R.FFN_OUT


def mixed(name: str) -> str:
    """The second block has F16 where the first has Q8_0 and BF16 in one fused tensor."""
    return "F16" if name in ("blk.1.attn_k", "blk.1.ffn_up") else MIXED[name.split(".")[-1]]


def stored(file: PhasorFile, key: int) -> np.ndarray:
    return file.weights(key).astype(np.float64)


def key(stack: int, weights: int, role: int) -> int:
    return stack << 24 | weights << 8 | role


def fused(values: dict[str, np.ndarray], layer: int, *names: str) -> np.ndarray:
    return np.concatenate([values[f"blk.{layer}.{name}.weight"] for name in names])


def test_each_matrix_keeps_the_type_that_holds_all_its_values(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    given, values = tensors(mixed)
    assert convert_bytes(tmp_path, file_bytes(given=given)) == 0
    file = PhasorFile(tmp_path / "small.phasor")
    expected = {
        key(R.TARGET, 0, R.EMBEDDING): (L.Q8, values["token_embd.weight"]),
        key(R.DECODER, 0, QKV): (
            L.Q8,
            fused(values, 0, "attn_q", "attn_k", "attn_v"),
        ),  # Q4_0 beside Q8_0
        key(R.DECODER, 1, QKV): (
            L.F32,
            fused(values, 1, "attn_q", "attn_k", "attn_v"),
        ),  # Q4_0 beside F16
        key(R.DECODER, 0, OUT): (L.Q4, fused(values, 0, "attn_output")),
        key(R.DECODER, 0, FFN_IN): (L.BF16, fused(values, 0, "ffn_gate", "ffn_up")),
        key(R.DECODER, 1, FFN_IN): (L.F32, fused(values, 1, "ffn_gate", "ffn_up")),
        key(R.DECODER, 0, FFN_OUT): (L.F16, fused(values, 0, "ffn_down")),
    }
    for where, (kind, exact) in expected.items():
        assert file.entries[where].type == kind, R.tensor_name(where)
        assert np.array_equal(stored(file, where), exact), R.tensor_name(where)
    said = capsys.readouterr()
    assert (
        "4 Q4_0 to q4 (exactly)" not in said.err
        and "2 Q4_0 to q4 (exactly)" in said.err
        and "2 Q4_0 to q8 (exactly)" in said.err
    )
    assert "stored exactly" in said.out and "rounding error" not in said.out


@pytest.mark.parametrize(
    "own, to",
    [
        ("Q8_0", "q8"),
        ("Q4_0", "q4"),
        ("Q4_0", "q8"),
        ("F16", "f16"),
        ("BF16", "bf16"),
        ("Q8_0", "f32"),
        ("Q4_0", "f32"),
    ],
)
def test_a_type_that_holds_every_value_loses_nothing(tmp_path: Path, own: str, to: str) -> None:
    given, values = tensors(lambda name: own)
    assert convert_bytes(tmp_path, file_bytes(given=given), "--type", to, "--quiet") == 0
    file = PhasorFile(tmp_path / "small.phasor")
    for slot in R.slots(file.descriptor):
        if slot.stack == R.DECODER and slot.matrix:
            names = {
                QKV: ("attn_q", "attn_k", "attn_v"),
                OUT: ("attn_output",),
                FFN_IN: ("ffn_gate", "ffn_up"),
                FFN_OUT: ("ffn_down",),
            }[slot.role]
            assert file.entries[slot.key].type == L.type_code(to)
            assert np.array_equal(stored(file, slot.key), fused(values, slot.set, *names)), (
                slot.name
            )


CODED = (("Q6_K", L.Q6), ("IQ4_XS", L.Q4X), ("Q3_K", L.Q3))
NAMES = {
    QKV: ("attn_q", "attn_k", "attn_v"),
    OUT: ("attn_output",),
    FFN_IN: ("ffn_gate", "ffn_up"),
    FFN_OUT: ("ffn_down",),
}


def block_slots(file: PhasorFile) -> list[R.Slot]:
    return [slot for slot in R.slots(file.descriptor) if slot.stack == R.DECODER and slot.matrix]


@pytest.mark.parametrize(
    "own, kind, width",
    [("Q4_1", L.Q4M, 64), ("Q4_K", L.Q4K, 256), ("Q4_K", L.Q4K, 768), ("Q5_0", L.Q5M, 64)]
    + [("Q5_1", L.Q5M, 64), ("Q5_K", L.Q5K, 256), ("Q5_K", L.Q5K, 768)]
    + [(own, kind, width) for own, kind in CODED for width in (256, 768)],
)
def test_quantized_types_are_repacked_without_a_flag(
    own: str, kind: int, width: int, tmp_path: Path, capsys: pytest.CaptureFixture, phasor: Path
) -> None:
    """Values bit for bit, at the file's own size, looked up too: the embedding is tied."""
    given, values = tensors(lambda name: own, width, 2 * width)
    assert convert_bytes(tmp_path, file_bytes(metadata(width, 2 * width), given)) == 0
    file = PhasorFile(tmp_path / "small.phasor")
    for slot in block_slots(file):
        entry, want = file.entries[slot.key], fused(values, slot.set, *NAMES[slot.role])
        assert entry.type == kind and np.array_equal(stored(file, slot.key), want)
        exact = gguf_file.TYPES[NUMBER[own]].bytes(want.size)
        if kind in L.CODED:  # the records of a panel end with zeros
            exact += entry.panels * (-16 * L.RECORDS[kind][0] * (slot.cols // 256) % 64)
        if own == "Q5_0":  # which has no minimum
            exact += want.size // 32 * 2
        assert entry.bytes == exact
        assert np.array_equal(stored(file, slot.key).astype(np.float32), want.astype(np.float32))
    where = key(R.TARGET, 0, R.EMBEDDING)
    assert file.entries[where].type == kind
    assert np.array_equal(stored(file, where), values["token_embd.weight"])
    said = capsys.readouterr()
    assert f"15 {own} to {L.TYPES[kind]} (exactly)" in said.err
    grows = L.bits_of(kind, width) > 1.1 * 8 * gguf_file.TYPES[NUMBER[own]].bytes(256) / 256
    assert ("no type here has all values" in said.err) == grows
    assert "stored exactly" in said.out and "rounding error" not in said.out
    told(phasor, "verify", tmp_path / "small.phasor", timeout=60)


@pytest.mark.parametrize("own, width", [("Q5_1", 64), ("Q5_K", 256)])
def test_a_type_that_is_rounded_to_another_says_the_error(
    own: str, width: int, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    given, values = tensors(lambda name: own, width, 2 * width)
    data = file_bytes(metadata(width, 2 * width), given)
    assert convert_bytes(tmp_path, data, "--type", "q8") == 0
    file = PhasorFile(tmp_path / "small.phasor")
    for slot in block_slots(file):
        want = fused(values, slot.set, *NAMES[slot.role]).astype(np.float32)
        assert file.entries[slot.key].type == L.Q8
        assert np.array_equal(
            stored(file, slot.key), L.dequantize_q8(*L.quantize(want, L.Q8), slot.cols)
        )
    said = capsys.readouterr()
    assert f"15 {own} to q8 (rounded)" in said.err and "largest rounding error" in said.out
    assert convert_bytes(tmp_path, data, "--type", "f32") == 0
    file = PhasorFile(tmp_path / "small.phasor")
    for slot in block_slots(file):
        want = fused(values, slot.set, *NAMES[slot.role]).astype(np.float32)
        assert np.array_equal(stored(file, slot.key), want)
    said = capsys.readouterr().err
    assert f"15 {own} to f32 (exactly)" in said and "as few bits" not in said  # it was asked for


def test_the_type_that_is_advised_where_matrices_grow_makes_a_smaller_file(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Q4_K beside Q6_K in one matrix becomes q8."""
    given, _ = tensors(lambda name: "Q4_K" if "ffn_gate" in name else "Q6_K", 256, 512)
    data = file_bytes(metadata(256, 512), given)
    assert convert_bytes(tmp_path, data) == 0
    size, said = (tmp_path / "small.phasor").stat().st_size, capsys.readouterr().err
    line = next(line for line in said.splitlines() if "as few bits" in line)
    assert "2 Q4_K as q8 (rounded), 4.5 to 8.5 bits a value, 2 Q6_K as q8 (rounded)" in line
    advised = line.split("TRY: --type ")[1].split(",")[0]
    assert advised == "q6" and convert_bytes(tmp_path, data, "--type", advised) == 0
    assert (tmp_path / "small.phasor").stat().st_size < size
    assert "as few bits" not in capsys.readouterr().err


def test_parts_of_q5_0_and_q8_0_become_q8_without_loss(tmp_path: Path) -> None:
    """As q and v of llama.cpp's Q4_K_M where rows fill no block of 256; and with --type q8."""
    for flags, others in (((), "Q8_0"), (("--type", "q8"), "Q5_0")):
        given, values = tensors(lambda name: others if "attn_k" in name else "Q5_0")
        assert convert_bytes(tmp_path, file_bytes(given=given), *flags) == 0
        file = PhasorFile(tmp_path / "small.phasor")
        for slot in block_slots(file):
            want = fused(values, slot.set, *NAMES[slot.role])
            kind = L.Q8 if flags or slot.role == QKV else L.Q5M
            assert file.entries[slot.key].type == kind
            assert np.array_equal(stored(file, slot.key), want), slot.name


def test_a_scale_of_q5_0_whose_minimum_is_no_f16_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    given, _ = tensors(lambda name: "Q5_0")
    shape, number, raw = given["blk.1.ffn_up.weight"]
    raw = np.frombuffer(raw, np.uint8).copy()
    raw.view(gguf_file.TYPES[NUMBER["Q5_0"]].block)["d"][3] = 4100
    given["blk.1.ffn_up.weight"] = (shape, number, raw.tobytes())
    data = file_bytes(given=given)
    assert convert_bytes(tmp_path, data) == 1
    line = capsys.readouterr().err
    assert "blk.1.ffn_up.weight: a scale of Q5_0 is too large for q5m; convert with" in line
    assert convert_bytes(tmp_path, data, "--type", "q8") == 0


@pytest.mark.parametrize("kind", [L.Q8R, L.Q4M, L.Q4K, L.Q4, *L.CODED])
def test_what_is_quantized_becomes_another_quantized_type(kind: int, tmp_path: Path) -> None:
    for own in ("Q4_0", "Q8_0", "Q4_1"):
        given, values = tensors(lambda name: own)
        arguments = ("--type", L.TYPES[kind], "--quiet")
        assert convert_bytes(tmp_path, file_bytes(given=given), *arguments) == 0
        file = PhasorFile(tmp_path / "small.phasor")
        for slot in block_slots(file):
            want = fused(values, slot.set, *NAMES[slot.role])
            if gguf_file.TYPES[NUMBER[own]].keeps != kind:
                packed = L.quantize(want.astype(np.float32), kind)
                want = L.dequantize(*packed, slot.cols, kind)
            assert file.entries[slot.key].type == kind
            assert np.array_equal(stored(file, slot.key), want), (own, slot.name)


@pytest.mark.parametrize(
    "own, to",
    [("Q8_0", "q4"), ("Q8_0", "q8r"), ("Q4_0", "q8r"), ("Q4_0", "q8rh")],
)
def test_another_type_is_rounded_as_any_checkpoints(tmp_path: Path, own: str, to: str) -> None:
    given, values = tensors(lambda name: own)
    data, kind = file_bytes(given=given), L.type_code(to)
    assert convert_bytes(tmp_path, data, "--type", to, "--quiet", "--smooth") == 0
    assert convert_bytes(tmp_path, data, "--type", to, "--quiet") == 0
    scales, q = L.quantize(values["blk.0.ffn_down.weight"].astype(np.float32), kind)
    got = stored(PhasorFile(tmp_path / "small.phasor"), key(R.DECODER, 0, FFN_OUT))
    assert np.array_equal(got, L.dequantize(scales, q, HIDDEN, kind))


def test_the_program_takes_the_file(tmp_path: Path, phasor: Path) -> None:
    assert convert_bytes(tmp_path, file_bytes(given=tensors(mixed)[0]), "--quiet") == 0
    told(phasor, "verify", tmp_path / "small.phasor", timeout=60)


# ---- What is refused


def changed(**more: Any) -> bytes:
    """The keys of the small model with some others in place; None: without it."""
    keys = metadata() | {name.replace("__", "."): v for name, v in more.items()}
    return file_bytes({name: v for name, v in keys.items() if v is not None})


def tensor(name: str, entry: tuple | None, **more: Any) -> bytes:
    given = tensors()[0] | {name: entry}
    return file_bytes(given={n: e for n, e in given.items() if e is not None}, **more)


SMALL = file_bytes()
HEAD = SMALL.index(b"llama.block_count") - 8
NORM = ((WIDTH,), 0, bytes(4 * WIDTH))
REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the header: the file ends in it"),
    "magic": (b"GGML" + SMALL[4:], "not a GGUF file"),
    "version 1": (
        SMALL[:4] + struct.pack("<I", 1) + SMALL[8:],
        "version 1 is not supported, expected 2 and 3",
    ),
    "big-endian": (
        SMALL[:4] + struct.pack(">I", 3) + SMALL[8:],
        "version 3 in big-endian order is not supported",
    ),
    "tensors without end": (
        SMALL[:8] + struct.pack("<Q", 1 << 62) + SMALL[16:],
        "the number of tensors: 4611686018427387904, more than",
    ),
    "keys without end": (
        SMALL[:16] + struct.pack("<Q", 1 << 40) + SMALL[24:],
        "the number of keys: 1099511627776, more than",
    ),
    "a name without end": (
        SMALL[:HEAD] + struct.pack("<Q", 1 << 63) + SMALL[HEAD + 8 :],
        "the name of key 2, the length of a text: 9223372036854775808",
    ),
    "cut in the keys": (SMALL[:200], "more than the file's 200 bytes"),
    "an array without end": (
        changed(x=(ARRAY, (U32, [1]))).replace(
            struct.pack("<IQI", U32, 1, 1), struct.pack("<IQI", U32, 1 << 60, 1)
        ),
        "x, the number of values",
    ),
    "arrays of arrays": (
        changed(x=(ARRAY, (ARRAY, []))),
        "x: an array of values of type 9 is not supported",
    ),
    "a type of value": (
        SMALL.replace(
            text("llama.block_count") + struct.pack("<I", U32),
            text("llama.block_count") + struct.pack("<I", 77),
        ),
        "llama.block_count: values of type 77 are not known",
    ),
    "a text that is not UTF-8": (
        SMALL.replace(b"Small", b"\xff\xfe\xfd\xfc\xfb"),
        "general.name: is not UTF-8",
    ),
    "a key twice": (
        SMALL.replace(b"llama.context_length", b"llama.embedding_leng").replace(
            b"llama.embedding_length", b"llama.embedding_leng\0\0"
        ),
        "llama.embedding_leng",
    ),
    "alignment": (
        changed(general__alignment=(U32, 24)),
        "general.alignment: 24, expected a power of two",
    ),
    "cut in the tensors": (SMALL[:-40], "blk.1.ffn_down.weight: has 24576 bytes from"),
    "beyond the end": (
        file_bytes(offsets={"output_norm.weight": 1 << 40}),
        "output_norm.weight: has 256 bytes from 1099511627776 on",
    ),
    "not aligned": (
        file_bytes(offsets={"output_norm.weight": 4}),
        "output_norm.weight: begins at 4, expected a multiple of 32",
    ),
    "over another": (
        file_bytes(offsets={"output_norm.weight": 32}),
        "output_norm.weight: begins at 32, in token_embd.weight",
    ),
    "five dimensions": (
        tensor("output_norm.weight", ((1, 1, 1, 1, WIDTH), 0, bytes(4 * WIDTH))),
        "output_norm.weight: has 5 dimensions",
    ),
    "no values": (
        tensor("output_norm.weight", ((0,), 0, b"")),
        "output_norm.weight: has shape 0, which is no tensor's",
    ),
    "a product over 64 bits": (
        tensor("output_norm.weight", ((1 << 40, 1 << 40), 0, b"")),
        "output_norm.weight: has shape 1099511627776 x 1099511627776",
    ),
    "a type by name": (
        tensor("blk.0.ffn_down.weight", ((256, WIDTH), 10, bytes(84 * WIDTH))),
        "blk.0.ffn_down.weight: has type Q2_K, which is not supported, expected F32, F16, Q4_0",
    ),
    "a type by number": (
        tensor("blk.0.ffn_down.weight", ((HIDDEN, WIDTH), 999, b"")),
        "blk.0.ffn_down.weight: has type 999, which is not supported",
    ),
    "a row that is no whole blocks": (
        tensor("blk.0.ffn_down.weight", ((HIDDEN, WIDTH), 12, b"")),
        "rows of 96 values, Q4_K needs a multiple of 256",
    ),
    "another shape": (
        tensor("blk.0.ffn_down.weight", ((HIDDEN, 32), 0, bytes(4 * HIDDEN * 32))),
        "misshapen: blk.0.ffn_down.weight",
    ),
    "a vector for an embedding": (
        tensor("token_embd.weight", NORM),
        "token_embd.weight: has shape",
    ),
    "missing": (tensor("blk.1.ffn_up.weight", None), "missing: blk.1.ffn_up.weight"),
    "no embedding": (tensor("token_embd.weight", None), "token_embd.weight: is missing"),
    "left over": (tensor("blk.0.attn_sinks.weight", NORM), "left over: blk.0.attn_sinks.weight"),
    "not finite": (
        tensor("output_norm.weight", ((WIDTH,), 0, np.full(WIDTH, np.nan, "<f4").tobytes())),
        "output_norm.weight: a value is not finite",
    ),
    "a scale that is not finite": (
        tensor("blk.0.ffn_down.weight", ((HIDDEN, WIDTH), 8, b"\x00\x7c" * (17 * 3 * WIDTH))),
        "blk.0.ffn_down.weight: a value is not finite",
    ),
    "architecture": (
        changed(general__architecture=(STRING, "mamba")),
        "general.architecture: 'mamba' is not supported, expected llama, ",
    ),
    "an architecture of another kind": (
        changed(general__architecture=(ARRAY, (U32, [1]))),
        "general.architecture: [1] is not supported",
    ),
    "an adapter": (
        changed(general__type=(STRING, "adapter")),
        "general.type: 'adapter' is not supported",
    ),
    "shards": (changed(split__count=(U32, 4)), "split.count: 4 is not supported: the file is one"),
    "experts": (changed(llama__expert_count=(U32, 8)), "llama.expert_count: 8 is not supported"),
    "a key": (
        changed(llama__attention__temperature=(F32, 2.0)),
        "llama.attention.temperature: not understood, and it might change the arithmetic",
    ),
    "no key": (changed(llama__embedding_length=None), "llama.embedding_length: is missing"),
    "a key of another kind": (
        changed(llama__block_count=(STRING, "two")),
        "llama.block_count: 'two', expected a whole number from 1 to",
    ),
    "absurd layers": (
        changed(llama__block_count=(U64, 1 << 40)),
        "llama.block_count: 1099511627776, expected",
    ),
    "layers that differ": (
        changed(llama__attention__head_count_kv=(ARRAY, (U32, [2, 1]))),
        "head_count_kv: values that differ from layer to layer",
    ),
    "heads": (
        changed(llama__attention__head_count_kv=(U32, 3)),
        "kv_heads: does not divide the heads",
    ),
    "an odd rotation": (
        changed(llama__rope__dimension_count=(U32, 7)),
        "llama.rope.dimension_count: 7 is odd",
    ),
    "a scaling": (
        changed(llama__rope__scaling__type=(STRING, "ntk")),
        "llama.rope.scaling.type: 'ntk' is not supported",
    ),
    "a base": (
        changed(llama__rope__freq_base=(F32, float("nan"))),
        "llama.rope.freq_base: nan, expected",
    ),
    "widths of keys and values": (
        changed(llama__attention__value_length=(U32, 8)),
        "llama.attention.value_length: 8, and",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture, name: str
) -> None:
    data, line = REFUSED[name]
    assert convert_bytes(tmp_path, data) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "small.gguf: " in said[0] and line in said[0], said
    assert not (tmp_path / "small.phasor").exists()


def test_no_cut_and_no_flipped_byte_is_a_crash(tmp_path: Path) -> None:
    """Each prefix of the head, and each byte of it with another value: a PhasorError, or a file
    that is still one."""
    head, path, rng = (
        SMALL.index(b"blk.0.attn_q") + 200,
        tmp_path / "odd.gguf",
        np.random.default_rng(0),
    )
    for at in range(0, head, 3):
        path.write_bytes(SMALL[:at])
        with pytest.raises(PhasorError, match="odd.gguf: "):
            GGUF(path)
    for at in range(head):
        broken = bytearray(SMALL)
        broken[at] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        try:
            gguf.read(path)
        except PhasorError as error:
            assert "\n" not in str(error)


def vocabulary(**more: Any) -> dict[str, tuple[int, Any] | None]:
    """Keys of a byte-level vocabulary of letters, with some others in place."""
    tokens = [chr(33 + i) for i in range(47)] + ['!"', "<a>", "<b>"]
    keys = {
        "model": (STRING, "gpt2"),
        "pre": (STRING, "smollm"),
        "tokens": (ARRAY, (STRING, tokens)),
        "merges": (ARRAY, (STRING, ['! "'])),
        "token_type": (ARRAY, (I32, [1] * 48 + [3, 3])),
        "bos_token_id": (U32, 48),
        "eos_token_id": (U32, 49),
        "eot_token_id": (U32, 49),
        "padding_token_id": (U32, 48),
        "unknown_token_id": (U32, 48),
    } | more
    return {f"tokenizer__ggml__{name}": v for name, v in keys.items()}


def test_ids_go_where_the_metadata_say(tmp_path: Path) -> None:
    assert (
        convert_bytes(
            tmp_path,
            changed(**vocabulary(add_bos_token=(BOOL, True), eom_token_id=(U32, 3))),
            "--quiet",
        )
        == 0
    )
    side = PhasorFile(tmp_path / "small.phasor").descriptor["target"]
    assert (
        side
        | {
            "tokenizer": 4,
            "start": 48,
            "end": [49, 3],
            "prefix": [48],
            "suffix": [],
            "pad": 48,
            "unknown": 48,
        }
        == side
    )
    assert (
        convert_bytes(
            tmp_path,
            changed(**vocabulary(add_eos_token=(BOOL, True))),
            "--quiet",
            "--tokenizer",
            "none",
        )
        == 0
    )
    side = PhasorFile(tmp_path / "small.phasor").descriptor["target"]
    assert side | {"tokenizer": 0, "prefix": [], "suffix": [49]} == side


def sentencepiece(scores: list[float], kinds: list[int]) -> dict:
    """A vocabulary of SentencePiece's BPE, without start and end ids."""
    pieces = ["<unk>", "<s>", "</s>", "a", "b", "ab", "ba"]
    return {
        "model": (STRING, "llama"),
        "tokens": (ARRAY, (STRING, pieces)),
        "token_type": (ARRAY, (I32, kinds)),
        "scores": (ARRAY, (F32, scores)),
        **dict.fromkeys(f"{name}_token_id" for name in ("bos", "eos", "eot", "unknown")),
    }


def test_a_sentencepiece_vocabulary_without_start_and_end_ids(tmp_path: Path) -> None:
    """Those of llama.cpp."""
    made = sentencepiece([0, 0, 0, -1, -2, -3, -4], [2, 3, 3, 1, 1, 1, 1])
    assert convert_bytes(tmp_path, changed(**vocabulary(**made))) == 0
    side = PhasorFile(tmp_path / "small.phasor").descriptor["target"]
    assert side | {"start": 1, "end": [2], "unknown": 0, "prefix": [1], "suffix": []} == side


@pytest.mark.parametrize(
    "more, line",
    [
        (
            sentencepiece([0, 0, 0, -1, -2, -3, -3], [2, 3, 3, 1, 1, 1, 1]),
            "tokenizer.ggml.tokens: the pieces 'ab' and 'ba' have the same score",
        ),
        (
            sentencepiece([0, 0, 0, -1, -2, -3, -4], [2, 1, 1, 1, 1, 1, 1]),
            "tokenizer.ggml.bos_token_id: is missing, and piece 1 is no control piece",
        ),
        ({"bos_token_id": (U32, 50)}, "tokenizer.ggml.bos_token_id: 50, expected an id below 50"),
        ({"add_bos_token": (U32, 1)}, "tokenizer.ggml.add_bos_token: 1, expected true or false"),
        ({"tokens": None}, "tokenizer.ggml.tokens: is missing (--tokenizer none converts without)"),
        (
            {"tokens": (ARRAY, (STRING, ["a"] * 51))},
            "tokenizer.ggml.tokens: 51 pieces, the embedding has 50 rows",
        ),
        (
            {"tokens": (ARRAY, (STRING, ["a"] * 50))},
            "tokenizer.ggml.tokens: piece 1 ('a') is already",
        ),
        ({"merges": None}, "tokenizer.ggml.merges: is missing"),
        ({"token_type": (ARRAY, (I32, [1]))}, "tokenizer.ggml.token_type: 1 values for 50 pieces"),
        ({"pre": (STRING, "martian")}, "tokenizer.ggml.pre: 'martian' is not supported"),
        ({"pre": (ARRAY, (U32, [1]))}, "tokenizer.ggml.pre: expected text"),
        ({"model": (U32, 1)}, "tokenizer.ggml.model: expected text"),
        ({"tokens": (U32, 1)}, "tokenizer.ggml.tokens: expected an array of another kind"),
        ({"merges": (ARRAY, (STRING, ["a b c"]))}, "tokenizer.ggml.tokens: "),
        (
            {"model": (STRING, "rwkv")},
            "tokenizer.ggml.model: 'rwkv' is not supported, expected gpt2, llama, gemma4",
        ),
        ({"model": (STRING, "llama")}, "tokenizer.ggml.scores: is missing"),
        (
            {"add_space_prefix": (BOOL, True)},
            "tokenizer.ggml.add_space_prefix: True is not supported",
        ),
        ({"normalizer": (STRING, "nfkc")}, "tokenizer.ggml.normalizer ('nfkc'): not known"),
    ],
)
def test_a_vocabulary_that_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture, more: dict, line: str
) -> None:
    assert convert_bytes(tmp_path, changed(**vocabulary(**more))) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "small.gguf: " in said[0] and line in said[0], said


ODD = [
    (U32, 0),
    (U32, 1 << 31),
    (I32, -1),
    (F32, float("inf")),
    (F32, 0.5),
    (BOOL, True),
    (STRING, ""),
    (STRING, "\0"),
    (U64, (1 << 64) - 1),
    (ARRAY, (U32, [])),
    (ARRAY, (U32, [7, 7])),
    (ARRAY, (STRING, ["", ""])),
    (ARRAY, (F32, [float("nan")])),
]
MORE_KEYS = [
    "general.type",
    "general.alignment",
    "split.count",
    "llama.attention.key_length",
    "llama.attention.value_length",
    "llama.rope.dimension_count",
    "llama.rope.freq_base",
    "llama.rope.scaling.type",
    "llama.rope.scaling.factor",
    "llama.rope.scaling.attn_factor",
    "llama.attention.sliding_window",
    "llama.rope.scale_linear",
    "llama.expert_count",
    "llama.vocab_size",
    "tokenizer.ggml.add_bos_token",
    "tokenizer.ggml.scores",
]


@pytest.mark.long
@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gemma4", "phi3", "mpt"])
def test_an_odd_value_of_any_key_is_an_error_and_not_a_crash(
    tmp_path: Path, architecture: str
) -> None:
    keys = {
        name.replace("llama.", f"{architecture}."): v
        for name, v in (
            metadata() | {name.replace("__", "."): v for name, v in vocabulary().items()}
        ).items()
    }
    keys |= {
        "general.architecture": (STRING, architecture),
        f"{architecture}.attention.sliding_window": (U32, 8),
        f"{architecture}.attention.layer_norm_epsilon": (F32, 1e-5),
    }
    if architecture == "gemma4":
        own = {"attention.key_length_swa": 8, "embedding_length_per_layer_input": 8}
        own |= {"attention.shared_kv_layers": 0, "rope.dimension_count_swa": 8}
        keys |= {f"gemma4.{name}": (U32, value) for name, value in own.items()}
    path, refused = tmp_path / "odd.gguf", 0
    for name in [
        *keys,
        *(name.replace("llama.", f"{architecture}.") for name in MORE_KEYS),
        f"{architecture}.attention.sliding_window_pattern",
    ]:
        for odd in ODD:
            path.write_bytes(file_bytes(keys | {name: odd}))
            try:
                model = gguf.read(path)
                model.problems()
                model.vocabulary.section()
            except PhasorError as error:
                refused += 1
                assert "odd.gguf: " in str(error) and "\n" not in str(error)
    assert refused > 100


def test_an_array_of_equal_values_is_one_value(tmp_path: Path) -> None:
    assert (
        convert_bytes(
            tmp_path, changed(llama__attention__head_count_kv=(ARRAY, (I32, [2, 2]))), "--quiet"
        )
        == 0
    )


def test_a_window_that_is_not_computed_limits_the_sequence(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert convert_bytes(tmp_path, changed(llama__attention__sliding_window=(U32, 16))) == 0
    assert PhasorFile(tmp_path / "small.phasor").descriptor["decoder"]["max_positions"] == 16
    assert "a window of 16 positions" in capsys.readouterr().err


@pytest.mark.parametrize("kind,size", [(TYPES[Q2_0], 34), (Q2_0_OF_64, 36)])
def test_places_say_which_blocks_type_42_has(kind, size):
    """Of 32 blocks the two layouts lie 64 bytes apart; of one block padding hides the difference,
    and other places are neither's."""
    entries = [("a", TYPES[Q2_0], (2, 16 * 128), 0), ("b", TYPES[0], (1,), 32 * size)]
    assert twos_of(entries, 32 * size + 4, 32) is kind
    one = [("a", TYPES[Q2_0], (1, 128), 0), ("b", TYPES[0], (1,), 64)]
    with pytest.raises(PhasorError, match="blocks of 64 and of 128 values alike"):
        twos_of(one, 68, 32)
    for place in (0, 32 * 34 - 32, 32 * 36 + 32, 1 << 40):
        with pytest.raises(PhasorError, match="neither 64 nor 128 values"):
            twos_of([entries[0], ("b", TYPES[0], (1,), place)], place + 4, 32)
