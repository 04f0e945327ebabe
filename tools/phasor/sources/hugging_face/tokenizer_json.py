"""Tokenizer sections from the files of Hugging Face's `tokenizers` and `transformers`
(docs/format.md, TOKENIZER, models 4 to 8).

`build_hf_section` takes a directory or a tokenizer.json; encoding with the section gives the ids of
the `tokenizers` package, with what `transformers` changes by the files beside it. Where a directory
has no tokenizer.json, vocab.txt (BERT), vocab.json with merges.txt (RoBERTa, GPT-2) or
sentencepiece.bpe.model (XLM-RoBERTa) is read as the conversion in `transformers` reads it. models/
has what becomes of each. Needs numpy only. What would change the ids and is not understood is
refused by name, never ignored.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from phasor import side_files
from phasor.errors import shown
from phasor.files import read_bytes, read_json, read_text
from phasor.sources.fairseq import dictionary as fairseq
from phasor.sources.hugging_face import tokenizer_model
from phasor.sources.hugging_face.added import added_tokens, configuration, joined_tokens
from phasor.tokenizers.json_parts import META, fields, member, refuse, steps, types_of
from phasor.tokenizers.models import MODELS
from phasor.tokenizers.models.byte_bpe import ALPHABET
from phasor.tokenizers.models.word_bpe import Words
from phasor.tokenizers.section import CONTROL, USER_DEFINED, TokenizerError
from phasor.tokenizers.sentencepiece import read_model_proto
from phasor.tokenizers.vocabulary import Vocabulary, special_token
from phasor.values import words

# ---- What the template says


def _template(spec: dict, vocabulary: Vocabulary) -> dict:
    """The ids around a text and between two: prefix, suffix, pair, and the segment of the second
    text."""
    found = {"prefix": [], "suffix": [], "pair": [], "pair_segment": 0}
    for step in steps(spec.get("post_processor"), "post_processor", "processors"):
        kind = step.get("type")
        if kind == "ByteLevel":  # offsets only
            continue
        if kind == "TemplateProcessing":
            found = _read_template(
                fields(step, "post_processor", ("single", "pair", "special_tokens")),
                spec["model"].get("type") == "BPE",
            )
        elif kind in ("BertProcessing", "RobertaProcessing"):
            fields(step, "post_processor", ("sep", "cls", "trim_offsets", "add_prefix_space"))
            sep, cls = (
                _token_id(member(step, name, "post_processor"), name) for name in ("sep", "cls")
            )
            bert = kind == "BertProcessing"
            found = {
                "prefix": [cls],
                "suffix": [sep],
                "pair": [sep] if bert else [sep, sep],
                "pair_segment": int(bert),
            }
        else:
            refuse(f"post_processor {kind}")
    for id_ in [*found["prefix"], *found["suffix"], *(found["pair"] or [])]:
        if id_ not in vocabulary.texts:
            raise TokenizerError(f"post_processor: the id {id_} is not in the vocabulary")
    return {"other_segments": False, **found}


_MOST_AROUND = 64  # ids around a text


def _token_id(pair: list, name: str) -> int:
    """The id of [text, id]."""
    if len(pair) != 2 or type(pair[1]) is not int:
        raise TokenizerError(f"post_processor.{name}: {shown(pair)}, expected a text and an id")
    return pair[1]


def _template_item(item: Any, tokens: dict) -> tuple[str | None, list[int], int]:
    """(a sequence's name or None, a special token's ids, the segment)."""
    kind, value = (
        next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else ("", None)
    )
    name, segment = (
        value.get(field) if isinstance(value, dict) else None for field in ("id", "type_id")
    )
    if (
        kind not in ("SpecialToken", "Sequence")
        or not isinstance(name, str)
        or type(segment) is not int
        or not 0 <= segment < 1 << 16
    ):
        raise TokenizerError(
            f"post_processor: {shown(item)}, expected a Sequence or a SpecialToken with id and "
            "type_id"
        )
    if kind == "Sequence":
        return name, [], segment
    ids = tokens[name].get("ids") if isinstance(tokens.get(name), dict) else None
    if not isinstance(ids, list) or not all(type(id_) is int for id_ in ids):
        raise TokenizerError(f"post_processor.special_tokens: {shown(name)} has no list of ids")
    return None, ids, segment


def _read_template(step: dict, language_model: bool) -> dict:
    """language_model: the segments of special tokens do not matter, since models with such
    tokenizers have no segments."""

    def items(name: str) -> list[tuple[str | None, list[int], int]]:
        given = member(step, name, "post_processor")
        if len(given) > _MOST_AROUND:
            raise TokenizerError(
                f"post_processor.{name}: {len(given)} parts, expected at most {_MOST_AROUND}"
            )
        return [
            _template_item(item, member(step, "special_tokens", "post_processor")) for item in given
        ]

    def parts(name: str, sequences: str) -> tuple[list[tuple[list[int], set[int]]], list[int]]:
        """The ids before, between and behind the sequences, each with the segments that occur in it
        and in the text before it; the sequences' own segments."""
        out: list[tuple[list[int], set[int]]] = [([], set())]
        met, own = "", []
        for sequence, ids, segment in items(name):
            if sequence is not None:
                met += sequence
                own.append(segment)
                out.append(([], {segment}))
            else:
                out[-1][0].extend(ids)
                out[-1][1].add(segment)
        if met != sequences:
            refuse(f"post_processor.{name} with the texts {met or 'none'}")
        return out, own

    single, alone = parts("single", "A")
    pair, both = parts("pair", "AB")
    (prefix, _), (suffix, _) = single
    (before, first), (between, middle), (behind, second) = pair
    if alone != [0] or (both[0] != 0 and not language_model):
        refuse("post_processor with such type ids")
    others = any(segments - {0} for _, segments in single) or (
        bool(first - {0} or middle - {0} or len(second) != 1) and not language_model
    )
    around = before == prefix and behind == suffix
    found = {"prefix": prefix, "suffix": suffix, "pair": between if around else None}
    return {**found, "pair_segment": both[1] if others else max(second), "other_segments": others}


