"""The tables that exist in each language say the same: the fields of the descriptor, the
activations, and the roles of tensors, in src/format, in tools/phasor/format and in file-format.md.

The engine's rows come from build/tables_driver; those of the roles have the values of a model in
them, so they are compared with what the converter's table makes of the same descriptor.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format.layout import PhasorError
from places import ROOT, told

MODELS = sorted((ROOT / "tests/golden/models").glob("*-f32.phasor"))
GENERATED = 200
SUPERSCRIPTS = {ord(c): str(i) for i, c in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
TYPE_NAMES = {D.U32: "u32", D.FLOAT: "f32", D.STRING: "string", D.IDS: "u32[]"}
# What a build with all words reads a matrix of.
MATRIX_TYPES = L.MATRICES


@pytest.fixture(scope="module")
def driver(phasor: Path) -> Path:
    path = phasor.parent / "tables_driver"
    if not path.is_file():
        pytest.skip(f"no {path}: run `make tests`")
    return path


def lines(program: Path, *words: object) -> list[list[str]]:
    command = [str(word) for word in (program, *words)]
    made = told(*command, timeout=60)
    return [line.split("\t") for line in made.splitlines()]


def pages() -> str:
    return (ROOT / "docs/reference/file-format.md").read_text()


def table(text: str, head: str) -> list[list[str]]:
    """The cells of the rows below the first line that begins with `head`."""
    rows = text[text.index(head) :].split("\n")[2:]
    end = next(i for i, row in enumerate(rows) if not row.startswith("|"))
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows[:end]]
    return [[cell.strip() for cell in row] for row in cells]


def number(text: str) -> int:
    """Of `2²⁴ − 1` and `65,536`."""
    text = re.sub(r"2([⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: str(1 << int(m[1].translate(SUPERSCRIPTS))), text)
    first, _, less = text.replace(",", "").partition(" − ")
    return int(first) - int(less or 0)


def bits(numbers: tuple[int, ...]) -> int:
    return sum(1 << n for n in numbers)


# ---- fields


def test_the_engine_has_the_fields_of_the_converter(driver):
    def engine(scope: str) -> dict[int, tuple]:
        here = [row for row in lines(driver) if row[0] == scope]
        return {int(n): (int(t), name, *map(int, rest)) for _, n, t, name, *rest, _ in here}

    for i, fields in enumerate(D.SCOPES.values()):
        ours = {
            f.number: (
                f.type,
                f.name,
                int(f.default is D.NEEDED),
                *((f.low, f.high) if f.type in (D.U32, D.IDS) else (0, 0)),
            )
            for f in fields
        }
        # Scopes 2 and 4 have the fields of 1 and 3.
        assert engine({2: "1", 4: "3"}.get(i, str(i))) == ours


def test_the_page_has_the_fields_of_the_converter():
    text = pages()
    for i, fields in enumerate(D.SCOPES.values()):
        if i in (2, 4):
            continue
        rows = table(text[text.index(f"### Scope {i}") :], "| field |")
        assert len(rows) == len(fields)
        for row, field in zip(rows, sorted(fields, key=lambda f: f.number)):
            ranged = field.type in (D.U32, D.IDS)
            low, _, high = row[3].removesuffix(" of them").partition(" … ")
            assert row[:3] == [str(field.number), TYPE_NAMES[field.type], field.name]
            assert ((number(low), number(high)) if ranged else row[3]) == (
                (field.low, field.high) if ranged else ""
            ), field
            assert (row[4] == "—") == (field.default is D.NEEDED), field
            if isinstance(field.default, (int, float)):
                assert float(row[4]) == field.default, field
            elif field.default is not D.NEEDED and field.default is not None:
                assert row[4] == {"": "none", (): "empty"}[field.default], field


def test_activations_are_those_of_the_engine_and_of_the_page(driver):
    choices = {(row[0], row[3]): row[7].split("|") for row in lines(driver)}
    names = [row.name for row in D.ACTIVATIONS]
    assert [row.number for row in D.ACTIVATIONS] == list(range(1, len(names) + 1))
    assert choices["5", "activation"] == names
    assert choices["6", "head_activation"] == ["none", *names]
    meanings = {
        row[2]: row[5] for row in table(pages()[pages().index("### Scope 5") :], "| field |")
    }
    feed_forward = [f"{row.number} {row.name}" for row in D.ACTIVATIONS if row.word]
    assert meanings["activation"] == ", ".join(feed_forward)


# ---- roles


def test_the_page_has_the_roles_of_the_converter():
    def code(text: str) -> str:
        return text.strip("`")

    layouts = {name: number for number, name in L.LAYOUTS.items()}
    rows = [
        R.Role(
            tuple(int(stack) for stack in stacks.split(", ")),
            int(role, 0),
            name,
            tuple(layouts[layout] for layout in layout_names.split(" or ")),
            code(parts),
            code(cols) or "1",
            code(when),
            kind == "any",
            L.F32 if kind == "any" else L.type_code(kind),
        )
        for stacks, role, name, kind, layout_names, parts, cols, when in table(
            pages(), "| stack | role |"
        )
    ]
    assert rows == R.ROLES


def test_the_engine_has_the_roles_of_the_converter(driver, tmp_path):
    """On models of every family, and on models that nobody wrote: rows, values and order."""
    files = list(MODELS)
    for seed in range(GENERATED):
        files.append(tmp_path / f"{seed}.phasor")
        lines(driver.parent / "generate_driver", seed, files[-1])
    there, seen = set(), set()
    for path in files:
        try:
            descriptor = PhasorFile(path).descriptor
        except PhasorError:
            continue  # what the engine reads past and the converter's reader refuses
        asked = []
        for key, is_there, layouts, types, name, cols, *parts in lines(driver, path):
            stack, role = int(key) >> 24, int(key) & 0xFF
            # The engine has the rows of cross-attention and of per-layer embeddings for an
            # encoder's side too, where none is there.
            table_stack = {R.ENCODER: R.DECODER, R.SOURCE: R.TARGET}.get(stack, stack)
            row = next(r for r in R.ROLES if table_stack in r.stacks and r.number == role)
            wanted = MATRIX_TYPES if row.matrix else (row.type,)
            assert (int(layouts), int(types), name) == (
                bits(row.layouts),
                bits(wanted),
                row.name,
            )
            seen.add((stack, role))
            if is_there == "1":
                there.add((stack, role))
                rows = tuple(int(part) for part in parts if part != "0")
                asked.append((int(key), rows, int(cols)))
        assert asked == [(s.key, s.parts, s.cols) for s in R.slots(descriptor)], path.name
    assert {(stack, row.number) for row in R.ROLES for stack in row.stacks} == there
    assert there <= seen
