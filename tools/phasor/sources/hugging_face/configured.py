"""What transformers changes in a tokenizer.json by the files beside it, and where its version 5
makes other ids of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from phasor import side_files
from phasor.errors import shown
from phasor.files import has_file
from phasor.sources.hugging_face.added import (
    class_of,
    configuration,
    joined_tokens,
    named_token,
    read_table,
    token_text,
)
from phasor.tokenizers.json_parts import metaspace, steps, types_of
from phasor.tokenizers.section import TokenizerError
from phasor.values import words

# Classes that make BertNormalizer anew where their own settings are not the file's, and the model
# types of directories that name no class.
_NORMALIZED = words("""
    Bert DistilBert Electra MPNet Funnel MobileBert LayoutLM SqueezeBert Lxmert ConvBert Splinter
    DPRReader DPRQuestionEncoder DPRContextEncoder
""")
_NORMALIZED_TYPES = words("bert distilbert electra mpnet")
_CHINESE = "handle_chinese_chars"
# Of these transformers 4.57 keeps tokenizer.json's _CHINESE, and 5.x has the configuration's.
_CHINESE_BY_VERSION = words("MPNet mpnet Splinter")
# Its settings in tokenizer_config.json, and what they are where it does not say it.
_SETTINGS = {
    "lowercase": ("do_lower_case", True),
    "strip_accents": ("strip_accents", None),
    _CHINESE: ("tokenize_chinese_chars", True),
}
_ATTRIBUTES = words("bos eos unk sep pad cls mask")


def configured(spec: dict[str, Any], folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer.json with what transformers changes in it by the files beside it."""
    kind = class_of(config.get("tokenizer_class"))
    spec = dict(spec)
    normalizer = spec.get("normalizer")
    theirs = kind in _NORMALIZED or (not kind and config.get("model_type") in _NORMALIZED_TYPES)
    if theirs and isinstance(normalizer, dict) and normalizer.get("type") == "BertNormalizer":
        said = {name: config.get(*setting) for name, setting in _SETTINGS.items()}
        by_version = (kind or config.get("model_type")) in _CHINESE_BY_VERSION
        if by_version and normalizer.get(_CHINESE, True) != said[_CHINESE]:
            raise TokenizerError(
                f"normalizer: {_CHINESE} is not tokenizer_config.json's {_SETTINGS[_CHINESE][0]},"
                " and versions of transformers read different ones; make them the same"
            )
        spec["normalizer"] = {**normalizer, **said}
    _check_prefix(spec, folder, config, kind)
    _check_settings(spec, config, kind)
    ids, own = _texts(spec.get("model")), spec.get("added_tokens") or []
    if not isinstance(own, list) or not all(is_token(token) for token in own):
        return spec  # which is refused where it is read
    ids |= {token["content"]: token["id"] for token in own}
    texts = {name: text for name in _ATTRIBUTES if (text := token_text(config, name)) is not None}
    if theirs:
        usual = {name: f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
        texts = {**{name: text for name, text in usual.items() if text in ids}, **texts}
    named = [named_token(config, name, texts[name], ids) for name in _ATTRIBUTES if name in texts]
    spec["added_tokens"] = joined_tokens(folder, config, own, ids, named)
    _check_own_tokens(config, {token["content"] for token in spec["added_tokens"]})
    return spec


def _check_own_tokens(config: dict[str, Any], added: set[str]) -> None:
    """PhasorError for a special token of the model's own that the tokenizer does not have:
    transformers 5 adds it."""
    named = {name: config[name] for name in config if name.endswith("_token")}
    more = config.get("model_specific_special_tokens")
    named |= more if isinstance(more, dict) else {}
    for name in named:
        if name.removesuffix("_token") in _ATTRIBUTES or name in ("add_bos_token", "add_eos_token"):
            continue
        text = token_text({"x_token": named[name]}, "x") if named[name] is not True else None
        if text is not None and text not in added:
            raise TokenizerError(
                f"tokenizer_config.json: {name}: {shown(text)} is not an added token of"
                " tokenizer.json, and transformers 5 makes it one"
                f" ({side_files.ignoring(Path('tokenizer_config.json'), name)} leaves it out)"
            )


# Classes that make their steps anew in transformers 5, and what they make of these settings: the
# part, its step, and the value of the setting with it.
_SET_ANEW = {
    "do_lower_case": (words("Albert DebertaV2 XLNet RemBert"), "normalizer", "Lowercase", True),
    "keep_accents": (words("Albert RemBert"), "normalizer", "StripAccents", False),
    "split_by_punct": (words("DebertaV2"), "pre_tokenizer", "Punctuation", True),
}
_INSIDE = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}


