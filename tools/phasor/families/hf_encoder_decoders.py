"""The encoder-decoders that are built, each a table of what transformers' class does."""

from __future__ import annotations

from dataclasses import replace

from phasor.families.encoder_decoder import STACKS, EncoderDecoder, Family
from phasor.families.hf_config import NEWER
from phasor.format import descriptor as D
from phasor.values import settings, table, words

# ---- BART (Lewis et al. 2020) and what has its modules


def _names(rest: str = "") -> dict[str, str]:
    """The tensors of BART's modules; rest: parts that a family has beside them."""
    out = table("""
        output       lm_head.weight
        output_bias  final_logits_bias
    """)
    for stack, side in zip(STACKS, ("source", "target")):
        parts = table("""
            q               self_attn.q_proj
            k               self_attn.k_proj
            v               self_attn.v_proj
            attention_out   self_attn.out_proj
            attention_norm  self_attn_layer_norm
            ffn_in          fc1
            ffn_out         fc2
            ffn_norm        final_layer_norm
        """)
        if stack == "decoder":
            parts |= table("""
                cross_q     encoder_attn.q_proj
                cross_k     encoder_attn.k_proj
                cross_v     encoder_attn.v_proj
                cross_out   encoder_attn.out_proj
                cross_norm  encoder_attn_layer_norm
            """)
        for part, module in parts.items():
            out[f"{stack}.{part}"] = f"model.{stack}.layers.{{layer}}.{module}.weight"
        for part, module in table(rest).items():
            whose = stack if part == "final_norm" else side
            out[f"{whose}.{part}"] = f"model.{stack}.{module}.weight"
    return out


_EMBEDDINGS = words("""
    model.shared.weight model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight
""")
_SIZES = settings("""
    vocab_size               50265
    max_position_embeddings  1024
    d_model                  1024
    encoder_ffn_dim          4096
    encoder_layers           12
    encoder_attention_heads  16
    decoder_ffn_dim          4096
    decoder_layers           12
    decoder_attention_heads  16
    activation_function      "gelu"
    scale_embedding          false
""")
# Read by no line of the class, as its first configurations have them, or by training alone.
_HARMLESS = words("""
    num_hidden_layers dropout attention_dropout activation_dropout init_std encoder_layerdrop
    decoder_layerdrop classif_dropout classifier_dropout normalize_before normalize_embedding
    add_final_layer_norm add_bias_logits extra_pos_embeddings save_step replacing_rate
    student_encoder_layers student_decoder_layers kobart_version
""")
# What those configurations say of the order of norms, which each class has in its code.
_ORDER = settings("""
    do_blenderbot_90_layernorm  [false]
    extra_layer_norm            [false]
""")
# Blenderbot has no norm of the embedding that the first of them could move.
_BLENDERBOT_ORDER = {
    **_ORDER,
    **settings("""
        do_blenderbot_90_layernorm  [true, false]
        layernorm_variant           ["prelayernorm"]
    """),
}
_SMALL_ORDER = {
    **_ORDER,
    **settings("""
        do_blenderbot_90_layernorm  [true]
        layernorm_variant           ["xlm"]
    """),
}


def _bart(m: EncoderDecoder) -> None:
    c = m.config
    width = c.whole("d_model", high=D.MAX_WIDTH)
    if m.model.get("position") == "sinusoidal-halves" and width % 2:
        raise c.expected("d_model", width, "an even number, for sine and cosine")
    m.model.update(
        width=width,
        activation=m.activation("activation_function"),
        embedding_scale="sqrt_width" if c.flag("scale_embedding") else "one",
        max_positions=c.whole("max_position_embeddings"),
    )
    for stack in STACKS:
        m.heads(stack, width, f"{stack}_attention_heads")
        m.stacks[stack].update(
            layers=c.whole(f"{stack}_layers"), hidden=c.whole(f"{stack}_ffn_dim")
        )


# ---- MarianMT (Junczys-Dowmunt et al. 2018; Tiedemann and Thottingal 2020)


def _marian(m: EncoderDecoder) -> None:
    _bart(m)
    m.shared = m.config.flag("share_encoder_decoder_embeddings")
    vocabulary = m.config.get("decoder_vocab_size")
    if not m.shared and vocabulary is not None:
        m.sides["target"]["vocabulary"] = m.config.whole("decoder_vocab_size", 1, D.MAX_VOCABULARY)


