"""Decoders of Hugging Face directories against transformers: a small random model of each family's
true architecture, odd sizes, seeded.

The float64 reference is compared with the PyTorch model in double, after every layer and at the
logits of 64 positions: what transformers computes in float32 even in a double model is done in
double, because float32 is double while it runs. The program, in f32, has the same logits and the
same 32 greedy tokens as transformers' generate.

    test_families_decoders.py --write      measures every row and writes the table of
                                           docs/reference/families.md
"""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from family_table import Table
from safetensors.torch import load_file, save_file
from save_newer import float32_is_double, restore

from conversions import convert_to
from phasor import convert
from phasor.format.file import PhasorFile
from phasor.format.layout import F32, type_code
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import PROGRAM
from texts import ids_text, read_json, write_json

TOLERANCE = 2e-6  # of the reference; some scales are rounded to float32 in the file
PROGRAM_TOLERANCE = 1e-4  # of the range of a position's logits
VOCABULARY, PROMPT, NEW = 61, 64, 32
LONGEST = PROMPT + NEW
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)  # models of this size only wait for a second one


# Of these transformers gives the last layer before the final norm, of others behind it.
NOT_NORMED = {"BioGptForCausalLM", "Qwen3VLForConditionalGeneration"}


@dataclass(frozen=True)
class Case:
    """One row of the table: a class of transformers with a configuration."""

    model: str
    what: str = ""  # how it differs from the row before it
    config: dict = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        return self.model + (f", {self.what}" if self.what else "")


# Widths that are no multiple of a vector, heads that share keys and values.
_LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": 42,
    "intermediate_size": 53,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_PLAIN = {
    **{key: value for key, value in _LLAMA.items() if key != "head_dim"},
    "hidden_size": 48,
}  # heads of 8 values
_GPT = {
    "vocab_size": VOCABULARY,
    "n_embd": 42,
    "n_layer": 3,
    "n_head": 3,
    "n_positions": LONGEST,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ETTIN = {
    **{name: value for name, value in _PLAIN.items() if name != "num_key_value_heads"},
    **{"cls_token_id": 1, "sep_token_id": 2, "local_attention": 14},
    **dict.fromkeys(("global_rope_theta", "local_rope_theta"), 700.0),
}
_BERT = {
    **{name: value for name, value in _PLAIN.items() if name != "num_key_value_heads"},
    **{"is_decoder": True, "max_position_embeddings": LONGEST + 2},
}
_BERT_MORE = {"type_vocab_size": 2, "hidden_act": "relu", "tie_word_embeddings": False}
_FALCON = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": LONGEST,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BLOOM = {"vocab_size": VOCABULARY, "hidden_size": 42, "n_layer": 3, "n_head": 3}
_OPT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 42,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "ffn_dim": 53,
    "max_position_embeddings": LONGEST,
    "word_embed_proj_dim": 42,
    "activation_function": "relu",
}
_XGLM = {
    "vocab_size": VOCABULARY,
    "d_model": 42,
    "num_layers": 3,
    "attention_heads": 3,
    "ffn_dim": 53,
    "max_position_embeddings": LONGEST,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_MPT = {
    "vocab_size": VOCABULARY,
    "d_model": 48,
    "n_heads": 6,
    "n_layers": 3,
    "max_seq_len": LONGEST,
}
_NEO = {
    "vocab_size": VOCABULARY,
    "hidden_size": 42,
    "num_layers": 4,
    "num_heads": 3,
    "max_position_embeddings": LONGEST,
    "window_size": 7,
    "attention_types": [[["global", "local"], 2]],
}
_NEOX = {
    **{key: value for key, value in _PLAIN.items() if key != "num_key_value_heads"},
    "rotary_pct": 0.5,
    "rotary_emb_base": 5000,
}
_ALONE = {key: value for key, value in _PLAIN.items() if key != "num_key_value_heads"}
_LINEAR = {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}
_LLAMA3 = {
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
}
_YARN = {
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 24}
}
_LONGROPE = {
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0, 1.1, 1.3, 1.7],
        "long_factor": [1.5, 2.0, 3.0, 4.0],
    }
}
_QK = {"qk_layernorm": True}

