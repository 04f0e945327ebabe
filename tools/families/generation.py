"""What a directory recommends for generation: the ids that begin and end a text, and how tokens are chosen (docs/format.md, scope 7).

generation_config.json counts more than config.json. What only it may say is kept where the format has a place for it, and noted where it has none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from phasor_layout import PhasorError

from .hf_config import Config, read_json

_MOST_ENDS = 16
_IDS = (("bos_token_id", "start"), ("pad_token_id", "pad"), ("eos_token_id", "end"))
_WHOLE = {"top_k": "top_k", "no_repeat_ngram_size": "no_repeat_ngram", "min_new_tokens": "min_new", "max_new_tokens": "max_new"}
_NUMBERS = ("temperature", "top_p", "min_p", "typical_p", "repetition_penalty")
_SHARES = ("top_p", "min_p", "typical_p")
# Recommendations without a place in the format, with the values that say nothing.
_WITHOUT_PLACE: dict[str, tuple] = {"num_beams": (1,), "bad_words_ids": ([],), "begin_suppress_tokens": ([],), "forced_bos_token_id": (), "forced_eos_token_id": (),
                                    "length_penalty": (1,), "penalty_alpha": (0,), "epsilon_cutoff": (0,), "eta_cutoff": (0,), "sequence_bias": (),
                                    "encoder_repetition_penalty": (1,), "min_length": (0,), "exponential_decay_length_penalty": (), "guidance_scale": (1,)}


def read(config: Config, vocabulary: int, notes: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(fields of the target side, fields of scope 7: only those that say something)."""
    where = config.path.parent / "generation_config.json"
    own = read_json(where) if where.is_file() else {}
    values = {**config.values, **{name: value for name, value in own.items() if value is not None}}
    return _ids(Config(where if own else config.path, values), vocabulary, notes), _options(Config(where, own), vocabulary, notes)


def _ids(config: Config, vocabulary: int, notes: list[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, place in _IDS:
        given = _list(config, name)
        if place != "end" and len(given) > 1:
            raise config.error(name, f"{given}, expected one token id")
        inside = [i for i in given if 0 <= i < vocabulary]
        if len(inside) < len(given):
            notes.append(f"{name}: {', '.join(str(i) for i in given if i not in inside)} is not in the vocabulary of {vocabulary}, and left out")
        if len(inside) > _MOST_ENDS:
            raise config.error(name, f"{len(inside)} ids, the format has {_MOST_ENDS}")
        if inside:
            out[place] = list(dict.fromkeys(inside)) if place == "end" else inside[0]
    return out


def _list(config: Config, name: str) -> list[int]:
    value = config.get(name)
    given = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in given):
        raise config.error(name, f"{value!r}, expected token ids")
    return given


def _options(config: Config, vocabulary: int, notes: list[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if config.get("do_sample") is not None and config.flag("do_sample"):
        out["sample"] = 1
    for name, place in _WHOLE.items():
        value = config.get(name)
        if value:
            out[place] = config.whole(name)
    for name in _NUMBERS:
        value = config.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf or (name in _SHARES and value > 1):
            raise PhasorError(f"{config.path}: {name}: {value!r} is out of its range")
        if value and value != 1:
            out[name] = float(np.float32(value))
    suppressed = _list(config, "suppress_tokens")
    if suppressed:
        out["suppressed"] = sorted({i for i in suppressed if 0 <= i < vocabulary})
    kept = [name for name, nothing in _WITHOUT_PLACE.items() if config.get(name) is not None and config.get(name) not in nothing]
    if kept:
        notes.append(f"generation_config.json: {', '.join(kept)}: recommended, and not kept in the file")
    return out
