"""A decoder with cross-attention that is given an encoder's output, `phasor run --embeddings`,
against transformers with `encoder_outputs`: logits and greedy tokens of small random models."""

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
from phasor.format.layout import F32

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
    read, sections = convert.read_source(folder / "source", None, [])
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
