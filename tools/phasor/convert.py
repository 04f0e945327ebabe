"""Turns a checkpoint into a `.phasor` file. Needs numpy only.

    convert.py SOURCE -o model.phasor
               [--type f32|f16|bf16|q8|q4|q8r|q8rh|q4m|q4k|q8r-auto] [--output-type TYPE]
               [--describe FILE.toml] [--tokenizer FILE|none|bytes]… [--expect FILE.npz]

SOURCE is one of

    a Hugging Face directory     config.json, weights, tokenizer: it says everything itself
    a PyTorch state_dict         .pt, .pth, .bin (no code in it is run), or safetensors; what its
                                 weights cannot say stands in a small TOML beside it (SOURCE with
                                 .toml, or --describe; docs/convert.md has the keys)
    a file of llama2.c           which lacks only its tokenizer
    a GGUF file

The file gets test vectors from the float64 reference, and the hashes of phasor's own logits where a
phasor program is found. It is written whole or not at all. Exit: 0 done, 1 the model or the data is
bad, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator, Sequence

import numpy as np

from phasor import expect as expected_outputs
from phasor import mistaken, tensor_report
from phasor import vectors as V
from phasor.auto_type import AUTO, pick
from phasor.chat import template as chat_template
from phasor.checkpoints.checkpoint import is_weights, open_checkpoint
from phasor.checkpoints.pickles import no_storage, unpickle
from phasor.entry import front_door, say
from phasor.errors import Problems, named
from phasor.families import encoder_decoder
from phasor.families.model import Model
from phasor.files import check_output, open_regular, parse_json, read_bytes, replacing
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import (
    CHAT,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    VECTORS,
    Rounding,
    replace_section,
    write_model,
)
from phasor.format.layout import PhasorError
from phasor.moments import Moments, read_moments
from phasor.program import find_phasor
from phasor.smoothing import Smoothed
from phasor.sources.ctranslate2 import translator as ctranslate2
from phasor.sources.fairseq import dictionary as fairseq
from phasor.sources.gguf import architectures as gguf
from phasor.sources.gguf.container import is_gguf
from phasor.sources.hugging_face import directory as hugging_face
from phasor.sources.hugging_face import side_tokenizers, tokenizer_json
from phasor.sources.hugging_face.side_tokenizers import Languages
from phasor.sources.llama2c import model as llama2c
from phasor.sources.llama2c.tokenizer import build_llama2c_section
from phasor.sources.marian import translator as marian
from phasor.sources.marian import vocabulary as marian_vocabulary
from phasor.sources.sentence_transformers.embedder import Judge
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import Description, read_description
from phasor.tokenizers import characters, tiktoken, tokenizer
from phasor.tokenizers.models import word_list
from phasor.tokenizers.section import contradiction, id_count

# Kinds of translators' tokenizers that number a SentencePiece model's pieces by a list or a rule.
_NUMBERED = ("marian", "mbart", "pegasus", "plbart")
_NONE, _PRINTED, _TEKKEN = Path("none"), Path("-"), "tekken.json"
_PICKLE_BYTES = 8 << 20
_DIRECTORY_FLAGS = (
    "--rope-context",
    "--lora",
    "--source-lang",
    "--target-lang",
    "--rank-template",
)
_TYPES = tuple(L.TYPES[kind] for kind in L.MATRICES)


# Weights of a model by those of its source; padding and tables of a small one.
_MOST_COPIES, _SMALL = 4, 1 << 20


def note(text: str) -> None:
    say("convert", text)


# ---- Tokenizers


def tokenizer_section(path: Path, side: dict) -> bytes:
    """The section of a SentencePiece .model or .spm, of llama2.c's .bin, of a .tiktoken, of a
    tekken.json, of fairseq's dict.txt, of nanoGPT's meta.pkl, or of a list of words or characters:
    .txt (one a line) or .json (a list, or word -> id); `bytes` and `bytes+6` are no file."""
    first = characters.byte_table(path)
    if first is not None:
        return characters.build_bytes_section(first)
    data = read_bytes(path, _PICKLE_BYTES) if path.suffix == ".pkl" else read_bytes(path)
    try:
        if path.suffix in (".model", ".spm"):
            return tokenizer.build_sentencepiece_section(data)
        if path.suffix == ".bin":
            return build_llama2c_section(data)
        if path.suffix == ".tiktoken":
            return tiktoken.from_tiktoken(data, path)
        if path.name.endswith(_TEKKEN):
            return tiktoken.from_tekken(data)
        if path.suffix == ".txt" and path.name.startswith("dict"):
            return fairseq.dictionary_section(path)
        if path.suffix == ".txt" and fairseq.is_dictionary(path):
            raise PhasorError("a token and a count in each line: name fairseq's file dict.txt")
        if path.suffix == ".pkl":
            table = characters.of_meta(unpickle(io.BytesIO(data), no_storage, "the table"))
            return characters.build_characters_section(table, side["unknown"])
        if path.suffix in (".txt", ".json"):
            ids = [side[name] for name in ("pad", "start", "decoder_start", "mask")]
            control = [id_ for id_ in ids if id_ is not None] + side["end"]
            words = _words(data, path.suffix)
            if characters.is_table(path, words):
                if path.suffix == ".txt":
                    words = characters.lines_of(data.decode())
                return characters.build_characters_section(words, side["unknown"])
            return word_list.build_wordlist_section(words, side["unknown"], control)
        raise PhasorError(
            "expected a SentencePiece .model, llama2.c's .bin, a .tiktoken, a tekken.json,"
            " nanoGPT's meta.pkl, or a list of words or characters in .txt or .json"
        )
    except PhasorError as error:
        if instead := mistaken.of_bytes(data[: mistaken.START_BYTES]):
            error = PhasorError(instead)
        raise named(path, error) from error


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


def _at_most(sides: int, given: Sequence[Path]) -> None:
    """PhasorError for more tokenizers than sides."""
    if len(given) > sides:
        raise PhasorError(
            f"--tokenizer: {len(given)} files, the model has {sides} side" + "s" * (sides > 1)
        )


def add_tokenizers(
    model: Model, description: Description, given: Sequence[Path], output: Path | None = None
) -> dict[int, bytes]:
    """The tokenizer sections; the sides of the descriptor say which is theirs. One file for two
    sides is stored once."""
    sides = list(description.sides)
    _at_most(len(sides), given)
    paths = {
        side: description.path.parent / values["tokenizer"]
        for side, values in description.sides.items()
        if values["tokenizer"]
    }
    if given:
        paths = dict(zip(sides, given if len(given) == len(sides) else given * len(sides)))
    if output is not None:
        check_output(output, *paths.values())
    return tokenizer_sections(model, paths)


def tokenizer_sections(
    model: Model, paths: dict[str, Path], lists: dict[str, Path] | None = None
) -> dict[int, bytes]:
    """A section for each side that has a file, the same one for the same file; the descriptor says
    which is whose. `none` is none. lists: Marian's vocabularies of .spm files, by their sides.
    PhasorError where a section says ids otherwise than the descriptor does."""
    paths = {side: path for side, path in paths.items() if path != _NONE}
    own, lists = {"source": SOURCE_TOKENIZER, "target": TARGET_TOKENIZER}, lists or {}
    sections: dict[int, bytes] = {}
    for side, path in paths.items():
        alike = side == "target" and path == paths.get("source")
        shared = SOURCE_TOKENIZER if alike and lists.get("source") == lists.get(side) else None
        kind = shared or own[side]
        if shared is None and side in lists:
            sections[kind] = marian_vocabulary.section(path, lists[side])
        elif shared is None:
            sections[kind] = tokenizer_section(path, model.descriptor[side])
        which = f"--tokenizer {path}" if characters.byte_table(path) is not None else path
        if other := contradiction(sections[kind], model.descriptor[side]):
            raise PhasorError(f"{which}: not the {side} vocabulary: {other}")
        pieces = id_count(sections[kind])
        if pieces > model.descriptor[side]["vocabulary"]:
            raise PhasorError(
                f"{which}: has {pieces} pieces, the {side} embedding has "
                f"{model.descriptor[side]['vocabulary']} rows"
            )
        model.descriptor[side]["tokenizer"] = kind
    return sections


def hugging_face_tokenizer(
    source: hugging_face.Source, given: Sequence[Path], languages: Languages = Languages()
) -> dict[int, bytes]:
    """The tokenizer of a directory, or the one given; `none` is none. What it says of ids and of
    pairs goes into the descriptor."""
    if isinstance(source.family, encoder_decoder.Family):
        return _translator_tokenizers(source, given, languages)
    for flag, name in zip(("--source-lang", "--target-lang"), languages):
        if name:
            raise PhasorError(f"{flag}: goes with an encoder-decoder's directory")
    _at_most(1, given)
    path = given[0] if given else source.tokenizer_file()
    plain = bool(given) and characters.byte_table(given[0]) is not None
    _must_be_there(given)
    if source.late is not None and (path is None or given):
        raise PhasorError(
            f"{source.late.where}: late interaction takes the ids of its directory's tokenizer, "
            + ("--tokenizer does not go with it" if given else "and there is none")
        )
    if path is None or given == [_NONE]:
        return {}
    plain |= path.is_file() and path.suffix != ".json" and path.name != "tokenizer.model"
    plain |= path.name.endswith(_TEKKEN) or path.name.startswith("chars")
    plain &= path.name != "sentencepiece.bpe.model"  # its class numbers the pieces
    if given and plain and not source.family.wordpiece:
        return tokenizer_sections(source.model, {source.side: path})
    try:
        if path.suffix == ".model" and (instead := mistaken.of_bytes(_start(path))):
            raise PhasorError(instead)
        source.check_tokenizer(path)
        if path.suffix == ".model" and source.side == "target":
            source.describe_sentencepiece(path)
            return tokenizer_sections(source.model, {"target": path})
        section, info = tokenizer_json.build_hf_section(path)
        _note_versions(source.model, path)
        if given and (other := contradiction(section, source.model.descriptor[source.side])):
            raise PhasorError(f"not the model's vocabulary: {other}")
        kind = SOURCE_TOKENIZER if source.side == "source" else TARGET_TOKENIZER
        source.describe_tokenizer(info, kind)
    except PhasorError as error:
        message = str(error)
        known = message.startswith((f"{path}:", f"{path.parent}{os.sep}", f"{path.parent}:"))
        raise PhasorError(
            (message if known else f"{path}: {message}") + " (--tokenizer none converts without)"
        ) from error
    source.describe_late(info)
    return {kind: section}


def _note_versions(model: Model, path: Path) -> None:
    """Notes where transformers 5 has other ids for a tokenizer.json."""
    if line := tokenizer_json.other_ids(path):
        model.notes.append(line)


def _translator_tokenizers(
    source: hugging_face.Source, given: Sequence[Path], languages: Languages
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
    source: hugging_face.Source, given: Sequence[Path], languages: Languages
) -> dict[int, bytes]:
    """A tokenizer for each side of an encoder-decoder, or one for both."""
    kind, model = source.family.tokenizer, source.model
    sides = side_tokenizers.SIDES[kind == "target-package" :]  # of states: no text
    _at_most(len(sides), given)
    _must_be_there(given)
    if kind == "source-package" and len(given) == 1 and given != [_NONE]:
        raise PhasorError(
            "--tokenizer: one is given, and encoder and decoder have vocabularies of their own:"
            " give one for the source, then one for the target (none: without)"
        )
    whose: dict[Path, list[str]] = {}
    for side, path in zip(sides, [*given, given[0]]):
        whose.setdefault(path, []).append(side)
    made: dict[int, bytes] = {}
    for path, of in whose.items():
        if path == _NONE:
            found = {}
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


def _must_be_there(given: Sequence[Path]) -> None:
    for path in given:
        if path != _NONE and characters.byte_table(path) is None and not path.exists():
            raise PhasorError(f"--tokenizer: {path}: there is no such file")


def ctranslate2_tokenizers(source: ctranslate2.Source, given: Sequence[Path]) -> dict[int, bytes]:
    """The words of CTranslate2's vocabularies, or with them SentencePiece models, one or two."""
    _at_most(2, given)
    if given == [_NONE]:
        return {}
    paths = [*given, *given[:1]][:2] if given else [None, None]
    own = {"source": SOURCE_TOKENIZER, "target": TARGET_TOKENIZER}
    out: dict[int, bytes] = {}
    for (side, kind), path in zip(own.items(), paths):
        section = source.section(side, path)
        kind = SOURCE_TOKENIZER if section == out.get(SOURCE_TOKENIZER) else kind
        out[kind] = section
        source.model.descriptor[side]["tokenizer"] = kind
    return out


