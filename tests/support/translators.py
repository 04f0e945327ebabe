"""Tiny valid directories of encoder-decoders, as Hugging Face's library saves them, made without
it: a configuration, the tensors that it asks for, and a pair of SentencePiece models with their
list."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phasor.families.encoder_decoders import FAMILIES
from phasor.families.encoders.bert import BERT
from phasor.families.family import Family
from phasor.families.names import bias_name
from phasor.families.stack import STACKS

ROWS, WIDTH, HEADS, HIDDEN, LAYERS, POSITIONS, BUCKETS = 24, 16, 2, 24, 2, 16, 8
_BART = {
    "vocab_size": ROWS,
    "d_model": WIDTH,
    "max_position_embeddings": POSITIONS,
    **{f"{stack}_layers": LAYERS for stack in STACKS},
    **{f"{stack}_attention_heads": HEADS for stack in STACKS},
    **{f"{stack}_ffn_dim": HIDDEN for stack in STACKS},
}
_TARGET_ROWS = ROWS - 3  # of a family with two vocabularies
_FSMT = {
    **{name: value for name, value in _BART.items() if name != "vocab_size"},
    "src_vocab_size": ROWS,
    "tgt_vocab_size": _TARGET_ROWS,
}
_T5 = {
    "vocab_size": ROWS,
    "d_model": WIDTH,
    "d_kv": WIDTH // HEADS,
    "d_ff": HIDDEN,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "relative_attention_num_buckets": BUCKETS,
    "relative_attention_max_distance": 12,
}
_GEMMA = {
    "model_type": "t5_gemma_module",
    "vocab_size": ROWS,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": WIDTH // HEADS,
    "intermediate_size": HIDDEN,
    "max_position_embeddings": POSITIONS,
    "sliding_window": 3,
}
_HALVES = {
    "vocab_size": ROWS,
    "encoder": _GEMMA,
    "decoder": {**_GEMMA, "is_decoder": True, "cross_attention_hidden_size": WIDTH},
}
_TEXT = {**_GEMMA, "model_type": "t5gemma2_text"}
_END_OF_PICTURE = "model.encoder.text_model.embed_tokens.eoi_embedding"
_MERGED = {
    "transformers_version": "5.23.0",
    "encoder": {"model_type": "t5gemma2_encoder", "eoi_token_index": 7, "text_config": _TEXT},
    "decoder": {**_GEMMA, "model_type": "t5gemma2_decoder"},
}
_SIZES = {"d_ff": _T5, "tgt_vocab_size": _FSMT}  # by what a family alone has


def configuration(kind: str, **more: Any) -> dict[str, Any]:
    """config.json of a model type."""
    family = next(f for f in FAMILIES if kind in f.types)
    sizes = next(
        (own for name, own in _SIZES.items() if name in family.defaults),
        _HALVES if family.half_of else _BART,
    )
    sizes = _MERGED if kind == "t5gemma2" else sizes
    ids = {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 3}
    return {
        "model_type": kind,
        "architectures": [family.classes[0]],
        "is_encoder_decoder": True,
        "transformers_version": "4.57.6",
        **sizes,
        **ids,
        **more,
    }


def _shape(part: str) -> tuple[int, ...]:
    if part in ("positions", "sinusoid"):
        return (POSITIONS + 2 * (part == "positions"), WIDTH)
    if part == "t5_bias":
        return (BUCKETS, HEADS)
    if "norm" in part or part.endswith("_after"):
        return (WIDTH,)
    if part == "embedding":
        return (ROWS, WIDTH)
    wide = {"ffn_in": (HIDDEN, WIDTH), "ffn_gate": (HIDDEN, WIDTH), "ffn_out": (WIDTH, HIDDEN)}
    return wide.get(part, (WIDTH, WIDTH))


def tensors(kind: str, seed: int = 3, rows: int = ROWS) -> dict[str, np.ndarray]:
    """The tensors of such a model, float32."""
    family = next(f for f in FAMILIES if kind in f.types)
    rng = np.random.default_rng(seed)
    out = _halves(family) if family.half_of else _alike(family, kind, rows)
    return {
        name: rng.normal(float("norm" in name and name.endswith("weight")), 0.3, shape).astype(
            "<f4"
        )
        for name, shape in out.items()
    }


def _halves(family: Family) -> dict[str, tuple[int, ...]]:
    """The shapes of two stacks of one decoder's family."""
    names, out = family.half_of.names, {}
    merged = "cross_q" not in names
    for stack in STACKS:
        start = f"{family.trunk}{stack}." + "text_model." * (merged and stack == "encoder")
        for part, name in names.items():
            normed, crossing = part in ("q_norm", "k_norm"), part.startswith("cross_")
            tied = merged and (stack, part) == ("decoder", "embedding")
            if part == "output" or tied or (normed and not merged):
                continue
            for layer in range(LAYERS if "{layer}" in name else 1):
                if stack == "decoder" or not crossing:
                    shape = (WIDTH // HEADS,) if normed else _shape(part)
                    out[start + name.format(layer=layer)] = shape
    return {**out, _END_OF_PICTURE: (WIDTH,)} if merged else out


def _alike(family: Family, kind: str, rows: int) -> dict[str, tuple[int, ...]]:
    """The shapes of two stacks whose tensors one table names."""
    out = {family.embeddings[0]: (rows, WIDTH)}
    if "tgt_vocab_size" in family.defaults:
        out[family.embeddings[1]] = (_TARGET_ROWS, WIDTH)
    elif not family.defaults.get("tie_word_embeddings", True):
        out[family.names["output"]] = (rows, WIDTH)
    if "output_bias" in family.names:
        out[family.names["output_bias"]] = (1, rows)
    t5 = "d_ff" in family.defaults
    for stack in STACKS:
        for part, name in family.names.items():
            crossing = part.startswith("cross_") and stack == "encoder"
            if crossing or part in ("output", "output_bias", "embedding", "sinusoid"):
                continue
            shape = _shape(part)
            if part == "positions" and kind.startswith("blenderbot"):
                shape = (POSITIONS, WIDTH)
            names = [name]
            if part == "ffn_in" and "gated" in family.defaults.get("feed_forward_proj", ""):
                names = [name.replace("wi.", f"wi_{i}.") for i in (0, 1)]
            for one in names:
                for layer in range(LAYERS if "{layer}" in one else 1):
                    last = 1 if stack == "encoder" else 2
                    full = one.format(layer=layer, stack=stack, last=last)
                    out[full] = shape
                    if not t5 and part != "positions":
                        out[bias_name(full)] = shape[:1]
    return out


# ---- An encoder and a decoder of BERT


def joined_configuration(**more: Any) -> dict[str, Any]:
    """config.json of an EncoderDecoderModel."""
    bert = {
        "model_type": "bert",
        "vocab_size": ROWS,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": HIDDEN,
        "max_position_embeddings": POSITIONS,
    }
    return {
        "model_type": "encoder-decoder",
        "architectures": ["EncoderDecoderModel"],
        "is_encoder_decoder": True,
        "transformers_version": "4.57.6",
        "encoder": dict(bert),
        "decoder": {**bert, "is_decoder": True, "add_cross_attention": True},
        "pad_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 3,
        **more,
    }


def joined_tensors(seed: int = 3) -> dict[str, np.ndarray]:
    """The tensors of such a model, float32."""
    shapes: dict[str, tuple[int, ...]] = {"decoder.cls.predictions.bias": (ROWS,)}
    tables = {"embedding": (ROWS, WIDTH), "positions": (POSITIONS, WIDTH), "segments": (2, WIDTH)}
    head = "decoder.cls.predictions.transform."
    named = [(f"{head}dense.weight", (WIDTH, WIDTH)), (f"{head}LayerNorm.weight", (WIDTH,))]
    for start in ("encoder.", "decoder.bert."):
        for part, name in BERT.names.items():
            if part.startswith("cross_") and start == "encoder.":
                continue
            for layer in range(LAYERS if "{layer}" in name else 1):
                if part in tables:
                    shapes[start + name] = tables[part]
                elif part != "relative_keys":
                    named.append((start + name.format(layer=layer), _shape(part)))
    for name, shape in named:
        shapes |= {name: shape, bias_name(name): shape[:1]}
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(float("Norm.w" in name), 0.3, shape).astype("<f4")
        for name, shape in shapes.items()
    }


