"""What a description says in vain, or loses without a word: names that the model has no use for,
patterns that drop a bias or a norm, a tokenizer of another kind; and what the last line says."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

import torch_zip
from phasor import convert
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from places import ROOT

WIDTH, ROWS = 32, 50
TOML = """
preset = "torch-transformer"
stack = "encoder"
heads = 4
norm_place = "after"
final_norm = false
embedding_scale = 1
position = "sinusoidal"
"""


def tensors(norm: str = "norm1", **more: np.ndarray) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)

    def f(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32) * 0.3

    q = "encoder.layers.0."
    out = {
        "src_embedding.weight": f(ROWS, WIDTH),
        f"{q}self_attn.in_proj_weight": f(3 * WIDTH, WIDTH),
        f"{q}self_attn.in_proj_bias": f(3 * WIDTH),
        f"{q}self_attn.out_proj.weight": f(WIDTH, WIDTH),
        f"{q}self_attn.out_proj.bias": f(WIDTH),
        f"{q}linear1.weight": f(48, WIDTH),
        f"{q}linear1.bias": f(48),
        f"{q}linear2.weight": f(WIDTH, 48),
        f"{q}linear2.bias": f(WIDTH),
    }
    for name in (norm, "norm2"):
        out |= {f"{q}{name}.weight": 1 + f(WIDTH), f"{q}{name}.bias": f(WIDTH)}
    return {**out, **more}


def run(folder: Path, given: dict[str, np.ndarray], toml: str, *flags: object) -> int:
    torch_zip.save(folder / "m.pt", given)
    (folder / "m.toml").write_text(toml)
    words = [folder / "m.pt", "-o", folder / "m.phasor", *flags]
    return convert.main([str(word) for word in words])


def sinusoids(count: int, kind: type = np.float32, span: int = WIDTH) -> np.ndarray:
    """A table as PyTorch's tutorials make it, in float32."""
    places = np.arange(count, dtype=kind)[:, None]
    rates = np.exp(np.arange(0, WIDTH, 2, dtype=kind) * kind(-math.log(10000.0) / span))
    table = np.zeros((count, WIDTH), kind)
    table[:, 0::2], table[:, 1::2] = np.sin(places * rates), np.cos(places * rates)
    return table.astype(np.float32)


# ---- names


@pytest.mark.parametrize(
    "name, line",
    [
        (
            'source.positions = "pe"',
            "names.source.positions: the model that is described has no use for it: position is"
            ' "sinusoidal", and "learned" asks for it; did you mean source.sinusoid?',
        ),
        ('encoder.cross_q = "pe"', "names.encoder.cross_q: the model that is described has no use"),
        ('output = "pe"', "names.output: the model that is described has no use for it"),
        ('decoder.q = "pe"', "names.decoder.q: the model that is described has no use for it"),
        (
            'encoder.final_norm = "pe"',
            "final_norm is false, and true asks for it",
        ),
        (
            'encoder.inv_freq = "pe"',
            'attention_position is "none", and "rotary" or "rotary-halves" asks for it',
        ),
        ('encoder.atention_norm = "pe"', "no part is called so; did you mean encoder.attention_no"),
        (
            'encoder.qqqqqqqqqqqqqqqqqq = "pe"',
            "no part is called so; docs/reference/description-keys.md has them",
        ),
    ],
)
def test_a_name_without_a_use(tmp_path, capsys, name, line):
    given = tensors(pe=np.zeros((1, 64, WIDTH), np.float32))
    assert run(tmp_path, given, f"{TOML}[names]\n{name}\n") == 1
    assert line in capsys.readouterr().err and not (tmp_path / "m.phasor").exists()


def test_names_with_a_use(tmp_path, capsys):
    given = tensors("attention_norm", pe=sinusoids(64))
    names = {
        "source.sinusoid": "pe",
        "encoder.attention_norm": "encoder.layers.{layer}.attention_norm.weight",
        "source.embedding": "src_embedding.weight",
    }
    toml = TOML + "[names]\n" + "".join(f'{part} = "{name}"\n' for part, name in names.items())
    assert run(tmp_path, given, toml) == 0, capsys.readouterr().err


