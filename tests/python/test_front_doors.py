"""Every tool has one front door, one way to write a file, and lets no foreign text decide what
Python does."""

import ast
import os
import subprocess
import sys
import warnings

import pytest

import hostile
from phasor import entry
from phasor.errors import PhasorError
from phasor.start import missing

TOOLS = hostile.ROOT / "tools"
FILES = sorted(TOOLS.rglob("*.py"))
# The front doors of tools/ itself only call one of these.
SCRIPTS = [
    path
    for path in FILES
    if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    and (path.parent != TOOLS or path.name == "check.py")
]


def name_of(path) -> str:
    return path.relative_to(TOOLS).as_posix()


def calls(path) -> list[tuple[str, ast.Call]]:
    """(dotted name, call) of every call in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_has_a_front_door(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    doors = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
        if ast.unparse(mark).startswith("front_door(")
    }
    assert len(doors) == 1
    last = ast.unparse(tree.body[-1])
    assert f"sys.exit({next(iter(doors))}(" in last  # and its status is the program's


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_what_no_tool_does(path):
    """No eval, no pickle of a stranger, no pattern that is not a constant of ours."""
    flagged = []
    for name, call in calls(path):
        first = call.args[0] if call.args else None
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        if name in (
            "eval",
            "exec",
            "compile",
            "__import__",
            "importlib.import_module",
            "pickle.load",
            "pickle.loads",
            "np.load",
        ) and name_of(path) not in _TRUSTED.get(name, ()):
            flagged.append(name)
        if name == "torch.load" and keywords.get("weights_only") != "True":
            flagged.append(name)
        if name.startswith("re.") and name != "re.escape" and not _is_constant(first):
            flagged.append(ast.unparse(call)[:80])
        if name in ("json.loads", "json.load") and name_of(path) not in _JSON:
            flagged.append(name)
    assert flagged == []


# np.load reads what the phasor program wrote in a folder of ours; the others' JSON is that of a
# program, of results or of tables of ours.
# The expressions of the table of roles are literals of its own module; the tokenizers' models and
# the generators are the modules of their package; a script names its own module.
_TRUSTED = {
    "np.load": (
        "phasor/int8_inputs.py",
        "phasor/verify.py",
        "phasor/plot.py",
        "bench/quality.py",
    ),
    "importlib.import_module": (
        "phasor/tokenizers/models/__init__.py",
        "phasor/families/lineages.py",
        "phasor/sources/find.py",
        "make/generate.py",
        "phasor/start.py",
    ),
    "eval": ("phasor/format/tensors.py",),
    "compile": ("phasor/format/tensors.py",),
}
_JSON = (
    "phasor/files.py",
    "phasor/values.py",
    "phasor/replay.py",
    "bench/agreement.py",
    "bench/quality.py",
    "bench/server.py",
    "bench/common.py",
    "bench/page.py",
    "bench/peers.py",
    "train/translation.py",
    "phasor/chat/template.py",
    "make/coverage.py",
    "make/links.py",
    "make/mutants.py",
)


def _is_constant(node: ast.AST | None) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left) and _is_constant(node.right)
    return isinstance(node, (ast.Constant, ast.Tuple)) or (
        isinstance(node, ast.Call)
        and ast.unparse(node).isascii()
        and all(map(_is_constant, node.args))
    )


# Files of a folder that a tool made for itself, or a scratch file that `replacing` gave; and what
# is generated into the repository, which has the old one.
_SCRATCH = {
    "checks/compiled.py",
    "make/fuzz.py",
    "make/generate.py",
    "make/lock.py",
    "make/mutants.py",
    "make/wheels.py",
    "phasor/auto_type.py",
    "phasor/smoothing.py",
}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_written_by_one_helper(path):
    flagged = []
    for name, call in calls(path):
        mode = next(
            (
                ast.literal_eval(a)
                for a in call.args[1:2]
                if isinstance(a, ast.Constant) and isinstance(a.value, str)
            ),
            "",
        )
        if (
            name.endswith((".write_text", ".write_bytes"))
            or (name in ("open", "io.open") and set(mode) & set("wax+"))
            or name in ("os.replace", "tempfile.mkstemp")
        ):
            flagged.append(ast.unparse(call)[:80])
    allowed = name_of(path) in _SCRATCH or name_of(path) in ("phasor/files.py", "phasor/entry.py")
    assert allowed or flagged == []


@pytest.mark.long
def test_no_script_shows_a_traceback_for_a_file_that_is_none(tmp_path):
    """Each that reads a .phasor file, a checkpoint or a text, at a directory and at nonsense."""
    bad = tmp_path / "bad.phasor"
    bad.write_bytes(b"\x89PHASOR\n" + b"\xff" * 200)
    text = tmp_path / "text"
    text.write_bytes(b"\xff\xfe")
    for path in (str(bad), str(tmp_path), "/dev/zero", str(tmp_path / "absent")):
        for name, arguments in (
            ("reference.forward", [path]),
            ("reference.beam", [path]),
            ("verify", [path, "--checkpoint", path]),
            ("convert", [path, "-o", "x.phasor"]),
            ("moments", [path, str(text), "-o", "x.npy", "--phasor", sys.executable]),
            ("bench.quality", [path, "--text", str(text), "--phasor", sys.executable]),
        ):
            module = name if "." in name and name.startswith("bench") else f"phasor.{name}"
            done = subprocess.run(
                [sys.executable, "-m", module, *arguments],
                capture_output=True,
                text=True,
                cwd=tmp_path,
                timeout=60,
                env={**os.environ, "PYTHONPATH": str(TOOLS)},
            )
            name = name.rpartition(".")[2].replace("forward", "reference")
            assert (
                done.returncode == 1
                and len(done.stderr.splitlines()) == 1
                and done.stderr.startswith(f"{name}: ")
            ), (name, path, done)
            assert "internal error" not in done.stderr, done
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.phasor", "text"]


# ---- The door itself


def through(error: BaseException) -> int:
    @entry.front_door("tool")
    def main() -> int:
        raise error

    return main()


@pytest.mark.parametrize(
    "error,says",
    [
        (PhasorError("a.pt: is bad"), "tool: a.pt: is bad\n"),
        (PhasorError("a\nb\x1b[2J\u202e"), "tool: a?b?[2J?\n"),
        (PhasorError("x" * 5000), "tool: " + "x" * 2000 + "…\n"),
        (FileNotFoundError(2, "No such file", "a.txt"), "tool: a.txt: No such file\n"),
        (KeyboardInterrupt(), "tool: stopped\n"),
        (
            ImportError("No module named 'torch'"),
            "tool: a package is missing: No module named 'torch'\n",
        ),
        (
            ValueError("a\nb"),
            "tool: internal error: ValueError: a; this is a defect of the tool "
            "(PHASOR_TRACEBACK=1 shows where)\n",
        ),
        (
            RecursionError("deep"),
            "tool: internal error: RecursionError: deep; this is a defect of the tool "
            "(PHASOR_TRACEBACK=1 shows where)\n",
        ),
        (MemoryError(), "tool: there is not enough memory for this input\n"),
    ],
)
def test_what_a_user_sees(capsys, monkeypatch, error, says):
    monkeypatch.delenv("PHASOR_TRACEBACK", raising=False)
    assert through(error) == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert capsys.readouterr().err == says


def test_the_traceback_is_there_for_who_asks(capsys, monkeypatch):
    monkeypatch.setenv("PHASOR_TRACEBACK", "1")
    assert through(ValueError("x")) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_librarys_warning_is_no_line(capsys, monkeypatch):
    """numpy's of an overflow would stand before the one line of a refusal."""
    monkeypatch.setattr(sys, "warnoptions", [])

    @entry.front_door("tool")
    def main() -> None:
        warnings.warn("overflow encountered in cast", RuntimeWarning)
        raise PhasorError("a.pt: is bad")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main() == 1 and capsys.readouterr().err == "tool: a.pt: is bad\n"


