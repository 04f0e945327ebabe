"""What the machine allows: matrix products beside OpenBLAS and oneDNN, decoding and prompts beside
the measured limits, the cost of a small step, start-up, and what the program weighs. Rows of
tools/bench."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.common import (
    OURS,
    Answer,
    Engines,
    Results,
    Worker,
    at_threads,
    command,
    kernel_rates,
    peer,
    run_json,
    types_of,
)
from bench.decoder import CT2, LLAMA, PEERS, theirs
from bench.models import SHAPES, model

TYPES = tuple("f32 f16 bf16 q8 q8r q8rh q4 q4m q4k q5m q5k q4t q6 q4x q3".split())
COPIED = f"{OURS}, --load copy"
LIBRARIES = {"OpenBLAS": "numpy", "oneDNN": "torch"}  # name in peers.py
# (rows, outputs, inputs): a prompt of 512 through the 135M Llama's layers, MiniLM's, then squares.
PRODUCTS = [
    (512, 960, 576),
    (512, 576, 576),
    (512, 3072, 576),
    (512, 576, 1536),
    (64, 1536, 384),
    (64, 384, 1536),
    (1, 3072, 576),
    (1, 49152, 576),
    (512, 512, 512),
    (1024, 1024, 1024),
    (2048, 2048, 2048),
]


def bench_program(program: object, path: Path, **options: object) -> Answer:
    """What `phasor bench` measures."""
    return run_json(program, "bench", path, "--json", **options)


def row_matrix(args: Any, results: Results) -> None:
    for threads in args.threads:
        with Engines({OURS: Worker(f"{args.build}/bench_linear", threads=threads)}) as workers:
            for engine, name in LIBRARIES.items():
                workers[engine] = peer(name, threads=threads)
            results.facts |= workers.versions()
            for rows, outputs, inputs in PRODUCTS:
                where: dict[str, Any] = {
                    "type": "f32",
                    "threads": threads,
                    "at": f"{rows} × {outputs} × {inputs}",
                }
                request = f"linear f32 {rows} {outputs} {inputs}"
                answers = workers.take_turns(request, min(args.runs, 5))
                operations = 2e-9 * rows * outputs * inputs
                results.add_rates("product", answers, operations, "GFLOP/s", **where)
                if rows != 1:
                    medians = {e: results.median("product", e, **where) or 0.0 for e in LIBRARIES}
                    claim = f"f32 product {where['at']}, {at_threads(threads)}"
                    best = max(medians, key=lambda e: medians[e])
                    results.aim_beside(claim, "product", best, 1.0, **where)
        results.save()


def row_limits(args: Any, results: Results) -> None:
    """`phasor bench` on the 135M shape, and its kernels on matrices that stay in the cache: the
    ceilings of the engine's own products."""
    for threads in args.threads:
        with closing(Worker(f"{args.build}/bench_linear", threads=threads)) as kernels:
            for kind in types_of(args, TYPES):
                limits_of(args, results, kernels, kind, threads)
        results.save()


def limits_of(args: Any, results: Results, kernels: Worker, kind: str, threads: int) -> None:
    where = {"type": kind, "threads": threads}
    path = model(args.folder, "135m", kind, "phasor")
    options = {"threads": threads, "length": 512, "n": 32, "reps": 3}
    runs = [bench_program(f"{args.build}/phasor", path, **options) for _ in range(3)]
    machine = [r["machine"][-1] for r in runs]
    arithmetic = runs[0]["arithmetic"]
    reads, peaks = kernel_rates(kernels, kind)

    def add(what: str, engine: str, values: list[float], unit: str) -> float:
        results.add(what, engine, values, unit, **where)
        return statistics.median(values)

    def billions(rows: list[Answer], field: str) -> list[float]:
        return [1e-9 * row[field] for row in rows]

    memory = statistics.median(billions(machine, "read_block_bytes_per_second"))
    add("read", "machine", billions(machine, "read_bytes_per_second"), "GB/s")
    peak_of = billions(machine, f"{arithmetic}_operations_per_second")
    peak = add("peak", "machine", peak_of, "GOP/s")
    joins = [1e9 * m["join_seconds"] for m in machine if "join_seconds" in m]
    if joins and kind == "q8":
        join = add("a job given out and back", OURS, joins, "ns")
        claim = f"a job without work given out and back, {threads} threads, ns"
        results.aim(claim, "a microsecond", join, 1000.0, 1.0, "most")
    add("kernel, 1 row", OURS, reads, "GB/s")
    add("kernel, 64 rows", OURS, peaks, "GOP/s")
    decode = add("decode", OURS, billions(runs, "decode_bytes_per_second"), "GB/s")
    prefill = add("prefill 512", OURS, billions(runs, "prefill_operations_per_second"), "GOP/s")
    at, cached = f"{kind}, {at_threads(threads)}", "the kernel in the cache"
    name = "the machine's reads" if memory <= max(reads) else cached
    results.aim(f"decode, 135M shape, {at}, GB/s", name, decode, min(memory, max(reads)), 0.85)
    if arithmetic == "int8":
        results.aim(f"prefill, 135M shape, {at}, GOP/s", cached, prefill, max(peaks), 0.85)
        share = f"{prefill / peak * 100:.0f} % of the raw peak of int8 dot products"
        results.facts[f"prefill {at}"] = share


