"""Mutants of the rooms that check strangers' files: `make mutants`.

    mutants.py write OUT    a copy of src in OUT/src in which every mutable expression of the
                            rooms has a switch (tests/mutants/schemata.h), and OUT/mutants.tsv
    mutants.py run OUT [--room=ROOM] [--mutant=NUMBER]…
                            tests/mutants/driver.cpp over all of them or some, and then
    mutants.py report OUT   what it found: a row for each room, and each survivor that has no
                            reason in tests/mutants/equivalent.txt

A mutant is one change of one expression:
    a < b        a <= b, and so on for each relation; of two sizes a == b also a <= b and a >= b
    a + b        a - b, and the reverse, of integers
    a condition  always true, always false
    a || b       without a, without b; always true       (a && b the same way)
What another mutant of the list is killed with in any case is not one: `a || b` always false dies
with each test that kills "without a". The condition of a loop is not made always true.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from phasor.entry import front_door

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = ROOT / "tests/mutants/equivalent.txt"
CLANG = "clang++-19"

ALL = None  # every function of the file
CHECK = {"check"}
BY_THE_COMPILER = {"bit", "bits", "make_tables", "choices_are_named"}  # never run
ROOMS: dict[str, dict[str, set[str] | None]] = {
    "format": {
        f"src/format/{name}": ALL
        for name in (
            *("bytes.h", "crc32c.cpp", "descriptor.cpp", "descriptor.h", "descriptor_checks.cpp"),
            *("file.cpp", "file.h", "tensors.cpp", "tensors.h", "vectors.cpp", "vectors.h"),
        )
    },
    "model": {f"src/model/{name}": ALL for name in ("check.cpp", "model.cpp", "model.h")},
    "plan": {"src/runtime/plan.cpp": ALL, "src/runtime/plan.h": ALL},
    "state": {"src/runtime/state.cpp": ALL},
    "text": {
        "src/text/section.cpp": ALL,
        "src/text/section.h": ALL,
        "src/text/package.cpp": ALL,
        "src/text/merges.cpp": {"check_merges", "merges_bytes", "reaches", "result", "index"},
        "src/text/merges.h": {"byte_id"},
        "src/text/pieces.cpp": {"compare", "byte_value"},
        "src/text/pieces.h": {"reserved", "row", "text_of"},
        "src/text/normalizer.cpp": {"normalizer_check"},
        "src/text/normalizer.h": {"children", "has_value", "is_value"},
        "src/text/pretokenizer.h": {"known_step"},
        "src/text/byte_bpe.cpp": {"check", "check_steps"},
        "src/text/char_bpe.cpp": CHECK,
        "src/text/metaspace.cpp": {"check_words", "check_merged", "check_unigram"},
        "src/text/sentencepiece.cpp": {"check_sentencepiece"},
        "src/text/unigram.cpp": CHECK,
        "src/text/word_list.cpp": CHECK,
    },
    "chat": {"src/text/chat/check.cpp": ALL, "src/text/chat/instructions.h": ALL},
}
ROOM_OF = {file: room for room, files in ROOMS.items() for file in files}

# The name in schemata.h of a relation and what it becomes.
RELATIONS = {
    "<": [("less", "<=")],
    "<=": [("less_equal", "<")],
    ">": [("greater", ">=")],
    ">=": [("greater_equal", ">")],
    "==": [("equal_or_less", "<="), ("equal_or_greater", ">=")],
    "!=": [("unequal_less", "<"), ("unequal_greater", ">")],
}
INTEGERS = re.compile(r"^(const )?(unsigned |signed )?(char|short|int|long|long long)$")
CONSTANT = re.compile(r"^('.+'|k[A-Z]\w*|PHASOR_\w+|\w+::\w+|[\d'xXa-fA-FuUlL]+|-1|nullptr)$")
# What is known when it is compiled is no check.
OF_THE_BUILD = re.compile(r"^(kHas\w+|kRedZones|true|false)$")


# ---- the syntax tree of clang, with the file of every place


class Tree:
    """One translation unit. Each place in clang's JSON has its file only where it changes."""

    def __init__(self, source: str):
        command = [CLANG, "-std=c++17", "-Iinclude", "-Isrc", "-fsyntax-only"]
        command += ["-Xclang", "-ast-dump=json", source]
        # a compiler's cache has objects, no trees
        env = {**os.environ, "CCACHE_DISABLE": "1"}
        made = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True)
        self.root = json.loads(made.stdout)
        self._file = ""
        self._places(self.root)

    def _places(self, node: object) -> None:
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting.extend(reversed(node))
            elif isinstance(node, dict):
                if "offset" in node and "tokLen" in node:
                    self._file = node.get("file", self._file)
                    node["path"] = self._file
                else:
                    waiting.extend(reversed(list(node.values())))


