"""The decoders that transformers has, as tables: those that descend from Llama. Each is tested
against transformers itself (docs/families.md)."""

from __future__ import annotations

from typing import Any, Callable

from phasor.families.decoder import Decoder, Family
from phasor.families.hf_config import FULL, SLIDING
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings, table, words

NORM_BIASES = {"norm_biases": 0}  # a layer norm without

BLOCK = table("""
    q               self_attn.q_proj
    k               self_attn.k_proj
    v               self_attn.v_proj
    attention_out   self_attn.o_proj
    attention_norm  input_layernorm
    ffn_norm        post_attention_layernorm
    ffn_in          mlp.up_proj
    ffn_gate        mlp.gate_proj
    ffn_out         mlp.down_proj
    q_norm          self_attn.q_norm
    k_norm          self_attn.k_norm
""")


def llama_names(**changes: str | None) -> dict[str, str]:
    """Llama's names, some of a block's otherwise; None drops a part."""
    block = {part: module for part, module in {**BLOCK, **changes}.items() if module}
    return {
        "embedding": "embed_tokens.weight",
        "final_norm": "norm.weight",
        "output": "lm_head.weight",
        **{part: f"layers.{{layer}}.{module}.weight" for part, module in block.items()},
    }


SIZES = settings("""
    vocab_size               32000
    hidden_size              4096
    num_hidden_layers        32
    num_attention_heads      32
    intermediate_size        11008
    hidden_act               "silu"
    max_position_embeddings  2048
    rms_norm_eps             1e-6
    rope_theta               10000.0
    tie_word_embeddings      false
    attention_bias           false
    mlp_bias                 false
""")
DROPPED = words("""
    attention_dropout resid_pdrop embd_pdrop attn_pdrop hidden_dropout residual_dropout
    embedding_dropout dropout layerdrop init_std pretraining_tp
""")
BUFFERS = ("layers.*.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq")


# ---- Llama (Touvron et al. 2023), also 2 and 3; SmolLM


def biases(d: Decoder, attention: int = 15) -> None:
    """attention_bias and mlp_bias: of all four matrices of attention (or of those in the mask), of
    all three of the feed-forward."""
    d.kind.update(
        attention_biases=attention * d.flag("attention_bias"), ffn_biases=3 * d.flag("mlp_bias")
    )


def llama(d: Decoder) -> None:
    biases(d)
    d.rotate()


def llama_like(
    kind: str, name: str, adapt: Callable[[Decoder], None], names=None, defaults=None, **more: Any
) -> Family:
    """A family of this model_type and class with Llama's names and sizes, but for its own."""
    own = {"gated": True, "unused": BUFFERS, **more, "harmless": DROPPED + more.get("harmless", ())}
    return Family(
        (kind,),
        (name,),
        "model.",
        names or llama_names(),
        {**SIZES, **(defaults or {})},
        adapt,
        **own,
    )


LLAMA = llama_like("llama", "LlamaForCausalLM", llama)


# ---- SmolLM3 (Bakouch et al. 2025): layers without positions


def _smollm3(d: Decoder) -> None:
    biases(d)
    turned, turn, window = _turned(d), d.rotation(), _used_window(d)
    d.sliding(lambda i: window and not turned[i], window)
    for own, with_positions in zip(d.per_layer, turned):
        own.update(turn if with_positions else {})


def _used_window(d: Decoder) -> dict[str, int]:
    """What a layer has that sees a window; nothing where use_sliding_window says so."""
    window = d.window()
    return window if d.flag("use_sliding_window") else {}


def _turned(d: Decoder) -> list[int]:
    """no_rope_layers: 1 for a layer that has rotary positions, in spite of its name."""
    given = d.config.get("no_rope_layers")
    interval = d.config.whole("no_rope_layer_interval")
    out = [int((i + 1) % interval != 0) for i in range(d.count)] if given is None else given
    if not isinstance(out, list) or len(out) != d.count or any(x not in (0, 1) for x in out):
        raise d.config.error("no_rope_layers", f"expected {d.count} times 0 or 1")
    return out


SMOLLM3 = llama_like(
    "smollm3",
    "SmolLM3ForCausalLM",
    _smollm3,
    defaults=settings("""
        vocab_size               128256
        hidden_size              2048
        num_hidden_layers        36
        num_attention_heads      16
        num_key_value_heads      4
        max_position_embeddings  32768
        rope_theta               2000000.0
        use_sliding_window       false
        no_rope_layer_interval   4
        tie_word_embeddings      true
    """),
)


