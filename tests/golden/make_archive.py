#!/usr/bin/env python3
"""Writes the files of the archive that are not there: make_archive.py [DIRECTORY]. Always the same
bytes. A file that is there is never written again.

The archive has a file of every family of tests/golden/make_models.py in every type of TYPES, and a
file for every value that a field of the descriptor can have, and for every tokenizer's model: in
tests/golden/models where a golden model is one, else in tests/golden/archive, as small as the
family allows. archive/ARCHIVE.txt is its index: tests/machines/cross/archive_check.py writes and
compares it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests/support")]

import make_models as M  # noqa: E402
import numpy as np  # noqa: E402

import translators  # noqa: E402
from phasor.format import descriptor as D  # noqa: E402
from phasor.format import layout as L  # noqa: E402
from phasor.format.file import RECORD, SOURCE_TOKENIZER, TARGET_TOKENIZER  # noqa: E402
from phasor.format.record import EXACT, NO_DIGEST, Record  # noqa: E402
from phasor.tokenizers import characters, listed  # noqa: E402
from phasor.tokenizers.models import bert_bpe, pipeline  # noqa: E402

VERSION = 1
# Of the family "rotary" but for what has no type: two sections, taps, more norms, merged keys.
TYPELESS = {"tiny-chat", "tiny-lfm2", "tiny-bitnet", "tiny-merged", "tiny-gemma4"}
# What every family is there in. Types of five bits have the records of q4m and q4k, and are among
# the golden models.
TYPES = set(L.ROUNDED) - {L.Q5M, L.Q5K}
TOKENIZERS = ("unigram", "bpe", "wordpiece", "metaspace", "characters", "merged")


def one_of_each(layers: list[int]) -> list[int]:
    """Pairs (kind, weights): the first layer of each kind, and those that share its weights."""
    first = {}
    for kind, weights in zip(layers[::2], layers[1::2]):
        first.setdefault(kind, weights)
    kept = [pair for pair in zip(layers[::2], layers[1::2]) if first[pair[0]] == pair[1]]
    numbers = {weights: i for i, weights in enumerate(dict.fromkeys(pair[1] for pair in kept))}
    return [n for kind, weights in kept for n in (kind, numbers[weights])]


def small(descriptor: dict) -> dict:
    """The family with widths that just pass a panel's sixteen rows or stay below them."""
    width = 14
    old = {}
    for stack in ("encoder", "decoder"):
        if stack in descriptor:
            part = descriptor[stack]
            old[part["width"]], part["width"] = width, width
            part["layers"] = one_of_each(part["layers"])
            if "embedding_width" in part:
                old[part["embedding_width"]], part["embedding_width"] = 10, 10
            if "max_positions" in part:
                part["max_positions"] = 24
    for side in ("source", "target"):
        if side in descriptor and not descriptor[side].get("tokenizer"):
            descriptor[side]["vocabulary"] = 19
    for kind in descriptor["kinds"]:
        whole = kind.get("rotary_width") == kind["head_width"]
        kind.update(head_width=6, hidden=18)
        if "rotary_width" in kind:
            kind["rotary_width"] = 6 if whole else 4
        if kind.get("max_distance", 0) > 20:
            kind["max_distance"] = 20
    output = descriptor["output"]
    if output.get("head_width"):
        output["head_width"] = old.get(output["head_width"], 12)
    return descriptor


def block(**more: object) -> dict:
    return {**M.kind(2, 6, 18, D.BEFORE, False), "activation": D.SILU, "gated": 1, **more}


def last_token() -> dict:
    """A vector of the last token, through a dense layer; a root-mean-square norm of the
    embedding."""
    return M.encoder(
        14,
        [0, 0, 1, 1],
        D.LEARNED,
        [block(ffn_biases=1, input_scales=1), block(ffn_biases=2, input_scales=2)],
        {"output": D.POOLED, "pooling": D.LAST, "head_width": 12, "head_activation": D.RELU},
        vocabulary=19,
        max_positions=24,
        embedding_norm=D.RMS_NORM,
        embedding_norm_eps=1e-6,
    )