# ---- ignore


@pytest.mark.parametrize(
    "ignore, more, line",
    [
        ("*.b_2", "norm2.b_2", "drops encoder.layers.0.norm2.b_2, beside encoder.layers.0.norm2."),
        ("*.bias_?", "self_attn.bias_k", "drops encoder.layers.0.self_attn.bias_k, beside encode"),
        ("*norm3*", "norm3.weight", "drops encoder.layers.0.norm3.weight, a norm: if it is the mo"),
        ("*.ln_x.*", "ln_x.weight", "drops encoder.layers.0.ln_x.weight, a norm"),
        ("encoder.layers.0.norm3.weight", "norm3.weight", None),
        ("*.extra.*", "extra.weight", None),
    ],
)
def test_what_ignore_drops(tmp_path, capsys, ignore, more, line):
    """A pattern drops no bias and no norm; a whole name does. What is ignored is said."""
    name = f"encoder.layers.0.{more}"
    given = tensors(**{name: np.ones(WIDTH, np.float32)})
    status = run(tmp_path, given, f'{TOML}[checkpoint]\nignore = ["{ignore}"]\n')
    said = capsys.readouterr().err
    if line is None:
        assert status == 0 and f"ignored, as the description says: {name}\n" in said
    else:
        assert status == 1 and f"m.toml: checkpoint.ignore {line}" in said


# ---- tables of sinusoids


def test_a_long_table_of_sinusoids(tmp_path, capsys):
    """In float32 its later rows are no sinusoid, so that it is kept, and the line says its size and
    the key that makes a formula of it."""
    given, names = tensors(pe=sinusoids(5000)), '[names]\nsource.sinusoid = "pe"\n'
    assert run(tmp_path, given, TOML + names) == 0
    said = capsys.readouterr().err
    most = int(said.split("max_positions = ")[1].split()[0])
    assert f"{5000 * WIDTH * 4:,} bytes; max_positions = " in said and 100 < most < 900
    assert (tmp_path / "m.phasor").stat().st_size > 5000 * WIDTH * 4
    assert run(tmp_path, given, f"{TOML}max_positions = {most}\n{names}") == 0
    assert "is the sinusoid within" in capsys.readouterr().err
    assert (tmp_path / "m.phasor").stat().st_size < 200 << 10
    rng = np.random.default_rng(2).normal(size=(64, WIDTH)).astype(np.float32)
    assert run(tmp_path, tensors(pe=rng), TOML + names) == 0
    assert "max_positions" not in capsys.readouterr().err


@pytest.mark.parametrize("rates, span", [("paper", WIDTH), ("tensor2tensor", WIDTH - 2)])
def test_rates_of_sinusoids(tmp_path, capsys, rates, span):
    """tests/reference/test_described.py has them beside fairseq's model."""
    given = tensors(pe=sinusoids(200, np.float64, span))
    names = '[names]\nsource.sinusoid = "pe"\n'
    assert run(tmp_path, given, f'{TOML}position_rates = "{rates}"\n{names}') == 0
    assert "is the sinusoid within" in capsys.readouterr().err
    other = "paper" if rates != "paper" else "tensor2tensor"
    assert run(tmp_path, given, f'{TOML}position_rates = "{other}"\n{names}') == 0
    assert "stored as it is" in capsys.readouterr().err
    assert run(tmp_path, given, f'{TOML}position_rates = "fairseq"\n{names}') == 1
    assert "position_rates: 'fairseq', expected paper or tensor2tensor" in capsys.readouterr().err


# ---- norms of the Annotated Transformer


