"""Tokenizer sections from the files of Hugging Face's `tokenizers` and `transformers`
(docs/reference/file-format.md, TOKENIZER, models 4 to 9).

`build_hf_section` takes a directory or a tokenizer.json; encoding with the section gives the ids of
the `tokenizers` package, with what `transformers` changes by the files beside it. Where a directory
has no tokenizer.json, vocab.txt (BERT), vocab.json with merges.txt (RoBERTa, GPT-2) or
sentencepiece.bpe.model (XLM-RoBERTa) is read as the conversion in `transformers` reads it. models/
has what becomes of each. Needs numpy only. What would change the ids and is not understood is
refused by name, never ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phasor import side_files
from phasor.errors import printable, shown
from phasor.files import has_file, is_file, parse_json, read_bytes
from phasor.sources.hugging_face.added import (
    USUAL,
    configuration,
    read_table,
    token_text,
)
from phasor.sources.hugging_face.around import (
    class_template,
    cut_of,
    template_of,
    token_types,
)
from phasor.sources.hugging_face.configured import configured, is_token
from phasor.sources.hugging_face.older_files import (
    FAIRSEQ_CLASSES,
    from_blenderbot_small,
    from_byt5,
    from_fairseq,
    from_merges,
    from_tokenizer_model,
    from_vocab_txt,
    from_xlm_roberta,
    is_blenderbot_small,
)
from phasor.tokenizers.json_parts import fields, member, steps
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.tokenizer import json_section
from phasor.tokenizers.vocabulary import Vocabulary


def _special_ids(
    config: dict[str, Any], vocabulary: Vocabulary, unknown: int | None
) -> dict[str, int | None]:
    """The ids of the special tokens: what the configuration names; else the usual names among the
    special tokens."""
    out: dict[str, int | None] = {}
    for name, usual in USUAL.items():
        token = token_text(config, name)
        if token is None:
            token = next((text for text in usual if text in vocabulary.special), None)
        out[name] = vocabulary.id(token)
    named = out.pop("unk")
    return {**out, "unknown": named if unknown is None else unknown}


def _lowercased(spec: dict[str, Any]) -> dict[str, Any]:
    """With lower case before everything else, where no step makes it."""
    given = steps(spec.get("normalizer"), "normalizer", "normalizers")
    bert = given[0] if [s["type"] for s in given] == ["BertNormalizer"] else {}
    if bert.get("lowercase", bool(bert)) or any(s["type"] == "Lowercase" for s in given):
        return spec
    if bert and not bert.get("strip_accents"):  # its own lower case, without what it brings along
        return {**spec, "normalizer": {**bert, "lowercase": True, "strip_accents": False}}
    return {
        **spec,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, *given]},
    }


def _read_spec(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    folder = path if path.is_dir() else path.parent
    if has_file(folder / "bpe.codes") and has_file(folder / "vocab.txt"):
        if (
            path.name == "vocab.txt" or config["tokenizer_class"] in FAIRSEQ_CLASSES
        ):  # which read no tokenizer.json
            return from_fairseq(folder / "vocab.txt", config)
    if is_blenderbot_small(config) and path.name != "tokenizer.json":
        if has_file(folder / "vocab.json") and has_file(folder / "merges.txt"):
            return from_blenderbot_small(folder, config)
    if is_file(path) and path.suffix == ".txt":
        return from_vocab_txt(path, config)
    if is_file(path) and path.name == "sentencepiece.bpe.model":
        return from_xlm_roberta(path, config)
    if is_file(path) and path.name == "tokenizer.model":
        return from_tokenizer_model(path, config)
    if is_file(path) and path.name in ("vocab.json", "merges.txt"):
        return from_merges(folder, config)
    file = path if is_file(path) else folder / "tokenizer.json"
    if has_file(file):
        spec = read_table(file)
        side_files.check(file, spec, "tokenizer.json")
        return configured(spec, folder, config)
    if config.get("tokenizer_class") == "ByT5Tokenizer":
        return from_byt5(config)
    if has_file(folder / "vocab.txt"):
        return from_vocab_txt(folder / "vocab.txt", config)
    if has_file(folder / "vocab.json") and has_file(folder / "merges.txt"):
        return from_merges(folder, config)
    if has_file(folder / "sentencepiece.bpe.model"):
        return from_xlm_roberta(folder / "sentencepiece.bpe.model", config)
    raise TokenizerError(
        f"{path}: neither tokenizer.json nor vocab.txt, vocab.json with merges.txt or "
        "sentencepiece.bpe.model is there"
    )


_JSON_BYTES = 128 << 20


def kind_of_file(path: Path) -> str:
    """What a .json or a merges.txt is that build_hf_section reads alone; empty: none, which may be
    a list of words."""
    if path.name in ("vocab.json", "merges.txt"):
        there = all(has_file(path.parent / name) for name in ("vocab.json", "merges.txt"))
        return "byte-level BPE" if there else ""
    if path.suffix != ".json" or path.name.endswith("tekken.json") or not has_file(path):
        return ""
    content = parse_json(read_bytes(path, _JSON_BYTES))
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        return ""
    return f"tokenizer.json, {printable(str(model.get('type')), 40)}"


def _without_rowless(spec: dict[str, Any], config: dict[str, Any], rows: int) -> list[str]:
    """Leaves out a mask and a padding token behind the rows of the embedding, as Blenderbot's mask
    and the [PAD] of many fine-tuned models are; what was left out. No text has them. Another token
    without a row stays, and all with it."""
    added = spec.get("added_tokens")
    behind = [t for t in added if is_token(t) and t["id"] >= rows] if type(added) is list else []
    names = {token_text(config, "mask") or "<mask>", token_text(config, "pad")}
    if not behind or not {token["content"] for token in behind} <= names:
        return []
    spec["added_tokens"] = [token for token in added if token not in behind]
    return [token["content"] for token in behind]


def build_hf_section(
    path: Path,
    options: dict[str, Any] | None = None,
    rows: int | None = None,
    lowercase: bool = False,
) -> tuple[bytes, dict[str, Any]]:
    """Builds the section for a tokenizer of Hugging Face's packages.

    path is a directory or one of its files (tokenizer.json, vocab.txt, …); options are keys in
    place of tokenizer_config.json's (do_lower_case, …); rows: of the embedding, behind which a mask
    and a padding token are left out; lowercase: texts become lower case first. Returns the section
    and what else the files say: `pieces` (how many ids there are), `left_out` (texts of tokens),
    `ids` (of all pieces by their texts), `special` (the special tokens' alone), `pad`, `unknown`,
    `mask`, `cls`, `sep`, `bos`, `eos` (an id or None), the template's ids `prefix`, `suffix`,
    `pair` (lists; `pair` is read by pair_of), `pair_segment` (the segment of a second text and of
    what follows it) and `other_segments` (whether special tokens have other segments:
    check_segments), `max_length` (tokenizer_config.json's model_max_length, or None) and
    `truncation` (tokenizer.json's, or None; the engine's limits are the user's). Raises
    TokenizerError, naming the thing, for what would change the ids and is not understood.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    own = read_table(folder / "config.json")
    config = {
        "model_type": own.get("model_type"),
        **configuration(folder),
        **(options or {}),
    }
    config["tokenizer_class"] = config.get("tokenizer_class") or own.get("tokenizer_class")
    spec = _read_spec(path, config)
    try:
        fields(
            spec,
            "tokenizer.json",
            (
                "version",
                "truncation",
                "padding",
                "added_tokens",
                "normalizer",
                "pre_tokenizer",
                "post_processor",
                "decoder",
                "model",
            ),
        )
        if lowercase:
            spec = _lowercased(spec)
        left_out = [] if rows is None else _without_rowless(spec, config, rows)
        member(spec, "model", "tokenizer.json")
        section, vocabulary, unknown = json_section({"added_tokens": [], **spec})
        template = {**template_of(spec, vocabulary), **class_template(config, vocabulary)}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise TokenizerError(
            f"{path}: a part is missing or of another kind than it should be: {shown(error)}"
        ) from error
    types = token_types(config)
    if not types["typed"]:
        template.update(pair_segment=0, other_segments=False)
    longest = config.get("model_max_length")
    truncation = spec.get("truncation") or {}
    return section, {
        **types,
        **cut_of(config, spec),
        "pieces": vocabulary.count(),
        "left_out": left_out,
        "ids": {**vocabulary.of_model, **vocabulary.ids},
        "special": {text: vocabulary.ids[text] for text in sorted(vocabulary.special)},
        **_special_ids(config, vocabulary, unknown),
        **template,
        "max_length": longest if isinstance(longest, int) and longest < 1 << 31 else None,
        "truncation": truncation.get("max_length"),
    }