def write_joined(folder: Path, files: dict[str, bytes] | None = None, **more: Any) -> Path:
    """Writes such a directory; `more` goes into its config.json."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(joined_configuration(**more)))
    save_file(joined_tensors(), folder / "model.safetensors")
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
    return folder


def alone_configuration(**more: Any) -> dict[str, Any]:
    """config.json of its decoder alone."""
    return {
        **joined_configuration()["decoder"],
        "architectures": ["BertLMHeadModel"],
        "transformers_version": "4.57.6",
        "bos_token_id": 3,
        "eos_token_id": 2,
        **more,
    }


def alone_tensors() -> dict[str, np.ndarray]:
    start = "decoder."
    held = joined_tensors().items()
    return {name.removeprefix(start): value for name, value in held if name.startswith(start)}


def write_alone(folder: Path, files: dict[str, bytes] | None = None, **more: Any) -> Path:
    """Writes the directory of that decoder; `more` goes into its config.json."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(alone_configuration(**more)))
    save_file(alone_tensors(), folder / "model.safetensors")
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
    return folder


# ---- Tokenizers


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def proto(pieces: list[tuple[str, float, int]], model_type: int = 1) -> bytes:
    """A SentencePiece model: (text, score, type) by id."""
    rows = (
        _field(1, _field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + _field(3, kind))
        for text, score, kind in pieces
    )
    return b"".join(rows) + _field(2, _field(3, model_type))


