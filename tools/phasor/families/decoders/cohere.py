"""Cohere's Command R (2024) and R7B: parallel blocks with one norm."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import NORM_BIASES, llama_like, llama_names, sliding_pattern
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings


def _cohere(d: Decoder) -> None:
    d.kind.update(
        attention_biases=D.ATTENTION_BIASES * d.flag("attention_bias"),
        parallel=D.SHARED_INPUT,
        **NORM_BIASES,
    )
    d.bias_free = frozenset({"final_norm", "q_norm", "k_norm"})
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
    pattern = sliding_pattern(d)
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