def pair_of(info: dict) -> list[int]:
    """The ids between two texts. TokenizerError where others are around them than around one."""
    if info["pair"] is None:
        refuse("post_processor with other ids around a pair than around a text")
    return info["pair"]


def check_segments(info: dict, segments: int) -> list[str]:
    """Refuses a template whose special tokens have segments of their own, for a model that has
    such: the engine gives a special token the segment of the text that it is at. Returns notes."""
    if info["other_segments"] and segments > 0:
        refuse("post_processor with such type ids")
    newer = info["untyped_by_version"] and info["pair_segment"] and segments > 1
    return [
        "transformers 5 gives both texts of a pair segment 0, 4.57 gives the second one"
        f" {info['pair_segment']}, as here; model_input_names in tokenizer_config.json settles it"
    ] * bool(newer)


def check_cut(info: dict) -> None:
    """Refuses texts that lose their beginning, for a model that cuts them."""
    if info["cut"] != "right":
        raise TokenizerError(
            f"{info['cut_by']}: {shown(info['cut'])} is not built: too long a text is cut at its"
            f" end ({side_files.ignoring(Path(info['cut_by'].split(':')[0]), info['cut_key'])}"
            " if yours are never too long)"
        )


# Classes of transformers whose models get no token types, from 4.57 on and from 5 on. Where
# nothing names the class, the model type does.
_UNTYPED = words("""
    Bart Barthez Bartpho BertGeneration BigBird BioGpt Blenderbot Bloom ByT5 CLIP Camembert Clvp
    CodeGen CodeLlama Cohere CpmAnt DPRReader Dia DistilBert Esm FSMT FastSpeech2Conformer GPT2
    GPTNeoX GPTNeoXJapanese GPTSw3 Gemma LED LayoutLMv3 LayoutXLM Llama Longformer Luke M2M100 MBart
    MBart50 MLuke MPNet MT5 Marian Mvp MyT5 Nllb Nougat OpenAIGPT PLBart Pegasus Perceiver
    ProphetNet Qwen2 Reformer Roberta SeamlessM4T Siglip Speech2Text SpeechT5 T5 Udop Vits Wav2Vec2
    Wav2Vec2CTC Wav2Vec2PhonemeCTC Whisper XGLM XLMRoberta TokenizersBackend
""")
_UNTYPED_NEWER = words("""
    PreTrained Albert BertJapanese Bertweet BlenderbotSmall Cpm CTRL Flaubert Funnel Herbert Mgpstr
    Parakeet Phobert RemBert RoCBert RoFormer Splinter XLM XLNet
""")


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _token_types(config: dict) -> dict[str, bool]:
    """Whether a model gets token types, and whether it depends on the version of transformers."""
    names = config.get("model_input_names")
    if names is not None and not (isinstance(names, list) and all(type(n) is str for n in names)):
        raise TokenizerError(
            f"tokenizer_config.json: model_input_names: {shown(names)}, expected a list of texts"
        )
    if names is not None:
        return {"typed": "token_type_ids" in names, "untyped_by_version": False}
    kind = config.get("tokenizer_class") or config.get("model_type") or ""
    kind = _plain(str(kind).removesuffix("Fast").removesuffix("Tokenizer"))
    newer = kind in map(_plain, _UNTYPED_NEWER)
    saved = "backend" in config  # by version 5
    typed = kind not in map(_plain, _UNTYPED) and not (newer and saved)
    return {"typed": typed, "untyped_by_version": newer and not saved}


