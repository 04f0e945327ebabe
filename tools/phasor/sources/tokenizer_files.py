"""Tokenizers that are given, by --tokenizer or in a description: which file a section is of, and
which side has it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Sequence

from phasor import mistaken
from phasor.checkpoints.pickles import no_storage, unpickle
from phasor.errors import PhasorError, named
from phasor.families.model import Model
from phasor.files import has_file, parse_json, read_bytes
from phasor.format import descriptor as D
from phasor.format.file import SOURCE_TOKENIZER, TARGET_TOKENIZER
from phasor.sources.fairseq import dictionary
from phasor.sources.hugging_face import around
from phasor.sources.hugging_face.tokenizer_json import build_hf_section, kind_of_file
from phasor.sources.llama2c.tokenizer import build_llama2c_section
from phasor.tokenizers import characters, tiktoken
from phasor.tokenizers.models import word_list
from phasor.tokenizers.section import contradiction, id_count
from phasor.tokenizers.tokenizer import build_sentencepiece_section

NONE = Path("none")
TEKKEN = "tekken.json"
OWN = {"source": SOURCE_TOKENIZER, "target": TARGET_TOKENIZER}
_PICKLE_BYTES = 8 << 20


def tokenizer_section(path: Path, side: dict[str, Any]) -> bytes:
    """The section of a SentencePiece .model or .spm, of llama2.c's .bin, of a .tiktoken, of a
    tekken.json, of fairseq's dict.txt, of nanoGPT's meta.pkl, or of a list of words or characters:
    .txt (one a line) or .json (a list, or word -> id); `bytes` and `bytes+6` are no file."""
    first = characters.byte_table(path)
    if first is not None:
        return characters.build_bytes_section(first)
    data = read_bytes(path, _PICKLE_BYTES) if path.suffix == ".pkl" else read_bytes(path)
    try:
        if path.suffix in (".model", ".spm"):
            return build_sentencepiece_section(data)
        if path.suffix == ".bin":
            return build_llama2c_section(data)
        if path.suffix == ".tiktoken":
            return tiktoken.from_tiktoken(data, path)
        if path.name.endswith(TEKKEN):
            return tiktoken.from_tekken(data)
        if path.suffix == ".txt" and path.name.startswith("dict"):
            return dictionary.dictionary_section(path)
        if path.suffix == ".txt" and dictionary.is_dictionary(path):
            raise PhasorError("a token and a count in each line: name fairseq's file dict.txt")
        if path.suffix == ".pkl":
            table = characters.of_meta(unpickle(io.BytesIO(data), no_storage, "the table"))
            return characters.build_characters_section(table, side["unknown"])
        if path.suffix in (".txt", ".json"):
            ids = [side[name] for name in ("pad", "start", "decoder_start", "mask")]
            control = [id_ for id_ in ids if id_ is not None] + side["end"]
            words = _words(data, path.suffix)
            if _is_wordpiece(words):
                raise PhasorError(
                    "is a WordPiece vocabulary (pieces after ##), which as a list of words would"
                    " give other ids: write it as vocab.txt, a piece a line"
                )
            if characters.is_table(path, words):
                if path.suffix == ".txt":
                    words = characters.lines_of(data.decode())
                return characters.build_characters_section(words, side["unknown"])
            return word_list.build_wordlist_section(words, side["unknown"], control)
        raise PhasorError(
            "expected a tokenizer.json, WordPiece's vocab.txt, vocab.json beside merges.txt, a"
            " SentencePiece .model, llama2.c's .bin, a .tiktoken, a tekken.json, nanoGPT's"
            " meta.pkl, or a list of words or characters in .txt or .json"
        )
    except PhasorError as error:
        instead = mistaken.of_bytes(data[: mistaken.START_BYTES])
        raise named(path, PhasorError(instead) if instead else error) from error


def _words(data: bytes, suffix: str) -> list[str]:
    if suffix == ".txt":
        try:
            return data.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise PhasorError(f"is not UTF-8: byte {error.start}") from error
    content = parse_json(data)
    if isinstance(content, dict):
        ids = content.values()
        if not all(type(id_) is int for id_ in ids) or sorted(ids) != list(range(len(ids))):
            raise PhasorError("the ids of the words are not 0, 1, 2, …")
        content = sorted(content, key=content.__getitem__)
    if not isinstance(content, list) or not all(isinstance(word, str) for word in content):
        raise PhasorError("expected a list of words, or a table from word to id")
    return content


def _is_hugging_face(path: Path) -> str:
    """What a file is of Hugging Face's packages; empty: none."""
    try:
        if path.suffix != ".txt" or path.name == "merges.txt" or not path.is_file():
            return kind_of_file(path)
        return "WordPiece" if _is_wordpiece(_words(read_bytes(path), path.suffix)) else ""
    except PhasorError:
        return ""  # whoever reads it says what is wrong


