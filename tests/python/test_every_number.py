"""Every number of every binary format at the values that a reader forgets: zeros in place of a
count, a size or an offset, and the largest ones. The formats' fields are not named here: each byte,
each four and each eight of a file's head and tail become such a number. Then a file is read, or
refused in one line, soon, and with no more memory than a sound one needs: no count reserves
anything before it is compared with the bytes that are there.

tests/cpp/test_every_number.cpp does it to the weight file that the engine opens.
"""

from __future__ import annotations

import io
import pickle
import random
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "fuzz" / "python"))

import checkpoints  # noqa: E402
import raw  # noqa: E402
import readers  # noqa: E402
import watch  # noqa: E402

import ctranslate2_model  # noqa: E402
import marian_model  # noqa: E402
import torch_legacy  # noqa: E402
import torch_zip  # noqa: E402
from byte_pieces import BYTES  # noqa: E402
from phasor.checkpoints.checkpoint import open_checkpoint  # noqa: E402
from phasor.checkpoints.pickles import no_storage, unpickle  # noqa: E402
from phasor.errors import PhasorError  # noqa: E402
from phasor.format.checksum import crc32c  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.moments import read_moments  # noqa: E402
from phasor.sources.ctranslate2 import container as ctranslate2  # noqa: E402
from phasor.sources.find import read_source  # noqa: E402
from phasor.sources.gguf.container import GGUF  # noqa: E402
from phasor.sources.llama2c.tokenizer import read_tokenizer_bin  # noqa: E402
from phasor.tokenizers.characters import of_meta  # noqa: E402
from phasor.tokenizers.section import BYTE, UNKNOWN  # noqa: E402
from phasor.tokenizers.sentencepiece import proto_section, read_model_proto  # noqa: E402
from translators import proto  # noqa: E402

HEAD, TAIL = 320, 160  # bytes that are walked
SPARE = 1 << 20  # bytes of memory beyond those of a sound file

ARRAYS = {
    "src_embedding.weight": np.ones((6, 4), "<f4"),
    "encoder.layers.0.norm1.bias": np.zeros(4, "<f4"),
    "a": np.arange(3, dtype="<i8"),
}


class Format(NamedTuple):
    data: Callable[[Path], bytes]
    read: Callable[[Path], Any]
    name: str
    seal: Callable[[bytes], bytes] = lambda data: data  # or its checksum alone would be proved


def _made(save: Callable[[Path, dict], Any]) -> Callable[[Path], bytes]:
    def data(folder: Path) -> bytes:
        save(folder / "made", ARRAYS)
        return (folder / "made").read_bytes()

    return data


def _weights(path: Path) -> None:
    found = open_checkpoint(path)
    for name in found:
        found.tensors[name].load()


def _tensors(path: Path) -> None:
    file = GGUF(path)
    for name in file:
        file.tensors[name].load()


def _sections(data: bytes) -> None:
    model = read_model_proto(data)
    proto_section(model["model_type"], model)


def _gguf(folder: Path) -> bytes:
    rng = random.Random(3)
    keys = checkpoints._metadata() | checkpoints._tokenizer_keys(rng)
    return checkpoints.gguf_bytes(rng, keys, checkpoints._gguf_tensors(rng, "llama", 0), False)


def _llama2c(version: int) -> Callable[[Path], bytes]:
    return lambda _: raw.joined(checkpoints._llama2c(random.Random(version), version))


def _npy(_: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones(40, "<f4"))
    return file.getvalue()


def _npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def _pieces(_: Path) -> bytes:
    rows = [("<unk>", 0.0, UNKNOWN), *((piece, 0.0, BYTE) for piece in BYTES)]
    return proto([*rows, ("a", -1.0, 1), ("ab", -2.0, 4)], 2) + b"\x12\x03\x98\x02\x01"


def _llama2c_pieces(_: Path) -> bytes:
    texts = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(text.encode() for text in BYTES), b"a", b" ab"]
    return b"\7\0\0\0" + b"".join(raw.joined([bytes(4), raw.Text("<i", text)]) for text in texts)


def _table(_: Path) -> bytes:
    stoi = {c: i for i, c in enumerate("\n abc")}
    value = {"vocab_size": 5, "itos": dict(enumerate(stoi)), "stoi": stoi}
    return pickle.dumps(value, 4)


def _characters(data: bytes) -> list[str]:
    return of_meta(unpickle(io.BytesIO(data), no_storage, "the table"))