MARIAN = Family(
    ("marian",),
    ("MarianMTModel", "MarianModel"),
    {
        **_names("sinusoid embed_positions"),
        "source.embedding": "model.encoder.embed_tokens.weight",
        "target.embedding": "model.decoder.embed_tokens.weight",
    },
    _EMBEDDINGS,
    {**_SIZES, "vocab_size": 58101, "share_encoder_decoder_embeddings": True},
    _marian,
    settings("""
        position    "sinusoidal-halves"
        norm_place  "after"
        final_norm  false
    """),
    harmless=_HARMLESS,
    neutral=_ORDER,
    tokenizer="marian",
)

# ---- BART and its kin

_LEARNED = """
    positions       embed_positions
    embedding_norm  layernorm_embedding
"""
_BART_KEYS = settings("""
    position         "learned"
    position_offset  2
    norm_place       "after"
    final_norm       false
""")
BART = Family(
    ("bart",),
    ("BartForConditionalGeneration", "BartModel"),
    _names(_LEARNED),
    _EMBEDDINGS,
    _SIZES,
    _bart,
    _BART_KEYS,
    harmless=_HARMLESS,
    neutral=_ORDER,
    tokenizer="package",
)

# Its classes are those of the text's last end token, behind the decoder (Yin et al. 2019 ask them
# whether a text entails a sentence with a label).
BART_CLASSES = replace(
    BART,
    classes=("BartForSequenceClassification",),
    defaults={**_SIZES, "num_labels": 3},
    without=("output_bias",),
    unused=("final_logits_bias",),
    classifier="classification_head",
)

# PLBART (Ahmad et al. 2021)
PLBART = Family(
    ("plbart",),
    ("PLBartForConditionalGeneration", "PLBartModel"),
    _names(_LEARNED),
    _EMBEDDINGS,
    settings(
        """
        vocab_size               50005
        d_model                  768
        encoder_ffn_dim          3072
        encoder_layers           6
        encoder_attention_heads  12
        decoder_ffn_dim          3072
        decoder_layers           6
        decoder_attention_heads  12
        scale_embedding          true
        """,
        _SIZES,
    ),
    _bart,
    _BART_KEYS,
    harmless=_HARMLESS,
    neutral=_ORDER,
    tokenizer="plbart",
)

# mBART (Liu et al. 2020), mBART-50 (Tang et al. 2020): norms before, and one after each stack
_BEFORE = settings("""
    norm_place  "before"
    final_norm  true
""")
MBART = Family(
    ("mbart",),
    ("MBartForConditionalGeneration", "MBartModel"),
    _names(_LEARNED + "final_norm layer_norm"),
    _EMBEDDINGS,
    _SIZES,
    _bart,
    {**_BART_KEYS, **_BEFORE},
    harmless=_HARMLESS,
    neutral=_ORDER,
    tokenizer="mbart",
)

# Pegasus (Zhang et al. 2020)
PEGASUS = Family(
    ("pegasus",),
    ("PegasusForConditionalGeneration", "PegasusModel"),
    _names("sinusoid embed_positions\nfinal_norm layer_norm"),
    _EMBEDDINGS,
    _SIZES,
    _bart,
    {"position": "sinusoidal-halves", **_BEFORE},
    harmless=_HARMLESS,
    neutral=_ORDER,
    tokenizer="pegasus",
)

# Blenderbot (Roller et al. 2021)
BLENDERBOT = Family(
    ("blenderbot",),
    ("BlenderbotForConditionalGeneration", "BlenderbotModel"),
    _names("positions embed_positions\nfinal_norm layer_norm"),
    _EMBEDDINGS,
    settings(
        """
        vocab_size               8008
        max_position_embeddings  128
        d_model                  2560
        encoder_ffn_dim          10240
        encoder_layers           2
        encoder_attention_heads  32
        decoder_ffn_dim          10240
        decoder_layers           24
        decoder_attention_heads  32
        """,
        _SIZES,
    ),
    _bart,
    {"position": "learned", **_BEFORE},
    harmless=_HARMLESS,
    neutral=_BLENDERBOT_ORDER,
    tokenizer="blenderbot",
)


