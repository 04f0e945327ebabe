"""The benchmarks beside the peers: `make bench`, or some of them with `make bench ROWS="decode
15m"`.

    PYTHONPATH=tools python3 -m bench [ROW...] [--runs 5] [--threads 1 2] [--types q8 q8r]
        [--build build] [--page docs/design/performance.md] [--alone] [--encoder DIRECTORY]
        [--gguf FILE]

ROW: decode (a 135M Llama: steps and prompts of 512, beside llama.cpp and CTranslate2), inputs (the
same with inputs of 16 bits, and rotated ones, beside those of 8; only when it is named), 15m (a 15M
one), growth (with context, prompt, batch, model size), q8r (its kernel beside the raw peak, a
prompt beside q8), q4m (a published Q4_1 file beside llama.cpp), levels (that file at lower levels
beside a llama.cpp of the same instructions; only when it is named), codes (q2, q2w, q1 and q2r on
the shapes of BitNet and Bonsai beside llama.cpp; only when it is named), lfm2 (the shape of
LFM2-350M beside llama.cpp; only when it is named), translator (two translators beside CTranslate2),
translators (the same with more sentences, and one of 12 + 12 layers; only when it is named),
encoder (MiniLM beside CTranslate2 and ONNX Runtime), lengths (MiniLM beside these and
sentence-transformers; only when it is named), positions (what each position encoding costs; only
when it is named), conversion (Hugging Face directories to int8 beside CTranslate2's converter; only
when it is named, with --checkpoints), tokenizer (lines to ids and back beside the `tokenizers`
package and SentencePiece; only when it is named, with --corpus), python (Python's `stream` and
`encode` beside the program; only when it is named), server (phasor.serve beside llama-cpp-python's
server, 1 and 16 clients; only when it is named), matrix (f32 products beside OpenBLAS and
oneDNN), limits (shares of what the machine and the kernels can do), step (a small model's step
beside its matrix products), start (to the first token), footprint (sizes, memory).

Each part writes its figures into --results, a JSON file for each machine and day, as soon as they
are there, and the page is made of the newest of each part: what was measured stays when a run is
cut off, and when another machine measures another part. `--page-only --page
docs/design/performance.md` makes the page again. What is written by hand is performance-log.md. The
engines of a comparison are asked in turns (tools/bench/common.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable

from bench import (
    conversion,
    decoder,
    encoder,
    lfm2,
    limits,
    page,
    positions,
    python,
    server,
    sums,
    tokenizer,
    translator,
)
from bench.common import ROOT, Results
from phasor.entry import front_door

ROWS: dict[str, Callable[[Any, Results], None]] = {
    **decoder.ROWS,
    **sums.ROWS,
    **lfm2.ROWS,
    **translator.ROWS,
    **encoder.ROWS,
    **limits.ROWS,
    **positions.ROWS,
    **conversion.ROWS,
    **tokenizer.ROWS,
    **python.ROWS,
    **server.ROWS,
}
WHEN_NAMED = (
    "codes",
    "conversion",
    "inputs",
    "lengths",
    "levels",
    "lfm2",
    "positions",
    "python",
    "tokenizer",
    "translators",
)


@front_door("bench")
def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--runs", type=int, default=5, help="Rounds; the median counts. Default: 5."
    )
    options.add_argument("--build", default=str(ROOT / "build"), help="Folder of the programs.")
    rows = f"Rows to measure: {', '.join(ROWS)}. Default: all but {', '.join(WHEN_NAMED)}."
    options.add_argument("rows", nargs="*", metavar="ROW", help=rows)
    few = sorted({1, min(2, os.cpu_count() or 1)})
    options.add_argument("--threads", type=int, nargs="+", default=few)
    options.add_argument(
        "--types",
        nargs="+",
        metavar="TYPE",
        help="Only these types, in the rows decode, 15m, limits, encoders and translators.",
    )
    options.add_argument("--page", help="Write the page to this file.")
    folder = ROOT / "docs/design/measurements"
    options.add_argument("--results", type=Path, default=folder, help="Folder of the figures.")
    options.add_argument("--alone", action="store_true", help="Write only the named rows.")
    options.add_argument(
        "--page-only", action="store_true", help="Write the page without measuring."
    )
    options.add_argument(
        "--encoder", metavar="DIRECTORY", help="Use this encoder instead of all-MiniLM-L6-v2."
    )
    options.add_argument("--gguf", metavar="FILE", help="Q4_1 file for the row q4m.")
    options.add_argument(
        "--checkpoints", type=Path, nargs="+", metavar="DIRECTORY", help="For the row conversion."
    )
    options.add_argument("--corpus", type=Path, metavar="FILE", help="For the row tokenizer.")
    translator.arguments(options)
    args = options.parse_args()
    for row in args.rows:
        if row not in ROWS:
            options.error(f"{row}: expected one of {', '.join(ROWS)}")
    args.folder = Path(args.build) / "bench"
    everything = [row for row in ROWS if row not in WHEN_NAMED]
    for row in [] if args.page_only else args.rows or everything:
        print(f"{row}:", file=sys.stderr)
        results = Results(row, args.results)
        ROWS[row](args, results)
        results.save()
        print(f"{row}: {time.time() - results.began:.0f} s", file=sys.stderr)
        print("\n".join(page.section(results.as_dict())))
    if args.page:
        page.write(Path(args.page), args.results, args.rows if args.alone else ())
        print(f"wrote {args.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
