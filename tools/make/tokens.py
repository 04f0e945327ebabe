#!/usr/bin/env python3
"""How much code there is, in lexical tokens: room by room, beside another revision's.

    tokens.py [REVISION]        `make tokens [BASE=revision]`

A room is a folder of src, tools or tests. Comments and layout cost nothing, nor does a comma before
a closing bracket; a string is one token. So clearer layout is free, and less code is less. TOML
counts too. A file whose first line says "Generated … `make …`" counts under "generated" alone,
because nobody writes it. Files that git ignores are left out.
"""

import collections
import io
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

from phasor.entry import front_door

GENERATED = re.compile(r"Generated .*`make ")
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
C_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
    r"|[A-Za-z_]\w*"
    r"|\.?\d(?:[eEpP][+-]|[\w.'])*"
    r"|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^=!<>]=|::|##"
    r"|[^\s\w]",
    re.S,
)


def python_tokens(text):
    words = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in LAYOUT and token.type != tokenize.ENDMARKER
    ]
    trailing = sum(a == "," and b in ")]}" for a, b in zip(words, words[1:]))
    return len(words) - trailing


def c_tokens(text):
    return sum(found["comment"] is None for found in C_TOKEN.finditer(text.replace("\\\n", " ")))


def toml_tokens(text):
    return c_tokens(re.sub(r"""("[^"\n]*"|'[^'\n]*')|#[^\n]*""", r"\1", text))


COUNTERS = {
    ".py": python_tokens,
    ".toml": toml_tokens,
    **dict.fromkeys((".c", ".h", ".cpp", ".hpp", ".inc"), c_tokens),
}


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def room_of(path):
    """The two folders in which it lies, src/kernels; of the package its room too."""
    parts = path.parent.parts
    return "/".join(parts[: 3 if parts[:2] == ("tools", "phasor") else 2])


def rooms(names, read):
    """({room: tokens}, {sum: tokens}): the sums of src, tools, tests and what is generated."""
    rooms, sums = collections.Counter(), collections.Counter({"generated": 0})
    for path in map(Path, names):
        if path.suffix in COUNTERS:
            text = read(path)
            count = COUNTERS[path.suffix](text)
            if GENERATED.search(text.partition("\n")[0]):
                sums["generated"] += count
            else:
                rooms[room_of(path)] += count
                sums[f"{path.parts[0]}, all"] += count
    return rooms, sums


def show(now, then):
    for name in sorted({*now, *then}):
        print(f"{name:24}{now[name]:10,}{then[name]:14,}{now[name] - then[name]:+10,}")


@front_door("tokens")
def main():
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    where = ("--", "src", "tools", "tests")
    here = git("ls-files", "--cached", "--others", "--exclude-standard", *where).splitlines()
    now = rooms(filter(os.path.exists, here), lambda path: path.read_text())
    names = git("ls-tree", "-r", "--name-only", revision, *where).splitlines()
    then = rooms(names, lambda path: git("show", f"{revision}:{path}"))
    print(f"{'':24}{'now':>10}{revision[:12]:>14}{'change':>10}")
    for pair in zip(now, then):
        show(*pair)
    return 0


if __name__ == "__main__":
    sys.exit(main())
