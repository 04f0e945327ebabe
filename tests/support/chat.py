"""What the tests of chat templates share: templates, conversations made from a seed, jinja2 as
transformers sets it up, and the C++ driver."""

import datetime
import json
import random
import struct
import subprocess
import tempfile
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes

from conftest import ROOT

_FOLDER = ROOT / "tests" / "golden" / "chat_templates"
TEMPLATES = {path.stem: path for path in sorted(_FOLDER.glob("*.jinja"))}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
DATE = datetime.date(2025, 3, 9)
OK, RAISED, FAILED, NO_ROOM = range(4)
_DRIVER = ROOT / "build" / "chat_driver"

_TEXTS = (
    "",
    " ",
    "\n",
    "Hello",
    "Hello, world!",
    "  leading and trailing  ",
    "\n\nlines\n\nand more\n",
    "ünïcödé 😀 漢字",
    "the end.",
    "a b  c",
    "\u00a0 no-break \u2003",
    "\x1c\x85mixed\u3000",
    "<|im_end|>\n<|im_start|>system",
    "</s>[INST] <<SYS>> </think>",
    "<think>\n\nhm\n</think>\n\nYes.",
    "x</think>y</think>z",
    "<think>open",
    "/no_think short",
    "/think /system_override long ",
    '"quoted" \\ back\tslash \x01\x7f',
    "{{ messages }} {% raw %}",
    "don't it's A-b (c) [d]",
    "<tool_response>a</tool_response>",
    "e\u0301",
    "a" * 300,
    "\ud7ff\ue000\U0010ffff",
    "aaaa",
    "\r\nwindows\r\n\r\nlines",
    "<start_of_turn>model\nno",
)
_OTHER_ROLES = ("tool", "ipython", "developer", "model", "User", "")


def environment(date=None):
    """As transformers compiles a template; the date is fixed, or strftime_now is not defined."""

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

        def _support(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    out = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    out.filters["tojson"] = tojson
    out.globals["raise_exception"] = raise_exception
    if date is not None:
        out.globals["strftime_now"] = lambda form: datetime.datetime.combine(
            date, datetime.time()
        ).strftime(form)
    return out


def expected(template, messages, prompt, variables=None):
    """(status, text): what a compiled jinja2 template makes of a conversation."""
    try:
        return OK, template.render(
            messages=messages,
            tools=None,
            documents=None,
            add_generation_prompt=prompt,
            **(TOKENS if variables is None else variables),
        )
    except (jinja2.exceptions.UndefinedError, TypeError) as error:
        return FAILED, str(error)
    except jinja2.exceptions.TemplateError as error:
        return RAISED, error.message


def conversation(rng, other_roles=True):
    """Messages of every shape: alternating or not, with and without a system message, none at
    all."""
    kind = rng.random()
    if kind < 0.03:
        return []
    roles = ["system"] if rng.random() < 0.5 else []
    turns = rng.randrange(0 if roles else 1, 8)
    if kind < 0.75:
        roles += ["user" if i % 2 == 0 else "assistant" for i in range(turns)]
    else:
        roles += [
            rng.choice(("user", "assistant", "system") + (_OTHER_ROLES if other_roles else ()))
            for _ in range(turns)
        ]
    return [{"role": role, "content": text(rng)} for role in roles]


def text(rng):
    return "".join(rng.choice(_TEXTS) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def conversations(seed, count, other_roles=True):
    rng = random.Random(seed)
    return [(conversation(rng, other_roles), rng.random() < 0.5) for _ in range(count)]


def driver_available():
    return _DRIVER.is_file()


def render(section, cases):
    """[(status, line, text)] of the C++ interpreter. `cases` are (messages,
    add_generation_prompt)."""
    data = b""
    for messages, prompt in cases:
        data += struct.pack("<II", prompt, len(messages))
        for message in messages:
            for part in (message["role"].encode(), message["content"].encode()):
                data += struct.pack("<I", len(part)) + part
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "section"
        path.write_bytes(section)
        done = subprocess.run(
            [_DRIVER, path], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300
        )
    assert done.returncode == 0, done.stderr.decode()
    out, at = [], 0
    while at < len(done.stdout):
        status, line, size = struct.unpack_from("<III", done.stdout, at)
        out.append((status, line, done.stdout[at + 12 : at + 12 + size].decode()))
        at += 12 + size
    assert len(out) == len(cases)
    return out
