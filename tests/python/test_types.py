"""Types: who uses the package under `mypy --strict`, and the list of modules that are not strict
yet. And ruff, of one version wherever it runs."""

import re

import pytest

from make import lock, strict
from places import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
# What the issue of a release says is typed; the list may not have them.
STRICT = ("phasor.runtime", "phasor.serve", "phasor.live", "phasor.format", "phasor.reference")
MOST = 59  # modules that are not strict: the number only falls

USER = """\
from collections.abc import Iterator

import numpy as np

import phasor


def translated(path: str, texts: list[str]) -> list[str]:
    with phasor.load(path, threads=2) as model:
        return model.translate(texts)


def one(model: phasor.Model) -> str:
    return model.translate("text", beam=4)


def streamed(model: phasor.Model) -> Iterator[str]:
    yield from model.stream("Once", max_new=10, temperature=0.8, seed=7)


def vectors(model: phasor.Model, texts: list[str]) -> np.ndarray:
    return model.encode(texts)


def logits(model: phasor.Model) -> np.ndarray:
    session = model.session(context=512, sequences=4)
    return session.step([1, 2]).logits


def classes(model: phasor.Model) -> list[tuple[str, float]]:
    return [(label.label, label.score) for label in model.classify("text")]


def proved(module: object) -> phasor.Exported:
    return phasor.export(module, "out.phasor", example=[1, 2], type="q8")
"""
WRONG = (
    ("model.translate(texts)", "model.translate(7)", "translate"),
    ("threads=2", "threads='two'", "threads"),
    ("model.encode(texts)", "model.encode(texts).nothing", "nothing"),
    ("label.score", "label.scores", "scores"),
    ("-> str:", "-> bytes:", "bytes"),
)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")

    def run(text: str) -> list[str]:
        (folder / "user.py").write_text(text)
        config = folder / "mypy.toml"
        # The package as a user has it: with the exceptions, and what it is made of is not shown.
        said = PYPROJECT.replace('packages = ["phasor"]', "")
        said = said.replace("build/mypy", "build/mypy-user")
        config.write_text(said)
        out = strict.mypy("--config-file", config, folder / "user.py")
        return [line for line in out.splitlines() if ": error: " in line]

    return run


def test_a_program_that_uses_the_package_is_strict(said):
    assert said(USER) == []


@pytest.mark.parametrize("right, wrong, word", WRONG)
def test_a_wrong_use_is_found(said, right, wrong, word):
    lines = said(USER.replace(right, wrong, 1))
    assert lines and all("user.py" in line for line in lines), lines
    assert any(word in line for line in lines), lines


def test_the_list_only_shrinks():
    listed = strict.listed(PYPROJECT)
    assert len(listed) <= MOST
    assert not [name for name in listed if f"{name}.".startswith(tuple(f"{s}." for s in STRICT))]
    for name in listed:
        place = ROOT / "tools" / name.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), name


def test_what_is_not_listed_must_be_clean(tmp_path, monkeypatch):
    """An error in a strict module is said; a listed module without one must leave the list."""
    first = min(strict.listed(PYPROJECT))
    every = [f"tools/{name.replace('.', '/')}.py:1: error: x" for name in strict.listed(PYPROJECT)]
    monkeypatch.setattr(strict, "mypy", lambda *_: "\n".join(every))
    assert strict.problems(tmp_path)[0] == []
    wrong = "tools/phasor/runtime/model.py:7: error: bad"
    kept = [line for line in every if not line.startswith(f"tools/{first.replace('.', '/')}.py")]
    monkeypatch.setattr(strict, "mypy", lambda *_: "\n".join([*kept, wrong]))
    off = f"pyproject.toml: {first} is strict: off the list"
    assert strict.problems(tmp_path)[0] == [wrong, off]


def test_ruff_finds_what_is_unused_and_what_is_laid_out_otherwise(tmp_path):
    clean, unused, loose = (tmp_path / f"{name}.py" for name in ("clean", "unused", "loose"))
    clean.write_text("x = 1\n")
    unused.write_text("import os\n")
    loose.write_text("x  =  1\n")
    assert strict.unlike_ruff(clean) == []
    check, layout = strict.unlike_ruff(clean, unused, loose)
    assert check.startswith(f"{unused}:1:8: F401 ") and layout.startswith(f"{loose}:1:")


def test_ruff_is_of_one_version():
    (pin,) = (pin for pin in lock.pins_of("requirements-types") if pin.name == "ruff")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"ruff==([\d.]+)", hooks)) == {pin.version}
