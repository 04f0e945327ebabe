"""`python -m phasor.serve` beside llama-cpp-python's own server, the same weights: SmolLM2's Q4_1
file, and what the converter makes of it. A row of tools/bench, asked for by name.

Each client sends one completion after the other: a prompt of its own, TOKENS new tokens, greedy.
A figure is requests a second of all clients, and the median time until an answer is whole. The
servers run at the same time and are asked in turns. phasor.serve computes all requests in one
thread; the peer has each number of --threads. On a busy machine leave it at one: with two, its
threads wait for each other in loops. The packages of both are those of
tools/requirements-bench-server.txt, in .venv-bench/server (make bench ROWS=server).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

from bench.common import OURS, ROOT, Results, at_threads, convert
from bench.sums import SMOLLM2, find_smollm2

PEER, TOKENS, WAIT = "llama-cpp-python", 32, 600
REQUESTS = {1: 4, 16: 2}  # of each client, by the number of clients
PLACES = "a forest,a harbor,an old library,a small village,the desert,a mountain,a busy market,"
PLACES += "a kitchen,the moon,a school,a train,an island,a garden,a museum,a castle,the north"
PROMPTS = [f"Once upon a time in {place}, there was" for place in PLACES.split(",")]


@contextlib.contextmanager
def _server(port: int, *words: object) -> Iterator[int]:
    """A server that answers. Its port."""
    path = os.pathsep.join([str(ROOT / "tools"), str(ROOT / ".venv-bench/server")])
    with subprocess.Popen(
        [sys.executable, "-m", *map(str, words), "--port", str(port)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            _wait(process, port)
            yield port
        finally:
            process.terminate()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        if process.poll() is not None:
            why = f"ended with {process.returncode}: make .venv-bench/server/ready"
            sys.exit(f"bench: server: {process.args!r} {why}")
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/v1/models")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.2)
    sys.exit(f"bench: server: nothing answers on port {port} after {WAIT} s")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def _ask(port: int, prompt: str) -> tuple[float, int, str]:
    """Seconds, tokens and text of an answer."""
    body = json.dumps({"prompt": prompt, "max_tokens": TOKENS, "temperature": 0})
    begin = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    given = json.loads(response.read())
    connection.close()
    if response.status != 200:
        sys.exit(f"bench: server: port {port} answers {response.status}: {str(given)[:200]}")
    taken = time.perf_counter() - begin
    return taken, given["usage"]["completion_tokens"], given["choices"][0]["text"]


def _round(port: int, clients: int, each: int) -> tuple[float, list[tuple[float, int, str]]]:
    """Seconds of all, and the answers by prompt."""
    prompts = [PROMPTS[n % len(PROMPTS)] for n in range(clients * each)]

    def client(number: int) -> list[tuple[float, int, str]]:
        return [_ask(port, one) for one in prompts[number * each : (number + 1) * each]]

    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = [one for own in pool.map(client, range(clients)) for one in own]
    return time.perf_counter() - begin, answers


def row_server(args: Any, results: Results) -> None:
    source = find_smollm2(args)
    own = Path(args.folder) / "models" / "smollm2-q4_1.phasor"
    if not own.exists() or own.stat().st_mtime < source.stat().st_mtime:
        own.parent.mkdir(parents=True, exist_ok=True)
        convert(source, own, None, tokenizer=None)
    known: dict[str, str] = {}  # our answers: the same whoever else asks
    with contextlib.ExitStack() as stack:
        words = ("phasor.serve", own, "--sequences", 16, "--context", 512)
        ports = {(OURS, 1): stack.enter_context(_server(_free_port(), *words))}
        for threads in args.threads:
            flags = ("--n_threads", threads, "--n_threads_batch", threads, "--n_ctx", 512)
            words = ("llama_cpp.server", "--model", source, *flags)
            port = stack.enter_context(_server(_free_port(), *words))
            ports[PEER, threads] = port
        for port in ports.values():
            _ask(port, PROMPTS[0])
        for clients, each in REQUESTS.items():
            rates: dict[tuple[str, int], list[float]] = {key: [] for key in ports}
            waits: dict[tuple[str, int], list[float]] = {key: [] for key in ports}
            tokens: dict[tuple[str, int], list[int]] = {key: [] for key in ports}
            for _ in range(args.runs):
                for key, port in ports.items():
                    seconds, answers = _round(port, clients, each)
                    rates[key].append(len(answers) / seconds)
                    waits[key].append(statistics.median(one for one, _, _ in answers))
                    tokens[key] += [count for _, count, _ in answers]
                    for n, (_, _, text) in enumerate(answers if key[0] == OURS else []):
                        if known.setdefault(PROMPTS[n % len(PROMPTS)], text) != text:
                            sys.exit("bench: server: an answer depends on who else asks")
            at = f"{clients} client{'s' * (clients > 1)}"
            for (engine, threads), found in rates.items():
                where: dict[str, Any] = {"type": "q4m", "at": at, "threads": threads}
                key = engine, threads
                mean = statistics.mean(tokens[key])
                results.add("requests", engine, found, "requests/s", **where)
                results.add("an answer", engine, waits[key], "s", **where)
                results.facts[f"tokens of an answer, {engine}, {threads} threads"] = f"{mean:.1f}"
            for threads in args.threads:
                pair = (statistics.median(rates[OURS, 1]), statistics.median(rates[PEER, threads]))
                claim = f"{SMOLLM2}, {at}, requests/s; the peer {at_threads(threads)}"
                results.aim(claim, PEER, *pair, 1.0)
            results.save()


ROWS = {"server": row_server}
