"""The HTTP of the server, by Starlette: chat-completions, completions, embeddings, models and
health."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import secrets
import time
from typing import Any, AsyncIterator, Awaitable, Callable, NamedTuple

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from phasor.errors import PhasorError, printable
from phasor.runtime import _interface as c
from phasor.runtime.library import Error
from phasor.serve.engine import Busy, Embedder, Generator, Job, Piece, Texts
from phasor.serve.wanted import Asked, Reader, Refused

_LATE = 2.0  # seconds that a connection has to be told that it is late
_SOON = {"retry-after": "1"}


class Limits(NamedTuple):
    """What one request may take."""

    bytes: int
    seconds: float


def refusal(
    line: str, status: int, code: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": _error(line, status, code)}, status, headers)


def _error(line: str, status: int, code: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"message": printable(line, 500), "type": kind, "param": None, "code": code}


def _failure(piece: Piece) -> tuple[str, int, str]:
    status, code = (504, "timeout") if piece.late else (500, "failed")
    return piece.failed, status, code


class Server:
    """The endpoints of one model. key: what a request must show, if there is one."""

    def __init__(
        self, reader: Reader, engine: Generator | Embedder, limits: Limits, key: str | None
    ) -> None:
        self.reader, self.engine, self.limits, self.key = reader, engine, limits, key
        self.began = int(time.time())

    def app(self) -> Any:
        routes = [
            Route("/health", self.health),
            Route("/v1/models", self._door(self.models)),
            Route("/v1/models/{name:path}", self._door(self.model)),
            Route("/v1/chat/completions", self._door(self.chat), methods=["POST"]),
            Route("/v1/completions", self._door(self.completions), methods=["POST"]),
            Route("/v1/embeddings", self._door(self.embeddings), methods=["POST"]),
        ]
        handlers: Any = {HTTPException: self._no_such}
        return self._in_time(Starlette(routes=routes, exception_handlers=handlers))

    # ---- around every request

    async def _no_such(self, request: Request, error: HTTPException) -> Response:
        line = f"{request.method} {request.url.path}: {error.detail}"
        return refusal(line, error.status_code, "not_found")

    def _in_time(self, app: Any) -> Any:
        """Nothing is awaited longer than a request may take: no body that never comes, no reader
        that never reads."""

        async def timed(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            begun = False

            async def telling(message: Any) -> None:
                nonlocal begun
                begun = True
                await send(message)

            try:
                async with asyncio.timeout(self.limits.seconds + _LATE):
                    await app(scope, receive, telling)
            except TimeoutError:
                if not begun:
                    line = f"the request took longer than {self.limits.seconds:g} seconds"
                    await refusal(line, 408, "timeout")(scope, receive, send)

        return timed

    def _door(self, answer: Callable[[Request], Awaitable[Response]]) -> Any:
        async def endpoint(request: Request) -> Response:
            if self.key is not None:
                kind, _, shown = request.headers.get("authorization", "").partition(" ")
                given = shown.strip().encode()
                right = hmac.compare_digest(given, self.key.encode())
                if kind.lower() != "bearer" or not right:
                    line = "expected the server's key: Authorization: Bearer KEY"
                    return refusal(line, 401, "invalid_api_key", {"www-authenticate": "Bearer"})
            try:
                return await answer(request)
            except Refused as refused:
                return refusal(str(refused), refused.status, refused.code)
            except Busy:
                return refusal("the queue is full: try again", 503, "overloaded", _SOON)
            except Error as error:
                if error.status in (c.Status.NOT_FINITE, c.Status.NO_MEMORY):
                    return refusal(str(error), 500, "failed")
                return refusal(str(error), 400, "invalid_request")
            except PhasorError as error:
                return refusal(str(error), 400, "invalid_request")
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it

        return endpoint

    async def _body(self, request: Request) -> bytes:
        most, body = self.limits.bytes, bytearray()
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise Refused(f"the body is longer than {most} bytes", 413, "too_large")
        return bytes(body)

    # ---- endpoints

    async def health(self, _: Request) -> Response:
        running, waiting = self.engine.counts()
        return JSONResponse({"status": "ok", "running": running, "waiting": waiting})

    def _described(self) -> dict[str, Any]:
        return {
            "id": self.reader.name,
            "object": "model",
            "created": self.began,
            "owned_by": "phasor",
        }

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._described()]})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name != self.reader.name:
            why = f"{printable(name)}: this server has {self.reader.name}"
            raise Refused(why, 404, "model_not_found")
        return JSONResponse(self._described())

    async def chat(self, request: Request) -> Response:
        return await self._generated(request, self.reader.chat, Chat)

    async def completions(self, request: Request) -> Response:
        return await self._generated(request, self.reader.completion, Completion)

    async def embeddings(self, request: Request) -> Response:
        if not isinstance(self.engine, Embedder):
            raise Refused(f"{self.reader.name} gives text: use /v1/completions")
        body = await self._body(request)
        texts, tokens, base64_wanted = await asyncio.to_thread(self.reader.texts, body)
        inbox = Inbox()
        wanted = Texts(texts, inbox.put_for(0), self._until())
        async with self._computing([wanted], request, inbox):
            _, piece = await inbox.get()
        if piece.failed:
            return refusal(*_failure(piece))
        data = [
            {"object": "embedding", "index": n, "embedding": _shown(vector, base64_wanted)}
            for n, vector in enumerate(piece.vectors if piece.vectors is not None else [])
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse(
            {"object": "list", "data": data, "model": self.reader.name, "usage": usage}
        )

    async def _generated(
        self, request: Request, read: Callable[[bytes], Asked], form: type[Form]
    ) -> Response:
        if not isinstance(self.engine, Generator):
            raise Refused(f"{self.reader.name} gives vectors: use /v1/embeddings")
        asked = await asyncio.to_thread(read, await self._body(request))
        inbox, until = Inbox(), self._until()
        jobs = [Job(wanted, inbox.put_for(n), until) for n, wanted in enumerate(asked.outputs)]
        answer = form(self.reader.name, asked)
        if asked.stream:
            self.engine.submit(jobs)
            return StreamingResponse(
                self._events(answer, jobs, inbox), media_type="text/event-stream",
                headers={"cache-control": "no-cache"},
            )  # fmt: skip
        async with self._computing(jobs, request, inbox):
            while answer.left:
                number, piece = await inbox.get()
                if piece.failed:
                    return refusal(*_failure(piece))
                answer.take(number, piece)
        return JSONResponse(answer.whole())

    def _until(self) -> float:
        return time.monotonic() + self.limits.seconds

    async def _events(self, answer: Form, jobs: list[Job], inbox: Inbox) -> AsyncIterator[str]:
        """Each is one line of JSON. A client that goes away closes the generator."""
        try:
            for event in answer.begin():
                yield _event(event)
            while answer.left:
                events = ""
                for number, piece in await inbox.all():
                    if piece.failed:
                        yield events + _event({"error": _error(*_failure(piece))})
                        return
                    events += "".join(map(_event, answer.take(number, piece)))
                yield events
            if answer.asked.usage:
                yield _event(answer.head() | {"choices": [], "usage": answer.usage()})
            yield "data: [DONE]\n\n"
        finally:
            self.engine.give_up(jobs)

    @contextlib.asynccontextmanager
    async def _computing(
        self, requests: list[Any], request: Request, inbox: Inbox
    ) -> AsyncIterator[None]:
        """Submits, and gives up when the client goes away."""
        self.engine.submit(requests)

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            inbox.gone()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            self.engine.give_up(requests)


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"


def _shown(vector: np.ndarray, as_base64: bool) -> Any:
    if as_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return vector.tolist()


class Inbox:
    """Pieces on their way from the engine's thread to a request. There are no more of them than an
    output has tokens."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[tuple[int, Piece] | None] = asyncio.Queue()

    def put_for(self, number: int) -> Callable[[Piece], None]:
        def put(piece: Piece) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, (number, piece))

        return put

    def gone(self) -> None:
        self._pieces.put_nowait(None)

    async def get(self) -> tuple[int, Piece]:
        found = await self._pieces.get()
        if found is None:
            raise ClientDisconnect
        return found

    async def all(self) -> list[tuple[int, Piece]]:
        """What is there: a slow reader gets much at once."""
        found = [await self.get()]
        while not self._pieces.empty():
            found.append(await self.get())
        return found


