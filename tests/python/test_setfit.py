"""SetFit's directories: the numbers of a logistic regression, of joblib's file or a plain pickle,
as the classes of an encoder's vector (tests/reference/test_sentence_transformers.py compares with
scikit-learn); and what no such file may be."""

from __future__ import annotations

import json
import pickle
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from conversions import convert_to, refused
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from places import ROOT, told
from setfit import head, regression

sys.path.insert(0, str(ROOT / "tests" / "fuzz" / "python"))
import models  # noqa: E402

WIDTH, IDS = models.WIDTH, [5, 9, 3, 2]


def directory(folder: Path, file: bytes, normalized: bool = False, **config: Any) -> Path:
    bert = models.directory("bert", "BertModel")
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    rows = [
        {"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, at) in enumerate(kinds[: 2 + normalized])
    ]
    (folder / "1_Pooling").mkdir(parents=True)
    files = {"modules.json": rows, "config.json": bert.config, "config_setfit.json": config}
    files["1_Pooling/config.json"] = {"pooling_mode_max_tokens": True}
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    save_file(bert.arrays(), folder / "model.safetensors")
    (folder / "model_head.pkl").write_bytes(file)
    return folder


def scores_of(said: dict[str, Any], vector: np.ndarray) -> np.ndarray:
    """As scikit-learn has them."""
    made = said["coef_"] @ vector + said["intercept_"]
    if len(made) == 1:
        one = 1 / (1 + np.exp(-made[0] * (2 if said.get("multi_class") == "multinomial" else 1)))
        return np.array([1 - one, one])
    made = np.exp(made - made.max())
    return made / made.sum()


@pytest.mark.parametrize("normalized", ["no", "module", "config"])
@pytest.mark.parametrize("joblib", [True, False], ids=["joblib", "pickle"])
@pytest.mark.parametrize(
    "classes, more",
    [
        (["no", "yes"], {}),
        ([0, 1], {"multi_class": "multinomial"}),
        ([2, 0, 1], {"multi_class": "auto"}),
        (np.array(["a", "b", "c"], object), {}),
    ],
    ids=["binary", "multinomial", "three", "objects"],
)
def test_a_heads_scores(classes, more, joblib, normalized, tmp_path, phasor):
    said = regression(classes, WIDTH, **more)
    said["coef_"] = np.asfortranarray(said["coef_"])
    config = {"labels": ["x", "y", "z"], "normalize_embeddings": normalized == "config"}
    file = head(joblib=joblib, **said)
    folder = directory(tmp_path / "m", file, normalized == "module", **config)
    path = convert_to(folder, tmp_path / "m.phasor", "--phasor", str(phasor))
    told(phasor, "verify", path)
    reference = Reference(PhasorFile(path))
    trace = reference.encode(IDS)
    vector = trace.output.max(axis=0)
    vector = vector if normalized == "no" else vector / np.linalg.norm(vector)
    made = np.exp(reference.output(trace)).ravel()
    assert np.allclose(made / made.sum(), scores_of(said, vector), atol=1e-6)
    output = PhasorFile(path).descriptor["output"]
    names = ["xyz"[c] if isinstance(c, int) else c for c in said["classes_"].tolist()]
    assert output["labels"] == "".join(f"{name}{D.RECORD_END}" for name in names)
    assert (output["pooling"], output["scores"]) == (D.MAX, D.SOFTMAX)


GOOD = regression(["a", "b", "c"], WIDTH)
BAD = [
    (head("sklearn.multioutput.MultiOutputClassifier", **GOOD), "MultiOutputClassifier is not"),
    (head("setfit.modeling.SetFitHead", **GOOD), "setfit.modeling.SetFitHead is not supported"),
    (pickle.dumps([1, 2]), "a head of list is not supported, expected LogisticRegression"),
    (head(), "coef_ is missing: the head is not trained"),
    (head(**{**GOOD, "coef_": None}), "coef_ is missing"),
    (head(**{**GOOD, "coef_": GOOD["coef_"][:2]}), "do not go together"),
    (head(**{**GOOD, "coef_": GOOD["coef_"][:, :5]}), "setfit.classifier"),
    (head(**{**GOOD, "coef_": GOOD["coef_"] * np.inf}), "a number that is not finite"),
    (head(**{**GOOD, "coef_": GOOD["coef_"].astype(int)}), "expected numbers for 2 to"),
    (head(**{**GOOD, "coef_": GOOD["coef_"].astype(complex)}), "an array of c16: expected numbers"),
    (head(**{**GOOD, "classes_": np.array([1, None, 2], object)}), "an array of objects"),
    (head(**{**GOOD, "classes_": np.array(["a", "b\n", "c"])}), "cannot be printed"),
    (head(**{**GOOD, "classes_": np.array([0, 1, 9])}), "labels: 3 names, model_head.pkl has"),
    (head(multi_class="ovr", **GOOD), "train it with multi_class multinomial"),
    (head(multi_class=3, **GOOD), "multi_class: 3, expected auto"),
    (head(**{**GOOD, "solver": "liblinear"}), "train it with multi_class multinomial"),
    (head(**GOOD)[:-9], "an array reaches beyond the end of the file"),
    (head(**GOOD)[:90], "is damaged"),
    (head(**GOOD).replace(b"M\x00\x01", b"M\xff\xff"), ""),
    (zlib.compress(head(**GOOD)), "is compressed: joblib.dump(value, FILE) writes it plainly"),
    (b"cos\nsystem\n(S'true'\ntR.", "asks for os.system"),
    (b"", "is damaged"),
]


@pytest.mark.parametrize("file, line", BAD, ids=range(len(BAD)))
def test_heads_that_are_refused(file, line, tmp_path, capsys):
    folder = directory(tmp_path / "m", file, labels=["x", "y", "z"])
    if line:
        said = refused(folder, tmp_path / "o", capsys)
        assert line in said and "Traceback" not in said


@pytest.mark.parametrize(
    "found, put",
    [
        (b"\x8c\x05shape\x94K\x03", b"\x8c\x05shape\x94K\xff"),
        (b"\x8c\x02f8", b"\x8c\x02O8"),
        (b"\x8c\x02f8", b"\x8c\x02f9"),
        (b"\x8c\x02U1", b"\x8c\x02U9"),
        (b"\x8c\x05dtype\x94\x93", b"\x8c\x05dtypo\x94\x93"),
    ],
    ids=["shape", "objects", "size", "texts", "no type"],
)
def test_arrays_that_cannot_be(found, put, tmp_path, capsys):
    file = head(**GOOD)
    assert found in file
    folder = directory(tmp_path / "m", file.replace(found, put))
    said = refused(folder, tmp_path / "o", capsys)
    assert "model_head.pkl" in said and "Traceback" not in said


def test_only_numbers_may_lie_behind_an_array(tmp_path, capsys):
    """The bytes behind joblib's object are no opcodes, and a frame has none of them."""
    file = head(**GOOD)
    framed = file.replace(b"\x95", b"\x95", 1)
    start = framed.index(b"\x95") + 1
    longer = int.from_bytes(framed[start : start + 8], "little") + 40
    framed = framed[:start] + longer.to_bytes(8, "little") + framed[start + 8 :]
    said = refused(directory(tmp_path / "m", framed), tmp_path / "o", capsys)
    assert "model_head.pkl" in said


def test_a_head_needs_a_pooling(tmp_path, capsys):
    folder = directory(tmp_path / "m", head(**GOOD))
    rows = json.loads((folder / "modules.json").read_text())[:1]
    (folder / "modules.json").write_text(json.dumps(rows))
    said = {"model_type": "CrossEncoder"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said))
    assert "a head needs Transformer and Pooling" in refused(folder, tmp_path / "o", capsys)
