#!/usr/bin/env python3
"""Writes the small random models of the tests: make_models.py DIRECTORY. numpy only; the same bytes
every time.

The weights are uniform numbers from SHAKE-128 of the tensor's name, so they do not depend on a
library's generator. Each model is there in f32 and in q8, some in every type, with test vectors
from the float64 reference; hashes are not recorded in them, they are in tests/golden/hashes.txt.
tiny-post-sin-q8 has weights of −128, which the quantizer never makes. Some are there with inputs of
16 bits.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Callable

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from phasor import vectors as V  # noqa: E402
from phasor.files import replacing
from phasor.format import (
    coded,
    records,  # noqa: E402
)
from phasor.format import descriptor as D  # noqa: E402
from phasor.format import layout as L
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import (
    CHAT,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    VECTORS,
    PhasorFile,
    Quantized,
)
from phasor.format.meta import as_stored
from phasor.format.writer import replace_section, write_model
from phasor.tokenizers.models.word_list import build_wordlist_section  # noqa: E402

PAD, UNKNOWN, START, END = 0, 1, 2, 3


def uniform(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of [−1, 1) in f32, a function of the name and the count."""
    count = int(np.prod(shape))
    words = np.frombuffer(hashlib.shake_128(name.encode()).digest(4 * count), dtype="<u4")
    return ((words >> 8).astype(np.float64) / 2**23 - 1).astype(np.float32).reshape(shape)


def random_weights(name: str, slot: R.Slot, width: int) -> np.ndarray:
    """What a trained model might have: matrices of variance 1/K, norms near 1, small biases."""
    rows = sum(slot.parts)
    seed = f"{name} {slot.name}".replace(", ", " ")  # as the files of version 0.1 have it
    if slot.role == R.SINUSOID and slot.stack in (R.SOURCE, R.TARGET):
        return 10000.0 ** (-2.0 * np.arange(rows) / width)
    if slot.stack == R.KINDS and slot.role == R.ROTARY:
        return 10000.0 ** (-np.arange(rows) / rows)
    if slot.stack == R.KINDS and slot.role == R.ALIBI:
        return (2.0 ** -(1 + np.arange(rows))).astype(np.float32)
    if slot.role in (R.SCORE, R.CROSS_SCORE) and slot.stack in (R.ENCODER, R.DECODER):
        return uniform(seed, (rows,)) * np.float32(1.5)
    if slot.role in (R.QKV_SCALE, R.FFN_SCALE) and slot.stack in (R.ENCODER, R.DECODER):
        return np.exp2(np.rint(2 * uniform(seed, (rows,))))  # powers of two
    if slot.role == R.TAPS and slot.stack == R.DECODER:
        return uniform(seed, (rows, slot.cols))
    if slot.layout == L.VECTOR:
        values = uniform(seed, (rows,)) * np.float32(0.1)
        is_norm = (
            slot.role
            in (
                R.ATTENTION_BEFORE,
                R.ATTENTION_AFTER,
                R.CROSS_BEFORE,
                R.CROSS_AFTER,
                R.FFN_BEFORE,
                R.FFN_AFTER,
                R.ATTENTION_INNER,
                R.FFN_INNER,
                R.FINAL_NORM,
                R.Q_NORM,
                R.K_NORM,
                R.V_NORM,
                R.PER_LAYER_AFTER,
                R.LAYER_SCALE,
            )
            and slot.stack in (R.ENCODER, R.DECODER)
            or slot.stack == R.TARGET
            and slot.role == R.PER_LAYER_NORM
            or slot.stack == R.OUTPUT
            and slot.role == R.HEAD_NORM
        )
        return values + np.float32(1) if is_norm else values
    gain = 2.0 if slot.role == R.QKV else 1.0  # attention that is not flat
    return uniform(seed, (rows, slot.cols)) * np.float32(gain * np.sqrt(3 / slot.cols))


def side(vocabulary: int, **more: object) -> dict:
    return {
        "vocabulary": vocabulary,
        "pad": PAD,
        "unknown": UNKNOWN,
        "start": START,
        "end": [END],
        **more,
    }


def kind(heads: int, width: int, hidden: int, place: int, biases: bool, **more: object) -> dict:
    return {
        "norm": D.LAYER_NORM,
        "norm_place": place,
        "norm_eps": 1e-5,
        "heads": heads,
        "head_width": width,
        "scale": float(width) ** -0.5,
        "hidden": hidden,
        "activation": D.RELU,
        "attention_biases": D.ATTENTION_BIASES * biases,
        "ffn_biases": D.FFN_BIASES * biases,
        **more,
    }


def stack(width: int, layers: list[int], position: int, **more: object) -> dict:
    return {
        "width": width,
        "layers": layers,
        "position": position,
        "embedding_scale": float(width) ** 0.5,
        **more,
    }


