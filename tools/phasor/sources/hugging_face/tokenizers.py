"""The tokenizer of a Hugging Face directory, or those that are given in its place: the sections.
What they say of ids and of pairs goes into the descriptor."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, Sequence

from phasor import mistaken
from phasor.errors import PhasorError, printable, shown
from phasor.families.model import Model
from phasor.files import has_file, is_file, read_json, read_start
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.sources.hugging_face import (
    around,
    configured,
    older_files,
    side_tokenizers,
    tokenizer_json,
)
from phasor.sources.hugging_face.directory import Directory
from phasor.sources.hugging_face.side_tokenizers import Languages
from phasor.sources.hugging_face.template import find_template
from phasor.sources.sentence_transformers import static
from phasor.sources.tokenizer_files import (
    NONE,
    OWN,
    TEKKEN,
    check_count,
    check_there,
    tokenizer_sections,
)
from phasor.tokenizers import characters
from phasor.tokenizers.section import contradiction
from phasor.values import words

_MOST_TOKENS = 5  # in a message
_SAVE = "save it as tokenizer.json (AutoTokenizer.from_pretrained(…).save_pretrained(…))"
_MOST_LENGTH = 1 << 24  # of a text; what says more says nothing
# Files that a tokenizer is in, the first that is there; transformers' older ones have no
# tokenizer.json.
_TOKENIZER_FILES = words("""
    tokenizer.json vocab.txt vocab.json spiece.model sentencepiece.bpe.model tokenizer.model
    spm.model
""")


def _classes(*names: str) -> set[str]:
    return {f"{name}Tokenizer{fast}" for name in names for fast in ("", "Fast")}


# Classes of encoders that read a vocab.txt as BERT does, without steps of their own, and those that
# alone read a file in their way.
_WORDPIECE_CLASSES = _classes("Bert", "DistilBert", "Electra", "MPNet")
_ENCODER_CLASSES = {
    "vocab.json": _classes("Roberta"),
    "sentencepiece.bpe.model": _classes("XLMRoberta"),
}
# Classes that read vocab.json with merges.txt as GPT-2 does, and those of a SentencePiece
# tokenizer.model with <s> before a text. A directory that names no class has its architecture's.
_TEXT_CLASSES = {
    "vocab.json": _classes("GPT2", "CodeGen"),
    "tokenizer.model": _classes("Llama", "Gemma"),
}
_OWN_CLASSES = {
    "vocab.json": {"gpt2", "gpt_bigcode", "gpt_neo", "gptj", "codegen"},
    "tokenizer.model": {"llama", "mistral", "gemma", "gemma2", "gemma3_text", "phi3"},
}
# Kinds of translators' tokenizers that number a SentencePiece model's pieces by a list or a rule.
_NUMBERED = ("marian", "mbart", "pegasus", "plbart")


def sections(
    source: Directory, given: Sequence[Path], languages: Languages = Languages()
) -> dict[int, bytes]:
    """The tokenizer of a directory, or the one given; `none` is none. What it says of ids and of
    pairs goes into the descriptor."""
    if source.family.stack == D.ENCODER_DECODER:
        return _translator_tokenizers(source, given, languages)
    for flag, name in zip(("--source-lang", "--target-lang"), languages):
        if name:
            raise PhasorError(f"{flag}: goes with an encoder-decoder's directory")
    check_count(1, given)
    path = given[0] if given else _file(source)
    plain = bool(given) and characters.byte_table(given[0]) is not None
    check_there(given)
    if source.late is not None and (path is None or given):
        raise PhasorError(
            f"{source.late.where}: late interaction takes the ids of its directory's tokenizer, "
            + ("--tokenizer does not go with it" if given else "and there is none")
        )
    if path is None:
        source.model.notes.append(
            "no tokenizer is in the directory: the file takes ids, and no text (--tokenizer FILE"
            " adds one)"
        )
    if path is None or given == [NONE]:
        return {}
    plain |= is_file(path) and path.suffix != ".json" and path.name != "tokenizer.model"
    plain |= path.name.endswith(TEKKEN) or path.name.startswith("chars")
    plain &= path.name != "sentencepiece.bpe.model"  # its class numbers the pieces
    if given and plain and not source.family.wordpiece:
        return tokenizer_sections(source.model, {source.side: path})
    try:
        if path.suffix == ".model" and (instead := mistaken.of_pieces(read_start(path))):
            raise PhasorError(instead)
        _check(source, path)
        rows = source.model.descriptor[source.side]["vocabulary"]
        section, info = tokenizer_json.build_hf_section(path, rows=rows, lowercase=source.lowercase)
        _note_versions(source.model, path)
        if given and (other := contradiction(section, source.model.descriptor[source.side])):
            raise PhasorError(f"not the model's vocabulary: {other}")
        kind = OWN[source.side]
        _describe(source, info, kind)
    except PhasorError as error:
        if wrong := _wrong_rows(source):
            raise PhasorError(f"{source.folder / 'config.json'}: {wrong}") from error
        message = str(error)
        known = message.startswith((f"{path}:", f"{path.parent}{os.sep}", f"{path.parent}:"))
        raise PhasorError(
            (message if known else f"{path}: {message}") + " (--tokenizer none converts without)"
        ) from error
    _describe_late(source, info)
    return {kind: section}


def with_adapters_files(source: Directory, folder: Path, given: Sequence[Path]) -> Directory:
    """With the tokenizer and the chat template that a trainer saved beside an adapter. given: of
    --tokenizer, which counts more."""
    model, own = source.model, source._replace(folder=folder)
    there = _file(own) is not None and has_file(folder / "tokenizer_config.json")
    if there and not given:
        model.notes.append(f"the tokenizer is the adapter's, of {folder} (--tokenizer: another)")
        source = own
    if model.descriptor["model"]["stack"] == D.DECODER and find_template(folder)[0] is not None:
        model.notes.append(f"the chat template is the adapter's, of {folder} (--chat: another)")
        model.chat_source = folder
    return source


def _note_versions(model: Model, path: Path) -> None:
    """Notes where transformers 5 has other ids for a tokenizer.json."""
    if line := configured.other_ids(path):
        model.notes.append(line)


def _translator_tokenizers(
    source: Directory, given: Sequence[Path], languages: Languages
) -> dict[int, bytes]:
    """The tokenizers of an encoder-decoder's directory, or those given."""
    kind, model = source.family.tokenizer, source.model
    if given:
        return _given_sides(source, given, languages)
    with _without(source.folder):
        made = side_tokenizers.sections(kind, source.folder, model.descriptor, languages)
    if made:
        _note_versions(model, source.folder)
    if made and kind == "source-package":
        model.notes.append(
            "the tokenizer is the encoder's, and the output is ids: --tokenizer with the encoder's,"
            " then --tokenizer with the decoder's makes it a text"
        )
    return made


