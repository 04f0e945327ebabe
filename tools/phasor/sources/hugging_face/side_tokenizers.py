"""The tokenizers of an encoder-decoder's directory: their sections, and what they say of the ids
around a text and of languages."""

from __future__ import annotations

import re
from functools import partial
from os.path import isfile
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

from phasor.errors import PhasorError, printable, shown
from phasor.files import has_file, read_json, read_text
from phasor.format.descriptor import CLASSES
from phasor.format.file import SOURCE_TOKENIZER, TARGET_TOKENIZER
from phasor.sources.hugging_face import added, around, numbered, tokenizer_json
from phasor.tokenizers import listed
from phasor.tokenizers.section import id_count
from phasor.values import words

_MOST_SHOWN = 400  # languages in a message


class Languages(NamedTuple):
    """The names that --source-lang and --target-lang gave; empty: none."""

    source: str = ""
    target: str = ""


def configuration(folder: Path) -> dict[str, Any]:
    """What tokenizer_config.json and special_tokens_map.json say, and added_tokens.json where they
    do not."""
    said = added.configuration(folder)
    out = {name: value for name, value in said.items() if value is not None}
    if more := added.listed(folder, out):
        out["added_tokens_decoder"] = {str(id_): token for id_, token in more.items()}
    return out


def marian(folder: Path, descriptor: dict[str, Any], languages: Languages) -> dict[int, bytes]:
    """The sections of MarianMT's files, source.spm, target.spm and vocab.json."""
    config = configuration(folder)
    made, names = listed.marian_sections(folder, config)
    codes = {
        text[2:-2]: id_
        for text, id_ in names.ids.items()
        if text.startswith(">>") and text.endswith("<<") and len(text) > 4
    }
    if languages.source:
        raise PhasorError("--source-lang: the model knows its source's language by itself")
    end = descriptor["target"]["end"]
    eos = names.ids[listed.token(config, "eos", "</s>")]
    if end[:1] != [eos]:  # more may end an output
        raise PhasorError(f"eos_token: id {eos}, and eos_token_id of the configuration is {end}")
    source, target = descriptor["source"], descriptor["target"]
    source.update(suffix=[eos], end=[eos], unknown=names.unknown, tokenizer=SOURCE_TOKENIZER)
    if languages.target:
        source["prefix"] = [language("--target-lang", languages.target, codes)]
    sections = {SOURCE_TOKENIZER: made["source"]}
    if made["target"] != made["source"]:
        sections[TARGET_TOKENIZER] = made["target"]
    target.update(unknown=names.unknown, tokenizer=max(sections))
    return sections


# Where the classes of tokenizers put the languages: the source's in the ids around a text, the
# target's in the first ids of the output.
_PLACES = {
    "MBart": ("suffix", "decoder_start"),
    "PLBart": ("suffix", "decoder_start"),
    "MBart50": ("prefix", "forced_first"),
    "Nllb": ("prefix", "forced_first"),
    "M2M100": ("prefix", "forced_first"),
}
# en_XX, eng_Latn, __en__, __en_XX__
_SPELLED = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]+|__([a-z_]+(?:_XX)?)__")
# Files that a tokenizer is in; and what reads those that are not tokenizer.json, by the class.
_FILES = words("""
    tokenizer.json vocab.json merges.txt sentencepiece.bpe.model spiece.model tokenizer.model
    vocab.txt source.spm target.spm
""")
_SAYS = "tokenizer_config.json"  # what a directory with a tokenizer has
# Classes of a sentencepiece.bpe.model without a list, and the language of a text without a flag.
_NUMBERED = {"MBart": "en_XX", "MBart50": "en_XX", "Nllb": "eng_Latn", "PLBart": ""}
# Of files without a class, by the family's tokenizer.
_OWN_CLASS = {
    "mbart": "MBart",
    "plbart": "PLBart",
    "blenderbot": "Blenderbot",
    "blenderbot-small": "BlenderbotSmall",
}
# vocab.json with merges.txt, as tokenizer_json.py reads them
_MERGED = ("Bart", "Roberta", "GPT2", "Blenderbot", "BlenderbotSmall")


# Kinds of tokenizers that read a file of their own, by their classes.
_KINDS = {"Marian": "marian", "T5": "t5", "MT5": "t5", "Pegasus": "pegasus"}
SIDES = ("source", "target")


