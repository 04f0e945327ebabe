"""Test vectors: the VECTORS section of a file, made with the float64 reference (file-format.md).
numpy only."""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any, Callable, NamedTuple, Sequence, Union

import numpy as np

import phasor.threads  # noqa: F401  before NumPy
from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.format.file import Narrow, PhasorFile, Quantized
from phasor.format.file import Weights as Stored
from phasor.format.layout import F32, PANEL16, QUANTIZED, flush_subnormals, round_up
from phasor.format.tensors import Slot, key_of, slots
from phasor.reference.forward import Reference, Trace
from phasor.runs import Input, Ran, Step, rows_of, run_all

SAMPLES = 16
MOST_IN_FLOAT32 = 1 / 16  # of a row's values: the tolerance, 8 times as wide, still tells
AUTHOR = "tools/reference.py, float64, from the weights in f32"
FULL, SHORT, NONE = PROOFS = ("full", "short", "none")  # convert.py --proof
# Behind the author of fewer vectors (src/cli/engine/engine.cpp reads it).
_SHORTER = ", short"


class _Entry(NamedTuple):
    """What the reference asks a directory about a tensor."""

    type: int
    layout: int
    rows: int
    cols: int
    inputs: int = 0


def as_array(slot: Slot, given: Stored) -> np.ndarray:
    """The values of a slot whatever they are stored as."""
    return given.widened(slot.cols, np.float32) if isinstance(given, Quantized) else given


class ExactWeights:
    """What the reference reads of a file (descriptor, entries, weights), of weights that are not
    stored yet: all matrices are f32."""

    def __init__(self, descriptor: dict[str, Any], source: Callable[[Slot], Stored]) -> None:
        """source gives the values of each slot; the descriptor has every default filled in."""
        self.descriptor, self._source = descriptor, source
        self._slots = {slot.key: slot for slot in slots(descriptor)}
        self.entries = {
            key: _Entry(slot.type, slot.layout, slot.rows, slot.cols)
            for key, slot in self._slots.items()
        }

    def narrow(self, key: int) -> Narrow:
        """True rows, as PhasorFile.narrow."""
        slot = self._slots[key]
        values = np.asarray(as_array(slot, self._source(slot)))
        return Narrow(flush_subnormals(values) if slot.type == F32 else values)

    def weights(self, key: int) -> np.ndarray:
        return self.narrow(key).widened()


Weights = Union[PhasorFile, ExactWeights]


def _numbers(text: str, count: int) -> np.ndarray:
    """Numbers that are the same with every version of every library: int64 (count), below 2³²."""
    return np.frombuffer(hashlib.shake_128(text.encode()).digest(4 * count), dtype="<u4").astype(
        np.int64
    )


def first_id(side: dict[str, Any]) -> int | None:
    """What a decoder's input begins with."""
    result: int | None = (
        side["decoder_start"] if side["decoder_start"] is not None else side["start"]
    )
    return result


def author_of(proof: str) -> str:
    """Who computed the vectors of this proof."""
    return AUTHOR + _SHORTER * (proof == SHORT)


def choose_inputs(descriptor: dict[str, Any], seed: int = 1, proof: str = FULL) -> list[Input]:
    """Three inputs: of length 1, of a usual length, and a long one of bounded cost (at most 64,
    below the model's maximum), which a short proof does without."""

    def ids(side: str, count: int, first: int | None, last: Sequence[int] = ()) -> tuple[int, ...]:
        values = (
            _numbers(f"{seed} {side} {count}", count) % descriptor[side]["vocabulary"]
        ).tolist()
        if first is not None:
            values[0] = first
        if last and count > 1:
            values[-1] = last[0]
        return tuple(values)

    def length(name: str, wanted: int) -> int:
        most = D.longest(descriptor, name)
        return max(1, min(wanted, most) if most else wanted)

    out = []
    for source_wanted, target_wanted in ((1, 1), (11, 9), (64, 40))[: 3 - (proof == SHORT)]:
        source: tuple[int, ...] = ()
        target: tuple[int, ...] = ()
        if "encoder" in descriptor:
            source = ids(
                "source", length("encoder", source_wanted), None, descriptor["source"]["suffix"]
            )
        if "decoder" in descriptor:
            first = first_id(descriptor["target"])
            target = ids("target", length("decoder", target_wanted), first)
        out.append(Input(source, target))
    return out


def _places(count: int, seed: int) -> np.ndarray:
    """16 places below count, ascending; they repeat only where count is smaller than 16."""
    if count >= SAMPLES:  # one of each of 16 equal stretches
        borders = np.arange(SAMPLES + 1) * count // SAMPLES
        result: np.ndarray = (
            borders[:-1] + _numbers(f"places {seed}", SAMPLES) % np.diff(borders)
        ).astype("<u4")
        return result
    return np.sort(np.arange(SAMPLES) % count).astype("<u4")


