"""A decoder that gives vectors (Qwen3-Embedding, E5-Mistral) or classes: its blocks as an encoder's
whose queries see what is before them, or all (`is_causal`: false), and a head behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasor.errors import PhasorError, Problems, shown
from phasor.families import heads
from phasor.families.decoder import Decoder
from phasor.families.heads import Head
from phasor.families.model import Model, Part, shape_of
from phasor.families.names import bias_name
from phasor.files import read_json
from phasor.format import descriptor as D
from phasor.format import tensors as R

_STACKS = {R.TARGET: R.SOURCE, R.DECODER: R.ENCODER}
_MOST_DIGITS = 9  # of an id
# Of the decoder's own head, which comes before what follows it (OPT's project_out).
_DENSE = ("head_width", "head_bias", "head_activation", "head_norm", "head_norm_eps")

# What positions mean without an order in which keys are seen.
_BOTH_WAYS = (D.ROTARY_INTERLEAVED, D.ROTARY_HALVES)


class Judge(NamedTuple):
    """Of a language model that judges pairs of texts (Qwen3-Reranker)."""

    template: str  # the text that it reads, with {query} and {document}
    tokens: str  # YES or YES,NO: pieces, or #ID

    def prompts(self) -> str:
        """The template as the format has it, behind an empty default."""
        for name in D.PAIR_PLACES:
            if self.template.count(name) != 1:
                raise PhasorError(f"--rank-template: expected {name} once")
        first, second = (self.template.index(name) for name in D.PAIR_PLACES)
        if first > second:
            raise PhasorError(f"--rank-template: expected {' before '.join(D.PAIR_PLACES)}")
        if any(c in self.template for c in (D.UNIT_END, D.RECORD_END)):
            raise PhasorError("--rank-template: a separator of the format")
        if any("\ud800" <= c <= "\udfff" for c in self.template):
            raise PhasorError("--rank-template: is not UTF-8")
        return f"{D.UNIT_END}{D.RECORD_END}{D.PAIR}{D.UNIT_END}{self.template}{D.RECORD_END}"

    def ids(self, folder: Path, vocabulary: int) -> list[int]:
        """Of YES and NO, of which there may be YES alone."""
        names = self.tokens.split(",")
        if not 1 <= len(names) <= 2 or not all(names) or len(set(names)) < len(names):
            raise PhasorError(f"--rank-tokens: {shown(self.tokens)}, expected YES or YES,NO")
        where = folder / "tokenizer.json"
        known = _pieces(where) if not all(n.startswith("#") for n in names) else {}
        out = []
        for name in names:
            digits = name[1:] if name.startswith("#") else ""
            number = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
            own = int(digits) if number else known.get(name)
            if own is None or not 0 <= own < vocabulary:
                raise PhasorError(
                    f"--rank-tokens: {shown(name)} is no piece of {where};"
                    " expected pieces or #ID of the vocabulary"
                )
            out.append(own)
        return out


def _pieces(where: Path) -> dict[str, int]:
    """The ids of a tokenizer.json's pieces."""
    values = read_json(where)
    model = values.get("model")
    table = model.get("vocab") if isinstance(model, dict) else None
    rows: list[tuple[Any, Any]] = []
    if isinstance(table, dict):
        rows += table.items()
    elif isinstance(table, list):  # unigram's: a piece and its score
        rows += ((row[0], i) for i, row in enumerate(table) if isinstance(row, list) and row)
    added = values.get("added_tokens")
    for row in added if isinstance(added, list) else ():
        if isinstance(row, dict):
            rows.append((row.get("content"), row.get("id")))
    return {n: i for n, i in rows if isinstance(n, str) and type(i) is int}