def package(
    path: Path,
    descriptor: dict[str, Any],
    languages: Languages,
    sides: Sequence[str] = SIDES,
) -> dict[int, bytes]:
    """The section of a tokenizer.json or of what it was made from, a directory or one of its files,
    which is that of these sides."""
    rows = min(descriptor[side]["vocabulary"] for side in sides)
    section, info = tokenizer_json.build_hf_section(path, rows=rows)
    number = SOURCE_TOKENIZER if "source" in sides else TARGET_TOKENIZER
    for side in (descriptor[name] for name in sides):
        for name, own in (("pad", "pad"), ("unknown", "unknown"), ("mask", "mask")):
            if side[name] is None and info[own] is not None:
                side[name] = info[own]
        side["tokenizer"] = number
    if "source" in sides:
        source = descriptor["source"]
        segments = descriptor["encoder"]["segments"]
        around.check_segments(info, segments)
        source.update((name, info[name]) for name in ("prefix", "suffix"))
        if descriptor["output"]["output"] == CLASSES:  # of one text or of two
            around.check_cut(info)
            source["pair"] = around.pair_of(info)
    folder = path if path.is_dir() else path.parent
    kind = str(configuration(folder).get("tokenizer_class") or "")
    if kind.startswith("RoFormer"):
        raise PhasorError(f"{kind} splits Chinese into words with a dictionary that no file has")
    place(kind, _codes(info["special"]), languages, descriptor)
    return {number: section}


def _codes(special: dict[str, int]) -> dict[str, int]:
    """The languages among special tokens, by their names."""
    spelled = ((_SPELLED.fullmatch(text), id_) for text, id_ in special.items())
    return {one[1] or one[0]: id_ for one, id_ in spelled if one}


def m2m(folder: Path, descriptor: dict[str, Any], languages: Languages) -> dict[int, bytes]:
    """The section of M2M100's files, which is that of both sides. Without --source-lang a text is
    English, as transformers takes it."""
    config = configuration(folder)
    section, found = listed.m2m_section(folder, config)
    codes = {text[2:-2]: id_ for text, id_ in found.ids.items() if _SPELLED.fullmatch(text)}
    languages = _with_source(languages, config, "en")
    for side in (descriptor["source"], descriptor["target"]):
        side.update(tokenizer=SOURCE_TOKENIZER, unknown=found.unknown)
    place("M2M100Tokenizer", codes, languages, descriptor)
    return {SOURCE_TOKENIZER: section}


def spiece(
    kind: str,
    section_of: Callable[[Path, dict[str, Any]], tuple[bytes, listed.Listed]],
    folder: Path,
    descriptor: dict[str, Any],
    languages: Languages,
) -> dict[int, bytes]:
    """The section of the spiece.model of a class, T5 or Pegasus, which is that of both sides."""
    config = configuration(folder)
    section, found = section_of(folder, config)
    _end_behind(config, found, descriptor)
    place(f"{kind}Tokenizer", {}, languages, descriptor)
    return {SOURCE_TOKENIZER: section}


def fairseq(
    kind: str, folder: Path, descriptor: dict[str, Any], languages: Languages
) -> dict[int, bytes]:
    """The section of the sentencepiece.bpe.model of a class of _NUMBERED, which is that of both
    sides. Without --source-lang a text is English, as transformers takes it, and PLBart's of three
    languages none."""
    config = configuration(folder)
    rows = descriptor["source"]["vocabulary"]
    section, found = numbered.fairseq_section(folder, config, kind, rows)
    usual = _NUMBERED[kind]
    if kind == "PLBart" and numbered.plbart_codes(config) == "multi":
        usual = "en_XX"
    languages = _with_source(languages, config, usual)
    _end_behind(config, found, descriptor)
    place(f"{kind}Tokenizer", _codes(found.special), languages, descriptor)
    return {SOURCE_TOKENIZER: section}


def _with_source(languages: Languages, config: dict[str, Any], usual: str) -> Languages:
    """With the language of a text, where --source-lang has not said it."""
    own = config.get("src_lang") or usual
    if not isinstance(own, str):
        raise PhasorError(f"src_lang: {shown(own)}, expected a text")
    spelled = _SPELLED.fullmatch(own)
    return languages._replace(source=languages.source or (spelled and spelled[1]) or own)


