"""Decoders beside llama.cpp and CTranslate2: reading a prompt, greedy steps, and how both grow. A
part of tools/bench.

    PYTHONPATH=tools python3 -m bench.decoder --peer llama|ct2 MODEL --threads N --context N     an
        engine that answers requests (bench_common.Worker)

The requests are those of tests/cpp/bench_decoder.cpp. llama.cpp runs as its users have it by
default: keys and values in f16, flash attention where it wants it, weights repacked when loaded;
CTranslate2 with its own choice of kernels, its prefill is the time of one new token after the
prompt.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from bench.common import OURS, Results, Worker, engine_versions, resident, serve, take_turns
from bench.models import SHAPES, model
from phasor.entry import front_door

LLAMA, CT2 = "llama.cpp", "CTranslate2"
BF16 = f"{OURS}, bf16"
PEERS = {LLAMA: ("llama", "gguf"), CT2: ("ct2", "ct2")}


def prompt_ids(count: int, vocabulary: int, sequence: int = 0) -> list[int]:
    """Those that tests/cpp/bench_decoder.cpp makes."""
    return [(i * 7919 + 17 + sequence * 101) % vocabulary for i in range(count)]


def memory() -> dict[str, int]:
    return {
        "rss": resident("VmRSS"),
        "peak": resident("VmHWM"),
        "anonymous": resident("RssAnon"),
        "file_pages": resident("RssFile"),
    }


# ---- peers, each in a process of its
# own


class LlamaCpp:
    """llama.cpp through llama-cpp-python's plain binding."""

    def __init__(self, path: str, threads: int, context: int, sequences: int) -> None:
        start = time.perf_counter()
        import numpy  # noqa: F401

        import llama_cpp

        self.import_seconds = time.perf_counter() - start
        self.api = llama_cpp
        built = Path(sys.prefix) / "llama_cpp.compiler"
        self.version = (
            f"llama-cpp-python {llama_cpp.__version__}, built here with "
            f"{built.read_text().strip() if built.exists() else 'an unknown compiler'}"
        )
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        self.before = memory()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"{path}: llama.cpp does not read it")
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self.model)
        )
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_seq_max = context * sequences, sequences
        options.n_threads = options.n_threads_batch = threads
        options.n_batch = max(2048, context)
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            sys.exit(f"{path}: llama.cpp gives no context of {context}")
        self.batch = llama_cpp.llama_batch_init(max(2048, context), 0, 1)
        self.load_seconds = time.perf_counter() - start
        self.rows: dict[int, Any] = {}

    def _step(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        """(id, position, sequence, logits wanted) of each."""
        b = self.batch
        b.n_tokens = len(tokens)
        for i, (token, position, sequence, logits) in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, logits
            b.seq_id[i][0] = sequence
        if self.api.llama_decode(self.context, b) != 0:
            sys.exit("llama_decode failed")

    def _best(self, row: int) -> int:
        """The row's largest logit. The logits stay where they are from step to step."""
        import ctypes

        import numpy as np

        pointer = self.api.llama_get_logits_ith(self.context, row)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        if address not in self.rows:
            self.rows[address] = np.ctypeslib.as_array(pointer, (self.vocabulary,))
        return int(self.rows[address].argmax())

    def clear(self) -> None:
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), False)

    def prefill(self, count: int, sequence: int = 0) -> None:
        ids = prompt_ids(count, self.vocabulary, sequence)
        self._step([(token, i, sequence, i == count - 1) for i, token in enumerate(ids)])
        self.api.llama_synchronize(self.context)

    def answer(self, request: list[str]) -> dict[str, Any]:
        if request[0] == "memory":
            return memory() | {"before": self.before}
        numbers = [int(n) for n in request[1:]]
        self.clear()
        if request[0] == "prefill":
            start = time.perf_counter()
            self.prefill(numbers[0])
            return {"seconds": time.perf_counter() - start}
        prompt, steps = numbers
        sequences = self.api.llama_n_seq_max(self.context) if request[0] == "batch" else 1
        ids = []
        for sequence in range(sequences):
            self.prefill(prompt, sequence)
            ids.append(self._best(prompt - 1))
        out, start = [], time.perf_counter()
        for i in range(steps):
            out.append(ids[0])
            self._step([(ids[s], prompt + i, s, True) for s in range(sequences)])
            ids = [self._best(s) for s in range(sequences)]
        return {"seconds": time.perf_counter() - start, "ids": out}