def late(expansion: int) -> Callable[[], dict]:
    """Vectors of all positions, for late interaction."""

    def make() -> dict:
        d = last_token()
        d["source"]["mask"] = 4
        d["output"] = {"output": D.CLASSES, "classes": 9, "scores": D.PLAIN, "expansion": expansion}
        d["output"].update(query_length=8, document_length=20, query_marker=5, document_marker=6)
        d["output"]["skipped"] = [7, 8]
        return d

    return make


def greatest() -> dict:
    """The greatest of each value over the positions, of length 1."""
    d = last_token()
    d["output"] = {"output": D.POOLED, "pooling": D.MAX, "normalize": 1}
    return d


def squared_head() -> dict:
    d = last_token()
    d["output"]["head_activation"] = D.RELU2
    return d


def embedder() -> dict:
    """A decoder's blocks as an encoder's, as Qwen3-Embedding has them: causal, rotary, grouped
    heads with norms; the second kind sees a window before itself."""
    block = {
        **M.kind(4, 6, 18, D.BEFORE, False, kv_heads=2, norm_biases=0),
        "norm": D.RMS_NORM,
        "activation": D.SILU,
        "gated": 1,
        "qk_norm": D.RMS_NORM,
        "position": D.ROTARY_HALVES,
        "rotary_width": 6,
        "causal": 1,
    }
    return M.encoder(
        14,
        [0, 0, 1, 1],
        0,
        [block, {**block, "window": 4}],
        {"output": D.POOLED, "pooling": D.LAST, "normalize": 1},
        vocabulary=19,
        max_positions=40,
        final_norm=D.RMS_NORM,
        final_norm_eps=1e-6,
    )


def hunyuan() -> dict:
    """A decoder whose norms of q and k come after their rotation, and one block with squared
    ReLU."""
    d = small(M.lm())
    block = {
        **M.kind(4, 6, 18, D.BEFORE, False, kv_heads=2, norm_biases=0),
        "norm": D.RMS_NORM,
        "activation": D.SILU,
        "gated": 1,
        "qk_norm": D.RMS_NORM,
        "qk_norm_place": D.NORM_LAST,
        "position": D.ROTARY_HALVES,
        "rotary_width": 6,
    }
    d["kinds"] = [block, {**block, "activation": D.RELU2, "gated": 0}]
    d["decoder"]["layers"] = [0, 0, 1, 1]
    return d


def separate() -> dict:
    """A decoder whose values have a matrix of their own in the second block, as K-quants have it,
    with a bias in both."""
    own = block(attention_biases=D.QKV_BIASES, kv_heads=1)
    d = small(M.lm())
    d["kinds"] = [own, {**own, "separate_v": 1}]
    d["decoder"]["layers"] = [0, 0, 1, 1]
    return d


def apertus() -> dict:
    """A decoder with xIELU, whose numbers are a tensor of each layer."""
    d = hunyuan()
    block = {**d["kinds"][1], "activation": D.XIELU, "qk_norm_place": D.NORM_FIRST}
    d["kinds"] = [block]
    d["decoder"]["layers"] = [0, 0, 0, 1]
    return d


def per_layer() -> dict:
    """Gemma 4's per-layer embeddings, with a layer norm."""
    d = small(M.gemma4())
    d["decoder"].update(per_layer_norm=D.LAYER_NORM, layers=M.gemma4()["decoder"]["layers"])
    return d


def plain_scores() -> dict:
    """A classifier that gives its scores as they are; a dense layer with SiLU and a norm."""
    output = {
        "output": D.CLASSES,
        "classes": 2,
        "pooling": D.MEAN,
        "scores": D.PLAIN,
        "head_width": 12,
        "head_activation": D.SILU,
        "head_norm": D.RMS_NORM,
        "head_norm_eps": 1e-6,
    }
    return M.encoder(
        14, [0, 0], D.HALVES, [block()], output, vocabulary=19, max_positions=24
    )  # fmt: skip


