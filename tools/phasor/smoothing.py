"""Input scales for q8: channels whose activations are much larger than their neighbors' spoil the
rounding of their group of 32.

The input of q, k, v and of the feed-forward is multiplied by u (a power of two for each channel, so
no value changes but by its exponent) and the columns of the matrix are divided by it: the function
is the same, its rounding is not (Xiao et al. 2023, SmoothQuant, equation 4). Where the layer has a
norm of its own before it, u goes into the norm's weights; else the file has it as a vector. The
activations are those of random token ids in the float64 reference, unless ids are given: no text is
needed, and the same model gives the same file on every machine.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from phasor import scratch
from phasor import vectors as V
from phasor.files import writing
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile, Weights
from phasor.format.layout import F32
from phasor.format.writer import write_model
from phasor.reference.forward import Reference
from phasor.runs import Input

_LENGTH, _STRENGTH = 64, 0.5
_NORM_OF = {R.QKV: R.ATTENTION_BEFORE, R.FFN_IN: R.FFN_BEFORE}
_FLAG = {R.QKV: 1, R.FFN_IN: 2}
Source = Callable[[R.Slot], Weights]


def may_scale(slot: R.Slot) -> bool:
    """Whether a matrix is of those whose inputs are scaled."""
    return slot.stack in (R.ENCODER, R.DECODER) and (slot.role in _FLAG or slot.role == R.V)


def _numbers(value: Weights) -> np.ndarray:
    assert isinstance(value, np.ndarray)  # models of quantized values are not smoothed
    return value


class _Observer(Reference):
    """Keeps the largest magnitude of each channel that the layers read, (stack, set, role) ->
    (D)."""

    largest: dict[tuple[int, int, int], np.ndarray]

    def linear(self, x: np.ndarray, stack: int, weights: int, role: int) -> np.ndarray:
        if role in _FLAG and stack in (R.ENCODER, R.DECODER):
            key = stack, weights, role
            self.largest[key] = np.maximum(self.largest.get(key, 0), np.abs(x).max(axis=0))
        return super().linear(x, stack, weights, role)


def observe(
    descriptor: dict[str, Any], source: Source, inputs: Sequence[Input]
) -> dict[tuple[int, int, int], np.ndarray]:
    """The largest magnitudes over these inputs, of the model in float64."""
    with scratch.file() as path:
        with writing(path) as file:
            write_model(file, descriptor, source, F32)
        model = _Observer(PhasorFile(path))
        model.largest = {}
        for given in inputs:
            memory = model.encode(given.source).output if given.source else None
            if given.target:
                model.decode(given.target, memory if "encoder" in model.d else None)
        return model.largest


def scales(largest: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """u (D) for channels of these magnitudes and a matrix (N, D): √(max|W| / max|x|), as powers of
    two around 1."""
    found = np.array([np.abs(matrix).max(axis=0), largest], np.float64)
    most = found.max(axis=1, keepdims=True)
    if not most.all():
        return np.ones(len(largest), np.float32)
    weight, input_ = np.log2(np.maximum(found, most * 2.0**-10))
    exponent = _STRENGTH * weight - (1 - _STRENGTH) * input_
    power = np.clip(np.rint(exponent - np.median(exponent)), -12, 12).astype(int)
    result: np.ndarray = np.ldexp(np.float32(1), power)
    return result


class Smoothed:
    """A model's descriptor and weights with input scales. `weights` has the signature of a source
    of write_model."""

    def __init__(
        self, descriptor: dict[str, Any], source: Source, inputs: Sequence[Input] | None = None
    ) -> None:
        """inputs: the ids that are read; None: random ones."""
        inputs = inputs or V.choose_inputs(D.with_defaults(descriptor))
        self.descriptor = {**descriptor, "kinds": [dict(kind) for kind in descriptor["kinds"]]}
        self.source, self._scales, self._folded = source, {}, {}
        slots = {slot.key: slot for slot in R.slots(descriptor)}
        kinds = {
            (stack, weights): kind
            for stack, name in ((R.ENCODER, "encoder"), (R.DECODER, "decoder"))
            if name in descriptor
            for kind, weights in D.layers_of(descriptor[name])
        }
        for (stack, weights, role), seen in observe(descriptor, source, inputs).items():
            kind = self.descriptor["kinds"][kinds[stack, weights]]
            key = R.key_of(stack, weights, role)
            if kind["parallel"] or kind["input_scales"]:
                continue
            if kind["cross"] == D.MERGED and role == R.QKV:  # it reads the encoder's output too
                continue
            self._scales[key] = scales(seen, _numbers(source(slots[key])))
            norm = R.key_of(stack, weights, _NORM_OF[role])
            if norm in slots:
                self._folded[norm] = self._folded[norm + 1] = self._scales[key]
        for (stack, weights), kind in kinds.items():
            for role, flag in _FLAG.items():
                norm = R.key_of(stack, weights, _NORM_OF[role])
                if R.key_of(stack, weights, role) in self._scales and norm not in slots:
                    self.descriptor["kinds"][kind]["input_scales"] |= flag

    def scale_of(self, slot: R.Slot) -> np.ndarray | None:
        """u (D) of a matrix's input; None: it is as it was."""
        # v reads what q and k do
        return self._scales.get(slot.key - (R.V - R.QKV) * (slot.role == R.V))

    def scaled(self, slot: R.Slot) -> bool:
        """Whether the matrix has other values than its source."""
        scale = self.scale_of(slot)
        return scale is not None and bool((scale != 1).any())

    def weights(self, slot: R.Slot) -> Weights:
        matrix = slot.key - 2
        if slot.role - 2 in _FLAG and matrix in self._scales:
            return self._scales[matrix]
        value, scale = _numbers(self.source(slot)), self.scale_of(slot)
        if scale is not None:
            result: Weights = value / scale
            return result
        return value * self._folded[slot.key] if slot.key in self._folded else value
