"""Hostile descriptions in TOML, and chat templates."""

from __future__ import annotations

import functools
import io
import random
import re
import zipfile

import checkpoints
import directories
import numpy as np
import raw
import values
from source import GOLDEN, Source

from chat_bombs import BOMBS
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.sources.state_dict.presets import FILES

Words = tuple[str, ...]

# ---- TOML

_PRESETS = ("torch-transformer", "separate", "bias-free")
_LINES = (
    *('stack = "encoder"', 'stack = "decoder"', 'norm = "rms"', "final_norm = true", "layers = 1"),
    *("kv_heads = 1", "position_offset = 3", "rotary_width = 4", 'attention_position = "rotary"'),
    *(
        'attention_position = "t5"\nnum_buckets = 8\nmax_distance = 16',
        "alibi_slopes = [0.5, 0.25]",
    ),
    *('attention_position = "relative_key"\nmax_distance = 3', 'attention_position = "alibi"'),
    *(
        'rotary_scaling = { type = "linear", factor = 2.0 }',
        'score = "additive"',
        "two_sided = true",
    ),
    *(
        "[encoder]\nlayers = 1",
        "[decoder]\nheads = 4",
        '[names]\nencoder.q = "x"',
        '[rename]\n"" = "a"',
    ),
    *('[checkpoint]\nkey = "model"', '[checkpoint]\nignore = ["*"]', '[rename]\nencoder = "e"'),
    *("[source]", "[[source]]", "[target.end]", 'tokenizer = "words.txt"', "mask = 4", "end = []"),
    *('pooling = "mean"', 'labels = ["a", "b"]', 'input = "vectors"', "window = 3", "sets = 1"),
    *("[[encoder.except]]\nlayers = [0]\nwindow = 3", "[[decoder.except]]\nevery = 2\ncap = 1.0"),
    *("[generation]\nbeams = 4", 'preset = "nanogpt"', "transposed = true", 'norm_place = "both"'),
    *('qkv_order = "vkq"\nqkv_by_head = true', '[rename]\n"*.0.*" = "*.1.*"', "cross_heads = 1"),
    *(
        '[names]\nsource.class_token = "encoder.norm.weight"',
        '[names]\nsource.projection = "output.weight"',
        '[names]\nclassifier = "output.weight"',
        '[names]\nencoder.ffn_in = ["encoder.layers.{layer}.linear1.weight", "b.{head}"]',
        '[names]\nencoder.q = { tensor = "x.{layer}", transposed = true, factor = 2, offset = 1 }',
        '[names]\nencoder.attention_norm_bias = "encoder.norm.bias"',
        '[names]\nsource.embedding = "src_embedding.{layer}.{head}"',
    ),
    *(
        '[tensors."*"]\nstack = "encoder"',
        '[tensors."*.weight"]\nnames.block.q = "{stack}.{layer}"\nrename."" = "{stack}."',
        '[options]\nheads = { 2 = {}, "*" = { options.norm_eps = {} } }',
        "[options.layer_norm.standard]\noptions.layer_norm.standard.heads = 2",
        '[arguments]\nheads = ["norm_eps", 2]\nencoder.width = "dropout"',
        '[checkpoint]\nkey = "model"\nbeside = ["optim", "opt", "generator"]',
        '[names.block]\nffn_gate = { tensor = "x.{layer}", half = "second" }',
        '[names.side]\npositions = { tensor = "{stack}.x", factor = "sqrt_head_width" }',
    ),
    *('tokenizer = "/etc/passwd"', 'tokenizer = "../../words.txt"', 'tokenizer = "none"'),
)
_VALUES = (
    *(
        "0",
        "1",
        "-1",
        "2",
        "3",
        "1.5",
        "-0.0",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "true",
        "false",
        '""',
        '"x"',
    ),
    *(
        "[]",
        "{}",
        "[1, 2]",
        "[[1]]",
        "{a = 1}",
        "9" * 30,
        "9" * 5000,
        "1979-05-27",
        "07:32:00",
        "0xff",
    ),
    *(
        "2025-13-01",
        "16777216",
        "16777217",
        '"sqrt_width"',
        '"sqrt_heads"',
        '"one"',
        '"none"',
        "'''a'''",
    ),
    *(
        '"\\uD800"',
        '"\\u0000"',
        '"' + "x" * 70000 + '"',
        "[" * 100 + "]" * 100,
        "1_000",
        "1__0",
        "+1",
    ),
    *("{a." * 30 + "b=1" + "}" * 30, "[" * 50000, '"a', "1 2", "4096", "65536", "4294967296"),
)


