"""What pages and comments name must exist: files, headings, make's targets, commands, flags,
functions and constants. `tools/check.py links` runs it.

A page is a tracked .md file; a comment is one of the C++, Python and make sources. Looked at are
the targets of links, the code spans and code blocks of pages, and the words of comments. A word in
capitals, `*` or `…` inside a path stands for any name. What is somebody else's (flags of pip or
gcc, files of a checkpoint) is listed below, each with whose it is.
"""

import fnmatch
import io
import os
import re
import subprocess
import tokenize
from pathlib import Path
from typing import Iterator, NamedTuple

# Pages that tell what was: their names need not be there any more.
HISTORY = {"CHANGELOG.md", "docs/design/performance-log.md"}
SCRIPTS = (".mk", ".sh", ".cmake", "Makefile", "CMakeLists.txt")  # whose comments begin with #
SOURCES = (".c", ".h", ".cpp", ".hpp", ".py", *SCRIPTS)
FENCE = re.compile(r"^( *)(```+)(\w*)[^\n]*\n(.*?)^\1\2", re.S | re.M)
SPAN = re.compile(r"(`+)(.+?)\1", re.S)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)
PATH = re.compile(r"(?<![\w/.:~<$-])((?:[\w.*%{},…-]+/)+[\w.*%{},…-]*[\w*}…])(?![%$])")
FILE = re.compile(r"(?<![\w/.*-])(\w[\w-]*\.(?:cpp|hpp|h|py|mk|sh|md))\b(?![\w/(])")
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])(?![\w-]|\.[a-z])")
WORD = re.compile(r"-\w+|[A-Za-z_0-9]+=(?:'[^']*'|\S*)|[a-z][\w./-]*")
MAKE = re.compile(
    r"(?:^|[;&(]\s*|[A-Z_]+=\S*\s)"
    r"make((?: +(?:-\w+|[A-Za-z_0-9]+=(?:'[^']*'|\S*)|[a-z][\w./-]*))+)",
    re.M,
)
DIFFSTAT = re.compile(r"^ \S+ +\| +\d+ .*$", re.M)  # of a trial on a branch
COMMAND = re.compile(r"(?:^|[\s(/`])phasor ([a-z]+)(?= [A-Z-]|$| models/)", re.M)
# A span that is one name with an underscore or with parentheses: a function, a type, a variable.
IDENTIFIER = re.compile(r"(?:\w+(?:::|\.))*(\w*_\w+|\w+(?=\())(?:\([^()]*\))?")
SNAKE = re.compile(r"(?<![\w/.-])((?!phasor_)[a-z]\w*_\w+|\w+(?=\(\)))(?![\w./-])")
PROGRAM = re.compile(r"(?:^|[\s(/])phasor ([a-z]+) ([^\n|;>]*)", re.M)
# What `phasor COMMAND --help` of all commands prints, one after the other.
PART = re.compile(r"^phasor ([a-z]+) (.*?)(?=^phasor |\Z)", re.S | re.M)
NAME = re.compile(r"\b(phasor_\w+|PHASOR_\w+)(?![\w*…])")

# Files that are none of this repository's, by the form of their names.
FOREIGN_FILES = """
    modeling_*.py configuration_*.py tokenization_*.py convert_*.py sqlite3.h train.py model.py
    arm_neon.h immintrin.h avx512fintrin.h stddef.h stdint.h stdio.h math.h zstd.h
    llama.cpp test-gguf.cpp activations.py export.py prepare.py zh_en.h inputs.h
""".split()
# Names of somebody else's functions and fields, and of formulas.
FOREIGN_WORDS = set("arch_prctl string_view llama_ftype self_test_data a_ij".split())
# Names of keys in the files of checkpoints.
FOREIGN_KEYS = "tools/phasor/side_files.toml"
# The variables of a package of Buildroot that is called phasor.
FOREIGN_WORDS |= {
    f"PHASOR_{name}"
    for name in "VERSION SITE SITE_METHOD LICENSE LICENSE_FILES MAKE_ARGS BUILD_CMDS".split()
    + "INSTALL_STAGING INSTALL_STAGING_CMDS INSTALL_TARGET_CMDS".split()
}
# Flags of programs that pages call, by whose they are.
FOREIGN_FLAGS = {
    "compilers and linkers": "gc-sections no-enable-sse4-1",
    "doctest": "test-case",
    "buildroot, cmake": "toolchain",
    "pkg-config": "cflags libs",
    "node": "no-liftoff",
    "strace": "inject",
    "llama.cpp": "merge",
    "Bochs": "enable-x86-64 enable-avx enable-evex enable-amx enable-all-optimizations with-nogui",
}


class Named(NamedTuple):
    """Something that a page or a comment names."""

    where: str  # page:line
    kind: str
    name: str