def _cut(config: dict, spec: dict) -> dict[str, str]:
    """The side at which too long a text is cut, and what says so."""
    truncation = spec.get("truncation")
    direction = truncation.get("direction") if isinstance(truncation, dict) else None
    for where, key, value in (
        ("tokenizer_config.json", "truncation_side", config.get("truncation_side")),
        ("tokenizer.json", "truncation.direction", direction),
    ):
        if value is not None:
            if value not in ("left", "right", "Left", "Right"):
                raise TokenizerError(f"{where}: {key}: {shown(value)}, expected left or right")
            return {"cut": value.lower(), "cut_by": f"{where}: {key}", "cut_key": key}
    return {"cut": "right"}


def _token(config: dict, name: str) -> str | None:
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


# Classes of transformers that put the template together from add_bos_token and add_eos_token, with
# these values where nothing is said.
_TEMPLATE_CLASSES = {
    "Llama": (True, False),
    "CodeLlama": (True, False),
    "Gemma": (True, False),
    "Cohere": (True, False),
    "GPTNeoX": (False, False),
}


def _class_template(config: dict, vocabulary: Vocabulary) -> dict:
    """What the class of the tokenizer puts in the template's place; nothing for other classes."""
    name = str(config.get("tokenizer_class") or "").removesuffix("Fast").removesuffix("Tokenizer")
    flags = [config.get(f"add_{token}_token") for token in ("bos", "eos")]
    newer = "backend" in config  # saved by transformers 5, whose file counts where neither is said
    if name not in _TEMPLATE_CLASSES or (newer and flags == [None, None]):
        return {}
    around = []
    usual_flags = (False, False) if newer else _TEMPLATE_CLASSES[name]
    for token, said, usual in zip(("bos", "eos"), flags, usual_flags):
        content = _token(config, token) or {
            "Llama": {"bos": "<s>", "eos": "</s>"},
            "CodeLlama": {"bos": "<s>", "eos": "</s>"},
            "Gemma": {"bos": "<bos>", "eos": "<eos>"},
        }.get(name, {}).get(token)
        wanted, id_ = usual if said is None else said, vocabulary.id(content)
        if wanted and id_ is None:
            raise TokenizerError(
                f"tokenizer_config.json: add_{token}_token, but {token}_token {content!r} is not "
                "in the vocabulary"
            )
        around.append([id_] if wanted else [])
    prefix, suffix = around
    return {"prefix": prefix, "suffix": suffix, "pair": [*suffix, *prefix], "pair_segment": 1}


# ---- Directories

_USUAL = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "mask": ("[MASK]", "<mask>"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
    "bos": (),
    "eos": (),
}


_JSON_BYTES = 128 << 20
_STRIPS = ("lstrip", "rstrip", "single_word", "normalized")


def _json(path: Path) -> dict:
    return read_json(path, _JSON_BYTES) if path.exists() else {}


def _special_ids(
    config: dict, vocabulary: Vocabulary, unknown: int | None
) -> dict[str, int | None]:
    """The ids of the special tokens: what the configuration names; else the usual names among the
    special tokens."""
    out: dict[str, int | None] = {}
    for name, usual in _USUAL.items():
        token = _token(config, name)
        if token is None:
            token = next((text for text in usual if text in vocabulary.special), None)
        out[name] = vocabulary.id(token)
    named = out.pop("unk")
    return {**out, "unknown": named if unknown is None else unknown}


