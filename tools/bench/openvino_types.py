"""OpenVINO's types of a model, for bench.quality: the graph that torch exports (onnx_types.py), and
what nncf makes of its weights. Needs the packages openvino and nncf, which the bench environment
does not have: `pip install --target DIR openvino nncf`, and DIR behind it on PYTHONPATH."""

from __future__ import annotations

import contextlib
import io
import logging
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from bench import onnx_types
from bench.llama_types import Form, Reader
from phasor.errors import PhasorError
from phasor.files import read_json

_BLOCK = 32  # weights of a scale, of the forms of 4 bits

# What nncf is asked for; the embedding, which is also the output here, in the first type of 8 bits
# unless `all_layers`.
FORMS: dict[str, dict[str, Any]] = {
    "int8 weights": {"mode": "INT8_SYM"},
    "int8 weights, with zero points": {"mode": "INT8_ASYM"},
    "int4 weights in blocks of 32": {"mode": "INT4_SYM", "group_size": _BLOCK},
    "int4 weights in blocks of 32, with zero points": {"mode": "INT4_ASYM", "group_size": _BLOCK},
    "int4 weights in blocks of 32, also of the output": {
        "mode": "INT4_SYM",
        "group_size": _BLOCK,
        "all_layers": True,
    },
}


def _reader(core: Any, path: Path, encoder: bool) -> Reader:
    compiled = core.compile_model(str(path.with_suffix(".xml")), "CPU")

    def read(ids: Sequence[int]) -> np.ndarray:
        (out,) = compiled([np.array([ids], np.int64)]).values()
        return out[0].mean(axis=0) if encoder else out[0].copy()

    return read


def forms(
    directory: Path, texts: Iterable[Sequence[int]], threads: int, folder: Path
) -> Iterator[Form]:
    """f32, each of FORMS, and int8 with inputs of 8 bits, calibrated on the texts' ids where there
    are any; a file is there until the next is asked for. Sizes are of the weights alone."""
    try:
        import nncf
        import openvino
    except ImportError as error:
        raise PhasorError(f"{error.name}: not installed. TRY: pip install openvino nncf") from error
    logging.disable(logging.WARNING)
    exact, path = folder / "openvino.onnx", folder / "openvino.bin"
    onnx_types.export(directory, exact)
    encoder = read_json(directory / "config.json")["model_type"] == "bert"
    core = openvino.Core()
    core.set_property(
        "CPU",
        {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads},
    )

    def form(name: str, model: Any) -> Form:
        openvino.save_model(model, str(path.with_suffix(".xml")), compress_to_fp16=False)
        return Form(f"OpenVINO {name}", path, lambda: _reader(core, path, encoder))

    yield form("f32", core.read_model(exact))
    for name, asked in FORMS.items():
        mode = getattr(nncf.CompressWeightsMode, asked["mode"])
        rest = {key: value for key, value in asked.items() if key != "mode"}
        with contextlib.redirect_stdout(io.StringIO()):  # it draws a bar
            model = nncf.compress_weights(core.read_model(exact), mode=mode, **rest)
        yield form(name, model)
    known = [np.array([ids], np.int64) for ids in texts]
    if known:
        with contextlib.redirect_stdout(io.StringIO()):
            made = nncf.quantize(
                core.read_model(exact),
                nncf.Dataset(known, lambda ids: {"ids": ids}),
                model_type=nncf.ModelType.TRANSFORMER,
                subset_size=len(known),
            )
        yield form("int8, weights and inputs", made)