def _check_settings(spec: dict[str, Any], config: dict[str, Any], kind: str) -> None:
    """PhasorError for a setting that is not what tokenizer.json does: versions of transformers
    follow one or the other."""
    for name, (kinds, part, step, value) in _SET_ANEW.items():
        said = config.get(name)
        if kind not in kinds or not isinstance(said, bool):
            continue
        if (step in types_of(spec, part, _INSIDE[part])) != (said == value):
            raise TokenizerError(
                f"tokenizer_config.json: {name} is {str(said).lower()}, and the {part} of"
                f" tokenizer.json {'has no' if said == value else 'has'} {step}; make them the same"
            )


def _texts(model: Any) -> dict[str, int]:
    """The ids of a model's texts, those that are sound."""
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list):
        rows = ((row[0] if isinstance(row, list) and row else None) for row in vocabulary)
        return {text: id_ for id_, text in enumerate(rows) if isinstance(text, str)}
    found = vocabulary.items() if isinstance(vocabulary, dict) else ()
    return {text: id_ for text, id_ in found if type(id_) is int}


def is_token(token: Any) -> bool:
    text, id_ = (token.get(n) for n in ("content", "id")) if isinstance(token, dict) else (0, 0)
    return isinstance(text, str) and type(id_) is int


_PREFIX = "add_prefix_space"
# Classes that 4.57 makes of this SentencePiece file, and not of tokenizer.json, where _PREFIX is
# said.
_MADE_OF = {"Llama": "tokenizer.model", "T5": "spiece.model", "MT5": "spiece.model"}


def _check_prefix(spec: dict[str, Any], folder: Path, config: dict[str, Any], kind: str) -> None:
    """PhasorError for an add_prefix_space that is not tokenizer.json's. A class of transformers
    puts its own, false where nothing says it, in the place of ByteLevel's; what has no class is the
    package's own. Metaspace has another name for it, and stays as it is but in _MADE_OF."""
    classed = config.get("tokenizer_class") or config.get("model_type")
    said, step = config.get(_PREFIX), spec.get("pre_tokenizer")
    if isinstance(step, dict) and step.get("type") == "ByteLevel":
        own = step.get(_PREFIX)
        if classed and isinstance(own, bool) and own != bool(said):
            what = f"the pre_tokenizer of tokenizer.json has {str(own).lower()}"
            raise _other_prefix(bool(said), what)
    elif kind in _MADE_OF and said is not None:
        _check_made(spec, folder, config, kind)