def marian_tokenizers(model: Model, given: Sequence[Path], output: Path | None) -> dict[int, bytes]:
    """The tokenizers given to a .npz of Marian, one or two. Pieces of a .spm have the ids of the
    vocabulary beside it, a .yml; without one its own. They are as many as the model's rows."""
    _at_most(2, given)
    paths = dict(zip(("source", "target"), [*given, *given[:1]][:2]))
    lists = {}
    for side, path in paths.items():
        if path.suffix == ".spm" and (found := marian_vocabulary.vocabulary_beside(path, side)):
            lists[side] = found
    if output is not None:
        check_output(output, *lists.values())
    sections = tokenizer_sections(model, paths, lists)
    for side, path in paths.items():
        if path == _NONE:
            continue
        pieces = id_count(sections[model.descriptor[side]["tokenizer"]])
        if pieces != (rows := marian.rows(model.descriptor, side)):
            raise PhasorError(
                f"{lists.get(side, path)}: has {pieces} pieces, the {side} embedding of {rows} rows"
                " is of another vocabulary"
            )
        if side in lists:
            model.notes.append(f"{path}: its pieces have the ids of {lists[side].name}")
    return sections


def gguf_tokenizer(model: gguf.GGUFModel, given: Sequence[Path]) -> dict[int, bytes]:
    """The tokenizer that is in the file, or the one given; `none` is none."""
    _at_most(1, given)
    if given and given != [_NONE]:
        return tokenizer_sections(model, {"target": given[0]})
    section = None if given else model.vocabulary.section()
    if section is None:
        return {}
    model.descriptor["target"]["tokenizer"] = TARGET_TOKENIZER
    return {TARGET_TOKENIZER: section}


