"""SetFit's directories (Tunstall et al. 2022): an encoder's vector and scikit-learn's logistic
regression on it. Only the numbers of the regression are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from phasor import side_files
from phasor.checkpoints import joblib_file
from phasor.checkpoints.pickles import Inert
from phasor.checkpoints.tensors import Stored, stored
from phasor.errors import PhasorError, printable, shown
from phasor.families.hf_config import Config
from phasor.files import has_file
from phasor.format import descriptor as D

FILE = "model_head.pkl"
_CONFIG = "config_setfit.json"
_HEADS = [f"sklearn.linear_model.{name}.LogisticRegression" for name in ("_logistic", "logistic")]
_UNIT, _MATRIX = "setfit.unit", "setfit.classifier"
_MOST_LABELS = 1 << 16


def is_there(path: Path) -> bool:
    return has_file(path / FILE)


def classified(path: Path, head: dict[str, Any], tensors: dict[str, Stored]) -> dict[str, Any]:
    """The fields of a Head that gives classes in place of the vector of `head`, and its tensors
    beside those."""
    where = path / FILE
    rows, bias, classes = _numbers(where)
    config = Config(path / _CONFIG, side_files.read(path / _CONFIG))
    labels = _labels(config, classes)
    unit = config.flag("normalize_embeddings", default=False) or head["normalize"]
    config.finish(())
    out = {**head, "output": D.CLASSES, "normalize": False, "scores": D.SOFTMAX}
    out |= {"last": _MATRIX, "last_bias": True, "fixed_classes": tuple(labels)}
    tensors |= {f"{_MATRIX}.weight": stored(rows), f"{_MATRIX}.bias": stored(bias)}
    if unit and "norm" in head:
        raise PhasorError(f"{where}: LayerNorm and a length of 1 before a head are not supported")
    if unit:  # x / |x| is a root-mean-square norm whose gain is 1 / sqrt(D)
        out |= {"norm": _UNIT, "unit": True}
        tensors[f"{_UNIT}.weight"] = stored(np.full(rows.shape[1], rows.shape[1] ** -0.5))
    return out


def _numbers(where: Path) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    """(a row a class, the bias, the classes) whose softmax is what the head says."""
    made = joblib_file.read(where)
    if not isinstance(made, Inert) or made.name not in _HEADS:
        what = made.name if isinstance(made, Inert) else type(made).__name__
        raise PhasorError(
            f"{where}: a head of {printable(what)} is not supported, expected LogisticRegression;"
            " without this file the directory gives vectors"
        )
    said = made.parts[-1]
    names = ("coef_", "intercept_", "classes_")
    found = []
    for name in names:
        value = joblib_file.array(said.get(name)) if type(said) is dict else None
        if value is None:
            raise PhasorError(f"{where}: {name} is missing: the head is not trained")
        found.append(value)
    matrix, bias, classes = found
    rows = 1 if len(classes) == 2 else len(classes)
    if matrix.ndim != 2 or bias.shape != (rows,) or len(matrix) != rows or classes.ndim != 1:
        raise PhasorError(
            f"{where}: coef_ {matrix.shape}, intercept_ {bias.shape}, classes_ {classes.shape}: do"
            " not go together"
        )
    if matrix.dtype.kind != "f" or bias.dtype.kind != "f" or not 1 < len(classes) <= _MOST_LABELS:
        raise PhasorError(f"{where}: expected numbers for 2 to {_MOST_LABELS} classes")
    matrix, bias = matrix.astype(np.float64), bias.astype(np.float64)
    if not np.isfinite(matrix).all() or not np.isfinite(bias).all():
        raise PhasorError(f"{where}: a number that is not finite")
    several, kinds = said.get("multi_class", "auto"), ("auto", "deprecated", "ovr", "multinomial")
    if type(several) is not str or several not in kinds:
        raise PhasorError(f"{where}: multi_class: {shown(several)}, expected {', '.join(kinds)}")
    if rows > 1 and (several == "ovr" or said.get("solver") == "liblinear"):
        raise PhasorError(
            f"{where}: one classifier a class (multi_class ovr, solver liblinear) is not supported:"
            " train it with multi_class multinomial"
        )
    if rows == 1:  # the sigmoid of one number, or (multinomial) the softmax of it and its negative
        first = -matrix if several == "multinomial" else np.zeros_like(matrix)
        start = -bias if several == "multinomial" else np.zeros_like(bias)
        matrix, bias = np.concatenate([first, matrix]), np.concatenate([start, bias])
    return matrix, bias, classes.tolist()


def _labels(config: Config, classes: list[Any]) -> list[str]:
    """The names of the classes: those of config_setfit.json by their numbers, or their own."""
    names = config.get("labels")
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise config.error("labels", f"{shown(names)}, expected a list of texts")
    numbered = all(type(value) is int for value in classes)
    if names and numbered and not all(0 <= value < len(names) for value in classes):
        raise config.error("labels", f"{len(names)} names, {FILE} has classes {shown(classes)}")
    labels = [names[value] if names and numbered else str(value) for value in classes]
    if not all(label.isprintable() for label in labels):
        raise config.error("labels", "a label with a character that cannot be printed")
    return labels
