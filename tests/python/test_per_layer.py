"""Gemma 4's configurations, and the rules of the descriptor's fields that it brought."""

from __future__ import annotations

import copy
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for folder in ("fuzz/python", "golden"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))

import checkpoints
import make_models
import models

from conversions import convert_to
from phasor.errors import PhasorError
from phasor.families.decoder import Decoder
from phasor.families.decoders.gemma4 import GEMMA4
from phasor.families.hf_config import Config
from phasor.families.rotary_scaling import rotary
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format.writer import write_model
from phasor.reference.forward import Reference
from places import ROOT, told

GOLDEN = ROOT / "tests/golden/models/tiny-gemma4-f32.phasor"
FULL, SLIDING = "full_attention", "sliding_attention"


def decoder(**fields: Any) -> Decoder:
    base = models.directory("gemma4_text", "Gemma4ForCausalLM").config
    values = {**copy.deepcopy(base), **fields}
    return Decoder(GEMMA4, Config(Path("config.json"), values, GEMMA4.defaults))


@pytest.mark.parametrize(
    "fields, line",
    [
        ({"enable_moe_block": True}, "enable_moe_block: True is not supported"),
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention: 'all'"),
        ({"vocab_size_per_layer_input": 23}, "vocab_size_per_layer_input: 23, the vocabulary"),
        ({"num_kv_shared_layers": 2}, "num_kv_shared_layers: 2, expected"),
        (
            {"layer_types": [SLIDING, FULL], "num_kv_shared_layers": 1},
            "no layer before them is of type full_attention",
        ),
        ({"per_layer_config": {"0": {"head_dim": 4}}}, "layers of type full_attention differ"),
        ({"per_layer_config": {"0": {"window": 4}}}, "per_layer_config.0.window"),
        ({"per_layer_config": {"7": {"head_dim": 4}}}, "per_layer_config.7"),
        (
            {"rope_parameters": {SLIDING: {"rope_theta": 9.0}, FULL: {"rope_theta": 9.0, "x": 1}}},
            "rope_parameters.full_attention",
        ),
    ],
)
def test_a_configuration_that_is_refused(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(PhasorError) as error:
        decoder(**fields)
    assert line in str(error.value)


def test_layers_are_numbered_with_zeros_before() -> None:
    """As transformers writes them where there are more than ten."""
    types = [FULL if i % 3 == 2 else SLIDING for i in range(12)]
    more = {"num_hidden_layers": 12, "layer_types": types, "num_kv_shared_layers": 0}
    far = {f"{i:02}": {"head_dim": 12} for i in range(12) if types[i] == FULL}
    made = decoder(**more, per_layer_config=far)
    layers = [made.kinds[k] for k in made.stack["layers"][::2]]
    widths = [made.kind["head_width"] if name == SLIDING else 12 for name in types]
    assert [kind["head_width"] for kind in layers] == widths


def test_the_last_layer_sees_everything() -> None:
    made = decoder(layer_types=[FULL, SLIDING], sliding_window=5)
    assert "window" not in made.kinds[made.stack["layers"][-2]]


def test_proportional_frequencies_are_a_share_of_the_plain_ones() -> None:
    """transformers' modeling_rope_utils: the others are 0, and a factor divides them."""
    plain = rotary(16, 500.0).inv_freq
    scaling = {"rope_type": "proportional", "partial_rotary_factor": 0.6, "factor": 1.5}
    made = rotary(16, 500.0, scaling).inv_freq
    np.testing.assert_allclose(made, np.where(np.arange(8) < 4, plain, 0) / 1.5, rtol=1e-7)
    with pytest.raises(PhasorError, match="partial_rotary_factor"):
        rotary(16, 500.0, {**scaling, "partial_rotary_factor": 1.5})


@pytest.mark.parametrize(
    "scope, index, fields, line",
    [
        ("kinds", 2, {"keys_of": 1}, ""),
        ("kinds", 2, {"keys_of": 2}, "kind2.keys_of: 2, expected 1 more than a layer before 3"),
        ("kinds", 2, {"keys_of": 4}, "kind2.keys_of: 4, expected"),
        ("kinds", 3, {"keys_of": 4}, "kind3.keys_of: 4, expected 1 more than a layer before 4"),
        ("kinds", 2, {"window": 6}, "kind2.keys_of: 3, expected"),
        ("kinds", 2, {"value_norm": 1}, "kind2.value_norm: goes with"),
        ("kinds", 0, {"qk_norm": 0}, "kind0.value_norm: goes with"),
        ("kinds", 2, {"separate_v": 1}, "kind2.keys_of: goes with attention"),
        ("kinds", 2, {"attention_biases": 9}, ""),
        ("kinds", 2, {"attention_biases": 4}, "kind2.attention_biases: there is no matrix"),
        ("decoder", None, {"per_layer_width": 0}, "decoder.per_layer_norm: there are no"),
        ("decoder", None, {"per_layer_norm_eps": -1.0}, "decoder.per_layer_norm_eps: is negative"),
    ],
)
def test_a_descriptor_that_is_refused(scope: str, index: Any, fields: dict, line: str) -> None:
    d = copy.deepcopy(PhasorFile(GOLDEN).descriptor)
    (d[scope] if index is None else d[scope][index]).update(fields)
    if not line:
        D.check(d)
        return
    with pytest.raises(PhasorError) as error:
        D.check(d)
    assert line in str(error.value)


def test_the_table_alone_tells_tokens_apart() -> None:
    """With equal embeddings, tokens differ by their rows of the table."""
    model = Reference(PhasorFile(GOLDEN))
    embedding = model.need(R.TARGET, 0, R.EMBEDDING)
    embedding[7] = embedding[8]
    table = model.need(R.TARGET, 0, R.PER_LAYER)
    rows = [model.output(model.decode([id_])) for id_ in (7, 8)]
    assert np.abs(rows[0] - rows[1]).max() > 1e-3
    table[7] = table[8]
    rows = [model.output(model.decode([id_])) for id_ in (7, 8)]
    np.testing.assert_array_equal(rows[0], rows[1])


def test_the_table_stays_in_the_file(phasor: Path, tmp_path: Path) -> None:
    """A token reads one row of it: of a mapped file only pages around such rows become resident."""
    descriptor = make_models.gemma4()
    descriptor["target"].update(vocabulary=32768, end=[])
    descriptor["decoder"]["per_layer_width"] = 128

    def weights(slot: R.Slot) -> np.ndarray:
        count = sum(slot.parts)
        if slot.type == L.F64:
            return 10000.0 ** (-np.arange(count) / count)
        ones = slot.layout == L.VECTOR
        return np.full((count,) if ones else (count, slot.cols), float(ones), np.float32)

    path = tmp_path / "m.phasor"
    with open(path, "wb") as file:
        write_model(file, descriptor, weights, L.Q8)
    words = ["--load", "map", "--json", "-n", "8", "--length", "3", "--reps", "1"]
    said = json.loads(told(phasor, "bench", path, *words, "--context", "64", timeout=120))
    assert path.stat().st_size > 25 << 20
    assert said["rss_bytes"] < path.stat().st_size / 2  # the peak counts the forked parent too


@pytest.mark.parametrize("code", [2, 8], ids=["Q4_0", "Q8_0"])
def test_a_quantized_file_whose_values_are_its_keys(phasor, code, tmp_path):
    """Its blocks are kept, and v has those of k; the numbers are those of the widened file."""
    rng = random.Random(1)
    tensors = checkpoints._gguf_tensors(rng, "gemma4", code)
    data = checkpoints.gguf_bytes(rng, checkpoints._metadata("gemma4"), tensors, False)
    (tmp_path / "m.gguf").write_bytes(data)
    words = (tmp_path / "m.gguf", tmp_path / "kept", "--tokenizer", "none")
    kept = PhasorFile(convert_to(*words))
    wide = PhasorFile(convert_to(words[0], tmp_path / "wide", *words[2:], "--type", "f32"))
    key = R.key_of(R.DECODER, 1, R.QKV)
    assert kept.entries[key].type == (L.Q4 if code == 2 else L.Q8)
    q, k, v = np.split(kept.weights(key), np.cumsum(kept.slots[key].parts)[:2])
    assert q.shape == (64, 32) and np.array_equal(k, v) and not np.array_equal(q[:32], k)
    for slot in kept.slots.values():
        assert np.array_equal(kept.weights(slot.key), wide.weights(slot.key)), slot.name
    told(phasor, "verify", tmp_path / "kept", timeout=60)
