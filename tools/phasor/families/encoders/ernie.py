"""ERNIE (Sun et al. 2019 to 2021): BERT; in its third version with a type of task, the first
one."""

from __future__ import annotations

from phasor.families.bert_like import BERT_NAMES, SIZES, bert, bert_heads
from phasor.families.encoder import Encoder
from phasor.families.family import Family
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings

_TASKS = "embeddings.task_type_embeddings.weight"


def _ernie(e: Encoder) -> None:
    """The first type of task is added to every type of token."""
    bert(e)
    count = e.config.whole("task_type_vocab_size")
    if e.config.flag("use_task_id"):
        types, width = e.config.whole("type_vocab_size"), e.stack["width"]
        tasks = e.load(e.trunk + _TASKS, "types of tasks", (count, width))
        segments = e.load(e.name("segments"), "types of tokens", (types, width))
        e.values[R.key_of(R.SOURCE, 0, R.SEGMENTS)] = segments + tasks[0]


ERNIE = Family(
    D.ENCODER,
    ("ernie",),
    ("Ernie",),
    "ernie.",
    BERT_NAMES,
    settings(
        """
        use_task_id           false
        task_type_vocab_size  3
        """,
        SIZES,
    ),
    adapt=_ernie,
    heads=bert_heads("ernie.pooler.dense"),
    wordpiece=True,
)
