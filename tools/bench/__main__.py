"""The benchmarks beside the peers: `make bench`, or some of them with `make bench ROWS="decode
15m"`.

    PYTHONPATH=tools python3 -m bench [ROW...] [--runs 5] [--threads 1 2] [--build build] [--page
    docs/performance.md]

ROW: decode (a 135M Llama: steps and prompts of 512, beside llama.cpp and CTranslate2), 15m (a 15M
one), growth (with context, prompt, batch, model size), translator (two translators beside
CTranslate2), encoder (MiniLM beside CTranslate2 and ONNX Runtime), matrix (f32 products beside
OpenBLAS and oneDNN), limits (shares of what the machine and the kernels can do), step (a small
model's step beside its matrix products), start (to the first token), footprint (sizes, memory).
Each part writes its figures to build/bench/results/ROW.json when it is done, and the page is made
of those that are there: what was measured stays when a run is cut off. `--page-only --page
docs/performance.md` makes the page again; what stands in docs/performance-log.md below its heading,
written by hand, is its last section. The engines of a comparison are asked in turns
(tools/bench/common.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable

from bench.bench import decoder as bench_decoder
from bench.bench import limits as bench_limits
from bench.bench import minilm as bench_minilm
from bench.bench import page as bench_page
from bench.bench import translator as bench_translator
from bench.common import ROOT, Results
from phasor.entry import front_door

ROWS: dict[str, Callable[[Any], Results]] = {
    **bench_decoder.ROWS,
    **bench_translator.ROWS,
    **bench_minilm.ROWS,
    **bench_limits.ROWS,
}


@front_door("bench")
def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all of them by default"
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        help="rounds in which the engines take turns, of which the median counts (5)",
    )
    parser.add_argument(
        "--threads", type=int, nargs="+", default=sorted({1, min(2, os.cpu_count() or 1)})
    )
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--page", help="write the page here")
    parser.add_argument("--page-only", action="store_true", help="measure nothing")
    args = parser.parse_args()
    unknown = [row for row in args.rows if row not in ROWS]
    if unknown:
        parser.error(f"{unknown[0]}: expected one of {', '.join(ROWS)}")
    args.folder = Path(args.build) / "bench"
    for row in [] if args.page_only else args.rows or list(ROWS):
        start = time.time()
        print(f"{row}:", file=sys.stderr)
        results = ROWS[row](args)
        results.save()
        print(f"{row}: {time.time() - start:.0f} s", file=sys.stderr)
        print("\n".join(bench_page.section(results.as_dict())))
    if args.page:
        bench_page.write(
            Path(args.page), args.folder / "results", ROOT / "docs" / "performance-log.md"
        )
        print(f"wrote {args.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
