"""The decoders that transformers has, as tables: GPT-2 and those with blocks of their own. Each is
tested against transformers itself (docs/families.md)."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from phasor.families.decoder import NORMS, Decoder, Family
from phasor.families.hf_config import rope_table, rope_value
from phasor.families.hf_decoders import DROPPED, NORM_BIASES, all_biases, llama_like, llama_names
from phasor.families.model import single
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.positions import alibi_slopes, float32_powers
from phasor.values import is_whole, settings, table, words

_TRUNK = "transformer."


def gpt_like(
    kind: str, name: str, names: dict, defaults: dict, adapt: Callable[[Decoder], None], **more: Any
) -> Family:
    """A family with layer norms; as GPT-2's are, but for its own, its trunk, its heads (each with
    keys and values) and its feed-forward (four times as wide)."""
    own = {"trunk": _TRUNK, "grouped": False, "hidden_factor": 4, **more}
    own["harmless"] = DROPPED + own.get("harmless", ())
    return Family(
        (kind,),
        (name,),
        names=names,
        defaults=defaults,
        adapt=adapt,
        norm=D.LAYER_NORM,
        **own,
    )


SUMMARY = words("""
    summary_type summary_use_proj summary_activation summary_first_dropout
    summary_proj_to_labels summary_hidden_size resid_dropout embed_dropout classifier_dropout
    scale_attn_by_inverse_layer_idx n_ctx
""")
GPT2_FIELDS = table("""
    hidden_size              n_embd
    num_hidden_layers        n_layer
    num_attention_heads      n_head
    intermediate_size        n_inner
    max_position_embeddings  n_positions
    rms_norm_eps             layer_norm_epsilon
    hidden_act               activation_function
""")
GPT2_SIZES = settings("""
    vocab_size                       50257
    n_positions                      1024
    n_embd                           768
    n_layer                          12
    n_head                           12
    activation_function              "gelu_new"
    layer_norm_epsilon               1e-5
    scale_attn_weights               true
    scale_attn_by_inverse_layer_idx  false
    tie_word_embeddings              true
""")
MASKS = words("""
    h.*.attn.bias h.*.attn.masked_bias h.*.attn.attention.bias h.*.attn.attention.masked_bias
    h.*.attn.causal_mask h.*.attn.embed_positions