# ---- Mistral (Jiang et al. 2023)


def _mistral(d: Decoder) -> None:
    d.rotate()
    d.kind.update(d.window())


def _ministral(d: Decoder) -> None:
    d.rotate()
    window = d.window()
    d.sliding(lambda _: window, window)


_MISTRAL = settings("""
    intermediate_size        14336
    num_key_value_heads      8
    max_position_embeddings  131072
    sliding_window           4096
""")
MISTRAL = llama_like("mistral", "MistralForCausalLM", _mistral, defaults=_MISTRAL)
MINISTRAL = llama_like("ministral", "MinistralForCausalLM", _ministral, defaults=_MISTRAL)


# ---- Qwen2 (Yang et al. 2024), Qwen3 (2025)


def _windows(d: Decoder) -> None:
    window, first = _used_window(d), d.config.whole("max_window_layers", 0)
    d.sliding(lambda i: window and i >= first, window)


def _qwen2(d: Decoder) -> None:
    d.kind["attention_biases"] = 7
    d.rotate()
    _windows(d)


def _qwen3(d: Decoder) -> None:
    biases(d)
    d.kind["qk_norm"] = D.RMS_NORM
    d.rotate()
    _windows(d)


_QWEN = settings("""
    vocab_size               151936
    intermediate_size        22016
    num_key_value_heads      32
    max_position_embeddings  32768
    use_sliding_window       false
    sliding_window           4096
    max_window_layers        28
""")
QWEN2 = llama_like("qwen2", "Qwen2ForCausalLM", _qwen2, defaults=_QWEN)
QWEN3 = llama_like("qwen3", "Qwen3ForCausalLM", _qwen3, defaults={**_QWEN, "head_dim": 128})


# ---- Gemma (Mesnard et al. 2024), 2 and 3: the norms' weights are stored less one


def _gemma(d: Decoder) -> None:
    d.kind["attention_biases"] = 15 * d.flag("attention_bias")
    d.norm_offset = 1.0
    d.stack["embedding_scale"] = single(d.stack["width"] ** 0.5)


def _gemma1(d: Decoder) -> None:
    _gemma(d)
    newer, older = d.config.get("hidden_activation"), d.config.get("hidden_act")
    if newer is not None and newer != older:
        d.notes.append(
            f"hidden_activation is {newer!r}, and hidden_act {older!r}: the second is taken, as "
            "transformers does"
        )
    d.rotate()


def _gemma_both(d: Decoder) -> None:
    """What the second and the third have alike: norms before and after each sub-layer, a scale of
    their own, a cap of the logits."""
    _gemma(d)
    d.kind.update(
        norm_place=D.BOTH, scale=single(d.config.positive("query_pre_attn_scalar") ** -0.5)
    )
    _cap(d, "final_logit_softcapping", d.output)


def _cap(d: Decoder, name: str, place: dict) -> None:
    if d.config.get(name) is not None:
        place["cap"] = single(d.config.positive(name))


def _gemma2(d: Decoder) -> None:
    _gemma_both(d)
    _cap(d, "attn_logit_softcapping", d.kind)
    d.rotate()
    d.sliding(lambda i: (i + 1) % 2, d.window())


def _vaultgemma(d: Decoder) -> None:
    _gemma2(d)
    d.kind["norm_place"] = D.BEFORE


def _gemma3(d: Decoder) -> None:
    _gemma_both(d)
    d.config.must("use_bidirectional_attention", False)
    d.config.must("attn_logit_softcapping", None)  # which transformers has and does not compute
    d.kind["qk_norm"] = D.RMS_NORM
    pattern = _pattern(d)
    local = d.rotation("rope_local_base_freq", scaled=False, layer_type=SLIDING)
    near, far = {**d.window(), **local}, d.rotation(layer_type=FULL)
    d.sliding(lambda i: (i + 1) % pattern, near, far)


def _pattern(d: Decoder) -> int:
    """Every so many layers one sees everything."""
    newer, older = "_sliding_window_pattern", "sliding_window_pattern"
    d.config.get(newer)
    return d.config.whole(newer if d.config.get(older) is None else older)


