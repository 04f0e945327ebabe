"""The converter and the float64 reference against PyTorch: three presets, odd sizes, both norm
places, padding, tied and own output."""

import argparse

import numpy as np
import pytest
import torch

from conversions import convert_to
from phasor.format.file import PhasorFile
from phasor.reference import torch_models
from phasor.reference.forward import Reference
from phasor.sources.state_dict.presets import FILES
from presets import Config, make_module, write_checkpoint

CONFIGS = [
    Config("torch-transformer"),
    Config(
        "torch-transformer",
        width=48,
        heads=1,
        hidden=37,
        layers=(3, 1),
        place="before",
        output="target-embedding",
    ),
    Config(
        "torch-transformer",
        width=36,
        heads=3,
        hidden=20,
        layers=(1, 2),
        position="learned",
        biases=False,
        place="before",
    ),
    Config("torch-transformer", final=False, position="sinusoidal-halves", activation="gelu"),
    Config("torch-transformer", width=33, heads=3, hidden=17, position="learned", layers=(1, 1)),
    Config("separate", position="learned"),
    Config(
        "separate",
        width=60,
        heads=3,
        hidden=75,
        layers=(3, 3),
        position="learned",
        score="sqrt_heads",
        vocabularies=(50, 50),
    ),
    Config(
        "separate",
        width=20,
        heads=1,
        hidden=31,
        place="before",
        layers=(1, 3),
        position="sinusoidal",
        output="target-embedding",
    ),
    Config("bias-free", width=100, heads=5, hidden=64),
    Config("bias-free", width=100, heads=5, hidden=64, place="before", layers=(1, 1)),
    Config("bias-free", width=24, heads=1, hidden=15, layers=(3, 2), vocabularies=(17, 16)),
]


BOUND = 1e-10


def to_float64(module: torch.nn.Module, d: dict) -> torch.nn.Module:
    """The module in double, with the scales and the epsilon that the file has: f32, so 2⁻²⁵ from
    those of the module."""
    module = module.double()
    module.d = d
    for part in module.modules():
        if isinstance(part, torch.nn.LayerNorm):
            part.eps = d["kinds"][0]["norm_eps"]
        elif isinstance(part, torch_models.Attention):
            part.scale = d["kinds"][0]["scale"]
        elif isinstance(
            part, torch.nn.MultiheadAttention
        ):  # divides by √w itself: what is left is put on q
            ratio = d["kinds"][0]["scale"] * np.sqrt(part.head_dim)
            with torch.no_grad():
                part.in_proj_weight[: part.embed_dim] *= ratio
                if part.in_proj_bias is not None:
                    part.in_proj_bias[: part.embed_dim] *= ratio
    return module


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda c: c.name)
def converted(request, tmp_path_factory):
    """(config, module in float64, reference)"""
    folder = tmp_path_factory.mktemp("model")
    module, path = write_checkpoint(request.param, folder)
    output = folder / "model.phasor"
    convert_to(path, output)
    file = PhasorFile(output)
    file.check()
    reference = Reference(file)
    return request.param, to_float64(module, reference.d), reference


def test_descriptor_is_what_was_built(converted):
    config, _, reference = converted
    ours, expected = reference.d, config.descriptor()
    for scope in ("source", "target", "encoder", "decoder", "output"):
        assert {k: v for k, v in ours[scope].items() if not isinstance(v, float)} == {
            k: v for k, v in expected[scope].items() if not isinstance(v, float)
        }
    for mine, theirs in zip(ours["kinds"], expected["kinds"], strict=True):
        assert mine["scale"] == pytest.approx(theirs["scale"], rel=1e-7)
        assert {k: v for k, v in mine.items() if not isinstance(v, float)} == {
            k: v for k, v in theirs.items() if not isinstance(v, float)
        }


@pytest.mark.parametrize("lengths", [(1, 1), (7, 5), (40, 40)], ids=str)
def test_every_layer_and_the_logits(converted, lengths):
    config, module, reference = converted
    rng = np.random.default_rng(3)
    source = rng.integers(0, config.vocabularies[0], lengths[0])
    target = rng.integers(0, config.vocabularies[1], lengths[1])
    with torch.no_grad():
        logits = module(torch.from_numpy(source)[None], torch.from_numpy(target)[None])[0].numpy()
    encoded = reference.encode(source)
    decoded = reference.decode(target, encoded.output)
    for name, trace in (("encoder", encoded), ("decoder", decoded)):
        assert len(trace.residuals) == len(module.seen[name])
        for ours, theirs in zip(trace.residuals, module.seen[name]):
            assert relative(ours, theirs[0].numpy()) < BOUND
    assert relative(decoded.logits, logits) < BOUND


def test_padding_in_the_batch_changes_nothing(converted):
    config, module, reference = converted
    rng = np.random.default_rng(4)
    lengths = [3, 11, 1]
    source = np.zeros((3, 11), dtype=np.int64)
    for row, n in enumerate(lengths):
        source[row, :n] = rng.integers(1, config.vocabularies[0], n)
    target = rng.integers(0, config.vocabularies[1], (3, 6))
    with torch.no_grad():
        logits = module(
            torch.from_numpy(source), torch.from_numpy(target), torch.tensor(lengths)
        ).numpy()
    for row, n in enumerate(lengths):
        ours = reference.decode(target[row], reference.encode(source[row, :n]).output).logits
        assert relative(ours, logits[row]) < BOUND