def generation(sample: int) -> Callable[[], dict]:
    """A decoder that recommends how its tokens are chosen."""

    def make() -> dict:
        d = small(M.lm())
        d["generation"] = {"sample": sample, "temperature": 0.75, "top_k": 5, "top_p": 0.9}
        d["generation"].update(repetition_penalty=1.25, no_repeat_ngram=3, suppressed=[7])
        return d

    return make


# ---- Encoder-decoders as the converter writes them from Hugging Face directories: one embedding,
# which is also the output's matrix unless that is the model's own

TRANSLATORS = (
    *("marian", "bart", "mbart", "pegasus", "blenderbot", "blenderbot-small"),
    *("m2m", "mt5", "umt5"),
)


def joined() -> dict:
    """A BERT with a decoder like it, as EncoderDecoderModel has them: the logits behind a dense
    layer with a norm."""
    block = {**M.kind(2, 6, 18, D.AFTER, True), "activation": D.GELU_ERF}
    about = {"max_positions": 24, "embedding_scale": 1.0, "segments": 2}
    about.update(embedding_norm=D.LAYER_NORM, embedding_norm_eps=1e-12)
    head = {"head_width": 12, "head_bias": 1, "head_activation": D.GELU_ERF}
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": M.side(24, suffix=[M.END]),
        "target": M.side(21, decoder_start=M.PAD),
        "encoder": M.stack(12, [0, 0, 0, 1], D.LEARNED, **about),
        "decoder": M.stack(12, [1, 0, 1, 1], D.LEARNED, **about),
        "kinds": [block, {**block, "cross": 1, "cross_biases": D.ATTENTION_BIASES}],
        "output": {
            **{"output": D.LOGITS, "tied": D.TIED_TARGET, "bias": 1},
            **{**head, "head_norm": D.LAYER_NORM, "head_norm_eps": 1e-12},
        },
    }


def entailment() -> dict:
    """A BART that gives classes, at each position of its decoder."""
    d = translator("bart")
    labels = "".join(f"{name}{D.RECORD_END}" for name in ("contradiction", "entailment"))
    d["output"] = {
        **{"output": D.CLASSES, "classes": 2, "labels": labels, "bias": 1},
        **{"head_width": 12, "head_bias": 1, "head_activation": D.TANH},
    }
    del d["generation"]
    return d


BEAMS = {
    "marian": {"beams": 6, "length_penalty": 0.5, "early_stopping": 1, "suppressed": [2]},
    "bart": {"beams": 4, "early_stopping": 2, "no_repeat_ngram": 3},
}


def translator(name: str) -> dict:
    """A family of these: where its norms are, what its positions are, its feed-forward layers."""
    rms = "t5" in name
    before = name not in ("marian", "bart", "blenderbot-small")
    block = M.kind(2, 6, 18, D.BEFORE if before else D.AFTER, not rms)
    block.update(activation=D.RELU if name == "m2m" else D.GELU_ERF)
    about = {"max_positions": 24, "embedding_scale": 1.0}
    if before:
        about.update(final_norm=D.LAYER_NORM, final_norm_eps=1e-5)
    if name in ("bart", "mbart", "blenderbot-small"):
        about.update(embedding_norm=D.LAYER_NORM, embedding_norm_eps=1e-5)
    if name == "m2m":
        about.update(embedding_scale=12**0.5)
    position = D.HALVES if name in ("marian", "pegasus") else D.LEARNED
    if rms:
        about, position = {"embedding_scale": 1.0, "final_norm": D.RMS_NORM}, 0
        about.update(final_norm_eps=1e-6)
        block.update(norm=D.RMS_NORM, norm_eps=1e-6, norm_biases=0, scale=1.0, gated=1)
        block.update(activation=D.GELU_TANH, position=D.T5_BIAS, max_distance=12)
    crossed = {**block, "cross": 1, "cross_biases": D.ATTENTION_BIASES * (not rms)}
    each = 2 if name == "umt5" else 1  # kinds of a stack: each of UMT5's layers has its own bias
    layers = [[n for i in (0, 1) for n in (stack * each + i * (each - 1), i)] for stack in (0, 1)]
    output = {"output": D.LOGITS, "tied": D.TIED_OWN if name == "mt5" else D.TIED_SOURCE}
    if not rms and name != "m2m":
        output["bias"] = 1
    if name == "umt5":
        output["scale"] = 12**-0.5
    around = {"suffix": [M.END], "vocabulary": 24}
    first = {"embedding_norm_place": 1} if name == "blenderbot-small" else {}
    out = {
        "model": {"stack": D.ENCODER_DECODER},
        "source": M.side(**around),
        "target": M.side(24, decoder_start=M.PAD, embedding_shared=1),
        "encoder": M.stack(12, layers[0], position, **about),
        "decoder": M.stack(12, layers[1], position, **about, **first),
        "kinds": [*[dict(block) for _ in range(each)], *[dict(crossed) for _ in range(each)]],
        "output": output,
    }
    if name == "marian":
        out["source"]["tokenizer"], out["target"]["tokenizer"] = SOURCE_TOKENIZER, TARGET_TOKENIZER
    if name in BEAMS:
        out["generation"] = BEAMS[name]
    return out