def python_parts(text: str) -> Iterator[tuple[int, bool, str]]:
    """(line, whether it is a comment or a docstring, text) of a module's tokens."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        alone = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        docstring = token.type == tokenize.STRING and alone
        yield token.start[0], docstring or token.type == tokenize.COMMENT, token.string
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type


C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def comments(path: str, text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment of a source."""
    if path.endswith(".py"):
        yield from ((line, part) for line, said, part in python_parts(text) if said)
    elif path.endswith(SCRIPTS):
        for i, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#"):
                yield i, line
    else:
        for match in C_COMMENT.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, match.group()


def without_comments(path: str, text: str) -> str:
    if path.endswith(".py"):
        return " ".join(part for _, said, part in python_parts(text) if not said)
    if path.endswith(SCRIPTS):
        return re.sub(r"^\s*#.*", "", text, flags=re.M)
    return C_COMMENT.sub(" ", text)


def code_of(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, kind, code) of a page's code blocks and code spans."""
    rest = list(text)
    for match in FENCE.finditer(text):
        if match[3] in ("", "sh", "c", "cpp", "cmake", "make", "toml"):
            yield text.count("\n", 0, match.start()) + 2, match[3] or "text", match[4]
        for i in range(*match.span()):
            if rest[i] != "\n":
                rest[i] = " "
    prose = "".join(rest)
    for match in SPAN.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, "span", match[2]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def braces(name: str) -> list[str]:
    """a{b,c} as ab and ac."""
    match = re.search(r"\{([^{}]*)\}", name)
    if match is None:
        return [name]
    head, tail = name[: match.start()], name[match.end() :]
    return [done for part in match[1].split(",") for done in braces(head + part + tail)]


class Tree:
    """What there is: tracked files, make's targets and variables, commands, flags, names of C."""

    def __init__(self, root: Path, files: list[str], helps: str) -> None:
        self.root = root
        self.files = set(files)
        self.folders = {
            "/".join(f.split("/")[:n]) for f in files for n in range(1, f.count("/") + 1)
        }
        self.tops = {f.split("/")[0] for f in files if "/" in f}
        self.names = {f.rsplit("/", 1)[-1] for f in files}
        self.texts = {f: self._text(f) for f in files if f.endswith((*SOURCES, ".md"))}
        make = "\n".join(t for f, t in self.texts.items() if f.endswith((".mk", "Makefile")))
        self.targets = {
            name
            for line in re.findall(r"^([\w./$()%: -]+?):(?![=:])", make, re.M)
            for name in line.split()
        } | {name for line in re.findall(r"^\.PHONY: *(.*)", make, re.M) for name in line.split()}
        self.variables = set(re.findall(r"\b([A-Za-z_]\w*)\b", make))
        self.commands = set(re.findall(r"^  ([a-z]+) ", helps, re.M)) | {"help"}
        sources = "\n".join(t for f, t in self.texts.items() if not f.endswith(".md"))
        self.flags = set(re.findall(r"--([a-z][a-z0-9-]*[a-z0-9])", helps))
        self.flags |= set(
            re.findall(r"""["'](?:[^"'\n]*[ =])?--([a-z][a-z0-9-]*[a-z0-9])""", sources)
        )
        # A tool that makes its flags in a loop has their names as words.
        for text in self.texts.values():
            if 'f"--{' in text:
                self.flags |= set(re.findall(r'"([a-z][a-z0-9-]+)"', text))
        self.flags |= {f"no-{name}" for name in self.flags}
        self.flags |= {word for words in FOREIGN_FLAGS.values() for word in words.split()}
        code = (without_comments(f, t) for f, t in self.texts.items() if not f.endswith(".md"))
        self.words = {word for text in code for word in re.findall(r"\w+", text)}
        self.promises = set(re.findall(r"^\| (\d) \| \*\*", self.texts.get("README.md", ""), re.M))
        self.words |= set(re.findall(r"\w+", self._text(FOREIGN_KEYS)))
        self.words |= FOREIGN_WORDS | {name.partition(".")[0] for name in self.names}
        self.of_command = {name: set(FLAG.findall(part)) for name, part in PART.findall(helps)}

    def _text(self, name: str) -> str:
        path = self.root / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def has(self, name: str) -> bool:
        """A file, a folder or several, whose parts in capitals or with * or … are anything's."""
        name = name.rstrip("/")
        pattern = "/".join(re.sub(r"\b[A-Z][A-Z_]*\b|…", "*", part) for part in name.split("/"))
        if "*" not in pattern:
            return pattern in self.files or pattern in self.folders
        return any(fnmatch.fnmatchcase(f, pattern) for f in self.files | self.folders)


