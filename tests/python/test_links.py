"""The check of links (tools/make/links.py) sees what is not there, of each kind, and nothing
else."""

import pytest

from make import links

HELPS = """phasor COMMAND MODEL [ARGUMENTS]: a program

  run       MODEL              text
phasor run MODEL: text
  --beam N                   beams
"""
FILES = {
    "README.md": "# Page\n\n| 1 | **Bits** | tests |\n\n[there](docs/one.md#a-heading-here)\n",
    "docs/one.md": "## A heading, `here`\n",
    "src/code.h": "int phasor_open(int);  // docs/one.md\n",
    "Makefile": "all: code\nWHICH ?= 1\n",
}
THERE = """`src/code.h`, `src/*.h`, `src/NAME.h`, `src/{code,code}.h`, `make all WHICH=2`,
`phasor run M`, `phasor run M --beam 2`, `phasor_open`, `code.h`, [top](../README.md), promise 1

```
make all
 src/new.cpp | 3 +
```
"""


def found(tmp_path, page):
    files = {**FILES, "docs/page.md": page}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return links.problems(tmp_path, list(files), HELPS)[0]


def test_what_is_there_is_no_problem(tmp_path):
    assert found(tmp_path, THERE) == []


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("`src/gone.h`", "path src/gone.h"),
        ("`src/{code,gone}.h`", "path src/gone.h"),
        ("`gone.cpp`", "file gone.cpp"),
        ("[gone](gone.md)", "link gone.md"),
        ("[gone](one.md#gone)", "link one.md#gone"),
        ("`make gone`", "target gone"),
        ("`make all GONE=1`", "variable GONE"),
        ("```sh\nbuild/phasor run m --gone\n```", "flag gone"),
        ("`phasor gone M`", "command gone"),
        ("`phasor_gone`", "name phasor_gone"),
        ("`gone_function()`", "word gone_function"),
        ("`promise 7`", "promise 7"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, page, said):
    assert any(
        line == f"docs/page.md:1: {said}" or line.endswith(said) for line in found(tmp_path, page)
    )


def test_comments_are_looked_at(tmp_path):
    assert found(tmp_path, "x\n") == []
    (tmp_path / "src/code.h").write_text("int a;  // docs/gone.md, and phasor_gone\n")
    both = links.problems(tmp_path, list(FILES), HELPS)[0]
    assert [line.split(": ")[1] for line in both] == ["path docs/gone.md", "name phasor_gone"]
