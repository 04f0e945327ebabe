"""Every position encoding in every stack: random PyTorch modules through the description and the
converter, against the float64 reference; and the buckets and slopes against published code."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from conversions import convert_to
from phasor import positions, verify
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.reference import torch_models
from phasor.reference import torch_positions as P
from phasor.reference.forward import Reference

WIDTH, HEADS, HEAD, VOCABULARY, LONGEST = 36, 3, 12, 41, 20
STACKS = {"encoder": D.ENCODER, "decoder": D.DECODER, "encoder-decoder": D.ENCODER_DECODER}
TABLE = {"max_distance": LONGEST}
ENCODINGS = {  # name: (fields of the kinds, position of the stacks, lines of the description)
    "none": ({}, 0, ""),
    "relative_key": (
        {"position": D.RELATIVE_KEY, **TABLE},
        0,
        'attention_position = "relative_key"',
    ),
    "relative_key_query": (
        {"position": D.RELATIVE_KEY_QUERY, **TABLE},
        D.LEARNED,
        'attention_position = "relative_key_query"',
    ),
    "three-way": ({"position": D.THREE_WAY, **TABLE}, 0, 'attention_position = "three-way"'),
    "clipped": ({"position": D.CLIPPED, "max_distance": 4}, 0, 'attention_position = "clipped"'),
    "t5": (
        {"position": D.T5_BIAS, "max_distance": 15},
        0,
        'attention_position = "t5"\nmax_distance = 15\nscore_scale = 1',
    ),
    "alibi": ({"position": D.ALIBI}, 0, 'attention_position = "alibi"'),
    "rotary": (
        {"position": D.ROTARY_INTERLEAVED, "rotary_width": HEAD},
        0,
        'attention_position = "rotary"',
    ),
    "rotary-halves": (
        {"position": D.ROTARY_HALVES, "rotary_width": 8},
        0,
        'attention_position = "rotary-halves"\nrotary_width = 8',
    ),
    "additive": (
        {"score": 1, "cross_score": 1},
        D.INTERLEAVED,
        'score = "additive"\ncross_score = "additive"',
    ),
    "additive-t5": (
        {"score": 1, "position": D.T5_BIAS, "max_distance": 15},
        D.HALVES,
        'score = "additive"\nattention_position = "t5"\nmax_distance = 15\ncross_score_scale = '
        '"sqrt_head_width"',
    ),
    "cross-additive": (
        {"cross_score": 1, "position": D.ALIBI},
        D.LEARNED,
        'attention_position = "alibi"\ncross_score = "additive"',
    ),
}
NAMES = {
    0: "none",
    D.LEARNED: "learned",
    D.INTERLEAVED: "sinusoidal",
    D.HALVES: "sinusoidal-halves",
}


def descriptor_of(name: str, stack: str) -> dict:
    """The descriptor of a random model, with defaults."""
    fields, position, toml = ENCODINGS[name]
    scale = (
        1.0
        if fields.get("score") or "score_scale = 1" in toml.splitlines()
        else 1 / math.sqrt(HEAD)
    )
    block = {
        "norm": D.LAYER_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 1e-5,
        "heads": HEADS,
        "head_width": HEAD,
        "scale": scale,
        "hidden": 29,
        "activation": D.GELU_ERF,
        "attention_biases": D.ATTENTION_BIASES,
        "ffn_biases": D.FFN_BIASES,
        **fields,
    }
    cross_scale = (
        1.0
        if fields.get("cross_score") or (scale == 1 and not fields.get("score"))
        else 1 / math.sqrt(HEAD)
    )
    out: dict = {"model": {"stack": STACKS[stack]}, "kinds": []}
    for part, side in (("encoder", "source"), ("decoder", "target")):
        if part in stack.split("-"):
            own = {k: v for k, v in block.items() if not k.startswith("cross")}
            if stack == "encoder-decoder" and part == "decoder":
                own.update(
                    cross=1,
                    cross_biases=D.ATTENTION_BIASES,
                    cross_scale=cross_scale,
                    cross_score=fields.get("cross_score", 0),
                )
            out[side] = {"vocabulary": VOCABULARY, "start": 2, "end": [3]}
            out[part] = {
                "width": WIDTH,
                "layers": [n for i in range(2) for n in (len(out["kinds"]), i)],
                "position": position,
                "embedding_scale": 6.0,
                "max_positions": LONGEST if position == D.LEARNED else 0,
                "final_norm": D.LAYER_NORM,
                "final_norm_eps": 1e-5,
            }
            out["kinds"].append(own)
    if stack == "encoder-decoder":
        out["target"]["decoder_start"] = 2
    out["output"] = (
        {"output": D.HIDDEN} if stack == "encoder" else {"output": D.LOGITS, "tied": D.TIED_TARGET}
    )
    return D.with_defaults(out)


def toml_of(name: str, stack: str) -> str:
    """What the description must say of it."""
    _, position, more = ENCODINGS[name]
    scale = (
        ""
        if "score_scale = 1" in more.splitlines() or 'score = "additive"' in more.splitlines()
        else 'score_scale = "sqrt_head_width"\n'
    )
    if stack != "encoder-decoder":
        more = "\n".join(line for line in more.splitlines() if not line.startswith("cross"))
    output = "" if stack == "encoder" else 'output = "target-embedding"\n'
    sides = "".join(
        f"[{side}]\nstart = 2\nend = [3]\n"
        for side, part in (("source", "encoder"), ("target", "decoder"))
        if part in stack.split("-")
    )
    return (
        f'preset = "separate"\nstack = "{stack}"\nheads = {HEADS}\nnorm_place = '
        f'"before"\nfinal_norm = true\nactivation = "gelu"\n{scale}'
        f'position = "{NAMES[position]}"\nembedding_scale = "sqrt_width"\n{output}{more}\n{sides}'
    )


def random_module(descriptor: dict) -> torch_models.Base:
    """Its PyTorch module; no weight at its default."""
    module = torch_models.build(descriptor, "separate", 8)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            wide = ".position." in name or ".score." in name
            parameter.copy_(
                noise
                * (1.0 if wide else parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.2)
                + (name.endswith("norm.weight"))
            )
    return module


def to_float64(module: torch_models.Base, reference: Reference) -> torch_models.Base:
    """In double, with the constants that the file rounds to f32 as the file has them."""
    module = module.double()
    module.d = reference.d
    for stack in ("encoder", "decoder"):
        if stack not in reference.d:
            continue
        index = reference.d[stack]["layers"][0]
        kind = reference.d["kinds"][index]
        for name, part in getattr(module, stack).named_modules():
            if isinstance(part, torch.nn.LayerNorm):
                part.eps = kind["norm_eps"]
            elif isinstance(part, torch_models.Attention):
                part.scale = kind["cross_scale" if "encoder_attention" in name else "scale"]
            elif isinstance(part, P.Alibi):
                part.slopes = torch.from_numpy(
                    reference.file.weights(R.KINDS << 24 | index << 8 | R.ALIBI).astype(np.float64)
                )
    return module


def compare(module: torch_models.Base, reference: Reference, stack: str, count: int) -> float:
    """The largest difference of the output, as a share of its largest value."""
    rng = np.random.default_rng(count)
    source, target = (
        rng.integers(0, VOCABULARY, count),
        rng.integers(0, VOCABULARY, max(1, count - 2)),
    )
    ids = [
        torch.from_numpy(x)[None] if part in stack.split("-") else None
        for x, part in ((source, "encoder"), (target, "decoder"))
    ]
    with torch.no_grad():
        want = module(*ids)[0].numpy()
    memory = reference.encode(source).output if ids[0] is not None else None
    got = memory if ids[1] is None else reference.decode(target, memory).logits
    return float(np.abs(got - want).max() / np.abs(want).max())


def converted(
    name: str, stack: str, folder, change=lambda state: None, more: str = ""
) -> tuple[torch_models.Base, Reference]:
    descriptor = descriptor_of(name, stack)
    module = random_module(descriptor)
    state = module.state_dict()
    change(state)
    torch.save(state, folder / "m.pt")
    (folder / "m.toml").write_text(more + toml_of(name, stack))
    convert_to(folder / "m.pt", folder / "m.phasor")
    file = PhasorFile(folder / "m.phasor")
    file.check()
    return module, Reference(file)


@pytest.mark.parametrize("name,stack", list(product(ENCODINGS, STACKS)))
def test_every_encoding_in_every_stack(name, stack, tmp_path):
    module, reference = converted(name, stack, tmp_path)
    wanted = descriptor_of(name, stack)
    for ours, theirs in zip(reference.d["kinds"], wanted["kinds"], strict=True):
        assert {k: v for k, v in ours.items() if not isinstance(v, float)} == {
            k: v for k, v in theirs.items() if not isinstance(v, float)
        }
        assert {k: v for k, v in ours.items() if isinstance(v, float)} == pytest.approx(
            {k: v for k, v in theirs.items() if isinstance(v, float)}, rel=1e-6
        )
    module = to_float64(module, reference)
    for count in (1, 5, LONGEST):
        assert compare(module, reference, stack, count) < 1e-10


@pytest.mark.parametrize("name", ["relative_key", "relative_key_query", "three-way", "clipped"])
def test_tables_in_the_order_of_bert(name, tmp_path):
    """Row query − key + M − 1, as BERT's distance_embedding: the same model."""

    def flip(state: dict) -> None:
        for key in state:
            if ".position." in key:
                state[key] = state[key].flip(0)

    module, reference = converted(name, "encoder", tmp_path, flip, 'relative_order = "query-key"\n')
    assert compare(to_float64(module, reference), reference, "encoder", 17) < 1e-10


