"""The added tokens of a directory as transformers puts them together: those of tokenizer.json; of
added_tokens_decoder (tokenizer_config.json) or, where nothing says it, of added_tokens.json; the
special tokens by their names; additional_special_tokens and extra_special_tokens. Needs numpy only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterable, Mapping

from phasor import side_files
from phasor.errors import shown
from phasor.files import has_file, read_json
from phasor.tokenizers.json_parts import package_float
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.vocabulary import special_token

_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
_MOST = 1 << 20  # tokens
_DECODER, _MORE = "added_tokens_decoder", "additional_special_tokens"
_EXTRA = "extra_special_tokens"  # a list, or a table of names


def configuration(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json says; where it has no table of added tokens, those that
    special_tokens_map.json says come first, as transformers has it."""
    config, more = (
        side_files.read(folder / name)
        for name in ("tokenizer_config.json", "special_tokens_map.json")
    )
    return config if config.get(_DECODER) is not None else {**config, **more}


def _token(where: str, token: Any, id_: int, special: bool) -> dict[str, Any]:
    """A token of tokenizer.json, from a text or a table with its flags."""
    table = token if isinstance(token, dict) else {"content": token}
    text, given = table.get("content"), {name: table.get(name) for name in (*_FLAGS, "special")}
    flags = {name: value for name, value in given.items() if value is not None}
    if not isinstance(text, str) or not all(isinstance(value, bool) for value in flags.values()):
        raise TokenizerError(f"{where}: {shown(token)}, expected a text, or a table with content")
    special = special or flags.pop("special", False)
    return special_token(text, id_, **{"normalized": False, **flags, "special": special})


def listed(folder: Path, config: Mapping[str, Any]) -> dict[int, Any]:
    """The tokens that the files give an id, by it."""
    given = config.get(_DECODER)
    path = folder / "added_tokens.json"
    if given is not None:
        if not isinstance(given, dict) or len(given) > _MOST:
            raise TokenizerError(f"{_DECODER}: expected a table of tokens by their ids")
        for id_ in given:
            if not (id_.isascii() and id_.isdigit() and len(id_) < 9 and str(int(id_)) == id_):
                raise TokenizerError(f"{_DECODER}: {shown(id_)}, expected an id")
        return {int(id_): token for id_, token in given.items()}
    out: dict[int, Any] = {}
    for text, id_ in (read_json(path) if has_file(path) else {}).items():
        if type(id_) is not int or not 0 <= id_ < 1 << 24 or id_ in out:
            raise TokenizerError(f"added_tokens.json: {shown(text)} has the id {shown(id_)}")
        out[id_] = {"content": text}
    return out


def _more(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The special tokens without a name, each with the field that has it."""
    more, extra = config.get(_MORE) or [], config.get(_EXTRA) or []
    extra = list(extra.values()) if isinstance(extra, dict) else extra
    for name, tokens in ((_MORE, more), (_EXTRA, extra)):
        if not isinstance(tokens, list) or len(tokens) > _MOST:
            raise TokenizerError(f"{name}: {shown(tokens)}, expected a list")
    return [(_MORE, token) for token in more] + [(_EXTRA, token) for token in extra]


def joined_tokens(
    folder: Path,
    config: Mapping[str, Any],
    own: list[dict[str, Any]],
    ids: Mapping[str, int],
    named: list[Any],
) -> list[dict[str, Any]]:
    """The added tokens of a tokenizer.json, its `own`, with those that the files beside it have.
    ids: of all its texts. One that a table has with other flags is the table's."""
    out = {token["content"]: token for token in own}
    if len(out) < len(own):  # one is there twice, and refused where they are read
        return own
    said = added_tokens(folder, config, ids, named)
    table = listed(folder, config) if config.get(_DECODER) is not None else {}
    theirs = [_token(_DECODER, token, -1, False) for token in table.values()]
    others = {
        token["content"]
        for token in theirs
        if any(bool(out.get(token["content"], {}).get(f)) != token[f] for f in (*_FLAGS, "special"))
    }
    for token in said:
        text = token["content"]
        if text not in out or text in others:
            out[text] = {**token, "id": out.get(text, token)["id"]}
    return list(out.values())


def added_tokens(
    folder: Path,
    config: Mapping[str, Any],
    vocabulary: Mapping[str, int],
    named: Iterable[dict[str, Any]],
) -> list[dict[str, Any]]:
    """The added tokens of a tokenizer.json by their ids. named: those of the class, with an id
    below 0 where the vocabulary has none."""
    tables = config.get(_DECODER) is not None
    out: dict[str, dict[str, Any]] = {}
    for id_, token in listed(folder, config).items():
        where = _DECODER if tables else "added_tokens.json"
        made = _token(where, token, id_, False)
        if made["content"] in out:
            raise TokenizerError(f"{where}: {shown(made['content'])} is there twice")
        out[made["content"]] = made
        if not tables:
            made["normalized"] = True
    following = max([len(vocabulary) - 1, *(token["id"] for token in out.values())]) + 1
    behind = [(token, not tables) for token in named]
    for where, token in _more(config):
        made = _token(where, token, -1, True)
        made["id"] = vocabulary.get(made["content"], -1)
        behind.append((made, isinstance(token, dict)))
    for token, flags in behind:  # flags: count more than those of the table
        text = token["content"]
        if type(token["id"]) is not int:
            raise TokenizerError(f"model.vocab: {shown(text)} has the id {shown(token['id'])}")
        if text in out:
            own = token if flags or not tables else out[text]
            special = token["special"] or own["special"]
            out[text] = {**own, "id": out[text]["id"], "special": special}
            continue
        if token["id"] < 0:
            token, following = {**token, "id": following}, following + 1
        out[text] = token
    return sorted(out.values(), key=lambda token: token["id"])


# ---- Special tokens that have a name


def token_text(config: dict[str, Any], name: str) -> str | None:
    """A special token of tokenizer_config.json: a text, or a table with its text as content."""
    token = config.get(f"{name}_token")
    token = token.get("content") if isinstance(token, dict) else token
    if not token:
        return None
    if not isinstance(token, str):
        raise TokenizerError(
            f"tokenizer_config.json: {name}_token: {shown(token)}, expected a text, or a table "
            "with a text as content"
        )
    return token


USUAL = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "bos": (),
    "eos": (),
}
_JSON_BYTES = 128 << 20


def read_table(path: Path) -> dict[str, Any]:
    """A JSON file with the numbers that the package reads there; of none, an empty table."""
    return read_json(path, _JSON_BYTES, package_float) if has_file(path) else {}


def class_of(name: Any) -> str:
    """A tokenizer's class without its endings; "" of none."""
    return str(name or "").removesuffix("Fast").removesuffix("Tokenizer")


def named_token(
    config: dict[str, Any], name: str, text: str, vocabulary: dict[str, int], lstrip: bool = False
) -> dict[str, Any]:
    """A special token that has a name. lstrip: of the class, where only its text is said."""
    said = config.get(f"{name}_token")
    flags = {flag: said.get(flag) for flag in _FLAGS} if isinstance(said, dict) else {}
    made = {flag: value for flag, value in flags.items() if value is not None}
    for flag, value in made.items():
        if not isinstance(value, bool):
            raise TokenizerError(
                f"tokenizer_config.json: {name}_token: {flag}: {shown(value)}, expected true or"
                " false"
            )
    return special_token(text, vocabulary.get(text, -1), **(made or {"lstrip": lstrip}))
