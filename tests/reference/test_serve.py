"""`python -m phasor.serve` (tools/phasor/serve) with the client that its interface is named after:
each answer has the bits of the model alone, whoever else asks, reads slowly or goes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import phasor
import random_models as M
from places import ROOT, SERVER, need_server, program, there, told

LANGUAGE = ROOT / "models/positions/rotary.phasor"
TRANSLATOR = ROOT / "models/zh-en-small.phasor"
CHAT = ROOT / "tests/golden/models/tiny-chat-f32.phasor"
CLIENTS = 64
KEY = "a-key-of-the-tests"
PROMPTS = ("The game was", "In the year", " The first", "He wrote a song", "A ship", "It is")


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    there(ROOT / "build/libphasor.so.0", "run make shared")
    need_server()


class Running:
    def __init__(self, process: subprocess.Popen, url: str) -> None:
        self.process, self.url = process, url
        self.port = int(url.rsplit(":", 1)[1].split("/")[0])
        import httpx

        self.plain = httpx.Client(base_url=url, timeout=30)

    def client(self, **more: Any) -> Any:
        import openai

        return openai.AsyncOpenAI(base_url=self.url, api_key=KEY, timeout=60, **more)

    def get(self, path: str, **more: Any) -> Any:
        return self.plain.get(self.url.removesuffix("/v1") + path, **more)

    def post(self, path: str, body: bytes, key: str = KEY) -> Any:
        return self.plain.post(path, content=body, headers={"Authorization": f"Bearer {key}"})

    def memory(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10

    def idle(self) -> None:
        """Waits until nothing runs and nobody waits."""
        until = time.monotonic() + 20
        while (said := self.get("/health").json()) != {"status": "ok", "running": 0, "waiting": 0}:
            assert time.monotonic() < until, said
            time.sleep(0.02)


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "phasor.serve", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join((str(SERVER), str(ROOT / "tools")))
    return {**os.environ, "PYTHONPATH": path, **more}


@contextlib.contextmanager
def serving(model: Path, *words: object, key: str = KEY) -> Iterator[Running]:
    process = subprocess.Popen(
        command(model, "--port", 0, *words),
        env=environment(PHASOR_SERVE_KEY=key),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        url = re.match(r"(http://(?:127\.0\.0\.1|0\.0\.0\.0):\d+/v1) serves ", line)
        assert url, (line, process.stderr.read() if process.poll() is not None else "")
        running = Running(process, url[1].replace("0.0.0.0", "127.0.0.1"))
        yield running
        running.plain.close()
    finally:
        process.terminate()
        _, said = process.communicate(timeout=20)
    assert process.returncode == -15 and said == "serve: stopped by SIGTERM\n"


@pytest.fixture(scope="module")
def language() -> Iterator[Running]:
    with serving(LANGUAGE, "--sequences", 6, "--queue", 200, "--context", 256) as server:
        yield server


@pytest.fixture(scope="module")
def alone() -> phasor.Model:
    return phasor.load(LANGUAGE)


# What 64 clients ask for: greedy and drawn, with and without stop strings, long and short.
def asked(number: int) -> dict[str, Any]:
    drawn = {"temperature": 0.9, "top_p": 0.95, "seed": number}
    more = [{}, drawn, {"stop": ["the "]}, {"temperature": 1.1, "seed": 3, "stop": ["s", ". "]}]
    prompt = PROMPTS[number % len(PROMPTS)]  # some are read in parts, beside outputs of others
    return {
        "model": "rotary",
        "prompt": (prompt * 30)[:300] if number % 16 > 8 else prompt,
        "max_tokens": 3 + number * 7 % 40,
        **more[number % len(more)],
    }


def expected(alone: phasor.Model, given: dict[str, Any]) -> str:
    named = {name: value for name, value in given.items() if name not in ("model", "prompt")}
    return "".join(alone.stream(given["prompt"], max_new=named.pop("max_tokens"), **named))


async def answer(client: Any, given: dict[str, Any], stream: bool, wait: float = 0) -> str:
    if not stream:
        done = await client.completions.create(**given)
        assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
        assert 0 < done.usage.completion_tokens <= given["max_tokens"]
        return done.choices[0].text
    text, ends = "", []
    usage = {"include_usage": True}
    async for event in await client.completions.create(**given, stream=True, stream_options=usage):
        for choice in event.choices:
            text += choice.text
            ends += [choice.finish_reason] if choice.finish_reason else []
        await asyncio.sleep(wait)
    assert len(ends) == 1 and ends[0] in ("stop", "length") and event.usage.total_tokens > 0
    return text


def test_many_clients_get_what_the_model_says_alone(language, alone):
    """Some read slowly, some go away in the middle. Nothing is lost, and memory stays."""
    given = [asked(number) for number in range(CLIENTS)]
    want = [expected(alone, one) for one in given]
    assert len(set(want)) > CLIENTS // 2

    async def leave(client: Any, number: int) -> None:
        long = {**given[number], "max_tokens": 100, "stop": None}
        if number % 2:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(client.completions.create(**long), 0.05)
            return
        stream = await client.completions.create(**long, stream=True)
        async for _ in stream:
            break
        await stream.close()

    async def everybody() -> list[str]:
        async with language.client(max_retries=0) as client:
            answers = [
                answer(client, one, number % 3 > 0, 0.02 if number % 8 == 1 else 0)
                for number, one in enumerate(given)
            ]
            gone = [leave(client, number) for number in range(12)]
            done = await asyncio.gather(*answers, *gone)
            return done[:CLIENTS]

    memory = []
    for _ in range(3):
        assert asyncio.run(everybody()) == want
        language.idle()
        memory.append(language.memory())
    assert memory[-1] - memory[0] < 8 << 20, memory


def test_a_reader_that_never_reads_is_not_waited_for(language, alone):
    """Its answer lies in the sockets, and then the server's time for a request ends it."""
    with contextlib.ExitStack() as stack:
        for number in range(20):
            body = json.dumps({**asked(number), "max_tokens": 120, "stream": True, "n": 8}).encode()
            link = stack.enter_context(socket.create_connection(("127.0.0.1", language.port)))
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
            link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        one = asked(2)

        async def another() -> str:
            async with language.client() as client:
                return await answer(client, one, True)

        assert asyncio.run(another()) == expected(alone, one)
    language.idle()


