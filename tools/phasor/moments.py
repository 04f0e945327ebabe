"""How much each input of a model's matrices counts: the mean square of every column's input over a
text. numpy only, and the phasor program for the ids.

    moments.py MODEL.phasor TEXT… -o moments.npy [--full] [--tokens 4096] [--window 512]
    phasor quantize MODEL.phasor small.phasor --type q4 --moments moments.npy

MODEL is the f32 file. Its float32 reference reads windows of a decoder's text, each line of an
encoder's, and of an encoder–decoder each line with what the model makes of it. The array has the
columns of all matrices, in the order of the file, each matrix with a mean of 1; `convert.py
--moments` takes it too. A table that is only looked up has ones.

With --full the array has each matrix's whole (K, K) of second moments, the mean of x·xᵀ, in their
place: for `convert.py --moments` alone, which then rounds against them (second_order.py). It is
summed in the file itself, so memory holds no more than one matrix's.

The head of the file says what the inputs were scaled by: the SHA-256 of the model's vectors (norms,
biases, input scales). Both commands refuse moments of other inputs than their matrices read.
"""

from __future__ import annotations

import hashlib
import re
import struct
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from phasor import vectors as V
from phasor.arguments import Parser
from phasor.entry import count, front_door
from phasor.errors import PhasorError
from phasor.files import check_output, map_bytes, read_text, replacing
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile, Source
from phasor.format.layout import VECTOR
from phasor.format.writer import encode_vector, exact_values
from phasor.program import ids_text, need_phasor, printed_ids, run
from phasor.reference.forward import Reference
from phasor.runs import Input, passes
from phasor.smoothing import Smoothed

_LONGEST_LINE = 128  # tokens of an encoder's line, and of an output
_LINES = 64  # that the program reads at once
_BATCH = 512  # tokens that go through the reference together


class Observer(Reference):
    """Sums the squares of what each matrix reads, or its products."""

    def __init__(self, file: PhasorFile, out: np.ndarray | None = None) -> None:
        """out: f32, zeros: for the products of all matrices."""
        super().__init__(file, emulate=False, dtype=np.float32)
        self._keep = True
        self.squares: dict[int, np.ndarray] = {}
        self.rows: dict[int, int] = {}
        self._out = out
        self._full = {} if out is None else places_of(self.d, full=True)

    def see(self, x: np.ndarray, stack: int, weights: int, role: int) -> None:
        key = R.key_of(stack, weights, role)
        self.rows[key] = self.rows.get(key, 0) + len(x)
        if self._out is None:
            self.squares[key] = self.squares.get(key, 0) + (x.astype(np.float64) ** 2).sum(axis=0)
            return
        sums = self._out[self._full[key]].reshape(x.shape[1], x.shape[1])
        sums += x.T @ x

    def linear(self, x: np.ndarray, stack: int, weights: int, role: int) -> np.ndarray:
        self.see(self.scaled(x, stack, weights, role), stack, weights, role)
        return super().linear(x, stack, weights, role)

    def logits(self, y: np.ndarray) -> np.ndarray:
        if self.d["output"]["tied"] != D.TIED_OWN:
            shared = (
                self.d["output"]["tied"] == D.TIED_SOURCE
                or "target" not in self.d
                or self.d["target"]["embedding_shared"]
            )
            self.see(y, R.SOURCE if shared else R.TARGET, 0, R.EMBEDDING)
        return super().logits(y)

    def moments(self) -> np.ndarray:
        """Columns of all matrices in the order of the file, f32."""
        out = []
        for slot in R.slots(self.d):
            if slot.matrix:
                mean = self.squares.get(slot.key, np.ones(slot.cols)) / self.rows.get(slot.key, 1)
                out.append(mean / mean.mean() if mean.any() else np.ones(slot.cols))
        return np.concatenate(out).astype(np.float32)

    def finish(self) -> None:
        """Sums of products as means, those of a matrix with a mean diagonal of 1; of one that read
        nothing a unit matrix."""
        assert self._out is not None
        for slot in R.slots(self.d):
            if not slot.matrix:
                continue
            one = self._out[self._full[slot.key]].reshape(slot.cols, slot.cols)
            size = float(np.trace(one)) / slot.cols
            if size > 0:
                one /= np.float32(size)
            else:
                one[:] = np.eye(slot.cols, dtype=np.float32)


def places_of(descriptor: dict[str, Any], full: bool = False) -> dict[int, slice]:
    """Where the values of each matrix, by its key, are in an array: one of each column, or
    (K, K)."""
    out, at = {}, 0
    for slot in R.slots(descriptor):
        if slot.matrix:
            size = slot.cols * (slot.cols if full else 1)
            out[slot.key] = slice(at, at + size)
            at += size
    return out


def ids_of(program: Path, command: str, *arguments: object, text: str = "") -> list[list[int]]:
    """What a command prints for each line of a text."""
    printed = run(program, command, *arguments, "--print-ids", text=text, limit=3600)
    return [printed_ids(line) for line in printed.split("\n")]


