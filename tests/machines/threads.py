#!/usr/bin/env python3
"""Python threads with one model, and the shared library under the thread sanitizer.

    LD_PRELOAD=$(gcc -print-file-name=libtsan.so) python3 tests/machines/threads.py LIBRARY
    …  LIBRARY --race       two threads in one session, without the lock that refuses the second

Eight threads translate, generate, embed, tokenize, verify and step with models that all of them
have open, each beginning with another job, and get what a thread alone gets. A report of the
sanitizer ends the program (TSAN_OPTIONS=halt_on_error=1), and so does another output.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/support")]

import numpy as np

import phasor
import random_models
from phasor.runtime import library

THREADS = 8
TEXTS = ["你叫什么名字？", "我有一只猫。"]


def at_once(work: Callable[[int], None]) -> list[BaseException]:
    """What went wrong in the threads, which begin together."""
    gate, wrong = threading.Barrier(THREADS), []

    def one(number: int) -> None:
        try:
            gate.wait()
            work(number)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def jobs(translator, language, encoder) -> list[Callable[[], object]]:
    def steps() -> bytes:
        with language.session(context=16) as session:
            return b"".join(np.array(session.step([i]).logits).tobytes() for i in (1, 2, 3))

    return [
        lambda: translator.translate(TEXTS),
        lambda: translator.translate(TEXTS[0], beam=3, n_best=2),
        lambda: list(language.stream("The game was", max_new=8, temperature=0.8, seed=7)),
        lambda: encoder.encode(["word1 word2", "word3"] * 9).tobytes(),
        lambda: language.verify(),
        lambda: translator.tokenize(TEXTS[0]),
        steps,
    ]


def main() -> int:
    path = Path(sys.argv[1]).absolute()
    library.place = lambda: (path, "make config=threads shared")
    with contextlib.ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "encoder.phasor"
        random_models.write_ranker(own, classes=3)
        files = [ROOT / "models/zh-en-small.phasor", ROOT / "models/positions/rotary.phasor", own]
        models = [stack.enter_context(phasor.load(f, threads=2)) for f in files]
        if "--race" in sys.argv:
            session = models[1].session(context=64)
            session.mine = contextlib.nullcontext  # what refuses the second thread
            at_once(lambda _: [session.step([1]) for _ in range(8)] and None)
            return 0
        todo = jobs(*models)
        alone = [job() for job in todo]

        def work(number: int) -> None:
            for i in range(number, number + len(todo)):
                at = i % len(todo)
                if (have := todo[at]()) != alone[at]:
                    raise AssertionError(f"job {at}: {have!r}, alone {alone[at]!r}")

        wrong = at_once(work)
    for error in wrong:
        print(f"threads: {error!r}", file=sys.stderr)
    print(f"{THREADS} Python threads, {len(todo)} jobs of {len(models)} models, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