def _sealed(data: bytes) -> bytes:
    """The checksum of a weight file's head made right again."""
    head = int.from_bytes(data[32:40], "little")
    if not 64 <= head <= len(data):
        return data
    bare = data[:40] + bytes(4) + data[44:]
    return data[:40] + crc32c(bare[:head]).to_bytes(4, "little") + data[44:]


def _bytes(build: Callable[[bytes], Any]) -> Callable[[Path], Any]:
    return lambda path: build(path.read_bytes())


# By the reader of tests/fuzz/python/readers.py.
FORMATS: dict[str, list[Format]] = {
    "safetensors": [Format(lambda _: checkpoints.plain(ARRAYS), _weights, "m.safetensors")],
    "torch-zip": [Format(_made(torch_zip.save), _weights, "m.pt")],
    "torch-legacy": [Format(_made(torch_legacy.save), _weights, "m.pt")],
    "gguf": [Format(_gguf, _tensors, "m.gguf")],
    "llama2c": [Format(_llama2c(version), read_source, "m.bin") for version in range(3)],
    "moments": [Format(_npy, read_moments, "m.npy")],
    "npz-weights": [Format(_made(_npz), _weights, "m.npz")],
    "ctranslate2": [
        Format(
            lambda _, version=version: ctranslate2_model.Model().files(version)["model.bin"],
            ctranslate2.read,
            "model.bin",
        )
        for version in (2, 6)
    ],
    "marian": [Format(lambda _: marian_model.Model(False, True).bytes(), _weights, "m.npz")],
    "sentencepiece": [Format(_pieces, _bytes(_sections), "m.model")],
    "llama2c-tokenizer": [Format(_llama2c_pieces, _bytes(read_tokenizer_bin), "t.bin")],
    "characters": [Format(_table, _bytes(_characters), "meta.pkl")],
    "weight-file": [
        Format(
            lambda _: (ROOT / "tests/golden/models/tiny-alibi-tokens-f32.phasor").read_bytes(),
            PhasorFile,
            "m.phasor",
            _sealed,
        )
    ],
}
# What others read is text, or files of these formats.
TEXTS = {
    *("shards", "config", "generation", "sentence", "adapter", "packed", "tokenizer-json"),
    *("tokenizer-config", "vocabulary", "tiktoken", "fairseq", "translator-tokenizer"),
    *("description", "explain", "chat-template", "gguf-tokenizer", "expect", "patterns"),
    "pipeline",
}


def test_every_reader_is_here_or_reads_text():
    assert not TEXTS & set(FORMATS) and TEXTS | set(FORMATS) == set(readers.READERS)


def _changed(data: bytes, step: int) -> Iterator[tuple[int, int, bytes]]:
    """(place, value, the file): each place's number of 1, 4 and 8 bytes, in both orders of it."""
    places = [*range(0, min(HEAD, len(data))), *range(max(HEAD, len(data) - TAIL), len(data))]
    for at in places[::step]:
        for size in (1, 4, 8):
            for value in (0, (1 << 8 * size - 1) - 1, (1 << 8 * size) - 1):
                number = value.to_bytes(size, "little")
                changed = data[:at] + number + data[at + size :]
                if changed != data and len(changed) == len(data):
                    yield at, value, changed


def _peak(read: Callable[[Path], Any], path: Path) -> tuple[int, str | None]:
    """The most memory that the reading took, and the line of a refusal."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    line = None
    try:
        with watch._timed():
            read(path)
    except PhasorError as error:
        line = str(error)
    return tracemalloc.get_traced_memory()[1] - before, line


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "reader,number", [(name, i) for name, forms in FORMATS.items() for i in range(len(forms))]
)
def test_every_number(tmp_path, monkeypatch, reader, number, step):
    """step: one place in so many."""
    monkeypatch.setattr(watch, "SECONDS", 5)
    form = FORMATS[reader][number]
    path, data = tmp_path / form.name, form.data(tmp_path)
    path.write_bytes(data)
    refused = tried = 0
    tracemalloc.start()
    try:
        _peak(form.read, path)  # what is made once
        most, line = _peak(form.read, path)
        assert line is None, line
        for at, value, changed in _changed(data, step):
            path.write_bytes(form.seal(changed))
            try:
                took, line = _peak(form.read, path)
            except Exception as error:
                raise AssertionError(f"byte {at} = {value:#x}: {error!r}") from error
            assert took <= 2 * most + SPARE, f"byte {at} = {value:#x} takes {took:,} bytes"
            tried += 1
            if line is not None:
                refused += 1
                assert line.isprintable() and 0 < len(line) < watch.LONGEST_LINE, line
    finally:
        tracemalloc.stop()
    assert 20 < refused <= tried  # numbers are what was hit
