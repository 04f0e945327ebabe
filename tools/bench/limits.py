"""What the machine allows: matrix products beside OpenBLAS and oneDNN, decoding and prompts beside
the measured limits, the cost of a small step, start-up, and what the program weighs. Parts of
tools/bench.

    PYTHONPATH=tools python3 -m bench.limits --peer numpy|torch --threads N      a matrix product
        that answers requests
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.common import (
    OURS,
    Results,
    Worker,
    engine_versions,
    kernel_rates,
    run_json,
    serve,
    take_turns,
)
from bench.decoder import CT2, LLAMA, PEERS
from bench.models import SHAPES, model
from phasor.entry import front_door

COPIED = f"{OURS}, --load copy"
OPENBLAS, ONEDNN = "OpenBLAS", "oneDNN"
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


# ---- peers


def median_seconds(run: Any) -> float:
    """The same loop as tests/cpp/bench_linear.cpp."""
    run()
    start = time.perf_counter()
    run()
    repeat = max(1, int(1e-3 / (time.perf_counter() - start + 1e-9)))
    values, start = [], time.perf_counter()
    while len(values) < 5 or (time.perf_counter() - start < 0.05 and len(values) < 400):
        begin = time.perf_counter()
        for _ in range(repeat):
            run()
        values.append((time.perf_counter() - begin) / repeat)
    return statistics.median(values)


@front_door("bench_limits")
def peer_main(which: str, threads: int) -> None:
    import numpy as np

    made: dict[tuple[int, ...], tuple] = {}
    if which == "numpy":
        config = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        version = f"numpy {np.__version__}, {config.get('name')} {config.get('version')}"

        def product(rows: int, outputs: int, inputs: int) -> float:
            if (rows, outputs, inputs) not in made:
                made[rows, outputs, inputs] = (
                    np.full((rows, inputs), 0.5, np.float32),
                    np.full((inputs, outputs), 0.01, np.float32),
                    np.empty((rows, outputs), np.float32),
                )
            x, w, y = made[rows, outputs, inputs]
            return median_seconds(lambda: np.matmul(x, w, out=y))
    else:
        import torch
        from torch.utils import mkldnn

        torch.set_num_threads(threads)
        version = f"torch {torch.__version__}"
        torch.set_grad_enabled(False)

        def product(rows: int, outputs: int, inputs: int) -> float:
            if (rows, outputs, inputs) not in made:
                x, layer = (
                    torch.full((rows, inputs), 0.5),
                    torch.nn.Linear(inputs, outputs, bias=False),
                )
                # oneDNN with its weights in the layout that it likes best, as a deployed model has
                # them.
                made[rows, outputs, inputs] = (x.to_mkldnn(), mkldnn.to_mkldnn(layer.eval()))
            x, layer = made[rows, outputs, inputs]
            return median_seconds(lambda: layer(x))

    serve(
        lambda request: {"seconds": product(*(int(n) for n in request[2:]))}, {"version": version}
    )


# ---- rows


def row_matrix(args: Any) -> Results:
    results = Results("matrix", args.folder / "results")
    for threads in args.threads:
        os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(threads)
        workers = {OURS: Worker([f"{args.build}/bench_linear", "--threads", threads])}
        for engine, which in ((OPENBLAS, "numpy"), (ONEDNN, "torch")):
            workers[engine] = Worker(
                [sys.executable, "-m", __spec__.name, "--peer", which, "--threads", threads]
            )
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            del os.environ[name]
        results.facts |= engine_versions(workers) | {OURS: workers[OURS].hello["isa"]}
        for rows, outputs, inputs in PRODUCTS:
            answers = take_turns(
                workers, f"linear f32 {rows} {outputs} {inputs}", min(args.runs, 5)
            )
            where = {"type": "f32", "threads": threads, "at": f"{rows} × {outputs} × {inputs}"}
            for engine, runs in answers.items():
                results.add(
                    "product",
                    engine,
                    [2e-9 * rows * outputs * inputs / r["seconds"] for r in runs],
                    "GFLOP/s",
                    **where,
                )
            if rows != 1:
                best = max(
                    (OPENBLAS, ONEDNN), key=lambda e: results.median("product", e, **where) or 0.0
                )
                results.aim(
                    f"f32 product {where['at']}, {threads} thread{'s' * (threads > 1)}",
                    best,
                    results.median("product", OURS, **where),
                    results.median("product", best, **where),
                    1.0,
                )
        for worker in workers.values():
            worker.close()
        results.save()
    return results


def row_limits(args: Any) -> Results:
    """`phasor bench` on the 135M shape, and its kernels on matrices that stay in the cache: the
    ceilings of the engine's own products."""
    results = Results("limits", args.folder / "results")
    for threads in args.threads:
        kernels = Worker([f"{args.build}/bench_linear", "--threads", threads])
        for kind in ("f32", "f16", "bf16", "q8", "q4"):
            where = {"type": kind, "threads": threads}
            runs = [
                run_json(
                    [
                        f"{args.build}/phasor",
                        "bench",
                        model(args.folder, "135m", kind, "phasor"),
                        "--length",
                        "512",
                        "-n",
                        "32",
                        "--reps",
                        "3",
                        "--threads",
                        threads,
                        "--json",
                    ]
                )
                for _ in range(3)
            ]

            def figure(key: str, unit: str, scale: float, what: str) -> float:
                results.add(what, OURS, [r[key] * scale for r in runs], unit, **where)
                return statistics.median(r[key] for r in runs) * scale

            machine = [r["machine"][-1] for r in runs]
            memory = statistics.median(m["read_block_bytes_per_second"] for m in machine) * 1e-9
            arithmetic = runs[0]["arithmetic"]
            peak = (
                statistics.median(m[f"{arithmetic}_operations_per_second"] for m in machine) * 1e-9
            )
            results.add(
                "read",
                "machine",
                [m["read_bytes_per_second"] * 1e-9 for m in machine],
                "GB/s",
                **where,
            )
            results.add(
                "peak",
                "machine",
                [m[f"{arithmetic}_operations_per_second"] * 1e-9 for m in machine],
                "GOP/s",
                **where,
            )
            joins = [m["join_seconds"] * 1e9 for m in machine if "join_seconds" in m]
            if joins and kind == "q8":
                results.add("a job given out and back", OURS, joins, "ns", **where)
                results.aim(
                    f"a job without work given out and back, {threads} threads, ns",
                    "a microsecond",
                    statistics.median(joins),
                    1000.0,
                    1.0,
                    "most",
                )
            reads, peaks = kernel_rates(kernels, kind)
            ceiling_read, ceiling_peak = max(reads), max(peaks)
            results.add("kernel, 1 row", OURS, reads, "GB/s", **where)
            results.add("kernel, 64 rows", OURS, peaks, "GOP/s", **where)
            decode = figure("decode_bytes_per_second", "GB/s", 1e-9, "decode")
            prefill = figure("prefill_operations_per_second", "GOP/s", 1e-9, "prefill 512")
            at = f"{kind}, {threads} thread{'s' * (threads > 1)}"
            name = "the machine's reads" if memory <= ceiling_read else "the kernel in the cache"
            results.aim(
                f"decode, 135M shape, {at}, GB/s", name, decode, min(memory, ceiling_read), 0.85
            )
            if arithmetic == "int8":
                results.aim(
                    f"prefill, 135M shape, {at}, GOP/s",
                    "the kernel in the cache",
                    prefill,
                    ceiling_peak,
                    0.85,
                )
                results.facts[f"prefill {at}"] = (
                    f"{prefill / peak * 100:.0f} % of the raw peak of int8 dot products"
                )
        kernels.close()
        results.save()
    return results