def _named(
    config: dict, name: str, text: str, vocabulary: dict[str, int], lstrip: bool = False
) -> dict:
    """A special token that has a name. lstrip: of the class, where only its text is said."""
    said = config.get(f"{name}_token")
    flags = {flag: said.get(flag) for flag in _STRIPS} if isinstance(said, dict) else {}
    made = {flag: value for flag, value in flags.items() if value is not None}
    for flag, value in made.items():
        if not isinstance(value, bool):
            raise TokenizerError(
                f"tokenizer_config.json: {name}_token: {flag}: {shown(value)}, expected true or"
                " false"
            )
    return special_token(text, vocabulary.get(text, -1), **(made or {"lstrip": lstrip}))


def _from_vocab_txt(path: Path, config: dict) -> dict:
    """What transformers' conversion of a BERT vocabulary gives."""
    lines = read_text(path).split("\n")
    vocabulary = {line: id_ for id_, line in enumerate(lines[:-1] if lines[-1] == "" else lines)}
    names = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
    usual = dict(names)
    names = {name: _token(config, name) or text for name, text in names.items()}
    for name in ("unk", "cls", "sep"):
        if names[name] not in vocabulary:
            raise TokenizerError(
                f"{path.name}: the {name} token {names[name]!r} is not in the vocabulary"
            )
    named = [
        _named(config, name, text, vocabulary)
        for name, text in names.items()
        if text in vocabulary or text != usual[name]
    ]
    cls, sep = ([names[name], vocabulary[names[name]]] for name in ("cls", "sep"))
    return {
        "added_tokens": added_tokens(path.parent, config, vocabulary, named),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "strip_accents": config.get("strip_accents"),
            "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
            "lowercase": config.get("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": sep, "cls": cls},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": names["unk"],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": vocabulary,
        },
    }


def _from_merges(folder: Path, config: dict) -> dict:
    """What transformers' conversion of vocab.json and merges.txt gives: RoBERTa's where there is a
    mask, else GPT-2's. Blenderbot has RoBERTa's tokens, of which the end alone goes behind a
    text, and its mask may be no word of the vocabulary."""
    vocabulary = Vocabulary(_json(folder / "vocab.json"), []).of_model
    lines = read_text(folder / "merges.txt").split("\n")
    merges = [line.split(" ") for line in lines[lines[0].startswith("#version") :] if line]
    kind = str(config.get("tokenizer_class") or config.get("model_type"))
    blenderbot = kind.lower() == "blenderbot" or kind.startswith("BlenderbotTokenizer")
    roberta = not kind.startswith("GPT2") and (
        blenderbot or "<mask>" in vocabulary or config.get("mask_token") is not None
    )
    names = (
        dict(bos="<s>", eos="</s>", unk="<unk>", sep="</s>", pad="<pad>", cls="<s>", mask="<mask>")
        if roberta
        else dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")
    )
    names = {
        **names,
        **{name: text for name in _USUAL if (text := _token(config, name)) is not None},
    }
    named = [
        _named(config, name, text, vocabulary, lstrip=name == "mask")
        for name, text in names.items()
    ]
    added = added_tokens(folder, config, vocabulary, named)
    ids = {**vocabulary, **{token["content"]: token["id"] for token in added}}
    for name, text in names.items():
        usual = blenderbot and name == "mask"
        if text not in vocabulary and _token(config, name) is None and not usual:
            raise TokenizerError(f"vocab.json: the {name} token {text!r} is not in the vocabulary")
    around_text = None
    first, second = ({"Sequence": {"id": name, "type_id": n}} for n, name in enumerate("AB"))
    if blenderbot or config.get("add_bos_token"):  # OPT
        own = names["eos" if blenderbot else "bos"]
        token = {"SpecialToken": {"id": own, "type_id": 0}}
        around_text = {
            "type": "TemplateProcessing",
            "single": [first, token] if blenderbot else [token, first],
            "pair": [first, second] if blenderbot else [token, first, second],
            "special_tokens": {own: {"id": own, "ids": [ids[own]], "tokens": [own]}},
        }
    around = {name: [names[name], ids[names[name]]] for name in ("sep", "cls") if roberta}
    if roberta and not blenderbot:
        around_text = {"type": "RobertaProcessing", **around}
    return {
        "added_tokens": added,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": config.get("add_prefix_space", False),
        },
        "post_processor": around_text,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }


def _from_xlm_roberta(path: Path, config: dict) -> dict:
    """What transformers' conversion of XLM-RoBERTa's SentencePiece model gives: ids in fairseq's
    order, <mask> behind them."""
    kind = str(config.get("tokenizer_class") or config.get("model_type"))
    if not kind.lower().replace("-", "").startswith("xlmroberta"):
        refuse(f"{path.name} of {kind} without tokenizer.json")
    proto = read_model_proto(read_bytes(path))
    if proto["model_type"] != 1:
        refuse(f"{path.name} with a model that is not unigram")
    try:
        pieces = [(text.decode(), score, kind) for text, score, kind in proto["pieces"]]
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path.name}: a piece is not UTF-8") from error
    for text, _, kind in pieces[:3]:  # fairseq's four stand for them
        if kind in (CONTROL, USER_DEFINED) and text not in ("<s>", "</s>"):
            refuse(f"{path.name} with {text!r} among its first three pieces")
    first = [(text, 0.0) for text in ("<s>", "<pad>", "</s>", "<unk>")]
    vocab = [*first, *((text, score) for text, score, _ in pieces[3:]), ("<mask>", 0.0)]
    ids = {text: id_ for id_, (text, _) in enumerate(vocab)}
    added = {
        text: special_token(text, ids[text], special=kind == CONTROL)
        for text, _, kind in pieces
        if kind in (CONTROL, USER_DEFINED)
    }
    for text in ("<s>", "</s>", "<unk>", "<pad>"):
        added[text] = special_token(text, ids[text])
    added["<mask>"] = special_token("<mask>", ids["<mask>"], lstrip=True, normalized=True)
    if isinstance(config.get("mask_token"), dict):
        added["<mask>"] = _named(config, "mask", "<mask>", ids)
    for name in _USUAL:
        said = _token(config, name)
        if said is not None and said not in ids:
            raise TokenizerError(f"{path.name}: the {name} token {said!r} is not one of its pieces")
    normalizers = [
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": META},
    ]
    if proto["charsmap"]:
        normalizers.insert(
            0,
            {
                "type": "Precompiled",
                "precompiled_charsmap": base64.b64encode(proto["charsmap"]).decode(),
            },
        )
    words = {"type": "Metaspace", "replacement": META, "prepend_scheme": "always", "split": True}
    return {
        "added_tokens": added_tokens(path.parent, config, ids, added.values()),
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": words,
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
        "decoder": words,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab},
    }


_BYT5_TOKENS = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}  # by their ids
_MOST_EXTRA = 1 << 16


def _from_byt5(config: dict) -> dict:
    """What ByT5's class does, which has no file: three tokens, the bytes, and its extra ids. As BPE
    without merges."""
    names = [_token(config, name) or usual for name, usual in _BYT5_TOKENS.items()]
    extra = config.get("extra_ids")
    extra = 125 if extra in (None, 0) else extra
    if type(extra) is not int or not 0 < extra < _MOST_EXTRA:
        raise TokenizerError(f"tokenizer_config.json: extra_ids: {shown(extra)}")
    letters = [letter for letter, _ in sorted(ALPHABET.items(), key=lambda item: item[1])]
    vocabulary = {text: id_ for id_, text in enumerate([*names, *letters])}
    if len(vocabulary) != len(names) + len(letters):
        raise TokenizerError(f"tokenizer_config.json: special tokens {shown(names)}")
    around = [special_token(text, id_, lstrip=True, rstrip=True) for id_, text in enumerate(names)]
    for i in range(extra):
        text = f"<extra_id_{i}>"
        vocabulary[text] = len(vocabulary)
        around.append(special_token(text, vocabulary[text]))
    end = {"SpecialToken": {"id": names[1], "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "added_tokens": around,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, end],
            "pair": [first, end, second, end],
            "special_tokens": {names[1]: {"id": names[1], "ids": [1], "tokens": [names[1]]}},
        },
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }


FAIRSEQ_CLASSES = ("PhobertTokenizer", "BertweetTokenizer")


