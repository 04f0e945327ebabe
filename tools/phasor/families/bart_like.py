"""What BART (Lewis et al. 2020) and the encoder-decoders with its modules have alike."""

from __future__ import annotations

from phasor.families.encoder_decoder import STACKS, EncoderDecoder
from phasor.format import descriptor as D
from phasor.values import settings, table, words


def bart_names(rest: str = "") -> dict[str, str]:
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


EMBEDDINGS = words("""
    model.shared.weight model.encoder.embed_tokens.weight model.decoder.embed_tokens.weight
""")
SIZES = settings("""
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
HARMLESS = words("""
    num_hidden_layers dropout attention_dropout activation_dropout init_std encoder_layerdrop
    decoder_layerdrop classif_dropout classifier_dropout normalize_before normalize_embedding
    add_final_layer_norm add_bias_logits extra_pos_embeddings save_step replacing_rate
    student_encoder_layers student_decoder_layers kobart_version
""")
# What those configurations say of the order of norms, which each class has in its code.
ORDER = settings("""
    do_blenderbot_90_layernorm  [false]
    extra_layer_norm            [false]
""")


def bart(m: EncoderDecoder) -> None:
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


LEARNED = """
    positions       embed_positions
    embedding_norm  layernorm_embedding
"""
LEARNED_KEYS = settings("""
    position         "learned"
    position_offset  2
    norm_place       "after"
    final_norm       false
""")
# mBART (Liu et al. 2020), mBART-50 (Tang et al. 2020): norms before, and one after each stack
BEFORE = settings("""
    norm_place  "before"
    final_norm  true
""")
