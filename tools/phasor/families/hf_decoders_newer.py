"""The decoders that transformers has, as tables: those with squared ReLU, and what came after. Each
is tested against transformers itself (docs/families.md)."""

from __future__ import annotations

from phasor.errors import PhasorError
from phasor.families.decoder import NORMS, Decoder
from phasor.families.hf_config import ACTIVATIONS, NEWER, rope_table, rope_value
from phasor.families.hf_decoders import biases, llama, llama_like, llama_names
from phasor.families.hf_decoders_more import GPT2_FIELDS, GPT2_SIZES, MASKS, SUMMARY, gpt_like
from phasor.families.model import single
from phasor.families.names import tensor_names
from phasor.families.rotary_scaling import scaling_type
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings, words

_PLAIN_NAMES = llama_names(ffn_gate=None)  # a feed-forward without a gate


# ---- Nemotron (Parmar et al. 2024): the norms' weights are stored less one; Arcee's AFM (2025);
# Jais 2 (Inception 2025)


def _nemotron(d: Decoder) -> None:
    """Before transformers 5 its code reads no rope_scaling."""
    biases(d)
    d.norm_offset = 1.0
    if (d.config.version or 0) < NEWER:
        d.config.must("rope_scaling", None)
    d.rotate(width=d.share())


