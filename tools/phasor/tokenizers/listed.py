"""SentencePiece models whose ids are those of a list of texts beside them (vocab.json): MarianMT's
pair of models, M2M100's. The section is that of the model (file-format.md, TOKENIZER, the list of
ids): its pieces are numbered by the list, those that the list does not have stand behind it, and
what only the list has text gives as a whole or not at all. Needs numpy only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple

from phasor.errors import PhasorError, named, shown
from phasor.files import read_bytes, read_json
from phasor.tokenizers.section import (
    BYTE,
    CONTROL,
    LISTED,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    TokenizerError,
)
from phasor.tokenizers.sentencepiece import read_model_proto
from phasor.tokenizers.tokenizer import build_proto_section
from phasor.tokenizers.vocabulary import Vocabulary
from phasor.values import is_whole

_JSON_BYTES = 128 << 20
_STRIPS = ("lstrip", "rstrip")
_FLAGS = (*_STRIPS, "single_word")
_OF_WORDS = 3  # trainer_spec.model_type
_GIVEN = (NORMAL, USER_DEFINED, UNUSED)  # types of pieces that a segmentation looks at


class Listed(NamedTuple):
    """A list of ids, read."""

    texts: dict[int, str]
    ids: dict[str, int]
    special: dict[
        str, int
    ]  # tokens that text gives wherever it has them, and that decode to nothing
    unknown: int
    plain: frozenset[str] = frozenset()  # of these, those that are text nonetheless

    @property
    def count(self) -> int:
        return max(self.texts) + 1


def read_list(
    path: Path,
    special: Mapping[str, int | None],
    unknown: str,
    plain: frozenset[str] = frozenset(),
) -> Listed:
    """The list of a vocab.json. special: tokens with the ids that another file gives them, None
    where none does; unknown: one of them; plain: those that are text nonetheless."""
    try:
        vocabulary = Vocabulary(read_json(path, _JSON_BYTES), [])
        texts = dict(vocabulary.texts)
        ids = {text: id_ for id_, text in texts.items()}
        found = {}
        for token, id_ in special.items():
            own = ids.get(token, id_)
            if own is None:
                raise TokenizerError(f"the special token {shown(token)} is not there")
            if id_ not in (None, own) or texts.setdefault(own, token) != token:
                raise TokenizerError(
                    f"the special token {shown(token)} has the id {id_} elsewhere, here {own}"
                )
            if own > vocabulary.count() + len(special):
                raise TokenizerError(f"the special token {shown(token)} has the id {own}")
            found[token] = ids[token] = own
        if unknown not in ids:
            raise TokenizerError(f"the unknown token {shown(unknown)} is not there")
        return Listed(texts, ids, found, ids[unknown], plain)
    except PhasorError as error:
        raise named(path, error) from error


def listed_section(path: Path, listed: Listed, codes: bool = False) -> bytes:
    """The section of a SentencePiece model with a list of ids. codes: a text may begin with a
    language's code, >>xxx<<."""
    try:
        proto = read_model_proto(read_bytes(path))
        if proto["model_type"] == _OF_WORDS:
            # It joins unknown words in a row, and the library looks their text up in the list.
            raise TokenizerError(
                "SentencePiece model type word with a list of ids is not supported (unigram, bpe "
                "and char are)"
            )
        pieces, lowest = _pieces(proto, listed)
        count = listed.count
        added = sorted((text.encode(), id_, 0) for text, id_ in listed.special.items())
        proto |= {
            "pieces": pieces,
            "unknown_surface": b"",
            "listed": {"extra": len(pieces) - count, "added": added, "codes": codes},
        }
        numbers = [score for _, score, kind in pieces if kind == NORMAL]
        if min(numbers, default=None) != lowest:
            raise TokenizerError("a special token is the piece of the lowest score")
        return build_proto_section(proto)
    except PhasorError as error:
        raise named(path, error) from error


