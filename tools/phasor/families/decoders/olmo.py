"""OLMo (Groeneveld et al. 2024): norms without weights; OLMo 2 (2025) and 3: norms of what the
sub-layers give."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.hf_config import FULL, SLIDING
from phasor.families.llama_like import NORM_BIASES, SUBLAYER_NAMES, llama_like, llama_names
from phasor.families.model import single
from phasor.format import descriptor as D


def _olmo(d: Decoder) -> None:
    d.kind["attention_biases"] = D.ATTENTION_BIASES * d.flag("attention_bias")
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
        attention_biases=D.ATTENTION_BIASES * d.flag("attention_bias"),
        norm_place=D.SUBLAYER,
        qk_norm=D.RMS_NORM,
        qk_norm_over=D.ALL_HEADS,
    )


def _olmo3(d: Decoder) -> None:
    """Layers that see a window turn without rope_scaling."""
    _norms_behind(d)
    near = {**d.window(), **d.rotation(scaled=False, layer_type=SLIDING)}
    d.sliding(lambda i: (i + 1) % 4, near, d.rotation(layer_type=FULL))


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
    "olmo2", "Olmo2ForCausalLM", _olmo2, SUBLAYER_NAMES, {**_OLMO, "rms_norm_eps": 1e-5}
)
OLMO3 = llama_like(
    "olmo3",
    "Olmo3ForCausalLM",
    _olmo3,
    SUBLAYER_NAMES,
    {**_OLMO, "rms_norm_eps": 1e-5, "sliding_window": 4096},
    newer={"rope_theta": 500000.0},
)