def marian_sections() -> dict[int, bytes]:
    """A pair of SentencePiece models with a list of ids."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in translators.marian_files().items():
            (Path(folder) / name).write_bytes(data)
        made, _ = listed.marian_sections(Path(folder), {})
    return {SOURCE_TOKENIZER: made["source"], TARGET_TOKENIZER: made["target"]}


def beams(early_stopping: int, **more: int) -> Callable[[], dict]:
    """An encoder-decoder that recommends a beam search."""

    def make() -> dict:
        d = small(M.MODELS["tiny-d2l"][0]())
        d["generation"] = {"beams": 3, "length_penalty": 0.5, "early_stopping": early_stopping}
        d["generation"].update(source_no_repeat_ngram=2, bad_words=[2, 5, 6, 1, 7], forced_last=3)
        d["generation"].update(more)
        return d

    return make


def rows_of(section: bytes) -> int:
    """The tokens of a tokenizer's section."""
    return int.from_bytes(section[8:12], "little")


def tokenizers() -> dict[str, bytes]:
    table = ["<pad>", "[UNK]", "\n", " ", *"abcdefgh\u00e9\u732b"]
    made = {"table": characters.build_characters_section(table, None)}
    letters = ["<unk>", *"abc!", *(f"{c}</w>" for c in "abc!"), "ab", "ab</w>", "abc</w>"]
    model = {"type": "BPE", "unk_token": "<unk>", "end_of_word_suffix": "</w>"}
    model |= {"vocab": {piece: id_ for id_, piece in enumerate(letters)}}
    model |= {"merges": ["a b", "a b</w>", "ab c</w>"]}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    spec = {"model": model, "normalizer": {**bert, "strip_accents": None, "lowercase": True}}
    spec |= {"added_tokens": [], "pre_tokenizer": {"type": "BertPreTokenizer"}}
    spec |= {"decoder": {"type": "BPEDecoder", "suffix": "</w>"}}
    made["bert-words"] = bert_bpe.from_json(spec)[0]
    words = ["[UNK]", "e\u0301t\u00e9", "caf\u00e9", "##s", "."]
    forms = [{"type": "NFC"}, {"type": "Lowercase"}]
    spec = {"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
    spec |= {"normalizer": {"type": "Sequence", "normalizers": forms}}
    spec |= {"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False}}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    model |= {"max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(words)}}
    made["pipeline"] = pipeline.from_json({**spec, "model": model})[0]
    return made | {name: (HERE / f"tokenizers/{name}.bin").read_bytes() for name in TOKENIZERS}


def with_tokenizer(section: bytes) -> tuple[Callable[[], dict], dict[int, bytes]]:
    def make() -> dict:
        d = small(M.lm())
        d["decoder"]["width"] = 6
        d["output"]["tied"] = D.TIED_TARGET
        d["target"].update(vocabulary=rows_of(section), tokenizer=TARGET_TOKENIZER)
        return d

    return make, {TARGET_TOKENIZER: section}


