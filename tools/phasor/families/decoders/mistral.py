"""Mistral (Jiang et al. 2023), Ministral, and Ministral 3 (2025), whose queries behind the trained
length are scaled by their positions."""

from __future__ import annotations

from phasor.errors import PhasorError
from phasor.families.decoder import Decoder
from phasor.families.hf_config import rope_table
from phasor.families.llama_like import llama_like
from phasor.values import settings


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
                " (original_max_position_embeddings) are scaled, which is not supported"
            )
        if original < d.positions:
            d.notes.append(
                f"llama_4_scaling_beta: queries behind position {original} are scaled, which is not"
                " supported: the file takes no longer sequence"
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