def _pieces(
    proto: dict[str, Any], listed: Listed
) -> tuple[list[tuple[bytes, float, int]], float | None]:
    """The pieces by the list's ids, then those without one; and the model's lowest score."""
    own = {text: (score, kind) for text, score, kind in proto["pieces"]}
    if len(own) != len(proto["pieces"]):
        raise TokenizerError("two pieces have the same text")
    rows = []
    for id_ in range(listed.count):
        if id_ not in listed.texts:
            rows.append((b"<no piece %d>\xff" % id_, 0.0, CONTROL))
            continue
        text = listed.texts[id_].encode()
        score, kind = own.pop(text, (0.0, LISTED))
        if id_ == listed.unknown:
            score, kind = 0.0, UNKNOWN
        elif listed.texts[id_] in listed.special:
            score, kind = 0.0, LISTED if listed.texts[id_] in listed.plain else CONTROL
        elif kind not in (*_GIVEN, BYTE):
            score, kind = 0.0, LISTED
        rows.append((text, score, kind))
    rows += [(text, score, kind) for text, (score, kind) in own.items() if kind in _GIVEN]
    scores = [score for _, score, kind in proto["pieces"] if kind == NORMAL]
    return rows, min(scores, default=None)


# ---- MarianMT's files


def special_tokens(
    config: Mapping[str, Any], names: Mapping[str, str], strips: bool = False
) -> dict[str, int | None]:
    """The special tokens that tokenizer_config.json and special_tokens_map.json name (names: those
    there are, with their usual texts), and the ids that added_tokens_decoder gives. strips: the
    model takes away white space at a text's ends, so that a token may say that it does."""
    out: dict[str, int | None] = {}
    more = config.get("additional_special_tokens") or []
    if not isinstance(more, list):
        raise TokenizerError(f"additional_special_tokens: {shown(more)}, expected a list")
    for name, usual in names.items():
        out[token(config, name, usual, strips)] = None
    for one in more:
        out[content("additional_special_tokens", one, strips)] = None
    added = config.get("added_tokens_decoder") or {}
    if not isinstance(added, dict):
        raise TokenizerError(f"added_tokens_decoder: {shown(added)}, expected a table")
    for id_, one in added.items():
        if not (id_.isascii() and id_.isdigit() and len(id_) < 9):
            raise TokenizerError(f"added_tokens_decoder: {shown(id_)}, expected an id")
        text = content("added_tokens_decoder", one, strips)
        if out.get(text) not in (None, int(id_)):
            raise TokenizerError(f"added_tokens_decoder: {shown(text)} has two ids")
        out[text] = int(id_)
    return out


def plain_tokens(config: Mapping[str, Any], names: Mapping[str, str]) -> frozenset[str]:
    """Of what special_tokens gives, the added tokens that are not special."""
    more = config.get("additional_special_tokens") or []
    named = {content("", one, True) for one in more}
    named |= {token(config, name, usual, True) for name, usual in names.items()}
    added = (config.get("added_tokens_decoder") or {}).values()
    plain = (one for one in added if not (isinstance(one, dict) and one.get("special")))
    return frozenset(content("", one, True) for one in plain) - named


def put_special(
    texts: dict[int, str], ids: dict[str, int], special: Mapping[str, int | None]
) -> dict[str, int]:
    """The ids of special tokens. What is no text yet goes behind the others, where it has an id."""
    behind = max(texts, default=-1) + 1
    for text, id_ in special.items():
        new = text not in ids and id_ is not None and behind <= id_ < behind + len(special)
        if new and id_ not in texts:
            texts[id_], ids[text] = text, id_
        if text not in ids or id_ not in (None, ids[text]):
            what = "is not there" if text not in ids else f"has the id {id_}, here {ids[text]}"
            raise TokenizerError(f"the special token {shown(text)} {what}")
    return {text: ids[text] for text in special}


def token(config: Mapping[str, Any], name: str, usual: str, strips: bool = False) -> str:
    """The text of a special token."""
    given = config.get(f"{name}_token")
    return content(f"{name}_token", usual if given is None else given, strips)


def content(where: str, token: Any, strips: bool) -> str:
    """The text of a token, which may be a table of it and its flags."""
    text = token.get("content") if isinstance(token, dict) else token
    if not isinstance(text, str) or not text:
        raise TokenizerError(f"{where}: {shown(token)}, expected a text, or a table with content")
    for flag in _FLAGS:
        if isinstance(token, dict) and token.get(flag) and not (strips and flag in _STRIPS):
            raise TokenizerError(f"{where}: {shown(text)}: {flag} is not supported")
    return text