_GRANITE4 = {
    **{**_PLAIN, "num_local_experts": 0, "layer_types": ["attention"] * 3},
    **{"shared_intermediate_size": 37, "mamba_n_heads": 6},
}
_ROPE = {"position_embedding_type": "rope"}
_VISION = {
    **{"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "image_size": 8, "patch_size": 4},
}
_IDS = {"image_token_id": 5, "video_token_id": 6, "vision_start_token_id": 7}
_IDS |= {"vision_end_token_id": 8}
_QWEN_VISION = {"depth": 1, "embed_dim": 16, "hidden_size": 42, "num_heads": 2, "patch_size": 4}
_QWEN3_VISION = {**_QWEN_VISION, "hidden_size": 16, "out_hidden_size": 42, "intermediate_size": 20}
_QWEN3_VISION |= {"deepstack_visual_indexes": [0], "num_position_embeddings": 16}
_MROPE = {"rope_type": "default", "mrope_section": [1, 2, 2]}


def _pictured(model: str, what: str, text: dict, vision: dict = _VISION, **more: Any) -> Case:
    """A model with pictures; text: its language model's configuration."""
    return Case(model, what, {"text_config": text, "vision_config": vision, **more})


# Of models with pictures the language model is converted.
_PICTURED = [
    _pictured(
        "Gemma3ForConditionalGeneration",
        "",
        {**_LLAMA, "sliding_window": 9, "query_pre_attn_scalar": 24, "num_hidden_layers": 7},
        image_token_index=5,
    ),
    _pictured(
        "Gemma3ForConditionalGeneration",
        "linear scaling of the layers that see everything, a window of 5",
        {
            **{**_LLAMA, "sliding_window": 5, "num_key_value_heads": 3},
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
            "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        },
        image_token_index=5,
    ),
    _pictured(
        "Mistral3ForConditionalGeneration",
        "",
        {**_LLAMA, "model_type": "mistral", "sliding_window": None},
        {**_VISION, "model_type": "pixtral", "head_dim": 8},
    ),
    _pictured(
        "Mistral3ForConditionalGeneration",
        "a window, tied",
        {**_PLAIN, "model_type": "mistral", "sliding_window": 7, "tie_word_embeddings": True},
        {**_VISION, "model_type": "pixtral", "head_dim": 8},
    ),
    _pictured(
        "LlavaForConditionalGeneration",
        "a Llama",
        {**_LLAMA, "model_type": "llama"},
        {**_VISION, "model_type": "clip_vision_model"},
        image_token_index=5,
    ),
    _pictured(
        "LlavaForConditionalGeneration",
        "a Qwen2, tied",
        {**_PLAIN, "model_type": "qwen2", "tie_word_embeddings": True},
        {**_VISION, "model_type": "clip_vision_model"},
        image_token_index=5,
        tie_word_embeddings=True,
    ),
    _pictured(
        "InternVLForConditionalGeneration",
        "a Qwen2",
        {**_PLAIN, "model_type": "qwen2"},
        {**_VISION, "image_size": [8, 8], "patch_size": [4, 4]},
        image_token_id=5,
    ),
    _pictured(
        "InternVLForConditionalGeneration",
        "a Qwen3, tied",
        {**_LLAMA, "model_type": "qwen3", "tie_word_embeddings": True},
        {**_VISION, "image_size": [8, 8], "patch_size": [4, 4]},
        image_token_id=5,
    ),
    _pictured(
        "Qwen2VLForConditionalGeneration",
        "",
        {**_PLAIN, "hidden_size": 60, "rope_scaling": _MROPE},
        {**_QWEN_VISION, "hidden_size": 60},
        **_IDS,
    ),
    _pictured(
        "Qwen2VLForConditionalGeneration",
        "tied, windows from layer 1 on",
        {
            **{**_PLAIN, "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
            **{"rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}},
            "tie_word_embeddings": True,
        },
        {**_QWEN_VISION, "hidden_size": 48},
        tie_word_embeddings=True,
        **_IDS,
    ),
    _pictured(
        "Qwen2_5_VLForConditionalGeneration",
        "",
        {**_PLAIN, "hidden_size": 60, "rope_scaling": _MROPE},
        {**_QWEN3_VISION, "out_hidden_size": 60, "fullatt_block_indexes": [0]},
        **_IDS,
    ),
    _pictured(
        "Qwen2_5_VLForConditionalGeneration",
        "tied, YaRN",
        {
            **_PLAIN,
            "rope_scaling": {
                **{"rope_type": "yarn", "factor": 4.0, "mrope_section": [1, 1, 2]},
                "original_max_position_embeddings": 24,
            },
            "tie_word_embeddings": True,
            "max_position_embeddings": LONGEST,
        },
        {**_QWEN3_VISION, "out_hidden_size": 48, "fullatt_block_indexes": [0]},
        tie_word_embeddings=True,
        **_IDS,
    ),
    _pictured(
        "Qwen3VLForConditionalGeneration",
        "",
        {**_LLAMA, "rope_scaling": {**_MROPE, "mrope_interleaved": True}},
        _QWEN3_VISION,
        **_IDS,
    ),
    _pictured(
        "Qwen3VLForConditionalGeneration",
        "tied, biases",
        {
            **{**_PLAIN, "head_dim": 14, "attention_bias": True, "tie_word_embeddings": True},
            "rope_scaling": {**_MROPE, "mrope_section": [3, 2, 2]},
        },
        {**_QWEN3_VISION, "out_hidden_size": 48},
        tie_word_embeddings=True,
        **_IDS,
    ),
    *(
        _pictured(f"{model}ForConditionalGeneration", what, text, image_token_id=5, **more)
        for model in ("Idefics3", "SmolVLM")
        for what, text, more in (
            ("", {**_LLAMA, "model_type": "llama"}, {}),
            (
                "tied, biases",
                {
                    **{**_PLAIN, "model_type": "llama", "attention_bias": True},
                    "tie_word_embeddings": True,
                },
                {"tie_word_embeddings": True},
            ),
        )
    ),
]

CASES = [
    Case("LlamaForCausalLM", "", _LLAMA),
    Case(
        "LlamaForCausalLM",
        "biases, tied, linear scaling, GELU",
        {
            **_LLAMA,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "hidden_act": "gelu",
            **_LINEAR,
        },
    ),
    Case("LlamaForCausalLM", "heads of the width's share, llama3 scaling", {**_PLAIN, **_LLAMA3}),
    Case("LlamaForCausalLM", "YaRN", {**_PLAIN, **_YARN}),
    Case("SmolLM3ForCausalLM", "", {**_PLAIN, "num_hidden_layers": 5}),
    Case(
        "SmolLM3ForCausalLM",
        "windows",
        {
            **_PLAIN,
            "no_rope_layers": [1, 0, 1],
            "use_sliding_window": True,
            "sliding_window": 9,
            "attention_bias": True,
        },
    ),
    Case("MistralForCausalLM", "a window", {**_LLAMA, "sliding_window": 11}),
    Case(
        "MistralForCausalLM",
        "no window",
        {**_LLAMA, "sliding_window": None, "head_dim": None, "hidden_size": 48},
    ),
    Case(
        "MinistralForCausalLM",
        "windows by layer_types",
        {
            **_LLAMA,
            "sliding_window": 11,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    Case("Qwen2ForCausalLM", "", _PLAIN),
    Case(
        "Qwen2ForCausalLM",
        "tied, windows from layer 1 on",
        {
            **_PLAIN,
            "use_sliding_window": True,
            "sliding_window": 10,
            "max_window_layers": 1,
            "tie_word_embeddings": True,
        },
    ),
    Case("Qwen3ForCausalLM", "", _LLAMA),
    Case(
        "Qwen3ForCausalLM",
        "biases, windows by layer_types",
        {
            **_LLAMA,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 10,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        },
    ),
    Case("GemmaForCausalLM", "", _LLAMA),
    Case(
        "Gemma2ForCausalLM",
        "",
        {**_LLAMA, "sliding_window": 9, "query_pre_attn_scalar": 7, "num_hidden_layers": 4},
    ),
    Case(
        "Gemma2ForCausalLM",
        "no caps",
        {
            **_LLAMA,
            "sliding_window": 9,
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
        },
    ),
    Case("VaultGemmaForCausalLM", "", {**_LLAMA, "sliding_window": 9, "query_pre_attn_scalar": 7}),
    Case(
        "Gemma3ForCausalLM",
        "",
        {
            **_LLAMA,
            "sliding_window": 9,
            "query_pre_attn_scalar": 7,
            "sliding_window_pattern": 3,
            "num_hidden_layers": 6,
        },
    ),
    Case(
        "Gemma3ForCausalLM",
        "linear scaling of the layers that see everything, a cap",
        {
            **_LLAMA,
            "sliding_window": 9,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "final_logit_softcapping": 3.0,
            "rope_local_base_freq": 500.0,
            **_LINEAR,
        },
    ),
    Case("PhiForCausalLM", "", {**_PLAIN, "hidden_size": 72}),
    Case(
        "PhiForCausalLM",
        "norms of q and k",
        {**_PLAIN, **_QK, "hidden_size": 72, "partial_rotary_factor": 0.34},
    ),
    Case("Phi3ForCausalLM", "", _PLAIN),
    Case(
        "Phi3ForCausalLM",
        "a window, LongRoPE, part of a head rotated",
        {
            **_PLAIN,
            "hidden_size": 96,
            "sliding_window": 13,
            **_LONGROPE,
            "partial_rotary_factor": 0.5,
            "original_max_position_embeddings": LONGEST,
        },
    ),
    Case("OlmoForCausalLM", "", _PLAIN),
    Case(
        "OlmoForCausalLM", "q, k and v clipped", {**_PLAIN, "clip_qkv": 0.7, "attention_bias": True}
    ),
    Case("Olmo2ForCausalLM", "", _PLAIN),
    Case(
        "Olmo3ForCausalLM", "", {**_PLAIN, "num_hidden_layers": 4, "sliding_window": 9, **_LINEAR}
    ),
    Case(
        "GraniteForCausalLM",
        "",
        {
            **_PLAIN,
            "embedding_multiplier": 3.0,
            "attention_multiplier": 0.2,
            "residual_multiplier": 0.3,
            "logits_scaling": 7.0,
        },
    ),
    Case("CohereForCausalLM", "", _PLAIN),
    Case(
        "CohereForCausalLM",
        "norms of q and k, biases",
        {**_PLAIN, "use_qk_norm": True, "attention_bias": True, "logit_scale": 0.3},
    ),
    Case("Cohere2ForCausalLM", "", {**_LLAMA, "sliding_window": 9, "num_hidden_layers": 4}),
    Case("GlmForCausalLM", "", {**_LLAMA, "head_dim": 12}),
    Case("Glm4ForCausalLM", "", {**_LLAMA, "head_dim": 12, "attention_bias": False}),
    Case("Exaone4ForCausalLM", "", {**_PLAIN, "sliding_window": 9, "num_hidden_layers": 4}),
    Case("HeliumForCausalLM", "", {**_PLAIN, "head_dim": 8}),
    Case("Ernie4_5ForCausalLM", "biases", {**_LLAMA, "use_bias": True}),
    Case("SeedOssForCausalLM", "", _LLAMA),
    Case("GPT2LMHeadModel", "", _GPT),
    Case(
        "GPT2LMHeadModel",
        "scores divided by the layer, an inner width, ReLU, own output matrix",
        {
            **_GPT,
            "scale_attn_by_inverse_layer_idx": True,
            "n_inner": 53,
            "activation_function": "relu",
            "tie_word_embeddings": False,
        },
    ),
    Case("GPT2LMHeadModel", "scores not divided", {**_GPT, "scale_attn_weights": False}),
    Case("GPTBigCodeForCausalLM", "", _GPT),
    Case("GPTBigCodeForCausalLM", "a head of keys for each", {**_GPT, "multi_query": False}),
    Case("GPTNeoForCausalLM", "", _NEO),
    Case("GPTJForCausalLM", "", {**_GPT, "rotary_dim": 6}),
    Case(
        "GPTJForCausalLM",
        "tied, whole heads rotated",
        {**_GPT, "rotary_dim": 14, "n_inner": 53, "tie_word_embeddings": True},
    ),
    Case("CodeGenForCausalLM", "", {**_GPT, "n_embd": 48, "n_head": 8, "rotary_dim": 4}),
    Case("GPTNeoXForCausalLM", "", _NEOX),
    Case(
        "GPTNeoXForCausalLM",
        "one after the other, no biases of attention",
        {**_NEOX, "use_parallel_residual": False, "attention_bias": False},
    ),
    Case("OPTForCausalLM", "", _OPT),
    Case(
        "OPTForCausalLM",
        "narrow embedding, norms after",
        {**_OPT, "word_embed_proj_dim": 20, "do_layer_norm_before": False},
    ),
    Case(
        "OPTForCausalLM",
        "wide embedding, no biases, norms without weights",
        {
            **_OPT,
            "word_embed_proj_dim": 50,
            "enable_bias": False,
            "layer_norm_elementwise_affine": False,
        },
    ),
    Case(
        "OPTForCausalLM",
        "no final norm",
        {**_OPT, "_remove_final_layer_norm": True, "activation_function": "gelu"},
    ),
    Case("BloomForCausalLM", "3 heads", _BLOOM),
    Case("BloomForCausalLM", "8 heads", {**_BLOOM, "hidden_size": 40, "n_head": 8}),
    Case("BloomForCausalLM", "13 heads", {**_BLOOM, "hidden_size": 39, "n_head": 13}),
    Case("MptForCausalLM", "6 heads", _MPT),
    Case(
        "MptForCausalLM",
        "8 heads, q, k and v clipped, a scale",
        {**_MPT, "n_heads": 8, "attn_config": {"clip_qkv": 0.7, "softmax_scale": 0.21}},
    ),
    Case("FalconForCausalLM", "", _FALCON),
    Case(
        "FalconForCausalLM",
        "one after the other, biases, a head of keys for each",
        {**_FALCON, "parallel_attn": False, "bias": True, "multi_query": False},
    ),
    Case(
        "FalconForCausalLM",
        "the new architecture",
        {**_FALCON, "new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    Case(
        "FalconForCausalLM",
        "the new architecture with one norm",
        {
            **_FALCON,
            "new_decoder_architecture": True,
            "num_kv_heads": 3,
            "num_ln_in_parallel_attn": 1,
            "ffn_hidden_size": 53,
            "tie_word_embeddings": False,
        },
    ),
    Case("FalconForCausalLM", "ALiBi", {**_FALCON, "alibi": True, "num_attention_heads": 8}),
    Case("StableLmForCausalLM", "", _PLAIN),
    Case(
        "StableLmForCausalLM",
        "parallel, biases, norms of q and k, half of each head rotated",
        {
            **_PLAIN,
            **_QK,
            "use_qkv_bias": True,
            "use_parallel_residual": True,
            "partial_rotary_factor": 0.5,
        },
    ),
    Case("Starcoder2ForCausalLM", "", {**_PLAIN, "sliding_window": 9}),
    Case("Starcoder2ForCausalLM", "no biases, no window", {**_PLAIN, "use_bias": False}),
    Case("NemotronForCausalLM", "", {**_LLAMA, "head_dim": 12}),
    Case(
        "NemotronForCausalLM",
        "biases, a share of each head, tied",
        {
            **_PLAIN,
            "head_dim": 16,
            "partial_rotary_factor": 0.25,
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
        },
    ),
    Case("ArceeForCausalLM", "", _PLAIN),
    Case(
        "ArceeForCausalLM",
        "biases, YaRN",
        {**_PLAIN, **_YARN, "attention_bias": True, "mlp_bias": True},
    ),
    Case("PersimmonForCausalLM", "", _ALONE),
    Case(
        "PersimmonForCausalLM",
        "no norms of q and k, whole heads rotated, GELU",
        {
            **_ALONE,
            "qk_layernorm": False,
            "partial_rotary_factor": 1.0,
            "hidden_act": "gelu",
        },
    ),
    Case("ApertusForCausalLM", "", {**_PLAIN, **_LLAMA3}),
    Case(
        "ApertusForCausalLM",
        "biases, YaRN, tied",
        {**_PLAIN, **_YARN, "attention_bias": True, "tie_word_embeddings": True},
    ),
    Case(
        "Lfm2ForCausalLM",
        "",
        {
            **_PLAIN,
            "num_hidden_layers": 5,
            "block_auto_adjust_ff_dim": False,
            "full_attn_idxs": [2, 4],
        },
    ),
    Case(
        "Lfm2ForCausalLM",
        "five taps, biases, own output matrix, a computed width",
        {
            **_PLAIN,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "conv_L_cache": 5,
            "conv_bias": True,
            "tie_word_embeddings": False,
            "block_multiple_of": 7,
            "block_ffn_dim_multiplier": 1.3,
            "full_attn_idxs": [1],
        },
    ),
    Case("BitNetForCausalLM", "", _PLAIN),
    Case(
        "BitNetForCausalLM",
        "biases, SiLU, YaRN, tied",
        {
            **_PLAIN,
            **_YARN,
            "attention_bias": True,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
        },
    ),
    Case("HunYuanDenseV1ForCausalLM", "", _LLAMA),
    Case(
        "HunYuanDenseV1ForCausalLM",
        "a stretched base, biases, tied",
        {
            **_LLAMA,
            "head_dim": 12,
            "attention_bias": True,
            "tie_word_embeddings": True,
            "rope_scaling": {
                **{"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32},
                **{"beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0},
            },
        },
    ),
    Case("BioGptForCausalLM", "", _ALONE),
    Case(
        "BioGptForCausalLM",
        "embeddings as they are, ReLU, own output matrix",
        {
            **_ALONE,
            "scale_embedding": False,
            "hidden_act": "relu",
            "tie_word_embeddings": False,
        },
    ),
    Case("XGLMForCausalLM", "", _XGLM),
    Case(
        "XGLMForCausalLM",
        "embeddings as they are, ReLU, own output matrix",
        {
            **_XGLM,
            "pad_token_id": 5,  # its class clears this row of its positions
            "scale_embedding": False,
            "activation_function": "relu",
            "tie_word_embeddings": False,
        },
    ),
    Case("GraniteMoeHybridForCausalLM", "rotary positions", {**_GRANITE4, **_ROPE}),
    Case(
        "GraniteMoeHybridForCausalLM",
        "no positions, biases, tied, factors",
        {
            **{**_GRANITE4, "attention_bias": True, "tie_word_embeddings": True},
            **{"embedding_multiplier": 3.0, "attention_multiplier": 0.2, "logits_scaling": 4.0},
            "residual_multiplier": 0.4,
        },
    ),
    *_PICTURED,
    Case("ModernBertDecoderForCausalLM", "", _ETTIN),
    Case(
        "ModernBertDecoderForCausalLM",
        "all biases, own output matrix, windows by layer_types",
        {
            **_ETTIN,
            **dict.fromkeys(("attention_bias", "mlp_bias", "norm_bias", "classifier_bias"), True),
            "tie_word_embeddings": False,
            "local_attention": 11,
            "local_rope_theta": 50.0,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    Case("BertLMHeadModel", "", _BERT),
    Case("BertLMHeadModel", "2 token types, own output matrix, ReLU", {**_BERT, **_BERT_MORE}),
    Case("RobertaForCausalLM", "", {**_BERT, "pad_token_id": 0, "type_vocab_size": 1}),
    Case("RobertaForCausalLM", "own output matrix", {**_BERT, "tie_word_embeddings": False}),
    Case("OpenAIGPTLMHeadModel", "", _GPT),
    Case("OpenAIGPTLMHeadModel", "SiLU", {**_GPT, "afn": "swish", "n_layer": 2}),
]


# ---- PyTorch's side


def randomized(kind: type, config: dict[str, Any], seed: int) -> torch.nn.Module:
    """A model with every parameter drawn: matrices of the size that keeps a vector's length, norms
    around 1 (of Gemma: around what is stored)."""
    torch.manual_seed(seed)
    attention = (
        "sdpa" if "Falcon" in kind.__name__ else "eager"
    )  # Falcon's eager attention adds ALiBi twice, Gemma's sdpa leaves the cap out
    with (
        warnings.catch_warnings(),
        transformers.modeling_utils.no_init_weights(),
    ):  # which fails for norms without a bias
        warnings.simplefilter("ignore")
        model = kind(kind.config_class(**copy.deepcopy(config), attn_implementation=attention))
    model.tie_weights()
    model.float()  # xIELU's numbers are made in bfloat16
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = "norm" in name.lower() or ".ln_" in name
            if norm and name.endswith("weight"):
                p.copy_(torch.randn_like(p) * 0.2 + (0.0 if "Gemma" in kind.__name__ else 1.0))
            elif p.dim() == 1:
                p.copy_(torch.randn_like(p) * 0.2)
            else:
                p.copy_(
                    torch.randn_like(p)
                    * (
                        0.6
                        if isinstance(_owner(model, name), torch.nn.Embedding)
                        else p.shape[-1] ** -0.5
                    )
                )
    return model.eval()


def _owner(model: torch.nn.Module, name: str) -> torch.nn.Module:
    return model.get_submodule(name.rpartition(".")[0])


class Pair:
    """A case's PyTorch model and its converted file."""

    def __init__(self, case: Case, folder: Path, context: int = 0) -> None:
        self.case, self.folder, self.path = case, folder, folder / "model.phasor"
        self.model = randomized(getattr(transformers, case.model), case.config, len(case.name))
        self.model.save_pretrained(folder / "source")
        restore(folder / "source", case.config)
        model, _ = read_source(folder / "source", rope_context=context)
        model.descriptor["target"]["end"] = []  # so that the greedy tokens go on
        convert.convert(model, self.path, F32, {}, None, quiet=True)
        self.reference = Reference(PhasorFile(self.path))
        self.ids = np.random.default_rng(7).integers(3, VOCABULARY, PROMPT)

    def compare(self) -> tuple[float, float]:
        """The largest differences of the reference in double: of a layer's residual, as a share of
        its largest value, and of a logit, of its position's range."""
        with float32_is_double(), torch.no_grad():
            model = copy.deepcopy(self.model).double()
            result = model(torch.from_numpy(self.ids)[None], output_hidden_states=True)
        trace = self.reference.decode(self.ids)
        layers = [h[0].numpy() for h in result.hidden_states[1:]]
        ours = [*trace.residuals]
        if self.case.model.startswith(("ModernBert", "BertLM", "Roberta")):  # heads of the logits
            ours[-1] = trace.output
        elif self.case.model not in NOT_NORMED:
            ours[-1] = self.reference.head(trace.output)
        assert len(ours) == len(layers)
        layer = max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(ours, layers))
        return float(layer), share(trace.logits, result.logits[0].numpy())

    def compare_program(self, program: Path) -> tuple[float, list[int], list[int]]:
        """The largest difference of the program's logits from the float32 model's, and the greedy
        tokens of both."""
        out = self.folder / "logits.npy"
        done = subprocess.run(
            [
                program,
                "run",
                self.path,
                "--ids",
                ids_text(self.ids),
                "-n",
                str(NEW),
                "--context",
                str(LONGEST),
                "--print-ids",
                "--quiet",
                "--logits",
                out,
            ],
            stdout=subprocess.PIPE,
            check=True,
            timeout=120,
        )
        ours = [int(i) for i in done.stdout.decode().split(",")]
        with torch.no_grad():
            batch = torch.from_numpy(self.ids)[None]
            want = self.model(batch).logits[0].numpy()
            self.model.generation_config.eos_token_id = None
            settings = transformers.GenerationConfig(
                do_sample=False, max_new_tokens=NEW, eos_token_id=None, pad_token_id=0
            )
            if self.case.model.startswith("Roberta"):  # generate counts its positions from 0
                for _ in range(NEW):
                    last = self.model(batch).logits[:, -1].argmax(-1, keepdim=True)
                    batch = torch.cat([batch, last], dim=1)
            else:
                batch = self.model.generate(
                    batch, attention_mask=torch.ones_like(batch), generation_config=settings
                )
            theirs = batch[0, PROMPT:].tolist()
        return (
            share(np.load(out)[:PROMPT].astype(np.float64), want.astype(np.float64)),
            ours,
            theirs,
        )


def share(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference of a logit as a share of its position's range."""
    assert ours.shape == theirs.shape
    return float((np.abs(ours - theirs).max(axis=1) / np.ptp(theirs, axis=1)).max())


@pytest.fixture(scope="module", params=CASES, ids=lambda c: c.name)
def pair(request, tmp_path_factory):
    return Pair(request.param, tmp_path_factory.mktemp("family"))


def test_every_layer_and_the_logits(pair):
    layer, logits = pair.compare()
    assert layer < TOLERANCE and logits < TOLERANCE


def test_the_program(pair, phasor):
    logits, ours, theirs = pair.compare_program(phasor)
    assert logits < PROGRAM_TOLERANCE and ours == theirs


TYPES = ("q8", "q4", "bf16", "f16")


def test_another_type_replays_its_vectors(pair, phasor):
    """The program agrees with the reference about the rounded weights: each family in one of the
    types, every second time with scaled inputs."""
    number = CASES.index(pair.case)
    model, _ = read_source(pair.folder / "source")
    kind = TYPES[number % len(TYPES)]
    convert.convert(
        model,
        pair.folder / "other.phasor",
        type_code(kind),
        {},
        phasor,
        quiet=True,
        smooth=kind == "q8" and number % 8 == 0,
    )


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("safe", [True, False], ids=["safetensors", "bin"])
@pytest.mark.parametrize("size", ["1GB", "30KB"], ids=["one file", "shards"])
def test_what_transformers_saves(kind, safe, size, tmp_path):
    """Half precision, one file or shards, safetensors or pickles: the weights are exact."""
    model = randomized(transformers.Gemma2ForCausalLM, {**_LLAMA, "sliding_window": 9}, 4).to(kind)
    model.save_pretrained(tmp_path / "source", safe_serialization=safe, max_shard_size=size)
    assert (len(list((tmp_path / "source").glob("*.index.json"))) == 1) == (size == "30KB")
    read, _ = read_source(tmp_path / "source")
    convert.convert(read, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    ids = np.random.default_rng(7).integers(3, VOCABULARY, 20)
    loaded = type(model).from_pretrained(
        tmp_path / "source", dtype=torch.float32, attn_implementation="eager"
    )  # with frequencies that were never rounded
    with float32_is_double(), torch.no_grad():
        want = loaded.double()(torch.from_numpy(ids)[None]).logits[0].numpy()
    assert share(Reference(PhasorFile(tmp_path / "m.phasor")).decode(ids).logits, want) < TOLERANCE


def test_the_flat_configuration_of_the_first_qwen2_vl(tmp_path):
    """The language model's fields beside the others, and its names without a beginning."""
    case = next(c for c in _PICTURED if c.model.startswith("Qwen2VL"))
    model = randomized(getattr(transformers, case.model), case.config, 5)
    model.save_pretrained(tmp_path / "nested")
    values = read_json(tmp_path / "nested/config.json")
    flat = {**values.pop("text_config"), **values, "transformers_version": "4.45.0"}
    table = flat["rope_scaling"]
    flat["rope_scaling"] = {"type": "mrope", "mrope_section": table["mrope_section"]}
    (tmp_path / "flat").mkdir()
    write_json(tmp_path / "flat/config.json", flat)
    save_file(
        {
            n.replace("model.visual.", "visual.").replace("model.language_model.", "model."): p
            for n, p in load_file(tmp_path / "nested/model.safetensors").items()
        },
        tmp_path / "flat/model.safetensors",
        {"format": "pt"},
    )
    read, _ = read_source(tmp_path / "flat")
    convert.convert(read, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    ids = np.random.default_rng(7).integers(3, VOCABULARY, 20)
    loaded, told = type(model).from_pretrained(
        tmp_path / "flat",
        dtype=torch.float32,
        attn_implementation="eager",
        output_loading_info=True,
    )
    assert not told["missing_keys"]
    with float32_is_double(), torch.no_grad():
        want = loaded.double()(torch.from_numpy(ids)[None]).logits[0].numpy()
    assert share(Reference(PhasorFile(tmp_path / "m.phasor")).decode(ids).logits, want) < TOLERANCE


# ---- Text


def test_a_text_with_its_tokenizer(tmp_path, phasor):
    """tokenizer.json puts <s> before a text; generation_config.json has two ends."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(
        ["the cat sat on the mat, and the dog sat on the cat"] * 9, trainer
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    model = randomized(
        transformers.LlamaForCausalLM,
        {**_PLAIN, "vocab_size": tokenizer.get_vocab_size(), "bos_token_id": 5},
        2,
    )
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=1, eos_token_id=[2, 77], pad_token_id=0
    )
    model.save_pretrained(tmp_path / "source")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(tmp_path / "source")
    convert_to(tmp_path / "source", tmp_path / "m.phasor")
    target = PhasorFile(tmp_path / "m.phasor").descriptor["target"]
    assert (target["start"], target["end"], target["pad"], target["prefix"], target["suffix"]) == (
        1,
        [2, 77],
        0,
        [1],
        [],
    )
    ids = transformers.AutoTokenizer.from_pretrained(tmp_path / "source")(
        "the dog sat", return_tensors="pt"
    ).input_ids
    assert ids[0, 0] == 1
    theirs = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW
    )[0, ids.shape[1] :].tolist()
    done = subprocess.run(
        [
            phasor,
            "run",
            tmp_path / "m.phasor",
            "the dog sat",
            "-n",
            str(NEW),
            "--print-ids",
            "--quiet",
        ],
        stdout=subprocess.PIPE,
        check=True,
    )
    assert [int(i) for i in done.stdout.decode().split(",")] == theirs


def tokens(program: Path, path: Path, text: str) -> list[int]:
    return [
        int(i)
        for i in subprocess.run(
            [program, "tokenize", path, text, "--print-ids"],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        ).stdout.split(",")
    ]


TEXTS = ("the dog sat", "The  cat, on 12 mats!", " it's ünïcode 猫")


def test_merges_of_a_gpt2(tmp_path, phasor):
    """vocab.json and merges.txt alone."""
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        ["the cat sat on the mat, and the dog sat on the cat"] * 9,
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    model = randomized(
        transformers.GPT2LMHeadModel,
        {**_GPT, "vocab_size": 300, "bos_token_id": 0, "eos_token_id": 0},
        2,
    )
    model.save_pretrained(tmp_path)
    trained.save_model(str(tmp_path))
    convert_to(tmp_path, tmp_path / "m.phasor")
    theirs = transformers.GPT2Tokenizer.from_pretrained(tmp_path)
    assert all(
        tokens(phasor, tmp_path / "m.phasor", text) == theirs(text).input_ids for text in TEXTS
    )


def test_a_sentencepiece_model_of_a_llama(tmp_path, phasor):
    """tokenizer.model alone: <s> goes before a text unless tokenizer_config.json says no."""

    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(
            ["the cat sat on the mat, and the dog sat on the cat", "It's 12 o'clock"] * 40
        ),
        model_prefix=str(tmp_path / "tokenizer"),
        vocab_size=290,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    randomized(transformers.LlamaForCausalLM, {**_PLAIN, "vocab_size": 320}, 2).save_pretrained(
        tmp_path
    )
    theirs = transformers.LlamaTokenizer(str(tmp_path / "tokenizer.model"))
    for add in (True, False):
        write_json(
            tmp_path / "tokenizer_config.json",
            {"tokenizer_class": "LlamaTokenizer", "add_bos_token": add},
        )
        convert_to(tmp_path, tmp_path / "m.phasor")
        assert all(
            tokens(phasor, tmp_path / "m.phasor", text) == theirs(text).input_ids[0 if add else 1 :]
            for text in TEXTS
        )


# ---- Frequencies that depend on the length

_DYNAMIC = {
    **_PLAIN,
    "max_position_embeddings": 32,
    "rope_scaling": {"rope_type": "dynamic", "factor": 3.0},
}
_SHORT = {
    **_PLAIN,
    "max_position_embeddings": 64,
    "original_max_position_embeddings": 32,
    **_LONGROPE,
}


@pytest.mark.parametrize(
    "model, config, context, most",
    [
        ("LlamaForCausalLM", _DYNAMIC, 0, 32),
        ("LlamaForCausalLM", _DYNAMIC, 49, 49),
        ("LlamaForCausalLM", _DYNAMIC, 20, 20),
        ("Phi3ForCausalLM", _SHORT, 0, 32),
        ("Phi3ForCausalLM", _SHORT, 49, 49),
        ("Phi3ForCausalLM", _SHORT, 20, 32),
        ("LlamaForCausalLM", _PLAIN, 20, 20),
    ],
)
def test_a_scaling_is_fixed_for_a_length(model, config, context, most, tmp_path, phasor):
    """At that length the logits are transformers', and a longer sequence is refused."""
    pair = Pair(Case(model, "fixed", config), tmp_path, context)
    longest = pair.reference.d["decoder"]["max_positions"]
    assert longest == (context or most)
    ids = np.random.default_rng(7).integers(3, VOCABULARY, longest)
    with float32_is_double(), torch.no_grad():
        want = copy.deepcopy(pair.model).double()(torch.from_numpy(ids)[None]).logits[0].numpy()
    assert share(pair.reference.decode(ids).logits, want) < TOLERANCE
    for more, status in ((1, 0), (2, 1)):  # what follows the last token is not computed
        given = ids_text([*ids, *ids[:more]])
        done = subprocess.run(
            [phasor, "score", pair.path, "--ids", given],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == status, done.stderr
        assert not status or f"{longest}" in done.stderr


# ---- The document

TABLE = Table(
    "test_families_decoders.py",
    "| class | reference: layers | logits | phasor, f32: logits | the same greedy tokens "
    "|\n|---|---|---|---|---|\n",
)


def test_the_document_has_these_rows():
    assert TABLE.names() == [case.name for case in CASES], "run make families"


def write() -> None:
    """Measures every row."""
    import tempfile

    rows = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            pair = Pair(case, Path(folder))
            layer, logits = pair.compare()
            program_logits, ours, theirs = pair.compare_program(PROGRAM)
        same = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), len(theirs))
        print(case.name, layer, logits, program_logits, same)
        rows.append(
            f"| {case.name} | {layer:.0e} | {logits:.0e} | {program_logits:.0e} | {same} of "
            f"{len(theirs)} |\n"
        )
    TABLE.write(rows)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
