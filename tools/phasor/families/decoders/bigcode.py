"""GPT-BigCode (Ben Allal et al. 2023): one head of keys and values; StarCoder2 (Lozhkov et al.
2024)."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import GPT2_FIELDS, GPT2_SIZES, GPT_NAMES, MASKS, SUMMARY, gpt_like
from phasor.families.llama_like import all_biases, llama_like, llama_names
from phasor.format import descriptor as D
from phasor.values import settings, words


def _gpt_bigcode(d: Decoder) -> None:
    d.kind.update(attention_biases=D.ATTENTION_BIASES, ffn_biases=D.FFN_BIASES)
    if d.flag("multi_query"):
        d.kind["kv_heads"] = 1
    d.config.must("num_key_value_heads", d.kind["kv_heads"])
    d.fused()
    d.learned()
    if not d.flag("scale_attn_weights"):
        d.kind["scale"] = 1.0


GPT_BIGCODE = gpt_like(
    "gpt_bigcode",
    "GPTBigCodeForCausalLM",
    GPT_NAMES,
    {**GPT2_SIZES, "activation_function": "gelu_pytorch_tanh", "multi_query": True},
    _gpt_bigcode,
    fields=GPT2_FIELDS,
    harmless=SUMMARY
    + words("""
        attention_softmax_in_fp32 scale_attention_softmax_in_fp32 inference_runner
        max_batch_size max_sequence_length pad_key_length pre_allocate_kv_cache
        validate_runner_input
    """),
    unused=MASKS,
)


def _starcoder2(d: Decoder) -> None:
    all_biases(d, "use_bias")
    d.kind.update(d.window())
    d.rotate()


STARCODER2 = llama_like(
    "starcoder2",
    "Starcoder2ForCausalLM",
    _starcoder2,
    llama_names(ffn_gate=None, ffn_in="mlp.c_fc", ffn_out="mlp.c_proj"),
    settings("""
        vocab_size               49152
        hidden_size              3072
        num_hidden_layers        30
        num_attention_heads      24
        num_key_value_heads      2
        intermediate_size        12288
        hidden_act               "gelu_pytorch_tanh"
        max_position_embeddings  4096
        norm_epsilon             1e-5
        use_bias                 true
        tie_word_embeddings      true
    """),
    fields={"rms_norm_eps": "norm_epsilon"},
    harmless=words("""
        layer_norm_eps layer_norm_epsilon norm_type mlp_type activation_function
        scale_attn_weights
    """),
    norm=D.LAYER_NORM,
    gated=False,
)