def _given_sides(
    source: Directory, given: Sequence[Path], languages: Languages
) -> dict[int, bytes]:
    """A tokenizer for each side of an encoder-decoder, or one for both."""
    kind, model = source.family.tokenizer, source.model
    sides = side_tokenizers.SIDES[kind == "target-package" :]  # of states: no text
    check_count(len(sides), given)
    check_there(given)
    if kind == "source-package" and len(given) == 1 and given != [NONE]:
        raise PhasorError(
            "--tokenizer: one is given, and encoder and decoder have vocabularies of their own:"
            " give one for the source, then one for the target (none: without)"
        )
    whose: dict[Path, list[str]] = {}
    for side, path in zip(sides, [*given, given[0]]):
        whose.setdefault(path, []).append(side)
    made: dict[int, bytes] = {}
    for path, of in whose.items():
        if path == NONE:
            found: dict[str, Any] | None = {}
        elif characters.byte_table(path) is not None:
            found = None
        else:
            with _without(path):
                names = languages if len(whose) == 1 else Languages()
                found = side_tokenizers.given(kind, path, model.descriptor, names, of)
        unheard = len(whose) > 1 or not found  # what knows no languages
        for flag, name in zip(("--source-lang", "--target-lang"), languages):
            if name and unheard:
                raise PhasorError(
                    f"{flag}: {path}: goes with one tokenizer.json or directory for both sides"
                )
        if found is None and path.suffix in (".model", ".spm") and kind in _NUMBERED:
            raise PhasorError(
                f"--tokenizer {path}: its pieces have other ids in a model of this type, which its"
                " own directory's files say: convert without --tokenizer"
            )
        if found is None:
            found = tokenizer_sections(model, dict.fromkeys(of, path))
        made |= found
    return made


@contextmanager
def _without(path: Path) -> Iterator[None]:
    """What is wrong with a tokenizer names its file, and the way to go on."""
    try:
        yield
    except PhasorError as error:
        if str(error).startswith("--"):
            raise
        known = str(error).startswith(str(path))
        message = f"{error}" if known else f"{path}: {error}"
        raise PhasorError(f"{message} (--tokenizer none converts without)") from error


def _file(source: Directory) -> Path | None:
    return next(
        (source.folder / name for name in _TOKENIZER_FILES if has_file(source.folder / name)),
        None,
    )


def _check(source: Directory, path: Path) -> None:
    """PhasorError when the files do not say all that transformers' class does."""
    if source.family.tokenizer_code:
        raise PhasorError(f"its tokenizer is not in the files: {source.family.tokenizer_code}")
    if path.name == "tokenizer.json" or path.is_dir():
        return
    known, own = _classes_of(source, path)
    if not known:
        raise PhasorError(f"not a tokenizer that is supported; {_SAVE}")
    for name in ("tokenizer_config.json", "config.json"):
        values = read_json(path.parent / name) if has_file(path.parent / name) else {}
        kind = values.get("tokenizer_class")
        if kind is not None and not (isinstance(kind, str) and kind in known):
            raise PhasorError(
                f"{name}: tokenizer_class: {shown(kind)} may split texts in its own way;"
                f" expected {', '.join(sorted(known))}; {_SAVE}"
            )
        own = own or kind is not None
    if not own:
        raise PhasorError(
            "tokenizer_config.json: tokenizer_class is not there, and says how"
            f" {path.name} is read; {_SAVE}"
        )