def post_sin() -> dict:
    """The original Transformer: norm after, sinusoids, an output of its own with a bias."""
    block = kind(2, 20, 52, D.AFTER, True)
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side(61, suffix=[END]),
        "target": side(67, decoder_start=START),
        "encoder": stack(40, [0, 0, 0, 1], D.INTERLEAVED, max_positions=96),
        "decoder": stack(40, [1, 0, 1, 1], D.INTERLEAVED, max_positions=96),
        "kinds": [block, {**block, "cross": 1, "cross_biases": D.ATTENTION_BIASES}],
        "output": {"output": D.LOGITS, "bias": 1},
    }


def pre_learned() -> dict:
    """Norm before with final norms, learned positions, a tied output, no biases, one key and value
    head for three."""
    block = kind(3, 16, 40, D.BEFORE, False, kv_heads=1, norm_biases=0)
    final = {"final_norm": D.LAYER_NORM, "final_norm_eps": 1e-5, "max_positions": 48}
    # A final layer norm has a bias in the format; the blocks' norms here have none.
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side(53, suffix=[END]),
        "target": side(71, decoder_start=START),
        "encoder": stack(48, [0, 0, 0, 1, 0, 2], D.LEARNED, **final),
        "decoder": stack(48, [1, 0], D.LEARNED, **final),
        "kinds": [block, {**block, "cross": 1}],
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
    }


def d2l() -> dict:
    """The tutorial's style: attention without biases, five heads, sinusoids, word lists as
    tokenizers."""
    block = {**kind(5, 12, 36, D.AFTER, False), "ffn_biases": D.FFN_BIASES}
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side(43, tokenizer=SOURCE_TOKENIZER, suffix=[END]),
        "target": side(47, tokenizer=TARGET_TOKENIZER, decoder_start=START),
        "encoder": stack(60, [0, 0], D.INTERLEAVED),
        "decoder": stack(60, [1, 0], D.INTERLEAVED),
        "kinds": [block, {**block, "cross": 1}],
        "output": {"output": D.LOGITS, "bias": 1},
    }


def lm() -> dict:
    """A decoder alone: norm before, ReLU, sinusoids in halves; vocabulary and hidden width are not
    multiples of 16."""
    return {
        "model": {"stack": D.DECODER},
        "target": side(59),
        "kinds": [kind(2, 16, 44, D.BEFORE, True)],
        "decoder": stack(32, [0, 0, 0, 1], D.HALVES, final_norm=D.LAYER_NORM, final_norm_eps=1e-5),
        "output": {"output": D.LOGITS},
    }


def chat() -> dict:
    """A decoder with a byte-level tokenizer and a chat program."""
    block = {
        **kind(2, 16, 24, D.BEFORE, False, kv_heads=1, norm_biases=0),
        "norm": D.RMS_NORM,
        "activation": D.SILU,
        "gated": 1,
    }
    target = {
        "vocabulary": 901,
        "pad": 1,
        "unknown": 3,
        "start": 0,
        "end": [2],
        "tokenizer": TARGET_TOKENIZER,
    }
    return {
        "model": {"stack": D.DECODER},
        "target": target,
        "kinds": [{**block, "position": D.ROTARY_HALVES, "rotary_width": 16}],
        "decoder": {
            **stack(16, [0, 0], 0, final_norm=D.RMS_NORM, final_norm_eps=1e-5),
            "embedding_scale": 1.0,
        },
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
    }


def rotary() -> dict:
    """Llama's block: RMS norm before, gated SiLU, grouped heads, rotary positions; the two layers
    turn pairs and halves, the second in part."""
    block = {
        **kind(4, 16, 44, D.BEFORE, False, kv_heads=2, norm_biases=0),
        "norm": D.RMS_NORM,
        "activation": D.SILU,
        "gated": 1,
    }
    return {
        "model": {"stack": D.DECODER},
        "target": side(61),
        "kinds": [
            {**block, "position": D.ROTARY_INTERLEAVED, "rotary_width": 16},
            {**block, "position": D.ROTARY_HALVES, "rotary_width": 10},
        ],
        "decoder": {
            **stack(40, [0, 0, 1, 1], 0, final_norm=D.RMS_NORM, final_norm_eps=1e-5),
            "embedding_scale": 1.0,
        },
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
    }


def gptj() -> dict:
    """GPT-J, Phi, Cohere: a parallel block with one norm for both sub-layers, interleaved rotary
    positions in part, an output bias."""
    block = {
        **kind(3, 14, 46, D.BEFORE, False, ffn_biases=D.FFN_BIASES),
        "activation": D.GELU_TANH,
        "parallel": D.SHARED_INPUT,
        "position": D.ROTARY_INTERLEAVED,
        "rotary_width": 8,
    }
    return {
        "model": {"stack": D.DECODER},
        "target": side(58),
        "kinds": [block],
        "decoder": {
            **stack(42, [0, 0, 0, 1], 0, final_norm=D.LAYER_NORM, final_norm_eps=1e-5),
            "embedding_scale": 1.0,
        },
        "output": {"output": D.LOGITS, "bias": 1},
    }


