"""A torch.nn.Transformer inside of a user's class, as the tests of --expect describe it: the right
description, and single changes of it, each another model."""

from __future__ import annotations

from typing import NamedTuple

RIGHT = """\
preset = "torch-transformer"
heads = 2
position = "sinusoidal"
embedding_scale = "sqrt_width"
max_positions = 20
[target]
start = 1
[rename]
"transformer." = ""
"src_tok_emb." = "src_embedding."
"tgt_tok_emb." = "tgt_embedding."
"generator." = "output."
"""


class Mutation(NamedTuple):
    """A line of the description that becomes another, and what says that it is wrong."""

    old: str
    new: str
    row: int  # of input 0, the first that differs
    where: str  # the first hidden state that differs
    beside: str = ""  # a line that the right description has too, before [target]


_BEHIND = "in the last layer or behind it"
_EMBEDDING, _FIRST = "from the embedding on", "from layer 0 on"
_HEADS = "heads = 2"
MUTATIONS = {
    "scale": Mutation(_HEADS, f'{_HEADS}\nscore_scale = "sqrt_heads"', 0, _FIRST),
    "norm place": Mutation(_HEADS, f'{_HEADS}\nnorm_place = "before"', 0, _FIRST),
    "offset": Mutation(
        "max_positions = 20", "max_positions = 20\nposition_offset = 1", 0, _EMBEDDING
    ),
    "heads": Mutation(_HEADS, "heads = 4", 0, _FIRST),
    "tie": Mutation(
        '"target-embedding"', '"source-embedding"', 0, _BEHIND, 'output = "target-embedding"'
    ),
    "activation": Mutation(_HEADS, f'{_HEADS}\nactivation = "gelu"', 0, _FIRST),
    "theta": Mutation(_HEADS, f"{_HEADS}\nposition_base = 100", 0, _EMBEDDING),
    "theta of rotary positions": Mutation(
        "rotary_base = 10000",
        "rotary_base = 500",
        1,
        _FIRST,
        'attention_position = "rotary"\nrotary_base = 10000',
    ),
    "slopes": Mutation(
        "alibi_slopes = [1.0, 0.5]",
        "alibi_slopes = [1.0, 0.25]",
        0,
        _FIRST,
        'attention_position = "alibi"\nalibi_slopes = [1.0, 0.5]',
    ),
    "embedding scale": Mutation('"sqrt_width"', '"one"', 0, _EMBEDDING),
    "output scale": Mutation(_HEADS, f'{_HEADS}\noutput_scale = "inverse_sqrt_width"', 0, _BEHIND),
    "epsilon": Mutation(_HEADS, f"{_HEADS}\nnorm_eps = 1e-3", 0, _FIRST),
}


def right(beside: str = "") -> str:
    """The right description with one more line of the model."""
    return RIGHT.replace("[target]", f"{beside}\n[target]", 1)