def test_greedy_is_the_plain_loop(converted):
    config, module, reference = converted
    rng = np.random.default_rng(5)
    for n in (1, 4, 9):
        source = rng.integers(0, config.vocabularies[0], n).tolist()
        assert reference.greedy(source, 12) == module.greedy(source, 12)


def test_modules_have_no_parameter_at_its_default():
    for config in CONFIGS:
        for name, parameter in make_module(config).named_parameters():
            assert parameter.abs().max() > 0 and not torch.equal(
                parameter, torch.ones_like(parameter)
            ), name


# ---- fairseq: its models as transformers has them, in files as its trainer writes them

FAIRSEQ = {
    "arch": "transformer_wmt_en_de", "activation_fn": "relu", "layernorm_embedding": False,
    "encoder_attention_heads": 3, "decoder_attention_heads": 2, "max_source_positions": 40,
    "max_target_positions": 40, "encoder_normalize_before": False,
    "decoder_normalize_before": False, "no_decoder_final_norm": False,
    "encoder_learned_pos": False, "decoder_learned_pos": False, "no_scale_embedding": False,
    "no_token_positional_embeddings": False, "share_decoder_input_output_embed": False,
    "share_all_embeddings": False, "adaptive_input": False, "adaptive_softmax_cutoff": None,
    "cross_self_attention": False, "no_cross_attention": False,
}  # fmt: skip
FIRST = {"encoder_normalize_before": True, "decoder_normalize_before": True}
TIED = {"share_all_embeddings": True, "share_decoder_input_output_embed": True}
LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True}
# The class of transformers, its configuration beside SIZES, and the arguments beside FAIRSEQ.
SIZES = {
    "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 36, "dropout": 0.0,
    "max_position_embeddings": 40,
}  # fmt: skip
PORTS = {
    "FSMT": (
        {"langs": ["en", "de"], "src_vocab_size": 31, "tgt_vocab_size": 29,
         "activation_function": "relu", "scale_embedding": True, "tie_word_embeddings": False},
        {},
    ),
    "M2M100": ({"vocab_size": 31, "activation_function": "relu"}, {**FIRST, **TIED}),
    "MBart": (
        {"vocab_size": 31, "activation_function": "gelu"},
        {**FIRST, **TIED, **LEARNED, "no_scale_embedding": True, "layernorm_embedding": True,
         "activation_fn": "gelu"},
    ),
}  # fmt: skip


def of_fairseq(name: str, folder):
    """(checkpoint, inputs with outputs) of a drawn model."""
    transformers = pytest.importorskip("transformers")
    own, arguments = PORTS[name]
    model_class = getattr(transformers, f"{name}ForConditionalGeneration")
    model = model_class(getattr(transformers, f"{name}Config")(**SIZES, **own)).eval()
    ids, target = torch.randint(4, 29, (3, 9)), torch.randint(4, 29, (3, 7))
    learned = arguments.get("encoder_learned_pos")
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if learned or "embed_positions" not in key:
                value = torch.randn_like(parameter) * 0.3
                parameter.copy_(value + (value.dim() == 1))
        given = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        logits = model(**given, decoder_input_ids=target).logits
    tensors = {
        key.removeprefix("model."): value
        for key, value in model.state_dict().items()
        if key.startswith(("model.encoder.", "model.decoder."))
        and (learned or "embed_positions" not in key)
    }
    tensors.setdefault("decoder.output_projection.weight", tensors["decoder.embed_tokens.weight"])
    for stack in ("encoder", "decoder"):
        tensors[f"{stack}.version"] = torch.tensor([3.0])
        if not learned:
            tensors[f"{stack}.embed_positions._float_tensor"] = torch.zeros(1)
    kept = argparse.Namespace(**{**FAIRSEQ, **arguments})
    content = {"args": kept, "model": tensors, "extra_state": {"epoch": 3}}
    if name != "FSMT":  # as since version 0.10
        content |= {"args": None, "cfg": {"common": {"seed": 1}, "model": kept}}
        content["last_optimizer_state"] = {"state": torch.zeros(2)}
    torch.save(content, folder / "checkpoint_best.pt")
    np.savez(folder / "e.npz", ids=ids, target=target, logits=logits)
    return folder / "checkpoint_best.pt", folder / "e.npz"


@pytest.mark.parametrize("name", PORTS)
def test_fairseq_by_its_arguments(name, tmp_path):
    """Nothing is said but the preset; a copy of its file is the same description."""
    torch.manual_seed(2)
    path, expect = of_fairseq(name, tmp_path)
    made = convert_to(path, tmp_path / "a.phasor", "--preset", "fairseq", "--expect", expect)
    copied = ("--describe", FILES["fairseq"], "--expect", expect)
    again = convert_to(path, tmp_path / "b.phasor", *copied)
    assert PhasorFile(made).descriptor == PhasorFile(again).descriptor
