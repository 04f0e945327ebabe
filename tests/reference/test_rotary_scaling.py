"""tools/phasor/families/rotary_scaling.py beside transformers' own functions for every type of
rope_scaling."""

from __future__ import annotations

import numpy as np
import pytest

from phasor.families.rotary_scaling import rotary  # noqa: E402
from phasor.format.layout import PhasorError  # noqa: E402

rope = pytest.importorskip("transformers.modeling_rope_utils")
from transformers import LlamaConfig  # noqa: E402

HALF = 24
CASES = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 128},
    "yarn, every key": {
        "factor": 3.0,
        "beta_fast": 20,
        "beta_slow": 2,
        "mscale": 0.7,
        "mscale_all_dim": 1.2,
        "truncate": False,
        "original_max_position_embeddings": 100,
    },
    "yarn, a factor": {"factor": 3.0, "attention_factor": 1.3},
    "longrope": {
        "short_factor": [1 + 0.01 * i for i in range(HALF)],
        "long_factor": [1 + 0.3 * i for i in range(HALF)],
        "factor": 4.0,
    },
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 256,
    },
}


@pytest.mark.parametrize("length", [100, 512, 3000])
@pytest.mark.parametrize("name", CASES)
def test_frequencies_and_factor(name, length):
    kind, scaling = name.split(",")[0], {"rope_type": name.split(",")[0], **CASES[name]}
    config = LlamaConfig(
        hidden_size=4 * 2 * HALF,
        num_attention_heads=4,
        max_position_embeddings=512,
        rope_theta=50000.0,
        rope_scaling=None if kind == "default" else dict(scaling),
    )
    want, factor = rope.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    got = rotary(2 * HALF, 50000.0, scaling, trained=512, context=length)
    assert np.allclose(got.inv_freq, want.numpy(), rtol=5e-7, atol=0)  # a few roundings of float32
    assert got.factor == pytest.approx(factor, rel=1e-12)
    assert got.most == (
        0
        if kind not in ("dynamic", "longrope")
        else 512
        if kind == "longrope" and length <= 512
        else length
    )


@pytest.mark.parametrize(
    "scaling, says",
    [
        ({"rope_type": "linear"}, "linear needs factor"),
        ({"rope_type": "linear", "factor": 2, "beta_fast": 3}, "beta_fast is not a key of linear"),
        ({"rope_type": "mrope"}, "'mrope', expected one of"),
        ({"rope_type": "linear", "type": "yarn", "factor": 2}, "differ"),
        (
            {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]},
            "1 factors of longrope, expected 24",
        ),
    ],
)
def test_what_is_not_understood_is_named(scaling, says):
    with pytest.raises(PhasorError, match=says):
        rotary(2 * HALF, 10000.0, scaling, trained=512)
