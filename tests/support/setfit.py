"""What scikit-learn and joblib write of a logistic regression, made without either: classes of
their names, in modules that are there for as long as the pickle is written."""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import types
from typing import Any, Iterator

import numpy as np

REGRESSION = "sklearn.linear_model._logistic.LogisticRegression"
_WRAPPER = "joblib.numpy_pickle.NumpyArrayWrapper"


@contextlib.contextmanager
def _classes(*names: str) -> Iterator[list[type]]:
    """Classes of these names that can be imported by them."""
    saved, made = dict(sys.modules), []
    for name in names:
        module, own = name.rsplit(".", 1)
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            sys.modules[".".join(parts[:count])] = types.ModuleType(".".join(parts[:count]))
        made.append(type(own, (), {"__module__": module}))
        setattr(sys.modules[module], own, made[-1])
    try:
        yield made
    finally:
        for name in set(sys.modules) - set(saved):
            del sys.modules[name]
        sys.modules.update(saved)


class _Pickler(pickle._Pickler):
    """As joblib's: an array is an object, and behind it, outside of the frames, its bytes."""

    def __init__(self, file: io.BytesIO, wrapper: type) -> None:
        super().__init__(file, 4)
        self._file, self._wrapper = file, wrapper

    def save(self, value: Any, save_persistent_id: bool = True) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.hasobject:
            return super().save(value, save_persistent_id)
        wrapped = self._wrapper()
        wrapped.__dict__.update(
            subclass=np.ndarray,
            shape=value.shape,
            order="F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C",
            dtype=value.dtype,
            allow_mmap=True,
            numpy_array_alignment_bytes=16,
        )
        super().save(wrapped)
        self.framer.commit_frame(force=True)
        gap = 16 - (self._file.tell() + 1) % 16
        self._file.write(bytes([gap]) + b"\xff" * gap + value.tobytes(order="A"))


def head(name: str = REGRESSION, joblib: bool = True, **said: Any) -> bytes:
    """The file of an object of this class with these attributes."""
    with _classes(name, _WRAPPER) as (kind, wrapper):
        made = kind()
        made.__dict__.update(said)
        if not joblib:
            return pickle.dumps(made, 4)
        file = io.BytesIO()
        _Pickler(file, wrapper).dump(made)
        return file.getvalue()


def regression(classes: Any, width: int, seed: int = 5, **said: Any) -> dict[str, Any]:
    """The attributes of one that is trained."""
    rng, classes = np.random.default_rng(seed), np.asarray(classes)
    rows = 1 if len(classes) == 2 else len(classes)
    numbers = {"coef_": rng.normal(size=(rows, width)), "intercept_": rng.normal(size=rows)}
    about = {"solver": "lbfgs", "classes_": classes, "n_iter_": np.array([7], "<i4")}
    return {**about, **numbers, **said}
