# Generated from src/facts/descriptor.toml by `make generate`: edit that, not this.
"""The descriptor: its fields, the values that have names, and the activations."""

U32, FLOAT, STRING, IDS, FLOATS = 1, 2, 3, 4, 5  # types of a key
NEEDED = object()  # a field that the file must have

MAX_VOCABULARY = 16777216
MAX_WIDTH = 65536
MAX_LAYERS = 1024
MAX_KINDS = 256
MAX_IDS = 16

# Stack
ENCODER = 1
DECODER = 2
ENCODER_DECODER = 3

# Mixer
ATTENTION = 0
CONVOLUTION = 1

# Position
LEARNED = 1
INTERLEAVED = 2
HALVES = 3

# Norm
LAYER_NORM = 1
RMS_NORM = 2

# NormPlace
BEFORE = 1
AFTER = 2
BOTH = 3
SUBLAYER = 4

# Parallel
SERIAL = 0
SHARED_INPUT = 1
TWO_NORMS = 2

# Cross
OWN_CROSS = 1
MERGED = 2

# Score
DOT = 0
ADDITIVE = 1

# KindPosition
RELATIVE_KEY = 1
RELATIVE_KEY_QUERY = 2
CLIPPED = 3
ROTARY_INTERLEAVED = 4
ROTARY_HALVES = 5
T5_BIAS = 6
ALIBI = 7
THREE_WAY = 8
DISENTANGLED = 9

# NormOver
HEAD = 0
OWN_HEAD = 1
ALL_HEADS = 2

# NormOrder
NORM_FIRST = 0
NORM_LAST = 1

# Output
LOGITS = 1
HIDDEN = 2
POOLED = 3
CLASSES = 4

# Tied
TIED_OWN = 0
TIED_TARGET = 1
TIED_SOURCE = 2

# Pooling
MEAN = 1
FIRST = 2
LAST = 3
MAX = 4

# Scores
SOFTMAX = 0
SIGMOID = 1
PLAIN = 2

# Expansion
NO_EXPANSION = 0
HIDDEN_EXPANSION = 1
SEEN_EXPANSION = 2

# Bias
BIAS_Q = 1
BIAS_K = 2
BIAS_V = 4
BIAS_OUT = 8

# FfnBias
BIAS_IN = 1
BIAS_FFN_OUT = 2

# InnerNorm
NORM_OF_OUT = 1
NORM_OF_DOWN = 2

# InputScale
SCALE_QKV = 1
SCALE_FFN = 2

# Activations: number, name, word, names in a config.json, the class in torch.nn.
RELU = 1
GELU_ERF = 2
GELU_TANH = 3
SILU = 4
TANH = 5
RELU2 = 6
XIELU = 7
ACTIVATION_ROWS = (
    (RELU, "ReLU", "relu", ("relu",), "ReLU"),
    (GELU_ERF, "GELU (erf)", "gelu", ("gelu", "gelu_python"), "GELU"),
    (
        GELU_TANH,
        "GELU (tanh)",
        "gelu-tanh",
        ("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"),
        "",
    ),
    (SILU, "SiLU", "silu", ("silu", "swish"), "SiLU"),
    (TANH, "tanh", "", (), "Tanh"),
    (RELU2, "squared ReLU", "relu2", ("relu2",), ""),
    (XIELU, "xIELU", "xielu", (), ""),
)

