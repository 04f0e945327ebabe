"""CLIP and SigLIP as they are published, with encoders of texts and of pictures: the file is that
of the text encoder by itself."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from conversions import contents, refused
from phasor import convert
from places import ROOT
from texts import write_json

sys.path.insert(0, str(ROOT / "tests" / "fuzz" / "python"))
import models  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_program")
CLIP = ("clip", "CLIPModel", "clip_text_model", "CLIPTextModelWithProjection")
SIGLIP = ("siglip", "SiglipModel", "siglip_text_model", "SiglipTextModel")
WIDTH = 10  # of CLIP's vectors


class Pair:
    """A directory of random weights; a test may change its tables before it is written."""

    def __init__(self, folder: Path, kind: str, name: str, text: str, alone: str) -> None:
        own: dict[str, Any] = {"projection_dim": WIDTH} if kind == "clip" else {}
        made = models.directory(text, alone, **own)
        self.path, self.alone = folder / "model", made.config
        self.text = {n: v for n, v in made.config.items() if n not in ("architectures", *own)}
        self.config = {
            **{"model_type": kind, "architectures": [name], "text_config": self.text, **own},
            "vision_config": {"hidden_size": 8},
        }
        self.of_text = made.arrays()
        # as SiglipTextModel, whose tensors have the names without the prefix too
        start = "" if any(n.startswith("text_model.") for n in self.of_text) else "text_model."
        self.arrays = {start + n: array for n, array in self.of_text.items()}
        self.arrays |= {
            "vision_model.post_layernorm.weight": np.ones(8, np.float32),
            "visual_projection.weight": np.ones((WIDTH, 8), np.float32),
            "logit_scale": np.ones((), np.float32),
        }

    def converted(self, alone: bool = False) -> dict[int, bytes]:
        self.write(alone)
        out = self.path.with_suffix(".phasor")
        assert convert.main([str(self.path), "-o", str(out)]) == 0
        return contents(out)

    def write(self, alone: bool = False) -> Path:
        self.path.mkdir(exist_ok=True)
        write_json(self.path / "config.json", self.alone if alone else self.config)
        save_file(self.of_text if alone else self.arrays, self.path / "model.safetensors")
        return self.path


@pytest.fixture(params=[CLIP, SIGLIP], ids=["clip", "siglip"])
def pair(request, tmp_path):
    return Pair(tmp_path, *request.param)


@pytest.fixture()
def clip(tmp_path):
    return Pair(tmp_path, *CLIP)


def test_the_file_is_that_of_the_text_encoder(pair, capsys):
    given = pair.converted()
    assert "has its text encoder; pictures are left out" in capsys.readouterr().err
    assert given == pair.converted(alone=True)


def test_the_width_beside_the_table_counts(clip):
    """As CLIPModel reads it."""
    given = clip.converted()
    clip.text["projection_dim"] = WIDTH + 1
    assert clip.converted() == given


def test_the_first_table_counts(clip):
    """text_config_dict, which the first versions wrote, takes the place of text_config."""
    given = clip.converted()
    clip.config["text_config_dict"] = clip.text
    clip.config["text_config"] = {**clip.text, "hidden_act": "gelu", "layer_norm_eps": 0.5}
    assert clip.converted() == given
    clip.config |= {"text_config_dict": None, "text_config": clip.text}
    assert clip.converted() == given


@pytest.mark.parametrize(
    "table, more, what",
    [
        ("", {"architectures": ["CLIPVisionModel"]}, "architectures: ['CLIPVisionModel'] is not"),
        ("", {"text_config": None}, "text_config: missing"),
        ("", {"text_config_dict": 3}, "text_config_dict: 3, expected a table"),
        ("", {"text_config_dict": {"new": 1}}, "text_config_dict.new: not known"),
        ("", {"projection_dim": "a"}, "json: projection_dim: 'a', expected a whole number"),
        ("", {"new": 1}, "new: not known for CLIPModel"),
        ("text_config", {"new": 1}, "text_config.new: not known"),
        ("text_config", {"model_type": "bert"}, "text_config.model_type: 'bert' is not supported"),
    ],
)
def test_a_fault(clip, capsys, tmp_path, table, more, what):
    (clip.config[table] if table else clip.config).update(more)
    assert what in refused(clip.write(), tmp_path / "m.phasor", capsys)


def test_a_tensor_that_is_not_listed(clip, capsys, tmp_path):
    clip.arrays["audio_model.weight"] = np.ones(3, np.float32)
    assert "audio_model.weight" in refused(clip.write(), tmp_path / "m.phasor", capsys)