@functools.cache
def _golden(preset: str) -> tuple[bytes, str]:
    folder = GOLDEN / "pytorch"
    toml = (folder / f"{preset}.toml").read_text(encoding="utf-8")
    return (folder / f"{preset}.pt").read_bytes(), toml


@functools.cache
def _arrays(preset: str) -> dict[str, np.ndarray]:
    checkpoint = open_checkpoint(GOLDEN / "pytorch" / f"{preset}.pt")
    return {name: checkpoint.load(name) for name in checkpoint}


@functools.cache
def _with_options() -> tuple[bytes, str]:
    """A checkpoint with the options of its training, and the preset's file that reads them."""
    checkpoint = GOLDEN / "presets" / "opennmt-py-plain.pt"
    toml = FILES["opennmt-py"]
    return checkpoint.read_bytes(), toml.read_text(encoding="utf-8")


def _hostile_toml(rng: random.Random, toml: str, words: Words) -> bytes:
    lines = toml.strip().split("\n")
    for _ in range(1 + int(rng.expovariate(0.8))):
        at, how = rng.randrange(len(lines)), rng.random()
        name, equals, value = lines[at].partition(" = ")
        if how < 0.35 and equals:
            lines[at] = name + equals + rng.choice(_VALUES)
        elif how < 0.5 and equals:
            lines[at] = f'{name} = "{rng.choice(words)}"'
        elif how < 0.65:
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(_LINES))
        elif how < 0.75:
            lines.insert(at, f"{rng.choice(words)} = {rng.choice(_VALUES)}")
        elif how < 0.82:
            del lines[at]
        elif how < 0.86:
            lines.insert(at, lines[at])
        elif how < 0.9 and equals:
            lines[at] = f"{rng.choice(words)}{equals}{value}"
        elif how < 0.94 and equals and value.strip("-").isdigit():
            lines[at] = f"{name} = {raw.number(rng, int(value))}"
        else:
            lines[at] = rng.choice(
                ("a" + ".a" * 5000 + " = 1", "[a" + ".b" * 500 + "]", "#", "= 1")
            )
        if not lines:
            lines = [""]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    return raw.changed(rng, data) if rng.random() < 0.1 else data


def make_description(rng: random.Random, words: Words) -> Source:
    weights, toml = _golden(rng.choice(_PRESETS)) if rng.random() < 0.7 else _with_options()
    how = rng.random()
    data = _hostile_toml(rng, toml, words) if how > 0.03 else toml.encode()
    files = {"m.pt": weights, "m.toml": data, "words.txt": b"<pad>\n<unk>\n<s>\n</s>\na\nb\n"}
    if how > 0.9:
        return Source({**files, "d.toml": data}, ("@m.pt", "--describe", "@d.toml"))
    return Source(files, ("@m.pt",))


def make_npz_weights(rng: random.Random) -> Source:
    """Weights as a .npz with a sound description: arrays, heads and zips that are not sound, and
    what trainers put around names."""
    preset = rng.choice(_PRESETS)
    toml, given = _golden(preset)[1], dict(_arrays(preset))
    if rng.random() < 0.3:
        checkpoints.change_arrays(rng, given)
    start = rng.choice(("", "", "module.", "_orig_mod.module.", "model_ema.", "module.module."))
    arrays = {f"{start}{name}": array for name, array in given.items()}
    if rng.random() < 0.2:
        arrays["n_averaged"] = np.array(3)
    if rng.random() < 0.1:
        arrays |= {f"model_ema.{name}": array for name, array in given.items()}
    file = io.BytesIO()
    packed = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", packed) as zipped:
        for name, array in arrays.items():
            end = ".npy" if rng.random() > 0.005 else rng.choice(("", ".pkl", "/data.pkl"))
            zipped.writestr(f"{name}{end}", checkpoints.npy(rng, array, 0.005))
    data = file.getvalue()
    if rng.random() < 0.4:
        data = raw.changed(rng, data)
    return Source({"m.npz": data, "m.toml": toml.encode()}, ("@m.npz",))


# ---- Checkpoints without a description

_ENDS = ("attn.q", "mlp.0", "norm1", "heads.0.key", "0.0.0", "in_proj_weight", "lut", "pe", "a_2")
_NAMES = (
    *("", ".", "0.", "a" * 600 + ".0.b", "0." * 400 + "w", '"\n]\x1b', "q\u202e.0.k"),
    "{layer}.{head}",
    *("x.99999999999999999999.y", "layers.0|.1", "model_ema.a", "[names]", "ids\\U0000d800"),
)


