"""A decoder with cross-attention that is given an encoder's output, `phasor run --embeddings`,
against transformers with `encoder_outputs`, and of a decoder alone with `encoder_hidden_states`:
logits and greedy tokens of small random models."""

from __future__ import annotations

import copy
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput

from phasor import convert
from phasor.errors import PhasorError
from phasor.format.file import PhasorFile
from phasor.format.layout import F32
from phasor.sources.find import read_source
from places import run_newer, told
from texts import ids_text, read_json, write_json

TOLERANCE, NEW, WIDTH, ROWS = 1e-5, 12, 32, 71
_SIZES = {
    f"{stack}_{what}": n
    for stack in ("encoder", "decoder")
    for what, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 37))
}
_BART = {"d_model": WIDTH, "max_position_embeddings": 40, **_SIZES}
CASES = {
    "MarianMTModel": {**_BART, "decoder_start_token_id": 70, "pad_token_id": 70},
    "BartForConditionalGeneration": {**_BART, "decoder_start_token_id": 2},
    "T5ForConditionalGeneration": {
        **{"d_model": WIDTH, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4},
        **{"decoder_start_token_id": 0, "pad_token_id": 0},
    },
    "EncoderDecoderModel": {  # its decoder alone is GPT-2 with add_cross_attention
        "encoder": {
            **{"model_type": "bert", "vocab_size": ROWS, "hidden_size": WIDTH},
            **{"num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 37},
            "max_position_embeddings": 40,
        },
        "decoder": {
            **{"model_type": "gpt2", "vocab_size": ROWS, "n_embd": WIDTH, "n_positions": 40},
            **{"n_layer": 2, "n_head": 4, "n_inner": 37, "bos_token_id": 3, "eos_token_id": 1},
            **{"is_decoder": True, "add_cross_attention": True},
        },
        **{"decoder_start_token_id": 3, "pad_token_id": 0},
    },
}

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()


def drawn(name: str) -> torch.nn.Module:
    kind = getattr(transformers, name)
    more = {"vocab_size": ROWS, "eos_token_id": 1, "forced_eos_token_id": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = kind.config_class(**more, **copy.deepcopy(CASES[name]))
        for half in config.sub_configs:  # sdpa of 4.57 is not what GPT-2 says
            getattr(config, half)._attn_implementation = "eager"
        model = kind(config)
    torch.manual_seed(len(name))
    with torch.no_grad():
        for part, p in model.named_parameters():
            if p.requires_grad:
                p.copy_(torch.randn_like(p) * (0.4 if p.dim() > 1 else 0.1))
                p.add_(float("norm" in part and part.endswith("weight")))
    return model.eval()


@pytest.fixture(scope="module", params=CASES)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = drawn(request.param)
    model.save_pretrained(folder / "source")
    read, sections = read_source(folder / "source")
    convert.convert(read, folder / "m.phasor", F32, sections, None, quiet=True)
    return model, folder / "m.phasor"


def logits_of(model: torch.nn.Module, states: np.ndarray, target: list[int]) -> np.ndarray:
    """In double, (positions, vocabulary). Of two models joined those of the decoder by itself."""
    given, ids = torch.tensor(states).double()[None], torch.tensor([target])
    with torch.no_grad():
        if isinstance(model, transformers.EncoderDecoderModel):
            out = copy.deepcopy(model.decoder).double()(ids, encoder_hidden_states=given)
        else:
            output = BaseModelOutput(last_hidden_state=given)
            out = copy.deepcopy(model).double()(encoder_outputs=output, decoder_input_ids=ids)
    return out.logits[0].numpy()


def run(phasor: Path, path: Path, logits: Path, *argv: object) -> list[int]:
    done = subprocess.run(
        [phasor, "run", path, "--print-ids", "--quiet", "-n", str(NEW), "--logits", logits]
        + [str(word) for word in argv],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [int(i) for i in done.stdout.split(",")]


@pytest.mark.parametrize("positions", [1, 7, 33])
def test_states_of_another_encoder(made, positions, tmp_path, phasor):
    model, path = made
    rng = np.random.default_rng(positions)
    seen = set()
    for number in range(4):
        states = rng.normal(0, 1, (positions, WIDTH)).astype("<f4")
        np.save(tmp_path / "states.npy", states)
        given = ["--embeddings", tmp_path / "states.npy"]
        ids = run(phasor, path, tmp_path / "l.npy", *given)
        ours = np.load(tmp_path / "l.npy")
        output = BaseModelOutput(last_hidden_state=torch.tensor(states)[None])
        start = model.config.decoder_start_token_id
        with torch.no_grad():
            want = model.generate(
                encoder_outputs=output, do_sample=False, num_beams=1, max_new_tokens=NEW
            )[0].tolist()
        theirs = logits_of(model, states, [start, *ids[:-1]])
        assert ids == want[1:]
        assert np.abs(ours - theirs).max() / np.ptp(theirs) < TOLERANCE
        seen.add(tuple(ids))
    assert len(seen) > 1  # the states make a difference


def test_the_encoders_own_states_give_the_same_bits(made, tmp_path, phasor):
    _, path = made
    source = ["--ids", ",".join(str(5 + 7 * i % 60) for i in range(19))]
    own = run(phasor, path, tmp_path / "a.npy", *source, "--hidden", tmp_path / "h.npy")
    np.save(tmp_path / "states.npy", np.load(tmp_path / "h.npy")[-1])
    given = ["--embeddings", tmp_path / "states.npy"]
    assert run(phasor, path, tmp_path / "b.npy", *given) == own
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    for more in (["--beam", "3"], ["--threads", "2"], ["--cache", "f16"]):
        argv = [phasor, "run", path, "--print-ids", "--quiet", "-n", str(NEW), *more]
        one, other = (
            subprocess.run([*argv, *map(str, way)], capture_output=True, check=True).stdout
            for way in (source, given)
        )
        assert one == other


# ---- A decoder alone

_BERT = {
    **{"vocab_size": ROWS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 37, "max_position_embeddings": 40, "bos_token_id": 3},
}
ALONE = {
    "GPT2LMHeadModel": {
        **{"vocab_size": ROWS, "n_embd": WIDTH, "n_positions": 40, "n_layer": 2, "n_head": 4},
        **{"n_inner": 37, "bos_token_id": 3},
    },
    "BertLMHeadModel": {**_BERT, "is_decoder": True},
    "RobertaForCausalLM": {**_BERT, "is_decoder": True, "pad_token_id": 0, "type_vocab_size": 1},
    "BertGenerationDecoder": {**_BERT, "is_decoder": True},
    "ElectraForCausalLM": {**_BERT, "is_decoder": True, "embedding_size": WIDTH},
    "RoFormerForCausalLM": {**_BERT, "is_decoder": True},
}


def save_again(name: str, folder: Path, out: Path) -> None:
    """By the newer version."""
    program = (
        "import sys, transformers as t\n"
        f"t.{name}.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])\n"
        "print(t.__version__)"
    )
    assert run_newer("-c", program, folder, out).startswith("5.")


def alone(name: str, folder: Path) -> torch.nn.Module:
    """A model of ALONE, drawn, and its directory."""
    kind = getattr(transformers, name)
    config = kind.config_class(**ALONE[name], eos_token_id=1, add_cross_attention=True)
    config._attn_implementation = "eager"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(config)
    torch.manual_seed(len(name))
    with torch.no_grad():
        for part, p in model.named_parameters():
            if not p.requires_grad:  # RoFormer's sines
                continue
            p.copy_(torch.randn_like(p) * (0.4 if p.dim() > 1 else 0.1))
            norm = "norm" in part.lower() or ".ln_" in part
            p.add_(float(norm and part.endswith("weight")))
    model.eval().save_pretrained(folder)
    return model


def convert_to(source: Path, path: Path) -> Path:
    read, sections = read_source(source)
    convert.convert(read, path, F32, sections, None, quiet=True)
    return path


@pytest.fixture(scope="module", params=ALONE)
def single(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = alone(request.param, folder / "source")
    return model, folder / "source", convert_to(folder / "source", folder / "m.phasor")


def greedy(model: torch.nn.Module, states: np.ndarray) -> tuple[list[int], np.ndarray]:
    """The tokens from the start token on, and the logits of each, in double."""
    ids, rows = [model.config.bos_token_id], []
    given = torch.tensor(states).double()[None]
    with torch.no_grad():
        while len(ids) <= NEW and (len(ids) == 1 or ids[-1] != model.config.eos_token_id):
            rows.append(model(torch.tensor([ids]), encoder_hidden_states=given).logits[0, -1])
            ids.append(int(rows[-1].argmax()))
    return ids[1:], torch.stack(rows).numpy()


@pytest.mark.parametrize("positions", [1, 7, 33])
def test_a_decoder_alone(single, positions, tmp_path, phasor):
    model, _, path = single
    double = copy.deepcopy(model).double()
    rng, seen = np.random.default_rng(positions), set()
    for _ in range(4):
        states = rng.normal(0, 1, (positions, WIDTH)).astype("<f4")
        np.save(tmp_path / "states.npy", states)
        ids = run(phasor, path, tmp_path / "l.npy", "--embeddings", tmp_path / "states.npy")
        want, theirs = greedy(double, states)
        assert ids == want
        ours = np.load(tmp_path / "l.npy")
        assert np.abs(ours - theirs).max() / np.ptp(theirs) < TOLERANCE
        seen.add(tuple(ids))
    assert len(seen) > 1  # the states make a difference


def test_ids_of_a_source_are_rows_of_the_decoders_embedding(single, tmp_path, phasor):
    model, _, path = single
    ids = [5, 70, 0, 5, 33]
    table = model.get_input_embeddings().weight.detach().numpy()
    np.save(tmp_path / "states.npy", table[ids])
    given = ["--embeddings", tmp_path / "states.npy"]
    theirs = run(phasor, path, tmp_path / "a.npy", *given)
    assert run(phasor, path, tmp_path / "b.npy", "--ids", ids_text(ids)) == theirs
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_a_decoder_alone_replays_its_vectors(single, phasor):
    told(phasor, "verify", single[2])


def test_a_decoder_alone_that_the_newer_version_saved(single, tmp_path):
    model, source, path = single
    save_again(type(model).__name__, source, tmp_path / "again")
    theirs, ours = (PhasorFile(p) for p in (convert_to(tmp_path / "again", tmp_path / "m"), path))
    assert theirs.descriptor | {"model": 0} == ours.descriptor | {"model": 0}
    assert theirs.entries.keys() == ours.entries.keys()
    for key in ours.entries:
        assert np.array_equal(theirs.raw(key), ours.raw(key))


@pytest.mark.parametrize(
    "change, line",
    [
        ({"architectures": ["GPT2Model"]}, "architectures: "),
        (
            {"model_type": "gpt_bigcode", "architectures": ["GPTBigCodeForCausalLM"]},
            "add_cross_attention: True is not supported",
        ),
        ({"is_decoder": 3}, "is_decoder: 3 is not supported"),
        ({"bos_token_id": None, "eos_token_id": 1}, "decoder_start_token_id: is missing, and so"),
    ],
)
def test_what_is_no_such_decoder(change, line, tmp_path):
    alone("GPT2LMHeadModel", tmp_path)
    values = read_json(tmp_path / "config.json")
    write_json(tmp_path / "config.json", {**values, **change})
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    with pytest.raises(PhasorError, match=line):
        read_source(tmp_path)
