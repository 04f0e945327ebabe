"""Every position encoding and score in every stack, of random models of odd sizes: the float64
reference and phasor against the papers' formulas in PyTorch (tests/support/formulas.py); and BERT's
relative keys, T5's buckets and rotary positions against transformers."""

import math

import numpy as np
import pytest
import torch

from formulas import Formulas, distance, program_hidden, rotation, sinusoid
from phasor import positions
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.layout import VECTOR
from phasor.reference import functions
from phasor.reference.forward import Reference
from random_models import write_random

LONGEST = 35  # more than two pages of 16 keys
DOUBLE, SINGLE = 1e-12, 1e-5
TABLE = {"max_distance": LONGEST}
ENCODINGS = {
    "none": {},
    "relative_key": {"position": D.RELATIVE_KEY, **TABLE},
    "relative_key_query": {"position": D.RELATIVE_KEY_QUERY, **TABLE},
    "three-way": {"position": D.THREE_WAY, **TABLE},
    "disentangled": {"position": D.DISENTANGLED, **TABLE},
    "clipped": {"position": D.CLIPPED, "max_distance": 5},
    "clipped at 1": {"position": D.CLIPPED, "max_distance": 1},
    "clipped, never": {"position": D.CLIPPED, "max_distance": 50},
    "T5": {"position": D.T5_BIAS, "max_distance": 11},
    "ALiBi": {"position": D.ALIBI},
    "rotary": {"position": D.ROTARY_INTERLEAVED, "rotary_width": 8},
    "rotary, in part": {"position": D.ROTARY_INTERLEAVED, "rotary_width": 2},
    "rotary halves": {"position": D.ROTARY_HALVES, "rotary_width": 8, "rotary_factor": 1.3},
    "rotary halves, in part": {"position": D.ROTARY_HALVES, "rotary_width": 6},
    "additive": {"score": D.ADDITIVE},
    "additive T5": {"score": D.ADDITIVE, "position": D.T5_BIAS, "max_distance": 11},
    "additive ALiBi": {"score": D.ADDITIVE, "position": D.ALIBI},
}
MORE = {"plain": {}, "windows": {"window": 7, "kv_heads": 1, "cap": 3.0}}
INPUTS = {
    0: {},
    D.LEARNED: {"max_positions": LONGEST},
    D.INTERLEAVED: {},
    D.HALVES: {"embedding_width": 18, "projection_bias": 1},
}


def descriptor_of(stack: str, added: int = 0, **kind) -> dict:
    """Positions `added` to the input; two layers of width 37, three heads of 9, a vocabulary of
    41."""
    block = {
        "norm": D.LAYER_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 1e-5,
        "heads": 3,
        "head_width": 9,
        "scale": 0.3,
        "hidden": 29,
        "activation": D.GELU_ERF,
        "attention_biases": D.ATTENTION_BIASES,
        **kind,
    }
    width = 38 if added == D.INTERLEAVED else 37
    one = {
        "width": width,
        "layers": [0, 0, 0, 1],
        "position": added,
        "final_norm": D.LAYER_NORM,
        "final_norm_eps": 1e-5,
        **INPUTS[added],
    }
    out = {
        "model": {
            "stack": {"encoder": D.ENCODER, "decoder": D.DECODER, "both": D.ENCODER_DECODER}[stack]
        },
        "kinds": [block],
        "output": {"output": D.HIDDEN if stack == "encoder" else D.LOGITS},
    }
    if stack != "decoder":
        out.update(source={"vocabulary": 41}, encoder=one)
    if stack == "both":
        out["kinds"].append(
            {
                **block,
                "cross": 1,
                "cross_score": block.get("score", 0),
                "cross_heads": 2,
                "cross_kv_heads": 2,
                "cross_head_width": 11,
            }
        )
    if stack != "encoder":
        out.update(
            target={"vocabulary": 41, "start": 2, "decoder_start": 2},
            decoder={**one, "layers": [1, 0, 1, 1] if stack == "both" else one["layers"]},
        )
    return out