def neox() -> dict:
    """GPT-NeoX, Falcon, StableLM, MPT: a parallel block with a norm for each; q, k, v clipped, then
    each head has a norm of its own weights."""
    block = {
        **kind(4, 10, 44, D.BEFORE, True, kv_heads=2),
        "activation": D.GELU_ERF,
        "parallel": D.TWO_NORMS,
        "position": D.ROTARY_HALVES,
        "rotary_width": 4,
        "qk_norm": D.LAYER_NORM,
        "qk_norm_over": D.OWN_HEAD,
        "qkv_clip": 1.5,
    }
    return {
        "model": {"stack": D.DECODER},
        "target": side(50),
        "kinds": [block],
        "decoder": {
            **stack(38, [0, 0, 0, 1], 0, final_norm=D.LAYER_NORM, final_norm_eps=1e-5),
            "embedding_scale": 1.0,
        },
        "output": {"output": D.LOGITS},
    }


def olmo2() -> dict:
    """OLMo 2: norms of what the sub-layers give and none before, q and k normalized over all heads;
    a window, which OLMo 2 has not."""
    block = {
        **kind(4, 12, 40, D.SUBLAYER, False, kv_heads=1, norm_biases=0),
        "norm": D.RMS_NORM,
        "activation": D.SILU,
        "gated": 1,
        "qk_norm": D.RMS_NORM,
        "qk_norm_over": D.ALL_HEADS,
        "position": D.ROTARY_HALVES,
        "rotary_width": 12,
    }
    return {
        "model": {"stack": D.DECODER},
        "target": side(56),
        "kinds": [block, {**block, "window": 7}],
        "decoder": {
            **stack(40, [0, 0, 1, 1], 0, final_norm=D.RMS_NORM, final_norm_eps=1e-6),
            "embedding_scale": 1.0,
        },
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET, "scale": 0.25, "cap": 3.0},
    }


def lfm2() -> dict:
    """LFM2: short convolutions of five taps and of two, the first with biases, around attention
    with norms of q and k."""
    block = {
        **kind(4, 10, 33, D.BEFORE, False, kv_heads=2),
        "norm": D.RMS_NORM,
        "activation": D.SILU,
        "gated": 1,
    }
    short = {**block, "mixer": D.CONVOLUTION, "heads": 1, "kv_heads": 1, "head_width": 37}
    biased = {"window": 5, "convolution_bias": 1, "attention_biases": D.ATTENTION_BIASES}
    rotary = {"position": D.ROTARY_HALVES, "rotary_width": 10, "qk_norm": D.RMS_NORM}
    return {
        "model": {"stack": D.DECODER},
        "target": side(53),
        "kinds": [{**short, **biased}, {**block, **rotary}, {**short, "window": 2}],
        "decoder": {
            **stack(37, [0, 0, 1, 1, 2, 2, 0, 3], 0, final_norm=D.RMS_NORM, final_norm_eps=1e-6),
            "embedding_scale": 1.0,
        },
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
    }


def merged() -> dict:
    """T5Gemma 2: a decoder whose attention is over its own keys and the encoder's in one softmax;
    beside its rotary block with a window one with ALiBi, a cap and limits, and one with a
    cross-attention of its own."""
    block = {
        **kind(4, 10, 33, D.BOTH, False, kv_heads=2, norm_biases=0),
        "norm": D.RMS_NORM,
        "activation": D.GELU_TANH,
        "gated": 1,
        "qk_norm": D.RMS_NORM,
    }
    rotary = {"position": D.ROTARY_HALVES, "rotary_width": 10}
    near = {**block, **rotary, "cross": D.MERGED, "window": 7}
    biased = {"attention_biases": D.ATTENTION_BIASES, "cap": 3.0, "qkv_clip": 1.5, "qk_norm": 0}
    far = {**block, **biased, "cross": D.MERGED, "position": D.ALIBI, "head_width": 9}
    own = {**block, **rotary, "cross": D.OWN_CROSS}
    final = {"final_norm": D.RMS_NORM, "final_norm_eps": 1e-6}
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side(57, suffix=[END]),
        "target": side(57, decoder_start=START, embedding_shared=1),
        "encoder": stack(37, [0, 0, 0, 1], 0, **final),
        "decoder": stack(37, [1, 0, 2, 1, 3, 2, 1, 3], 0, **final),
        "kinds": [{**block, **rotary, "window": 8}, near, far, own],
        "output": {"output": D.LOGITS, "tied": D.TIED_SOURCE},
    }


def gemma4() -> dict:
    """Gemma 4: per-layer embeddings, norms of values, heads of two widths, layers with the keys and
    values of earlier ones, a scale for each layer; two layers share their weights."""
    block = {
        **{**kind(4, 10, 33, D.BOTH, False, kv_heads=2), "scale": 0.15},
        "norm": D.RMS_NORM,
        "activation": D.GELU_TANH,
        "gated": 1,
        "qk_norm": D.RMS_NORM,
        "position": D.ROTARY_HALVES,
        "layer_scale": 1,
    }
    near = {**block, "window": 7, "rotary_width": 10}
    far = {**block, "head_width": 18, "rotary_width": 18, "kv_heads": 1, "qk_norm_over": D.OWN_HEAD}
    wider = {"hidden": 66}
    return {
        "model": {"stack": D.DECODER},
        "target": side(53),
        "kinds": [
            {**near, "value_norm": 1},
            {**far, "value_norm": 1},
            {**near, "keys_of": 3, **wider},
            {**far, "keys_of": 2, "attention_biases": D.BIAS_Q | D.BIAS_OUT},
        ],
        "decoder": {
            **stack(37, [0, 0, 1, 1, 0, 2, 2, 3, 3, 4, 2, 3], 0, final_norm=D.RMS_NORM),
            "final_norm_eps": 1e-6,
            "per_layer_width": 7,
            "per_layer_scale": 1.5,
            "per_layer_norm": D.RMS_NORM,
            "per_layer_norm_eps": 1e-6,
        },
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET, "cap": 30.0},
    }