def refused(done: Any, status: int, says: str) -> None:
    said = done.json()["error"]
    assert done.status_code == status, (done.status_code, said)
    assert re.search(says, said["message"]) and "\n" not in said["message"], said
    assert said["type"] in ("invalid_request_error", "server_error")


REFUSED = [
    (b"", 400, "the body is empty"),
    (b"{", 400, "not a JSON object"),
    (b"[]", 400, "not a JSON object"),
    (b"\xff\xfe", 400, "not UTF-8"),
    (b"[" * 100_000, 400, "deeper"),
    (b'{"prompt": "a", "prompt": "b"}', 400, "there twice"),
    (b'{"prompt": "\\ud800"}', 400, "surrogate"),
    (b'{"prompt": "a", "temperature": NaN}', 400, "temperature"),
    (b"{}", 400, "prompt=None: expected"),
    (b'{"prompt": []}', 400, "prompt=.*expected"),
    (b'{"prompt": [1, 99999]}', 400, "token ids of 0 to"),
    (b'{"prompt": [-1]}', 400, "token ids of 0 to"),
    (b'{"prompt": ["a", 3]}', 400, "prompt: expected"),
    (b'{"prompt": "a", "model": "gpt"}', 404, "this server has rotary"),
    (b'{"prompt": "a", "max_tokens": 0}', 400, "max_tokens=0: expected"),
    (b'{"prompt": "a", "max_tokens": 1.5}', 400, "max_tokens=1.5: expected"),
    (b'{"prompt": "a", "max_tokens": true}', 400, "max_tokens=True: expected"),
    (b'{"prompt": "a", "temperature": -1}', 400, "temperature=-1: expected"),
    (b'{"prompt": "a", "top_p": 2}', 400, "top_p=2: expected"),
    (b'{"prompt": "a", "n": 17}', 400, "n=17: expected"),
    (b'{"prompt": "a", "n": 1000000000000000000000}', 400, "expected"),
    (b'{"prompt": ["a", "b"], "n": 16}', 400, "32 outputs: expected at most 16"),
    (b'{"prompt": "a", "stream": 1}', 400, "stream=1: expected true or false"),
    (b'{"prompt": "a", "stop": [1]}', 400, "stop=.*expected"),
    (b'{"prompt": "a", "stop": ""}', 400, "stop string"),
    (b'{"prompt": "a", "stop": "\\u0000"}', 400, "stop string"),
    (b'{"prompt": "a", "logprobs": 5}', 400, "logprobs.*supported"),
    (b'{"prompt": "a", "temprature": 1}', 400, "temprature.*no such field"),
    (b'{"prompt": "a", "stream_options": 3}', 400, "stream_options"),
    (b'{"prompt": "' + b"word " * 2000 + b'"}', 400, "tokens: expected 1 to 256"),
    (b'{"prompt": "' + b"x" * (1 << 20) + b'"}', 413, "longer than 1048576 bytes"),
]