class Form:
    """How an endpoint writes its outputs."""

    kind, chunk, prefix = "", "", ""

    def __init__(self, model: str, asked: Asked) -> None:
        self.asked, self.left = asked, len(asked.outputs)
        self._texts: list[list[str]] = [[] for _ in asked.outputs]
        self._ends = [Piece()] * self.left
        self._common = {
            "id": f"{self.prefix}{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
        }

    def head(self) -> dict[str, Any]:
        return {"object": self.chunk, **self._common}

    def usage(self) -> dict[str, int]:
        made = sum(end.tokens for end in self._ends)
        prompt = self.asked.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": made,
            "total_tokens": prompt + made,
        }

    def begin(self) -> list[dict[str, Any]]:
        return []

    def take(self, number: int, piece: Piece) -> list[dict[str, Any]]:
        """What a stream says of it."""
        if piece.finish:
            self.left -= 1
            self._ends[number] = piece
        if not self.asked.stream:
            self._texts[number].append(piece.text)
            return []
        parts: list[tuple[str, str | None]] = [(piece.text, None)] if piece.text else []
        parts += [("", piece.finish)] if piece.finish else []
        return [self._said(self.part(number, text, finish)) for text, finish in parts]

    def _said(self, choice: dict[str, Any]) -> dict[str, Any]:
        return self.head() | {"choices": [choice]}

    def whole(self) -> dict[str, Any]:
        choices = [
            self.choice(number, "".join(texts), self._ends[number].finish)
            for number, texts in enumerate(self._texts)
        ]
        return {"object": self.kind, **self._common, "choices": choices, "usage": self.usage()}

    def part(self, number: int, text: str, finish: str | None) -> dict[str, Any]:
        raise NotImplementedError

    def choice(self, number: int, text: str, finish: str) -> dict[str, Any]:
        raise NotImplementedError


class Completion(Form):
    kind, chunk, prefix = "text_completion", "text_completion", "cmpl-"

    def part(self, number: int, text: str, finish: str | None) -> dict[str, Any]:
        return {"index": number, "text": text, "logprobs": None, "finish_reason": finish}

    def choice(self, number: int, text: str, finish: str) -> dict[str, Any]:
        return self.part(number, text, finish)


class Chat(Form):
    kind, chunk, prefix = "chat.completion", "chat.completion.chunk", "chatcmpl-"

    def begin(self) -> list[dict[str, Any]]:
        first = {"role": "assistant", "content": ""}
        return [
            self._said({"index": n, "delta": first, "finish_reason": None})
            for n in range(len(self.asked.outputs))
        ]

    def part(self, number: int, text: str, finish: str | None) -> dict[str, Any]:
        delta = {"content": text} if finish is None else {}
        return {"index": number, "delta": delta, "finish_reason": finish}

    def choice(self, number: int, text: str, finish: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {
            "index": number,
            "message": message,
            "logprobs": None,
            "finish_reason": finish,
        }