""")
_GPT_NAMES = tensor_names(
    "h.{layer}",
    """
    embedding       wte
    positions       wpe
    final_norm      ln_f
    output          lm_head
    qkv             .attn.c_attn
    attention_out   .attn.c_proj
    attention_norm  .ln_1
    ffn_norm        .ln_2
    ffn_in          .mlp.c_fc
    ffn_out         .mlp.c_proj
    """,
)


# ---- GPT-2 (Radford et al. 2019): matrices stored as (inputs, outputs)


def _gpt2(d: Decoder) -> None:
    d.kind.update(attention_biases=15, ffn_biases=3)
    d.transposed = frozenset(("qkv", "attention_out", "ffn_in", "ffn_out"))
    d.learned()
    scale = d.kind["head_width"] ** -0.5 if d.flag("scale_attn_weights") else 1.0
    by_layer = d.flag("scale_attn_by_inverse_layer_idx")
    for i, own in enumerate(d.per_layer):
        own["scale"] = single(scale / (i + 1 if by_layer else 1))


GPT2 = gpt_like(
    "gpt2",
    "GPT2LMHeadModel",
    _GPT_NAMES,
    GPT2_SIZES,
    _gpt2,
    fields=GPT2_FIELDS,
    harmless=SUMMARY + ("reorder_and_upcast_attn",),
    unused=MASKS,
)


# ---- GPT-BigCode (Ben Allal et al. 2023): one head of keys and values


def _gpt_bigcode(d: Decoder) -> None:
    d.kind.update(attention_biases=15, ffn_biases=3)
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
    _GPT_NAMES,
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


# ---- GPT-Neo (Black et al. 2021): layers that see a window, scores that are not divided


def _gpt_neo(d: Decoder) -> None:
    d.kind.update(attention_biases=8, ffn_biases=3, scale=1.0)
    d.learned()
    kinds = _attention_layers(d)
    window = d.window("window_size")
    for own, kind in zip(d.per_layer, kinds):
        own.update(window if kind == "local" else {})


def _attention_layers(d: Decoder) -> list[str]:
    """attention_types is a list of (kinds, how often)."""
    pairs, kinds = d.config.get("attention_types"), []
    for pair in pairs if isinstance(pairs, list) else [None]:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not isinstance(pair[0], list)
            or not pair[0]
            or not is_whole(pair[1], 1, d.count)
        ):
            raise d.config.error(
                "attention_types", f"expected pairs of a list of kinds and a number up to {d.count}"
            )
        kinds += pair[0][: d.count] * pair[1]
        if len(kinds) > d.count:
            break
    if len(kinds) != d.count or any(kind not in ("global", "local") for kind in kinds):
        raise d.config.error("attention_types", f"expected {d.count} layers, each global or local")
    d.config.must("attention_layers", kinds)
    return kinds


GPT_NEO = gpt_like(
    "gpt_neo",
    "GPTNeoForCausalLM",
    tensor_names(
        "h.{layer}",
        """
        embedding       wte
        positions       wpe
        final_norm      ln_f
        output          lm_head
        q               .attn.attention.q_proj
        k               .attn.attention.k_proj
        v               .attn.attention.v_proj
        attention_out   .attn.attention.out_proj
        attention_norm  .ln_1
        ffn_norm        .ln_2
        ffn_in          .mlp.c_fc
        ffn_out         .mlp.c_proj
        """,
    ),
    settings("""
        vocab_size               50257
        max_position_embeddings  2048
        hidden_size              2048
        num_layers               24
        num_heads                16
        window_size              256
        activation_function      "gelu_new"
        layer_norm_epsilon       1e-5
        attention_types          [[["global", "local"], 12]]
        tie_word_embeddings      true
    """),
    _gpt_neo,
    fields=table("""
        num_hidden_layers    num_layers
        num_attention_heads  num_heads
        rms_norm_eps         layer_norm_epsilon
        hidden_act           activation_function
    """),
    harmless=SUMMARY,
    unused=MASKS,
)


# ---- GPT-J (Wang and Komatsuzaki 2021), CodeGen (Nijkamp et al. 2022): sub-layers share a norm


def _gptj(d: Decoder) -> None:
    d.kind.update(ffn_biases=3, parallel=D.SHARED_INPUT)
    width = d.config.whole("rotary_dim", 2, d.kind["head_width"])
    d.rotate(fixed=10000.0, width=width, interleaved=True)
    d.output["bias"] = 1


_CODEGEN_PARTS = 4  # of the code: q, v and k of a quarter of the heads lie together


def _codegen(d: Decoder) -> None:
    _gptj(d)
    heads, width = d.kind["heads"], d.kind["head_width"]
    if heads % _CODEGEN_PARTS:
        raise d.config.error("n_head", f"{heads} is not a multiple of {_CODEGEN_PARTS}")
    places = np.arange(3 * heads * width).reshape(_CODEGEN_PARTS, 3, -1)
    d.qkv_rows = np.concatenate([places[:, i].ravel() for i in (0, 2, 1)])


_GPTJ = settings(
    """
    vocab_size           50400
    n_positions          2048
    n_embd               4096
    n_layer              28
    n_head               16
    rotary_dim           64
    tie_word_embeddings  false
    """,
    GPT2_SIZES,
)
_GPTJ_HARMLESS = SUMMARY + ("rotary", "scale_attn_weights")
GPTJ = gpt_like(
    "gptj",
    "GPTJForCausalLM",
    tensor_names(
        "h.{layer}",
        """
        embedding       wte
        final_norm      ln_f
        output          lm_head
        q               .attn.q_proj
        k               .attn.k_proj
        v               .attn.v_proj
        attention_out   .attn.out_proj
        attention_norm  .ln_1
        ffn_in          .mlp.fc_in
        ffn_out         .mlp.fc_out
        """,
    ),
    _GPTJ,
    _gptj,
    fields=GPT2_FIELDS,
    harmless=_GPTJ_HARMLESS,
    unused=MASKS,
)
CODEGEN = gpt_like(
    "codegen",
    "CodeGenForCausalLM",
    tensor_names(
        "h.{layer}",
        """
        embedding       wte
        final_norm      ln_f
        output          lm_head
        qkv             .attn.qkv_proj
        attention_out   .attn.out_proj
        attention_norm  .ln_1
        ffn_in          .mlp.fc_in
        ffn_out         .mlp.fc_out
        """,
    ),
    _GPTJ,
    _codegen,
    fields=GPT2_FIELDS,
    harmless=_GPTJ_HARMLESS,
    unused=MASKS,
)


# ---- GPT-NeoX (Black et al. 2022), Pythia


def _gpt_neox(d: Decoder) -> None:
    d.kind.update(
        attention_biases=15 * d.flag("attention_bias"),
        ffn_biases=3,
        parallel=D.TWO_NORMS * d.flag("use_parallel_residual"),
    )
    d.fused()
    d.rotate(beside="rotary_emb_base", width=d.share("rotary_pct"))
    # The usual names of the two, which no version reads beside, may not say another thing.
    c, table = d.config, rope_table(d.config)
    for name, older in (("partial_rotary_factor", "rotary_pct"), ("rope_theta", "rotary_emb_base")):
        c.must(name, rope_value(c, table, name, older))


GPT_NEOX = gpt_like(
    "gpt_neox",
    "GPTNeoXForCausalLM",
    tensor_names(
        "layers.{layer}",
        """
        embedding       embed_in
        final_norm      final_layer_norm
        output          embed_out
        qkv             .attention.query_key_value
        attention_out   .attention.dense
        attention_norm  .input_layernorm
        ffn_norm        .post_attention_layernorm
        ffn_in          .mlp.dense_h_to_4h
        ffn_out         .mlp.dense_4h_to_h
        """,
    ),
    settings("""
        vocab_size               50432
        hidden_size              6144
        num_hidden_layers        44
        num_attention_heads      64
        intermediate_size        24576
        hidden_act               "gelu"
        max_position_embeddings  2048
        rotary_pct               0.25
        rotary_emb_base          10000
        layer_norm_eps           1e-5
        use_parallel_residual    true
        attention_bias           true
        tie_word_embeddings      false
    """),
    _gpt_neox,
    fields={"rms_norm_eps": "layer_norm_eps"},
    harmless=("classifier_dropout",),
    unused=(
        "layers.*.attention.bias",
        "layers.*.attention.masked_bias",
        "layers.*.attention.rotary_emb.inv_freq",
    ),
    hidden_factor=0,
    trunk="gpt_neox.",
)


# ---- OPT (Zhang et al. 2022)


def _opt(d: Decoder) -> None:
    width, inner = d.stack["width"], d.size("word_embed_proj_dim", high=D.MAX_WIDTH)
    all_biases(d, "enable_bias")
    d.learned(before=2)
    if not d.flag("do_layer_norm_before"):
        d.kind["norm_place"] = D.AFTER
        d.names.update(attention_after=d.names["attention_norm"], ffn_after=d.names["ffn_norm"])
    if d.flag("_remove_final_layer_norm") or not d.flag("do_layer_norm_before"):
        for name in ("final_norm", "final_norm_eps"):
            del d.stack[name]
    if not d.flag("layer_norm_elementwise_affine"):
        d.bare_norms = NORMS
    if inner != width:
        d.stack.update(embedding_width=inner, projection_place=1)
        d.output["head_width"] = inner


OPT = gpt_like(
    "opt",
    "OPTForCausalLM",
    tensor_names(
        "layers.{layer}",
        """
        embedding       embed_tokens
        positions       embed_positions
        projection      project_in
        head            project_out
        final_norm      final_layer_norm
        output          lm_head
        q               .self_attn.q_proj
        k               .self_attn.k_proj
        v               .self_attn.v_proj
        attention_out   .self_attn.out_proj
        attention_norm  .self_attn_layer_norm
        ffn_norm        .final_layer_norm
        ffn_in          .fc1
        ffn_out         .fc2
        """,
    ),
    settings("""
        vocab_size                     50272
        hidden_size                    768
        num_hidden_layers              12
        ffn_dim                        3072
        max_position_embeddings        2048
        do_layer_norm_before           true
        _remove_final_layer_norm       false
        word_embed_proj_dim            768
        num_attention_heads            12
        activation_function            "relu"
        enable_bias                    true
        layer_norm_elementwise_affine  true
        layer_norm_eps                 1e-5
        tie_word_embeddings            true
    """),
    _opt,
    fields={
        "intermediate_size": "ffn_dim",
        "hidden_act": "activation_function",
        "rms_norm_eps": "layer_norm_eps",
    },
    harmless=("activation_dropout",),
    hidden_factor=0,
    trunk="model.decoder.",
)


# ---- BLOOM (Le Scao et al. 2022)


def _bloom(d: Decoder) -> None:
    d.config.must("apply_residual_connection_post_layernorm", False)
    d.config.must("n_inner", None)
    if d.config.whole("pretraining_tp", 0, default=1) > 1:
        d.config.must("slow_but_exact", False)  # or transformers leaves out two biases
    d.kind.update(attention_biases=15, ffn_biases=3, position=D.ALIBI)
    d.kind["tables"] = {R.ALIBI: alibi_slopes(d.kind["heads"]).astype(np.float32)}
    d.stack.update(embedding_norm=D.LAYER_NORM, embedding_norm_eps=d.kind["norm_eps"])
    d.fused()


BLOOM = gpt_like(
    "bloom",
    "BloomForCausalLM",
    tensor_names(
        "h.{layer}",
        """
        embedding       word_embeddings
        embedding_norm  word_embeddings_layernorm
        final_norm      ln_f
        output          lm_head
        qkv             .self_attention.query_key_value
        attention_out   .self_attention.dense
        attention_norm  .input_layernorm
        ffn_norm        .post_attention_layernorm
        ffn_in          .mlp.dense_h_to_4h
        ffn_out         .mlp.dense_4h_to_h
        """,
    ),
    settings("""
        vocab_size           250880
        hidden_size          64
        n_layer              2
        n_head               8
        layer_norm_epsilon   1e-5
        tie_word_embeddings  true
    """),
    _bloom,
    fields=table("""
        num_hidden_layers    n_layer
        num_attention_heads  n_head
        rms_norm_eps         layer_norm_epsilon
        intermediate_size    n_inner
    """),
    harmless=words("""
        seq_length slow_but_exact offset_alibi bias_dropout_fusion masked_softmax_fusion
        skip_bias_add skip_bias_add_qkv unk_token_id attention_softmax_in_fp32
    """),
    unused=("h.*.self_attention.alibi",),
    activation=D.GELU_TANH,
    positions=False,
    aliases={
        "n_embed": "hidden_size",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
)


# ---- MPT (MosaicML 2023)

_MPT_ATTENTION = settings("""
    alibi           true
    alibi_bias_max  8
    attn_type       "multihead_attention"
    qk_ln           false
    prefix_lm       false