def test_what_is_malformed_or_too_large_gets_one_line(language):
    for body, status, says in REFUSED:
        refused(language.post("/completions", body), status, says)
    good = b'{"prompt": "a", "max_tokens": 1}'
    refused(language.post("/completions", good, "another"), 401, "expected the server's key")
    refused(language.post("/chat/completions", b'{"messages": []}'), 400, "no chat template")
    refused(language.post("/embeddings", b'{"input": "a"}'), 400, "gives text")
    refused(language.post("/images", b"{}"), 404, "POST /v1/images")
    refused(language.get("/v1/completions"), 405, "GET /v1/completions")
    refused(language.get("/v1/models/a"), 401, "key")
    assert language.post("/completions", good).status_code == 200
    language.idle()


def test_drawn_damage_is_refused_or_answered(language):
    """Bytes and values of a good request changed at random: never an error of the server."""
    draw = random.Random(1)
    values = [None, True, -1, 0, 1.5, 1e400, 10**30, "", "a", [], {}, [[]], [{}], {"a": []}]
    good = {**asked(1), "stream": False, "n": 1, "stream_options": {"include_usage": True}}
    for _ in range(150):
        fields: dict[str, Any] = {**good, "max_tokens": 2}
        for name in draw.sample(sorted(fields), 2):
            fields[name] = draw.choice(values)
        body = bytearray(json.dumps(fields).encode())
        if draw.random() < 0.3:
            body[draw.randrange(len(body))] = draw.randrange(256)
        done = language.post("/completions", bytes(body))
        assert done.status_code in (200, 400, 404), (body, done.text)
        if done.status_code != 200:
            refused(done, done.status_code, ".")


def test_the_queue_is_bounded_and_time_is(alone):
    """Two run and one waits: the fourth is refused, and what takes too long is ended."""
    given = {"model": "rotary", "prompt": "The", "stream": True}
    words = ("--sequences", 2, "--queue", 1, "--seconds", 1, "--body-bytes", 4000)
    with serving(LANGUAGE, *words) as server, contextlib.ExitStack() as stack:

        async def crowd() -> list[Any]:
            import openai

            async with server.client(max_retries=0) as client:

                async def one() -> Any:
                    try:
                        text = ""
                        async for event in await client.completions.create(**given):
                            text += event.choices[0].text
                        return text
                    except openai.APIError as error:
                        return error

                return await asyncio.gather(*(one() for _ in range(12)))

        done = asyncio.run(crowd())
        busy = [one for one in done if getattr(one, "status_code", 0) == 503]
        assert busy and all("queue is full" in one.message for one in busy)
        others = [one for one in done if one not in busy]
        want = expected(alone, {"prompt": "The", "max_tokens": 0})
        late = [one for one in others if not isinstance(one, str)]
        assert len(others) >= 3 and all("time for a request" in str(one) for one in late)
        assert all(one == want for one in others if isinstance(one, str))
        # A body that never comes.
        link = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {KEY}\r\n"
        link.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert b"408" in link.recv(4096)
        server.idle()


def test_a_translator_takes_its_prompt_as_the_source(tmp_path):
    """Several prompts and several outputs of one request, in the order of their indices."""
    texts = ["我有一只猫。", "你叫什么名字？", "今天天气很好。"]
    words = ("--sequences", 4, "--host", "0.0.0.0", "--key-file", tmp_path / "key")
    (tmp_path / "key").write_text(f"{KEY}\n")
    with serving(TRANSLATOR, *words, key="") as server, phasor.load(TRANSLATOR) as model:

        async def both() -> Any:
            async with server.client() as client:
                named = {"model": "zh-en-small", "prompt": texts}
                drawn = client.completions.create(**named, n=2, temperature=0.7, seed=5)
                return await asyncio.gather(client.completions.create(**named), drawn)

        refused(server.post("/embeddings", b'{"input": "a"}'), 400, "use /v1/completions")
        greedy, drawn = asyncio.run(both())
        said = model.translate(texts)
        want = [
            "".join(model.stream(text, temperature=0.7, seed=5 + k))
            for text in texts
            for k in (0, 1)
        ]
    assert [one.text for one in greedy.choices] == said
    assert [one.text for one in drawn.choices] == want
    assert [one.index for one in drawn.choices] == list(range(6))