def row_step(args: Any) -> Results:
    results = Results("step", args.folder / "results")
    for shape in ("260k", "d256"):
        for kind in ("f32", "q8"):
            runs = [
                run_json([f"{args.build}/bench_step", model(args.folder, shape, kind, "phasor")])
                for _ in range(args.runs)
            ]
            where = {"type": kind, "threads": 1, "at": f"d = {SHAPES[shape].width}"}
            results.facts[OURS] = runs[0]["isa"]
            results.add("step", OURS, [r["step_ns"] * 1e-3 for r in runs], "µs", **where)
            results.add("linear layers", OURS, [r["linear_ns"] * 1e-3 for r in runs], "µs", **where)
            if runs[0]["ticks_per_ns"] > 0:
                results.add(
                    "step",
                    OURS,
                    [r["step_ns"] * r["ticks_per_ns"] for r in runs],
                    "cycles",
                    **where,
                )
                results.add(
                    "linear layers",
                    OURS,
                    [r["linear_ns"] * r["ticks_per_ns"] for r in runs],
                    "cycles",
                    **where,
                )
            results.aim(
                f"a step at {where['at']}, {kind}, 1 thread",
                "its linear layers back to back, µs",
                results.median("step", OURS, unit="µs", **where),
                results.median("linear layers", OURS, unit="µs", **where),
                1.5,
                "most",
            )
    results.facts["cycles"] = "of the time-stamp counter, which goes on at one rate"
    return results


