#!/usr/bin/env python3
"""How much code there is, in lexical tokens: room by room, beside another revision's.

    tokens.py [REVISION]        `make tokens [BASE=revision]`

A room is a folder of src or of tools. Comments and layout cost nothing, nor does a comma before a
closing bracket; a string is one token. So clearer layout is free, and less code is less. What is
counted are the files as they lie here, but for those that git ignores, and the revision's.
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


COUNTERS = {".py": python_tokens, **dict.fromkeys((".c", ".h", ".cpp", ".hpp"), c_tokens)}


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def room_of(path):
    """The two folders in which it lies, src/kernels; of the package its room too."""
    parts = path.parent.parts
    return "/".join(parts[: 3 if parts[:2] == ("tools", "phasor") else 2])


def rooms(names, read):
    """{room: tokens}, and the sums of src and tools."""
    out = collections.Counter()
    for path in map(Path, names):
        if path.suffix in COUNTERS:
            count = COUNTERS[path.suffix](read(path))
            out[room_of(path)] += count
            out[f"{path.parts[0]}, all"] += count
    return out


@front_door("tokens")
def main():
    revision = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    where = ("--", "src", "tools")
    here = git("ls-files", "--cached", "--others", "--exclude-standard", *where).splitlines()
    now = rooms(filter(os.path.exists, here), lambda path: path.read_text())
    names = git("ls-tree", "-r", "--name-only", revision, *where).splitlines()
    then = rooms(names, lambda path: git("show", f"{revision}:{path}"))
    print(f"{'':24}{'now':>10}{revision[:12]:>14}{'change':>10}")
    for room in sorted({*now, *then}):
        print(f"{room:24}{now[room]:10,}{then[room]:14,}{now[room] - then[room]:+10,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