def chat_sections(
    model: Model, source: Path, chat: Path | None, date: str | None
) -> dict[int, bytes]:
    """The chat program of a decoder: of the template given, or of the source's own; `none` is none.
    A template of the source's own that is not in the subset is left out with a line."""
    if chat == _NONE or model.descriptor["model"]["stack"] != D.DECODER:
        return {}
    try:
        section = chat_template.section_of(
            source, getattr(model.checkpoint, "metadata", None), chat, date, model.notes
        )
    except chat_template.Refused as error:
        if chat is not None:
            raise PhasorError(f"{chat}: {error} (--chat none converts without)") from error
        note(f"{source}: {error}: the model is converted without a chat program")
        return {}
    return {CHAT: section} if section else {}


# ---- Conversion


def progress_bar(count: int, quiet: bool) -> tuple[Callable[[R.Slot], None], Callable[[], None]]:
    """(call for each tensor, call at the end): tqdm where there is one, else a line that counts; on
    standard error."""
    if quiet or not sys.stderr.isatty():
        return (lambda slot: None), (lambda: None)
    try:
        from tqdm import tqdm

        bar = tqdm(total=count, unit="tensor", desc="convert", leave=False)
        return (
            lambda slot: bar.set_postfix_str(slot.name, refresh=False) or bar.update(1)
        ), bar.close
    except ImportError:
        done = [0]

        def step(slot: R.Slot) -> None:
            done[0] += 1
            print(f"\rconvert: {done[0]} of {count} tensors", end="", file=sys.stderr, flush=True)

        return step, lambda: print(file=sys.stderr)