def row_step(args: Any, results: Results) -> None:
    for shape in ("260k", "d256"):
        for kind in ("f32", "q8"):
            path = model(args.folder, shape, kind, "phasor")
            runs = [run_json(f"{args.build}/bench_step", path) for _ in range(args.runs)]
            at = f"d = {SHAPES[shape].width}"
            where = {"type": kind, "threads": 1, "at": at}
            results.facts[OURS] = runs[0]["isa"]
            parts = {"step": "step_ns", "linear layers": "linear_ns"}
            for what, field in parts.items():
                results.add(what, OURS, [r[field] * 1e-3 for r in runs], "µs", **where)
                if runs[0]["ticks_per_ns"] > 0:
                    ticks = [r[field] * r["ticks_per_ns"] for r in runs]
                    results.add(what, OURS, ticks, "cycles", **where)
            step, linear = (results.median(what, OURS, unit="µs", **where) for what in parts)
            against = "its linear layers back to back, µs"
            results.aim(f"a step at {at}, {kind}, 1 thread", against, step, linear, 1.5, "most")
    results.facts["cycles"] = "of the time-stamp counter, which goes on at one rate"


def first_output(line: list[str]) -> float:
    """Seconds until the program prints."""
    start = time.perf_counter()
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    byte = process.stdout.read(1)
    seconds = time.perf_counter() - start
    process.communicate()
    if not byte or process.returncode:
        sys.exit(f"{' '.join(line)}: failed")
    return seconds


def row_start(args: Any, results: Results) -> None:
    """From starting the program to its first token; the peers' from the call that loads the model,
    without the start of Python and its imports."""
    for kind in ("q8", "q4"):
        path = model(args.folder, "135m", kind, "phasor")
        run = command(f"{args.build}/phasor", "run", path, "--print-ids", "--quiet", ids=1, n=1)

        def load(engine: str) -> float:
            if engine.startswith(OURS):
                return first_output([*run, *(["--load", "copy"] if engine == COPIED else [])])
            with closing(theirs(args, engine, "135m", kind, context=2048)) as worker:
                results.facts[engine] = worker.hello["version"]
                return worker.hello["load_seconds"] + worker.ask("prefill 1")["seconds"]

        engines = [OURS, COPIED, *(e for e in PEERS if e != CT2 or kind == "q8")]
        rounds = [[load(engine) * 1e3 for engine in engines] for _ in range(args.runs + 1)]
        size = f"{path.stat().st_size / 1e6:.0f} MB, warm"
        where: dict[str, Any] = {"type": kind, "threads": 1, "at": size}
        for engine, values in zip(engines, zip(*rounds[1:])):
            results.add("first token", engine, values, "ms", **where)
        ours, theirs_ = (results.median("first token", e, **where) for e in (OURS, LLAMA))
        claim, against = f"start to first token, {kind}, {size}, ms", f"{LLAMA}, loading alone"
        results.aim(claim, against, ours, theirs_, 5, "faster")
        report = bench_program(f"{args.build}/phasor", path, reps=1)
        share = report["start_cold_share_in_memory"] * 100
        where["at"] = f"{share:.0f} % of the file kept by the system"
        cold = [report["start_cold_seconds"] * 1e3]
        results.add("first token, cold", OURS, cold, "ms", **where)