def _classes_of(source: Directory, path: Path) -> tuple[set[str], bool]:
    """(the classes that read this file in a way that is built, whether the architecture's own
    is one of them)."""
    if source.family.stack != D.DECODER:
        if path.name == "vocab.txt" and has_file(path.parent / "bpe.codes"):
            return set(older_files.FAIRSEQ_CLASSES), False
        own = path.suffix in (".txt", ".json") and source.family.wordpiece
        return _WORDPIECE_CLASSES if own else _ENCODER_CLASSES.get(path.name, set()), own
    own = bool(_OWN_CLASSES.get(path.name, set()) & set(source.family.types))
    return _TEXT_CLASSES.get(path.name, set()), own


def _wrong_rows(source: Directory) -> str:
    """Where config.json gives the embedding another number of rows than it has, that; else ""."""
    model, side = source.model, source.side
    key = R.key_of(R.SOURCE if side == "source" else R.TARGET, 0, R.EMBEDDING)
    name = next((part.name for part in model.parts.get(key, ())), None)
    rows = model.descriptor[side]["vocabulary"]
    if name is None or name not in model.checkpoint or model.checkpoint.shape(name)[0] == rows:
        return ""
    return (
        f"vocab_size: {rows}, and the embedding {printable(name)} has"
        f" {model.checkpoint.shape(name)[0]} rows: correct vocab_size, or take the weights that"
        " belong to this file"
    )


def _describe(source: Directory, info: dict[str, Any], section: int) -> None:
    """Puts what a tokenizer says of ids and pairs into the descriptor (`info`: of
    the section that was made)."""
    side = source.model.descriptor[source.side]
    rows = side["vocabulary"]
    if info["pieces"] > rows:
        behind = sorted((i, text) for text, i in info["ids"].items() if i >= rows)
        names = ", ".join(f"{printable(text)} ({i})" for i, text in behind[:_MOST_TOKENS])
        more = len(behind) - _MOST_TOKENS
        raise PhasorError(
            f"has {info['pieces']} pieces, the embedding has {rows} rows, and none for {names}"
            + (f" and {more} more" if more > 0 else "")
        )
    source.model.notes += [
        f"{printable(token)}: left out of the tokenizer: the embedding, with {rows} rows, has none"
        " for it"
        for token in info["left_out"]
    ]
    first, last = (
        info[a] if info[a] is not None else info[b] for a, b in (("cls", "bos"), ("sep", "eos"))
    )
    if source.model.descriptor["model"]["stack"] == D.ENCODER:
        around.check_cut(info)
        _describe_length(source, info)
    if source.family.stack == D.DECODER:
        _describe_text(source, side, info, section)
        return
    segments = source.model.descriptor["encoder"]["segments"]
    source.model.notes += around.check_segments(info, segments)
    ids = {**{name: info[name] for name in ("pad", "unknown", "mask")}, "start": first}
    side.update((name, value) for name, value in ids.items() if value is not None)
    side.update(
        tokenizer=section,
        end=[] if last is None else [last],
        pair=around.pair_of(info),
        **{name: info[name] for name in ("prefix", "suffix", "pair_segment")},
    )
    if source.family is static.FAMILY:  # a text's own tokens alone
        side.update(prefix=[], suffix=[], pair=[], pair_segment=0)
    if side["pair_segment"] >= segments:
        side["pair_segment"] = 0  # the model has no token types to tell two texts apart


def _describe_length(source: Directory, info: dict[str, Any]) -> None:
    """Of a model with classes, what the pipeline cuts a text to, where the model takes more."""
    d, longest = source.model.descriptor, info["max_length"]
    most = D.longest(d, "encoder") or _MOST_LENGTH
    classes = d["output"]["output"] == D.CLASSES and source.late is None
    if classes and not d["source"]["longest_text"] and longest and 0 < longest < most:
        d["source"]["longest_text"] = longest


def _describe_late(source: Directory, info: dict[str, Any]) -> None:
    """The ids of late interaction, where there is any."""
    if source.late is not None:
        d = source.model.descriptor
        d["output"].update(source.late.fields(info["ids"], info["unknown"], d))


def _describe_text(
    source: Directory, side: dict[str, Any], info: dict[str, Any], section: int
) -> None:
    """Of a decoder: the configurations' ids count more than the tokenizer's."""
    classes = source.model.descriptor["output"]["output"] == D.CLASSES
    for name, own in (("pad", "pad"), ("unknown", "unknown"), ("start", "bos")):
        if not (classes and name == "pad"):  # of a classifier it has another meaning
            side[name] = info[own] if side[name] is None else side[name]
    if not side["end"] and info["eos"] is not None:
        side["end"] = [info["eos"]]
    side.update(tokenizer=section, prefix=info["prefix"], suffix=info["suffix"])
    if not classes:
        return
    side["pair"] = around.pair_of(info)
    # What is behind the last token that is no padding changes no class.
    while side["suffix"] and side["suffix"][-1] == side["pad"]:
        side["suffix"] = side["suffix"][:-1]