def _from_fairseq(path: Path, config: dict) -> dict:
    """vocab.txt and bpe.codes, as PhoBERT's and BERTweet's classes read them: a dictionary of
    fairseq, and the mask behind it."""
    if config.get("normalization"):
        refuse(
            "tokenizer_config.json: normalization, which rewrites a tweet's names, links and emoji,"
        )
    usual = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
    usual |= {"cls": "<s>", "sep": "</s>"}
    for name, text in usual.items():
        if (_token(config, name) or text) != text:
            raise TokenizerError(f"{name}_token: {shown(_token(config, name))}, expected {text}")
    more = config.get("added_tokens_decoder") or {}
    if not isinstance(more, dict):
        raise TokenizerError("added_tokens_decoder: expected a table")
    if config.get("additional_special_tokens"):
        refuse("additional_special_tokens with bpe.codes")
    found = fairseq.read_dictionary(path, path.parent / "bpe.codes")
    special = {text: id_ for id_, text in enumerate(fairseq.FIRST)}
    special["<mask>"] = 4 + len(found.tokens)
    for id_, token in more.items():
        text = token.get("content") if isinstance(token, dict) else None
        plain = isinstance(token, dict) and not any(
            token.get(name) for name in ("lstrip", "rstrip", "single_word", "normalized")
        )
        if not isinstance(text, str) or str(special.get(text)) != id_ or not plain:
            raise TokenizerError(f"added_tokens_decoder: {shown(id_)} is not built")
    for text, id_ in _json(path.parent / "added_tokens.json").items():
        if special.get(text) != id_:
            raise TokenizerError(f"added_tokens.json: {shown(text)} is not built")
    model = Words(type="words", tokens=found.tokens, merges=found.merges, special=special)
    return {
        "model": model,
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
    }


def is_blenderbot_small(config: dict) -> bool:
    """Whether a directory's tokenizer is of this class: its own, or of a model that names none."""
    name = config.get("tokenizer_class")
    return str(name).startswith("BlenderbotSmallTokenizer") or (
        not name and config.get("model_type") == "blenderbot-small"
    )


def _from_blenderbot_small(folder: Path, config: dict) -> dict:
    """vocab.json and merges.txt, as the class reads them: words of lower case, with special tokens
    among the others."""
    if (folder / "tokenizer.json").is_file():
        refuse("tokenizer.json of BlenderbotSmallTokenizer, which reads vocab.json and merges.txt,")
    vocabulary = Vocabulary(_json(folder / "vocab.json"), []).of_model
    usual = {"bos": "__start__", "eos": "__end__", "unk": "__unk__", "pad": "__null__"}
    said = {name: text for name in _USUAL if (text := _token(config, name)) is not None}
    names = {**usual, **said}
    if names["unk"] not in vocabulary:
        raise TokenizerError(
            f"vocab.json: the unk token {shown(names['unk'])} is not in the vocabulary"
        )
    named = [_named(config, name, text, vocabulary) for name, text in names.items()]
    added = added_tokens(folder, config, vocabulary, named)
    for token in added:
        text = token["content"]
        plain = not any(token.get(flag) for flag in ("lstrip", "rstrip", "single_word"))
        if not plain or not token.get("special") or len(text) < 3:  # a shorter one could be a piece
            refuse(f"the added token {shown(text)}, which is not plain, special, of 3 characters,")
        token["normalized"] = False  # which the class does not ask
        if vocabulary.get(text, token["id"]) != token["id"]:
            raise TokenizerError(f"the added token {shown(text)} has another id in vocab.json")
    merges = fairseq.read_versioned(folder / "merges.txt")
    special = {token["content"] for token in added}
    tokens = {text: id_ for text, id_ in vocabulary.items() if text not in special}
    model = Words(type="words", tokens=tokens, merges=merges, unknown=names["unk"])
    return {"model": model, "added_tokens": added}


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


def _configured(spec: dict, folder: Path, config: dict) -> dict:
    """A tokenizer.json with what transformers changes in it by the files beside it."""
    kind = str(config.get("tokenizer_class") or "").removesuffix("Fast").removesuffix("Tokenizer")
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
    _check_prefix(spec.get("pre_tokenizer"), config)
    _check_settings(spec, config, kind)
    ids, own = _texts(spec.get("model")), spec.get("added_tokens") or []
    if not isinstance(own, list) or not all(_is_token(token) for token in own):
        return spec  # which is refused where it is read
    ids |= {token["content"]: token["id"] for token in own}
    texts = {name: text for name in _ATTRIBUTES if (text := _token(config, name)) is not None}
    if theirs:
        usual = {name: f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}
        texts = {**{name: text for name, text in usual.items() if text in ids}, **texts}
    named = [_named(config, name, texts[name], ids) for name in _ATTRIBUTES if name in texts]
    spec["added_tokens"] = joined_tokens(folder, config, own, ids, named)
    _check_own_tokens(config, {token["content"] for token in spec["added_tokens"]})
    return spec


