"""What T5 (Raffel et al. 2020) and its kin have alike, with their decoders and without."""

from __future__ import annotations

from phasor.values import settings, words

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
T5_HARMLESS = words("""
    dropout_rate initializer_factor classifier_dropout n_positions num_hidden_layers
    output_past dense_act_fn
""")
# UMT5's tables of each layer.
T5_NEUTRAL: dict[str, dict[str, list]] = {
    **dict.fromkeys(("t5", "mt5"), {}),
    "umt5": {"scalable_attention": [True]},
}
