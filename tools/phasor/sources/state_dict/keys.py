# Generated from src/facts/description.toml by `make generate`: edit that, not this.
"""What a description can say: its keys by scope, and the parts of its [names]."""

from __future__ import annotations

from typing import Any, NamedTuple

from phasor.format import descriptor as D


class Key(NamedTuple):
    """One key."""

    types: tuple[type, ...]
    default: Any = None  # None: the description or its preset says it, or the weights do
    values: dict[str, Any] = {}  # what a text may be, and what it is in the descriptor
    field: str = ""  # of the descriptor, that has the value as it is
    items: str = ""  # of a list: texts, ids, numbers
    # What it speaks of: the key that has one of these values then, or without values a part.
    of: str = ""
    among: tuple[Any, ...] = ()


class Known(NamedTuple):
    """One part of [names]."""

    bias: bool
    key: str = ""  # the model has it where this key has one of these values; "": where it is named
    values: tuple[Any, ...] = ()
    may: bool = False  # and may leave it out


MODEL: dict[str, Key] = {
    "name": Key((str,), ""),
    "author": Key((str,), ""),
    "license": Key((str,), ""),
    "credit": Key((str,), ""),
    "origin": Key((str,), ""),
    "preset": Key((str,)),
    "unseen": Key((str,), ""),
    "stack": Key(
        (str,),
        "encoder-decoder",
        values={"encoder": D.ENCODER, "decoder": D.DECODER, "encoder-decoder": D.ENCODER_DECODER},
    ),
    "input": Key((str,), values={"ids": 0, "vectors": 1}),
    "output": Key(
        (str,),
        "own",
        values={
            "own": D.TIED_OWN,
            "logits": D.TIED_OWN,
            "target-embedding": D.TIED_TARGET,
            "source-embedding": D.TIED_SOURCE,
            "hidden": 0,
            "pooled": 0,
            "classes": 0,
        },
    ),
    "output_scale": Key((float, str), "one"),
    "output_cap": Key((float,), 0.0, field="output.cap"),
    "pooling": Key(
        (str,),
        "none",
        values={"none": 0, "mean": D.MEAN, "first": D.FIRST, "last": D.LAST, "max": D.MAX},
        field="output.pooling",
    ),
    "normalize": Key((bool,), False, field="output.normalize"),
    "labels": Key((list,), [], items="texts"),
    "scores": Key(
        (str,),
        "softmax",
        values={"softmax": D.SOFTMAX, "sigmoid": D.SIGMOID, "plain": D.PLAIN},
        field="output.scores",
    ),
    "head_activation": Key(
        (str,),
        "none",
        values={
            "none": 0,
            "relu": D.RELU,
            "gelu": D.GELU_ERF,
            "gelu-tanh": D.GELU_TANH,
            "silu": D.SILU,
            "relu2": D.RELU2,
            "tanh": D.TANH,
        },
        field="output.head_activation",
    ),
    "head_norm_eps": Key((float,), of="head_norm"),
    "prompts": Key((dict,), {}),
    "query_length": Key((int,), 0, field="output.query_length"),
    "document_length": Key((int,), 0, field="output.document_length"),
    "query_marker": Key((int,), -1, field="output.query_marker"),
    "document_marker": Key((int,), -1, field="output.document_marker"),
    "expansion": Key(
        (str,),
        "none",
        values={"none": D.NO_EXPANSION, "hidden": D.HIDDEN_EXPANSION, "seen": D.SEEN_EXPANSION},
        field="output.expansion",
    ),
    "skipped": Key((list,), [], field="output.skipped", items="ids"),
}
STACK: dict[str, Key] = {
    "heads": Key((int,)),
    "kv_heads": Key((int,), 0),
    "norm": Key(
        (str,),
        "layer",
        values={"layer": D.LAYER_NORM, "rms": D.RMS_NORM, "layer-unbiased": D.LAYER_NORM},
    ),
    "norm_eps": Key((float,), 1e-05),
    "norm_place": Key(
        (str,),
        values={"before": D.BEFORE, "after": D.AFTER, "both": D.BOTH, "sublayer": D.SUBLAYER},
    ),
    "attention_norm": Key((bool,), True, field="kinds.attention_norm"),
    "parallel": Key(
        (str,),
        "no",
        values={"no": D.SERIAL, "one-norm": D.SHARED_INPUT, "two-norms": D.TWO_NORMS},
        field="kinds.parallel",
    ),
    "residual_scale": Key((float,), 1.0, field="kinds.residual_scale"),
    "final_norm": Key((bool, str), values={"layer": D.LAYER_NORM, "rms": D.RMS_NORM}),
    "final_norm_eps": Key((float,), of="final_norm", among=(True, "layer", "rms")),
    "embedding_norm": Key(
        (str,),
        values={"layer": D.LAYER_NORM, "rms": D.RMS_NORM},
        of="embedding_norm",
    ),
    "embedding_norm_eps": Key((float,), of="embedding_norm"),
    "embedding_norm_place": Key(
        (str,),
        "after-positions",
        values={"after-positions": 0, "before-positions": 1},
    ),
    "activation": Key(
        (str,),
        "relu",
        values={
            "relu": D.RELU,
            "gelu": D.GELU_ERF,
            "gelu-tanh": D.GELU_TANH,
            "silu": D.SILU,
            "relu2": D.RELU2,
            "xielu": D.XIELU,
        },
    ),
    "score": Key((str,), "dot", values={"dot": D.DOT, "additive": D.ADDITIVE}),
    "cross_score": Key(
        (str,),
        "dot",
        values={"dot": D.DOT, "additive": D.ADDITIVE},
        of="stack",
        among=("encoder-decoder",),
    ),
    "score_scale": Key((float, str)),
    "cross_score_scale": Key((float, str), of="stack", among=("encoder-decoder",)),
    "cap": Key((float,), 0.0, field="kinds.cap"),
    "qkv_clip": Key((float,), 0.0, field="kinds.qkv_clip"),
    "qk_norm": Key((str,), values={"layer": D.LAYER_NORM, "rms": D.RMS_NORM}, of="q_norm"),
    "qk_norm_over": Key(
        (str,),
        "head",
        values={"head": D.HEAD, "own-head": D.OWN_HEAD, "all-heads": D.ALL_HEADS},
        field="kinds.qk_norm_over",
    ),
    "qk_norm_place": Key(
        (str,),
        "before-positions",
        values={"before-positions": D.NORM_FIRST, "after-positions": D.NORM_LAST},
        field="kinds.qk_norm_place",
    ),
    "window": Key((int,), 0, field="kinds.window"),
    "causal": Key((bool,), False, field="kinds.causal"),
    "qkv_order": Key((str,), "qkv", of="qkv"),
    "qkv_by_head": Key((bool,), False, of="qkv"),
    "transposed": Key((bool,), False),
    "position": Key(
        (str,),
        values={
            "none": 0,
            "learned": D.LEARNED,
            "sinusoidal": D.INTERLEAVED,
            "sinusoidal-halves": D.HALVES,
        },
    ),
    "position_base": Key(
        (float,),
        10000.0,
        of="position",
        among=("sinusoidal", "sinusoidal-halves"),
    ),
    "position_rates": Key(
        (str,),
        "paper",
        values={"paper": 0, "tensor2tensor": 1},
        of="position",
        among=("sinusoidal", "sinusoidal-halves"),
    ),
    "position_offset": Key(
        (int,),
        0,
        of="position",
        among=("learned", "sinusoidal", "sinusoidal-halves"),
    ),
    "max_positions": Key((int,), 0),
    "embedding_scale": Key((float, str)),
    "projection_place": Key(
        (str,),
        "last",
        values={"last": 0, "before-positions": 1},
        of="projection",
    ),
    "attention_position": Key(
        (str,),
        "none",
        values={
            "none": 0,
            "relative_key": D.RELATIVE_KEY,
            "relative_key_query": D.RELATIVE_KEY_QUERY,
            "three-way": D.THREE_WAY,
            "clipped": D.CLIPPED,
            "t5": D.T5_BIAS,
            "alibi": D.ALIBI,
            "rotary": D.ROTARY_INTERLEAVED,
            "rotary-halves": D.ROTARY_HALVES,
            "disentangled": D.DISENTANGLED,
        },
    ),
    "relative_order": Key(
        (str,),
        "key-query",
        values={"key-query": 0, "query-key": 1},
        of="attention_position",
        among=("relative_key", "relative_key_query", "three-way", "clipped", "disentangled"),
    ),
    "relative_values": Key((bool,), True, of="attention_position", among=("clipped",)),
    "max_distance": Key(
        (int,),
        0,
        of="attention_position",
        among=("t5", "relative_key", "relative_key_query", "three-way", "clipped", "disentangled"),
    ),
    "num_buckets": Key((int,), 0, of="attention_position", among=("t5",)),
    "two_sided": Key((bool,), of="attention_position", among=("t5",)),
    "alibi_slopes": Key((list,), [], of="attention_position", among=("alibi",), items="numbers"),
    "rotary_width": Key((int,), 0, of="attention_position", among=("rotary", "rotary-halves")),
    "rotary_base": Key(
        (float,),
        10000.0,
        of="attention_position",
        among=("rotary", "rotary-halves"),
    ),
    "rotary_scaling": Key((dict,), {}),
    "rotary_trained": Key((int,), 0, of="attention_position", among=("rotary", "rotary-halves")),
    "rotary_context": Key((int,), 0, of="attention_position", among=("rotary", "rotary-halves")),
    "layers": Key((int,), 0),
    "sets": Key((int,), 0),
    "hidden": Key((int,), 0),
    "width": Key((int,), 0),
    "head_width": Key((int,), 0),
    "cross_heads": Key((int,), 0, of="stack", among=("encoder-decoder",)),
    "cross_kv_heads": Key((int,), 0, of="stack", among=("encoder-decoder",)),
    "cross_head_width": Key((int,), 0, of="stack", among=("encoder-decoder",)),
}
SIDE: dict[str, Key] = {
    "vocabulary": Key((int,), 0),
    "tokenizer": Key((str,), ""),
    "pad": Key((int,), -1, field="pad"),
    "unknown": Key((int,), -1, field="unknown"),
    "start": Key((int,), -1, field="start"),
    "end": Key((list,), [], field="end", items="ids"),
    "decoder_start": Key((int,), -1, field="decoder_start"),
    "forced_first": Key((int,), -1, field="forced_first"),
    "mask": Key((int,), -1, field="mask"),
    "prefix": Key((list,), [], field="prefix", items="ids"),
    "suffix": Key((list,), [], field="suffix", items="ids"),
    "pair": Key((list,), [], field="pair", items="ids"),
    "pair_segment": Key((int,), 0, field="pair_segment"),
    "longest_text": Key((int,), 0, field="longest_text"),
    "embedding_shared": Key((bool,), False),
}
GENERATION: dict[str, Key] = {
    "sample": Key((bool,), field="sample"),
    "temperature": Key((float,), field="temperature"),
    "top_k": Key((int,), field="top_k"),
    "top_p": Key((float,), field="top_p"),
    "min_p": Key((float,), field="min_p"),
    "typical_p": Key((float,), field="typical_p"),
    "repetition_penalty": Key((float,), field="repetition_penalty"),
    "no_repeat_ngram": Key((int,), field="no_repeat_ngram"),
    "source_no_repeat_ngram": Key((int,), field="source_no_repeat_ngram"),
    "min_new": Key((int,), field="min_new"),
    "max_new": Key((int,), field="max_new"),
    "beams": Key((int,), field="beams"),
    "length_penalty": Key((float,), field="length_penalty"),
    "early_stopping": Key((str,), values={"no": 0, "yes": 1, "never": 2}, field="early_stopping"),
    "renormalize": Key((bool,), field="renormalize"),
    "suppressed": Key((list,), field="suppressed", items="ids"),
    "bad_words": Key((list,), field="bad_words", items="ids"),
    "forced_last": Key((int,), field="forced_last"),
}
SIDE_PARTS: dict[str, Known] = {
    "embedding": Known(False),
    "positions": Known(False, key="position", values=("learned",)),
    "sinusoid": Known(False, key="position", values=("sinusoidal", "sinusoidal-halves"), may=True),
    "segments": Known(False, may=True),
    "embedding_norm": Known(True, may=True),
    "projection": Known(True, may=True),
    "class_token": Known(False, may=True),
}
STACK_PARTS: dict[str, Known] = {
    "attention_norm": Known(True),
    "attention_after": Known(True, may=True),
    "qkv": Known(True),
    "q": Known(True),
    "k": Known(True),
    "v": Known(True),
    "q_norm": Known(True, may=True),
    "k_norm": Known(True, may=True),
    "attention_out": Known(True),
    "cross_norm": Known(True),
    "cross_after": Known(True, may=True),
    "cross_qkv": Known(True),
    "cross_q": Known(True),
    "cross_k": Known(True),
    "cross_v": Known(True),
    "cross_out": Known(True),
    "ffn_norm": Known(True),
    "ffn_after": Known(True, may=True),
    "ffn_in": Known(True),
    "ffn_gate": Known(True, may=True),
    "ffn_out": Known(True),
    "xielu": Known(False, key="activation", values=("xielu",)),
    "final_norm": Known(True, key="final_norm", values=(True, "layer", "rms")),
    "relative_keys": Known(
        False,
        key="attention_position",
        values=("relative_key", "relative_key_query", "three-way", "clipped", "disentangled"),
    ),
    "relative_values": Known(False, key="attention_position", values=("clipped",)),
    "relative_queries": Known(False, key="attention_position", values=("disentangled",)),
    "position_bias": Known(False, key="attention_position", values=("t5",)),
    "alibi_slopes": Known(False, key="attention_position", values=("alibi",), may=True),
    "inv_freq": Known(
        False,
        key="attention_position",
        values=("rotary", "rotary-halves"),
        may=True,
    ),
    "score": Known(False, key="score", values=("additive",)),
    "cross_score": Known(False, key="cross_score", values=("additive",)),
}
END_PARTS: dict[str, Known] = {
    "head": Known(True),
    "head_norm": Known(True),
    "output": Known(True),
    "classifier": Known(True),
}