_GEMMA = settings("""
    vocab_size               256000
    hidden_size              3072
    num_hidden_layers        28
    num_attention_heads      16
    num_key_value_heads      16
    head_dim                 256
    intermediate_size        24576
    hidden_act               "gelu_pytorch_tanh"
    max_position_embeddings  8192
    tie_word_embeddings      true
""")
_GEMMA2 = settings(
    """
    hidden_size            2304
    num_hidden_layers      26
    num_attention_heads    8
    num_key_value_heads    4
    intermediate_size      9216
    hidden_activation      "gelu_pytorch_tanh"
    query_pre_attn_scalar  256
    sliding_window         4096
    """,
    _GEMMA,
)
_GEMMA_NAMES = llama_names(
    attention_after="post_attention_layernorm",
    ffn_norm="pre_feedforward_layernorm",
    ffn_after="post_feedforward_layernorm",
)
_GEMMA2_CAPS = {**_GEMMA2, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
_ACTIVATION = {"fields": {"hidden_act": "hidden_activation"}, "harmless": ("hidden_act",)}
GEMMA = llama_like("gemma", "GemmaForCausalLM", _gemma1, defaults=_GEMMA)
GEMMA2 = llama_like(
    "gemma2",
    "Gemma2ForCausalLM",
    _gemma2,
    _GEMMA_NAMES,
    _GEMMA2_CAPS,
    **_ACTIVATION,
)
VAULTGEMMA = llama_like(
    "vaultgemma",
    "VaultGemmaForCausalLM",
    _vaultgemma,
    llama_names(ffn_norm="pre_feedforward_layernorm"),
    _GEMMA2_CAPS,
    **_ACTIVATION,
)
GEMMA3 = llama_like(
    "gemma3_text",
    "Gemma3ForCausalLM",
    _gemma3,
    _GEMMA_NAMES,
    settings(
        """
        vocab_size               262208
        max_position_embeddings  131072
        rope_theta               1000000.0
        rope_local_base_freq     10000.0
        _sliding_window_pattern  6
        """,
        _GEMMA2,
    ),
    **_ACTIVATION,
)


# ---- Phi-3 (Abdin et al. 2024): fused matrices


def _phi3(d: Decoder) -> None:
    d.rotate(width=d.share())
    d.kind.update(d.window())


PHI3 = llama_like(
    "phi3",
    "Phi3ForCausalLM",
    _phi3,
    llama_names(
        q=None,
        k=None,
        v=None,
        qkv="self_attn.qkv_proj",
        ffn_in="mlp.gate_up_proj",
        ffn_gate="mlp.gate_up_proj",
    ),
    settings("""
        vocab_size                        32064
        hidden_size                       3072
        intermediate_size                 8192
        rms_norm_eps                      1e-5
        max_position_embeddings           4096
        original_max_position_embeddings  4096
        partial_rotary_factor             1.0
    """),
)


# ---- OLMo (Groeneveld et al. 2024): norms without weights; OLMo 2 (2025) and 3: norms of what the
# sub-layers give


def _olmo(d: Decoder) -> None:
    d.kind["attention_biases"] = 15 * d.flag("attention_bias")
    d.kind.update(norm=D.LAYER_NORM, **NORM_BIASES)
    d.bare_norms = frozenset(("attention_norm", "ffn_norm", "final_norm"))
    clip = d.config.get("clip_qkv")
    if clip is not None:
        d.kind["qkv_clip"] = single(d.config.positive("clip_qkv"))
    d.rotate()


def _olmo2(d: Decoder) -> None:
    _norms_behind(d)
    d.rotate()


def _norms_behind(d: Decoder) -> None:
    d.kind.update(
        attention_biases=15 * d.flag("attention_bias"),
        norm_place=D.SUBLAYER,
        qk_norm=D.RMS_NORM,
        qk_norm_over=D.ALL_HEADS,
    )


def _olmo3(d: Decoder) -> None:
    """Layers that see a window turn without rope_scaling."""
    _norms_behind(d)
    near = {**d.window(), **d.rotation(scaled=False, layer_type=SLIDING)}
    d.sliding(lambda i: (i + 1) % 4, near, d.rotation(layer_type=FULL))


_OLMO_NAMES = llama_names(
    attention_norm=None,
    ffn_norm=None,
    attention_after="post_attention_layernorm",
    ffn_after="post_feedforward_layernorm",
)
_OLMO = {"vocab_size": 50304}
OLMO = llama_like(
    "olmo",
    "OlmoForCausalLM",
    _olmo,
    llama_names(),
    {**_OLMO, "norm_eps": 1e-5},
    norm=D.LAYER_NORM,
    fields={"rms_norm_eps": "norm_eps"},
)
OLMO2 = llama_like(
    "olmo2", "Olmo2ForCausalLM", _olmo2, _OLMO_NAMES, {**_OLMO, "rms_norm_eps": 1e-5}
)
OLMO3 = llama_like(
    "olmo3",
    "Olmo3ForCausalLM",
    _olmo3,
    _OLMO_NAMES,
    {**_OLMO, "rms_norm_eps": 1e-5, "sliding_window": 4096},
    newer={"rope_theta": 500000.0},
)


# ---- Granite (IBM 2024): factors


def _granite(d: Decoder) -> None:
    biases(d)
    d.kind.update(
        scale=single(d.config.positive("attention_multiplier")),
        residual_scale=single(d.config.positive("residual_multiplier")),
    )
    d.stack["embedding_scale"] = single(d.config.positive("embedding_multiplier"))
    d.output["scale"] = single(1 / d.config.positive("logits_scaling"))
    d.rotate()


GRANITE = llama_like(
    "granite",
    "GraniteForCausalLM",
    _granite,
    defaults=settings("""
        attention_multiplier  1.0
        residual_multiplier   1.0
        embedding_multiplier  1.0
        logits_scaling        1.0
    """),
)


# ---- Cohere's Command R (2024) and R7B: parallel blocks with one norm


def _cohere(d: Decoder) -> None:
    d.kind.update(
        attention_biases=15 * d.flag("attention_bias"), parallel=D.SHARED_INPUT, **NORM_BIASES
    )
    d.bias_free = {"final_norm", "q_norm", "k_norm"}
    d.output["scale"] = single(d.config.positive("logit_scale"))


def _cohere1(d: Decoder) -> None:
    _cohere(d)
    if d.flag("use_qk_norm"):
        d.kind.update(qk_norm=D.LAYER_NORM, qk_norm_over=D.OWN_HEAD)
        d.norm_shapes = {
            "q_norm": (d.kind["heads"], d.kind["head_width"]),
            "k_norm": (d.kind["kv_heads"], d.kind["head_width"]),
        }
    d.rotate(interleaved=True)


def _cohere2(d: Decoder) -> None:
    """Layers that see everything have no positions."""
    _cohere(d)
    pattern = _pattern(d)
    d.sliding(lambda i: (i + 1) % pattern, {**d.window(), **d.rotation(interleaved=True)})


_COHERE_NAMES = llama_names(ffn_norm=None)
_COHERE = settings("""
    vocab_size               256000
    hidden_size              8192
    num_hidden_layers        40
    num_attention_heads      64
    intermediate_size        22528
    layer_norm_eps           1e-5
    max_position_embeddings  8192
    logit_scale              0.0625
    use_qk_norm              false
    tie_word_embeddings      true
""")
COHERE = llama_like(
    "cohere",
    "CohereForCausalLM",
    _cohere1,
    _COHERE_NAMES,
    _COHERE,
    norm=D.LAYER_NORM,
    fields={"rms_norm_eps": "layer_norm_eps"},
    newer={"rope_theta": 500000.0},
)
COHERE2 = llama_like(
    "cohere2",
    "Cohere2ForCausalLM",
    _cohere2,
    _COHERE_NAMES,
    {**_COHERE, "sliding_window": 4096, "_sliding_window_pattern": 4},
    norm=D.LAYER_NORM,
    fields={"rms_norm_eps": "layer_norm_eps"},
    harmless=("order_of_interleaved_layers", "use_embedding_sharing", "use_parallel_embedding"),
)


# ---- GLM-4 (2024) and GLM-4-0414: pairs of neighbors turn, in half of each head


def _glm(d: Decoder) -> None:
    d.kind["attention_biases"] = 7 * d.flag("attention_bias")
    d.rotate(width=d.share(), interleaved=True)


def _glm4(d: Decoder) -> None:
    _glm(d)
    d.kind["norm_place"] = D.BOTH


_GLM_NAMES = dict(ffn_in="mlp.gate_up_proj", ffn_gate="mlp.gate_up_proj")
_GLM = settings("""
    vocab_size               151552
    num_hidden_layers        40
    num_key_value_heads      2
    head_dim                 128
    intermediate_size        13696
    rms_norm_eps             1.5625e-07
    max_position_embeddings  131072
    attention_bias           true
    partial_rotary_factor    0.5
""")
GLM = llama_like("glm", "GlmForCausalLM", _glm, llama_names(**_GLM_NAMES), _GLM)
GLM4 = llama_like(
    "glm4",
    "Glm4ForCausalLM",
    _glm4,
    llama_names(
        **_GLM_NAMES, attention_after="post_self_attn_layernorm", ffn_after="post_mlp_layernorm"
    ),
    _GLM,
)


# ---- EXAONE 4 (LG 2025)


def _exaone4(d: Decoder) -> None:
    """Layers that see everything have no positions, where others see a window."""
    d.kind.update(norm_place=D.SUBLAYER, qk_norm=D.RMS_NORM)
    window = d.window()
    pattern, turn = d.config.get("sliding_window_pattern"), d.rotation()
    if d.config.get("layer_types") is None:  # beside which the pattern may be anything
        pattern = d.config.whole("sliding_window_pattern")
    d.sliding(lambda i: window and (i + 1) % pattern, {**window, **turn}, {} if window else turn)


EXAONE4 = llama_like(
    "exaone4",
    "Exaone4ForCausalLM",
    _exaone4,
    _OLMO_NAMES,
    settings("""
        vocab_size              102400
        num_key_value_heads     32
        intermediate_size       16384
        rms_norm_eps            1e-5
        sliding_window          4096
        sliding_window_pattern  4
    """),
)


# ---- Helium (Kyutai 2025) and ERNIE 4.5 (Baidu 2025): pairs of neighbors turn; Seed-OSS
# (ByteDance 2025)


def _helium(d: Decoder) -> None:
    biases(d, 7)
    d.rotate(interleaved=True)


def all_biases(d: Decoder, name: str) -> None:
    """One flag for all matrices of a block."""
    bias = d.flag(name)
    d.kind.update(attention_biases=15 * bias, ffn_biases=3 * bias)


def _ernie(d: Decoder) -> None:
    all_biases(d, "use_bias")
    d.rotate(interleaved=True)


def _seed_oss(d: Decoder) -> None:
    biases(d, 7)
    d.kind["attention_biases"] |= 8 * d.flag("attention_out_bias")
    d.rotate()


HELIUM = llama_like(
    "helium",
    "HeliumForCausalLM",
    _helium,
    defaults=settings("""
        vocab_size               48000
        hidden_size              2560
        intermediate_size        7040
        num_hidden_layers        24
        num_attention_heads      20
        num_key_value_heads      20
        head_dim                 128
        max_position_embeddings  4096
        rms_norm_eps             1e-8
        rope_theta               100000.0
    """),
)
ERNIE = llama_like(
    "ernie4_5",
    "Ernie4_5ForCausalLM",
    _ernie,
    defaults=settings("""
        vocab_size               103424
        hidden_size              1024
        intermediate_size        3072
        num_hidden_layers        18
        num_attention_heads      16
        num_key_value_heads      2
        head_dim                 128
        max_position_embeddings  131072
        rms_norm_eps             1e-5
        rope_theta               500000.0
        use_bias                 false
        tie_word_embeddings      true
    """),
)
SEED_OSS = llama_like(
    "seed_oss",
    "SeedOssForCausalLM",
    _seed_oss,
    defaults=settings("""
        vocab_size               155136
        intermediate_size        27648
        num_hidden_layers        64
        num_attention_heads      80
        num_key_value_heads      8
        head_dim                 128
        max_position_embeddings  524288
        attention_bias           true
        attention_out_bias       false
    """),
)


LLAMAS = (
    LLAMA,
    SMOLLM3,
    MISTRAL,
    MINISTRAL,
    QWEN2,
    QWEN3,
    GEMMA,
    GEMMA2,
    VAULTGEMMA,
    GEMMA3,
    PHI3,
    OLMO,
    OLMO2,
    OLMO3,
    GRANITE,
    COHERE,
    COHERE2,
    GLM,
    GLM4,
    EXAONE4,
    HELIUM,
    ERNIE,
    SEED_OSS,
)