def weights_of(slot: R.Slot) -> np.ndarray:
    """Random, with frequencies of another base; vectors of a norm near one, other vectors and
    matrices near zero."""
    rng, rows = np.random.default_rng(slot.key + 1), sum(slot.parts)
    if slot.type != 1:
        return 500.0 ** (-np.arange(rows) / rows)
    if slot.layout == VECTOR:
        return rng.normal(size=rows) * 0.3 + ("norm" in slot.name and "weight" in slot.name)
    return rng.normal(size=(rows, slot.cols)) * (
        0.7 if slot.role in (R.RELATIVE_KEYS, R.RELATIVE_VALUES) else 1.3 / math.sqrt(slot.cols)
    )


def ids_of(count: int, seed: int) -> list[int]:
    return [2, *np.random.default_rng(100 * count + seed).integers(0, 41, count).tolist()][:count]


def compare(tmp_path, phasor, stack: str, descriptor: dict) -> None:
    file = write_random(tmp_path / "m.phasor", descriptor, weights=weights_of)
    theirs, ours = Formulas(file), Reference(file)
    for count in (1, 2, LONGEST):
        source, target = (
            ids_of(count, 0),
            ids_of(count if stack == "decoder" else max(1, count - 3), 1),
        )
        memory = None if stack == "decoder" else theirs.stack("encoder", source)
        own = None if stack == "decoder" else ours.encode(source).output
        want = memory if stack == "encoder" else theirs.stack("decoder", target, memory)
        got = own if stack == "encoder" else ours.decode(target, own).output
        assert distance(got, want) <= DOUBLE
        assert distance(program_hidden(phasor, file.path, stack, source, target), want) <= SINGLE, (
            f"phasor, {count} tokens"
        )