def inputs(file: PhasorFile, program: Path, text: str, tokens: int, window: int) -> Iterator[Input]:
    """About so many tokens, one side empty where the model has no such side."""
    d, lines = file.descriptor, [line for line in text.split("\n") if line.strip()]
    side = d["source" if "encoder" in d else "target"]
    if not side["tokenizer"]:
        raise PhasorError(f"{file.path}: the file has no tokenizer")
    done = 0
    if "encoder" not in d:
        text = "\n".join(lines[:tokens])
        ids = sum(ids_of(program, "tokenize", file.path, text=text), [])
        window = min(window, D.longest(d, "decoder") or window)
        for first in range(0, min(tokens, len(ids)), window):
            some = ids[first : min(first + window, tokens)]
            if ids[0] == side["start"]:  # what every text begins with
                some[0] = ids[0]
            yield Input((), tuple(some))
        return
    start = V.first_id(d["target"]) if "decoder" in d else None
    most = min(_LONGEST_LINE, D.longest(d, "encoder") or _LONGEST_LINE)
    for first in range(0, len(lines), _LINES):
        some_lines = "\n".join(lines[first : first + _LINES])
        found = ids_of(program, "tokenize", file.path, text=some_lines)
        sources = [ids[:most] for ids in found if ids]
        targets: list[list[int]] = [[]] * len(sources)
        if start is not None:
            arguments = ("--ids", "-", "-n", _LONGEST_LINE, "--quiet")
            asked = "\n".join(map(ids_text, sources))
            made = ids_of(program, "run", file.path, *arguments, text=asked + "\n")
            targets = [[start, *ids[:-1]] for ids in made[: len(sources)]]
            if len(targets) < len(sources):
                raise PhasorError(f"{program}: {len(targets)} outputs for {len(sources)} lines")
        for source, target in zip(sources, targets):
            yield Input(tuple(source), tuple(target))
            done += len(source) + len(target)
            if done >= tokens:
                return


def batches(given: Iterable[Input]) -> Iterator[list[Input]]:
    """Inputs that go through the model together: of no more than _BATCH tokens, or one."""
    batch: list[Input] = []
    for one in given:
        if batch and sum(map(size_of, [*batch, one])) > _BATCH:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def size_of(given: Input) -> int:
    """Its tokens."""
    return len(given.source) + len(given.target)


def measure(
    file: PhasorFile,
    program: Path,
    text: str,
    tokens: int = 4096,
    window: int = 512,
    out: np.ndarray | None = None,
) -> Observer:
    """A model that has read a text. out: as Observer takes it."""
    model, seen = Observer(file, out), 0
    for batch in batches(inputs(file, program, text, tokens, window)):
        for _ in passes(model, batch):
            pass
        seen += sum(map(size_of, batch))
        count("moments", min(seen, tokens), tokens, "tokens")
    count("moments", tokens, tokens, "tokens")
    if not seen:
        raise PhasorError("the text has no tokens")
    return model


# ---- The array again


class Moments:
    """Of each matrix the mean squares of its inputs (K), or their second moments (K, K), from one
    array: those of the matrices in the order of the file (`Observer`)."""

    def __init__(
        self, descriptor: dict[str, Any], values: np.ndarray, name: str = "moments"
    ) -> None:
        one, whole = (places_of(descriptor, full) for full in (False, True))
        counts = [max((part.stop for part in at.values()), default=0) for at in (one, whole)]
        self.full = values.shape == (counts[1],)
        self._rows = whole if self.full else one
        if values.shape not in [(count,) for count in counts] or values.dtype != np.float32:
            raise PhasorError(
                f"{name}: expected {counts[0]:,} values of f32, one for each column of each "
                f"matrix, or {counts[1]:,} of --full, got {values.dtype} of shape {values.shape}"
            )
        for part in self._rows.values():
            one_ = values[part]
            if not np.isfinite(one_).all() or (self._diagonal(one_) < 0).any():
                raise PhasorError(f"{name}: a value is negative or not finite")
        self._values = values

    def _diagonal(self, values: np.ndarray) -> np.ndarray:
        """The mean squares of one matrix's inputs."""
        return values[:: int(np.sqrt(len(values))) + 1] if self.full else values

    def __call__(self, slot: R.Slot) -> np.ndarray:
        """(K), or (K, K)."""
        values = self._values[self._rows[slot.key]]
        return values.reshape(slot.cols, slot.cols) if self.full else values


class Stored(NamedTuple):
    """A file of moments: f32 (C), and the `digest` of the vectors of the model that they were
    gathered with; "" where the file does not say."""

    values: np.ndarray
    vectors: str


def digest(vectors: Iterable[bytes]) -> str:
    """In hexadecimal the SHA-256 of the SHA-256s of a file's vectors, in the file's order."""
    each = b"".join(hashlib.sha256(one).digest() for one in vectors)
    return hashlib.sha256(each).hexdigest()


def digest_of(descriptor: dict[str, Any], weights: Source) -> str:
    """The same of a model that becomes a file."""
    vectors = (slot for slot in R.slots(descriptor) if slot.layout == VECTOR)
    return digest(encode_vector(slot, exact_values(slot, weights(slot))) for slot in vectors)