class Source:
    def __init__(self, path: str):
        self.path = path
        self.data = (ROOT / path).read_bytes()

    def line(self, offset: int) -> int:
        return self.data.count(b"\n", 0, offset) + 1

    def text(self, begin: int, end: int) -> str:
        return re.sub(r"\s+", " ", self.data[begin:end].decode())


def path_of(place: dict) -> str:
    path = Path(place.get("path", ""))
    path = path if path.is_absolute() else ROOT / path
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return ""


def extent(node: dict, sources: dict[str, Source]) -> tuple[str, int, int] | None:
    """File, first byte and end of an expression; None where that is in a macro's definition."""
    at = node.get("range", {})
    begin, end = at.get("begin", {}), at.get("end", {})
    if begin.get("expansionLoc", {}).get("isMacroArgExpansion"):
        return None
    begin = begin.get("expansionLoc", begin)
    path = path_of(begin)
    if path not in sources or "offset" not in end.get("expansionLoc", end):
        return None
    last = end.get("expansionLoc", end)
    stop = last["offset"] + last["tokLen"]
    if "expansionLoc" in end and sources[path].data[stop : stop + 1] == b"(":
        depth = 0
        for stop in range(stop, len(sources[path].data)):
            depth += {40: 1, 41: -1}.get(sources[path].data[stop], 0)
            if depth == 0:
                break
        stop += 1
    return path, begin["offset"], stop


def plain(node: dict) -> dict:
    """Without parentheses and what the compiler puts around."""
    while node.get("kind") in ("ParenExpr", "ImplicitCastExpr", "ExprWithCleanups") and node.get(
        "inner"
    ):
        node = node["inner"][0]
    return node


def type_of(node: dict) -> str:
    described = node.get("type", {})
    return described.get("desugaredQualType", described.get("qualType", ""))


# ---- candidates: what can be changed in one file


class Candidate:
    """One expression, its switches, and how they are written around it."""

    def __init__(self, at: tuple[str, int, int], depth: int, function: str):
        self.path, self.begin, self.end = at
        self.depth, self.function = depth, function
        self.operator: tuple[int, int, str] | None = None  # its place and what it is
        self.changes: list[tuple[str, str]] = []  # (name in schemata.h, what it becomes)


