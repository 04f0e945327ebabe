"""A decoder that gives vectors (Qwen3-Embedding, E5-Mistral, GTE-Qwen2) or classes: its blocks as
an encoder's whose queries see what is before them, and a head behind it."""

from __future__ import annotations

from typing import Any

from phasor.families import heads
from phasor.families.decoder import Decoder
from phasor.families.heads import Head
from phasor.families.model import Model
from phasor.families.names import bias_name
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import PhasorError

_STACKS = {R.TARGET: R.SOURCE, R.DECODER: R.ENCODER}
# Of the decoder's own head, which comes before what follows it (OPT's project_out).
_DENSE = ("head_width", "head_bias", "head_activation")


def build(made: Decoder, name: str, checkpoint: Any, head: Head) -> Model:
    """The model of a decoder's stack, and this head."""
    decoder = made.build(name, checkpoint)
    d = decoder.descriptor
    output = heads.fields(head, made.config, made.stack["width"], made.kind["norm_eps"])
    if d["output"]["head_width"]:
        if head.dense:
            raise PhasorError(f"{checkpoint.path}: two dense layers, {head.dense} is the second")
        output.update((key, d["output"][key]) for key in _DENSE)
    source = dict(d["target"])
    if head.longest_text:
        source["longest_text"] = head.longest_text
    stack = {key: value for key, value in d["decoder"].items() if key != "cross_width"}
    model = Model(
        D.with_defaults(
            {
                "model": {**d["model"], "stack": D.ENCODER},
                "source": source,
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
    unused = heads.unused(head._replace(unused=(last, bias_name(last))), checkpoint, "")
    model.used = {**unused, **model.used}
    own = {R.key_of(R.OUTPUT, 0, role) for role in (R.HEAD, R.HEAD + 1) if not head.dense}
    return model.fill(
        lambda slot: (
            heads.parts(head, slot, checkpoint)
            if slot.stack == R.OUTPUT and slot.key not in own
            else parts[slot.key]
        )
    )


def _key(key: int) -> int:
    """Of a decoder's tensor, as an encoder's."""
    stack = key >> 24
    return _STACKS.get(stack, stack) << 24 | key & 0xFFFFFF