NEMOTRON = llama_like(
    "nemotron",
    "NemotronForCausalLM",
    _nemotron,
    _PLAIN_NAMES,
    settings("""
        vocab_size               256000
        hidden_size              6144
        intermediate_size        24576
        num_attention_heads      48
        hidden_act               "relu2"
        max_position_embeddings  4096
        norm_eps                 1e-5
        partial_rotary_factor    0.5
    """),
    fields={"rms_norm_eps": "norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
)
ARCEE = llama_like(
    "arcee",
    "ArceeForCausalLM",
    llama,
    _PLAIN_NAMES,
    settings("""
        hidden_size              2560
        intermediate_size        18432
        num_attention_heads      32
        hidden_act               "relu2"
        max_position_embeddings  4096
        rms_norm_eps             1e-5
    """),
    gated=False,
)
JAIS2 = llama_like(
    "jais2",
    "Jais2ForCausalLM",
    llama,
    _PLAIN_NAMES,
    settings("""
        vocab_size               150272
        hidden_size              3328
        intermediate_size        26624
        num_attention_heads      26
        hidden_act               "relu2"
        max_position_embeddings  8192
        layer_norm_eps           1e-5
        attention_bias           true
        mlp_bias                 true
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
)


# ---- Persimmon (Elsen et al. 2023)


def _persimmon(d: Decoder) -> None:
    d.kind.update(attention_biases=15, ffn_biases=3)
    if d.flag("qk_layernorm"):
        d.kind["qk_norm"] = D.LAYER_NORM
    d.fused()
    d.rotate(width=d.share())


PERSIMMON = llama_like(
    "persimmon",
    "PersimmonForCausalLM",
    _persimmon,
    {
        **llama_names(
            q=None,
            k=None,
            v=None,
            qkv="self_attn.query_key_value",
            attention_out="self_attn.dense",
            q_norm="self_attn.q_layernorm",
            k_norm="self_attn.k_layernorm",
            ffn_gate=None,
            ffn_in="mlp.dense_h_to_4h",
            ffn_out="mlp.dense_4h_to_h",
        ),
        "final_norm": "final_layernorm.weight",
    },
    settings("""
        vocab_size               262144
        intermediate_size        16384
        num_hidden_layers        36
        num_attention_heads      64
        hidden_act               "relu2"
        max_position_embeddings  16384
        layer_norm_eps           1e-5
        rope_theta               25000.0
        partial_rotary_factor    0.5
        qk_layernorm             true
    """),
    fields={"rms_norm_eps": "layer_norm_eps"},
    norm=D.LAYER_NORM,
    gated=False,
    grouped=False,
    newer={"rope_theta": 10000.0},
)


# ---- Apertus (Swiss AI 2025): an activation with trained numbers


_APERTUS_SCALING = settings("""
    rope_type                         "llama3"
    factor                            8.0
    original_max_position_embeddings  8192
    low_freq_factor                   1.0
    high_freq_factor                  4.0
""")


def _apertus(d: Decoder) -> None:
    d.kind.update(attention_biases=15 * d.flag("attention_bias"), qk_norm=D.RMS_NORM)
    if d.kind["activation"] == D.XIELU:
        d.names["xielu"] = "layers.{layer}.mlp.act_fn."
    values = d.config.values
    if "rope_scaling" not in values and "rope_parameters" not in values:  # null would be none
        values["rope_scaling"] = dict(_APERTUS_SCALING)
    d.rotate()


APERTUS = llama_like(
    "apertus",
    "ApertusForCausalLM",
    _apertus,
    llama_names(
        attention_norm="attention_layernorm", ffn_norm="feedforward_layernorm", ffn_gate=None
    ),
    settings("""
        vocab_size               131072
        intermediate_size        14336
        hidden_act               "xielu"
        max_position_embeddings  65536
        rms_norm_eps             1e-5
        rope_theta               12000000.0
    """),
    gated=False,
    activations={**ACTIVATIONS, "xielu": D.XIELU},
)


# ---- HunYuan (Tencent 2025): q and k are normed behind their rotation, whose base is stretched


def _hunyuan(d: Decoder) -> None:
    c, width = d.config, d.kind["head_width"]
    d.kind.update(
        attention_biases=15 * d.flag("attention_bias"),
        qk_norm=D.RMS_NORM,
        qk_norm_place=D.NORM_LAST,
    )
    c.must("use_qk_norm", True)
    c.must("attention_head_dim", width)
    found = rope_table(c)
    if scaling_type(found.values) != "dynamic" or found.get("alpha") is None:
        d.rotate()
        return
    if width < 4:
        raise c.error("head_dim", f"{width}, dynamic needs at least 4 rotated values")
    theta = c.checked_base("rope_theta", rope_value(c, found, "rope_theta", "rope_theta"))
    found.must("partial_rotary_factor", 1)
    # Its code looks at no other key.
    found.asked.update(words("type rope_type factor beta_fast beta_slow mscale mscale_all_dim"))
    d.rotate(fixed=theta * found.positive("alpha") ** (width / (width - 2)))


HUNYUAN = llama_like(
    "hunyuan_v1_dense",
    "HunYuanDenseV1ForCausalLM",
    _hunyuan,
    llama_names(q_norm="self_attn.query_layernorm", k_norm="self_attn.key_layernorm"),
    settings("""
        vocab_size    290943
        rms_norm_eps  1e-5
    """),
    harmless=words("""
        eod_token_id add_classification_head class_num dense_list enable_lm_head_fp32 im_end_id
        im_newline_id im_start_id mask_init_id org_vocab_size pad_id pool_type text_end_id
        text_start_id cla_share_factor
    """),
)


# ---- Ministral 3 (Mistral 2025): behind the trained length queries are scaled by their positions


def _ministral3(d: Decoder) -> None:
    """Query i is multiplied by 1 + β·log(1 + ⌊i / original⌋), which is 1 up to there: the file
    takes no longer sequence."""
    c, found = d.config, rope_table(d.config)
    d.beside_scaling = frozenset(("llama_4_scaling_beta", "max_position_embeddings"))
    found.asked.update(d.beside_scaling)
    if found.number("llama_4_scaling_beta", default=0):
        original = found.whole("original_max_position_embeddings")
        if d.context > original:
            raise PhasorError(
                f"--rope-context: {d.context}; queries behind position {original}"
                " (original_max_position_embeddings) are scaled, which is not built"
            )
        if original < d.positions:
            d.notes.append(
                f"llama_4_scaling_beta: queries behind position {original} are scaled, which is not"
                " built: the file takes no longer sequence"
            )
        d.stack["max_positions"] = min(d.positions, original)
    c.must("layer_types", None)
    d.rotate()
    d.kind.update(d.window())


MINISTRAL3 = llama_like(
    "ministral3",
    "Ministral3ForCausalLM",
    _ministral3,
    defaults=settings("""
        vocab_size               131072
        intermediate_size        14336
        num_hidden_layers        34
        num_key_value_heads      8
        head_dim                 128
        max_position_embeddings  262144
        rms_norm_eps             1e-5
    """)
    | {
        "rope_parameters": {
            **{"type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "mscale": 1.0},
            **{"original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0},
            **{"mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1},
        }
    },
)


# ---- Code World Model (Meta 2025)


def _cwm(d: Decoder) -> None:
    d.kind["ffn_biases"] = 3 * d.flag("mlp_bias")
    d.rotate()
    d.sliding(lambda i: i % 4, d.window())


CWM = llama_like(
    "cwm",
    "CwmForCausalLM",
    _cwm,
    defaults=settings("""
        vocab_size               128256
        hidden_size              6144
        intermediate_size        21504
        num_hidden_layers        64
        num_attention_heads      48
        num_key_value_heads      8
        head_dim                 128
        max_position_embeddings  131072
        rms_norm_eps             1e-5
        sliding_window           8192
    """)
    | {
        "rope_parameters": {
            **{"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0},
            **{"high_freq_factor": 4.0, "low_freq_factor": 1.0},
            "original_max_position_embeddings": 8192,
        }
    },
)


# ---- HyperCLOVA X SEED (NAVER 2025): Granite's factors, and norms of what the sub-layers give


def _hyperclovax(d: Decoder) -> None:
    biases(d)
    c = d.config
    if c.get("attention_multiplier") is not None:
        d.kind["scale"] = single(c.positive("attention_multiplier"))
    d.stack["embedding_scale"] = single(c.positive("embedding_multiplier"))
    d.output["scale"] = single(c.positive("logits_scaling"))
    if d.flag("use_post_norm"):
        c.must("residual_multiplier", 1)  # here it would come before the norm, there it is behind
        d.kind["norm_place"] = D.BOTH
    else:
        d.kind["residual_scale"] = single(c.positive("residual_multiplier"))
    d.rotate()


HYPERCLOVAX = llama_like(
    "hyperclovax",
    "HyperCLOVAXForCausalLM",
    _hyperclovax,
    llama_names(attention_after="post_norm1", ffn_after="post_norm2"),
    settings("""
        embedding_multiplier  1.0
        logits_scaling        1.0
        residual_multiplier   1.0
        use_post_norm         true
    """),
)


# ---- nanochat (Karpathy 2025): norms without weights, one of them of the embedding; pairs turn the
# other way


def _nanochat(d: Decoder) -> None:
    d.kind["attention_biases"] = 15 * d.flag("attention_bias")
    d.bare_norms = NORMS | {"embedding_norm"}
    d.stack.update(embedding_norm=D.RMS_NORM, embedding_norm_eps=d.kind["norm_eps"])
    # behind the rotation: what a scaled one multiplies by, the norm takes away
    d.kind.update(qk_norm=D.RMS_NORM, qk_norm_place=D.NORM_LAST)
    if d.config.get("final_logit_softcapping") is not None:
        d.output["cap"] = single(d.config.positive("final_logit_softcapping"))
    turn = d.rotation()
    turn["tables"] = {R.ROTARY: -turn["tables"][R.ROTARY]}
    d.kind.update(turn)


NANOCHAT = llama_like(
    "nanochat",
    "NanoChatForCausalLM",
    _nanochat,
    llama_names(ffn_gate=None, ffn_in="mlp.fc1", ffn_out="mlp.fc2"),
    settings("""
        vocab_size               50304
        hidden_size              768
        intermediate_size        8192
        num_hidden_layers        12
        num_attention_heads      6
        hidden_act               "relu2"
        final_logit_softcapping  15.0
    """),
    gated=False,
)


# ---- BioGPT (Luo et al. 2022)


def _biogpt(d: Decoder) -> None:
    """Its norms have PyTorch's epsilon, whatever layer_norm_eps says."""
    d.kind.update(attention_biases=15, ffn_biases=3, norm_eps=1e-5)
    d.stack["final_norm_eps"] = 1e-5
    d.learned(before=2)
    if d.flag("scale_embedding"):
        d.stack["embedding_scale"] = single(d.stack["width"] ** 0.5)


BIOGPT = gpt_like(
    "biogpt",
    "BioGptForCausalLM",
    tensor_names(
        "layers.{layer}",
        """
        embedding       embed_tokens
        positions       embed_positions
        final_norm      layer_norm
        output          output_projection
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
        vocab_size               42384
        hidden_size              1024
        num_hidden_layers        24
        num_attention_heads      16
        intermediate_size        4096
        hidden_act               "gelu"
        max_position_embeddings  1024
        layer_norm_eps           1e-12
        scale_embedding          true
        tie_word_embeddings      true
    """),
    _biogpt,
    fields={"rms_norm_eps": "layer_norm_eps"},
    harmless=("activation_dropout",),
    hidden_factor=0,
    trunk="biogpt.",
)


# ---- GPT (Radford et al. 2018): norms behind the residual, none at the end


def _gpt(d: Decoder) -> None:
    d.kind.update(attention_biases=15, ffn_biases=3, norm_place=D.AFTER)
    d.transposed = frozenset(("qkv", "attention_out", "ffn_in", "ffn_out"))
    d.names.update(attention_after=d.names["attention_norm"], ffn_after=d.names["ffn_norm"])
    d.learned()
    for name in ("final_norm", "final_norm_eps"):
        del d.stack[name]


GPT = gpt_like(
    "openai-gpt",
    "OpenAIGPTLMHeadModel",
    tensor_names(
        "h.{layer}",
        """
        embedding       tokens_embed
        positions       positions_embed
        output          lm_head
        qkv             .attn.c_attn
        attention_out   .attn.c_proj
        attention_norm  .ln_1
        ffn_norm        .ln_2
        ffn_in          .mlp.c_fc
        ffn_out         .mlp.c_proj
        """,
    ),
    settings(
        """
        vocab_size   40478
        n_positions  512
        afn          "gelu"
        """,
        GPT2_SIZES,
    ),
    _gpt,
    fields={**GPT2_FIELDS, "hidden_act": "afn", "intermediate_size": "intermediate_size"},
    harmless=SUMMARY + ("n_special", "predict_special_tokens"),
    unused=(*MASKS, "position_ids"),
    # Its names of the activations: "gelu" is the approximation by tanh.
    activations={"relu": D.RELU, "silu": D.SILU, "gelu": D.GELU_TANH, "swish": D.SILU},
)


NEWER_ONES = (
    NEMOTRON,
    ARCEE,
    JAIS2,
    PERSIMMON,
    APERTUS,
    HUNYUAN,
    MINISTRAL3,
    CWM,
    HYPERCLOVAX,
    NANOCHAT,
    BIOGPT,
    GPT,
)