def bitnet() -> dict:
    """BitNet: norms before the last matrix of each sub-layer; here one block has the first alone,
    and the second is a layer norm with a bias."""
    block = {
        **kind(3, 12, 43, D.BEFORE, False, kv_heads=1),
        "norm": D.RMS_NORM,
        "activation": D.RELU2,
        "gated": 1,
        "position": D.ROTARY_HALVES,
        "rotary_width": 12,
        "inner_norms": D.NORM_OF_OUT | D.NORM_OF_DOWN,
    }
    other = {**block, "norm": D.LAYER_NORM, "gated": 0, "inner_norms": D.NORM_OF_DOWN}
    first = {**block, "parallel": D.SHARED_INPUT, "inner_norms": D.NORM_OF_OUT}
    return {
        "model": {"stack": D.DECODER},
        "target": side(51),
        "kinds": [block, other, first],
        "decoder": {
            **stack(35, [0, 0, 1, 1, 2, 2], 0, final_norm=D.RMS_NORM, final_norm_eps=1e-6),
            "embedding_scale": 1.0,
        },
        "output": {"output": D.LOGITS},
    }


def opt() -> dict:
    """OPT-350m: a narrow embedding that is projected before the positions are added, norm after,
    and the way back before a tied output."""
    block = kind(2, 19, 45, D.AFTER, True)
    return {
        "model": {"stack": D.DECODER},
        "target": side(54),
        "kinds": [block],
        "decoder": {
            **stack(38, [0, 0, 0, 1], D.LEARNED, max_positions=64),
            "embedding_scale": 1.0,
            "embedding_width": 22,
            "projection_place": 1,
        },
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET, "head_width": 22},
    }


def encoder(
    width: int,
    layers: list[int],
    position: int,
    kinds: list[dict],
    output: dict,
    vocabulary: int = 57,
    sides: dict | None = None,
    **more: object,
) -> dict:
    return {
        "model": {"stack": D.ENCODER},
        "source": side(vocabulary, prefix=[START], suffix=[END], mask=4, **(sides or {})),
        "kinds": kinds,
        "encoder": {"width": width, "layers": layers, "position": position, **more},
        "output": output,
    }


def bert() -> dict:
    """BERT: segments, an embedding norm, learned positions, norm after; a masked language model
    with a tied output."""
    block = {**kind(3, 12, 50, D.AFTER, True), "activation": D.GELU_ERF}
    head = {
        "output": D.LOGITS,
        "tied": D.TIED_SOURCE,
        "bias": 1,
        "head_width": 36,
        "head_bias": 1,
        "head_activation": D.GELU_ERF,
        "head_norm": D.LAYER_NORM,
        "head_norm_eps": 1e-12,
    }
    return encoder(
        36,
        [0, 0, 0, 1],
        D.LEARNED,
        [block],
        head,
        sides={"pair": [END], "pair_segment": 1},
        max_positions=48,
        segments=2,
        embedding_norm=D.LAYER_NORM,
        embedding_norm_eps=1e-12,
    )


def albert() -> dict:
    """ALBERT: a narrow embedding that is projected, sinusoids of its width, and one set of weights
    for all layers."""
    block = {**kind(2, 18, 44, D.AFTER, True), "activation": D.GELU_TANH}
    head = {
        "output": D.LOGITS,
        "tied": D.TIED_SOURCE,
        "bias": 1,
        "head_width": 20,
        "head_bias": 1,
        "head_activation": D.GELU_TANH,
        "head_norm": D.LAYER_NORM,
        "head_norm_eps": 1e-12,
    }
    return encoder(
        36,
        [0, 0, 0, 0, 0, 0],
        D.INTERLEAVED,
        [block],
        head,
        embedding_width=20,
        projection_bias=1,
        segments=2,
        max_positions=64,
        embedding_norm=D.LAYER_NORM,
        embedding_norm_eps=1e-12,
    )


def modernbert() -> dict:
    """ModernBERT: rotary halves, gated, norm before but not before the first attention, a window in
    the second layer; a sentence vector."""
    block = {
        **kind(2, 16, 40, D.BEFORE, False, norm_biases=0),
        "activation": D.GELU_ERF,
        "gated": 1,
        "position": D.ROTARY_HALVES,
        "rotary_width": 16,
    }
    return encoder(
        32,
        [0, 0, 1, 1, 2, 2],
        0,
        [{**block, "attention_norm": 0}, {**block, "window": 5}, {**block, "rotary_factor": 1.25}],
        {"output": D.POOLED, "pooling": D.MEAN, "normalize": 1},
        embedding_norm=D.LAYER_NORM,
        embedding_norm_eps=1e-5,
        final_norm=D.LAYER_NORM,
        final_norm_eps=1e-5,
    )