def marian_sections(folder: Path, config: Mapping[str, Any]) -> tuple[dict[str, bytes], Listed]:
    """The sections of the source and the target side of a MarianMT directory, one section where
    they are alike, and the source's list. config: tokenizer_config.json and what else names
    special tokens."""
    if config.get("sp_model_kwargs"):
        raise TokenizerError(
            f"sp_model_kwargs: {shown(config['sp_model_kwargs'])}, expected nothing"
        )
    names = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}
    special, plain = special_tokens(config, names), plain_tokens(config, names)
    unknown = next(iter(special))
    lists = {"source": read_list(folder / "vocab.json", special, unknown, plain)}
    separate = config.get("separate_vocabs") or False
    lists["target"] = (
        read_list(folder / "target_vocab.json", special, unknown, plain)
        if separate
        else lists["source"]
    )
    sections = {
        side: listed_section(folder / f"{side}.spm", lists[side], codes=True) for side in lists
    }
    return sections, lists["source"]


# ---- M2M100's files

_M2M_TOKENS = {"unk": "<unk>", "bos": "<s>", "eos": "</s>", "pad": "<pad>", "sep": "</s>"}
_MOST_LANGUAGES = 4096


def m2m_section(folder: Path, config: Mapping[str, Any]) -> tuple[bytes, Listed]:
    """The section of an M2M100 directory, vocab.json with sentencepiece.bpe.model, and its list,
    behind which the languages come, __xx__, in the order of additional_special_tokens."""
    if config.get("sp_model_kwargs"):
        raise TokenizerError(
            f"sp_model_kwargs: {shown(config['sp_model_kwargs'])}, expected nothing"
        )
    special = special_tokens(config, _M2M_TOKENS)
    vocabulary = read_json(folder / "vocab.json", _JSON_BYTES)
    more = [text for text in special if text.startswith("__")]
    if len(more) > _MOST_LANGUAGES:
        raise TokenizerError(f"{len(more)} languages, expected at most {_MOST_LANGUAGES}")
    for i, text in enumerate(more):
        own = len(vocabulary) + i
        if special[text] not in (None, own):
            raise TokenizerError(f"{shown(text)} has the id {special[text]}, expected {own}")
        special[text] = own
    plain = plain_tokens(config, _M2M_TOKENS)
    found = read_list(folder / "vocab.json", special, next(iter(special)), plain)
    return listed_section(folder / "sentencepiece.bpe.model", found), found


# ---- T5's file

_T5_TOKENS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}
_MOST_SENTINELS = 4096


def t5_section(folder: Path, config: Mapping[str, Any]) -> tuple[bytes, Listed]:
    """The section of T5's spiece.model, and its list: the pieces, and behind them the sentinels
    <extra_id_0>, …, the last first. As transformers' slow class reads them, which is `legacy`."""
    path = folder / "spiece.model"
    for name, wanted in (("legacy", True), ("add_prefix_space", True), ("sp_model_kwargs", {})):
        if config.get(name) not in (None, wanted):
            raise TokenizerError(
                f"{name}: {shown(config[name])} is not supported, expected {wanted}"
            )
    count = config.get("extra_ids", 100)
    if not is_whole(count, 0, _MOST_SENTINELS):
        raise TokenizerError(
            f"extra_ids: {shown(count)}, expected a whole number from 0 to {_MOST_SENTINELS}"
        )
    try:
        proto = read_model_proto(read_bytes(path))
        texts = {i: text.decode() for i, (text, _, _) in enumerate(proto["pieces"])}
    except PhasorError as error:
        raise named(path, error) from error
    except UnicodeDecodeError as error:
        raise PhasorError(f"{path}: a piece is not UTF-8") from error
    strips = proto["remove_extra"] and bool(proto["charsmap"])
    given = special_tokens(config, _T5_TOKENS, strips)
    rows = len(texts)
    sentinels = {f"<extra_id_{i}>": rows + count - 1 - i for i in range(count)}
    ids = {text: id_ for id_, text in texts.items()} | sentinels
    texts |= {id_: text for text, id_ in sentinels.items()}
    special = put_special(texts, ids, given) | sentinels
    plain = plain_tokens(config, _T5_TOKENS) - sentinels.keys()
    listed = Listed(texts, ids, special, special[next(iter(given))], plain)
    return listed_section(path, listed), listed
