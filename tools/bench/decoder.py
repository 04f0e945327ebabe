"""Decoders beside llama.cpp and CTranslate2: reading a prompt, greedy steps, and how both grow.
Rows of tools/bench.

The requests are those of tests/cpp/bench_decoder.cpp.
"""

from __future__ import annotations

from typing import Any

from bench.common import OURS, Answers, Engines, Results, Worker, at_threads, peer, types_of
from bench.models import CT2_TYPES, ROTATED, SHAPES, WIDE, beside, model
from phasor.format import layout as L

LLAMA, CT2 = "llama.cpp", "CTranslate2"
BF16 = f"{OURS}, bf16"
INPUTS16, INPUTS_ROTATED = f"{OURS}, inputs of 16 bits", f"{OURS}, rotated inputs"
TYPES_135M = ("f32", "f16", "q8", "q8r", "q4", "q4m")
TYPES_INPUTS = tuple(L.TYPES[k] for k in L.ROUNDED if k in L.QUANTIZED)
PEERS = {LLAMA: ("llama", "gguf"), CT2: ("ct2-decoder", "ct2")}  # name in peers.py, kind of file
BATCHES = (1, 2, 4, 8, 16, 32)


def ours(args: Any, shape: str, kind: str, **options: object) -> Worker:
    path = model(args.folder, shape, kind, "phasor")
    return Worker(f"{args.build}/bench_decoder", path, **options)


def theirs(args: Any, engine: str, shape: str, kind: str, **options: object) -> Worker:
    name, form = PEERS[engine]
    vocabulary, compute = SHAPES[shape].vocabulary, CT2_TYPES.get(beside(kind))
    path = model(args.folder, shape, beside(kind), form)
    return peer(name, path, vocabulary=vocabulary, compute=compute, **options)


def group(
    args: Any, shape: str, kind: str, engines: tuple[str, ...] = (LLAMA, CT2), **options: object
) -> Engines:
    """One worker of each engine that has this type."""
    workers = Engines({OURS: ours(args, shape, kind, **options)})
    for engine in engines:
        if engine != CT2 or beside(kind) in CT2_TYPES:
            workers[engine] = theirs(args, engine, shape, kind, **options)
    return workers


def same_tokens(results: Results, answers: Answers, label: str) -> None:
    """Notes how many greedy tokens the engines have in common from the start: in f32 they compute
    the same function."""
    own = answers[OURS][0]["ids"]
    for engine, runs in answers.items():
        if not engine.startswith(OURS) and "ids" in runs[0]:
            pairs = enumerate(zip(own, runs[0]["ids"]))
            equal = next((i for i, (a, b) in pairs if a != b), len(own))
            results.facts[f"equal tokens, {label}, {engine}"] = f"the first {equal} of {len(own)}"


def measure(args: Any, results: Results, shape: str, types: tuple[str, ...], steps: int) -> None:
    """Decoding and a prompt of 512 tokens, of one shape."""
    for kind in types:
        for threads in args.threads:
            where: dict[str, Any] = {"type": kind, "threads": threads}
            options = {"threads": threads, "context": 1024}
            with group(args, shape, kind, **options) as workers:
                if kind == "f16":
                    workers[BF16] = ours(args, shape, "bf16", **options)
                results.facts |= workers.versions()
                answers = workers.take_turns(f"decode 16 {steps}", args.runs)
                results.add_rates("decode", answers, steps, **where)
                same_tokens(results, answers, f"{kind}, {threads} threads")
                answers = workers.take_turns("prefill 512", args.runs)
                results.add_rates("prefill 512", answers, 512, **where)
                for engine, worker in workers.items():
                    held = worker.ask("memory")["rss"] / 2**20
                    results.add("resident", engine, [held], "MiB", **where)
            results.save()


# What is aimed at: the work, the types that it is claimed of, the engine and the types that it is
# measured against, its name there, and the least ratio at one thread and at more. Of several types
# or engines the best counts.
DECODE_AIMS: tuple[tuple[str, str, str, str, str, float, float], ...] = (
    ("decode", "q8", LLAMA, "q8", "llama.cpp Q8_0", 1.5, 1.8),
    ("decode", "q4", LLAMA, "q4", "llama.cpp Q4_0", 1.6, 2.0),
    ("decode", "f16 or bf16", LLAMA, "f16", "llama.cpp F16", 1.3, 1.3),
    ("decode", "f32", LLAMA, "f32", "llama.cpp F32", 1.05, 1.05),
    ("prefill 512", "q8", LLAMA, "q8", "llama.cpp Q8_0", 5, 5),
    ("prefill 512", "q4", LLAMA, "q4", "llama.cpp Q4_0", 3, 3),
    ("prefill 512", "f32", LLAMA, "f32 or f16", "llama.cpp's best float", 1.3, 1.3),
    ("prefill 512", "q8", CT2, "q8", "CTranslate2 int8", 1.5, 1.5),
    ("prefill 512", "q8r", CT2, "q8r", "CTranslate2 int8", 1.5, 1.5),
)