def _check_made(spec: dict[str, Any], folder: Path, config: dict[str, Any], kind: str) -> None:
    """PhasorError for a tokenizer.json whose spaces are not those of _MADE_OF's file."""
    said, older = bool(config[_PREFIX]), config.get("legacy") in (None, True)
    normalizers = types_of(spec, "normalizer", _INSIDE["normalizer"])
    given = steps(spec.get("pre_tokenizer"), "pre_tokenizer", _INSIDE["pre_tokenizer"])
    schemes = [metaspace(s, "pre_tokenizer")[0] for s in given if s["type"] == "Metaspace"]
    own = "Prepend" in normalizers or schemes not in ([], ["never"])
    hint = f" ({side_files.ignoring(Path('tokenizer_config.json'), _PREFIX)} leaves it out)"
    if own != said:
        what = f"tokenizer.json puts {'one' if own else 'none'} before a text"
        raise _other_prefix(said, what, hint)
    made = ["always" if older else "first"]
    if kind == "Llama" and older:  # its steps are normalizers
        made = []
    if said and schemes != made and has_file(folder / _MADE_OF[kind]):
        what = f"transformers 4 then makes the steps of {_MADE_OF[kind]}, which are others"
        raise _other_prefix(said, what, hint)


def _other_prefix(said: bool, what: str, hint: str = "") -> TokenizerError:
    return TokenizerError(
        f"tokenizer_config.json: {_PREFIX} is {str(said).lower()}, and {what}; make them the same"
        f"{hint}"
    )


# Classes of transformers 5 that make the normalizer and the pre-tokenizer anew, whatever a
# tokenizer.json has (tokenizers.md): those whose own are others than 4.57's, and those that
# have these steps.
_MADE_ANEW = words("""
    BigBird DebertaV2 XLNet RemBert Pegasus MBart MBart50 XGLM Barthez CodeLlama Nllb Reformer
    SeamlessM4T
""")
_NO_NORMALIZER: list[str] = []
_LEVEL, _NFC = ["ByteLevel"], ["NFC"]
_STEPS = {
    **dict.fromkeys(words("GPT2 Roberta Bart CodeGen Whisper Deberta"), (_NO_NORMALIZER, _LEVEL)),
    **{"GPTNeoX": (_NFC, _LEVEL), "Qwen2": (_NFC, ["Split", *_LEVEL])},
    "Cohere": (_NFC, ["Digits", *_LEVEL]),
}
_OF_MISTRAL = ("mistral", "phi3")  # whose LlamaTokenizer it leaves as the file has it


def other_ids(path: Path) -> str | None:
    """A line for a tokenizer.json of 4.57, or a tokenizer.model alone, of which transformers 5
    makes other ids."""
    folder = path if path.is_dir() else path.parent
    file = folder / "tokenizer.json" if path.is_dir() else path
    if not has_file(file) or (file.suffix != ".json" and file.name != "tokenizer.model"):
        return None
    config, own = configuration(folder), read_table(folder / "config.json")
    kind = class_of(config.get("tokenizer_class") or own.get("tokenizer_class"))
    if kind == "PreTrained" and own.get("model_type") == "qwen2":
        kind = "Qwen2"
    known = kind in _MADE_ANEW or kind in _STEPS or kind in ("T5", "Llama")
    if not known or "backend" in config:  # saved by 5.x
        return None
    if file.suffix == ".model":  # as tokenizer_model.py converts it
        older = kind == "Llama" and config.get("legacy") in (None, True)
        return _other(file, kind) if older else None
    spec = read_table(file)
    normalizers, words_ = (
        [step.get("type") for step in steps(spec.get(part), part, inside)]
        for part, inside in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers"))
    )
    scheme = json.dumps(spec.get("pre_tokenizer"))
    same = False
    if kind in _STEPS:
        same = (normalizers, words_) == _STEPS[kind]
    elif kind == "T5":
        same = '"always"' in scheme
    elif kind == "Llama":
        level = types_of(spec, "decoder", "decoders") == _LEVEL
        same = level or own.get("model_type") in _OF_MISTRAL
        theirs = '"never"' if config.get(_PREFIX) is False else '"first"'
        same = same or (not normalizers and theirs in scheme)
    return None if same else _other(file, kind)


def _other(file: Path, kind: str) -> str:
    return (
        f"{file}: transformers 5 has steps of its own in place of this {kind}Tokenizer's, and other"
        " ids for some texts (docs/reference/tokenizers.md); here they are the file's, as in 4.57"
    )