@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize("stack", ["encoder", "decoder", "both"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_attention_of_the_papers(tmp_path, phasor, name, stack, more):
    compare(tmp_path, phasor, stack, descriptor_of(stack, **ENCODINGS[name], **MORE[more]))


@pytest.mark.parametrize("stack", ["encoder", "decoder", "both"])
@pytest.mark.parametrize("added", INPUTS)
def test_positions_of_the_input(tmp_path, phasor, added, stack):
    compare(tmp_path, phasor, stack, descriptor_of(stack, added))


@pytest.mark.parametrize("halves", [False, True])
def test_tables_of_sinusoids(halves):
    inv_freq = positions.inverse_frequencies(22)
    want = sinusoid(torch.from_numpy(inv_freq), 50, halves).numpy()
    assert (
        np.abs(
            functions.sinusoid(inv_freq, np.arange(50), D.HALVES if halves else D.INTERLEAVED)
            - want
        ).max()
        <= 1e-15
    )
    assert want[7, 3] == pytest.approx(
        math.sin(7 * 10000 ** (-6 / 22)) if halves else math.cos(7 * 10000 ** (-2 / 22))
    )


@pytest.mark.parametrize("halves", [False, True])
def test_rotary_as_complex_numbers(halves):
    """Su et al. 2021, equation 12: each pair is a complex number that is multiplied by
    e^(i·m·θ)."""
    rng, inv_freq, count = np.random.default_rng(4), positions.inverse_frequencies(10), 21
    x = rng.normal(size=(count, 3, 13))
    first, second = (slice(0, 5), slice(5, 10)) if halves else (slice(0, 10, 2), slice(1, 10, 2))
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(
        1j * np.arange(count)[:, None, None] * inv_freq
    )
    want = x.copy()
    want[..., first], want[..., second] = turned.real, turned.imag
    assert np.abs(functions.rotate(x, inv_freq, np.arange(count), halves) - want).max() <= 1e-14
    matrix = torch.stack(
        [rotation(torch.from_numpy(inv_freq), m, 13, halves) for m in range(count)]
    ).numpy()
    assert np.abs(np.einsum("tvw,thw->thv", matrix, x) - want).max() <= 1e-14


# ---- transformers


def bert_weights(model, slot: R.Slot) -> np.ndarray:
    """The tensor of a transformers BertModel for a slot."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    if slot.stack == R.SOURCE:
        name = {
            R.EMBEDDING: "word_embeddings.weight",
            R.POSITIONS: "position_embeddings.weight",
            R.SEGMENTS: "token_type_embeddings.weight",
            R.EMBEDDING_NORM: "LayerNorm.weight",
            R.EMBEDDING_NORM + 1: "LayerNorm.bias",
        }[slot.role]
        return state[f"embeddings.{name}"]
    layer = f"encoder.layer.{slot.set}."
    if slot.role == R.RELATIVE_KEYS:  # BERT's row is i − j + M − 1, ours j − i + M − 1
        return state[layer + "attention.self.distance_embedding.weight"][::-1].T
    part = "bias" if slot.role & 1 else "weight"
    if slot.role & ~1 == R.QKV:
        return np.concatenate(
            [state[f"{layer}attention.self.{name}.{part}"] for name in ("query", "key", "value")]
        )
    name = {
        R.ATTENTION_OUT: "attention.output.dense",
        R.ATTENTION_AFTER: "attention.output.LayerNorm",
        R.FFN_IN: "intermediate.dense",
        R.FFN_OUT: "output.dense",
        R.FFN_AFTER: "output.LayerNorm",
    }[slot.role & ~1]
    return state[f"{layer}{name}.{part}"]


def bert_descriptor(config, output: dict) -> dict:
    position = {
        "absolute": 0,
        "relative_key": D.RELATIVE_KEY,
        "relative_key_query": D.RELATIVE_KEY_QUERY,
    }[config.position_embedding_type]
    most, head = config.max_position_embeddings, config.hidden_size // config.num_attention_heads
    kind = {
        "norm": D.LAYER_NORM,
        "norm_place": D.AFTER,
        "norm_eps": config.layer_norm_eps,
        "heads": config.num_attention_heads,
        "head_width": head,
        "scale": head**-0.5,
        "hidden": config.intermediate_size,
        "activation": D.GELU_ERF,
        "attention_biases": D.ATTENTION_BIASES,
        "ffn_biases": D.FFN_BIASES,
        "position": position,
        "max_distance": most if position else 0,
    }
    stack = {
        "width": config.hidden_size,
        "layers": [n for i in range(config.num_hidden_layers) for n in (0, i)],
        "max_positions": most,
        "segments": 2,
        "position": 0 if position else D.LEARNED,
        "embedding_norm": D.LAYER_NORM,
        "embedding_norm_eps": config.layer_norm_eps,
    }
    return {
        "model": {"stack": D.ENCODER},
        "source": {"vocabulary": config.vocab_size, "mask": 4},
        "encoder": stack,
        "kinds": [kind],
        "output": output,
    }


@pytest.mark.parametrize("position", ["absolute", "relative_key", "relative_key_query"])
def test_transformers_bert(tmp_path, phasor, position):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.BertConfig(
        vocab_size=41,
        hidden_size=35,
        num_hidden_layers=2,
        num_attention_heads=5,
        intermediate_size=43,
        hidden_act="gelu",
        max_position_embeddings=LONGEST,
        position_embedding_type=position,
        layer_norm_eps=2.0**-16,
    )
    config._attn_implementation = "eager"
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    file = write_random(
        tmp_path / "m.phasor",
        bert_descriptor(config, {"output": D.HIDDEN}),
        weights=lambda slot: bert_weights(model, slot),
    )
    ours, model = Reference(file), model.double()
    for count in (1, 2, LONGEST):
        ids, segments = ids_of(count, 0), [int(i >= count // 2) for i in range(count)]
        with torch.no_grad():
            want = model(
                torch.tensor([ids]), token_type_ids=torch.tensor([segments])
            ).last_hidden_state[0]
        assert (
            distance(ours.encode(ids, segments).output, want) <= 1e-7
        )  # 7^-1/2 is f32 in the file
        got = program_hidden(
            phasor, file.path, "encoder", ids, [], "--segments", ",".join(map(str, segments))
        )
        assert distance(got, want) <= SINGLE


def bucket(distance: int, buckets: int, most: int, two_sided: bool) -> int:
    """Raffel et al. 2020, section 2.1, in whole words: half of the buckets are single distances,
    the others grow as the logarithm up to `most`."""
    if two_sided:
        buckets //= 2
        return bucket(-abs(distance), buckets, most, False) + (buckets if distance > 0 else 0)
    exact, away = buckets // 2, max(-distance, 0)
    if away < exact:
        return away
    return min(
        exact + int(math.log(away / exact) / math.log(most / exact) * (buckets - exact)),
        buckets - 1,
    )


def t5_weights(model, slot: R.Slot) -> np.ndarray:
    """The tensor of a transformers T5 model for a slot."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    config = model.config
    if slot.stack == R.KINDS:
        name, most = ("encoder", "decoder")[slot.set], config.relative_attention_max_distance
        table = state[f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        return table[
            [
                bucket(d, config.relative_attention_num_buckets, most, slot.set == 0)
                for d in range(-most, most + 1)
            ]
        ].T
    if slot.stack == R.SOURCE:
        return state["shared.weight"]
    name = "encoder" if slot.stack == R.ENCODER else "decoder"
    if slot.set == R.FINAL:
        return state[f"{name}.final_layer_norm.weight"]
    layer, last = f"{name}.block.{slot.set}.layer.", "1" if slot.stack == R.ENCODER else "2"
    parts = {
        R.QKV: ["0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v"],
        R.ATTENTION_OUT: ["0.SelfAttention.o"],
        R.ATTENTION_BEFORE: ["0.layer_norm"],
        R.CROSS_BEFORE: ["1.layer_norm"],
        R.CROSS_Q: ["1.EncDecAttention.q"],
        R.CROSS_KV: ["1.EncDecAttention.k", "1.EncDecAttention.v"],
        R.CROSS_OUT: ["1.EncDecAttention.o"],
        R.FFN_BEFORE: [f"{last}.layer_norm"],
        R.FFN_IN: [f"{last}.DenseReluDense.wi_0", f"{last}.DenseReluDense.wi_1"],
        R.FFN_OUT: [f"{last}.DenseReluDense.wo"],
    }[slot.role]
    return np.concatenate([state[f"{layer}{part}.weight"] for part in parts])


def test_transformers_t5(tmp_path, phasor):
    """Buckets two-sided in the encoder and one-sided in the decoder; scores without a scale; a tied
    output that is scaled."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.T5Config(
        vocab_size=41,
        d_model=36,
        d_kv=7,
        d_ff=29,
        num_layers=2,
        num_heads=3,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=20,
        feed_forward_proj="gated-gelu",
        decoder_start_token_id=2,
        pad_token_id=2,
        layer_norm_epsilon=2.0**-16,
        tie_word_embeddings=True,
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(
                torch.randn_like(parameter)
                * (
                    0.3
                    if "layer_norm" in name
                    else 1.0
                    if "relative" in name or "shared" in name
                    else 0.2
                )
                + ("layer_norm" in name)
            )
    block = {
        "norm": D.RMS_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 2.0**-16,
        "heads": 3,
        "head_width": 7,
        "scale": 1.0,
        "hidden": 29,
        "gated": 1,
        "activation": D.GELU_TANH,
        "position": D.T5_BIAS,
        "max_distance": 20,
    }
    final = {"width": 36, "final_norm": D.RMS_NORM, "final_norm_eps": 2.0**-16}
    descriptor = {
        "model": {"stack": D.ENCODER_DECODER},
        "source": {"vocabulary": 41},
        "target": {"vocabulary": 41, "decoder_start": 2, "embedding_shared": 1},
        "encoder": {**final, "layers": [0, 0, 0, 1]},
        "decoder": {**final, "layers": [1, 0, 1, 1]},
        "kinds": [block, {**block, "cross": 1}],
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET, "scale": 36**-0.5},
    }
    file = write_random(
        tmp_path / "m.phasor", descriptor, weights=lambda slot: t5_weights(model, slot)
    )
    ours, model = Reference(file), model.double()
    for count in (1, 2, 60):
        source, target = ids_of(count, 0), ids_of(max(1, count - 7), 1)
        with torch.no_grad():
            out = model(
                input_ids=torch.tensor([source]),
                attention_mask=torch.ones(1, count),
                decoder_input_ids=torch.tensor([target]),
                output_hidden_states=True,
            )
        memory = ours.encode(source).output
        decoded = ours.decode(target, memory)
        for got, want in (
            (memory, out.encoder_last_hidden_state),
            (decoded.output, out.decoder_hidden_states[-1]),
            (decoded.logits, out.logits),
        ):
            assert (
                distance(got, want[0]) <= SINGLE
            )  # its norms and softmax are float32 whatever the model is
        assert (
            distance(
                program_hidden(phasor, file.path, "both", source, target),
                out.decoder_hidden_states[-1][0],
            )
            <= SINGLE
        )
