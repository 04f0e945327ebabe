"""The repository as a whole: its pages and comments, what is generated, locked and typed, and what
lies at its top."""

import re

from checks.common import ROOT, TOOLS, Problem, problems_to, tracked_files
from checks.library import library
from make import entries, generate, links, lock, strict
from phasor.errors import PhasorError

TOP_LEVEL = set(
    "src include tools models tests docs examples cmake Makefile CMakeLists.txt CMakePresets.json"
    " pyproject.toml README.md LICENSE CHANGELOG.md SECURITY.md CONTRIBUTING.md .ci .github"
    " .clang-format .clang-tidy .editorconfig .pre-commit-config.yaml .gitignore".split()
)
# "rule 1.6", "rules 1.1, 1.6 and 1.9"; in the kernels the numbers alone, in brackets.
CITATION = re.compile(r"\brules?\s+((?:\d\.\d+)(?:(?:, | and | to |, and )\d\.\d+)*)", re.I)
BRACKETS = re.compile(r"\((1\.\d+(?:, 1\.\d+)*)\)")


def check_rules(_):
    """Every rule that a comment or a page cites by number has its page."""
    known = set()
    for page in ("docs/reference/numerics.md", "docs/reference/file-format.md", "include/phasor.h"):
        text = (ROOT / page).read_text(encoding="utf-8")
        known |= set(re.findall(r"^(?:### | \* *|- \*\*)(\d\.\d+)[\s*]", text, re.M))
    problems, count = [], 0
    for name in tracked_files():
        path = ROOT / name
        if (
            path.suffix not in (".h", ".hpp", ".cpp", ".c", ".py", ".md", ".mk", ".inc", "")
            or not path.is_file()
        ):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        cited = CITATION.findall(text) + (
            BRACKETS.findall(text) if name.startswith("src/kernels/") else []
        )
        for number in re.findall(r"\d\.\d+", " ".join(cited)):
            count += 1
            if number not in known:
                problems.append(f"{name} cites rule {number}, which no page has")
    return problems_to(problems, f"{count} citations of {len(known)} rules")


def check_entries(_):
    """Every reader of foreign bytes has its fuzz target, hostile examples and faults."""
    return problems_to(entries.problems(), entries.summary())


def check_generated(args):
    """Every file and region that is made from a table is what the table says."""
    problems, count = generate.stale(ROOT / args.build)
    return problems_to(problems, f"{count} files")


def check_locks(_):
    """Every list of Python packages has its lock, with a hash for every file."""
    return problems_to(lock.check(), f"{len(lock.lists())} lists")


def check_types(args):
    """`mypy --strict` finds nothing in tools/phasor but in modules that pyproject.toml lists."""
    try:
        found, loose = strict.problems(ROOT / args.build)
    except PhasorError as error:
        raise Problem(str(error)) from error
    count = sum(1 for _ in (TOOLS / "phasor").rglob("*.py"))
    return problems_to(found, f"{count} modules, {loose} not strict yet")


def check_layout(_):
    """`ruff check` finds nothing in the Python sources, and `ruff format` would change none."""
    try:
        found = strict.unlike_ruff()
    except PhasorError as error:
        raise Problem(str(error)) from error
    return problems_to(found, f"{sum(name.endswith('.py') for name in tracked_files())} files")


def check_paths(args):
    """No path of somebody's machine in a tracked file or in the library."""
    somewhere = re.compile(
        ("/(?:ho" + "me|ro" + "ot|wo" + "rk|Us" + "ers|mnt|build" + "s)/[A-Za-z0-9_.-]").encode()
    )
    problems, count = [], 0
    for name in tracked_files():
        path = ROOT / name
        if not path.is_file() or path.suffix == ".phasor":
            continue
        count += 1
        data = path.read_bytes()
        if b"\0" in data[:8000]:
            continue
        for i, line in enumerate(data.split(b"\n"), 1):
            if somewhere.search(line):
                problems.append(f"{name}:{i}")
    if str(ROOT).encode() in library(args).read_bytes():
        problems.append("libphasor.a holds the path of its source")
    return problems_to(problems, f"{count} files")


def check_links(args):
    """Every file, heading, target, command, flag, function and promise that a page or a comment
    names is there.
    """
    program = ROOT / args.build / "phasor"
    if not program.is_file():
        raise Problem(f"{program.relative_to(ROOT)} is not there: make")
    found, count = links.problems(ROOT, tracked_files(), links.helps(program))
    return problems_to(found, f"{count} names")


def check_top_level(_):
    """Nothing lies at the top of the repository but what is meant to."""
    found = {name.split("/")[0] for name in tracked_files()}
    return problems_to(sorted(found - TOP_LEVEL), f"{len(found)} of {len(TOP_LEVEL)} names")