def test_a_status_is_kept_and_none_is_zero():
    assert (
        entry.front_door("tool")(lambda: 3)() == 3 and entry.front_door("tool")(lambda: None)() == 0
    )
    with pytest.raises(SystemExit):
        through(SystemExit(2))


# ---- Before the door

DOORS = sorted(path for path in TOOLS.glob("*.py") if path.name != "check.py")


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> str:
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / "bin/python")


@pytest.mark.parametrize("path", DOORS, ids=name_of)
def test_a_missing_package_is_one_line(path, bare):
    done = subprocess.run([bare, path, "--help"], capture_output=True, text=True)
    package = "matplotlib" if path.stem == "plot" else "numpy"
    line = f"{path.stem}: {missing(ImportError(name=package))}\n"
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == line.replace(sys.executable, bare)


@pytest.mark.parametrize("path", DOORS, ids=name_of)
def test_an_older_python_is_one_line(path):
    old = f"import runpy, sys; sys.version_info = (3, 10, 4); sys.path.insert(0, {str(TOOLS)!r})"
    run = f"runpy.run_path({str(path)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", f"{old}; {run}"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{path.stem}: needs Python 3.11 or newer, this is 3.10\n"
    assert "Python 3.11" in (hostile.ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "package,file",
    [
        ("matplotlib", "plot"),
        ("torch", "reference"),
        ("sentence_transformers.models", "reference"),
        ("onnxruntime", "bench"),
    ],
)
def test_a_missing_package_is_in_a_file_of_requirements(package, file):
    says = missing(ImportError(f"No module named {package!r}", name=package))
    assert says.endswith(f" -m pip install -r tools/locks/requirements-{file}.txt")
    assert (TOOLS / f"locks/requirements-{file}.txt").is_file()


def test_what_make_installs_is_installed_by_make():
    says = missing(ImportError("No module named 'numpy'", name="numpy"))
    assert "`make python` installs it; then run .venv/bin/python" in says


def test_a_package_that_no_file_lists():
    error = ImportError("No module named 'nothing'", name="nothing")
    assert missing(error) == "a package is missing: No module named 'nothing'"
