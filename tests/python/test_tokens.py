"""`make tokens`: which files count where."""

from make import tokens

FILES = {
    "src/a.h": "// Written by hand.\nint a;\n",
    "src/b.inc": "// Generated from facts.toml by `make generate`: edit that, not this.\nint b;\n",
    "src/facts.toml": '# A table.\n[a]\nname = "one"  # it\n',
    "tests/c.py": "a = [\n    1,\n]\n",
    "tests/c.txt": "int a, b, c;\n",
}


def test_generated_files_count_apart():
    sums = tokens.rooms(FILES, lambda path: FILES[str(path)])[1]
    assert sums == {"src, all": 3 + 6, "tests, all": 5, "generated": 3}
