"""The bits of the inputs of a language model's products: 8 where its logits on four prompts, or on
random ids without a tokenizer, stay as near to those of the same weights in f32 as they should,
measured with the phasor program; else 16 (rule 1.21).

Bounded: prompts of at most 32 tokens, models of at most 2 GiB as f32, and a time for each run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from phasor import scratch
from phasor import vectors as V
from phasor.auto_type import difference
from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.files import writing
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format.writer import write_model
from phasor.program import ids_text, printed_ids, run

PROMPTS = (
    "The capital of France is",
    "Once upon a time there was a little girl who",
    "def add(a, b):\n    return",
    "Water boils at a temperature of",
)
_MOST_IDS, _MOST_WEIGHTS, _MOST_SECONDS = 32, 1 << 29, 120
# Types of models that were trained with inputs of 8 bits: nothing else is nearer to them.
TRAINED = (L.Q2R,)
LIMIT = 0.0005  # the divergence that int8 inputs may cost
_MEASURE = "the logits' divergence from f32 (Kullback-Leibler, the mean)"


def rounds(model: Model) -> bool:
    """Whether this is a language model with matrices whose inputs are rounded."""
    d = model.descriptor
    if d["model"]["stack"] != D.DECODER or d["output"]["output"] != D.LOGITS:
        return False
    return quantized(model)


def quantized(model: Model, types: tuple[int, ...] = L.QUANTIZED) -> bool:
    """Whether some matrix is, in one of these types."""
    slots = R.slots(model.descriptor)
    return any(model.type_of(slot) in types for slot in slots if slot.matrix)


def choose(
    model: Model, sections: dict[int, bytes], file: Path, phasor: Path | None
) -> tuple[int, str]:
    """(L.INPUTS16 or 0, the line that says why) of a model that `rounds` and its file, whose inputs
    have 8 bits. It is not for TRAINED matrices."""
    if {model.type_of(slot) for slot in R.slots(model.descriptor) if slot.matrix} & set(
        L.QUANTIZED
    ) <= set(TRAINED):
        return 0, "inputs of 8 bits, as those that the model was trained with"
    weights = sum(slot.rows * max(slot.cols, 1) for slot in R.slots(model.descriptor))
    why = ""
    if phasor is None:
        why = "there is no phasor program"
    elif weights > _MOST_WEIGHTS:
        why = "the model is too large for that"
    else:
        try:
            found, read = divergence(model, sections, file, phasor)
        except PhasorError as error:
            why = str(error)
    if why:
        said = f"inputs of 16 bits; what 8 bits would cost was not measured ({why})"
        return L.INPUTS16, f"{said}; --inputs 8 takes them"
    said = f"on {read} {_MEASURE} would be {found:.2g} with inputs of 8 bits"
    if found < LIMIT:
        return 0, f"inputs of 8 bits: {said}, less than {LIMIT}; --inputs 16 is nearer"
    return L.INPUTS16, f"inputs of 16 bits: {said}, more than {LIMIT}; --inputs 8 takes them"


def divergence(
    model: Model, sections: dict[int, bytes], file: Path, phasor: Path
) -> tuple[float, str]:
    """(the mean over all positions of what is read, what that is)."""
    prompts, read = _prompts(file, phasor)
    with scratch.file() as exact, scratch.file() as array:
        with writing(exact) as out:
            write_model(
                out,
                model.descriptor,
                lambda slot: V.as_array(slot, model.weights(slot)),
                L.F32,
                sections,
            )
        wanted, got = (
            np.concatenate([_logits(phasor, path, ids, array) for ids in prompts])
            for path in (exact, file)
        )
    return difference(wanted, got, D.LOGITS), read


def _prompts(file: Path, phasor: Path) -> tuple[list[list[int]], str]:
    """(the ids of the prompts, what they are); without a tokenizer those of the file's test
    vectors."""
    d = PhasorFile(file).descriptor
    if d["target"]["tokenizer"]:
        words = ("--print-ids", "--")
        texts = (run(phasor, "tokenize", file, *words, p, limit=_MOST_SECONDS) for p in PROMPTS)
        ids = [one for one in map(printed_ids, texts) if one]
        if not ids:
            raise PhasorError("its tokenizer has no id for any of the prompts")
        read = "four prompts" if len(ids) == len(PROMPTS) else f"{len(ids)} of four prompts"
    else:
        ids = [list(given.target) for given in V.choose_inputs(d)]
        read = f"{len(ids)} sequences of random ids (the model has no tokenizer)"
    most = min(_MOST_IDS, D.longest(d, "decoder") or _MOST_IDS)
    return [one[:most] for one in ids], read


def _logits(phasor: Path, file: Path, ids: list[int], array: Path) -> np.ndarray:
    """Of every position (T, V)."""
    flags = ("-n", 1, "--print-ids", "--quiet", "--logits", array)
    run(phasor, "run", file, "--ids", ids_text(ids), *flags, limit=_MOST_SECONDS)
    try:
        found = np.load(array)
    except (OSError, ValueError) as error:
        raise PhasorError(f"{array}: cannot be read: {error}") from error
    result: np.ndarray = found[: len(ids)]
    return result