def convert(
    model: Model,
    output: Path,
    kind: int | None,
    sections: dict[int, bytes],
    phasor: Path | None,
    quiet: bool = False,
    smooth: bool | None = None,
    output_kind: int | None = None,
    moments: np.ndarray | None = None,
    auto: bool = False,
    calibration: Path | None = None,
    expect: Path | None = None,
) -> list[Rounding]:
    """Writes `output` with test vectors; the rounding of each type. PhasorError leaves what was
    there before.

    kind: the type of the matrices; None: f32, or what a GGUF file's can be kept in. output_kind:
    that of the embeddings and the output's matrix; None: as the others. moments: of Moments. auto:
    the type and the smoothing are chosen (auto_type.py), by a text where one is given. expect: the
    user's own model's outputs (expect.py).
    """
    problems = model.problems()
    if problems:
        raise Problems([f"{model.checkpoint.path}: {line}" for line in problems])
    check_growth(model)
    descriptor, weights = model.descriptor, model.weights
    model.asked, model.asked_output = kind, output_kind
    smoothed = None
    if auto:
        picked = pick(model, sections, phasor, calibration)
        model.asked, smoothed = picked.kind, picked.smoothed
        model.notes += picked.lines
    elif smooth or (
        smooth is None and kind in L.QUANTIZED and descriptor["model"]["stack"] == D.ENCODER
    ):
        smoothed = Smoothed(descriptor, lambda slot: V.as_array(slot, model.weights(slot)))
    model.note_types()
    if kind == L.Q8R:
        model.notes.append(
            "q8r has one scale for a row of inputs, which a model with channels that are large on "
            "most tokens does not bear: --type q8rh rotates them, q8r-auto measures and chooses"
        )
    if smoothed is not None:
        descriptor, weights = smoothed.descriptor, smoothed.weights
        model.notes.append(
            "the inputs of q, k, v and of the feed-forward are scaled by channel, by powers of two "
            "(--no-smooth leaves them)"
        )
    stored = D.with_defaults(D.decode_meta(D.encode_meta(descriptor)))
    inputs, section = test_vectors(V.ExactWeights(stored, weights), expect)
    step, close = progress_bar(len(R.slots(model.descriptor)), quiet)
    with replacing(output) as file:
        try:
            rounding = write_model(
                file,
                descriptor,
                weights,
                model.type_of,
                {**sections, VECTORS: section},
                step,
                None if moments is None else Moments(stored, moments),
            )
        finally:
            close()
        file.flush()
        replace_section(file, VECTORS, V.finished(file, section, inputs, phasor))
    return rounding


