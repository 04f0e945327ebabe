"""T5Gemma 2 (one softmax over the decoder's keys and the encoder's), which transformers 4.57 does
not have: models of odd sizes that 5.x makes, drawn here, and what 5.x computes and generates."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from save_newer import save_newer
from test_families_translators import convert_to, run, share

from phasor.errors import PhasorError
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import need_newer, told
from texts import ids_text, read_json, write_json

MODEL, TOLERANCE, SCORE, NEW, BEAMS = "T5Gemma2ForConditionalGeneration", 1e-5, 1e-4, 14, 3
TEXT: dict[str, Any] = {
    "vocab_size": 71,
    "hidden_size": 44,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,
    "intermediate_size": 53,
    "num_hidden_layers": 3,
    "query_pre_attn_scalar": 7,
    "sliding_window": 6,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
_VISION = {
    "model_type": "siglip_vision_model",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "image_size": 16,
    "patch_size": 8,
}


def both(encoder: dict = {}, decoder: dict = {}, beside: dict = {}, **whole: Any) -> dict[str, Any]:
    """A configuration; beside: fields beside that of the encoder of texts."""
    pictures = {"vision_config": _VISION, "mm_tokens_per_image": 1}
    return {
        "encoder": {"text_config": {**TEXT, **encoder}, **pictures, **beside},
        "decoder": {**TEXT, **decoder},
        "decoder_start_token_id": 2,
        **whole,
    }


_SCALED = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    "full_attention": {
        "rope_type": "yarn",
        "factor": 4.0,
        "rope_theta": 300.0,
        "original_max_position_embeddings": 16,
    },
}
CASES = {
    "tied": both(),
    "three matrices, biases, a cap, other windows and heads": both(
        {"sliding_window": 5, "hidden_activation": "silu"},
        {
            "num_hidden_layers": 2,
            "attention_bias": True,
            "num_key_value_heads": 4,
            "final_logit_softcapping": 5.0,
            "layer_types": ["full_attention", "sliding_attention"],
            "sliding_window": 4,
        },
        tie_word_embeddings=False,
    ),
    "tied, YaRN, the end of a picture": both(
        {"rope_parameters": _SCALED, "query_pre_attn_scalar": 40},
        {"rope_parameters": _SCALED, "query_pre_attn_scalar": 40},
        {"eoi_token_index": 9},
    ),
    "three matrices and the end of a picture": both(
        {}, {}, {"eoi_token_index": 9}, tie_word_embeddings=False
    ),
}
IDS, TARGET = [5, 9, 17, 33, 8, 70, 12, 9, 44, 3, 60, 61], [2, 9, 40, 30, 20, 10, 9, 8, 7, 6, 5, 50]
SOURCES = [[i % 60 + 3 for i in range(7 * n, 7 * n + n)] + [1] for n in (1, 2, 5, 8, 13, 21, 30)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    """The folder of each case. Its embeddings are a third of what is drawn, or a tied model repeats
    its input."""
    need_newer()
    out = tmp_path_factory.mktemp("merged")
    asked = {"model": MODEL, "ids": IDS, "target": TARGET, "new": NEW, "beams": BEAMS}
    drawn = [
        {**asked, "config": config, "weights": None, "folder": f"{out}/drawn{i}"}
        for i, config in enumerate(CASES.values())
    ]
    save_newer(out, drawn)
    for job in drawn:
        path = Path(job["folder"]) / "model.safetensors"
        tensors = load_file(path)
        for name in tensors:
            tensors[name] = tensors[name] * np.float32(0.1 if "embed" in name else 1)
        save_file(tensors, path, {"format": "pt"})
        job |= {"config": None, "weights": job["folder"], "sources": SOURCES, "double": True}
        job["folder"] = job["folder"].replace("drawn", "case")
    save_newer(out, drawn)
    return {name: Path(job["folder"]) for name, job in zip(CASES, drawn)}


def converted(folder: Path) -> Path:
    path = folder.with_suffix(".phasor")
    convert_to(folder, path)
    return path


@pytest.mark.parametrize("name", CASES)
def test_logits(saved, name, phasor, tmp_path):
    theirs, path = np.load(f"{saved[name]}.npy"), converted(saved[name])
    reference = Reference(PhasorFile(path))
    assert share(reference.decode(TARGET, reference.encode(IDS).output).logits, theirs) < TOLERANCE
    out, flags = tmp_path / "logits.npy", ["--ids", ids_text(IDS), "--prefix-ids"]
    flags += [ids_text(TARGET[1:]), "-n", str(len(TARGET)), "--logits", out]
    told(phasor, "run", path, *flags, "--quiet")
    assert share(np.load(out)[: len(TARGET)], theirs) < TOLERANCE


@pytest.mark.parametrize("name", CASES)
def test_outputs(saved, name, phasor):
    """Greedy tokens, and all hypotheses of a beam search with their scores."""
    path, found = converted(saved[name]), set()
    for beams, theirs in zip((1, BEAMS), read_json(Path(f"{saved[name]}.json"))):
        lines = run(phasor, path, SOURCES, "--beam", beams, "--n-best", beams, new=NEW)
        for line, (scores, ids) in zip(lines, theirs):
            ours = line["outputs"] if beams > 1 else [line]
            assert [one["ids"] for one in ours] == ids
            found |= {tuple(one) for one in ids}
            if beams > 1:
                assert np.allclose([one["score"] for one in ours], scores, atol=SCORE)
    assert len(found) > 2 * len(SOURCES)


def test_the_end_of_a_picture_has_a_row_of_its_own(saved):
    """In place of a second matrix for the logits of a tied model; the texts above have that id."""
    assert 9 in IDS and 9 in TARGET
    for name, case in CASES.items():
        file = PhasorFile(converted(saved[name]))
        inside = case["encoder"].get("eoi_token_index") == 9
        own = [file.descriptor[side]["own_row"] for side in ("source", "target")]
        assert own == [10 * inside] * 2, name
        there = R.key_of(R.OUTPUT, 0, R.OUTPUT_WEIGHT) in file.entries
        assert there == (case.get("tie_word_embeddings") is False), name


def test_pictures_are_named(saved, tmp_path):
    """What the converter says of the parts for pictures; a cap of scores, which transformers has a
    field for and does not compute, is refused."""
    folder = saved["tied"]
    model, _ = read_source(folder)
    assert "the file has the encoder of texts; pictures are left out" in model.notes
    assert not model.problems()
    config = read_json(folder / "config.json")
    config["decoder"]["attn_logit_softcapping"] = 5.0
    shutil.copytree(folder, tmp_path / "capped")
    write_json(tmp_path / "capped" / "config.json", config)
    with pytest.raises(PhasorError, match=r"decoder\.attn_logit_softcapping: 5.0 is not supported"):
        read_source(tmp_path / "capped")