def test_the_numbers_of_an_unbiased_norm(tmp_path, capsys):
    toml = TOML + 'norm = "layer-unbiased"\nnorm_eps = 1e-6\n'
    assert run(tmp_path, tensors(), toml) == 0
    assert "what is left is eps beside the deviation" in capsys.readouterr().err
    (kind,) = PhasorFile(tmp_path / "m.phasor").descriptor["kinds"]
    share = (WIDTH - 1) / WIDTH
    assert kind["norm"] == D.LAYER_NORM and kind["norm_eps"] == np.float32(1e-12 * share)


# ---- tokenizers


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "town", "##s", *"abcdef"]


def test_a_wordpiece_vocabulary_is_no_list_of_words(tmp_path, capsys):
    path = tmp_path / "vocab.json"
    path.write_text(str(WORDS).replace("'", '"'))
    assert run(tmp_path, tensors(), TOML, "--tokenizer", path) == 1
    assert f"{path}: is a WordPiece vocabulary (pieces after ##)" in capsys.readouterr().err
    pieces = tmp_path / "vocab.txt"
    pieces.write_text("\n".join(WORDS))
    assert run(tmp_path, tensors(), TOML, "--tokenizer", pieces) == 0
    path.write_text(path.read_text().replace("##s", "lives"))
    assert run(tmp_path, tensors(), TOML + "[source]\nunknown = 1\n", "--tokenizer", path) == 0


def ids_of(phasor, model, text):
    words = [phasor, "tokenize", model, "--print-ids", text]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def tokenizer_json(folder, **parts):
    spec = {
        "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "unk_token": "[UNK]",
            "vocab": {word: i for i, word in enumerate(WORDS)},
        },
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(spec | parts))
    return path


AROUND = {
    "type": "BertProcessing",
    "sep": ["[SEP]", 3],
    "cls": ["[CLS]", 2],
}


def test_files_of_hugging_face_beside_a_state_dict(tmp_path, capsys, phasor):
    """Which file it found, what it puts around a text, and the file's own ids."""
    plain = tokenizer_json(tmp_path)
    assert run(tmp_path, tensors(), TOML, "--tokenizer", plain) == 0
    assert f"{plain}: tokenizer.json, WordLevel\n" in capsys.readouterr().err
    assert ids_of(phasor, tmp_path / "m.phasor", "Town a, b") == "4,6,1,7"
    around = tokenizer_json(tmp_path, post_processor=AROUND)
    assert run(tmp_path, tensors(), TOML, "--tokenizer", around) == 0
    assert "ids before a text [2], behind it [3], as it says" in capsys.readouterr().err
    assert ids_of(phasor, tmp_path / "m.phasor", "a") == "2,6,3"
    pieces = tmp_path / "vocab.txt"
    pieces.write_text("\n".join(WORDS) + "\n")
    assert run(tmp_path, tensors(), TOML, "--tokenizer", pieces) == 0
    assert f"{pieces}: WordPiece, text in lower case" in capsys.readouterr().err
    assert ids_of(phasor, tmp_path / "m.phasor", "TOWNS") == "2,4,5,3"


OTHER_PAIR = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}},
}
LEFT = {"direction": "Left", "max_length": 8, "strategy": "LongestFirst", "stride": 0}


@pytest.mark.parametrize(
    "parts, says",
    [
        ({"post_processor": OTHER_PAIR}, "other ids around a pair than around a text"),
        ({"post_processor": AROUND, "truncation": LEFT}, "truncation.direction"),
    ],
)
def test_what_a_directory_is_refused_for_a_file_is_too(tmp_path, capsys, parts, says):
    path = tokenizer_json(tmp_path, **parts)
    assert run(tmp_path, tensors(), TOML, "--tokenizer", path) == 1
    error = capsys.readouterr().err
    assert str(path) in error and says in error and error.count("\n") == 1, error