class Cyllama:
    """llama.cpp through cyllama, where the other could not be built: its wheel picks kernels at run
    time. Its binding gives logits as a list, so the tokens of the steps are given beforehand and no
    best one is looked for."""

    def __init__(self, path: str, threads: int, context: int, sequences: int) -> None:
        start = time.perf_counter()
        import cyllama
        from cyllama.llama import llama_cpp as api

        self.import_seconds = time.perf_counter() - start
        api.disable_logging()
        self.api, self.sequences = api, sequences
        self.version = f"cyllama {cyllama.__version__}, its wheel"
        self.before = memory()
        params = api.LlamaModelParams()
        params.n_gpu_layers = 0
        self.model = type(
            "Model",
            (api.LlamaModel,),
            {"n_vocab": property(lambda model: model.get_vocab().n_vocab)},
        )(path, params, False)
        self.vocabulary = self.model.n_vocab
        options = api.LlamaContextParams()
        options.n_ctx, options.n_seq_max, options.n_batch = (
            context * sequences,
            sequences,
            max(2048, context),
        )
        options.n_threads = options.n_threads_batch = threads
        self.context = api.LlamaContext(self.model, options, False)
        self.load_seconds = time.perf_counter() - start

    def _step(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        batch = self.api.LlamaBatch(n_tokens=len(tokens), embd=0, n_seq_max=1)
        for token, position, sequence, logits in tokens:
            batch.add(token, position, [sequence], logits)
        if self.context.decode(batch) != 0:
            sys.exit("decode failed")

    def _prefill(self, count: int, sequence: int) -> None:
        ids = prompt_ids(count, self.vocabulary, sequence)
        self._step([(token, i, sequence, i == count - 1) for i, token in enumerate(ids)])

    def answer(self, request: list[str]) -> dict[str, Any]:
        if request[0] == "memory":
            return memory() | {"before": self.before}
        numbers = [int(n) for n in request[1:]]
        self.context.kv_cache_clear()
        start = time.perf_counter()
        if request[0] == "prefill":
            self._prefill(numbers[0], 0)
            return {"seconds": time.perf_counter() - start}
        sequences = self.sequences if request[0] == "batch" else 1
        for sequence in range(sequences):
            self._prefill(numbers[0], sequence)
        start = time.perf_counter()
        for i in range(numbers[1]):
            self._step(
                [
                    ((i * 7919 + s) % self.vocabulary, numbers[0] + i, s, True)
                    for s in range(sequences)
                ]
            )
        return {"seconds": time.perf_counter() - start}


def llama_engine() -> type:
    import importlib.util

    return LlamaCpp if importlib.util.find_spec("llama_cpp") else Cyllama


class CTranslate2:
    def __init__(self, path: str, threads: int, context: int, sequences: int) -> None:
        start = time.perf_counter()
        import ctranslate2

        self.import_seconds = time.perf_counter() - start
        self.version = f"CTranslate2 {ctranslate2.__version__}"
        self.before = memory()
        compute = "int8" if "q8" in Path(path).name else "float32"
        self.generator = ctranslate2.Generator(
            path, device="cpu", compute_type=compute, inter_threads=1, intra_threads=threads
        )
        self.vocabulary, self.sequences = (
            SHAPES[Path(path).name.split("-")[0]].vocabulary,
            sequences,
        )
        self.load_seconds = time.perf_counter() - start

    def _generate(self, prompt: int, count: int, sequences: int) -> tuple[float, list[int]]:
        prompts = [
            [f"t{i}" for i in prompt_ids(prompt, self.vocabulary, s)] for s in range(sequences)
        ]
        start = time.perf_counter()
        results = self.generator.generate_batch(
            prompts,
            max_length=count,
            min_length=count,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return time.perf_counter() - start, [int(t[1:]) for t in results[0].sequences[0]]

    def answer(self, request: list[str]) -> dict[str, Any]:
        if request[0] == "memory":
            return memory() | {"before": self.before}
        numbers = [int(n) for n in request[1:]]
        if request[0] == "prefill":
            return {"seconds": self._generate(numbers[0], 1, 1)[0]}
        prompt, steps = numbers
        sequences = self.sequences if request[0] == "batch" else 1
        one, _ = self._generate(prompt, 1, sequences)
        seconds, ids = self._generate(prompt, steps + 1, sequences)
        return {"seconds": seconds - one, "ids": ids[:steps]}


@front_door("bench_decoder")
def peer_main(args: argparse.Namespace) -> None:
    engine = (llama_engine() if args.peer == "llama" else CTranslate2)(
        args.model, args.threads, args.context, args.sequences
    )
    serve(
        engine.answer,
        {
            "version": engine.version,
            "load_seconds": engine.load_seconds,
            "import_seconds": engine.import_seconds,
        },
    )


# ---- the comparison


def ours(
    args: Any, path: Path, threads: int, context: int, sequences: int = 1, *more: str
) -> Worker:
    return Worker(
        [
            f"{args.build}/bench_decoder",
            str(path),
            "--threads",
            str(threads),
            "--context",
            str(context),
            "--sequences",
            str(sequences),
            *more,
        ]
    )


def theirs(engine: str, path: Path, threads: int, context: int, sequences: int = 1) -> Worker:
    return Worker(
        [
            sys.executable,
            "-m",
            __spec__.name,
            "--peer",
            PEERS[engine][0],
            str(path),
            "--threads",
            str(threads),
            "--context",
            str(context),
            "--sequences",
            str(sequences),
        ]
    )


def group(
    args: Any,
    shape: str,
    kind: str,
    threads: int,
    context: int,
    engines: tuple[str, ...],
    sequences: int = 1,
) -> dict[str, Worker]:
    """One worker of each engine that has this type."""
    workers = {
        OURS: ours(args, model(args.folder, shape, kind, "phasor"), threads, context, sequences)
    }
    for engine in engines:
        if engine == CT2 and kind not in ("f32", "q8"):
            continue
        workers[engine] = theirs(
            engine, model(args.folder, shape, kind, PEERS[engine][1]), threads, context, sequences
        )
    return workers


def close(workers: dict[str, Worker]) -> None:
    for worker in workers.values():
        worker.close()


def add_rates(
    results: Results, what: str, answers: dict[str, list[dict]], tokens: int, **where: Any
) -> None:
    for engine, runs in answers.items():
        results.add(what, engine, [tokens / r["seconds"] for r in runs], "tokens/s", **where)


def same_tokens(results: Results, answers: dict[str, list[dict]], label: str) -> None:
    """Notes how many greedy tokens the engines have in common from the start: in f32 they compute
    the same function."""
    own = answers[OURS][0]["ids"]
    for engine, runs in answers.items():
        if not engine.startswith(OURS) and "ids" in runs[0]:
            equal = next(
                (i for i, (a, b) in enumerate(zip(own, runs[0]["ids"])) if a != b), len(own)
            )
            results.facts[f"equal tokens, {label}, {engine}"] = f"the first {equal} of {len(own)}"


def row_llama(args: Any, name: str, shape: str, types: tuple[str, ...], steps: int) -> Results:
    """Decoding and a prompt of 512 tokens, of one shape."""
    results = Results(name, args.folder / "results")
    for kind in types:
        for threads in args.threads:
            workers = group(args, shape, kind, threads, 1024, (LLAMA, CT2))
            if kind == "f16":
                workers[BF16] = ours(
                    args, model(args.folder, shape, "bf16", "phasor"), threads, 1024
                )
            results.facts |= engine_versions(workers) | {OURS: workers[OURS].hello["isa"]}
            answers = take_turns(workers, f"decode 16 {steps}", args.runs)
            add_rates(results, "decode", answers, steps, type=kind, threads=threads)
            same_tokens(results, answers, f"{kind}, {threads} threads")
            add_rates(
                results,
                "prefill 512",
                take_turns(workers, "prefill 512", args.runs),
                512,
                type=kind,
                threads=threads,
            )
            for engine, worker in workers.items():
                held = worker.ask("memory")
                results.add(
                    "resident", engine, [held["rss"] / 2**20], "MiB", type=kind, threads=threads
                )
            close(workers)
            results.save()
    return results


def row_decode(args: Any) -> Results:
    r = row_llama(args, "decode", "135m", ("f32", "f16", "q8", "q4"), 48)
    for t in args.threads:
        at, where = f"{t} thread{'s' * (t > 1)}", {"threads": t}

        def median(what: str, engine: str, kind: str) -> float | None:
            return r.median(what, engine, type=kind, **where)

        r.aim(
            f"decode, q8, {at}",
            "llama.cpp Q8_0",
            median("decode", OURS, "q8"),
            median("decode", LLAMA, "q8"),
            1.5 if t == 1 else 1.8,
        )
        r.aim(
            f"decode, q4, {at}",
            "llama.cpp Q4_0",
            median("decode", OURS, "q4"),
            median("decode", LLAMA, "q4"),
            1.6 if t == 1 else 2.0,
        )
        r.aim(
            f"decode, f16 or bf16, {at}",
            "llama.cpp F16",
            best(median("decode", OURS, "f16"), median("decode", BF16, "f16")),
            median("decode", LLAMA, "f16"),
            1.3,
        )
        r.aim(
            f"decode, f32, {at}",
            "llama.cpp F32",
            median("decode", OURS, "f32"),
            median("decode", LLAMA, "f32"),
            1.05,
        )
        prefill = "prefill 512"
        r.aim(
            f"prefill 512, q8, {at}",
            "llama.cpp Q8_0",
            median(prefill, OURS, "q8"),
            median(prefill, LLAMA, "q8"),
            5,
        )
        r.aim(
            f"prefill 512, q4, {at}",
            "llama.cpp Q4_0",
            median(prefill, OURS, "q4"),
            median(prefill, LLAMA, "q4"),
            3,
        )
        r.aim(
            f"prefill 512, f32, {at}",
            "llama.cpp's best float",
            median(prefill, OURS, "f32"),
            best(median(prefill, LLAMA, "f32"), median(prefill, LLAMA, "f16")),
            1.3,
        )
        r.aim(
            f"prefill 512, q8, {at}",
            "CTranslate2 int8",
            median(prefill, OURS, "q8"),
            median(prefill, CT2, "q8"),
            1.5,
        )
    return r


def row_15m(args: Any) -> Results:
    r = row_llama(args, "15m", "15m", ("f32", "q8", "q4"), 192)
    for t in args.threads:
        for kind, least in (("f32", 1.5), ("q8", 2), ("q4", 2)):
            peers = {p: r.median("decode", p, type=kind, threads=t) or 0.0 for p in PEERS}
            first = max(peers, key=lambda p: peers[p])
            r.aim(
                f"15M shape, decode, {kind}, {t} thread{'s' * (t > 1)}",
                f"the best peer, {first}",
                r.median("decode", OURS, type=kind, threads=t),
                peers[first],
                least,
            )
    return r


def best(*values: float | None) -> float | None:
    return max((v for v in values if v is not None), default=None)


def row_growth(args: Any) -> Results:
    """With the context, the prompt's length, the number of sequences, the model's size: q8, one
    thread and all."""
    results = Results("growth", args.folder / "results")
    most = max(args.threads)
    contexts = [128, 512, 2048, 8064]
    workers = group(args, "135m", "q8", most, 8192, (LLAMA,))
    for cache in ("f16", "q8"):
        workers[f"{OURS}, {cache} cache"] = ours(
            args, model(args.folder, "135m", "q8", "phasor"), most, 8192, 1, "--cache", cache
        )
    for context in contexts:
        add_rates(
            results,
            "context",
            take_turns(workers, f"decode {context} 24", 2 if context > 2048 else args.runs),
            24,
            at=context,
            type="q8",
            threads=most,
        )
    for length in (1, 8, 32, 128, 512, 2048):
        add_rates(
            results,
            "prompt",
            take_turns(workers, f"prefill {length}", 3 if length > 512 else args.runs),
            length,
            at=length,
            type="q8",
            threads=most,
        )
    close(workers)
    results.save()
    for sequences in (1, 2, 4, 8, 16, 32):
        workers = group(args, "135m", "q8", most, 128, (LLAMA, CT2), sequences)
        add_rates(
            results,
            "batch",
            take_turns(workers, "batch 16 16", min(args.runs, 5)),
            16 * sequences,
            at=sequences,
            type="q8",
            threads=most,
        )
        close(workers)
    results.save()
    for shape in ("260k", "d256", "15m", "135m"):
        for threads in args.threads:
            workers = group(args, shape, "q8", threads, 256, (LLAMA,))
            add_rates(
                results,
                "size",
                take_turns(workers, "decode 16 48", args.runs),
                48,
                at=shape,
                type="q8",
                threads=threads,
            )
            close(workers)
    results.save()
    return results


ROWS = {"decode": row_decode, "15m": row_15m, "growth": row_growth}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", choices=[p for p, _ in PEERS.values()], required=True)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--sequences", type=int, default=1)
    sys.exit(peer_main(parser.parse_args()))