def judge(made: Decoder, name: str, checkpoint: Any, folder: Path, rank: Judge) -> Model:
    """A language model's logit of YES behind a pair, or that less the logit of NO, as the one
    class of an encoder's file."""
    yes, *no = rank.ids(folder, made.side["vocabulary"])
    head = Head(
        D.CLASSES,
        D.LAST,
        prompts=rank.prompts(),
        fixed_classes=(rank.tokens.split(",")[0].replace(D.RECORD_END, ""),),
        scores=D.SIGMOID if no else D.PLAIN,
        last_bias=bool(made.output.get("bias")),
    )
    decoder = made.descriptor(name)["output"]
    if no and decoder["cap"]:
        raise PhasorError(
            f"{made.config.path}: the logits are capped, and their difference is not supported;"
            " expected one of --rank-tokens"
        )
    rows = [yes, *no]
    values = {}
    for role, part in ((R.CLASSIFIER, R.OUTPUT_WEIGHT), (R.CLASSIFIER + 1, R.OUTPUT_WEIGHT + 1)):
        if part == R.OUTPUT_WEIGHT or head.last_bias:
            whole = _vocabulary(made, name, checkpoint, part)[rows]
            values[R.key_of(R.OUTPUT, 0, role)] = np.ascontiguousarray(
                whole[:1] - whole[1:] if no else whole
            )
    more = {key: decoder[key] for key in ("scale", "cap")}
    model = build(made, name, checkpoint, head, values, more)
    for output in (made.names["output"], bias_name(made.names["output"])):
        if output in model.used:
            model.used[output] = "the rows of --rank-tokens are the class"
    return model


def _vocabulary(made: Decoder, name: str, checkpoint: Any, role: int) -> np.ndarray:
    """The matrix of the logits, or its bias."""
    decoder = made.build(name, checkpoint)
    tied = role == R.OUTPUT_WEIGHT and made.tied
    key = R.key_of(R.TARGET, 0, R.EMBEDDING) if tied else R.key_of(R.OUTPUT, 0, role)
    (slot,) = (slot for slot in R.slots(decoder.descriptor) if slot.key == key)
    if problems := decoder.problems():
        raise Problems(problems)
    return decoder.weights(slot)


def build(
    made: Decoder,
    name: str,
    checkpoint: Any,
    head: Head,
    values: dict[int, np.ndarray] = {},
    more: dict[str, Any] = {},
    causal: bool = True,
) -> Model:
    """The model of a decoder's stack, and this head; values of its tensors and fields of the output
    that it does not say. causal: a query sees what is before it, and not all."""
    decoder = made.build(name, checkpoint)
    d = decoder.descriptor
    one_sided = any(k["window"] for k in d["kinds"]) and not made.both_ways
    if not causal and (one_sided or any(k["position"] not in _BOTH_WAYS for k in d["kinds"])):
        raise made.config.error(
            "is_causal", "false is built with rotary positions and without windows"
        )
    output = heads.fields(head, made.config, made.stack["width"], made.kind["norm_eps"])
    # A head of the stack stays, and one of the logits where they are the output.
    keeps = d["output"]["head_width"] and ("head" in made.names or bool(values))
    if keeps:
        if head.dense:
            raise PhasorError(f"{checkpoint.path}: two dense layers, {head.dense} is the second")
        output.update((key, d["output"][key]) for key in _DENSE)
    output.update(more)
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
                "kinds": [{**kind, "causal": int(causal)} for kind in d["kinds"]],
                "output": output,
            }
        ),
        checkpoint,
        values={**{_key(key): value for key, value in decoder.values.items()}, **values},
        used=decoder.used,
        ignore=decoder.ignore,
        notes=decoder.notes,
    )
    D.check(model.descriptor)
    parts = {_key(key): value for key, value in decoder.parts.items()}
    ends = ("output",) if keeps else ("output", "output_head", "output_norm")
    last = [made.names[part] for part in ends if part in made.names]
    last += [bias_name(name) for name in last]
    unused = heads.unused(head._replace(unused=tuple(last)), checkpoint, "")
    model.used = {**unused, **model.used}
    own = (R.HEAD, R.HEAD + 1, R.HEAD_NORM, R.HEAD_NORM + 1) if keeps else ()

    def found(slot: R.Slot) -> list[Part]:
        if slot.stack != R.OUTPUT or slot.role in own:
            return parts[slot.key]
        if slot.role == R.HEAD_NORM + 1 and "output_norm" in made.bias_free:
            return [Part(None, shape_of(slot))]
        return heads.parts(head, slot, checkpoint)

    return model.fill(found)


def _key(key: int) -> int:
    """Of a decoder's tensor, as an encoder's."""
    stack = key >> 24
    return _STACKS.get(stack, stack) << 24 | key & 0xFFFFFF