def test_clipped_keys_without_values(tmp_path):
    def drop(state: dict) -> None:
        for key in [key for key in state if ".position.values" in key]:
            state[key].zero_()  # the module's, too
            del state[key]

    module, reference = converted("clipped", "decoder", tmp_path, drop, "relative_values = false\n")
    assert compare(to_float64(module, reference), reference, "decoder", 17) < 1e-10


def test_layers_with_their_own_bias_are_kinds_of_their_own(tmp_path):
    def change(state: dict) -> None:
        state["decoder.layers.1.self_attention.position.bias.weight"] = (
            state["decoder.layers.1.self_attention.position.bias.weight"] + 1
        )

    _, reference = converted("t5", "decoder", tmp_path, change)
    assert reference.d["decoder"]["layers"] == [0, 0, 1, 1]
    tables = [reference.file.weights(R.KINDS << 24 | i << 8 | R.T5_BIAS) for i in range(2)]
    assert np.allclose(tables[1], tables[0] + 1)


def test_a_bias_that_only_layer_0_has_is_shared(tmp_path):
    module, reference = converted(
        "t5",
        "encoder",
        tmp_path,
        lambda state: state.pop("encoder.layers.1.self_attention.position.bias.weight"),
    )
    assert reference.d["encoder"]["layers"] == [0, 0, 0, 1]
    assert compare(to_float64(module, reference), reference, "encoder", 17) < 1e-10