class Finder:
    SKIPPED = {"StaticAssertDecl", "ConstantExpr", "EnumConstantDecl", "TemplateArgument"}
    SKIPPED |= {"UnaryExprOrTypeTraitExpr", "TemplateTypeParmDecl", "NonTypeTemplateParmDecl"}
    FUNCTIONS = {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXConversionDecl"}

    def __init__(self, sources: dict[str, Source]):
        self.sources = sources
        self.found: dict[tuple, Candidate] = {}

    def walk(self, node: dict, function: str = "", depth: int = 0) -> None:
        kind = node.get("kind", "")
        if kind in self.SKIPPED or (kind == "VarDecl" and node.get("constexpr")):
            return
        if kind in self.FUNCTIONS and node.get("name", "") != "operator()":
            function = node.get("name", "")
        children = [child for child in node.get("inner", []) if child]
        if kind == "BinaryOperator" and node["opcode"] in RELATIONS:
            self.relation(node, function, depth)
        elif kind == "BinaryOperator" and node["opcode"] in ("+", "-"):
            self.sum(node, function, depth)
        condition = self.condition_of(node)
        if condition is not None:
            loop = kind in ("ForStmt", "WhileStmt", "DoStmt")
            self.condition(condition, {"never"} if loop else {"always", "never"}, function, depth)
        elif kind == "BinaryOperator" and node["opcode"] in ("&&", "||"):
            self.condition(node, {"always", "never"}, function, depth)
        for child in children:
            self.walk(child, function, depth + 1)

    @staticmethod
    def condition_of(node: dict) -> dict | None:
        kind, inner = node.get("kind"), node.get("inner", [])
        if kind == "IfStmt":
            odd = node.get("hasVar") or node.get("hasInit") or node.get("isConstexpr")
            return None if odd else inner[0]
        if kind == "ForStmt":
            return inner[2] or None
        if kind == "WhileStmt":
            return None if node.get("hasVar") else inner[0]
        if kind == "ConditionalOperator":
            return inner[0]
        if kind in ("ReturnStmt", "VarDecl") and inner and type_of(inner[-1]) == "bool":
            value = plain(inner[-1])
            logical = (*RELATIONS, "&&", "||", "!")
            return value if value.get("opcode") in logical else None
        return None

    def candidate(self, node: dict, layer: str, function: str, depth: int) -> Candidate | None:
        at = extent(node, self.sources)
        if at is None:
            return None
        only = ROOMS[ROOM_OF[at[0]]][at[0]]
        if function in BY_THE_COMPILER or (only is not None and function not in only):
            return None
        key = (*at, layer)
        return self.found.setdefault(key, Candidate(at, depth, function))

    def relation(self, node: dict, function: str, depth: int) -> None:
        c = self.binary(node, "relation", function, depth)
        if c is None or c.changes:
            return
        source = self.sources[c.path]
        left = source.text(c.begin, c.operator[0]).strip()
        right = source.text(c.operator[1], c.end).strip()
        if node["opcode"] in ("==", "!="):
            of_sizes = all(INTEGERS.match(type_of(plain(side))) for side in node["inner"])
            if not of_sizes or CONSTANT.match(left) or CONSTANT.match(right):
                return
        c.changes = RELATIONS[node["opcode"]]

    def sum(self, node: dict, function: str, depth: int) -> None:
        if not all(INTEGERS.match(type_of(n)) for n in (node, *node["inner"])):
            return
        c = self.binary(node, "relation", function, depth)
        if c is not None and not c.changes:
            c.changes = [("plus", "-")] if node["opcode"] == "+" else [("minus", "+")]

    def binary(self, node: dict, layer: str, function: str, depth: int) -> Candidate | None:
        """With the place of the operator, which stands alone between its operands."""
        left, right = (extent(side, self.sources) for side in node["inner"])
        if left is None or right is None or left[0] != right[0]:
            return None
        source = self.sources[left[0]]
        between = source.data[left[2] : right[1]].decode()
        bare = re.sub(r"//[^\n]*|/\*.*?\*/", "", between)
        if bare.strip() != node["opcode"]:
            return None
        c = self.candidate(node, layer, function, depth)
        if c is not None:
            start = left[2] + len(between[: between.index(node["opcode"])].encode())
            c.operator = (start, start + len(node["opcode"]), node["opcode"])
        return c

    def condition(self, node: dict, forces: set[str], function: str, depth: int) -> None:
        """`forces`: what the value may be made without being another mutant's twin."""
        inside = plain(node)
        opcode = inside.get("opcode")
        at = extent(inside, self.sources)
        if at is None or (*at, "condition") in self.found:
            return
        if inside.get("kind") == "ConditionalOperator":
            for side in inside["inner"][1:]:
                self.condition(side, forces, function, depth + 1)
            return
        if inside.get("kind") == "UnaryOperator" and opcode == "!":
            swap = {"always": "never", "never": "always"}
            self.condition(inside["inner"][0], {swap[f] for f in forces}, function, depth + 1)
            return
        c = self.candidate(inside, "condition", function, depth)
        if c is None:
            return
        if inside.get("kind") == "BinaryOperator" and opcode in ("&&", "||"):
            identity, whole = ("always", "never") if opcode == "&&" else ("never", "always")
            forces = forces & {whole}
            for side in inside["inner"]:
                self.condition(side, {identity}, function, depth + 1)
        text = self.sources[c.path].text(c.begin, c.end)
        if not OF_THE_BUILD.match(text):
            c.changes = [(f, "true" if f == "always" else "false") for f in sorted(forces)]


# ---- writing


def number_of_first(files: list[str], counts: dict[str, int]) -> dict[str, int]:
    """Each file has numbers of its own, so that a change in one does not compile the others."""
    first, next_free = {}, 1
    for path in files:
        first[path] = next_free
        next_free += (counts[path] + 149) // 100 * 100
    return first


def rewrite(source: Source, candidates: list[Candidate], number: int) -> tuple[bytes, list[tuple]]:
    """The file with its switches, and a row for each mutant."""
    edits: list[tuple[int, int, int, int, str]] = []  # place, end, order twice, text
    rows = []
    for c in sorted(candidates, key=lambda c: (c.begin, -c.end, c.depth)):
        original = source.text(c.begin, c.end)
        for name, becomes in c.changes:
            if c.operator is not None and name not in ("always", "never"):
                left = source.text(c.begin, c.operator[0]).strip()
                right = source.text(c.operator[1], c.end).strip()
                becomes = f"{left} {becomes} {right}"
            rows.append((number, source.path, source.line(c.begin), c.function, original, becomes))
            number += 1
        last = number - 1
        names = [name for name, _ in c.changes]
        around = "".join(f"mutants::{n}({last - i}, " for i, n in enumerate(reversed(names)))
        if c.operator is None:
            around += "static_cast<bool>("
            closing = ")" * (len(names) + 1)
        else:
            # both changes of an equality are one switch of two numbers
            around = f"mutants::{names[0]}({last - len(names) + 1}, "
            if len(names) == 2:
                around = f"mutants::{names[0].split('_')[0]}({last - 1}, "
            closing = ")"
            edits.append((c.operator[0], c.operator[1], 1, 0, ","))
        edits.append((c.begin, c.begin, 1, c.depth, around))
        edits.append((c.end, c.end, 0, -c.depth, closing))
    edits.sort(key=lambda e: (e[0], e[2], e[3]))
    out, at = [b'#include "mutants/schemata.h"\n'], 0
    for begin, end, _, _, text in edits:
        out += [source.data[at:begin], text.encode()]
        at = end
    return b"".join([*out, source.data[at:]]), rows


def write_if_changed(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)


def write(out: Path) -> None:
    sources = {path: Source(path) for path in ROOM_OF}
    finder = Finder(sources)
    units = [path for path in ROOM_OF if path.endswith(".cpp")]
    for unit in units:
        finder.walk(Tree(unit).root)
    by_file: dict[str, list[Candidate]] = {path: [] for path in ROOM_OF}
    for c in finder.found.values():
        if c.changes:
            by_file[c.path].append(c)
    for path in units:
        if not by_file[path]:
            sys.exit(f"mutants: {path}: nothing to change: is clang's tree whole?")
    counts = {path: sum(len(c.changes) for c in found) for path, found in by_file.items()}
    first = number_of_first(list(ROOM_OF), counts)
    table = []
    for path in sorted(ROOT.glob("src/**/*")):
        name = str(path.relative_to(ROOT))
        if path.is_file() and not by_file.get(name):
            write_if_changed(out / name, path.read_bytes())
    for path, found in by_file.items():
        if found:
            text, rows = rewrite(sources[path], found, first[path])
            write_if_changed(out / path, text)
            table += [(number, ROOM_OF[path], *row) for number, *row in rows]
    for old in (out / "src").rglob("*.[ch]*"):
        if not (ROOT / old.relative_to(out)).is_file():
            old.unlink()
    shutil.copytree(ROOT / "include", out / "include", dirs_exist_ok=True)
    lines = ["\t".join(map(str, row)) for row in sorted(table)]
    write_if_changed(out / "mutants.tsv", ("\n".join(lines) + "\n").encode())
    print(f"{len(table)} mutants in {sum(1 for found in by_file.values() if found)} files")


# ---- running, and the report


class Mutant:
    """A row of mutants.tsv. Its key stays when lines move: file, function, text, change, and which
    of several such places in the function."""

    def __init__(self, row: str, before: dict[str, int]):
        self.number, self.room, self.file, self.line, self.function, text, becomes = row.split("\t")
        key = f"{self.file} {self.function}: {text} -> {becomes}"
        before[key] = before.get(key, 0) + 1
        self.key = key + (f" ({before[key]})" if before[key] > 1 else "")
        self.outcome = self.by = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: [{self.number}]{self.key[len(self.file) :]}"


def table(out: Path) -> list[Mutant]:
    before: dict[str, int] = {}
    return [Mutant(row, before) for row in (out / "mutants.tsv").read_text().splitlines()]


def reasons() -> dict[str, str]:
    """A key at the start of a line; below it, indented, why the change makes no difference. Several
    keys may share one reason."""
    found: dict[str, str] = {}
    keys: list[str] = []
    for line in EQUIVALENT.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            keys = []
        elif line[0] != " ":
            keys = [key for key in keys if not found[key]] + [line]
            found[line] = ""
        else:
            for key in keys:
                found[key] = f"{found[key]} {line.strip()}".strip()
    return found


def run(out: Path, words: list[str]) -> int:
    all_of_them = table(out)
    rooms = {word[7:] for word in words if word.startswith("--room=")}
    numbers = {word[9:] for word in words if word.startswith("--mutant=")}
    wanted = [
        m
        for m in all_of_them
        if (not rooms or m.room in rooms) and (not numbers or m.number in numbers)
    ]
    if not wanted:
        sys.exit(f"mutants: none of {' '.join(words)}")
    # most die by a fast test; the slow ones are for those that survive and have no reason
    known = reasons()
    outcomes: dict[str, str] = {}
    for seconds in ("0.1", os.environ.get("UNIT_SECONDS", "1")):
        alive = [m for m in wanted if "\tkilled\t" not in outcomes.get(m.number, "")]
        if outcomes:
            alive = [m for m in alive if m.key not in known]
        if not alive:
            break
        command = [out / "driver", out, *(m.number for m in alive)]
        subprocess.run(command, env={**os.environ, "UNIT_SECONDS": seconds}, check=True)
        for row in (out / "outcome.tsv").read_text().splitlines(keepends=True):
            outcomes[row.split("\t")[0]] = row
    (out / "outcome.tsv").write_text("".join(outcomes.values()))
    return report(out, partly=len(wanted) != len(all_of_them))


def report(out: Path, partly: bool) -> int:
    mutants = {m.number: m for m in table(out)}
    for row in (out / "outcome.tsv").read_text().splitlines():
        number, outcome, by = row.split("\t")
        mutants[number].outcome, mutants[number].by = outcome, by
    tried = [m for m in mutants.values() if m.outcome]
    known = reasons()
    survivors = [m for m in tried if m.outcome == "survived"]
    columns = ("mutants", "killed", "explained", "survived", "killed or explained")
    print(f"{'room':<8}" + "".join(f"{column:>{len(column) + 3}}" for column in columns))
    for room in (*ROOMS, "all"):
        here = [m for m in tried if room in (m.room, "all")]
        left = [m for m in here if m.outcome == "survived"]
        explained = sum(1 for m in left if m.key in known)
        if here:
            counts = (len(here), len(here) - len(left), explained, len(left) - explained)
            share = 100 * (1 - counts[-1] / len(here))
            cells = (*map(str, counts), f"{share:.1f} %")
            print(f"{room:<8}" + "".join(f"{c:>{len(n) + 3}}" for n, c in zip(columns, cells)))
    wrong = 0
    for m in survivors:
        if m.key not in known:
            wrong += 1
            print(f"{m}  ({m.by})")
    for key in [key for key in known if key not in {m.key for m in mutants.values()}]:
        wrong += 1
        print(f"{EQUIVALENT.relative_to(ROOT)}: no such mutant: {key}")
    for m in tried:
        if m.outcome == "killed" and m.key in known:
            wrong += 1
            print(f"{EQUIVALENT.relative_to(ROOT)}: killed by {m.by}: {m.key}")
    if not wrong:
        print("every survivor has its reason" + (" (of those tried)" if partly else ""))
    return 1 if wrong else 0


@front_door("mutants")
def main() -> int:
    words = sys.argv[1:]
    if len(words) >= 2 and words[0] in ("write", "run", "report"):
        out = Path(words[1])
        if words[0] == "write":
            write(out)
            return 0
        return run(out, words[2:]) if words[0] == "run" else report(out, partly=False)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