def planned() -> dict[str, tuple[Callable[[], dict], int, dict[int, bytes]]]:
    """name of the file -> descriptor, type, sections."""
    out = {}
    for name, (make, _) in M.MODELS.items():
        if name in TYPELESS:
            continue
        for kind in TYPES - set(M.types_of(name)):
            file = f"v{VERSION}-{name.removeprefix('tiny-')}-{L.TYPES[kind]}"
            out[file] = (lambda make=make: small(make())), kind, M.sections_of(name)
    for name, make in {
        "last-token": last_token,
        "plain-scores": plain_scores,
    }.items():
        for kind in (L.F32, L.F16, L.BF16, L.Q8, L.Q4):
            out[f"v{VERSION}-{name}-{L.TYPES[kind]}"] = make, kind, {}
    for kind in (L.F32, L.Q8):
        out[f"v{VERSION}-embedder-{L.TYPES[kind]}"] = embedder, kind, {}
        out[f"v{VERSION}-hunyuan-{L.TYPES[kind]}"] = hunyuan, kind, {}
        out[f"v{VERSION}-separate-{L.TYPES[kind]}"] = separate, kind, {}
        out[f"v{VERSION}-greatest-{L.TYPES[kind]}"] = greatest, kind, {}
    out[f"v{VERSION}-squared-head-{L.TYPES[L.F32]}"] = squared_head, L.F32, {}
    out[f"v{VERSION}-apertus-{L.TYPES[L.Q8]}"] = apertus, L.Q8, {}
    for kind in (L.F16, L.Q4):
        out[f"v{VERSION}-per-layer-{L.TYPES[kind]}"] = per_layer, kind, {}
    for name, make in {"late": late(1), "late-seen": late(2)}.items():
        out[f"v{VERSION}-{name}-{L.TYPES[L.F16]}"] = make, L.F16, {}
    for name, make in {"greedy": generation(0), "sampled": generation(1)}.items():
        out[f"v{VERSION}-{name}-{L.TYPES[L.F16]}"] = make, L.F16, {}
    for name in TRANSLATORS:
        sections = marian_sections() if name == "marian" else {}
        for kind in TYPES if name == "marian" else (L.F16,):
            make = lambda name=name: translator(name)  # noqa: E731
            out[f"v{VERSION}-{name}-{L.TYPES[kind]}"] = make, kind, sections
    for kind in (L.F16, L.Q8):
        out[f"v{VERSION}-joined-{L.TYPES[kind]}"] = joined, kind, {}
        out[f"v{VERSION}-entailment-{L.TYPES[kind]}"] = entailment, kind, {}
    whole = beams(1, renormalize=1)
    for name, make in {"beams": beams(1), "beams-never": beams(2), "beams-whole": whole}.items():
        out[f"v{VERSION}-{name}-{L.TYPES[L.F16]}"] = make, L.F16, M.sections_of("tiny-d2l")
    none = Record(NO_DIGEST, EXACT, NO_DIGEST, np.zeros((0, 1), np.uint32)).section()
    out[f"v{VERSION}-record-{L.TYPES[L.F16]}"] = joined, L.F16, {RECORD: none}
    for name, section in tokenizers().items():
        make, sections = with_tokenizer(section)
        out[f"v{VERSION}-tokenizer-{name}-{L.TYPES[L.F16]}"] = make, L.F16, sections
    return out


def main() -> int:
    if len(sys.argv) > 2:
        print("usage: make_archive.py [DIRECTORY]", file=sys.stderr)
        return 2
    directory = Path(sys.argv[1]) if len(sys.argv) == 2 else HERE / "archive"
    directory.mkdir(parents=True, exist_ok=True)
    for name, (make, kind, sections) in sorted(planned().items()):
        path = directory / f"{name}.phasor"
        if path.exists():
            continue
        descriptor = make()
        descriptor["model"].update(name=name, license="MIT", converter="make_archive.py")
        M.write_described(path, name, descriptor, kind, sections)
        print(f"{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
