"""A weight file, mapped and opened."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple

from phasor.errors import PhasorError
from phasor.runtime import _interface as c
from phasor.runtime.library import Error, address, block, check, library, new, text_bytes

KINDS = {c.ENCODER: "encoder", c.DECODER: "decoder", c.ENCODER_DECODER: "encoder-decoder"}
OUTPUTS = {
    c.OUTPUT_LOGITS: "logits",
    c.OUTPUT_HIDDEN: "hidden",
    c.OUTPUT_POOLED: "pooled",
    c.OUTPUT_CLASSES: "classes",
}
LONGEST = 2048  # tokens that there is room for unless more are asked for, as in the program


class Info(NamedTuple):
    """What a file says about its model."""

    path: str
    kind: str  # "encoder", "decoder" or "encoder-decoder"
    output: str  # "logits", "hidden", "pooled" or "classes"
    vocabulary: int  # of the target, if there is one
    width: int  # hidden size
    layers: int
    max_positions: int  # 0: no limit
    classes: tuple[str, ...]  # their names
    chat: bool  # whether the file has a chat template
    vectors: int  # number of test vectors
    isa: str  # the instruction-set level that computes
    fields: dict[str, str]  # all metadata as text


class Weights:
    """The mapped file and the model's block. Sessions keep both alive."""

    def __init__(self, path: str | os.PathLike[str], isa: str | None) -> None:
        from phasor.files import map_bytes  # with modules that an import of phasor can do without

        self.library, self.path = library(), os.fspath(path)
        try:
            self.file = map_bytes(self.path)
        except PhasorError as refused:
            raise Error(str(refused), c.Status.BAD_FILE) from None
        where = (address(self.file), self.file.size)
        need, error = ctypes.c_size_t(), new(c.Error)
        status = self.library.phasor_model_size(ctypes.byref(need), *where, ctypes.byref(error))
        check(status, error, self.path)
        self.block = block(need.value, "the model")
        model, options = ctypes.c_void_p(), new(c.OpenOptions)
        level = ctypes.create_string_buffer(text_bytes(isa or "auto"))
        options.isa = ctypes.addressof(level)
        status = self.library.phasor_model_open(
            ctypes.byref(model),
            address(self.block),
            self.block.size,
            *where,
            ctypes.byref(options),
            ctypes.byref(error),
        )
        check(status, error, self.path)
        self.model = model.value
        self.stack = self.library.phasor_model_stack(self.model)
        self.source, self.target = self._side(c.SOURCE), self._side(c.TARGET)
        self.output = new(c.Output)
        self.library.phasor_model_output(self.model, ctypes.byref(self.output))

    def _side(self, side: int) -> Any:
        out = new(c.Side)
        status = self.library.phasor_model_side(self.model, side, ctypes.byref(out))
        return out if status == c.Status.OK else None

    @property
    def input_side(self) -> int:
        return c.TARGET if self.source is None else c.SOURCE

    @property
    def output_side(self) -> int:
        return c.SOURCE if self.target is None else c.TARGET

    def side(self, side: int) -> Any:
        return self.source if side == c.SOURCE else self.target

    def limits(self, source: int = 0, target: int = 0) -> Any:
        """For one sequence, as long as the model allows but at most LONGEST, or as asked for."""

        def length(asked: int, side: Any) -> int:
            return asked or (min(side.max_positions, LONGEST) or 256 if side is not None else 0)

        out = new(c.Limits)
        lengths = (length(source, self.source), length(target, self.target))
        self.library.phasor_limits_for(self.model, *lengths, ctypes.byref(out))
        return out

    def info(self) -> Info:
        side, fields = self.target or self.source, {}
        for index in range(self.library.phasor_field_count(self.model)):
            field = new(c.Field)
            self.library.phasor_field_get(self.model, index, ctypes.byref(field))
            fields[field.name.decode()] = field.value.decode(errors="replace")
        return Info(
            path=self.path,
            kind=KINDS[self.stack],
            output=OUTPUTS[self.output.output],
            vocabulary=side.vocabulary,
            width=side.width,
            layers=side.layers,
            max_positions=side.max_positions,
            classes=tuple(self._label(i) for i in range(self.output.classes)),
            chat=bool(self.library.phasor_chat_available(self.model)),
            vectors=self.library.phasor_vector_count(self.model),
            isa=ctypes.string_at(self.library.phasor_model_isa(self.model)).decode(),
            fields=fields,
        )

    def _label(self, index: int) -> str:
        size = ctypes.c_size_t()
        name = self.library.phasor_label(self.model, index, ctypes.byref(size))
        return ctypes.string_at(name, size.value).decode() if name else f"class {index}"