def row_decode(args: Any, results: Results) -> None:
    measure(args, results, "135m", types_of(args, TYPES_135M), 48)
    for threads in args.threads:

        def best(what: str, engine: str, kinds: str) -> float | None:
            # The bf16 model is an engine of its own in the row of f16.
            of = {(BF16, "f16") if k == "bf16" else (engine, k) for k in kinds.split(" or ")}
            found = [results.median(what, e, type=k, threads=threads) for e, k in of]
            return max((v for v in found if v is not None), default=None)

        for what, kinds, engine, their_kinds, against, one, more in DECODE_AIMS:
            results.aim(
                f"{what}, {kinds}, {at_threads(threads)}",
                against,
                best(what, OURS, kinds),
                best(what, engine, their_kinds),
                one if threads == 1 else more,
            )


def row_inputs(args: Any, results: Results) -> None:
    """Inputs of 16 bits beside those of 8, of every quantized type; and rotated ones, of those in
    groups."""
    work = {"decode": ("decode 16 48", 48), "prefill 512": ("prefill 512", 512)}
    for kind in types_of(args, TYPES_INPUTS):
        for threads in args.threads:
            where: dict[str, Any] = {"type": kind, "threads": threads}
            options = {"threads": threads, "context": 1024}
            forms = {OURS: kind, INPUTS16: kind + WIDE}
            if not kind.startswith("q8r"):
                forms[INPUTS_ROTATED] = kind + ROTATED
            engines = {e: ours(args, "135m", k, **options) for e, k in forms.items()}
            with Engines(engines) as workers:
                for what, (request, tokens) in work.items():
                    answers = workers.take_turns(request, args.runs)
                    results.add_rates(what, answers, tokens, **where)
            for what in work:
                narrow, wide = (results.median(what, e, **where) for e in (OURS, INPUTS16))
                claim = f"{what}, {kind}, inputs of 16 bits, {at_threads(threads)}"
                least = 0.92 if what == "decode" else 0.5
                results.aim(claim, "inputs of 8 bits", wide, narrow, least)
            results.save()


def row_15m(args: Any, results: Results) -> None:
    aims = {"f32": 1.5, "q8": 2, "q4": 2}
    kinds = types_of(args, tuple(aims))
    measure(args, results, "15m", kinds, 192)
    for threads in args.threads:
        for kind, least in ((kind, aims[kind]) for kind in kinds):
            where = {"type": kind, "threads": threads}
            first = max(PEERS, key=lambda p: results.median("decode", p, **where) or 0.0)
            claim = f"15M shape, decode, {kind}, {at_threads(threads)}"
            results.aim_beside(claim, "decode", first, least, f"the best peer, {first}", **where)


def row_growth(args: Any, results: Results) -> None:
    """With the context, the prompt's length, the number of sequences, the model's size: q8, one
    thread and all."""
    most = max(args.threads)

    def add(
        what: str, workers: Engines, request: str, tokens: int, runs: int, **where: Any
    ) -> None:
        answers = workers.take_turns(request, runs)
        results.add_rates(what, answers, tokens, **{"type": "q8", "threads": most} | where)

    options = {"threads": most, "context": 8192}
    with group(args, "135m", "q8", (LLAMA,), **options) as workers:
        for cache in ("f16", "q8"):
            workers[f"{OURS}, {cache} cache"] = ours(args, "135m", "q8", cache=cache, **options)
        for context in (128, 512, 2048, 8064):
            runs = 2 if context > 2048 else args.runs
            add("context", workers, f"decode {context} 24", 24, runs, at=context)
        for length in (1, 8, 32, 128, 512, 2048):
            runs = 3 if length > 512 else args.runs
            add("prompt", workers, f"prefill {length}", length, runs, at=length)
    results.save()
    for count in BATCHES:
        with group(args, "135m", "q8", threads=most, context=128, sequences=count) as workers:
            add("batch", workers, "batch 16 16", 16 * count, min(args.runs, 5), at=count)
    results.save()
    for shape in ("260k", "d256", "15m", "135m"):
        for threads in args.threads:
            with group(args, shape, "q8", (LLAMA,), threads=threads, context=256) as workers:
                add("size", workers, "decode 16 48", 48, args.runs, at=shape, threads=threads)


ROWS = {"decode": row_decode, "inputs": row_inputs, "15m": row_15m, "growth": row_growth}