def _is_wordpiece(words: Sequence[str]) -> bool:
    return "[UNK]" in words and any(word.startswith("##") for word in words)


def _from_hugging_face(path: Path, model: Model, side: str, what: str) -> bytes:
    """The section, and into the descriptor what goes around a text, where it says nothing."""
    try:
        section, info = build_hf_section(path)
        around_texts = _put_around(model, side, info)
    except PhasorError as error:
        raise named(path, error) from error
    note = f"{path}: {what}"
    if what == "WordPiece" and not has_file(path.parent / "tokenizer_config.json"):
        note += ", text in lower case without accents, as BERT's own (do_lower_case in a"
        note += " tokenizer_config.json beside it says otherwise)"
    model.notes.append(note + around_texts)
    return section


def _put_around(model: Model, side: str, info: dict[str, Any]) -> str:
    """What goes around a text of the source, where the description says nothing; for a line."""
    of = model.descriptor[side]
    if side != "source" or not (info["prefix"] or info["suffix"]) or of["prefix"] + of["suffix"]:
        return ""
    if model.descriptor["model"]["stack"] == D.ENCODER:
        around.check_cut(info)
    segments = model.descriptor["encoder"]["segments"]
    model.notes += around.check_segments(info, segments)
    of.update({name: info[name] for name in ("prefix", "suffix", "pair_segment")})
    of["pair"] = around.pair_of(info)
    if of["pair_segment"] >= segments:
        of["pair_segment"] = 0
    return f"; ids before a text {info['prefix']}, behind it {info['suffix']}, as it says"


def check_count(sides: int, given: Sequence[Path]) -> None:
    """PhasorError for more tokenizers than sides."""
    if len(given) > sides:
        raise PhasorError(
            f"--tokenizer: {len(given)} files, the model has {sides} side" + "s" * (sides > 1)
        )


def tokenizer_sections(model: Model, paths: dict[str, Path]) -> dict[int, bytes]:
    """A section for each side that has a file, the same one for the same file; the descriptor says
    which is whose. `none` is none."""
    sections: dict[int, bytes] = {}
    for side, path in paths.items():
        if path == NONE:
            continue
        kind = OWN["source" if path == paths.get("source") else side]
        if kind not in sections:
            what = _is_hugging_face(path)
            sections[kind] = (
                _from_hugging_face(path, model, side, what)
                if what
                else tokenizer_section(path, model.descriptor[side])
            )
        which = f"--tokenizer {path}" if characters.byte_table(path) is not None else f"{path}"
        place(model, side, kind, sections[kind], which)
    return sections


def place(model: Model, side: str, kind: int, section: bytes, which: str) -> None:
    """Makes a section that of a side. PhasorError where it says ids otherwise than the descriptor
    does. which: the file, in a message."""
    if other := contradiction(section, model.descriptor[side]):
        raise PhasorError(f"{which}: not the {side} vocabulary: {other}")
    pieces, rows = id_count(section), model.descriptor[side]["vocabulary"]
    if pieces > rows:
        raise PhasorError(f"{which}: has {pieces} pieces, the {side} embedding has {rows} rows")
    model.descriptor[side]["tokenizer"] = kind


def check_there(given: Sequence[Path]) -> None:
    """PhasorError for a file that is not there."""
    for path in given:
        if path != NONE and characters.byte_table(path) is None and not path.exists():
            raise PhasorError(f"--tokenizer: {path}: there is no such file")