# By scope: number, type, name, default, low, high, the default's field.
FIELD_ROWS = {
    "model": (
        (1, U32, "stack", NEEDED, 1, 3, ""),
        (16, STRING, "name", "", 0, 4294967294, ""),
        (17, STRING, "author", "", 0, 4294967294, ""),
        (18, STRING, "license", "", 0, 4294967294, ""),
        (19, STRING, "credit", "", 0, 4294967294, ""),
        (20, STRING, "origin", "", 0, 4294967294, ""),
        (21, STRING, "converter", "", 0, 4294967294, ""),
    ),
    "side": (
        (1, U32, "vocabulary", NEEDED, 1, 16777216, ""),
        (2, U32, "tokenizer", 0, 0, 4, ""),
        (3, U32, "embedding_shared", 0, 0, 1, ""),
        (4, U32, "pad", None, 0, 16777215, ""),
        (5, U32, "unknown", None, 0, 16777215, ""),
        (6, U32, "start", None, 0, 16777215, ""),
        (7, IDS, "end", (), 0, 16, ""),
        (8, U32, "decoder_start", None, 0, 16777215, ""),
        (9, U32, "forced_first", None, 0, 16777215, ""),
        (10, U32, "mask", None, 0, 16777215, ""),
        (11, IDS, "prefix", (), 0, 16, ""),
        (12, IDS, "suffix", (), 0, 16, ""),
        (13, IDS, "pair", (), 0, 16, ""),
        (14, U32, "pair_segment", 0, 0, 65535, ""),
        (15, U32, "longest_text", 0, 0, 16777216, ""),
        (16, U32, "vectors", 0, 0, 65536, ""),
        (17, U32, "own_row", 0, 0, 16777216, ""),
    ),
    "stack": (
        (1, U32, "width", NEEDED, 1, 65536, ""),
        (2, IDS, "layers", NEEDED, 2, 2048, ""),
        (3, U32, "position", 0, 0, 3, ""),
        (4, U32, "max_positions", 0, 0, 16777216, ""),
        (5, FLOAT, "embedding_scale", 1.0, 0, 4294967294, ""),
        (6, U32, "embedding_width", None, 1, 65536, "width"),
        (7, U32, "embedding_norm", 0, 0, 2, ""),
        (8, FLOAT, "embedding_norm_eps", 0.0, 0, 4294967294, ""),
        (9, U32, "segments", 0, 0, 65536, ""),
        (10, U32, "final_norm", 0, 0, 2, ""),
        (11, FLOAT, "final_norm_eps", 0.0, 0, 4294967294, ""),
        (12, U32, "cross_width", None, 1, 65536, "encoder.width"),
        (13, U32, "projection_bias", 0, 0, 1, ""),
        (14, U32, "projection_place", 0, 0, 1, ""),
        (15, U32, "embedding_norm_place", 0, 0, 1, ""),
        (16, U32, "per_layer_width", 0, 0, 65536, ""),
        (17, FLOAT, "per_layer_scale", 1.0, 0, 4294967294, ""),
        (18, U32, "per_layer_norm", 0, 0, 2, ""),
        (19, FLOAT, "per_layer_norm_eps", 0.0, 0, 4294967294, ""),
    ),
    "kind": (
        (1, U32, "norm", NEEDED, 1, 2, ""),
        (2, U32, "norm_place", NEEDED, 1, 4, ""),
        (3, FLOAT, "norm_eps", NEEDED, 0, 4294967294, ""),
        (4, U32, "parallel", 0, 0, 2, ""),
        (5, U32, "heads", NEEDED, 1, 4096, ""),
        (6, U32, "kv_heads", None, 1, 4096, "heads"),
        (7, U32, "head_width", NEEDED, 1, 4096, ""),
        (8, FLOAT, "scale", NEEDED, 0, 4294967294, ""),
        (9, U32, "score", 0, 0, 1, ""),
        (10, U32, "attention_biases", 0, 0, 15, ""),
        (11, U32, "qk_norm", 0, 0, 2, ""),
        (12, U32, "window", 0, 0, 16777216, ""),
        (13, FLOAT, "cap", 0.0, 0, 4294967294, ""),
        (14, U32, "position", 0, 0, 9, ""),
        (15, U32, "rotary_width", 0, 0, 4096, ""),
        (16, U32, "max_distance", 0, 0, 16777216, ""),
        (17, U32, "hidden", NEEDED, 1, 1048576, ""),
        (18, U32, "activation", NEEDED, 1, 7, ""),
        (19, U32, "gated", 0, 0, 1, ""),
        (20, U32, "ffn_biases", 0, 0, 3, ""),
        (21, U32, "cross", 0, 0, 2, ""),
        (22, U32, "cross_heads", None, 1, 4096, "heads"),
        (23, U32, "cross_kv_heads", None, 1, 4096, "kv_heads"),
        (24, U32, "cross_head_width", None, 1, 4096, "head_width"),
        (25, FLOAT, "cross_scale", None, 0, 4294967294, "scale"),
        (26, U32, "cross_biases", 0, 0, 15, ""),
        (27, FLOAT, "residual_scale", 1.0, 0, 4294967294, ""),
        (28, U32, "norm_biases", None, 0, 1, "norm"),
        (29, U32, "score_order", 0, 0, 0, ""),
        (30, U32, "cross_score", 0, 0, 1, ""),
        (31, U32, "attention_norm", 1, 0, 1, ""),
        (32, FLOAT, "rotary_factor", 1.0, 0, 4294967294, ""),
        (33, U32, "input_scales", 0, 0, 3, ""),
        (34, U32, "qk_norm_over", 0, 0, 2, ""),
        (35, FLOAT, "qkv_clip", 0.0, 0, 4294967294, ""),
        (36, U32, "causal", 0, 0, 1, ""),
        (37, U32, "qk_norm_place", 0, 0, 1, ""),
        (38, U32, "separate_v", 0, 0, 1, ""),
        (39, U32, "mixer", 0, 0, 1, ""),
        (40, U32, "convolution_bias", 0, 0, 1, ""),
        (41, U32, "inner_norms", 0, 0, 3, ""),
        (42, U32, "value_norm", 0, 0, 1, ""),
        (43, U32, "keys_of", 0, 0, 1024, ""),
        (44, U32, "layer_scale", 0, 0, 1, ""),
    ),
    "output": (
        (1, U32, "output", NEEDED, 1, 4, ""),
        (2, U32, "tied", 0, 0, 2, ""),
        (3, FLOAT, "scale", 1.0, 0, 4294967294, ""),
        (4, FLOAT, "cap", 0.0, 0, 4294967294, ""),
        (5, U32, "bias", 0, 0, 1, ""),
        (6, U32, "pooling", 0, 0, 4, ""),
        (7, U32, "normalize", 0, 0, 1, ""),
        (8, U32, "classes", 0, 0, 16777216, ""),
        (9, U32, "head_width", 0, 0, 65536, ""),
        (10, U32, "head_activation", 0, 0, 7, ""),
        (11, U32, "head_norm", 0, 0, 2, ""),
        (12, FLOAT, "head_norm_eps", 0.0, 0, 4294967294, ""),
        (13, U32, "head_bias", 0, 0, 1, ""),
        (14, U32, "scores", 0, 0, 2, ""),
        (16, STRING, "labels", "", 0, 4294967294, ""),
        (17, STRING, "prompts", "", 0, 4294967294, ""),
        (18, U32, "query_length", 0, 0, 16777216, ""),
        (19, U32, "document_length", 0, 0, 16777216, ""),
        (20, U32, "query_marker", None, 0, 16777215, ""),
        (21, U32, "document_marker", None, 0, 16777215, ""),
        (22, U32, "expansion", 0, 0, 2, ""),
        (23, IDS, "skipped", (), 0, 65536, ""),
    ),
    "generation": (
        (1, U32, "sample", 0, 0, 1, ""),
        (2, FLOAT, "temperature", 0.0, 0, 4294967294, ""),
        (3, U32, "top_k", 0, 0, 16777216, ""),
        (4, FLOAT, "top_p", 0.0, 0, 4294967294, ""),
        (5, FLOAT, "min_p", 0.0, 0, 4294967294, ""),
        (6, FLOAT, "typical_p", 0.0, 0, 4294967294, ""),
        (7, FLOAT, "repetition_penalty", 0.0, 0, 4294967294, ""),
        (8, U32, "no_repeat_ngram", 0, 0, 16777216, ""),
        (9, U32, "min_new", 0, 0, 16777216, ""),
        (10, U32, "max_new", 0, 0, 16777216, ""),
        (11, IDS, "suppressed", (), 0, 65536, ""),
        (12, U32, "beams", 0, 0, 256, ""),
        (13, FLOAT, "length_penalty", 1.0, 0, 4294967294, ""),
        (14, U32, "early_stopping", 0, 0, 2, ""),
        (15, U32, "source_no_repeat_ngram", 0, 0, 16777216, ""),
        (16, IDS, "bad_words", (), 0, 65536, ""),
        (17, U32, "forced_last", None, 0, 16777215, ""),
        (18, U32, "renormalize", 0, 0, 1, ""),
    ),
}
SCOPE_NAMES = {
    "model": "model",
    "source": "side",
    "target": "side",
    "encoder": "stack",
    "decoder": "stack",
    "kinds": "kind",
    "output": "output",
    "generation": "generation",
}