# and its small form: norms after; the decoder's embedding is never scaled, and has its norm before
# the positions
def _blenderbot_small(m: EncoderDecoder) -> None:
    _bart(m)
    m.stacks["decoder"].update(
        embedding_scale="one",
        embedding_norm_place="before-positions",
    )


BLENDERBOT_SMALL = Family(
    ("blenderbot-small",),
    ("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel"),
    _names(_LEARNED),
    _EMBEDDINGS,
    settings(
        """
        max_position_embeddings  512
        d_model                  512
        encoder_ffn_dim          2048
        encoder_layers           8
        decoder_ffn_dim          2048
        decoder_layers           8
        decoder_start_token_id   1
        """,
        _SIZES,
    ),
    _blenderbot_small,
    settings("""
        position    "learned"
        norm_place  "after"
        final_norm  false
    """),
    harmless=_HARMLESS,
    neutral=_SMALL_ORDER,
    tokenizer="blenderbot-small",
)


# ---- M2M100 (Fan et al. 2021), NLLB-200 (NLLB Team 2022)


def _m2m(m: EncoderDecoder) -> None:
    """fairseq's sinusoids: rates 10000^(−i / (half − 1)) for i of half the width; and positions
    begin behind the padding's id."""
    _bart(m)
    half = m.model["width"] // 2
    if half < 2:
        raise m.config.error("d_model", f"{2 * half}, expected at least 4")
    m.model.update(
        position_base=10000.0 ** (half / (half - 1)),
        position_offset=m.config.whole("pad_token_id", 0, D.MAX_VOCABULARY) + 1,
    )


M2M100 = Family(
    ("m2m_100",),
    ("M2M100ForConditionalGeneration", "M2M100Model"),
    _names("final_norm layer_norm"),
    _EMBEDDINGS,
    settings(
        """
        vocab_size           128112
        activation_function  "relu"
        scale_embedding      true
        pad_token_id         1
        """,
        _SIZES,
    ),
    _m2m,
    {"position": "sinusoidal-halves", **_BEFORE},
    without=("output_bias",),
    harmless=_HARMLESS,
    neutral=_ORDER,
    unused=("model.*.embed_positions.weights",),
    tokenizer="package",
)

# ---- T5 (Raffel et al. 2020) and v1.1 (Shazeer 2020), mT5 (Xue et al. 2021), UMT5 (Chung et al.
# 2023), ByT5 (Xue et al. 2022)


def _t5_names(bias_layer: str) -> dict[str, str]:
    """The tensors of T5's modules; bias_layer: whose bias of positions a layer has."""
    out = {"output": "lm_head.weight"}
    for stack in STACKS:
        own, last = f"{stack}.block.{{layer}}.layer.", "1" if stack == "encoder" else "2"
        out[f"{stack}.final_norm"] = f"{stack}.final_layer_norm.weight"
        out[f"{stack}.position_bias"] = (
            f"{stack}.block.{bias_layer}.layer.0.SelfAttention.relative_attention_bias.weight"
        )
        parts = table(f"""
            q               0.SelfAttention.q
            k               0.SelfAttention.k
            v               0.SelfAttention.v
            attention_out   0.SelfAttention.o
            attention_norm  0.layer_norm
            ffn_in          {last}.DenseReluDense.wi
            ffn_out         {last}.DenseReluDense.wo
            ffn_norm        {last}.layer_norm
        """)
        if stack == "decoder":
            parts |= table("""
                cross_q     1.EncDecAttention.q
                cross_k     1.EncDecAttention.k
                cross_v     1.EncDecAttention.v
                cross_out   1.EncDecAttention.o
                cross_norm  1.layer_norm
            """)
        out |= {f"{stack}.{part}": f"{own}{module}.weight" for part, module in parts.items()}
    return out