def test_a_tokenizer_json_that_is_refused_names_its_part(tmp_path, capsys):
    path = tokenizer_json(tmp_path, normalizer={"type": "Shout"})
    assert run(tmp_path, tensors(), TOML, "--tokenizer", path) == 1
    error = capsys.readouterr().err
    assert f"{path}: normalizer Shout is not supported" in error and error.count("\n") == 1


# ---- the proof


def test_the_last_line(tmp_path, capsys):
    line = "The test vectors check this file against its description. --expect FILE checks it"
    assert run(tmp_path, tensors(), TOML) == 0
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"convert: {line}")
    assert run(tmp_path, tensors(), TOML, "--quiet") == 0
    assert capsys.readouterr().err == ""


# ---- how tensors are stored

LAYER = "encoder.layers.{layer}."


def split(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same tensors, q, k and v in tensors of their own."""
    out, start = dict(given), "encoder.layers.0.self_attn."
    for end in ("weight", "bias"):
        for letter, value in zip("qkv", np.split(out.pop(f"{start}in_proj_{end}"), 3)):
            out[f"{start}{letter}.{end}"] = value
    return out


def fused(order: str, by_head: bool) -> dict[str, np.ndarray]:
    out, start = tensors(), "encoder.layers.0.self_attn.in_proj_"
    for end in ("weight", "bias"):
        parts = dict(zip("qkv", np.split(out[start + end], 3)))
        heads = 4 if by_head else 1
        parts = {k: v.reshape(heads, -1, *v.shape[1:]) for k, v in parts.items()}
        joined = np.concatenate([parts[letter] for letter in order], axis=1)
        out[start + end] = joined.reshape(-1, *joined.shape[2:])
    return out


def by_heads() -> dict[str, np.ndarray]:
    """A tensor for each head, and the feed-forward in two halves."""
    out, start = split(tensors()), "encoder.layers.0."
    for letter in "qkv":
        for end in ("weight", "bias"):
            value = out.pop(f"{start}self_attn.{letter}.{end}")
            for head, part in enumerate(np.split(value, 4)):
                out[f"{start}self_attn.{head}.{letter}.{end}"] = part
    for end in ("weight", "bias"):
        halves = np.split(out.pop(f"{start}linear1.{end}"), 2)
        out |= {f"{start}{name}.{end}": half for name, half in zip("ab", halves)}
    return out


def turned() -> dict[str, np.ndarray]:
    """Matrices of blocks as (inputs, outputs), as GPT-2's Conv1D has them."""
    blocks = {n: v.T.copy() for n, v in tensors().items() if "layers" in n and v.ndim == 2}
    return tensors() | blocks


def named(**parts: str) -> str:
    return "[names]\n" + "".join(f"encoder.{part} = {value}\n" for part, value in parts.items())


HEADS = {x: f'"{LAYER}self_attn.{{head}}.{x}.weight"' for x in "qkv"}
FIRST, NORM = "encoder.layers.0.linear1.weight", "encoder.layers.0.norm1.weight"
STORED = {
    "split": (split(tensors()), "", named(**{x: f'"{LAYER}self_attn.{x}.weight"' for x in "qkv"})),
    "vkq": (fused("vkq", False), 'qkv_order = "vkq"\n', ""),
    "by head": (fused("kqv", True), 'qkv_order = "kqv"\nqkv_by_head = true\n', ""),
    "a tensor a head": (
        by_heads(),
        "",
        named(**HEADS, ffn_in=f'["{LAYER}a.weight", "{LAYER}b.weight"]'),
    ),
    "turned": (turned(), "transposed = true\n", ""),
    "one turned": (
        tensors() | {FIRST: tensors()[FIRST].T},
        "",
        named(ffn_in=f'{{ tensor = "{LAYER}linear1.weight", transposed = true }}'),
    ),
    "a factor": (
        tensors() | {FIRST: tensors()[FIRST] * 4, NORM: tensors()[NORM] - 1},
        "",
        named(
            ffn_in=f'{{ tensor = "{LAYER}linear1.weight", factor = 0.25 }}',
            attention_norm=f'{{ tensor = "{LAYER}norm1.weight", offset = 1 }}',
        ),
    ),
    "renamed anywhere": (
        {n.replace("layers.0.", "block_0.x."): v for n, v in tensors().items()},
        "",
        '[rename]\n"encoder.block_*.x.*" = "encoder.layers.*.*"\n',
    ),
    "a bias of another name": (
        {n.replace("linear1.bias", "shift"): v for n, v in tensors().items()},
        "",
        named(ffn_in_bias=f'"{LAYER}shift"'),
    ),
    "gamma and beta": (
        {
            (n.replace("weight", "gamma").replace("bias", "beta") if ".norm" in n else n): v
            for n, v in tensors().items()
        },
        "",
        named(attention_norm=f'"{LAYER}norm1.gamma"', ffn_norm=f'"{LAYER}norm2.gamma"'),
    ),
}


@pytest.mark.parametrize("how", STORED)
def test_the_same_model_stored_otherwise(tmp_path, capsys, how):
    """It makes the same file, but for its head and its proof."""
    given, keys, tables = STORED[how]
    assert run(tmp_path, tensors(), TOML) == 0
    plain = PhasorFile(tmp_path / "m.phasor")
    want = {key: plain.weights(key) for key in plain.entries}
    assert run(tmp_path, given, TOML + keys + tables) == 0, capsys.readouterr().err
    file = PhasorFile(tmp_path / "m.phasor")
    assert file.entries.keys() == want.keys()
    for key, values in want.items():
        assert np.allclose(file.weights(key), values, rtol=1e-6, atol=1e-7), file.slots[key].name


@pytest.mark.parametrize(
    "keys, tables, line",
    [
        ('qkv_order = "qkk"\n', "", "qkv_order: 'qkk', expected q, k and v once"),
        ("", '[rename]\n"a*" = "b"\n', "rename: a* = b: expected as many * in both"),
        ("", "[names]\nencoder.q = []\n", "names.encoder.q: [], expected text, or a list of texts"),
        ("", "[names]\nencoder.q = 3\n", "names.encoder.q: 3, expected text, or a list of texts"),
        (
            "",
            '[names]\nencoder.q = { tensor = "a", turned = true }\n',
            "names.encoder.q.turned: no key is called so here",
        ),
        ("hedas = 4\n", "", "hedas: no key is called so here; did you mean heads?"),
        ("", "[source]\npda = 1\n", "source.pda: no key is called so here; did you mean pad?"),
        ("", "[[encoder.except]]\nwindow = 3\n", "encoder.except: expected either layers or eve"),
        ("", "[[encoder.except]]\nlayers = [9]\n", "encoder.except: number 1 is of none of 1"),
        (
            "",
            '[[encoder.except]]\nlayers = [0]\nnorm_place = "both"\n',
            "encoder.except.norm_place: both has norms of its own",
        ),
        ("", "[[encoder.except]]\nevery = 1\nwidth = 8\n", "encoder.except.width: no key is ca"),
        ("", "[generation]\nbeams = 4\n", "generation: an encoder generates nothing"),
        ('labels = ["a"]\n', "", "labels: the model gives no classes: names.classifier is their"),
        ("output_scale = 2\n", "", "output_scale: the model gives no logits"),
        ('output = "classes"\n', '[names]\noutput = "x"\n', "missing: x (classifier)"),
        ("rotary_base = 500\n", "", "rotary_base: the model that is described has no"),
        ("num_buckets = 8\n", "", 'it speaks of attention_position = "t5"'),
        ('qk_norm = "rms"\n', "", "qk_norm: the model that is described has no us"),
        ("", "[encoder]\nembedding_norm_eps = 1\n", "encoder.embedding_norm_eps: the model that i"),
        ("head_norm_eps = 1\n", "", "it speaks of names.head_norm"),
        ("final_norm_eps = 1\n", "", 'it speaks of final_norm = "layer", "rms"'),
        ("cross_heads = 2\n", "", 'speaks of stack = "encoder-decoder"; did you mean heads?'),
        ("cross_kv_heads = 2\n", "", "cross_kv_heads: the model that is described has no use"),
        ("cross_head_width = 8\n", "", "did you mean head_width?"),
        ('cross_score = "additive"\n', "", "did you mean score?"),
        ("", "[encoder]\ncross_score_scale = 2\n", "did you mean score_scale?"),
        ("head_norm_eps = 1\n", "", "; did you mean norm_eps?"),
        ("window = -1\n", "", "encoder: window: -1 is too small"),
        ("query_length = -1\n", "", "output.query_length: -1, expected a whole number"),
    ],
)
def test_what_cannot_be(tmp_path, capsys, keys, tables, line):
    assert run(tmp_path, tensors(), TOML + keys + tables) == 1
    assert line in capsys.readouterr().err


def test_layers_that_are_exceptions(tmp_path, capsys):
    """Every second layer of four sees three keys; of two sets of tensors the layers share each."""
    given = tensors()
    second = {n.replace("layers.0", "layers.1"): v * 0.9 for n, v in given.items() if "layers" in n}
    more = "layers = 4\nsets = 2\n[[encoder.except]]\nevery = 2\nfirst = 1\nwindow = 3\n"
    assert run(tmp_path, given | second, TOML + more) == 1
    assert "sets: layers that share a set must have one kind" in capsys.readouterr().err
    more = more.replace("every = 2\nfirst = 1", "layers = [2, 3]")
    assert run(tmp_path, given | second, TOML + more) == 0, capsys.readouterr().err
    descriptor = PhasorFile(tmp_path / "m.phasor").descriptor
    assert descriptor["encoder"]["layers"] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [kind["window"] for kind in descriptor["kinds"]] == [0, 3]


@pytest.mark.parametrize("what", ["classes", "hidden", "pooled"])
def test_a_decoder_gives_logits(tmp_path, capsys, what):
    text = (ROOT / "tests/golden/pytorch/bias-free.toml").read_text(encoding="utf-8")
    toml = tmp_path / "m.toml"
    toml.write_text(text.replace('output = "own"', f'output = "{what}"'))
    given = [ROOT / "tests/golden/pytorch/bias-free.pt", "--describe", toml]
    assert convert.main([*map(str, given), "-o", str(tmp_path / "m.phasor"), "--quiet"]) == 1
    assert "output: a decoder gives logits" in capsys.readouterr().err


def test_a_part_without_a_name_is_said(tmp_path, capsys):
    """q and k have names, v has none."""
    given = tensors()
    whole = given.pop("encoder.layers.0.self_attn.in_proj_weight")
    given.pop("encoder.layers.0.self_attn.in_proj_bias")
    given |= {f"{letter}.weight": whole[:WIDTH] for letter in "qkv"}
    names = {
        "source.embedding": "src_embedding.weight", "encoder.q": "q.weight",
        "encoder.k": "k.weight",
        "encoder.attention_out": f"{LAYER}self_attn.out_proj.weight",
        "encoder.attention_norm": f"{LAYER}norm1.weight",
        "encoder.ffn_norm": f"{LAYER}norm2.weight",
        "encoder.ffn_in": f"{LAYER}linear1.weight", "encoder.ffn_out": f"{LAYER}linear2.weight",
    }  # fmt: skip
    toml = TOML.replace("torch-transformer", "none") + 'score_scale = "sqrt_head_width"\n[names]\n'
    toml += "".join(f'{part} = "{name}"\n' for part, name in names.items())
    assert run(tmp_path, given, toml) == 1
    assert "names.encoder.v: missing, the preset 'none' has no" in capsys.readouterr().err
    assert run(tmp_path, given, toml + 'encoder.v = "v.weight"\n') == 0, capsys.readouterr().err