def relative(position: int, distance: int, **more: object) -> Callable[[], dict]:
    """An encoder whose only positions are relative keys; hidden states."""

    def make() -> dict:
        block = {
            **kind(3, 11, 38, D.AFTER, True),
            "position": position,
            "max_distance": distance,
            **more,
        }
        return encoder(
            33,
            [0, 0, 0, 1],
            0,
            [block],
            {"output": D.HIDDEN},
            embedding_norm=D.LAYER_NORM,
            embedding_norm_eps=1e-5,
        )

    return make


def relative_lm() -> dict:
    """A decoder with Huang's method 4, grouped heads, and an embedding that is projected."""
    block = {
        **kind(4, 9, 34, D.BEFORE, True, kv_heads=2),
        "position": D.RELATIVE_KEY_QUERY,
        "max_distance": 45,
    }
    return {
        "model": {"stack": D.DECODER},
        "target": side(63),
        "kinds": [block],
        "decoder": stack(
            36, [0, 0, 0, 1], 0, embedding_width=18, final_norm=D.LAYER_NORM, final_norm_eps=1e-5
        ),
        "output": {"output": D.LOGITS},
    }


def three_way_lm() -> dict:
    """A decoder with Huang's method 3, and a second kind of layer with a window and a cap."""
    block = kind(2, 17, 30, D.BEFORE, False)
    return {
        "model": {"stack": D.DECODER},
        "target": side(49),
        "kinds": [
            {**block, "position": D.THREE_WAY, "max_distance": 41},
            {**block, "position": D.RELATIVE_KEY, "max_distance": 64, "window": 6, "cap": 4.0},
        ],
        "decoder": stack(34, [0, 0, 1, 1], 0, final_norm=D.LAYER_NORM, final_norm_eps=1e-5),
        "output": {"output": D.LOGITS},
    }


def clipped() -> dict:
    """Shaw's clipped relative keys and values in both stacks (OpenNMT)."""
    block = {**kind(4, 8, 36, D.BEFORE, True), "position": D.CLIPPED, "max_distance": 4}
    final = {"final_norm": D.LAYER_NORM, "final_norm_eps": 1e-6}
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side(45, suffix=[END]),
        "target": side(51, decoder_start=START),
        "encoder": stack(32, [0, 0, 0, 1], 0, **final),
        "decoder": stack(32, [1, 0, 1, 1], 0, **final),
        "kinds": [block, {**block, "cross": 1, "cross_biases": D.ATTENTION_BIASES}],
        "output": {"output": D.LOGITS},
    }


def t5() -> dict:
    """T5: a bias by distance, RMS norm, unscaled scores, one embedding, tied and scaled; the
    decoder's block has its own table."""
    block = {
        **kind(3, 10, 42, D.BEFORE, False, norm_biases=0),
        "norm": D.RMS_NORM,
        "scale": 1.0,
        "position": D.T5_BIAS,
        "max_distance": 16,
        "activation": D.GELU_TANH,
        "gated": 1,
    }
    final = {"final_norm": D.RMS_NORM, "final_norm_eps": 1e-6, "embedding_scale": 1.0}
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side(55, suffix=[END]),
        "target": side(55, decoder_start=PAD, embedding_shared=1),
        "encoder": stack(30, [0, 0, 0, 1], 0, **final),
        "decoder": stack(30, [1, 0, 1, 1], 0, **final),
        "kinds": [block, {**block, "cross": 1}],
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET, "scale": 30.0**-0.5},
    }


def alibi() -> dict:
    """A decoder with ALiBi, three heads, norms of queries and keys, and norms on both sides of the
    second layer's sub-layers."""
    block = {
        **kind(3, 14, 36, D.BEFORE, True),
        "position": D.ALIBI,
        "activation": D.GELU_TANH,
        "qk_norm": D.RMS_NORM,
    }
    return {
        "model": {"stack": D.DECODER},
        "target": side(52),
        "kinds": [block, {**block, "norm_place": D.BOTH}],
        "decoder": stack(
            42,
            [0, 0, 1, 1],
            0,
            embedding_norm=D.LAYER_NORM,
            embedding_norm_eps=1e-5,
            final_norm=D.LAYER_NORM,
            final_norm_eps=1e-5,
        ),
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
    }


def alibi_tokens() -> dict:
    """An encoder with ALiBi on both sides and a window that labels tokens, each class by itself."""
    block = {**kind(2, 13, 28, D.AFTER, True), "position": D.ALIBI, "window": 9}
    return encoder(
        26, [0, 0], 0, [block], {"output": D.CLASSES, "classes": 5, "bias": 1, "scores": D.SIGMOID}
    )