def section_bytes(descriptor: dict[str, Any], inputs: Sequence[Input]) -> int:
    """Bytes of the section for these inputs, before anything is computed."""
    size = 24 + round_up(len(AUTHOR.encode()), 4)
    for source, target in inputs:
        words = 6 + len(source) + len(target) + SAMPLES
        words += rows_of(descriptor, source, target) * (3 + SAMPLES)
        for ids, name in ((source, "encoder"), (target, "decoder")):
            if ids:
                words += SAMPLES * (1 + len(descriptor[name]["layers"]) // 2)
        size += 4 * words
    return size


def _samples(trace: Trace, position: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places (16), and the residual there after each block, (layers, 16)."""
    places = _places(trace.output.shape[1], seed)
    return places, np.stack([x[position][places] for x in trace.residuals])


def _check_finite(file: Weights, ran: Ran) -> None:
    """PhasorError where a value, or the range of a row, is no number of float32: nobody could
    replay such vectors."""
    values = [x for trace in ran.traces if trace is not None for x in trace.residuals]
    with np.errstate(all="ignore"):
        some = [x.astype(np.float32) for x in (*values, ran.output, np.ptp(ran.output, axis=1))]
    if all(np.isfinite(x).all() for x in some):
        return
    for slot in slots(file.descriptor):
        if not np.isfinite(file.weights(slot.key)).all():
            raise PhasorError(f"{slot.name}: a weight is not finite in f32")
    raise PhasorError(
        "the model computes values that are no numbers of float32: weights are too large, or a "
        "norm divides by nothing"
    )


def _differences(file: Weights, exact: Ran, rounded: Ran, seed: int) -> float:
    """Largest difference of a float32 run from the float64 run, as `phasor verify` measures it: of
    the logits as a share of the position's range, of the sampled residuals as a share of the
    largest of them."""
    for ran in (exact, rounded):
        _check_finite(file, ran)
    worst = _share(rounded.output - exact.output, np.ptp(exact.output, axis=1))
    for one, other, offset in zip(exact.traces, rounded.traces, (0, 1)):
        if one is not None and other is not None:
            want, got = (
                _samples(run, one.output.shape[0] // 2, seed + offset)[1] for run in (one, other)
            )
            worst = max(worst, _share(got - want, np.abs(want).max(axis=1)))
    return worst


def _share(differences: np.ndarray, whole: np.ndarray) -> float:
    """The largest difference of all rows, as a share of the row's whole; one of 0 counts as 1."""
    gap = np.abs(differences.reshape(len(whole), -1)).max(axis=1)
    return float((gap / np.where(whole > 0, whole, 1).astype(np.float64)).max())


def rounding_bound(file: Weights) -> float:
    """2⁻²⁴ · √K · √(linear layers), the growth of rounding errors that are independent, for the
    largest K."""
    matrices = [e for e in file.entries.values() if e.layout == PANEL16]
    return 2.0**-24 * math.sqrt(max(e.cols for e in matrices)) * math.sqrt(len(matrices))


def build(
    file: Weights,
    inputs: Sequence[Input],
    outputs: Sequence[np.ndarray] | None = None,
    author: str = AUTHOR,
    step: Step = lambda: None,
    seen: Callable[[np.ndarray], None] = lambda output: None,
) -> bytes:
    """The section of exact weights: values in float64 and, as tolerance, 8 × the larger of the
    bound and what a float32 run of the reference measured.

    outputs: (R, W) of each input, in place of the reference's; author: who computed them; step: as
    run_all has it; seen: gets the output rows of each input.
    """
    body, measured = [], 0.0
    exact, rounded = run_all(file, inputs, (np.float64, np.float32), step)
    for index, given in enumerate(inputs):
        seed = 100 + 10 * index
        measured = max(measured, _differences(file, exact[index], rounded[index], seed))
        if measured > MOST_IN_FLOAT32:
            raise PhasorError(
                f"float32 computes this model wrong by {measured:.2g} of a row's range, so no test"
                " vector could tell a right run from a wrong one: weights are too large, or all"
                " outputs are equal"
            )
        output = exact[index].output if outputs is None else outputs[index]
        seen(output)
        body.append(_vector(exact[index], given, seed, 0, output))
    return _section(body, 8 * max(rounding_bound(file), measured), author)


def build_stored(
    file: Weights, inputs: Sequence[Input], author: str, step: Step = lambda: None
) -> tuple[bytes, list[Ran]]:
    """The section of weights as they are stored, and its runs. Products of such weights may round
    their inputs, so the tolerance is 8 × the larger of the bound and STEP. If that is too little,
    moved_by_rounding says what rounding can do."""
    (runs,) = run_all(file, inputs, (np.float64,), step)
    body = []
    for index, (given, ran) in enumerate(zip(inputs, runs)):
        _check_finite(file, ran)
        body.append(_vector(ran, given, 100 + 10 * index, 0, ran.output))
    return _section(body, 8 * max(rounding_bound(file), STEP), author), runs


def _section(body: Sequence[bytes], tolerance: float, author: str) -> bytes:
    text = author.encode()
    head = struct.pack("<IIIfII", len(body), 0, len(text), tolerance, SAMPLES, 0)
    return head + text + bytes(-len(text) % 4) + b"".join(body)


# Of the proof that a quantized file's arithmetic is right, by its stored weights: a rounding
# difference can move an activation across the border between two integers, a step of 1/127 of its
# group's largest value, and several such steps meet in one sum. What is damaged or misread differs
# by far more.
STEP = 2.0**-8


def tolerance_of(exact: float, logit: float, residual: float, lead: float) -> float:
    """The tolerance of a file whose matrices are not all f32: twice what storing them so does to
    the vectors, and at least that of the exact weights.

    The numbers are those of `phasor verify`: f32, and the same ones on every machine. `phasor
    quantize` takes the same.
    """
    given = np.array([exact, lead, logit, residual], np.float32)
    return float((given * np.array([1, 1, 2, 2], np.float32)).max())


def measured_tolerance(
    section: bytes, file: PhasorFile, inputs: Sequence[Input], step: Step = lambda: None
) -> float:
    """The same, measured with the float32 reference: for a file that no phasor program has run."""
    head = read(section, file.descriptor)
    logit = residual = lead = 0.0
    for vector, ran in zip(head.vectors, run_all(file, inputs, (np.float32,), step)[0]):
        _check_finite(file, ran)
        output = ran.output
        best = output[np.arange(len(output)), vector.argmax]
        logit = max(
            logit,
            _share(output[:, vector.logit_ids] - vector.logits, vector.range),
            _share(best - vector.largest, vector.range),
        )
        lead = max(lead, _share(output.max(axis=1) - best, vector.range))
        for trace, at, places, want in zip(
            ran.traces,
            vector.positions,
            (vector.source_places, vector.target_places),
            (vector.source_residuals, vector.target_residuals),
        ):
            if trace is not None:
                got = np.stack([x[at][places] for x in trace.residuals])
                residual = max(residual, _share(got - want, np.abs(want).max(axis=1)))
    return tolerance_of(head.tolerance, logit, residual, lead)


def quantized(file: Weights) -> bool:
    """Whether products of this file round their inputs."""
    return any(entry.type in QUANTIZED for entry in file.entries.values())


class Disturbed(Reference):
    """The reference in float64 with an error in every product, as large as rounding makes it.

    A chain of K sums whose partial sums are about as large as the result, or as the terms on a
    random walk, has errors of 2⁻²⁴·√K·√(y² + Σ(w·x)²) (Higham, Accuracy and Stability of Numerical
    Algorithms, 2002, section 2.8). Where the inputs are int8 one of them may be a step further:
    2⁻⁸·√Σ(w·x)². The signs are fixed.
    """

    def product(self, x: np.ndarray, stack: int, weights: int, role: int) -> np.ndarray:
        y, key = super().product(x, stack, weights, role), key_of(stack, weights, role)
        terms = self.in_blocks(x * x, key, squared=True)
        step = self.file.entries[key].type in QUANTIZED
        size = STEP * np.sqrt(terms)
        if not step:
            size = 2.0**-24 * math.sqrt(x.shape[1]) * np.sqrt(terms + y * y)
        bits = _numbers(f"signs {stack} {weights} {role}", y.size) & 1
        result: np.ndarray = y + size * (2 * bits.reshape(y.shape) - 1)
        return result


def moved_by_rounding(
    file: Weights, inputs: Sequence[Input], exact: Sequence[Ran] | None = None
) -> float:
    """The largest difference that such errors make, or float32 itself, as `phasor verify` measures
    it. exact: the runs in float64, where they are there."""
    moved = run_all(file, inputs, (np.float32, np.float64), kind=Disturbed)
    if exact is None:
        (exact,) = run_all(file, inputs, (np.float64,))
    return max(
        _differences(file, one, other, 100 + 10 * index)
        for runs in moved
        for index, (one, other) in enumerate(zip(exact, runs))
    )


def _vector(ran: Ran, given: Input, seed: int, hash_: int, output: np.ndarray) -> bytes:
    logit_ids = _places(output.shape[1], seed + 2)
    n, t = map(len, given)
    out = [
        struct.pack("<IIIIQ", n, t, n // 2, t // 2, hash_),
        np.asarray(given.source + given.target, dtype="<u4").tobytes(),
        logit_ids.tobytes(),
    ]
    for row in output:
        out.append(
            struct.pack("<Iff", int(np.argmax(row)), row.max(), np.ptp(row))
            + row[logit_ids].astype("<f4").tobytes()
        )
    for trace, offset in zip(ran.traces, (0, 1)):
        if trace is not None:
            places, values = _samples(trace, trace.output.shape[0] // 2, seed + offset)
            out.append(places.tobytes() + values.astype("<f4").tobytes())
    return b"".join(out)


def with_tolerance(section: bytes, tolerance: float) -> bytes:
    """The same section with another tolerance."""
    out = bytearray(section)
    struct.pack_into("<f", out, 12, tolerance)
    return bytes(out)


def with_hashes(
    section: bytes, descriptor: dict[str, Any], hashes: Sequence[int], numerics: int
) -> bytes:
    """The same section with the hashes of phasor's own logits put in."""
    out = bytearray(section)
    struct.pack_into("<I", out, 4, numerics)
    at = 24 + round_up(struct.unpack_from("<I", out, 8)[0], 4)
    for value in hashes:
        n, t = struct.unpack_from("<II", out, at)
        struct.pack_into("<Q", out, at + 16, value)
        at += section_bytes(descriptor, [Input((0,) * n, (0,) * t)]) - section_bytes(descriptor, [])
    if at != len(out):
        raise AssertionError("the section is not as long as its vectors")
    return bytes(out)


class Vector(NamedTuple):
    """One vector as read back."""

    source: np.ndarray  # (n)
    target: np.ndarray  # (t)
    positions: tuple[int, int]
    hash: int
    logit_ids: np.ndarray  # (16)
    argmax: np.ndarray  # (rows)
    largest: np.ndarray  # (rows)
    range: np.ndarray  # (rows)
    logits: np.ndarray  # (rows, 16)
    source_places: np.ndarray
    source_residuals: np.ndarray  # (encoder layers, 16)
    target_places: np.ndarray
    target_residuals: np.ndarray  # (decoder layers, 16)


class Section(NamedTuple):
    """A VECTORS section as read back."""

    numerics: int
    tolerance: float
    author: str
    vectors: list[Vector]


def read(section: bytes, descriptor: dict[str, Any]) -> Section:
    """The section's content; PhasorError when it is not sound."""
    try:
        return _read(section, descriptor)
    except (struct.error, ValueError) as error:
        raise PhasorError("test vectors: the section is cut off") from error


def _read(section: bytes, descriptor: dict[str, Any]) -> Section:
    count, numerics, author_bytes, tolerance, samples, reserved = struct.unpack_from(
        "<IIIfII", section
    )
    if not 1 <= count <= 64 or samples != SAMPLES or reserved:
        raise PhasorError("test vectors: the section's head is not sound")
    at = 24

    def take(words: int, kind: str) -> np.ndarray:
        nonlocal at
        out = np.frombuffer(section, dtype=kind, count=words, offset=at)
        at += 4 * words
        return out

    author = section[at : at + author_bytes].decode()
    at += round_up(author_bytes, 4)
    vectors = []
    for _ in range(count):
        n, t, rs, rt, hash_ = struct.unpack_from("<IIIIQ", section, at)
        at += 24
        source, target, logit_ids = take(n, "<u4"), take(t, "<u4"), take(samples, "<u4")
        count = rows_of(descriptor, source.tolist(), target.tolist())
        rows = take(count * (3 + samples), "<u4").reshape(count, 3 + samples)
        floats = np.ascontiguousarray(rows[:, 1:]).view("<f4")
        residuals = []
        for ids, name in ((n, "encoder"), (t, "decoder")):
            layers = len(descriptor[name]["layers"]) // 2 if ids else 0
            residuals += [
                take(samples if ids else 0, "<u4"),
                take(layers * samples, "<f4").reshape(layers, samples),
            ]
        output = (rows[:, 0], floats[:, 0], floats[:, 1], floats[:, 2:])
        vectors.append(Vector(source, target, (rs, rt), hash_, logit_ids, *output, *residuals))
    if at != len(section):
        raise PhasorError(f"test vectors: {len(section) - at} bytes are left over")
    return Section(numerics, tolerance, author, vectors)
