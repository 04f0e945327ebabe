"""What BART (Lewis et al. 2020) and the encoder-decoders with its modules have alike."""

from __future__ import annotations

import math
from typing import Any, Callable

from phasor.families.encoder_decoder import EncoderDecoder
from phasor.families.family import Family
from phasor.families.names import FAIRSEQ_BLOCK, tensor_names
from phasor.format import descriptor as D
from phasor.values import settings, table, words

_EPSILON = 1e-5  # of its norms, which is PyTorch's


def bart_names(rest: str = "", output_bias: bool = True) -> dict[str, str]:
    """The tensors of BART's modules; rest: parts that a family has beside them."""
    return {
        "output": "lm_head.weight",
        **({"output_bias": "final_logits_bias"} if output_bias else {}),
        **tensor_names(
            "model.{stack}.layers.{layer}",
            FAIRSEQ_BLOCK
            + """
            cross_q         .encoder_attn.q_proj
            cross_k         .encoder_attn.k_proj
            cross_v         .encoder_attn.v_proj
            cross_out       .encoder_attn.out_proj
            cross_norm      .encoder_attn_layer_norm
            """,
        ),
        **{part: f"model.{{stack}}.{name}.weight" for part, name in table(rest).items()},
    }


LEARNED = """
    positions       embed_positions
    embedding_norm  layernorm_embedding
"""
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


def bart_like(
    kind: str,
    classes: str,
    adapt: Callable[[EncoderDecoder], None],
    names: dict[str, str],
    defaults: dict[str, Any] = {},
    **more: Any,
) -> Family:
    """A family of this model_type and these classes with BART's sizes, but for its own."""
    more["neutral"] = {**_ORDER, **more.get("neutral", {})}
    return Family(
        D.ENCODER_DECODER,
        (kind,),
        words(classes),
        "",
        names,
        {**_SIZES, **defaults},
        adapt=adapt,
        harmless=_HARMLESS + more.pop("harmless", ()),
        **{"embeddings": _EMBEDDINGS, **more},
    )


def bart(m: EncoderDecoder) -> None:
    """Norms behind each sub-layer; before, where a name is that of one behind the stack."""
    c = m.config
    width = c.whole("d_model", high=D.MAX_WIDTH)
    for s in m.stacks:
        before = "final_norm" in s.names
        s.blocks(c.whole(f"{s.place}_layers", high=D.MAX_LAYERS))
        s.stack.update(
            width=width,
            max_positions=c.whole("max_position_embeddings"),
            embedding_scale=math.sqrt(width) if c.flag("scale_embedding") else 1.0,
        )
        for part in ("embedding_norm", "final_norm"):
            if part in s.names:
                s.stack.update({part: D.LAYER_NORM, f"{part}_eps": _EPSILON})
        s.kind.update(
            m.heads(width, f"{s.place}_attention_heads"),
            norm=D.LAYER_NORM,
            norm_place=D.BEFORE if before else D.AFTER,
            norm_eps=_EPSILON,
            norm_biases=1,
            attention_biases=D.ATTENTION_BIASES,
            hidden=c.whole(f"{s.place}_ffn_dim"),
            activation=c.activation("activation_function"),
            ffn_biases=D.FFN_BIASES,
        )


def bart_learned(m: EncoderDecoder) -> None:
    """A table of positions, that begins with two of none."""
    bart(m)
    for s in m.stacks:
        s.learned(before=2)


def bart_sinusoids(m: EncoderDecoder) -> None:
    bart(m)
    m.sinusoids()