def additive() -> dict:
    """Bahdanau's score in self- and cross-attention."""
    block = {**kind(2, 15, 32, D.AFTER, True), "score": D.ADDITIVE, "scale": 1.0}
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side(44, suffix=[END]),
        "target": side(46, decoder_start=START),
        "encoder": stack(30, [0, 0], D.INTERLEAVED),
        "decoder": stack(30, [1, 0, 1, 1], D.HALVES),
        "kinds": [
            block,
            {**block, "cross": 1, "cross_biases": D.ATTENTION_BIASES, "cross_score": D.ADDITIVE},
        ],
        "output": {"output": D.LOGITS, "bias": 1},
    }


def classes() -> dict:
    """A classifier of texts: the first position through a dense layer with tanh; scales of the
    inputs of its layers."""
    labels = "".join(f"{name}{D.RECORD_END}" for name in ("negative", "neutral", "positive"))
    block = {**kind(2, 16, 40, D.AFTER, True), "activation": D.GELU_ERF, "input_scales": 3}
    return encoder(
        32,
        [0, 0, 0, 1],
        D.LEARNED,
        [block],
        {
            "output": D.CLASSES,
            "classes": 3,
            "bias": 1,
            "pooling": D.FIRST,
            "head_width": 24,
            "head_bias": 1,
            "head_activation": D.TANH,
            "labels": labels,
        },
        max_positions=40,
        embedding_norm=D.LAYER_NORM,
        embedding_norm_eps=1e-12,
    )


def words(language: str, count: int) -> bytes:
    """A word list: control ids, then "source4 source5 …"."""
    return build_wordlist_section(
        ["<pad>", "<unk>", "<bos>", "<eos>"] + [f"{language}{i}" for i in range(4, count)],
        UNKNOWN,
        (PAD, START, END),
    )


MODELS: dict[
    str, tuple[Callable[[], dict], bool]
] = {  # name -> descriptor, weights of −128 in the q8 one
    "tiny-post-sin": (post_sin, True),
    "tiny-pre-learned": (pre_learned, False),
    "tiny-d2l": (d2l, False),
    "tiny-lm": (lm, False),
    "tiny-rotary": (rotary, False),
    "tiny-bert": (bert, False),
    "tiny-albert": (albert, False),
    "tiny-modernbert": (modernbert, False),
    "tiny-relative-key": (relative(D.RELATIVE_KEY, 70), False),
    "tiny-relative-query": (relative(D.RELATIVE_KEY_QUERY, 33), False),
    "tiny-three-way": (relative(D.THREE_WAY, 40), False),
    "tiny-disentangled": (relative(D.DISENTANGLED, 28), False),
    "tiny-relative-lm": (relative_lm, False),
    "tiny-three-way-lm": (three_way_lm, False),
    "tiny-clipped": (clipped, False),
    "tiny-t5": (t5, False),
    "tiny-alibi": (alibi, False),
    "tiny-alibi-tokens": (alibi_tokens, False),
    "tiny-additive": (additive, False),
    "tiny-classes": (classes, False),
    "tiny-gptj": (gptj, False),
    "tiny-neox": (neox, False),
    "tiny-olmo2": (olmo2, False),
    "tiny-opt": (opt, False),
    "tiny-lfm2": (lfm2, False),
    "tiny-bitnet": (bitnet, False),
    "tiny-merged": (merged, False),
    "tiny-gemma4": (gemma4, False),
    "tiny-chat": (chat, False),
}
EVERY_TYPE = (
    "tiny-post-sin",
    "tiny-rotary",
    "tiny-bert",
    "tiny-gptj",
    "tiny-olmo2",
    "tiny-alibi",
)  # in f16, bf16 and q4 too


# One scale a row, and of rotated inputs: an encoder-decoder, tied embeddings, an encoder, a
# parallel block.
WHOLE = {
    "tiny-post-sin": (L.Q8R, L.Q8RH),
    "tiny-rotary": (L.Q8RH,),
    "tiny-bert": (L.Q8RH,),
    "tiny-gptj": (L.Q8R, L.Q8RH),
}
# A scale and a minimum for each group: the same kinds of models.
MINIMA = {
    "tiny-post-sin": (L.Q4M, L.Q4K),
    "tiny-rotary": (L.Q4K, L.Q5M),
    "tiny-bert": (L.Q4M, L.Q5M),
    "tiny-gptj": (L.Q4M, L.Q4K, L.Q5M, L.Q5K),
}
# Types with a rule of the models' own.
GIVEN = {
    "tiny-bert": (L.Q4T, L.Q2, L.Q6, L.Q4X),
    "tiny-gptj": (L.Q4T, L.Q2, L.Q1, L.Q2R, L.Q6, L.Q4X, L.Q3, L.Q2W),
}
# Inputs of 16 bits, in every quantized type: NAME-inputs16-TYPE, with weights of −128 in q8 and the
# types of the converter's rounding else.
INPUTS16 = {
    "tiny-gptj": L.QUANTIZED,
    "tiny-pre-learned": (L.Q8,),
}
# Rotated inputs: a parallel block, and a tied embedding whose rows are looked up.
ROTATED = {
    "tiny-gptj": (L.Q8, L.Q4, L.Q4M, L.Q4K, L.Q4T, L.Q5M),
    "tiny-rotary": (L.Q8, L.Q4K),
}