def of_conversion(
    path: Path,
    descriptor: dict[str, Any],
    weights: Source,
    plain: tuple[dict[str, Any], Source],
    smoothed: Smoothed | None,
) -> tuple[bool, Callable[[R.Slot], np.ndarray]]:
    """Whether a file has second moments, and those of each matrix's inputs in the model that is
    written. plain: the model before its inputs were scaled; its moments are scaled too. PhasorError
    where the file has those of other inputs."""
    found = read_moments(path)
    values = Moments(descriptor, found.values, str(path))
    if not found.vectors and smoothed is not None:
        raise PhasorError(
            f"{path}: does not say which inputs the moments are of, and this conversion scales "
            "inputs. TRY: gather them again with tools/moments.py, or --no-smooth"
        )
    if found.vectors in ("", digest_of(descriptor, weights)):
        return values.full, values
    if smoothed is None or found.vectors != digest_of(*plain):
        raise PhasorError(
            f"{path}: moments of other inputs: the norms, biases and input scales of the model "
            "that gave them are not those of this conversion. TRY: tools/moments.py with the file "
            "that --type f32 writes, with the same --smooth or --no-smooth"
        )
    scales = smoothed

    def scaled(slot: R.Slot) -> np.ndarray:
        by = scales.scale_of(slot)
        if by is None:
            return values(slot)
        one: np.ndarray = values(slot) * (np.outer(by, by) if values.full else by**2)
        mean = np.float32(np.diagonal(one).mean() if values.full else one.mean())
        if mean > 0:
            np.divide(one, mean, out=one)
        return one

    return values.full, scaled


_NPY_HEAD = re.compile(
    rb"\{'descr': '([<>|=]?[a-z]\d{1,3})', 'fortran_order': (?:True|False), "
    rb"'shape': \(([0-9, ]{0,60})\), \} *(?:# vectors sha256 ([0-9a-f]{64}) *)?\n?"
)
_NPY_ALIGNMENT = 64


def npy_head(count: int, vectors: str) -> bytes:
    """What stands before the values. NumPy reads the head as a Python literal, in which the digest
    is a comment."""
    shape = {"descr": "<f4", "fortran_order": False, "shape": (count,)}
    text = f"{repr(shape)[:-1]}, }}  # vectors sha256 {vectors}"
    text = text.ljust(-(len(text) + 11) % _NPY_ALIGNMENT + len(text)) + "\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text.encode("ascii")


def read_moments(path: Path) -> Stored:
    """A .npy file of one row of f32, as moments.py or NumPy writes it: its head is compared with
    the only ones that there are, and not evaluated."""
    data = map_bytes(path)
    start = data[:10].tobytes()
    if start[:7] != b"\x93NUMPY\x01":
        raise PhasorError(f"{path}: cannot be read as a NumPy array: not a .npy file of version 1")
    begin = 10 + int.from_bytes(start[8:10], "little")
    head = _NPY_HEAD.fullmatch(data[10:begin].tobytes())
    if head is None:
        raise PhasorError(f"{path}: cannot be read as a NumPy array: its head is not one")
    kind = head[1].decode()
    shape = tuple(int(part) for part in head[2].decode().replace(" ", "").split(",") if part)
    if kind != "<f4" or len(shape) != 1 or data.size - begin != 4 * shape[0]:
        raise PhasorError(
            f"{path}: has {kind} of shape {shape} in {data.size - begin:,} bytes, expected one row "
            "of f32"
        )
    return Stored(np.frombuffer(data[begin:], dtype="<f4"), (head[3] or b"").decode())


# ---- Command line


@front_door("moments")
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(
        description="Measures the mean square of each input of a model's matrices over a text."
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, nargs="+", metavar="TEXT")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument(
        "--tokens",
        type=int,
        default=4096,
        metavar="N",
        help="Read about this many tokens. Default: 4096.",
    )
    parser.add_argument(
        "--window",
        type=int,
        default=512,
        metavar="N",
        help="Context of a decoder, in tokens. Default: 512.",
    )
    parser.add_argument(
        "--phasor", type=Path, metavar="PATH", help="Program to run. Default: build/phasor."
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="Write second moments, K x K for each matrix, for convert.py.",
    )
    args = parser.parse_args(argv)
    if args.tokens < 1 or args.window < 1:
        parser.error("--tokens, --window: expected a number above 0")
    program = need_phasor(args.phasor)
    check_output(args.output, args.model, *args.texts, program)
    text = "\n".join(map(read_text, args.texts))
    file, given = PhasorFile(args.model), (program, text, args.tokens, args.window)
    vectors = digest(
        file.raw(key).tobytes() for key, e in file.entries.items() if e.layout == VECTOR
    )
    values = max(part.stop for part in places_of(file.descriptor, args.full).values())
    with replacing(args.output) as out:
        out.write(npy_head(values, vectors))
        if not args.full:
            out.write(measure(file, *given).moments().astype("<f4").tobytes())
            return 0
        begin = out.tell()
        out.truncate(begin + 4 * values)
        sums = np.memmap(out.name, "<f4", "r+", begin, (values,))
        measure(file, *given, sums).finish()
        sums.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
