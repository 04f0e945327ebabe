"""ONNX Runtime's quantized forms of a model, for bench.quality: the graph that torch exports of a
Hugging Face directory of Llama's or BERT's shape, and what onnxruntime.quantization makes of it.
"""

from __future__ import annotations

import contextlib
import io
import logging
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from bench.llama_types import Form, Reader
from phasor.files import read_json

_BLOCK = 32  # weights of a scale, of the forms in blocks


def export(directory: Path, to: Path) -> None:
    """A graph from ids (1, length) to logits, or to the last layer's vectors."""
    import torch
    from transformers import AutoModel, AutoModelForCausalLM

    decoder = read_json(directory / "config.json")["model_type"] == "llama"
    kind = AutoModelForCausalLM if decoder else AutoModel
    model = kind.from_pretrained(directory, attn_implementation="eager").eval()

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            if not decoder:
                return self.model(ids, torch.ones_like(ids)).last_hidden_state
            count = ids.shape[1]
            place = torch.arange(count)
            mask = torch.where(place[None] > place[:, None], -3e38, 0.0)[None, None]
            return self.model(ids, attention_mask=mask, use_cache=False).logits

    torch.onnx.export(
        Graph(),
        (torch.arange(8, dtype=torch.int64)[None] + 5,),
        str(to),
        input_names=["ids"],
        output_names=["out"],
        dynamic_axes={"ids": {1: "length"}, "out": {1: "length"}},
        opset_version=18,
        dynamo=False,
    )


def _dynamic(**options: Any) -> Callable[[Path, Path], None]:
    def make(exact: Path, to: Path) -> None:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(exact, to, weight_type=QuantType.QInt8, **options)

    return make


def _blocks(bits: int, symmetric: bool) -> Callable[[Path, Path], None]:
    def make(exact: Path, to: Path) -> None:
        import onnx
        from onnxruntime.quantization import matmul_nbits_quantizer as module

        config = module.DefaultWeightOnlyQuantConfig(
            block_size=_BLOCK,
            is_symmetric=symmetric,
            bits=bits,
            op_types_to_quantize=("MatMul", "Gather") if bits == 4 else ("MatMul",),
        )
        made = module.MatMulNBitsQuantizer(onnx.load(exact), algo_config=config)
        made.process()
        made.model.save_model_to_file(str(to), False)

    return make


def _k_quants(exact: Path, to: Path) -> None:
    import onnx
    from onnxruntime.quantization import matmul_nbits_quantizer as module

    config = module.KQuantWeightOnlyQuantConfig()
    made = module.MatMulNBitsQuantizer(onnx.load(exact), block_size=_BLOCK, algo_config=config)
    with contextlib.redirect_stdout(io.StringIO()):  # it draws a bar
        made.process()
    made.model.save_model_to_file(str(to), False)


FORMS: dict[str, Callable[[Path, Path], None]] = {
    "int8, dynamic": _dynamic(),
    "int8, dynamic, per channel": _dynamic(per_channel=True),
    "8 bits in blocks of 32": _blocks(8, True),
    "4 bits in blocks of 32": _blocks(4, True),
    "4 bits in blocks of 32, with zero points": _blocks(4, False),
    "4 bits, k_quant": _k_quants,
}


def _open(path: Path, threads: int) -> Reader:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def read(ids: Sequence[int]) -> np.ndarray:
        (out,) = session.run(None, {"ids": np.array([ids], np.int64)})
        return out[0]

    return read


def forms(directory: Path, threads: int, folder: Path) -> Iterator[Form]:
    """f32, then each of FORMS; a file is there until the next is asked for."""
    logging.disable(logging.WARNING)
    exact, path = folder / "f32.onnx", folder / "model.onnx"
    export(directory, exact)
    encoder = read_json(directory / "config.json")["model_type"] == "bert"

    def opened(file: Path) -> Callable[[], Reader]:
        def open_() -> Reader:
            read = _open(file, threads)
            return (lambda ids: read(ids).mean(axis=0)) if encoder else read

        return open_

    yield Form("ONNX Runtime f32", exact, opened(exact))
    for name, make in FORMS.items():
        make(exact, path)
        yield Form(f"ONNX Runtime {name}", path, opened(path))