def types_of(name: str) -> tuple[int, ...]:
    """The types in which a model is written."""
    every = (L.F16, L.BF16, L.Q4) if name in EVERY_TYPE else ()
    return (L.F32, L.Q8) + every + sum((of.get(name, ()) for of in (WHOLE, MINIMA, GIVEN)), ())


# The models keep the rules of rounding that they were first written with, whatever the converter
# does now.


def _groups(values: np.ndarray) -> np.ndarray:
    """(N, K) -> (N, G, 32), the tail padded with zeros."""
    padded = np.zeros((len(values), L.round_up(values.shape[1], L.GROUP)), np.float32)
    padded[:, : values.shape[1]] = values
    return padded.reshape(len(values), -1, L.GROUP)


def plain_q8(values: np.ndarray) -> Quantized:
    """scale = f16(amax / 127), q = round-half-even(x / scale)."""
    x = _groups(values)
    scales = (np.abs(x).max(axis=2) / np.float32(127)).astype(np.float16)
    wide = scales.astype(np.float32)[..., None]
    q = np.clip(np.rint(np.divide(x, wide, where=wide > 0, out=np.zeros_like(x))), -127, 127)
    return Quantized(scales, q.astype(np.int8).reshape(len(values), -1))


def plain_q4(values: np.ndarray) -> Quantized:
    """Of 22 scales, each refined by least squares, the best; in float64."""
    x = _groups(values).reshape(-1, L.GROUP).astype(np.float64)
    extreme = np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1)
    smallest, scales, best = (
        np.full(len(x), np.inf),
        np.zeros(len(x), np.float16),
        np.zeros(x.shape, np.int8),
    )
    for divisor in [sign * (700 + 25 * i) / 100 for sign in (-1, 1) for i in range(11)]:
        with np.errstate(divide="ignore", invalid="ignore"):
            q = np.clip(np.rint(np.where(extreme != 0, x * (divisor / extreme), 0)), -8, 7)
            squares = (q * q).sum(axis=1)
            scale = np.where(squares > 0, (x * q).sum(axis=1) / np.maximum(squares, 1), 0).astype(
                np.float16
            )
            wide = scale.astype(np.float64)[:, None]
            q = np.clip(np.rint(np.where(wide != 0, x / np.where(wide != 0, wide, 1), 0)), -8, 7)
        error = ((x - q * wide) ** 2).sum(axis=1)
        better = error < smallest
        smallest, scales = np.where(better, error, smallest), np.where(better, scale, scales)
        best[better] = q[better].astype(np.int8)
    return Quantized(scales.reshape(len(values), -1), best.reshape(len(values), -1), L.Q4)


def given(values: np.ndarray, kind_: int) -> Quantized:
    """The nearest of the values that a code stands for, in f16 parts of a span's largest: of q4t
    those of a table of squares. Of q2r in parts of the row's mean magnitude, in f32."""
    if kind_ == L.Q2R:
        means = np.abs(values).mean(axis=1, keepdims=True, dtype=np.float64).astype(np.float32)
        near = np.clip(np.rint(values / np.maximum(means, 2.0**-38)), -1, 2).astype(np.int8)
        wide = L.round_up(values.shape[1], L.ROW_STEP)
        return Quantized(means, np.pad(near, ((0, 0), (0, wide - values.shape[1]))), kind_)
    if kind_ in L.CODED:
        return of_codes(values, kind_)
    grid = {
        L.Q4T: np.array([i * abs(i) for i in range(-8, 8)]) * 2,
        L.Q2: np.array([-1, 0, 1, 2]),
        L.Q2W: np.array([-1, 0, 1, 2]),
        L.Q1: np.array([-1, 1]),
    }[kind_]
    groups, spans = _groups(values), L.SPANS.get(kind_, L.GROUP) // L.GROUP
    amax = np.abs(groups).max(axis=2)
    amax = np.pad(amax, ((0, 0), (0, -amax.shape[1] % spans))).reshape(len(values), -1, spans)
    scales = (amax.max(axis=2) / np.float32(np.abs(grid).max())).astype(np.float16)
    wide = np.repeat(scales.astype(np.float32), spans, axis=1)[:, : groups.shape[1], None]
    parts = np.divide(groups, wide, where=wide > 0, out=np.zeros_like(groups))
    nearest = np.abs(parts[..., None] - grid.astype(np.float32)).argmin(axis=3)
    return Quantized(scales, grid[nearest].astype(np.int8).reshape(len(values), -1), kind_)


