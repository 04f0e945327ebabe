"""A model and its sections become a `.phasor` file: the type of its matrices, the test vectors that
prove it, and the bytes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Sequence

import numpy as np

from phasor import expect as expected_outputs
from phasor import int8_inputs
from phasor import vectors as V
from phasor.auto_type import pick
from phasor.entry import count
from phasor.errors import PhasorError, Problems, named
from phasor.families.model import Model
from phasor.files import replacing
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import record
from phasor.format import tensors as R
from phasor.format.file import EXPORTS, RECORD, VECTORS, PhasorFile
from phasor.format.meta import as_stored
from phasor.format.writer import Rounding, replace_section, set_inputs, write_model
from phasor.moments import of_conversion
from phasor.replay import Counting, finished
from phasor.runs import Input, Step, steps_of
from phasor.smoothing import Smoothed, may_scale
from phasor.tokenizers.section import Exportable

# --inputs: the bits of the inputs of quantized matrices; AUTO measures.
AUTO_INPUTS, ROTATED = "auto", "rotated"
INPUTS = {"8": 0, "16": L.INPUTS16, ROTATED: L.INPUTS_ROTATED}
INPUTS_HELP = (
    "Bits of the inputs of quantized matrices. 16 is nearly exact; prompts take longer. "
    "rotated: 8, rotated before they are rounded, of matrices that become a type in groups: "
    f"{', '.join(L.TYPES[kind] for kind in L.ROUNDED if kind in L.IN_GROUPS)}. "
    "auto, of a language model: 8 if the logits stay near enough to those of f32, else 16. "
    "Default: auto without --type, else 8."
)

# Types whose rounding takes the moments of inputs; second moments count in all in groups.
WEIGHED = tuple(kind for kind in L.IN_GROUPS if kind not in L.MINIMA)

# Weights of a model by those of its source; padding and tables of a small one.
_MOST_COPIES, _SMALL = 4, 1 << 20


def progress(quiet: bool) -> Counting:
    """entry.count for what a conversion does."""
    if quiet:
        return lambda what, of: lambda: None

    def counting(what: str, of: int) -> Step:
        done = iter(range(1, of + 1))
        return lambda: count("convert", next(done, of), of, what)

    return counting


def convert(
    model: Model,
    output: Path,
    kind: int | None,
    sections: dict[int, bytes],
    phasor: Path | None,
    *,
    quiet: bool = False,
    smooth: bool | None = None,
    output_kind: int | None = None,
    types_of: Path | None = None,
    moments: Path | None = None,
    auto: bool = False,
    calibration: Path | None = None,
    expect: Path | None = None,
    proof: str = V.FULL,
    bits: str | None = None,
    origin: Sequence[Path] = (),
) -> list[Rounding]:
    """Writes `output` with test vectors; the rounding of each type. PhasorError leaves what was
    there before.

    kind: the type of the matrices; None: f32, or what a GGUF file's can be kept in. output_kind:
    that of the embeddings and the output's matrix; None: as the others. types_of: a file of the
    same model, which has each matrix's type. moments: a file of moments.py. auto: the type and the
    smoothing are chosen (auto_type.py), by a text where one is given. expect: the user's own
    model's outputs (expect.py). proof: which test vectors, one of V.PROOFS. bits: of the inputs of
    quantized matrices, one of INPUTS, or AUTO_INPUTS; None: that without a type, else 8. origin:
    the source's files of weights.
    """
    problems = model.problems()
    if problems:
        lines = [f"{model.checkpoint.path}: {line}" for line in problems]
        raise Problems(lines, "--report FILE")  # which is written by now
    check_growth(model)
    if expect is None and model.unproved:
        raise PhasorError(model.unproved)
    if expect is not None:
        expected_outputs.put_vectors(expected_outputs.opened(expect), model)
    descriptor, weights = model.descriptor, model.weights
    model.asked, model.asked_output = kind, output_kind
    model.asked_types = None if types_of is None else types_in(types_of, model)
    if bits not in (None, "8") and not auto and not int8_inputs.quantized(model):
        raise PhasorError(f"--inputs {bits}: no matrix is quantized; give --type q8 or another")
    if bits == ROTATED and not auto:
        check_rotated(model)
    if smooth and (slot := rounded_already(model)) is not None:
        raise PhasorError(
            f"{model.checkpoint.path}: {slot.name} is {L.TYPES[model.type_of(slot)]} already, and "
            "what was rounded is not rounded again for input scales. TRY: without --smooth"
        )
    bits = bits or ("8" if auto or kind is not None else AUTO_INPUTS)
    smoothed = None
    if auto:
        picked = pick(model, sections, phasor, calibration)
        model.asked, smoothed = picked.kind, picked.smoothed
        model.notes += picked.lines
    elif smooth or (
        smooth is None
        and (kind in L.QUANTIZED or types_of is not None)
        and descriptor["model"]["stack"] == D.ENCODER
        and rounded_already(model) is None
    ):
        smoothed = Smoothed(descriptor, lambda slot: V.as_array(slot, model.weights(slot)))
    model.note_types(smoothed.scaled if smoothed is not None else None)
    if kind == L.Q8R:
        model.notes.append(
            "q8r has one scale for a row of inputs, which a model with channels that are large on "
            "most tokens does not bear: --type q8rh rotates them, q8r-auto measures and chooses"
        )
    if smoothed is not None:
        descriptor, weights = smoothed.descriptor, smoothed.weights
        model.notes.append(
            "the inputs of q, k, v and of the feed-forward are scaled by channel, by powers of two "
            "(--no-smooth leaves them)"
        )
    stored, counting = as_stored(descriptor), progress(quiet)
    second, values = False, None
    if moments is not None:
        plain = as_stored(model.descriptor), model.weights
        second, values = of_conversion(moments, stored, weights, plain, smoothed)
    inputs: list[Input] = []
    outputs = np.zeros((0, 1), np.uint32)
    texts = {EXPORTS[k]: made.text for k, made in sections.items() if isinstance(made, Exportable)}
    sections = {**sections, **{kind: text for kind, text in texts.items() if text}}
    if proof != V.NONE:
        exact = V.ExactWeights(stored, weights)
        step = counting("layers of the test vectors", steps_of(stored))
        more = (proof, step, model.inside)
        inputs, sections[VECTORS], outputs = test_vectors(exact, expect, *more)
    else:
        model.notes.append("no test vectors (--proof none): verify checks structure and checksums")
    by = [path for path in (moments, calibration) if path is not None]
    made = record.Record(record.digest_of(origin), record.EXACT, record.digest_of(by), outputs)
    sections[RECORD] = made.section()
    step = counting("tensors written", len(R.slots(model.descriptor)))
    with replacing(output) as file:
        rounding = write_model(
            file,
            descriptor,
            weights,
            model.type_of,
            sections,
            lambda _: step(),
            moments=values,
            inputs=INPUTS.get(bits, 0),
        )
        if bits == AUTO_INPUTS and int8_inputs.rounds(model):
            file.flush()
            form, line = int8_inputs.choose(model, sections, Path(file.name), phasor)
            set_inputs(file, form, int8_inputs.TRAINED)
            model.notes.append(line)
        if inputs:
            file.flush()
            section, measured = finished(file, sections[VECTORS], inputs, phasor, counting)
            replace_section(file, VECTORS, section)
            made = made._replace(**measured)
        counts = L.IN_GROUPS if second else WEIGHED
        used = moments is not None and any(r.largest > 0 and r.type in counts for r in rounding)
        if moments is not None and not used:
            by.remove(moments)
            made = made._replace(calibration=record.digest_of(by))
            model.notes.append(f"{moments}: no matrix is rounded that moments count in")
        done = {
            record.KEPT: model.keeps(),
            record.SMOOTHED: smoothed is not None,
            record.ROUNDED: any(one.largest > 0 for one in rounding),
            record.MOMENTS: used and not second,
            record.SECOND: used and second,
            record.MEASURED: auto,
        }
        made = made._replace(method=record.method_of(word for word in done if done[word]))
        replace_section(file, RECORD, made.section())
    return rounding


def test_vectors(
    file: V.Weights, expect: Path | None, proof: str, step: Step, inside: tuple[int, ...] = ()
) -> tuple[list[Input], bytes, np.ndarray]:
    """(inputs, section, outputs that the record has): of the reference, or of the user's own model,
    with which it must agree."""
    rows: list[np.ndarray] = []
    if expect is None:
        inputs = V.choose_inputs(file.descriptor, proof=proof)
        section = V.build(file, inputs, author=V.author_of(proof), step=step, seen=rows.append)
        return inputs, section, record.outputs_of(file.descriptor, rows)
    expected = expected_outputs.read(expected_outputs.opened(expect), file.descriptor, inside)
    inputs, outputs = [one.given for one in expected], [one.output for one in expected]
    section = V.build(file, inputs, outputs, expected_outputs.AUTHOR, step, rows.append)
    try:
        expected_outputs.check(file, expected, V.read(section, file.descriptor).tolerance)
    except PhasorError as error:
        raise named(expect, error) from error
    return inputs, section, record.outputs_of(file.descriptor, rows)


def types_in(path: Path, model: Model) -> dict[int, int]:
    """The type of each matrix of a file of the same model, by its key."""
    entries = PhasorFile(path).entries
    for slot in R.slots(model.descriptor):
        found = entries.get(slot.key)
        if slot.matrix and (found is None or (found.rows, found.cols) != (slot.rows, slot.cols)):
            has = f"{found.rows} × {found.cols}" if found else "no such matrix"
            raise PhasorError(
                f"{path}: is of another model: {slot.name} (found {has}, expected {slot.rows} × "
                f"{slot.cols}). TRY: a file that phasor quantize made of this model"
            )
    return {key: entry.type for key, entry in entries.items()}


def check_rotated(model: Model) -> None:
    """PhasorError where no matrix can have rotated inputs, or one stays as its source has it."""
    if not int8_inputs.quantized(model, L.IN_GROUPS):
        raise PhasorError(
            "--inputs rotated: no matrix has a scale for each group; give --type q8 or q4, or q8rh "
            "without --inputs"
        )
    for slot in R.slots(model.descriptor):
        if slot.layout == L.PANEL16 and model.type_of(slot) in L.IN_GROUPS and model.stays(slot):
            raise PhasorError(
                f"{model.checkpoint.path}: {slot.name} is {L.TYPES[model.type_of(slot)]} already, "
                "and what was rounded is not rounded again for rotated inputs. TRY: --inputs 16"
            )


def rounded_already(model: Model) -> R.Slot | None:
    """A matrix with input scales whose values the source has rounded, and which keeps them."""
    slots = (slot for slot in R.slots(model.descriptor) if slot.matrix and may_scale(slot))
    quantized = (slot for slot in slots if model.type_of(slot) in L.QUANTIZED)
    return next((slot for slot in quantized if model.stays(slot)), None)


def check_growth(model: Model) -> None:
    """PhasorError where one tensor stands for so many parts that a small source would make a large
    model."""
    given = sum(
        math.prod(tensor.shape)
        for tensor in model.checkpoint.tensors.values()
        if not getattr(tensor, "repeats", False)
    )
    made = sum(
        slot.rows * max(slot.cols, 1)
        for slot in R.slots(model.descriptor)
        if slot.key in model.parts
    )
    if made > _MOST_COPIES * given + _SMALL:
        raise PhasorError(
            f"{model.checkpoint.path}: the model would have {made:,} weights, the file has "
            f"{given:,}: a tensor stands for too many parts"
        )


def report(output: Path, rounding: Sequence[Rounding]) -> None:
    """Size, and the largest rounding error of each type."""
    print(f"{output}: {output.stat().st_size:,} bytes")
    for r in rounding:
        text = (
            f"largest rounding error {r.largest:.3g} ({r.share:.3%} of its tensor's largest value)"
            if r.largest
            else "stored exactly"
        )
        print(
            f"  {L.TYPES[r.type]:4} {r.bytes:>12,} bytes   {text}"
            + (f", in {r.where}" if r.where else "")
        )