@pytest.mark.parametrize(
    "name", ["relative_key_query", "clipped", "t5", "rotary-halves", "additive"]
)
def test_verify_compares_with_pytorch(name, tmp_path, capsys):
    converted(name, "encoder-decoder", tmp_path)
    arguments = [str(tmp_path / "m.phasor"), "--checkpoint", str(tmp_path / "m.pt"), "--no-phasor"]
    assert verify.main(arguments) == 0
    (tmp_path / "m.toml").write_text(
        'relative_order = "query-key"\n' + (tmp_path / "m.toml").read_text()
    )
    assert verify.main(arguments) == 1
    own = "relative_order 'query-key': the PyTorch modules here have 'key-query' only"
    idle = "relative_order: the model that is described has no use for it"
    relative = name in ("relative_key_query", "clipped")
    assert (own if relative else idle) in capsys.readouterr().err


def test_verify_is_for_encoder_decoders(tmp_path, capsys):
    converted("alibi", "decoder", tmp_path)
    assert (
        verify.main(
            [str(tmp_path / "m.phasor"), "--checkpoint", str(tmp_path / "m.pt"), "--no-phasor"]
        )
        == 1
    )
    assert "only encoder-decoders are compared here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "buckets,most,two_sided",
    [
        (32, 128, True),
        (32, 128, False),
        (16, 64, False),
        (8, 15, True),
        (64, 300, True),
        (12, 50, False),
        (320, 800, True),
    ],
)
def test_buckets_are_those_of_published_code(buckets, most, two_sided):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = np.arange(-2 * most, 2 * most + 1)
    want = T5Attention._relative_position_bucket(
        torch.from_numpy(distance), two_sided, buckets, most
    ).numpy()
    assert np.array_equal(positions.t5_buckets(distance, buckets, most, two_sided), want)
    assert np.array_equal(
        want, positions.t5_buckets(np.clip(distance, -most, most), buckets, most, two_sided)
    )  # M = max_distance is enough


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 8, 12, 16, 20, 32, 71])
def test_slopes_are_those_of_published_code(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    bias = build_alibi_tensor(
        torch.ones(1, 3, dtype=torch.long), heads, torch.float64
    )  # (heads, 1, 3): slope · position
    assert positions.alibi_slopes(heads) == pytest.approx(bias[:, 0, 1].numpy(), rel=1e-6)