def test_chat_is_that_of_the_model():
    talk = [{"role": "user", "content": "hello"}]
    parts = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    words = ("chat", CHAT, "--quiet", "--json", "-n", 12)
    want, drawn = (
        json.loads(told(program(), *words, *more, stdin="hello\n"))["text"]
        for more in (("--greedy",), ("--temperature", 0.8, "--seed", 4))
    )
    with serving(CHAT) as server:

        async def ask() -> list[str]:
            async with server.client() as client:
                create, named = client.chat.completions.create, {"model": "tiny-chat-f32"}
                first = await create(**named, messages=talk, temperature=0, max_tokens=12)
                second = await create(
                    **named, messages=parts, temperature=0.8, seed=4, max_completion_tokens=12
                )
                text = ""
                stream = await create(
                    **named, messages=talk, temperature=0, max_tokens=12, stream=True
                )
                async for event in stream:
                    text += event.choices[0].delta.content or ""
                listed = [model.id async for model in client.models.list()]
                assert listed == ["tiny-chat-f32"]
                assert (await client.models.retrieve("tiny-chat-f32")).owned_by == "phasor"
                return [one.choices[0].message.content for one in (first, second)] + [text]

        assert asyncio.run(ask()) == [want, drawn, want]
        for body, says in (
            (b'{"messages": "a"}', "messages='a': expected"),
            (b'{"messages": [{"role": "user"}]}', r"messages\[0\]: content"),
            (b'{"messages": [{"role": "user", "content": "a", "tool_calls": [1]}]}', "tool_calls"),
            (b'{"messages": [{"role": "user", "content": "a"}], "tools": [{}]}', "tools"),
        ):
            refused(server.post("/chat/completions", body), 400, says)


def test_vectors_are_those_of_the_model(tmp_path):
    path = tmp_path / "encoder.phasor"
    M.write_ranker(path, classes=3)
    texts = [" ".join(f"word{i % 20}" for i in range(n % 9 + 1)) for n in range(100)]
    with phasor.load(path) as model:
        want = model.encode(texts)
    with serving(path) as server:

        async def ask() -> list[Any]:
            async with server.client() as client:
                create, named = client.embeddings.create, {"model": "encoder"}
                return await asyncio.gather(
                    create(**named, input=texts),
                    create(**named, input=texts[:1], encoding_format="float"),
                    *(create(**named, input=text) for text in texts[:40]),
                )

        done = asyncio.run(ask())
        refused(server.post("/completions", b'{"prompt": "a"}'), 400, "use /v1/embeddings")
        for body, says in (
            (b'{"input": []}', r"input=\[\]: expected"),
            (b'{"input": [1]}', "input=.*expected"),
            (b'{"input": "a", "dimensions": 1}', "dimensions=1: expected"),
            (b'{"input": "a", "encoding_format": "x"}', "encoding_format='x'"),
        ):
            refused(server.post("/embeddings", body), 400, says)
    found = [[one.embedding for one in each.data] for each in done]
    assert all(np.array_equal(np.float32(each), want[: len(each)]) for each in found[:2])
    assert all(np.array_equal(np.float32(each[0]), want[n]) for n, each in enumerate(found[2:]))
    assert done[0].usage.prompt_tokens == done[0].usage.total_tokens > 200


def test_what_does_not_start_says_why(tmp_path):
    key = tmp_path / "key"
    key.write_text("two words\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, says in (
            ([tmp_path / "absent"], "absent: cannot be read: No such file"),
            ([LANGUAGE, "--host", "0.0.0.0"], "--host 0.0.0.0: others can reach it"),
            ([LANGUAGE, "--key-file", key], "key: expected a key"),
            ([LANGUAGE, "--port", port], f"127.0.0.1:{port}: Address already in use"),
            ([ROOT / "tests/golden/models/tiny-classes-f32.phasor"], "no tokenizer"),
            ([ROOT / "tests/golden/models/tiny-lm-f32.phasor"], "no tokenizer"),
        ):
            done = subprocess.run(
                command(*words), env=environment(), capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 1 and re.match(f"serve: .*({says})", done.stderr), done
            assert len(done.stderr.splitlines()) == 1
