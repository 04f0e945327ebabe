"""What the checks share: files, programs that are run, and how a check says what is wrong."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
TOOLS = ROOT / "tools"


class Problem(Exception):
    """What is wrong with the source, in one line."""


def problems_to(problems, what):
    if problems:
        raise Problem(
            "; ".join(problems[:8])
            + (f"; and {len(problems) - 8} more" if len(problems) > 8 else "")
        )
    return what


def run(*command, **kw):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    if r.returncode:
        raise Problem(
            f"{' '.join(map(str, command[:3]))} …: "
            f"{(r.stderr or r.stdout).strip().splitlines()[:3]}"
        )
    return r.stdout


def tracked_files():
    return [n for n in run("git", "-C", str(ROOT), "ls-files", "-z").split("\0") if n]


def cpp_files():
    """The C++ files of src/."""
    return sorted(p for p in SRC.rglob("*") if p.suffix in (".h", ".hpp", ".cpp", ".inc"))


def modules_of(folder):
    """{dotted name: path} of the modules in a folder of tools/."""
    files = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(TOOLS).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files