CONTROLS = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
SOURCE_PIECES = ["▁", "a", "b", "▁a", "ab", "▁ab", "lost", "c"]
TARGET_PIECES = ["▁", "x", "y", "▁x", "é", "c"]
LANGUAGES = [">>eng<<", ">>cmn_Hans<<"]


def marian_files(**config: Any) -> dict[str, bytes]:
    """The files of a MarianMT tokenizer; the piece "lost" has no id."""
    texts = ["</s>", "<unk>", "<pad>", *LANGUAGES]
    texts += [t for t in dict.fromkeys(SOURCE_PIECES + TARGET_PIECES) if t != "lost"]
    assert len(texts) <= ROWS
    pieces = {
        f"{side}.spm": proto([*CONTROLS, *((t, -5.0 - i / 100, 1) for i, t in enumerate(texts_of))])
        for side, texts_of in (("source", SOURCE_PIECES), ("target", TARGET_PIECES))
    }
    said = {
        "tokenizer_class": "MarianTokenizer",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        **config,
    }
    return {
        **pieces,
        "vocab.json": json.dumps({text: i for i, text in enumerate(texts)}).encode(),
        "tokenizer_config.json": json.dumps(said).encode(),
    }


def t5_files(**config: Any) -> dict[str, bytes]:
    """The files of a T5 tokenizer that only its slow class reads, with two sentinels."""
    pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2)]
    pieces += [(t, -5.0 - i / 100, 1) for i, t in enumerate(SOURCE_PIECES)]
    said = {"tokenizer_class": "T5Tokenizer", "extra_ids": 2, "legacy": True, **config}
    return {
        "spiece.model": proto(pieces),
        "tokenizer_config.json": json.dumps(said).encode(),
    }


def pegasus_files(**config: Any) -> dict[str, bytes]:
    """The files of a Pegasus tokenizer that only its slow class reads: 105 + 9 ids."""
    pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2)]
    pieces += [(t, -5.0 - i / 100, 1) for i, t in enumerate(SOURCE_PIECES)]
    said = {"tokenizer_class": "PegasusTokenizer", **config}
    return {"spiece.model": proto(pieces), "tokenizer_config.json": json.dumps(said).encode()}


def fairseq_files(kind: str, **config: Any) -> dict[str, bytes]:
    """The files of an mBART's tokenizer, of PLBart's or of NLLB's, that only its slow class reads:
    12 ids and the languages."""
    pieces = [*CONTROLS, *((t, -5.0 - i / 100, 1) for i, t in enumerate(SOURCE_PIECES))]
    behind = {"12": "eng_Latn", "13": "fra_Latn", "14": "<mask>"} if kind == "Nllb" else {}
    added = {id_: {"content": text} for id_, text in behind.items()}
    said = {"tokenizer_class": f"{kind}Tokenizer", "added_tokens_decoder": added, **config}
    return {
        "sentencepiece.bpe.model": proto(pieces),
        "tokenizer_config.json": json.dumps(said).encode(),
    }


T5_IDS = {
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
    "decoder_start_token_id": 0,
}
MARIAN_IDS = {
    "pad_token_id": 2,
    "eos_token_id": 0,
    "bos_token_id": None,
    "decoder_start_token_id": 2,
}


SMALL_WORDS = ["__null__", "__start__", "__end__", "__unk__", "a@@", "a", "b", "ab", ".", "'", "!"]
SMALL_MERGES = "#version: 0.2\na b</w>\n_ _</w>\n"


def small_blenderbot_files(
    words: Sequence[str] = SMALL_WORDS, merges: str = SMALL_MERGES, **config: object
) -> dict[str, bytes]:
    """BlenderbotSmall's, as they are published: no class is named."""
    rows = [*words, *"cdefghijklmn"][:ROWS]
    return {
        "vocab.json": json.dumps({text: i for i, text in enumerate(rows)}).encode(),
        "merges.txt": merges.encode(),
        "tokenizer_config.json": json.dumps(config).encode(),
    }


def write(folder: Path, kind: str, files: dict[str, bytes] | None = None, **more: Any) -> Path:
    """Writes a directory; `more` goes into its config.json."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(configuration(kind, **more)))
    rows = more.get("vocab_size", ROWS)
    save_file(tensors(kind, rows=rows), folder / "model.safetensors")
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
    return folder