""")
_MPT_HARMLESS = frozenset(
    words("""
        attn_pdrop attn_impl attn_uses_sequence_id model_type rope rope_impl rope_theta
        sliding_window_size
    """)
)


def _mpt(d: Decoder) -> None:
    """What transformers does not compute (it goes on as if it were not there) is refused, but for
    the fields that say nothing beside ALiBi."""
    inner = d.config.table("attn_config", _MPT_ATTENTION)
    for name, wanted in _MPT_ATTENTION.items():
        inner.must(name, wanted)
    inner.must("rope", False)
    for name, wanted in (
        ("expansion_ratio", (4,)),
        ("no_bias", (True,)),
        ("logit_scale", (None,)),
        ("norm_type", ("low_precision_layernorm", "layernorm")),
    ):
        d.config.must(name, *wanted)
    for name, key in (("clip_qkv", "qkv_clip"), ("softmax_scale", "scale")):
        if inner.get(name) is not None and inner.number(name):
            d.kind[key] = single(inner.number(name))
    without_rope = (name for name in inner.values if name.startswith("rope_"))  # they say nothing
    inner.finish((*_MPT_HARMLESS, *without_rope))
    d.kind.update(position=D.ALIBI, **NORM_BIASES)
    d.bias_free = {"final_norm"}
    d.kind["tables"] = {R.ALIBI: _mpt_slopes(d.kind["heads"])}


def _mpt_slopes(heads: int) -> np.ndarray:
    """2^(−8·i/H) for H a power of two; for another number those of the power above, the second, the
    fourth, … first (its code, in float32)."""
    above = 1 << (heads - 1).bit_length()
    exponents = np.arange(1, above + 1).astype(np.float32) * np.float32(8 / above)
    slopes = np.float32(1) / float32_powers(2.0, exponents)
    return slopes if above == heads else np.concatenate([slopes[1::2], slopes[::2]])[:heads]


MPT = gpt_like(
    "mpt",
    "MptForCausalLM",
    tensor_names(
        "blocks.{layer}",
        """
        embedding       wte
        final_norm      norm_f
        output          lm_head
        qkv             .attn.Wqkv
        attention_out   .attn.out_proj
        attention_norm  .norm_1
        ffn_norm        .norm_2
        ffn_in          .ffn.up_proj
        ffn_out         .ffn.down_proj
        """,
    ),
    settings("""
        d_model              2048
        n_heads              16
        n_layers             24
        expansion_ratio      4
        max_seq_len          2048
        vocab_size           50368
        layer_norm_epsilon   1e-5
        no_bias              true
        tie_word_embeddings  true
    """),
    _mpt,
    fields=table("""
        hidden_size              d_model
        num_attention_heads      n_heads
        num_hidden_layers        n_layers
        max_position_embeddings  max_seq_len
        rms_norm_eps             layer_norm_epsilon
        intermediate_size        intermediate_size
    """),
    harmless=words("""
        emb_pdrop learned_pos_emb init_device init_config verbose embedding_fraction fc_type
        ffn_config use_pad_tok_in_ffn
    """),
    activation=D.GELU_ERF,
)


# ---- Falcon (Almazrouei et al. 2023)


def _falcon(d: Decoder) -> None:
    c, heads = d.config, d.kind["heads"]
    newer, parallel = d.flag("new_decoder_architecture"), d.flag("parallel_attn")
    all_biases(d, "bias")
    if newer:
        d.kind["kv_heads"] = c.whole("num_kv_heads", 1, heads, default=heads)
        if heads % d.kind["kv_heads"]:
            raise c.error("num_kv_heads", f"{d.kind['kv_heads']} does not divide the {heads} heads")
    elif d.flag("multi_query"):
        d.kind["kv_heads"] = 1
    d.fused()
    norms = c.whole("num_ln_in_parallel_attn", 1, 2, default=1 + newer)
    if newer and not parallel:
        raise c.error("parallel_attn", "False is not built in the new architecture")
    if parallel and norms == 2:
        if not newer:
            raise c.error("num_ln_in_parallel_attn", "2 is not built in the old architecture")
        d.names.update(
            attention_norm="h.{layer}.ln_attn.weight", ffn_norm="h.{layer}.ln_mlp.weight"
        )
    d.kind["parallel"] = 0 if not parallel else D.TWO_NORMS if norms == 2 else D.SHARED_INPUT
    if d.flag("alibi"):
        c.must("output_attentions", False)  # or transformers rounds in other places
        d.kind["position"] = D.ALIBI
        d.kind["tables"] = {R.ALIBI: _falcon_slopes(d)}
        for name in ("rope_theta", "rope_scaling", "rope_parameters"):  # which then say nothing
            c.get(name)
    else:
        d.rotate()


def _falcon_slopes(d: Decoder) -> np.ndarray:
    """The slopes are rounded to bfloat16, and what they add is divided as the scores are. Its code
    rounds slope · distance too, which is not repeated here."""
    slopes = alibi_slopes(d.kind["heads"]).astype(np.float32)
    d.notes.append(
        "alibi: transformers rounds the product of slope and position to bfloat16, here it is exact"
    )
    bits = slopes.view(np.uint32)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    return rounded * np.float32(d.kind["head_width"] ** -0.5)


FALCON = gpt_like(
    "falcon",
    "FalconForCausalLM",
    tensor_names(
        "h.{layer}",
        """
        embedding       word_embeddings
        final_norm      ln_f
        output          lm_head
        qkv             .self_attention.query_key_value
        attention_out   .self_attention.dense
        attention_norm  .input_layernorm
        ffn_norm        .post_attention_layernorm
        ffn_in          .mlp.dense_h_to_4h
        ffn_out         .mlp.dense_4h_to_h
        """,
    ),
    settings("""
        vocab_size                65024
        hidden_size               4544
        num_hidden_layers         32
        num_attention_heads       71
        layer_norm_epsilon        1e-5
        alibi                     false
        new_decoder_architecture  false
        multi_query               true
        parallel_attn             true
        bias                      false
        max_position_embeddings   2048
        rope_theta                10000.0
        activation                "gelu"
        tie_word_embeddings       true
    """),
    _falcon,
    fields={
        "rms_norm_eps": "layer_norm_epsilon",
        "hidden_act": "activation",
        "intermediate_size": "ffn_hidden_size",
    },
    harmless=("num_kv_heads", "multi_query"),
)


# ---- Phi (Gunasekar et al. 2023), 1, 1.5 and 2


def _phi(d: Decoder) -> None:
    d.kind.update(attention_biases=15, ffn_biases=3, parallel=D.SHARED_INPUT)
    if d.flag("qk_layernorm"):
        d.kind["qk_norm"] = D.LAYER_NORM
    d.rotate(width=d.share())
    d.output["bias"] = 1


PHI = llama_like(
    "phi",
    "PhiForCausalLM",
    _phi,
    {
        **llama_names(
            attention_out="self_attn.dense",
            ffn_norm=None,
            ffn_gate=None,
            ffn_in="mlp.fc1",
            ffn_out="mlp.fc2",
            q_norm="self_attn.q_layernorm",
            k_norm="self_attn.k_layernorm",
        ),
        "final_norm": "final_layernorm.weight",
    },
    settings("""
        vocab_size             51200
        hidden_size            2048
        num_hidden_layers      24
        intermediate_size      8192
        hidden_act             "gelu_new"
        layer_norm_eps         1e-5
        partial_rotary_factor  0.5
        qk_layernorm           false
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
)


