#!/usr/bin/env python3
"""What a real-time thread may call takes no allocator, no lock that blocks and no system call:
RealtimeSanitizer watches, and is watched itself.

   check.py DIRECTORY COMPILER      DIRECTORY has walk and the objects of `make realtime`

* Every function that include/phasor.h marks PHASOR_NONBLOCKING, and a piece of a step on a worker,
    tells the sanitizer where it begins.
* Every one of them is taken by the walk: all golden models and the translator, every level, one
    thread and two. Nothing is reported.
* What is forbidden is reported: an allocation, a lock, reading, writing and sleeping, in the
    caller's own functions inside a step.
* The marks serve a caller's own check at compile time (-Wfunction-effects), in C99 and in C++17.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SMALL = "tests/golden/models/tiny-d2l-q8.phasor"
FORBIDDEN = {
    "malloc": "malloc",
    "lock": "pthread_mutex_lock",
    "read": "read",
    "write": "write",
    "sleep": "usleep",
}
CALLER = """#include <phasor.h>
int audio(phasor_session* s, const phasor_item* item) QUIET __attribute__((nonblocking));
int audio(phasor_session* s, const phasor_item* item) QUIET { return (int)%s; }
"""
WORKER = "run_share"  # src/runtime/parallel.cpp


def marked():
    text = (ROOT / "include/phasor.h").read_text()
    return set(re.findall(r"\b(phasor_\w+)\([^;{}]*\) PHASOR_NONBLOCKING;", text))


def told(directory):
    """Functions of the objects that call the sanitizer's entry."""
    found = set()
    for path in sorted(directory.glob("obj/**/*.o")):
        text = subprocess.run(
            ["objdump", "-dr", "--no-show-raw-insn", path],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for block in re.split(r"\n(?=[0-9a-f]+ <)", text):
            name = re.match(r"[0-9a-f]+ <(\w+)>", block)
            if name and "__rtsan_realtime_enter" in block:
                found.add(WORKER if WORKER in name[1] else name[1])
    return found


def run(*command):
    r = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )
    return r.returncode, r.stdout


def main():
    directory = Path(sys.argv[1]).resolve()
    walk = str(directory / "walk")
    problems, passed = [], 0

    def check(good, what, detail=""):
        nonlocal passed
        passed += bool(good)
        if not good:
            problems.append(what)
        print(f"{'ok  ' if good else 'FAIL'} {what}" + (f"\n{detail}" if not good else ""))

    names = marked()
    missing = sorted((names | {WORKER}) - told(directory))
    check(
        len(names) > 20 and not missing,
        f"{len(names)} functions and the pieces of a step on workers are watched",
        " ".join(missing),
    )

    models = sorted(
        str(p.relative_to(ROOT)) for p in (ROOT / "tests/golden/models").glob("*.phasor")
    )
    rc, text = run(walk, *models, "models/zh-en-small.phasor")
    taken = dict(re.findall(r"^took (\S+|\(.*\)) (\d+)$", text, re.M))
    last = text.strip().splitlines()[-1] if text.strip() else ""
    check(rc == 0, f"nothing is reported: {last}", text[-6000:])
    missing = sorted(names - set(taken))
    check(
        not missing and int(taken.get("(slides)", 0)) > 0,
        f"all of them were taken, {taken.get('phasor_step')} steps, "
        f"{taken.get('(pieces on workers)')} pieces on workers",
        " ".join(missing),
    )

    for what, call in FORBIDDEN.items():
        rc, text = run(walk, "--forbidden", what, SMALL)
        report = re.search(
            r"ERROR: RealtimeSanitizer: unsafe-library-call\s+"
            r"Intercepted call to real-time unsafe function `(\w+)`",
            text,
        )
        check(
            rc != 0 and report is not None and report[1] == call,
            f"{what} in a step is reported",
            f"ended with {rc}: {text[-2000:]}",
        )
    for language, flags in {
        "C99": "-x c -std=c99 -Wpedantic -DQUIET=",
        "C++17": "-x c++ -std=c++17 -DQUIET=noexcept",
    }.items():
        command = [
            sys.argv[2],
            *flags.split(),
            "-Wall",
            "-Wextra",
            "-Wfunction-effects",
            "-Werror",
            "-fsyntax-only",
            "-Iinclude",
            "-",
        ]
        results = [
            subprocess.run(command, cwd=ROOT, input=CALLER % call, capture_output=True, text=True)
            for call in ("phasor_step(s, item, 1, NULL)", "phasor_vector_run(s, 0, NULL, NULL)")
        ]
        fine = (
            results[0].returncode == 0
            and results[1].returncode != 0
            and "must not call non-'nonblocking' function 'phasor_vector_run'" in results[1].stderr
        )
        check(
            fine,
            f"a caller in {language} may call a step, and is warned of what is not marked",
            results[0].stderr + results[1].stderr,
        )
    print(f"realtime: {passed} passed, {len(problems)} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
