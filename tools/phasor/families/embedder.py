"""A decoder that gives vectors (Qwen3-Embedding, E5-Mistral, GTE-Qwen2): its blocks as an encoder's
whose queries see what is before them, and sentence-transformers' modules behind it."""

from __future__ import annotations

from typing import Any

from phasor.families.decoder import Decoder
from phasor.families.model import Model, Part, shape_of
from phasor.format import descriptor as D
from phasor.format import tensors as R

_STACKS = {R.TARGET: R.SOURCE, R.DECODER: R.ENCODER}
_UNUSED = "this output has no use for it"


def build(made: Decoder, name: str, checkpoint: Any, head: dict[str, Any]) -> Model:
    """The model of a decoder's stack. head: what modules.json says (sentence.read)."""
    decoder = made.build(name, checkpoint)
    d = decoder.descriptor
    output = {
        "output": D.POOLED,
        "pooling": head["pooling"],
        "normalise": int(head["normalise"]),
    }
    if head["prompts"]:
        output["prompts"] = head["prompts"]
    if "dense" in head:
        output.update(
            head_width=head["dense_width"],
            head_bias=int(head["dense_bias"]),
            head_activation=head["activation"],
        )
    if "norm" in head:
        output.update(head_norm=D.LAYER_NORM, head_norm_eps=head["norm_eps"])
    stack = {key: value for key, value in d["decoder"].items() if key != "cross_width"}
    model = Model(
        D.with_defaults(
            {
                "model": {**d["model"], "stack": D.ENCODER},
                "source": d["target"],
                "encoder": stack,
                "kinds": [{**kind, "causal": 1} for kind in d["kinds"]],
                "output": output,
            }
        ),
        checkpoint,
        values={_key(key): value for key, value in decoder.values.items()},
        used=decoder.used,
        ignore=decoder.ignore,
        notes=decoder.notes,
    )
    D.check(model.descriptor)
    parts = {_key(key): value for key, value in decoder.parts.items()}
    last = made.names["output"]
    for name in (last, last.removesuffix(".weight") + ".bias"):
        if name in checkpoint:
            model.used.setdefault(name, _UNUSED)
    return model.fill(lambda slot: _head(slot, head) if slot.stack == R.OUTPUT else parts[slot.key])


def _key(key: int) -> int:
    """Of a decoder's tensor, as an encoder's."""
    stack = key >> 24
    return _STACKS.get(stack, stack) << 24 | key & 0xFFFFFF


def _head(slot: R.Slot, head: dict[str, Any]) -> list[Part]:
    base = head["dense"] if slot.role in (R.HEAD, R.HEAD + 1) else head["norm"]
    weight = slot.role in (R.HEAD, R.HEAD_NORM)
    return [Part(f"{base}.{'weight' if weight else 'bias'}", shape_of(slot))]