def _end_behind(config: dict[str, Any], found: listed.Listed, descriptor: dict[str, Any]) -> None:
    """A text's end stands behind it; the section is that of both sides."""
    eos = found.ids[listed.token(config, "eos", "</s>", True)]
    end = descriptor["target"]["end"]
    if end[:1] != [eos]:
        raise PhasorError(f"eos_token: id {eos}, and eos_token_id of the configuration is {end}")
    for side in (descriptor["source"], descriptor["target"]):
        side.update(tokenizer=SOURCE_TOKENIZER, unknown=found.unknown)
    descriptor["source"]["suffix"] = [eos]


def place(
    kind: str, codes: dict[str, int], languages: Languages, descriptor: dict[str, Any]
) -> None:
    """Puts the languages that were asked for where the tokenizer's class has them."""
    flags = [(f, n) for f, n in zip(("--source-lang", "--target-lang"), languages) if n]
    ids = {flag: language(flag, name, codes) for flag, name in flags}
    name = added.class_of(kind)
    if not ids:
        return
    if name not in _PLACES:
        raise PhasorError(f"{flags[0][0]}: tokenizer_class: {shown(kind)} has no languages")
    around, first = _PLACES[name]
    if "--source-lang" in ids:
        end, own = descriptor["target"]["end"][:1], [ids["--source-lang"]]
        before, behind = (own, end) if around == "prefix" else ([], end + own)
        descriptor["source"].update(prefix=before, suffix=behind)
    if "--target-lang" in ids:
        descriptor["target"][first] = ids["--target-lang"]


def language(flag: str, name: str, codes: dict[str, int]) -> int:
    """The id of a language's token; PhasorError lists those that there are."""
    if not codes:
        raise PhasorError(f"{flag}: the tokenizer has no languages")
    if name not in codes:
        known = " ".join(sorted(codes)[:_MOST_SHOWN])
        raise PhasorError(f"{flag}: {shown(name)} is none of its languages: {known}")
    return codes[name]


def _class(folder: Path) -> str:
    """The class of a directory's tokenizer as transformers finds it, without its ending."""
    name = configuration(folder).get("tokenizer_class")
    if not name and has_file(folder / "config.json"):
        name = read_json(folder / "config.json").get("tokenizer_class")
    return added.class_of(name)


def kind_of(folder: Path) -> str:
    """The kind of tokenizer of a directory, as a family names it, by its class."""
    return _KINDS.get(_class(folder), "package")


Reader = Callable[[Path, dict[str, Any], Languages], dict[int, bytes]]


def _reader(kind: str, folder: Path) -> Reader | None:
    """What reads the files of a directory, None where it has none. PhasorError for files that only
    the code of a class can read. kind: of the family's tokenizer."""
    there = {name for name in _FILES if has_file(folder / name)}
    name = _class(folder)
    if "tokenizer.json" in there or name == "ByT5":
        return package
    if kind == "fsmt" and there:
        raise PhasorError(
            "FSMTTokenizer splits a text by the rules of Moses, which are code and no file:"
            " --tokenizer none converts the model, which then takes ids"
        )
    if not there:
        return None
    if {"vocab.json", "sentencepiece.bpe.model"} <= there and name in ("M2M100", ""):
        return m2m
    if kind == "t5" and "spiece.model" in there and name in ("T5", "MT5", ""):
        return partial(spiece, "T5", listed.t5_section)
    if kind == "pegasus" and "spiece.model" in there and name in ("Pegasus", ""):
        return partial(spiece, "Pegasus", numbered.pegasus_section)
    numbering = name or _OWN_CLASS.get(kind)
    if "sentencepiece.bpe.model" in there and numbering in _NUMBERED:
        return partial(fairseq, numbering)
    if {"vocab.json", "merges.txt"} <= there and numbering in _MERGED:
        return package
    if kind.endswith("package") and "vocab.txt" in there and name == "Bert":
        return package
    raise PhasorError(
        f"{', '.join(sorted(there))}: not a tokenizer that is supported"
        + (f" for {printable(name)}Tokenizer" if name else "")
        + "; save it as tokenizer.json (AutoTokenizer.from_pretrained(…).save_pretrained(…))"
    )