def test_vectors(file: V.Weights, expect: Path | None) -> tuple[list[V.Input], bytes]:
    """(inputs, section): of the reference, or of the user's own model, with which it must agree."""
    if expect is None:
        inputs = V.choose_inputs(file.descriptor)
        return inputs, V.build(file, inputs)
    expected = expected_outputs.read(expect, file.descriptor)
    inputs = [one.given for one in expected]
    section = V.build(file, inputs, 0.0, [one.output for one in expected], expected_outputs.AUTHOR)
    try:
        expected_outputs.check(file, expected, V.read(section, file.descriptor).tolerance)
    except PhasorError as error:
        raise named(expect, error) from error
    return inputs, section


def check_growth(model: Model) -> None:
    """PhasorError where one tensor stands for so many parts that a small source would make a large
    model."""
    given = sum(math.prod(tensor.shape) for tensor in model.checkpoint.tensors.values())
    made = sum(
        slot.rows * max(slot.cols, 1)
        for slot in R.slots(model.descriptor)
        if slot.key in model.parts
    )
    if made > _MOST_COPIES * given + _SMALL:
        raise PhasorError(
            f"{model.checkpoint.path}: the model would have {made:,} weights, the file has "
            f"{given:,}: a tensor stands for too many parts"
        )


def read_source(
    source: Path,
    describe: Path | None,
    tokenizers: Sequence[Path],
    context: int = 0,
    lora: Path | None = None,
    output: Path | None = None,
    languages: Languages = Languages(),
    rank: Judge | None = None,
) -> tuple[Model, dict[int, bytes]]:
    """The family's model and its tokenizer sections. context: of --rope-context; lora: an adapter's
    directory; output: which must be none of the files; rank: of --rank-template."""
    if not source.exists():
        link = "is a link to what is not there" if source.is_symlink() else "there is no such file"
        raise PhasorError(f"{source}: {link}")
    if not source.is_dir():
        with open_regular(source):
            pass
    if describe is None and ctranslate2.is_source(source):
        for flag, given in zip(_DIRECTORY_FLAGS, (context, lora, *languages, rank)):
            if given:
                raise PhasorError(f"{flag}: does not go with a directory of CTranslate2")
        translator = ctranslate2.read(source)
        return translator.model, ctranslate2_tokenizers(translator, tokenizers)
    if describe is None and hugging_face.is_source(source):
        read = hugging_face.read(source, context, lora, rank)
        return read.model, hugging_face_tokenizer(read, tokenizers, languages)
    for flag, given in zip(_DIRECTORY_FLAGS, (context, lora, *languages, rank)):
        if given:
            raise PhasorError(f"{flag}: goes with a Hugging Face directory")
    if describe is None and source.is_file() and is_gguf(source):
        model = gguf.read(source)
        return model, gguf_tokenizer(model, tokenizers)
    if describe is None and source.is_file() and marian.is_source(source):
        model = marian.read(source)
        return model, marian_tokenizers(model, tokenizers, output)
    described = describe or source.with_suffix(".toml")
    if describe is None and source.is_file() and (model := _llama2c(source, described)) is not None:
        _at_most(1, tokenizers)
        return model, tokenizer_sections(model, {"target": tokenizers[0]} if tokenizers else {})
    if describe is None and not described.is_file():
        raise _not_described(source, described)
    description = read_description(described)
    model = state_dict.read(open_checkpoint(source, description.key), description)
    return model, add_tokenizers(model, description, tokenizers, output)


