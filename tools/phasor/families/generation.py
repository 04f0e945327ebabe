"""What a directory recommends for generation: the ids that begin and end a text, and how tokens are
chosen (docs/reference/file-format.md, scope 7).

generation_config.json counts more than config.json. What only it may say is kept where the format
has a place for it, and noted where it has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasor import side_files
from phasor.errors import printable, shown
from phasor.families.hf_config import Config, same
from phasor.files import has_file
from phasor.format import descriptor as D
from phasor.values import is_number, is_whole, settings, table, words

_FILE = "generation_config.json"
_MOST_ENDS = 16
_MOST_IDS = 1 << 20  # in a list
_LARGEST_ID = 1 << 31
_MOST_NAMES = 8  # in a note
_MOST_BAD_WORDS = 65536  # ids and lengths
_IDS = (("bos_token_id", "start"), ("pad_token_id", "pad"), ("eos_token_id", "end"))
# And of an encoder-decoder.
_FIRST_IDS = (("decoder_start_token_id", "decoder_start"), ("forced_bos_token_id", "forced_first"))
_WHOLE = table("""
    top_k                         top_k
    no_repeat_ngram_size          no_repeat_ngram
    encoder_no_repeat_ngram_size  source_no_repeat_ngram
    min_new_tokens                min_new
    max_new_tokens                max_new
    num_beams                     beams
""")
_NUMBERS = words("temperature top_p min_p typical_p repetition_penalty")
_SHARES = ("top_p", "min_p", "typical_p")
# Recommendations without a place in the format, with the values that say nothing.
_WITHOUT_PLACE: dict[str, list[Any]] = settings("""
    begin_suppress_tokens             [[]]
    penalty_alpha                     [0]
    epsilon_cutoff                    [0]
    eta_cutoff                        [0]
    sequence_bias                     []
    encoder_repetition_penalty        [1]
    min_length                        [0]
    exponential_decay_length_penalty  []
    guidance_scale                    [1]
    max_length                        [20]
    max_time                          []
    num_return_sequences              [1]
    num_beam_groups                   [1]
    diversity_penalty                 [0]
    constraints                       [[]]
    force_words_ids                   [[]]
    forced_bos_token_id               []
""")
# What an encoder-decoder's file has for some of them.
_OF_ENCODED = words("min_length max_length forced_bos_token_id")
_EARLY = [False, True, "never"]  # by their numbers in the format
# What a config.json may say of it.
_KNOWN = {
    *(*_WHOLE, *_NUMBERS, *_WITHOUT_PLACE),
    *words("do_sample suppress_tokens bad_words_ids length_penalty early_stopping"),
    "forced_eos_token_id",
}


def _without_effect() -> frozenset[str]:
    """What says nothing of which token comes next, or has a place of its own in a file."""
    return side_files.harmless(_FILE) | {name for name, _ in (*_IDS, *_FIRST_IDS)}


def read(
    config: Config, vocabulary: int, notes: list[str], encoded: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(fields of the target side, fields of scope 7: only those that say something). encoded: of an
    encoder-decoder; without a generation_config.json, its config.json recommends."""
    where = config.path.parent / _FILE
    own = side_files.read(where)
    values = {**config.values, **{name: value for name, value in own.items() if value is not None}}
    if encoded:
        values["forced_bos_token_id"] = _first(config, own, has_file(where), notes)
    both = Config(where if own else config.path, values)
    ids = _ids(both, vocabulary, notes, encoded)
    recommends = Config(where, own)
    if encoded and not has_file(where):
        known = {name: config.values[name] for name in _KNOWN if name in config.values}
        recommends = Config(config.path, known)
    return ids, _options(recommends, vocabulary, notes, ids, encoded)


_FORCES = "force_bos_token_to_be_generated"  # BART's first name of forced_bos_token_id


def _first(config: Config, own: dict[str, Any], alone: bool, notes: list[str]) -> Any:
    """forced_bos_token_id. alone: of generation_config.json, which is there and then says it alone,
    as transformers has it."""
    name = "forced_bos_token_id"
    forces = config.get(_FORCES) is not None and config.flag(_FORCES)
    forced = config.get(name)
    if alone:
        if own.get(name) is None and (forces or forced is not None):
            which = name if forced is not None else _FORCES
            notes.append(f"config.json: {which}: left out, generation_config.json has no {name}")
        return own.get(name)
    if not forces:
        return forced
    start = config.get("bos_token_id")
    if config.values.get("model_type") != "bart" or start is None or forced not in (None, start):
        raise config.error(
            _FORCES,
            f"true, which versions of transformers read as they like; say {name} in its place",
        )
    return start


def _ids(config: Config, vocabulary: int, notes: list[str], encoded: bool) -> dict[str, Any]:
    out = {}
    for name, place in _IDS + _FIRST_IDS if encoded else _IDS:
        given = _list(config, name)
        if place != "end" and len(given) > 1:
            raise config.error(name, f"{shown(given)}, expected one token id")
        inside = [i for i in given if 0 <= i < vocabulary]
        if len(inside) < len(given):
            outside = [i for i in given if not 0 <= i < vocabulary]
            which = shown(outside[0] if len(outside) == 1 else outside)
            notes.append(f"{name}: {which} is not in the vocabulary of {vocabulary}, and left out")
        if len(inside) > _MOST_ENDS:
            raise config.error(name, f"{len(inside)} ids, the format has {_MOST_ENDS}")
        if inside:
            out[place] = list(dict.fromkeys(inside)) if place == "end" else inside[0]
    if encoded and "decoder_start" not in out:
        if "start" not in out:
            raise config.error("decoder_start_token_id", "is missing, and so is bos_token_id")
        out["decoder_start"] = out["start"]
    return out