def make_explained(rng: random.Random, words: Words) -> Source:
    """Names and shapes for --explain: those of a model with some of them changed."""
    arrays = dict(_arrays(rng.choice(_PRESETS)))
    if rng.random() < 0.3:
        checkpoints.change_arrays(rng, arrays)
    for name in rng.sample(sorted(arrays), rng.randrange(len(arrays) // 2)):
        how, array = rng.random(), arrays.pop(name)
        if how < 0.2:
            continue
        if how < 0.5:
            arrays[name] = array.reshape(rng.choice(((1, *array.shape), (-1,), array.shape[::-1])))
        elif how < 0.7:
            arrays[name.rpartition(".")[0] + "." + rng.choice((*_ENDS, *words))] = array
        elif how < 0.9:
            arrays[re.sub(r"\d+", lambda _: str(rng.randrange(3)), name)] = array
        else:
            arrays[rng.choice(_NAMES)] = array
    if rng.random() < 0.1:
        one = next(iter(arrays.values()), np.zeros((2, 2), np.float32))
        start = rng.choice(("l.", "a.0.", "", "0."))
        arrays |= {f"{start}{i}.{rng.choice(_ENDS)}": one for i in range(rng.choice((3, 400)))}
    data = checkpoints.plain(arrays)
    files = {"m.safetensors": raw.changed(rng, data) if rng.random() < 0.1 else data}
    given: tuple[str, ...] = ("@m.safetensors", "--explain")
    if rng.random() < 0.2:
        ids, output = np.zeros((1, 3), np.int64), np.zeros((1, 3, rng.choice((4, 30))), np.float32)
        file = io.BytesIO()
        np.savez(file, ids=ids, target=ids, output=output)
        files["e.npz"] = file.getvalue()
        given = (*given, "--expect", "@e.npz")
    return Source(files, given)


# ---- Chat templates

_PIECE = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|[^{]+|\{", re.S)
_INSIDE = (
    *(
        "messages",
        "message",
        "message.content",
        "message['role']",
        "loop.index0",
        "ns.x",
        "bos_token",
    ),
    *(
        "[]",
        "{}",
        "none",
        "true",
        "0",
        "-1",
        "9" * 30,
        "1.5e300",
        "''",
        "'\\ud800'",
        "'a' * 99999",
        "tools",
    ),
    *(
        "range(10)",
        "namespace(x=1)",
        "raise_exception('x')",
        "strftime_now('%d')",
        "lipsum()",
        "cycler",
    ),
    *(
        "message.content.__class__",
        "self",
        "joiner()",
        "dict(a=1)",
        "messages[::-1]",
        "messages[0:99:0]",
    ),
    *(
        "''.join",
        "message | map('x') | list",
        "m(m(1))",
        "x is defined",
        "(1, 2)",
        "not x",
        "1 // 0",
    ),
    *(
        "1 % 0",
        "2 ** 99",
        "'%s' % 1",
        "a.b.c.d",
        "loop.cycle(1)",
        "loop(1)",
        "message | tojson(indent=4)",
    ),
)
_BLOCKS = (
    *(
        "{% for m in messages %}",
        "{% endfor %}",
        "{% if x %}",
        "{% else %}",
        "{% elif y %}",
        "{% endif %}",
    ),
    *("{% set x = 1 %}", "{% set ns = namespace(a=1) %}", "{% set ns.a = ns.b %}", "{% break %}"),
    *("{% continue %}", "{% macro m(a, b=1) %}", "{% endmacro %}", "{% set x %}", "{% endset %}"),
    *(
        "{% raw %}",
        "{% endraw %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
    ),
    *("{% block a %}", "{% endblock %}", "{% filter trim %}", "{% endfilter %}", "{% call m() %}"),
    *(
        "{% generation %}",
        "{% endgeneration %}",
        "{% autoescape true %}",
        "{% do x %}",
        "{%-",
        "-%}",
        "{#",
    ),
    *(
        "{% for a, b in x.items() %}",
        "{% for m in messages recursive %}",
        "{% with a = 1 %}",
        "{{",
        "}}",
    ),
)


@functools.cache
def _pieces() -> tuple[tuple[str, ...], ...]:
    files = sorted((GOLDEN / "chat_templates").glob("*.jinja"))
    return tuple(tuple(_PIECE.findall(path.read_text(encoding="utf-8"))) for path in files)


_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|'[^']*'|\"[^\"]*\"|\S")


def _change_inside(rng: random.Random, piece: str) -> str:
    """A statement or an expression with one of its words another."""
    tokens = list(_TOKEN.finditer(piece))
    if not tokens:
        return piece
    token, other = rng.choice(tokens), rng.choice(tokens)
    new = rng.choice((rng.choice(_INSIDE), other.group(), "", "(", ")", "|", ".", "~", "is", "in"))
    if rng.random() < 0.1:
        new = "(" * 60 + rng.choice(_INSIDE) + ")" * 60
    return piece[: token.start()] + new + piece[token.end() :]


def _spliced(rng: random.Random) -> str:
    pieces = list(rng.choice(_pieces()))
    for _ in range(1 + int(rng.expovariate(0.6))):
        at, how = rng.randrange(len(pieces)), rng.random()
        if how < 0.4:
            pieces[at] = _change_inside(rng, pieces[at])
        elif how < 0.55:
            other = rng.choice(_pieces())
            begin = rng.randrange(len(other))
            pieces[at:at] = other[begin : begin + rng.choice((1, 2, 5))]
        elif how < 0.65:
            pieces.insert(at, rng.choice(_BLOCKS))
        elif how < 0.75:
            pieces.insert(at, "{{ " + rng.choice(_INSIDE) + " }}")
        elif how < 0.85:
            del pieces[at]
        elif how < 0.9:
            pieces[at:at] = pieces[at : at + 3] * rng.choice((1, 2, 40))
        elif how < 0.95:
            other_at = rng.randrange(len(pieces))
            pieces[at], pieces[other_at] = pieces[other_at], pieces[at]
        else:
            pieces.insert(at, rng.choice(values.TEXTS))
        if not pieces:
            break
    return "".join(pieces)


_GROWN = (
    *(
        "({a} ~ {b})",
        "({a} + {b})",
        "({a} if {b} else {a})",
        "{a} | trim",
        "{a} | length",
        "{a}.strip()",
    ),
    *(
        "{a}.split({b})[{n}]",
        "{a}[{n}]",
        "{a}[{n}:]",
        "{a}.{w}",
        "{a}.{w}({b})",
        "{a} | {w}",
        "{a} is {w}",
    ),
    *(
        "{a} == {b}",
        "{a} in {b}",
        "not {a}",
        "[{a}, {b}]",
        "{{'k': {a}}}",
        "{a} | {w}({b})",
        "m({a})",
    ),
    *("{a} * {n}", "{a} % {n}", "{a} // {n}", "-{a}", "{a} | replace({b}, {a})", "{a} and {b}"),
    *(
        "{a} | default({b})",
        "{a} | tojson",
        "{a} | join({b})",
        "{a} | selectattr('role', 'equalto', {b})",
    ),
)


def _expression(rng: random.Random, words: Words, depth: int = 0) -> str:
    if depth > 3 or rng.random() < 0.3:
        return rng.choice(_INSIDE)
    a, b = (_expression(rng, words, depth + 1) for _ in range(2))
    number = rng.choice((0, 1, -1, 2, 99, 1 << 31, 1 << 63))
    return rng.choice(_GROWN).format(a=a, b=b, n=number, w=rng.choice(words))


def _grown(rng: random.Random, words: Words, depth: int = 0) -> str:
    """A template of statements that end where they should."""
    out = ""
    for _ in range(rng.randrange(1, 5)):
        kind, x = rng.randrange(8 if depth < 3 else 3), _expression(rng, words)
        inside = _grown(rng, words, depth + 1) if kind > 2 else ""
        out += (
            "{{ " + x + " }}",
            "text\n",
            "{% set " + rng.choice(("x", "ns.x", "messages", "loop", "m")) + " = " + x + " %}",
            "{% if " + x + " %}" + inside + "{% else %}b{% endif %}",
            "{% for message in " + x + " %}" + inside + "{% endfor %}",
            "{% macro m(a) %}" + inside + "{% endmacro %}",
            "{% set x %}" + inside + "{% endset %}",
            "{%- for message in messages -%}" + inside + "{%- endfor -%}",
        )[kind]
    return out


def make_template(rng: random.Random, words: Words) -> Source:
    how = rng.random()
    if how < 0.55:
        template = _spliced(rng)
    elif how < 0.97:
        template = _grown(rng, words)
    else:
        template = rng.choice(list(BOMBS.values()))
    data = template.encode("utf-8", "surrogatepass")
    if how < 0.05:
        data = raw.changed(rng, data)
    files = dict(directories.model_of(checkpoints.KINDS[0], 24))
    flags = ("--chat-date", "2025-03-09") if rng.random() < 0.5 else ()
    if rng.random() < 0.8:
        return Source({**files, "t.jinja": data}, ("@m", "--chat", "@t.jinja", *flags))
    return Source({**files, "m/chat_template.jinja": data}, ("@m", *flags))