def _t5(m: EncoderDecoder) -> None:
    c = m.config
    heads, layers = c.whole("num_heads", high=4096), c.whole("num_layers", high=D.MAX_LAYERS)
    act, gated = m.gated("feed_forward_proj")
    c.must("is_gated_act", gated)
    if gated:
        for stack in STACKS:
            wide = m.names[f"{stack}.ffn_in"]
            m.names[f"{stack}.ffn_gate"] = wide.replace("wi.", "wi_0.")
            m.names[f"{stack}.ffn_in"] = wide.replace("wi.", "wi_1.")
    m.model.update(
        width=c.whole("d_model", high=D.MAX_WIDTH),
        hidden=c.whole("d_ff"),
        head_width=c.whole("d_kv", high=4096),
        heads=heads,
        norm_eps=c.number("layer_norm_epsilon"),
        activation=act,
        num_buckets=c.whole("relative_attention_num_buckets", 2, 1 << 16),
        max_distance=c.whole("relative_attention_max_distance"),
    )
    if m.model["num_buckets"] % 2 or m.model["num_buckets"] < 4:
        raise c.expected(
            "relative_attention_num_buckets", m.model["num_buckets"], "an even number from 4"
        )
    if 2 * m.model["max_distance"] <= m.model["num_buckets"]:
        raise c.error(
            "relative_attention_max_distance",
            f"{m.model['max_distance']} is not above the half of {m.model['num_buckets']} buckets,"
            " which are single distances",
        )
    decoder = c.get("num_decoder_layers")
    m.stacks["encoder"]["layers"] = layers
    m.stacks["decoder"]["layers"] = (
        layers if decoder is None else c.whole("num_decoder_layers", high=D.MAX_LAYERS)
    )
    # transformers 5 ties what a checkpoint does not have twice, and says the scale by itself.
    newer = (c.version or 0) >= NEWER
    scaled = m.family.scaled[newer]
    if newer and c.get("scale_decoder_outputs") is not None:
        scaled = c.flag("scale_decoder_outputs")
    elif not newer:
        scaled = m.tied
    if scaled:
        m.model["output_scale"] = "inverse_sqrt_width"
    m.tied = m.tied or newer
    m.untied_where_twice = newer


T5_SIZES = settings("""
    vocab_size                       32128
    d_model                          512
    d_kv                             64
    d_ff                             2048
    num_layers                       6
    num_heads                        8
    relative_attention_num_buckets   32
    relative_attention_max_distance  128
    layer_norm_epsilon               1e-6
    feed_forward_proj                "relu"
""")
MT5_SIZES = settings(
    """
    vocab_size             250112
    d_ff                   1024
    num_layers             8
    num_heads              6
    feed_forward_proj      "gated-gelu"
    decoder_start_token_id 0
    """,
    T5_SIZES,
)
_T5_KEYS = settings("""
    norm                "rms"
    norm_place          "before"
    final_norm          true
    position            "none"
    attention_position  "t5"
    embedding_scale     "one"
    score_scale         1.0
""")
T5_HARMLESS = words("""
    dropout_rate initializer_factor classifier_dropout n_positions num_hidden_layers
    output_past dense_act_fn
""")
# UMT5's tables of each layer.
T5_NEUTRAL: dict[str, dict[str, list]] = {
    **dict.fromkeys(("t5", "mt5"), {}),
    "umt5": {"scalable_attention": [True]},
}
_T5_EMBEDDINGS = words("shared.weight encoder.embed_tokens.weight decoder.embed_tokens.weight")
# That T5's first checkpoints have, and no line reads.
_T5_UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)


def _t5_family(kind: str, bias_layer: str, sizes: dict, scaled: tuple[bool, bool]) -> Family:
    name = {"t5": "T5", "mt5": "MT5", "umt5": "UMT5"}[kind]
    return Family(
        (kind,),
        (f"{name}ForConditionalGeneration", f"{name}WithLMHeadModel", f"{name}Model"),
        _t5_names(bias_layer),
        _T5_EMBEDDINGS,
        sizes,
        _t5,
        _T5_KEYS,
        harmless=T5_HARMLESS,
        neutral=T5_NEUTRAL[kind],
        unused=_T5_UNUSED,
        biased=False,
        scaled=scaled,
        tokenizer="t5",
    )


T5 = _t5_family("t5", "0", T5_SIZES, (True, True))
MT5 = _t5_family("mt5", "0", {**MT5_SIZES, "tie_word_embeddings": False}, (False, False))
UMT5 = _t5_family("umt5", "{layer}", MT5_SIZES, (True, True))

FAMILIES = (
    *(MARIAN, BART, BART_CLASSES, PLBART, MBART, PEGASUS, BLENDERBOT, BLENDERBOT_SMALL, M2M100),
    *(T5, MT5, UMT5),
)