def _list(config: Config, name: str) -> list[int]:
    value = config.get(name)
    given = value if isinstance(value, list) else [] if value is None else [value]
    if len(given) > _MOST_IDS or not all(is_whole(i, -_LARGEST_ID, _LARGEST_ID) for i in given):
        raise config.error(name, f"{shown(value)}, expected token ids")
    return given


def _bad_words(config: Config, ends: list[int], vocabulary: int) -> tuple[set[int], list[int]]:
    """The ids that bad_words_ids forbids wherever they stand; and of each longer sequence its
    length, then its ids. transformers leaves out an end token."""
    given = config.get("bad_words_ids") or []
    if not isinstance(given, list) or not all(
        isinstance(ids, list) and ids and all(is_whole(i, -_LARGEST_ID, _LARGEST_ID) for i in ids)
        for ids in given[:_MOST_IDS]
    ):
        raise config.error("bad_words_ids", f"{shown(given)}, expected lists of token ids")
    alone = {ids[0] for ids in given if len(ids) == 1}
    longer = [
        ids for ids in given if len(ids) > 1 and all(0 <= token < vocabulary for token in ids)
    ]
    flat = [number for ids in longer for number in (len(ids), *ids)]
    if len(flat) > _MOST_BAD_WORDS:
        raise config.error("bad_words_ids", f"{len(flat)} numbers, the format has 65536")
    return alone.difference(ends), flat


def _beams(config: Config) -> dict[str, Any]:
    """What is for beams: their number is in _WHOLE."""
    out, early = {}, config.get("early_stopping")
    penalty = config.get("length_penalty", 1.0)
    if not is_number(penalty) or abs(penalty) > D.STEEPEST:
        raise config.error("length_penalty", f"{shown(penalty)}, expected a number from -4 to 4")
    if penalty != 1:
        out["length_penalty"] = float(np.float32(penalty))
    if early is not None and not any(same(early, value) for value in _EARLY):
        raise config.error("early_stopping", f"{shown(early)}, expected true, false or never")
    if early:
        out["early_stopping"] = _EARLY.index(early)
    if config.get("renormalize_logits") is not None and config.flag("renormalize_logits"):
        out["renormalize"] = 1
    return out


def _last(config: Config, vocabulary: int, notes: list[str]) -> int | None:
    """forced_eos_token_id; of several, which transformers takes as equally good, the lowest."""
    name = "forced_eos_token_id"
    given = _list(config, name)
    inside = sorted(i for i in given if 0 <= i < vocabulary)
    if len(inside) < len(given):
        notes.append(
            f"{name}: {shown(config.get(name))}: not all in the vocabulary of {vocabulary}"
        )
    if len(inside) > 1:
        notes.append(f"{name}: of {len(inside)} ids the file has the lowest, {inside[0]}")
    return inside[0] if inside else None


def _options(
    config: Config, vocabulary: int, notes: list[str], ids: dict[str, Any], encoded: bool
) -> dict[str, Any]:
    out = _beams(config)
    if config.get("do_sample") is not None and config.flag("do_sample"):
        out["sample"] = 1
    for name, place in _WHOLE.items():
        value = config.get(name)
        if value and (place != "beams" or not same(value, 1)):
            out[place] = config.whole(name, high=256 if place == "beams" else 1 << 24)
    if encoded and config.get("min_length"):  # which counts the decoder's start
        least = config.whole("min_length", high=1 << 24) - 1
        out["min_new"] = max(least, out.get("min_new", 0))
        if not out["min_new"]:
            del out["min_new"]
    if encoded and config.get("max_length") is not None:  # as well; max_new_tokens counts more
        out.setdefault("max_new", config.whole("max_length", low=2) - 1)
    for name in _NUMBERS:
        value = config.get(name)
        if value is None:
            continue
        if not is_number(value) or value < 0 or (name in _SHARES and value > 1):
            raise config.error(
                name,
                f"{shown(value)}, expected a number from 0{' to 1' if name in _SHARES else ''}",
            )
        if value and value != 1:
            out[name] = float(np.float32(value))
    forbidden, sequences = _bad_words(config, ids.get("end", []), vocabulary)
    suppressed = {i for i in forbidden.union(_list(config, "suppress_tokens")) if i < vocabulary}
    if suppressed:
        out["suppressed"] = sorted(i for i in suppressed if i >= 0)
    if sequences:
        out["bad_words"] = sequences
    if (last := _last(config, vocabulary, notes)) is not None:
        out["forced_last"] = last
    left = [
        name
        for name, nothing in _WITHOUT_PLACE.items()
        if config.get(name) is not None
        and not (encoded and name in _OF_ENCODED)
        and not any(same(config.get(name), value) for value in nothing)
    ]
    left += [
        printable(name)
        for name in config.unknown(_without_effect())
        if config.values[name] not in (False, [], {})
    ]
    if left:
        names = ", ".join(left[:_MOST_NAMES]) + (" and more" if len(left) > _MOST_NAMES else "")
        notes.append(f"{config.path.name}: {names}: recommended, and not kept in the file")
    return out
