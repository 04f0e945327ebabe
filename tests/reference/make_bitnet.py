"""Saves a BitNet with packed matrices, and what transformers' own layers give for it: run by
test_bitnet.py with each version.

    make_bitnet.py CONFIG.json FOLDER

CONFIG.json: {"config", "linear_class", "ids"}. FOLDER gets config.json and model.safetensors;
rounded.npy, the logits of the version's BitLinear or AutoBitLinear in double, rounded32.npy in
float32, and plain.npy those of the same weights with inputs that are not rounded, in double. The
version is printed.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from save_newer import draw, float32_is_double
from transformers.integrations import bitnet


def linears(model: torch.nn.Module) -> list[tuple[str, torch.nn.Linear]]:
    found = model.named_modules()
    return [(n, m) for n, m in found if isinstance(m, torch.nn.Linear) and n != "lm_head"]


def ternary(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """BitNet's rounding of weights: codes, and what they are multiplied by, float32."""
    scale = weight.abs().mean().clamp(min=1e-5)
    return (weight / scale).round().clamp(-1, 1), scale.reshape(1)


def rounding_layer(linear: torch.nn.Linear, kind: str, codes: torch.Tensor, scale: torch.Tensor):
    """The library's layer with these weights."""
    shape = {"in_features": linear.in_features, "out_features": linear.out_features}
    bias = linear.bias is not None
    if kind == "bitlinear":
        layer = bitnet.BitLinear(**shape, bias=bias, dtype=torch.get_default_dtype())
        layer.weight, layer.weight_scale = bitnet.pack_weights(codes.clone()), scale.clone()
    else:
        layer = bitnet.AutoBitLinear(**shape, bias=bias)
        layer.weight, layer.weight_scale = torch.nn.Parameter(codes.clone()), scale.clone()
    if bias:
        layer.bias = linear.bias
    return layer


def logits(model: torch.nn.Module, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def main(case: dict, folder: Path) -> None:
    config = transformers.BitNetConfig(**case["config"], attn_implementation="eager")
    model, kind = transformers.BitNetForCausalLM(config).float().eval(), case["linear_class"]
    draw(model)
    tensors, rounded = {}, {}
    with torch.no_grad():
        for name, linear in linears(model):
            codes, scale = ternary(linear.weight)
            rounded[name] = codes, 1 / scale if kind == "bitlinear" else scale
            linear.weight.copy_(
                codes / rounded[name][1] if kind == "bitlinear" else codes * rounded[name][1]
            )
    state = model.state_dict()
    for name, (codes, scale) in rounded.items():
        state[f"{name}.weight"] = bitnet.pack_weights(codes.clone())
        state[f"{name}.weight_scale"] = scale
    if config.tie_word_embeddings:
        state.pop("lm_head.weight")
    tensors = {name: value.contiguous().clone() for name, value in state.items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config.quantization_config = {
        "quant_method": "bitnet",
        "linear_class": kind,
        "quantization_mode": "offline",
        "modules_to_not_convert": None,
    }
    config.architectures = ["BitNetForCausalLM"]
    config.to_json_file(folder / "config.json", use_diff=False)

    def with_layers(of: torch.nn.Module) -> torch.nn.Module:
        for name, linear in linears(of):
            codes, scale = (part.to(linear.weight.dtype) for part in rounded[name])
            of.set_submodule(name, rounding_layer(linear, kind, codes, scale))
        return of

    np.save(folder / "rounded32.npy", logits(with_layers(copy.deepcopy(model)), case["ids"]))
    with float32_is_double():
        double = copy.deepcopy(model).double()
        np.save(folder / "plain.npy", logits(double, case["ids"]))
        np.save(folder / "rounded.npy", logits(with_layers(double), case["ids"]))
    print(transformers.__version__)


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
