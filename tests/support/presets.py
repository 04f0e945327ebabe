"""Random models of the three presets for the tests: a small configuration, its descriptor, its
TOML, and its PyTorch module."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from phasor.format import descriptor as D

PLACES = {"before": D.BEFORE, "after": D.AFTER}
POSITIONS = {
    "learned": D.LEARNED,
    "sinusoidal": D.INTERLEAVED,
    "sinusoidal-halves": D.HALVES,
    "none": 0,
}
ACTIVATIONS = {"relu": D.RELU, "gelu": D.GELU_ERF}


@dataclass(frozen=True)
class Config:
    """One random model. Everything odd that the presets allow can be said here."""

    preset: str
    width: int = 40
    heads: int = 2
    hidden: int = 52
    layers: tuple[int, int] = (2, 2)
    place: str = "after"
    position: str = "sinusoidal"
    output: str = "own"
    biases: bool = True
    final: bool | None = None  # None: as the preset has it
    score: str = "sqrt_head_width"
    vocabularies: tuple[int, int] = (61, 67)
    longest: int = 40
    activation: str = "relu"

    @property
    def name(self) -> str:
        more = ("" if self.biases else "-nobias") + (
            "" if self.score == "sqrt_head_width" else f"-{self.score}"
        )
        more += "" if self.final is None else f"-final{self.final}"
        sizes = f"{self.width}x{self.heads}-{self.hidden}-{self.layers[0]}+{self.layers[1]}"
        return f"{self.preset}-{sizes}-{self.place}-{self.position}-{self.output}{more}"

    @property
    def has_final(self) -> bool:
        return self.preset == "torch-transformer" if self.final is None else self.final

    def descriptor(self) -> dict:
        """What the converter must make of it, with defaults."""
        head = self.width // self.heads
        scale = 1 / math.sqrt(self.heads if self.score == "sqrt_heads" else head)
        attention = 0 if self.preset == "bias-free" or not self.biases else 15
        ffn = 3 if self.preset == "bias-free" or self.biases else 0
        block = {
            "norm": D.LAYER_NORM,
            "norm_place": PLACES[self.place],
            "norm_eps": 1e-5,
            "heads": self.heads,
            "head_width": head,
            "scale": scale,
            "hidden": self.hidden,
            "activation": ACTIVATIONS[self.activation],
            "attention_biases": attention,
            "ffn_biases": ffn,
            "norm_biases": int(self.biases or self.preset == "bias-free"),
        }
        ids = {"pad": 0, "unknown": 1, "start": 2, "end": [3]}
        out: dict = {
            "model": {"stack": D.ENCODER_DECODER, "name": self.name},
            "kinds": [block, {**block, "cross": 1, "cross_biases": attention}],
        }
        for i, (stack, side) in enumerate((("encoder", "source"), ("decoder", "target"))):
            out[side] = {"vocabulary": self.vocabularies[i], **ids}
            out[stack] = {
                "width": self.width,
                "layers": [n for layer in range(self.layers[i]) for n in (i, layer)],
                "position": POSITIONS[self.position],
                "max_positions": self.longest,
                "embedding_scale": math.sqrt(self.width),
            }
            if self.has_final:
                out[stack].update(final_norm=D.LAYER_NORM, final_norm_eps=1e-5)
        out["source"]["suffix"] = [3]
        out["target"]["decoder_start"] = 2
        tied = {"own": D.TIED_OWN, "target-embedding": D.TIED_TARGET}[self.output]
        out["output"] = {
            "output": D.LOGITS,
            "tied": tied,
            "bias": int(tied == D.TIED_OWN and self.output_bias),
        }
        return D.with_defaults(out)

    @property
    def output_bias(self) -> bool:
        return self.biases or self.preset == "bias-free"

    def toml(self) -> str:
        """The description, with nothing in it that the preset implies."""
        ids = "pad = 0\nunknown = 1\nstart = 2\nend = [3]\n"
        final = "" if self.final is None else f"final_norm = {str(self.final).lower()}\n"
        return (
            f'name = "{self.name}"\npreset = "{self.preset}"\nheads = {self.heads}\nnorm_place = '
            f'"{self.place}"\nposition = "{self.position}"\n'
            f'max_positions = {self.longest}\nembedding_scale = "sqrt_width"\nscore_scale = '
            f'"{self.score}"\noutput = "{self.output}"\n'
            f'activation = "{self.activation}"\n{final}'
            f"[source]\n{ids}suffix = [3]\n[target]\n{ids}"
        )


def make_module(config: Config, seed: int = 0):
    """The PyTorch module with random weights: nothing is left at zero or one, so that a part that
    is forgotten shows."""
    import torch

    from phasor.reference import torch_models

    module = torch_models.build(config.descriptor(), config.preset)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 1:
                is_norm = name.endswith("weight")
                parameter.copy_(noise * 0.1 + (1.0 if is_norm else 0.0))
            else:
                parameter.copy_(noise * parameter.shape[-1] ** -0.5)
    return module


def write_checkpoint(config: Config, folder: Path, seed: int = 0):
    """(module, path of the state_dict); the description lies beside it."""
    import torch

    module = make_module(config, seed)
    path = folder / "model.pt"
    torch.save(module.state_dict(), path)
    path.with_suffix(".toml").write_text(config.toml())
    return module, path
