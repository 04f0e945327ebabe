"""Gemma 4's language models (Google DeepMind 2026): per-layer embeddings, layers that use the keys
and values of earlier ones, heads of two widths. Only transformers 5 has them."""

from __future__ import annotations

from typing import Any

from phasor.errors import shown
from phasor.families.decoder import Decoder
from phasor.families.gemma_like import ACTIVATION, GEMMA_NAMES, cap
from phasor.families.hf_config import FULL, SLIDING, layer_types
from phasor.families.llama_like import llama_like
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.values import settings, words

_NOT_READ = "keys and values of a layer that uses those of an earlier one, which no class reads"
_ROTARY = {
    SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
    FULL: {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
}


def _types(d: Decoder) -> list[str]:
    """What each layer sees; the last one sees everything, whatever layer_types says."""
    made = (FULL if i % 6 == 5 else SLIDING for i in range(d.count))
    types = layer_types(d.config, d.count, made)
    return [*types[:-1], FULL]


def _heads(d: Decoder, types: list[str]) -> dict[str, dict[str, int]]:
    """The kinds of heads of each type of layer: full ones have a width of their own, and may have
    another number of keys and values."""
    c, same = d.config, bool(d.flag("attention_k_eq_v"))
    near = {"head_width": d.kind["head_width"], "kv_heads": d.kind["kv_heads"]}
    given = c.table("per_layer_config")
    if given is None:
        far = dict(near, head_width=c.whole("global_head_dim", 1, 4096))
        if same and c.get("num_global_key_value_heads") is not None:
            far["kv_heads"] = c.whole("num_global_key_value_heads", 1, d.kind["heads"])
        c.asked.add("num_global_key_value_heads")
        return {SLIDING: near, FULL: far}
    c.asked |= {"global_head_dim", "num_global_key_value_heads"}
    found: dict[str, dict[str, int]] = {}
    # transformers writes their numbers with zeros before them
    keys = {int(key): key for key in given.values if key.isascii() and key.isdigit()}
    for i, name in enumerate(types):
        own, heads = given.table(keys.get(i, str(i))), dict(near)
        if own is not None and own.get("head_dim") is not None:
            heads["head_width"] = own.whole("head_dim", 1, 4096)
        if own is not None and own.get("num_key_value_heads") is not None:
            heads["kv_heads"] = own.whole("num_key_value_heads", 1, d.kind["heads"])
        if found.setdefault(name, heads) != heads:
            raise c.error("per_layer_config", f"layers of type {name} differ: not supported")
    return found


def _borrowed(d: Decoder, types: list[str]) -> list[int]:
    """For each layer 1 + the one whose keys and values it uses, or 0: the last of the same type
    among those that have their own."""
    shared = d.config.whole("num_kv_shared_layers", 0, d.count - 1)
    own = types[: d.count - shared]
    if shared and set(own) != set(types):
        raise d.config.error(
            "num_kv_shared_layers",
            f"{shared}: no layer before them is of type {' or '.join(set(types) - set(own))}",
        )
    last = {name: i + 1 for i, name in enumerate(own)}
    return [0 if i < len(own) else last[name] for i, name in enumerate(types)]


def _per_layer(d: Decoder) -> None:
    """The table of per-layer embeddings. Rows beyond the vocabulary are not used."""
    width = d.config.whole("hidden_size_per_layer_input", 0, D.MAX_WIDTH, default=0)
    rows = d.config.get("vocab_size_per_layer_input")
    if not width:
        return
    if d.config.whole("vocab_size_per_layer_input") < d.side["vocabulary"]:
        raise d.config.error(
            "vocab_size_per_layer_input", f"{shown(rows)}, the vocabulary has more ids"
        )
    d.per_layer_rows = int(rows)
    # The library scales the sum of both parts; here the norm of the first and the scale of the
    # second have that factor.
    d.factors["per_layer_projection_norm"] = 2**-0.5
    d.stack.update(
        per_layer_width=width,
        per_layer_scale=single((width / 2) ** 0.5),
        per_layer_norm=D.RMS_NORM,
        # the projection's scale of 1/sqrt(D), which its norm takes away but for this
        per_layer_norm_eps=single(d.stack["final_norm_eps"] * d.stack["width"]),
    )


def _gemma4(d: Decoder) -> None:
    c = d.config
    c.must("enable_moe_block", False)
    c.must("use_bidirectional_attention", None, "vision")  # which is of pictures alone
    biases, hidden = D.ATTENTION_BIASES * d.flag("attention_bias"), d.kind["hidden"]
    d.stack["embedding_scale"] = single(d.stack["width"] ** 0.5)
    d.kind.update(
        norm_place=D.BOTH, scale=1.0, qk_norm=D.RMS_NORM, layer_scale=1, attention_biases=biases
    )
    d.bare_norms = frozenset({"v_norm"})
    cap(d, "final_logit_softcapping", d.output)
    types, window = _types(d), d.window()
    heads, wider, same = _heads(d, types), d.flag("use_double_wide_mlp"), d.flag("attention_k_eq_v")
    made = {
        name: {
            **heads[name],
            **d.rotation(layer_type=name, head=heads[name]["head_width"]),
            **(window if name == SLIDING else {}),
        }
        for name in dict.fromkeys(types)
    }
    for name in {SLIDING, FULL} - set(types):  # the table of a type that no layer has says nothing
        table = c.table("rope_parameters", {}).table(name)
        if table is not None:
            table.finished = True
    for i, (name, keys) in enumerate(zip(types, _borrowed(d, types))):
        own: dict[str, Any] = {"value_norm": 1}
        if keys:
            own = {
                "keys_of": keys,
                "hidden": hidden * (1 + wider),
                "attention_biases": biases & (D.BIAS_Q | D.BIAS_OUT),
            }
            for part in ("k_proj", "v_proj", "k_norm", "v_norm"):
                d.unread[f"layers.{i}.self_attn.{part}.*"] = _NOT_READ
        elif same and name == FULL:
            d.keys_are_values |= {i}
        d.per_layer[i].update({**made[name], **own})
    _per_layer(d)


GEMMA4 = llama_like(
    "gemma4_text",
    "Gemma4ForCausalLM",
    _gemma4,
    {
        **GEMMA_NAMES,
        **{
            part: f"layers.{{layer}}.{module}.weight"
            for part, module in {
                "per_layer_gate": "per_layer_input_gate",
                "per_layer_out": "per_layer_projection",
                "per_layer_norm": "post_per_layer_input_norm",
            }.items()
        },
        "layer_scale": "layers.{layer}.layer_scalar",
        "per_layer": "embed_tokens_per_layer.weight",
        "per_layer_projection": "per_layer_model_projection.weight",
        "per_layer_projection_norm": "per_layer_projection_norm.weight",
    },
    settings(
        """
        vocab_size                   262144
        hidden_size                  2304
        num_hidden_layers            30
        num_attention_heads          8
        num_key_value_heads          4
        head_dim                     256
        intermediate_size            9216
        hidden_activation            "gelu_pytorch_tanh"
        max_position_embeddings      131072
        tie_word_embeddings          true
        attention_bias               false
        rope_theta                   10000.0
        sliding_window               512
        global_head_dim              512
        vocab_size_per_layer_input   262144
        hidden_size_per_layer_input  256
        attention_k_eq_v             false
        num_kv_shared_layers         0
        enable_moe_block             false
        use_double_wide_mlp          false
        bos_token_id                 2
        eos_token_id                 1
        pad_token_id                 0
        """,
        {"rope_parameters": _ROTARY},
    ),
    fields=ACTIVATION["fields"],
    harmless=(*ACTIVATION["harmless"], *words("num_experts top_k_experts moe_intermediate_size")),
    judges=True,
)