def sections(
    kind: str, folder: Path, descriptor: dict[str, Any], languages: Languages
) -> dict[int, bytes]:
    """The sections of a directory, by the kind of its tokenizer; the descriptor gets what they
    say. Nothing where it has no files."""
    if not any(has_file(folder / name) for name in (*_FILES, _SAYS)):
        _check_below(folder)
    if kind == "marian":
        if not any(has_file(folder / name) for name in (*_FILES, _SAYS)):
            return {}
        made = marian(folder, descriptor, languages)
    else:
        read = _reader(kind, folder)
        if read is None and _class(folder) and has_file(folder / _SAYS):
            raise PhasorError(
                f"{_SAYS}: tokenizer_class: {printable(_class(folder))}Tokenizer, and none of its"
                f" files is there; expected tokenizer.json, or one of {', '.join(_FILES[1:])}"
            )
        if read is None:
            return {}
        if kind == "source-package":  # the decoder has another
            _check_encoders(folder)
            made = package(folder, descriptor, languages, ("source",))
        elif kind == "target-package":  # the source is no text
            made = package(folder, descriptor, languages, ("target",))
        else:
            made = read(folder, descriptor, languages)
    _check_rows(made, descriptor)
    return made


def given(
    kind: str, path: Path, descriptor: dict[str, Any], languages: Languages, sides: Sequence[str]
) -> dict[int, bytes] | None:
    """The sections of a directory of --tokenizer, or of a file of Hugging Face's package, for these
    sides; the descriptor gets what they say. None for a file of another kind."""
    if path.is_dir():
        own = kind == "marian" and has_file(path / "source.spm")
        read = marian if own else _reader(kind, path)
        if read is None:
            raise PhasorError("the directory has no tokenizer")
        if read is not package and len(sides) < len(SIDES):
            raise PhasorError(
                "only a tokenizer.json, or what it is made from, is that of one side alone"
            )
    elif _of_package(path):
        read = package
    else:
        return None
    if read is package:
        made = package(path, descriptor, languages, sides)
    else:
        made = read(path, descriptor, languages)
    _check_rows(made, descriptor)
    return made


_WORDPIECES = {"[UNK]", "[CLS]", "[SEP]"}  # lines of a BERT's vocab.txt


def _of_package(path: Path) -> bool:
    """Whether a file is what tokenizer_json.py reads, and no list of words. PhasorError for one
    whose ids only its directory says."""
    if path.name == "sentencepiece.bpe.model":
        raise PhasorError("the ids are not those of the file alone: give its directory")
    if path.name == "vocab.txt" and has_file(path):
        return has_file(path.parent / "bpe.codes") or _WORDPIECES <= {*read_text(path).split("\n")}
    return bool(tokenizer_json.kind_of_file(path))


def _check_below(folder: Path) -> None:
    """PhasorError for a directory whose tokenizers lie in folders of its own. What cannot be looked
    into is none of them."""
    below = [f.name for f in folder.iterdir() if any(isfile(f / name) for name in _FILES)]
    if below:
        raise PhasorError(
            f"no tokenizer is there, but in {', '.join(map(printable, sorted(below)))}: give those,"
            " --tokenizer SOURCE --tokenizer TARGET, or one for both sides"
        )


def _check_encoders(folder: Path) -> None:
    """PhasorError where the tokenizer beside an encoder and a decoder of different kinds is of the
    decoder's class."""
    config = read_json(folder / "config.json")
    own, other = (re.sub("[-_]", "", config[half]["model_type"]) for half in ("encoder", "decoder"))
    if own != other == _class(folder).lower():
        raise PhasorError(
            f"tokenizer_class: {printable(_class(folder))}Tokenizer is that of the decoder: give"
            " --tokenizer with the encoder's, then --tokenizer with this one"
        )


def _check_rows(made: dict[int, bytes], descriptor: dict[str, Any]) -> None:
    for side in SIDES:
        if descriptor[side]["tokenizer"] not in made:
            continue
        count, rows = id_count(made[descriptor[side]["tokenizer"]]), descriptor[side]["vocabulary"]
        if count > rows:
            raise PhasorError(f"has {count} pieces, the {side} embedding has {rows} rows")