def first_output(command: list[str]) -> float:
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    byte = process.stdout.read(1)
    seconds = time.perf_counter() - start
    process.communicate()
    if not byte or process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: failed")
    return seconds


def row_start(args: Any) -> Results:
    """From starting the program to its first token; the peers' from the call that loads the model,
    without the start of Python and its imports."""
    results = Results("start", args.folder / "results")
    for kind in ("q8", "q4"):
        files = {
            e: model(args.folder, "135m", kind, form)
            for e, form in (
                (OURS, "phasor"),
                (COPIED, "phasor"),
                *((e, f) for e, (_, f) in PEERS.items() if e != CT2 or kind == "q8"),
            )
        }
        seconds: dict[str, list[float]] = {e: [] for e in files}
        for run in range(args.runs + 1):
            for engine, path in files.items():
                if engine.startswith(OURS):
                    value = first_output(
                        [
                            f"{args.build}/phasor",
                            "run",
                            path,
                            "--ids",
                            "1",
                            "-n",
                            "1",
                            "--print-ids",
                            "--quiet",
                            *(["--load", "copy"] if engine == COPIED else []),
                        ]
                    )
                else:
                    worker = Worker(
                        [
                            sys.executable,
                            "-m",
                            "bench.decoder",
                            "--peer",
                            PEERS[engine][0],
                            path,
                            "--context",
                            "2048",
                        ]
                    )
                    value = (
                        worker.hello["load_seconds"]
                        - worker.hello["import_seconds"]
                        + worker.ask("prefill 1")["seconds"]
                    )
                    results.facts[engine] = worker.hello["version"]
                    worker.close()
                if run != 0:
                    seconds[engine].append(value * 1e3)
        size = files[OURS].stat().st_size / 1e6
        where = {"type": kind, "threads": 1, "at": f"{size:.0f} MB, warm"}
        for engine, values in seconds.items():
            results.add("first token", engine, values, "ms", **where)
        results.aim(
            f"start to first token, {kind}, {size:.0f} MB, warm, ms",
            f"{LLAMA}, loading alone",
            results.median("first token", OURS, **where),
            results.median("first token", LLAMA, **where),
            5,
            "faster",
        )
        report = run_json([f"{args.build}/phasor", "bench", files[OURS], "--reps", "1", "--json"])
        results.add(
            "first token, cold",
            OURS,
            [report["start_cold_seconds"] * 1e3],
            "ms",
            type=kind,
            threads=1,
            at=f"{report['start_cold_share_in_memory'] * 100:.0f} % of the file kept by the system",
        )
    return results


