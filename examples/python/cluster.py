"""Translates a file line by line and embeds the translations, on several workers of Dask.

    python examples/python/cluster.py zh-en.phasor encoder.phasor lines.txt out [--workers 2]

Writes out.jsonl, a line for each line of the input and in its order, and out.npy with the vectors.
Every line has the same bits, whichever worker computed it: if one dies, another computes its lines
again. Needs dask and distributed. For workers on other machines, give --scheduler ADDRESS; all
machines need the two weight files at the same place.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster, WorkerPlugin, get_worker

import phasor

BATCH = 8  # lines of a task


class Models(WorkerPlugin):
    """Opens the weight files once in each worker, also in one that starts later."""

    name = "phasor"

    def __init__(self, translator: str, encoder: str) -> None:
        self.paths = translator, encoder

    def setup(self, worker: Any) -> None:
        worker.translator, worker.encoder = map(phasor.load, self.paths)


def work(lines: list[str]) -> tuple[int, list[str], np.ndarray]:
    """The worker's process, the translations, and (n, width) vectors."""
    worker = get_worker()
    made = worker.translator.translate(lines)
    return os.getpid(), made, worker.encoder.encode(made)


def run(client: Client, args: argparse.Namespace) -> None:
    lines = args.lines.read_text(encoding="utf-8").splitlines()
    client.register_plugin(Models(str(args.translator), str(args.encoder)))
    pids = client.run(os.getpid).values()
    print(f"workers: {' '.join(map(str, pids))}", file=sys.stderr, flush=True)
    batches = [lines[i : i + BATCH] for i in range(0, len(lines), BATCH)]
    futures = client.map(work, batches, pure=False, retries=3)
    rows, vectors = [], []
    for number, (batch, future) in enumerate(zip(batches, futures, strict=True), 1):
        pid, made, found = future.result()
        rows += [
            {"text": text, "translation": translation, "worker": pid}
            for text, translation in zip(batch, made, strict=True)
        ]
        vectors.append(found)
        print(f"{number} of {len(batches)} batches", file=sys.stderr, flush=True)
    # Both files are written whole, or not at all.
    parts = {args.out.with_suffix(suffix): suffix for suffix in (".jsonl", ".npy")}
    for path, suffix in parts.items():
        with open(f"{path}.part", "wb") as file:
            if suffix == ".npy":
                np.save(file, np.concatenate(vectors))
            else:
                file.writelines(
                    json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows
                )
    for path in parts:
        os.replace(f"{path}.part", path)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("translator", type=Path, help="Weight file of an encoder-decoder.")
    options.add_argument("encoder", type=Path, help="Weight file of an encoder that pools.")
    options.add_argument("lines", type=Path, help="UTF-8 text, a line each.")
    options.add_argument("out", type=Path, help="Output, without .jsonl and .npy.")
    options.add_argument("--workers", type=int, default=2, help="Local workers. Default: 2.")
    options.add_argument("--scheduler", help="Address of a cluster that runs already.")
    args = options.parse_args()
    if args.scheduler:
        with Client(args.scheduler) as client:
            run(client, args)
        return
    local = LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
    with local, Client(local) as client:
        run(client, args)


if __name__ == "__main__":
    main()