def _start(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read(mistaken.START_BYTES)


def _not_described(source: Path, described: Path) -> PhasorError:
    """What to do with a source of which nothing says what model it is."""
    if source.is_dir():
        instead = mistaken.of_directory(source)
        return PhasorError(
            f"{source}: {instead}"
            if instead
            else f"{source}: a directory without config.json, and without a description beside it,"
            f" {described}: give the model's directory, or --describe"
        )
    start = _start(source)
    if instead := mistaken.of_file(start, source.name):
        return PhasorError(f"{source}: {instead}")
    if start.startswith(b"PK") or not is_weights(start):
        open_checkpoint(source)  # says so where nothing of ours wrote it
    if hugging_face.is_source(source.parent):
        return PhasorError(
            f"{source}: weights alone do not say what model they are: give their directory,"
            f" {source.parent}"
        )
    return PhasorError(
        f"{described}: there is no description; write one (docs/convert.md has the keys) or give"
        " --describe"
    )


def _llama2c(source: Path, description: Path) -> Model | None:
    """The model of a file of llama2.c; None for another, and for a checkpoint that has a
    description."""
    if llama2c.read_config(source) is not None:
        return llama2c.read(source)
    return None if description.is_file() else llama2c.read_checkpoint(source)


def report(output: Path, rounding: Sequence[Rounding]) -> None:
    """Size, and the largest rounding error of each type."""
    print(f"{output}: {output.stat().st_size:,} bytes")
    for r in rounding:
        text = (
            f"largest rounding error {r.largest:.3g} ({r.share:.3%} of its tensor's largest value)"
            if r.largest
            else "stored exactly"
        )
        print(
            f"  {L.TYPES[r.type]:4} {r.bytes:>12,} bytes   {text}"
            + (f", in {r.where}" if r.where else "")
        )


def check_report(args: argparse.Namespace) -> None:
    """PhasorError where --report cannot be written, or is another file of this conversion."""
    if args.report is None or args.report == _PRINTED:
        return
    if args.report.resolve() == args.output.resolve():
        raise PhasorError(f"--report {args.report}: is the output too: give it another name")
    check_output(args.report, *_inputs(args))


def write_report(model: Model, path: Path | None) -> None:
    """Every tensor of the source (tensor_report.py), on standard output or into a file."""
    if path is None:
        return
    if path == _PRINTED:
        for line in tensor_report.lines(model):
            print(line)
        return
    with replacing(path) as file:
        for line in tensor_report.lines(model):
            file.write(f"{line}\n".encode("utf-8"))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Turns a checkpoint into a .phasor file.")
    parser.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help="Hugging Face directory, PyTorch file or safetensors, llama2.c file, GGUF file, "
        "directory of CTranslate2, .npz of Marian",
    )
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument(
        "--type",
        choices=(*_TYPES, AUTO),
        help=(
            "of the matrices; norms, biases and tables stay f32. Default: f32; of a GGUF file "
            f"what keeps each matrix exactly. {AUTO}: q8r or q8rh, smoothed or not, whichever is "
            "nearest to the exact weights"
        ),
    )
    parser.add_argument(
        "--output-type",
        choices=_TYPES,
        help="of the embeddings and the output matrix (as --type)",
    )
    parser.add_argument(
        "--describe",
        type=Path,
        metavar="FILE",
        help="the description; default: the checkpoint's name with .toml",
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=(
            "for the source side, then the target; one for both; none: without; bytes or bytes+N: "
            "each byte is an id, from 0 or N on"
        ),
    )
    parser.add_argument(
        "--rope-context",
        type=int,
        default=0,
        metavar="N",
        help=(
            "a decoder with rotary positions: the longest sequence; frequencies that depend on "
            "the length are those of this one"
        ),
    )
    parser.add_argument(
        "--lora", type=Path, metavar="DIR", help="an adapter of PEFT, added to the weights"
    )
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-lang",
            default="",
            metavar="NAME",
            help=f"a translator's {side} language, by the name that its tokenizer has for it",
        )
    parser.add_argument(
        "--rank-template",
        metavar="TEXT",
        help=(
            "a language model that judges pairs (phasor rank): what it reads, with {query} and "
            "{document}"
        ),
    )
    parser.add_argument(
        "--rank-tokens",
        metavar="YES[,NO]",
        help="the pieces, or #ID, whose logits are the score behind that text",
    )
    parser.add_argument(
        "--chat",
        type=Path,
        metavar="FILE",
        help="a decoder's chat template (Jinja); default: the source's own; none: without",
    )
    parser.add_argument(
        "--chat-date",
        metavar="YYYY-MM-DD",
        help="the day that the template takes for today; default: it knows none",
    )
    parser.add_argument(
        "--phasor",
        type=Path,
        metavar="PATH",
        help="the program that records hashes; default: build/phasor where it is",
    )
    parser.add_argument(
        "--smooth",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=(
            "quantized types: scale the inputs of layers by channel before they are rounded (an "
            "encoder's are, others' are not)"
        ),
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help=f"{AUTO}: a text to measure with; default: random ids",
    )
    parser.add_argument(
        "--moments",
        type=Path,
        metavar="FILE.npy",
        help="q8 and q4: how much each input of the matrices counts (tools/moments.py makes it)",
    )
    parser.add_argument(
        "--expect",
        type=Path,
        metavar="FILE.npz",
        help="ids with your own model's outputs, which become the file's test vectors",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="a line for each tensor of the source: its use, mean, range, NaN; - is stdout",
    )
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args(argv)
    if not 0 <= args.rope_context <= 1 << 24:
        parser.error("--rope-context: expected a number of positions")
    if (args.rank_template is None) != (args.rank_tokens is None):
        parser.error("--rank-template, --rank-tokens: expected both or neither")
    if args.type == AUTO and args.smooth is not None:
        parser.error(f"--smooth, --no-smooth: {AUTO} chooses")
    if args.type == AUTO and args.moments is not None:
        parser.error(f"--moments: for q8 and q4, not for {AUTO}")
    if args.type != AUTO and args.calibration is not None:
        parser.error(f"--calibration: goes with --type {AUTO}")
    return args