def helps(program: Path) -> str:
    """What the program's --help prints, and that of each command."""

    def said(*words: str) -> str:
        return subprocess.run([program, *words, "--help"], capture_output=True, text=True).stdout

    first = said()
    return first + "".join(map(said, re.findall(r"^  ([a-z]+) ", first, re.M)))


def named(tree: Tree) -> Iterator[Named]:
    for page, text in sorted(tree.texts.items()):
        if page in HISTORY:
            continue
        if page.endswith(".md"):
            for match in LINK.finditer(FENCE.sub(lambda m: "\n" * m[0].count("\n"), text)):
                yield Named(f"{page}:{text.count(chr(10), 0, match.start()) + 1}", "link", match[1])
            for line, kind, code in code_of(text):
                yield from words(f"{page}:{line}", code, kind)
        elif not page.startswith("tests/old_caller/"):
            for line, comment in comments(page, text):
                yield from words(f"{page}:{line}", comment, "comment")


def words(where: str, code: str, kind: str) -> Iterator[Named]:
    code = " ".join(code.split()) if kind == "span" else DIFFSTAT.sub("", code)
    for match in PATH.finditer(code):
        for path in braces(match[1]):
            yield Named(where, "path", path)
    for match in FILE.finditer(code):
        yield Named(where, "file", match[1])
    for match in FLAG.finditer(code):
        yield Named(where, "flag", match[1])
    for match in re.finditer(r"\bpromise (\d)", code):
        yield Named(where, "promise", match[1])
    for match in NAME.finditer(code):
        yield Named(where, "name", match[1])
    if kind == "comment":
        for match in SNAKE.finditer(code):
            yield Named(where, "word", match[1])
    if kind == "span" and (match := IDENTIFIER.fullmatch(code)):
        yield Named(where, "word", match[1])
    if kind != "comment":
        for match in COMMAND.finditer(code):
            yield Named(where, "command", match[1])
        for match in PROGRAM.finditer(code):
            for flag in FLAG.findall(match[2]):
                yield Named(where, "flag of", f"{match[1]} {flag}")
    if kind in ("span", "sh", "comment"):
        for match in MAKE.finditer(
            code if kind != "comment" else " ".join(re.findall("`[^`]*`", code))
        ):
            for word in WORD.findall(match[1]):
                if "=" in word:
                    yield Named(where, "variable", word.split("=")[0])
                elif not word.startswith("-") and "." not in word:
                    yield Named(where, "target", word)


def missing(tree: Tree, one: Named) -> bool:
    page = one.where.rsplit(":", 1)[0]
    if one.kind == "link":
        target, _, anchor = one.name.partition("#")
        if "://" in target or target.startswith("mailto:"):
            return False
        path = page
        if target:
            path = os.path.normpath(Path(page).parent / target)
            if not tree.has(path):
                return True
        return bool(anchor) and anchor not in {
            slug(h) for h in HEADING.findall(tree.texts.get(path, ""))
        }
    if one.kind == "path":
        parts = one.name.split("/")
        if parts[0] not in tree.tops or parts[0] == "build":
            return False
        return not tree.has(one.name) and not tree.has(f"{Path(page).parent}/{one.name}")
    if one.kind == "file":
        form = re.sub(r"(?<![a-z])[A-Z]{2,}(?![a-z])", "*", one.name)  # NAME: anything's
        ours = any(fnmatch.fnmatchcase(name, form) for name in tree.names)
        return not ours and not any(fnmatch.fnmatchcase(one.name, f) for f in FOREIGN_FILES)
    if one.kind == "target":
        return (
            one.name not in tree.targets
            and not one.name.startswith("build/")
            and not any(fnmatch.fnmatchcase(one.name, t.replace("%", "*")) for t in tree.targets)
        )
    if one.kind == "flag of":
        command, flag = one.name.split()
        return command in tree.of_command and flag not in tree.of_command[command]
    if (
        one.kind in ("name", "word")
        and re.search(r"(?:^|_)[A-Z]+$", one.name)
        and not one.name.isupper()
    ):
        return False  # run_NAME: anything's
    if one.kind in ("name", "word") and one.name.endswith("_"):  # the beginning of several
        return not any(word.startswith(one.name) for word in tree.words)
    there = {
        "flag": tree.flags,
        "name": tree.words,
        "word": tree.words,
        "promise": tree.promises,
        "variable": tree.variables,
        "command": tree.commands,
    }
    return one.name not in there[one.kind]


def problems(root: Path, files: list[str], helps: str) -> tuple[list[str], int]:
    """(what is named and is not there, how many names there are)."""
    tree = Tree(root, files, helps)
    found, count = [], 0
    for one in named(tree):
        count += 1
        if missing(tree, one):
            found.append(f"{one.where}: {one.kind} {one.name}")
    return found, count