def _check_own_tokens(config: dict, added: set[str]) -> None:
    """PhasorError for a special token of the model's own that the tokenizer does not have:
    transformers 5 adds it."""
    named = {name: config[name] for name in config if name.endswith("_token")}
    more = config.get("model_specific_special_tokens")
    named |= more if isinstance(more, dict) else {}
    for name in named:
        if name.removesuffix("_token") in _ATTRIBUTES or name in ("add_bos_token", "add_eos_token"):
            continue
        text = _token({"x_token": named[name]}, "x") if named[name] is not True else None
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


def _check_settings(spec: dict, config: dict, kind: str) -> None:
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


def _lowercased(spec: dict) -> dict:
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


def _texts(model: Any) -> dict[str, int]:
    """The ids of a model's texts, those that are sound."""
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, list):
        rows = ((row[0] if isinstance(row, list) and row else None) for row in vocabulary)
        return {text: id_ for id_, text in enumerate(rows) if isinstance(text, str)}
    found = vocabulary.items() if isinstance(vocabulary, dict) else ()
    return {text: id_ for text, id_ in found if type(id_) is int}


def _is_token(token: Any) -> bool:
    text, id_ = (token.get(n) for n in ("content", "id")) if isinstance(token, dict) else (0, 0)
    return isinstance(text, str) and type(id_) is int


def _check_prefix(step: Any, config: dict) -> None:
    """A class of transformers puts its own add_prefix_space, false where nothing says it, in the
    place of the file's; what has no class is the package's own."""
    name, classed = "add_prefix_space", config.get("tokenizer_class") or config.get("model_type")
    if not classed or not isinstance(step, dict) or step.get("type") != "ByteLevel":
        return
    said, own = bool(config.get(name)), step.get(name)
    if isinstance(own, bool) and own != said:
        raise TokenizerError(
            f"tokenizer_config.json: {name} is {str(said).lower()}, and the pre_tokenizer of"
            f" tokenizer.json has {str(own).lower()}; make them the same"
        )


def _from_tokenizer_model(path: Path, config: dict) -> dict:
    """What transformers' conversion of a SentencePiece model gives for its class, which a directory
    that names none has by its model type."""
    gemma = str(config.get("model_type")).startswith("gemma")
    usual = "GemmaTokenizer" if gemma else "LlamaTokenizer"
    config["tokenizer_class"] = config["tokenizer_class"] or usual
    kind = config["tokenizer_class"].removesuffix("Fast").removesuffix("Tokenizer")
    names = {
        **tokenizer_model.CLASSES[kind],
        **{name: text for name in _USUAL if (text := _token(config, name)) is not None},
    }

    def named(ids: dict[str, int]) -> list[dict]:
        return [_named(config, name, text, ids) for name, text in names.items()]

    return tokenizer_model.read(path, config, kind, names, named)


def _read_spec(path: Path, config: dict) -> dict:
    folder = path if path.is_dir() else path.parent
    if (folder / "bpe.codes").is_file() and (folder / "vocab.txt").is_file():
        if (
            path.name == "vocab.txt" or config["tokenizer_class"] in FAIRSEQ_CLASSES
        ):  # which read no tokenizer.json
            return _from_fairseq(folder / "vocab.txt", config)
    if is_blenderbot_small(config) and path.name != "tokenizer.json":
        if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
            return _from_blenderbot_small(folder, config)
    if path.is_file() and path.suffix == ".txt":
        return _from_vocab_txt(path, config)
    if path.is_file() and path.name == "sentencepiece.bpe.model":
        return _from_xlm_roberta(path, config)
    if path.is_file() and path.name == "tokenizer.model":
        return _from_tokenizer_model(path, config)
    if path.is_file() and path.name in ("vocab.json", "merges.txt"):
        return _from_merges(folder, config)
    file = path if path.is_file() else folder / "tokenizer.json"
    if file.exists():
        spec = _json(file)
        side_files.check(file, spec, "tokenizer.json")
        return _configured(spec, folder, config)
    if config.get("tokenizer_class") == "ByT5Tokenizer":
        return _from_byt5(config)
    if (folder / "vocab.txt").exists():
        return _from_vocab_txt(folder / "vocab.txt", config)
    if (folder / "vocab.json").exists() and (folder / "merges.txt").exists():
        return _from_merges(folder, config)
    if (folder / "sentencepiece.bpe.model").exists():
        return _from_xlm_roberta(folder / "sentencepiece.bpe.model", config)
    raise TokenizerError(
        f"{path}: neither tokenizer.json nor vocab.txt, vocab.json with merges.txt or "
        "sentencepiece.bpe.model is there"
    )