def _inputs(args: argparse.Namespace) -> list[Path | None]:
    """The files that the command line names."""
    return [
        args.source,
        args.describe or args.source.with_suffix(".toml"),
        args.lora,
        args.chat,
        args.moments,
        args.calibration,
        args.expect,
        args.phasor,
        *args.tokenizer,
    ]


def with_file(error: PhasorError, args: argparse.Namespace) -> PhasorError:
    """The error with the source's name, where it names no file and no flag yet."""
    named_already = [args.output, args.report, *_inputs(args), "--"]
    return (
        error
        if any(str(name) in str(error) for name in named_already if name is not None)
        else named(args.source, error)
    )


@front_door("convert")
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    check_output(args.output, *_inputs(args))
    check_report(args)
    try:
        model, sections = read_source(
            args.source,
            args.describe,
            args.tokenizer,
            args.rope_context,
            args.lora,
            args.output,
            Languages(args.source_lang, args.target_lang),
            None if args.rank_template is None else Judge(args.rank_template, args.rank_tokens),
        )
        sections.update(chat_sections(model, args.source, args.chat, args.chat_date))
        write_report(model, args.report)
        phasor = find_phasor(args.phasor)
        rounding = convert(
            model,
            args.output,
            L.type_code(args.type) if args.type and args.type != AUTO else None,
            sections,
            phasor,
            args.quiet,
            args.smooth,
            L.type_code(args.output_type) if args.output_type else None,
            read_moments(args.moments),
            args.type == AUTO,
            args.calibration,
            args.expect,
        )
    except Problems:
        raise
    except PhasorError as error:
        raise with_file(error, args) from error
    if not args.quiet:
        for line in model.notes:
            note(line)
        if phasor is None:
            note("no phasor program was found: the test vectors have no hashes of its logits")
        report(args.output, rounding)
    return 0


if __name__ == "__main__":
    sys.exit(main())