def text_sizes(args: Any) -> dict[str, int]:
    """Bytes of code and constants of each room's objects."""
    out: dict[str, int] = {}
    objects = Path(args.build) / "obj" / "src"
    for path in sorted(objects.rglob("*.o")):
        room = path.relative_to(objects).parts[0].removesuffix(".o")
        if path.stem.startswith("level_"):
            room = f"kernels, {path.stem.removeprefix('level_')}"
        done = subprocess.run(["size", path], stdout=subprocess.PIPE, text=True, check=True)
        out[room] = out.get(room, 0) + int(done.stdout.splitlines()[1].split()[0])
    return out


SCALAR_EXAMPLE = "the C example, scalar, for translators of its kind"
PROGRAMS = {
    "phasor-static": "the whole program, all levels",
    "phasor-small": "the whole program, for size, with AVX2",
    "phasor-smaller": "the same for q8 models of Llama's kind",
    "c-translate-static": "the C example, all levels and families",
    "c-translate-small": SCALAR_EXAMPLE,
}


def row_footprint(args: Any, results: Results) -> None:
    """Sizes of the static, stripped programs and of each room; resident memory beside the file, the
    arena, and for the peers what was there before loading."""
    build = Path(args.build)
    for name, what in PROGRAMS.items():
        if (build / name).exists():
            size = (build / name).stat().st_size / 1000
            results.add("binary", OURS, [size], "kB", at=what)
            results.aim(f"static, stripped: {what}, kB", "400 kB", size, 400.0, 1.0, "most")
    empty = empty_program(build, results)
    if empty is not None:
        what = "a program that prints an empty line"
        results.add("binary", "C library", [empty], "kB", at=what)
        small = results.median("binary", OURS, at=SCALAR_EXAMPLE)
        if small:
            results.facts["the engine alone"] = (
                f"that scalar example has {small - empty:.0f} kB more than a static program that "
                "prints an empty line"
            )
    for room, size in text_sizes(args).items():
        results.add("text", OURS, [size / 1000], "kB", at=room)
    static = build / "phasor-static"
    program = static if static.exists() else build / "phasor"
    path = model(args.folder, "135m", "q8", "phasor")
    reports = [bench_program(program, path, reps=1) for _ in range(3)]
    beyond = [report["rss_beyond_bytes"] / 1e6 for report in reports]
    where = {"type": "q8", "threads": 1, "at": "beyond the file and the arena"}
    results.add("resident", OURS, beyond, "MB", **where)
    claim = f"resident memory beyond file and arena, {program.name}, MB"
    results.aim(claim, "2 MB", statistics.median(beyond), 2.0, 1.0, "most")
    for engine, (_, form) in PEERS.items():
        path = model(args.folder, "135m", "q8", form)
        size = sum(p.stat().st_size for p in ([path] if path.is_file() else path.iterdir()))
        with closing(theirs(args, engine, "135m", "q8", context=64)) as worker:
            worker.ask("decode 16 8")
            held = worker.ask("memory")
            results.facts[engine] = worker.hello["version"]
        more = (held["rss"] - held["before"]["rss"] - size) / 1e6
        results.add("resident", engine, [more], "MB", **where)
    results.facts["peers"] = (
        "resident memory less the file's size and less what the process held before loading the "
        "model, keys and values of 64 tokens included"
    )


def empty_program(build: Path, results: Results) -> float | None:
    """kB of a static program that does next to nothing; None where none can be made."""
    cc, out = shutil.which("musl-gcc") or os.environ.get("CC", "cc"), build / "empty-static"
    results.facts["C library"] = "musl" if cc.endswith("musl-gcc") else "the system's"
    text = '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n'
    line = [cc, "-O2", "-static", "-s", "-x", "c", "-", "-o", str(out)]
    made = subprocess.run(line, input=text, text=True)
    return out.stat().st_size / 1000 if made.returncode == 0 else None


ROWS = {
    "matrix": row_matrix,
    "limits": row_limits,
    "step": row_step,
    "start": row_start,
    "footprint": row_footprint,
}
