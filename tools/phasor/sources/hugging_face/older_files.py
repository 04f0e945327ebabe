"""Tokenizers of directories without a tokenizer.json, each as the conversion of transformers reads
its files. What comes out is a tokenizer.json's tree."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from phasor.errors import shown
from phasor.files import has_file, read_bytes, read_text
from phasor.sources.fairseq import dictionary as fairseq
from phasor.sources.hugging_face import tokenizer_model
from phasor.sources.hugging_face.added import (
    USUAL,
    added_tokens,
    class_of,
    named_token,
    read_table,
    token_text,
)
from phasor.tokenizers.json_parts import META, refuse
from phasor.tokenizers.models.byte_bpe import ALPHABET
from phasor.tokenizers.models.word_bpe import Words
from phasor.tokenizers.section import CONTROL, USER_DEFINED, TokenizerError
from phasor.tokenizers.sentencepiece import read_model_proto
from phasor.tokenizers.vocabulary import Vocabulary, special_token

# Of files whose conversion has another step around a text with these ids.
_AROUND = {
    "type": "RobertaProcessing",
    "sep": ["</s>", 2],
    "cls": ["<s>", 0],
    "trim_offsets": False,
}


def from_vocab_txt(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """What transformers' conversion of a BERT vocabulary gives."""
    lines = read_text(path).split("\n")
    vocabulary = {line: id_ for id_, line in enumerate(lines[:-1] if lines[-1] == "" else lines)}
    names = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
    usual = dict(names)
    names = {name: token_text(config, name) or text for name, text in names.items()}
    for name in ("unk", "cls", "sep"):
        if names[name] not in vocabulary:
            raise TokenizerError(
                f"{path.name}: the {name} token {names[name]!r} is not in the vocabulary"
            )
    named = [
        named_token(config, name, text, vocabulary)
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


def from_merges(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """What transformers' conversion of vocab.json and merges.txt gives: RoBERTa's where there is a
    mask, else GPT-2's. Blenderbot has RoBERTa's tokens, of which the end alone goes behind a
    text, and its mask may be no word of the vocabulary."""
    vocabulary = Vocabulary(read_table(folder / "vocab.json"), []).of_model
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
        **{name: text for name in USUAL if (text := token_text(config, name)) is not None},
    }
    named = [
        named_token(config, name, text, vocabulary, lstrip=name == "mask")
        for name, text in names.items()
    ]
    added = added_tokens(folder, config, vocabulary, named)
    ids = {**vocabulary, **{token["content"]: token["id"] for token in added}}
    for name, text in names.items():
        usual = blenderbot and name == "mask"
        if text not in vocabulary and token_text(config, name) is None and not usual:
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
        around_text = {
            "type": "RobertaProcessing",
            **around,
            "add_prefix_space": bool(config.get("add_prefix_space", False)),
            "trim_offsets": not kind.lower().startswith("deberta"),
        }
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


def from_xlm_roberta(path: Path, config: dict[str, Any]) -> dict[str, Any]:
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
        added["<mask>"] = named_token(config, "mask", "<mask>", ids)
    for name in USUAL:
        said = token_text(config, name)
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
        "post_processor": _AROUND,
        "decoder": words,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab},
    }


_BYT5_TOKENS = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}  # by their ids
_MOST_EXTRA = 1 << 16


def from_byt5(config: dict[str, Any]) -> dict[str, Any]:
    """What ByT5's class does, which has no file: three tokens, the bytes, and its extra ids. As BPE
    without merges."""
    names = [token_text(config, name) or usual for name, usual in _BYT5_TOKENS.items()]
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


def from_fairseq(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """vocab.txt and bpe.codes, as PhoBERT's and BERTweet's classes read them: a dictionary of
    fairseq, and the mask behind it."""
    if config.get("normalization"):
        refuse(
            "tokenizer_config.json: normalization, which rewrites a tweet's names, links and emoji,"
        )
    usual = {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
    usual |= {"cls": "<s>", "sep": "</s>"}
    for name, text in usual.items():
        if (token_text(config, name) or text) != text:
            raise TokenizerError(
                f"{name}_token: {shown(token_text(config, name))}, expected {text}"
            )
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
            raise TokenizerError(f"added_tokens_decoder: {shown(id_)} is not supported")
    for text, id_ in read_table(path.parent / "added_tokens.json").items():
        if special.get(text) != id_:
            raise TokenizerError(f"added_tokens.json: {shown(text)} is not supported")
    model = Words(type="words", tokens=found.tokens, merges=found.merges, special=special)
    return {
        "model": model,
        "post_processor": _AROUND,
    }


def is_blenderbot_small(config: dict[str, Any]) -> bool:
    """Whether a directory's tokenizer is of this class: its own, or of a model that names none."""
    name = config.get("tokenizer_class")
    return str(name).startswith("BlenderbotSmallTokenizer") or (
        not name and config.get("model_type") == "blenderbot-small"
    )


def from_blenderbot_small(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """vocab.json and merges.txt, as the class reads them: words of lower case, with special tokens
    among the others."""
    if has_file(folder / "tokenizer.json"):
        refuse("tokenizer.json of BlenderbotSmallTokenizer, which reads vocab.json and merges.txt,")
    vocabulary = Vocabulary(read_table(folder / "vocab.json"), []).of_model
    usual = {"bos": "__start__", "eos": "__end__", "unk": "__unk__", "pad": "__null__"}
    said = {name: text for name in USUAL if (text := token_text(config, name)) is not None}
    names = {**usual, **said}
    if names["unk"] not in vocabulary:
        raise TokenizerError(
            f"vocab.json: the unk token {shown(names['unk'])} is not in the vocabulary"
        )
    named = [named_token(config, name, text, vocabulary) for name, text in names.items()]
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


def from_tokenizer_model(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """What transformers' conversion of a SentencePiece model gives for its class, which a directory
    that names none has by its model type."""
    gemma = str(config.get("model_type")).startswith("gemma")
    usual = "GemmaTokenizer" if gemma else "LlamaTokenizer"
    config["tokenizer_class"] = config["tokenizer_class"] or usual
    kind = class_of(config["tokenizer_class"])
    names = {
        **tokenizer_model.CLASSES[kind],
        **{name: text for name in USUAL if (text := token_text(config, name)) is not None},
    }

    def named(ids: dict[str, int]) -> list[dict[str, Any]]:
        return [named_token(config, name, text, ids) for name, text in names.items()]

    return tokenizer_model.read(path, config, kind, names, named)
