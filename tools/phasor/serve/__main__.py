"""`python -m phasor.serve`: the arguments, and the server until a signal ends it."""

from __future__ import annotations

import argparse
import ipaddress
import os
import socket
import sys
from pathlib import Path
from typing import Callable, Sequence

from phasor.arguments import Parser
from phasor.entry import front_door
from phasor.errors import PhasorError
from phasor.files import read_text
from phasor.runtime import _interface as c
from phasor.runtime.model import load
from phasor.serve.engine import Embedder, Generator
from phasor.serve.wanted import Reader

KEY = "PHASOR_SERVE_KEY"
_LONGEST_KEY = 4096
_CONNECTIONS = 1024


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text}: expected a whole number of {low} to {high}")
        return int(text)

    return read


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _key(path: Path | None) -> str | None:
    """Of the file, or else of the environment."""
    what = str(path) if path else KEY
    key = read_text(path, _LONGEST_KEY).strip() if path else os.environ.get(KEY)
    if key is None:
        return None
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise PhasorError(f"{what}: expected a key, ASCII characters without a space")
    return key


@front_door("serve")
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog="python -m phasor.serve",
        description="Serves one weight file: /v1/chat/completions, /v1/completions, "
        "/v1/embeddings, /v1/models and /health.",
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--host", default="127.0.0.1", help="Default: 127.0.0.1, this machine.")
    parser.add_argument("--port", type=_whole(0, 65535), default=8080, help="Default: 8080.")
    parser.add_argument("--name", help="Name of the model. Default: that of the file.")
    parser.add_argument(
        "--key-file",
        type=Path,
        help=f"File of the key that clients must send. Default: the variable {KEY}, else no key.",
    )
    parser.add_argument(
        "--context",
        type=_whole(2, 1 << 20),
        default=0,
        help="Tokens of one output with its prompt. Default: as many as the model has, at most"
        " 2048.",
    )
    parser.add_argument(
        "--sequences",
        type=_whole(1, 256),
        default=8,
        help="Outputs that are computed together. Default: 8.",
    )
    parser.add_argument(
        "--queue",
        type=_whole(0, 1 << 20),
        default=64,
        help="Outputs that may wait; more are refused. Default: 64.",
    )
    parser.add_argument(
        "--body-bytes",
        type=_whole(1, 1 << 30),
        default=1 << 20,
        help="Longest request. Default: 1048576.",
    )
    parser.add_argument(
        "--seconds", type=_whole(1, 1 << 20), default=300, help="Longest answer. Default: 300."
    )
    args = parser.parse_args(argv)
    key = _key(args.key_file)
    if key is None and not _is_loopback(args.host):
        raise PhasorError(f"--host {args.host}: others can reach it. TRY: --key-file FILE")
    with load(args.model) as model:
        encodes = model.info.kind == "encoder"
        engine = (
            Embedder(model, args.queue)
            if encodes
            else Generator(model, args.context, args.sequences, args.queue)
        )
        if not encodes and model.info.output != "logits":
            raise PhasorError(f"{args.model}: gives {model.info.output}, expected text or vectors")
        if encodes and not model._weights.output.pooling:
            raise PhasorError(f"{args.model}: says nothing of pooling, so it gives no vectors")
        model._side(None, c.SOURCE if encodes else model._weights.output_side)
        return serve(args, Reader(model, args.name or args.model.stem, engine.room), engine, key)


def serve(
    args: argparse.Namespace, reader: Reader, engine: Generator | Embedder, key: str | None
) -> int:
    import uvicorn

    from phasor.serve.api import Limits, Server

    server = Server(reader, engine, Limits(args.body_bytes, args.seconds), key)
    config = uvicorn.Config(
        server.app(),
        host=args.host,
        port=args.port,
        log_level="warning",
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=2,
        server_header=False,
        lifespan="off",
        ws="none",
    )
    running = uvicorn.Server(config)
    host = f"[{args.host}]" if ":" in args.host else args.host
    try:
        family = socket.AF_INET6 if ":" in args.host else socket.AF_INET
        where = (args.host, args.port)
        listening = socket.create_server(where, family=family, backlog=_CONNECTIONS)
    except OSError as error:
        raise PhasorError(f"{host}:{args.port}: {error.strerror}. TRY: --port") from error
    engine.start()
    try:
        port = listening.getsockname()[1]
        print(f"http://{host}:{port}/v1 serves {reader.name}", flush=True)
        running.run(sockets=[listening])
    finally:
        engine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
