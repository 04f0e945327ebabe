"""SentencePiece's unigram model (1): each piece has a log-probability."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor.tokenizers.model import Model
from phasor.tokenizers.section import NORMAL, TokenizerError
from phasor.tokenizers.sentencepiece import proto_bytes, proto_section

_FLOAT_MAX = float(np.finfo(np.float32).max)


def from_proto(proto: dict[str, Any]) -> bytes:
    section = proto_section(MODEL.number, proto, twice=True)
    scores = [score for _, score, kind in proto["pieces"] if kind == NORMAL]
    section.lowest = min(scores, default=_FLOAT_MAX)
    if section.lowest == _FLOAT_MAX:
        raise TokenizerError("the unigram model has no normal piece")
    return proto_bytes(section, proto)


MODEL = Model(1, "unigram", proto_types=(1,), from_proto=from_proto)