def text_sizes(args: Any) -> dict[str, int]:
    """Bytes of code and constants of each room's objects."""
    out: dict[str, int] = {}
    for path in sorted((Path(args.build) / "obj" / "src").rglob("*.o")):
        room = path.relative_to(Path(args.build) / "obj" / "src").parts[0].removesuffix(".o")
        name = (
            f"kernels, {path.stem.removeprefix('level_')}"
            if path.stem.startswith("level_")
            else room
        )
        line = subprocess.run(
            ["size", str(path)], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.splitlines()[1]
        out[name] = out.get(name, 0) + int(line.split()[0])
    return out


def row_footprint(args: Any) -> Results:
    """Sizes of the static, stripped programs and of each room; resident memory beside the file, the
    arena, and for the peers what was there before loading."""
    results = Results("footprint", args.folder / "results")
    for name, what in (
        ("phasor-static", "the whole program, all levels"),
        ("phasor-small", "the whole program, for size, with AVX2"),
        ("phasor-smaller", "the same for q8 models of Llama's kind"),
        ("c-translate-static", "the C example, all levels and families"),
        ("c-translate-small", "the C example, scalar, for translators of its kind"),
    ):
        path = Path(args.build) / name
        if path.exists():
            size = path.stat().st_size / 1000
            results.add("binary", OURS, [size], "kB", at=what)
            results.aim(f"static, stripped: {what}, kB", "400 kB", size, 400.0, 1.0, "most")
    empty = Path(args.build) / "empty-static"
    libc = shutil.which("musl-gcc") or os.environ.get("CC", "cc")
    results.facts["C library"] = "musl" if libc.endswith("musl-gcc") else "the system's"
    made = subprocess.run(
        [libc, "-O2", "-static", "-s", "-x", "c", "-", "-o", str(empty)],
        input='#include <stdio.h>\nint main(void) { return puts("") < 0; }\n',
        text=True,
    )
    if made.returncode == 0:
        results.add(
            "binary",
            "C library",
            [empty.stat().st_size / 1000],
            "kB",
            at="a program that prints an empty line",
        )
        small = results.median(
            "binary", OURS, at="the C example, scalar, for translators of its kind"
        )
        if small:
            results.facts["the engine alone"] = (
                f"that scalar example has {small - empty.stat().st_size / 1000:.0f} kB more than a "
                "static program that prints an empty line"
            )
    for room, size in text_sizes(args).items():
        results.add("text", OURS, [size / 1000], "kB", at=room)
    static = Path(args.build) / "phasor-static"
    program = static if static.exists() else Path(args.build) / "phasor"
    path = model(args.folder, "135m", "q8", "phasor")
    beyond = [
        run_json([program, "bench", path, "--reps", "1", "--json"])["rss_beyond_bytes"] / 1e6
        for _ in range(3)
    ]
    where = {"type": "q8", "threads": 1, "at": "beyond the file and the arena"}
    results.add("resident", OURS, beyond, "MB", **where)
    results.aim(
        f"resident memory beyond file and arena, {program.name}, MB",
        "2 MB",
        statistics.median(beyond),
        2.0,
        1.0,
        "most",
    )
    for engine, (which, form) in PEERS.items():
        file = model(args.folder, "135m", "q8", form)
        size = sum(p.stat().st_size for p in ([file] if file.is_file() else file.iterdir()))
        worker = Worker(
            [sys.executable, "-m", "bench.decoder", "--peer", which, file, "--context", "64"]
        )
        worker.ask("decode 16 8")
        held = worker.ask("memory")
        results.facts[engine] = worker.hello["version"]
        worker.close()
        results.add(
            "resident", engine, [(held["rss"] - held["before"]["rss"] - size) / 1e6], "MB", **where
        )
    results.facts["peers"] = (
        "resident memory less the file's size and less what the process held before loading the "
        "model, keys and values of 64 tokens included"
    )
    return results


ROWS = {
    "matrix": row_matrix,
    "limits": row_limits,
    "step": row_step,
    "start": row_start,
    "footprint": row_footprint,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", choices=["numpy", "torch"], required=True)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    sys.exit(peer_main(arguments.peer, arguments.threads))