def of_codes(values: np.ndarray, kind_: int) -> Quantized:
    """The largest of the columns of a scale is the largest integer of the type, every second scale
    is negative, and so is every second record's number; a code that is the largest becomes the
    least."""
    integers = coded.integers(np.arange(1 << L.BITS[kind_]), kind_).astype(np.float32)
    width, most = coded.width_of(kind_), (1 << L.SCALE_BITS[kind_] - 1) - 1
    spans = _groups(values).reshape(len(values), -1, width)
    wanted = np.abs(spans).max(axis=2) / integers[-1]
    count = 256 // width
    wanted = np.pad(wanted, ((0, 0), (0, -wanted.shape[1] % count)))
    wanted = wanted.reshape(len(values), -1, count)
    of = np.zeros(wanted.shape[:2], records.record_of(kind_))
    of["d"] = wanted.max(axis=2) / np.float32(most)
    of["d"][:, 1::2] *= -1
    wide = of["d"].astype(np.float32)[..., None]
    codes = np.rint(np.divide(wanted, wide, where=wide != 0, out=np.zeros_like(wanted)))
    codes[..., 1::2] *= -1
    codes = np.where(codes == most, -most - 1, np.clip(codes, -most - 1, most)).astype(np.int8)
    coded.store(of, codes, of["d"].copy(), values.shape[1], kind_)
    scale = coded.grids(of, kind_, np.float32)[:, : spans.shape[1], None]
    q = np.divide(spans, scale, where=scale != 0, out=np.zeros_like(spans))
    n = np.abs(q[..., None] - integers).argmin(axis=3)
    if kind_ not in L.LOOKUPS:  # of two that are as near the even one
        n = np.clip(np.rint(q), integers[0], integers[-1]) - integers[0]
    n = np.where(scale != 0, n, 0).reshape(len(values), -1)
    n[:, values.shape[1] :] = 0
    return Quantized(of, n.astype(np.int8), kind_)


def with_minus_128(values: np.ndarray) -> Quantized:
    """The q8 form with −128 wherever the rule has −127."""
    scales, q = plain_q8(values)[:2]
    return Quantized(scales, np.where(q == -127, -128, q).astype(np.int8))


def sections_of(name: str) -> dict[int, bytes]:
    """What a model has beside its tensors and vectors."""
    if name == "tiny-d2l":
        return {SOURCE_TOKENIZER: words("source", 43), TARGET_TOKENIZER: words("target", 47)}
    if name == "tiny-chat":
        here = Path(__file__).resolve().parent
        return {
            TARGET_TOKENIZER: (here / "tokenizers/bytelevel.bin").read_bytes(),
            CHAT: (here / "chat.bin").read_bytes(),
        }
    return {}


def write(path: Path, name: str, kind_: int, inputs: int = 0) -> None:
    make, extreme = MODELS[name]
    descriptor = make()
    descriptor["model"].update(name=name, license="MIT", converter="tests/golden/make_models.py")
    extreme = extreme or inputs != 0
    write_described(path, name, descriptor, kind_, sections_of(name), extreme, inputs)


def write_described(
    path: Path,
    name: str,
    descriptor: dict,
    kind_: int,
    extra: dict[int, bytes],
    extreme: bool = False,
    form: int = 0,
) -> None:
    """A file of a type and a form of inputs, with random weights of the name and the reference's
    vectors."""
    full = D.with_defaults(descriptor)
    inputs = V.choose_inputs(full)

    def source(slot: R.Slot) -> np.ndarray | Quantized:
        width = full[
            "decoder" if slot.stack in (R.TARGET, R.DECODER) or "encoder" not in full else "encoder"
        ]["embedding_width"]
        values = random_weights(name, slot, width)
        if not slot.matrix or kind_ not in L.QUANTIZED:
            return values
        turned = form == L.INPUTS_ROTATED and slot.layout == L.PANEL16
        values = L.rotate_weights(values) if turned else values
        return stored(values)._replace(rotated=turned)

    def stored(values: np.ndarray) -> Quantized:
        return (
            given(values, kind_)
            if kind_ not in L.ROUNDED or kind_ in L.TABLES + L.CODED
            else Quantized(*L.quantize(values, kind_), kind_)
            if kind_ in L.WHOLE + L.MINIMA
            else plain_q4(values)
            if kind_ == L.Q4
            else with_minus_128(values)
            if extreme
            else plain_q8(values)
        )

    def exact(slot: R.Slot) -> np.ndarray:
        value = source(slot)
        return value.widened(slot.cols, np.float32) if isinstance(value, Quantized) else value

    with replacing(path) as file:
        section = V.build(V.ExactWeights(as_stored(descriptor), exact), inputs)
        write_model(file, descriptor, source, kind_, {**extra, VECTORS: section}, inputs=form)
        file.flush()
        if kind_ != L.F32:
            replace_section(
                file,
                VECTORS,
                V.with_tolerance(
                    section, V.measured_tolerance(section, PhasorFile(file.name), inputs)
                ),
            )
    PhasorFile(path).check()


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_models.py DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        for kind_ in types_of(name):
            path = directory / f"{name}-{L.TYPES[kind_]}.phasor"
            write(path, name, kind_)
            print(f"{path.name}: {path.stat().st_size} bytes")
    forms = (("inputs16", L.INPUTS16, INPUTS16), ("rotated", L.INPUTS_ROTATED, ROTATED))
    for word, form, models in forms:
        for name, kinds in models.items():
            for kind_ in kinds:
                path = directory / f"{name}-{word}-{L.TYPES[kind_]}.phasor"
                write(path, name, kind_, form)
                print(f"{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
