"""How long a line, a function, a module and a call may be."""

import ast
import itertools
import re

from checks.common import ROOT, TOOLS, cpp_files, problems_to, tracked_files

LONGEST_LINE = 100
SOURCES = (".c", ".h", ".cpp", ".hpp", ".inc", ".py")


def check_lines(_):
    """No line of C++ or Python is longer than 100 characters."""
    problems, count = [], 0
    for name in tracked_files():
        path = ROOT / name
        if path.suffix not in SOURCES or not path.is_file():
            continue
        count += 1
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > LONGEST_LINE:
                problems.append(f"{name}:{i} has {len(line)} characters")
    return problems_to(problems, f"{count} files")


LONGEST_FUNCTION = 80
CPP_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^[ ]*\#(?:\\\n|[^\n])*"""
    r"""|\w+|[^\s\w]|\n""",
    re.S | re.M,
)
NO_FUNCTION = {"namespace", "struct", "class", "enum", "union", "extern", "="}
NO_FUNCTION |= {"if", "for", "while", "switch", "do", "else"}


def functions(text):
    """(first line, lines) of each function's definition: a block behind a list of parameters."""
    line, head, head_line, blocks = 1, [], 1, []
    for match in CPP_TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            outside = all(kind == "scope" for kind, _ in blocks)
            opens = {"namespace", "struct", "class", "union", "extern"} & set(head)
            is_function = ")" in head and not NO_FUNCTION & set(head)
            kind = "scope" if opens and "(" not in head else "function" if is_function else "block"
            blocks.append((kind if outside else "block", head_line))
            head = []
        elif token == "}":
            if blocks:
                kind, first = blocks.pop()
                if kind == "function":
                    yield first, line - first + 1
            head = []
        elif token == ";":
            head = []
        elif not token.isspace() and not token.startswith(("//", "/*", "#")):
            if not head:
                head_line = line
            head.append(token)
        line += token.count("\n")


def check_functions(_):
    """No function of src/ is longer than 80 lines without a comment that says why."""
    problems, count = [], 0
    # An .inc file has rows of tables.
    for path in (p for p in cpp_files() if p.suffix != ".inc"):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for first, length in functions(text):
            count += 1
            above = itertools.takewhile(
                lambda s: s.lstrip().startswith("//"), reversed(lines[: first - 1])
            )
            if length > LONGEST_FUNCTION and not any("in one piece" in s.lower() for s in above):
                problems.append(f"{path.relative_to(ROOT)}:{first} has {length} lines")
    return problems_to(problems, f"{count} functions")


MOST_LINES, MOST_ARGUMENTS = 500, 6
FRONT_DOOR = {"convert.py": 250}  # what it knows of a source goes to the source


def converter_modules():
    """(name, text) of each module of tools/phasor that somebody has written: the first paragraph of
    the others says what they are generated from, or by."""
    for path in sorted((TOOLS / "phasor").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Generated " not in text.split("\n\n", 1)[0]:
            yield path.relative_to(TOOLS / "phasor").as_posix(), text


def check_files(_):
    """No module of tools/phasor has more than 500 lines, but generated ones; convert.py 250."""
    found = {name: text.count("\n") for name, text in converter_modules()}
    problems = [
        f"{name} has {n} lines" for name, n in found.items() if n > FRONT_DOOR.get(name, MOST_LINES)
    ]
    return problems_to(problems, f"{len(found)} modules")


def check_arguments(_):
    """No call in tools/phasor passes more than six arguments by their places."""
    trees = {name: ast.parse(text) for name, text in converter_modules()}
    nodes = [(name, node) for name, tree in trees.items() for node in ast.walk(tree)]
    # These take any number of arguments.
    functions = [node for _, node in nodes if isinstance(node, ast.FunctionDef)]
    many = {function.name for function in functions if function.args.vararg}
    many |= {"struct.pack", "struct.pack_into"}
    calls = [(name, node) for name, node in nodes if isinstance(node, ast.Call)]
    problems = [
        f"{name}:{node.lineno} passes {len(node.args)}: name those behind the sixth"
        for name, node in calls
        if len(node.args) > MOST_ARGUMENTS
        and ast.unparse(node.func) not in many
        and not any(isinstance(given, ast.Starred) for given in node.args)
    ]
    return problems_to(problems, f"{len(calls)} calls")