# Classes of transformers 5 that make the normalizer and the pre-tokenizer anew, whatever a
# tokenizer.json has (docs/tokenizers.md): those whose own are others than 4.57's, and those that
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
    """A line for a tokenizer.json of 4.57 of which transformers 5 makes other ids."""
    folder = path if path.is_dir() else path.parent
    file = folder / "tokenizer.json" if path.is_dir() else path
    if file.suffix != ".json" or not file.is_file():
        return None
    config, own = configuration(folder), _json(folder / "config.json")
    kind = str(config.get("tokenizer_class") or own.get("tokenizer_class") or "")
    kind = kind.removesuffix("Fast").removesuffix("Tokenizer")
    if kind == "PreTrained" and own.get("model_type") == "qwen2":
        kind = "Qwen2"
    known = kind in _MADE_ANEW or kind in _STEPS or kind in ("T5", "Llama")
    if not known or "backend" in config:  # saved by 5.x
        return None
    spec = _json(file)
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
        same = same or (not normalizers and '"never"' not in scheme)
    return (
        None
        if same
        else f"{file}: transformers 5 has steps of its own in place of this {kind}Tokenizer's, and"
        " other ids for some texts (docs/tokenizers.md); here they are the file's, as in 4.57"
    )


def _without_rowless(spec: dict, config: dict, rows: int) -> list[str]:
    """Leaves out a mask and a padding token behind the rows of the embedding, as Blenderbot's mask
    and the [PAD] of many fine-tuned models are; what was left out. No text has them. Another token
    without a row stays, and all with it."""
    added = spec.get("added_tokens")
    behind = [t for t in added if _is_token(t) and t["id"] >= rows] if type(added) is list else []
    names = {_token(config, "mask") or "<mask>", _token(config, "pad")}
    if not behind or not {token["content"] for token in behind} <= names:
        return []
    spec["added_tokens"] = [token for token in added if token not in behind]
    return [token["content"] for token in behind]


def build_hf_section(
    path: Path, options: dict | None = None, rows: int | None = None, lowercase: bool = False
) -> tuple[bytes, dict]:
    """Builds the section for a tokenizer of Hugging Face's packages.

    path is a directory or one of its files (tokenizer.json, vocab.txt, …); options are keys in
    place of tokenizer_config.json's (do_lower_case, …); rows: of the embedding, behind which a mask
    and a padding token are left out; lowercase: texts become lower case first. Returns the section
    and what else the files say: `model` (wordpiece, bpe, unigram), `pieces` (how many ids there
    are), `left_out` (texts of tokens), `ids` (of all pieces by their texts), `special` (the special
    tokens' alone), `pad`, `unknown`, `mask`, `cls`, `sep`, `bos`, `eos` (an id or None), the
    template's ids `prefix`, `suffix`, `pair` (lists; `pair` is read by pair_of), `pair_segment`
    (the segment of a second text and of what follows it) and `other_segments` (whether special
    tokens have other segments: check_segments), `max_length` (tokenizer_config.json's
    model_max_length, or None) and `truncation` (tokenizer.json's, or None; the engine's limits are
    the user's). Raises TokenizerError, naming the thing, for what would change the ids and is not
    understood.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    own = _json(folder / "config.json")
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
        kind = member(spec, "model", "tokenizer.json").get("type")
        built = (model for model in MODELS if model.from_json and model.json_type == kind)
        model = next((model for model in built if model.takes(spec)), None)
        if model is None:
            refuse(f"model {shown(kind)}")
        section, vocabulary, unknown = model.from_json({"added_tokens": [], **spec})
        template = {**_template(spec, vocabulary), **_class_template(config, vocabulary)}
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise TokenizerError(
            f"{path}: a part is missing or of another kind than it should be: {shown(error)}"
        ) from error
    types = _token_types(config)
    if not types["typed"]:
        template.update(pair_segment=0, other_segments=False)
    longest = config.get("model_max_length")
    truncation = spec.get("truncation") or {}
    return section, {
        **types,
        **_cut(config, spec),
        "model": model.name,
        "pieces": vocabulary.count(),
        "left_out": left_out,
        "ids": {**vocabulary.of_model, **vocabulary.ids},
        "special": {text: vocabulary.ids[text] for text in sorted(vocabulary.special)},
        **_special_ids(config, vocabulary, unknown),
        **template,
        "max_length": longest if isinstance(longest, int) and longest < 1 << 31 else None,
        "truncation": truncation.get("max_length"),
    }