# ---- StableLM (Bellagente et al. 2024)


def _stablelm(d: Decoder) -> None:
    d.kind["attention_biases"] = 7 * d.flag("use_qkv_bias")
    if d.flag("use_parallel_residual"):
        d.kind["parallel"] = D.SHARED_INPUT
    if d.flag("qk_layernorm"):
        d.kind.update(qk_norm=D.LAYER_NORM, qk_norm_over=D.OWN_HEAD)
        d.bias_free = {"q_norm", "k_norm"}
        d.own_norms = {
            part: f"layers.{{layer}}.self_attn.{part[0]}_layernorm.norms.{{head}}.weight"
            for part in ("q_norm", "k_norm")
        }
    d.rotate(width=d.share())


STABLELM = llama_like(
    "stablelm",
    "StableLmForCausalLM",
    _stablelm,
    None,
    settings("""
        vocab_size               50304
        hidden_size              2560
        num_key_value_heads      32
        intermediate_size        6912
        max_position_embeddings  4096
        layer_norm_eps           1e-5
        partial_rotary_factor    0.25
        use_qkv_bias             false
        qk_layernorm             false
        use_parallel_residual    false
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
)


# ---- StarCoder2 (Lozhkov et al. 2024)


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


OTHERS = (
    GPT2,
    GPT_BIGCODE,
    GPT_NEO,
    GPTJ,
    CODEGEN,
    GPT_NEOX,
    OPT,
    BLOOM,
    MPT,
    FALCON,
    PHI,
    STABLELM,
    STARCODER2,
)
