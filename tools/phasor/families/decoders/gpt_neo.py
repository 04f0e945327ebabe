"""GPT-Neo (Black et al. 2021): layers that see a window, scores that are not divided."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.gpt_like import MASKS, SUMMARY, gpt_like
from phasor.families.names import tensor_names
from phasor.format import descriptor as D
from phasor.values import is_whole, settings, table


def _gpt_neo(d: Decoder) -> None:
    d.kind.update(attention_biases=D.BIAS_OUT, ffn_biases=D.FFN_BIASES, scale=1.0)
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
