#!/usr/bin/env python3
"""The deepest stack of each function of the interface, from gcc's call graph (-fcallgraph-info=su):
no run can go deeper.

    stack.py DIRECTORY [--limit HEADER]    DIRECTORY has the .ci files of one build; HEADER has the
                                           constant kStackBytes

phasor_quantize is left out: it is for hosts.

A call through a pointer counts as the deepest of the functions that are called so and call through
no pointer themselves: the kernels and the readers of pages. The pointers of runtime/parallel.cpp
are to pieces of a job, which call these, and to a worker's share of a job, which calls a piece. The
pointers of src/text are to the tokenizers' models, which lie there too and call through none. The
caller's own callbacks and threads come on top. Functions of the compiler's library have no figure:
128 bytes for the deepest of them.
"""

import argparse
import re
import sys
from pathlib import Path

from phasor.entry import front_door

NODE = re.compile(
    r'node: \{ title: "([^"]+)" label: "[^"]*?([^"\\]*):\d+:\d+\\n(\d+) bytes \((\w+)[^)]*\)'
)
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
INDIRECT, LIBRARY = "__indirect_call", 128
JOBS = re.compile(r"src/runtime/parallel\.cpp:|^_ZN6phasor13spread_pieces")
TEXT = re.compile(r"src/text/\w+\.cpp$")


def read_graph(folder):
    """Bytes of each function, whom it calls, and in which file it is."""
    own, calls, files = {}, {}, {}
    objects = (p for p in Path(folder).rglob("*.o") if {"src", "cli"} & {*p.parts} == {"src"})
    missing = [p for p in objects if not p.with_suffix(".ci").exists()]
    if missing:  # a compiler's cache leaves them out: a bound without them would be too small
        sys.exit(f"{min(missing)}: has no .ci beside it; compile it again without a cache")
    for path in sorted(Path(folder).rglob("*.ci")):
        text = path.read_text()
        for name, file, size, kind in NODE.findall(text):
            if kind not in ("static", "dynamic") or kind == "dynamic" and "bounded" not in text:
                sys.exit(f"{path}: {name} has a stack of unknown size")
            own[name], files[name] = int(size), file
        for source, target in EDGE.findall(text):
            calls.setdefault(source, set()).add(target)
    return own, calls, files


def depths(own, calls, files):
    """{function: (bytes, the path)}; calls through pointers as the page above says."""
    called = {target for targets in calls.values() for target in targets}
    text = {f for f in own if TEXT.search(files[f])}
    models = [f for f in text if f not in called]
    for f in models:
        if INDIRECT in reachable(f, calls):
            sys.exit(f"{f} calls through a pointer, or nobody calls it")
    # Of a file's own functions the name begins with the file. Levels have some that are not.
    pointed = [
        f
        for f in own
        if f not in called and f not in text and ("src/" in f or "src/kernels/" in files[f])
    ]
    leaves = [f for f in pointed if INDIRECT not in reachable(f, calls)]
    shares = [f for f in pointed if f not in leaves and JOBS.search(f)]
    pieces = [f for f in pointed if f not in leaves and f not in shares]
    memo = {}

    def targets(f):
        for target in calls.get(f, ()):
            if target != INDIRECT:
                yield target
            elif f in text:
                yield from models
            elif JOBS.search(f):
                yield from (*leaves, *pieces, *(() if f in shares else shares))
            else:
                yield from leaves

    def depth(f, above):
        if f in above:
            sys.exit(f"{f} calls itself: {' '.join(above)}")
        if f not in memo:
            size, path = max((depth(target, (*above, f)) for target in targets(f)), default=(0, ()))
            memo[f] = (own.get(f, LIBRARY) + size, (f, *path))
        return memo[f]

    return {f: depth(f, ()) for f in own if f.startswith("phasor_") and f != "phasor_quantize"}


def reachable(f, calls):
    seen, todo = set(), [f]
    while todo:
        for target in calls.get(todo.pop(), ()):
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


@front_door("stack")
def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument(
        "--limit", type=Path, help="no function may go deeper than this header's constant says"
    )
    args = parser.parse_args()
    limit = (
        int(re.search(r"kStackBytes = (\d+);", args.limit.read_text())[1]) if args.limit else None
    )
    graph = read_graph(args.folder)
    own, found = graph[0], depths(*graph)
    if not found:
        sys.exit(
            f"{args.folder}: no function of the interface in it; compile with -fcallgraph-info=su"
        )
    for name, (size, _) in sorted(found.items(), key=lambda item: -item[1][0])[:8]:
        print(f"{size:8,}  {name}")
    name, (deepest, path) = max(found.items(), key=lambda item: item[1][0])
    print("deepest: " + " > ".join(f"{p.rsplit(':', 1)[-1][:60]} {own.get(p, '')}" for p in path))
    good = limit is None or deepest <= limit
    print(
        f"{'ok' if good else 'FAIL'} at most {deepest:,} bytes of stack"
        + (f", told are {limit:,}" if limit else "")
    )
    print(f"stack: {int(good)} passed, {int(not good)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
