"""Every value that the descriptor can have is one that some description gives: the table of fields
(src/facts/descriptor.toml) is walked, and what no description reaches is named."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from phasor.checkpoints.tensors import Checkpoint, stored
from phasor.format import descriptor as D
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description
from places import ROOT

FACTS = tomllib.loads((ROOT / "src/facts/descriptor.toml").read_text())
# What is no description's to say: who says it.
ELSEWHERE = {
    "model.converter": "the tool",
    "side.tokenizer": "the tokenizer's file",
    "kind.input_scales": "--smooth",
    "kind.score_order": "it has one value",
    "kind.separate_v": "a GGUF file's types",
    "kind.mixer": "families with short convolutions",
    "kind.convolution_bias": "families with short convolutions",
    "kind.inner_norms": "BitNet",
    "kind.value_norm": "Gemma 4",
    "kind.keys_of": "Gemma 4",
    "side.own_row": "T5Gemma 2's end of a picture",
    "kind.layer_scale": "Gemma 4",
    "stack.per_layer_width": "families with per-layer embeddings",
    "stack.per_layer_scale": "families with per-layer embeddings",
    "stack.per_layer_norm": "families with per-layer embeddings",
    "stack.per_layer_norm_eps": "families with per-layer embeddings",
}
PARTLY = {"kind.cross": {2}}  # values that are a family's: T5Gemma 2
WIDTH, INNER, HIDDEN, IDS = 16, 12, 24, 20
HEADS = 'preset = "torch-transformer"\nheads = 2\n'
PLAIN = 'position = "none"\nembedding_scale = "one"\n'
Shapes = dict[str, tuple[int, ...]]


def block(stack: str, layer: int, crossing: bool, cross: int = WIDTH) -> Shapes:
    start, norms = f"{stack}.layers.{layer}.", 3 if crossing else 2
    out = {
        "self_attn.in_proj_weight": (3 * WIDTH, WIDTH),
        "self_attn.in_proj_bias": (3 * WIDTH,),
        "self_attn.out_proj.weight": (WIDTH, WIDTH),
        "self_attn.out_proj.bias": (WIDTH,),
        "linear1.weight": (HIDDEN, WIDTH),
        "linear1.bias": (HIDDEN,),
        "linear2.weight": (WIDTH, HIDDEN),
        "linear2.bias": (WIDTH,),
    }
    for i in range(norms):
        out |= {f"norm{i + 1}.weight": (WIDTH,), f"norm{i + 1}.bias": (WIDTH,)}
    if crossing:
        for letter, cols in (("q", WIDTH), ("k", cross), ("v", cross)):
            out[f"multihead_attn.{letter}_proj_weight"] = (WIDTH, cols)
        out["multihead_attn.in_proj_bias"] = (3 * WIDTH,)
        out |= {"multihead_attn.out_proj.weight": (WIDTH, WIDTH)}
        out["multihead_attn.out_proj.bias"] = (WIDTH,)
    return {start + name: shape for name, shape in out.items()}


def stack_of(kind: str) -> Shapes:
    """A model with two layers a stack and a final norm."""
    out: Shapes = {}
    for stack, side in (("encoder", "src"), ("decoder", "tgt")):
        if kind in (stack, "encoder-decoder"):
            crossing = kind == "encoder-decoder" and stack == "decoder"
            out[f"{side}_embedding.weight"] = (IDS, WIDTH)
            out |= {f"{stack}.norm.weight": (WIDTH,), f"{stack}.norm.bias": (WIDTH,)}
            for layer in range(2):
                out |= block(stack, layer, crossing)
    return out | ({} if kind == "encoder" else {"output.weight": (IDS, WIDTH)})


class Case(NamedTuple):
    """A description's lines beside the plain one, and how its tensors differ: a name with None is
    not there."""

    stack: str
    lines: str = ""
    tensors: dict[str, tuple[int, ...] | None] = {}
    plain: str = PLAIN
    names: str = ""


def each(names: list[str], shape: tuple[int, ...] | None, stack: str = "encoder") -> Shapes:
    return {f"{stack}.layers.{i}.{name}": shape for i in range(2) for name in names}


def own(stack: str, *parts: str, name: str = "layers.{layer}") -> str:
    return "".join(f'{stack}.{part} = "{stack}.{name}.{part}"\n' for part in parts)


NO_BIASES = each(
    ["self_attn.in_proj_bias", "self_attn.out_proj.bias", "linear1.bias", "linear2.bias"], None
)
NO_NORM_BIASES = each(["norm1.bias", "norm2.bias"], None) | {"encoder.norm.bias": None}
START = "[target]\nstart = 1\n"
TABLES = {
    **{"relative_key": (9, 8), "relative_key_query": (9, 8), "three-way": (9, 8)},
    **{"disentangled": (9, WIDTH), "clipped": (9, 8)},
}
KEYS = "self_attn.position.keys.weight"


def encoder_cases() -> list[Case]:
    no_final = {"encoder.norm.weight": None, "encoder.norm.bias": None}
    out = [Case("encoder"), Case("encoder", "final_norm = false", no_final)]
    out += [Case("encoder", f'activation = "{a}"') for a in ("gelu", "gelu-tanh", "silu", "relu2")]
    out += [Case("encoder", f'norm_place = "{place}"') for place in ("before", "sublayer")]
    after = each(["attention_after", "attention_after.bias"], (WIDTH,))
    after |= each(["ffn_after", "ffn_after.bias"], (WIDTH,))
    names = own("encoder", "attention_after", "ffn_after")
    out.append(Case("encoder", 'norm_place = "both"', after, names=names))
    xielu = each(["xielu"], (4,))
    out.append(Case("encoder", 'activation = "xielu"', xielu, names=own("encoder", "xielu")))
    out.append(Case("encoder", 'norm = "rms"', NO_NORM_BIASES))
    out.append(Case("encoder", "", NO_BIASES))
    shared = each(["norm2.weight", "norm2.bias"], None)
    out.append(Case("encoder", 'norm_place = "before"\nparallel = "one-norm"', shared))
    out.append(Case("encoder", 'norm_place = "before"\nparallel = "two-norms"'))
    out.append(Case("encoder", 'score = "additive"', each(["self_attn.score.v"], (WIDTH,))))
    for kind, shape in TABLES.items():
        tables = each([KEYS], shape)
        names = ""
        if kind == "clipped":
            tables |= each(["self_attn.position.values.weight"], shape)
        if kind == "disentangled":
            tables |= each(["relative_queries"], shape)
            names = own("encoder", "relative_queries")
        out.append(Case("encoder", f'attention_position = "{kind}"', tables, names=names))
    bias = each(["self_attn.position.bias.weight"], (32, 2))
    out.append(Case("encoder", 'attention_position = "t5"', bias))
    out.append(Case("encoder", 'attention_position = "alibi"'))
    out.append(Case("encoder", 'attention_position = "rotary"\nrotary_width = 4'))
    yarn = 'rotary_scaling = { type = "yarn", factor = 4.0 }\nrotary_trained = 64'
    out.append(Case("encoder", f'attention_position = "rotary-halves"\n{yarn}'))
    for over, size in (("head", 8), ("own-head", WIDTH), ("all-heads", WIDTH)):
        norms = each(["q_norm", "q_norm.bias", "k_norm", "k_norm.bias"], (size,))
        lines = f'qk_norm_over = "{over}"'
        if over == "head":
            lines += '\nqk_norm_place = "after-positions"\nattention_position = "rotary"'
        out.append(Case("encoder", lines, norms, names=own("encoder", "q_norm", "k_norm")))
    norms = each(["q_norm", "k_norm"], (8,))
    out.append(Case("encoder", 'qk_norm = "rms"', norms, names=own("encoder", "q_norm", "k_norm")))
    limits = "window = 5\ncap = 30.0\nqkv_clip = 8.0\nresidual_scale = 0.5"
    out.append(Case("encoder", limits))
    out.append(Case("encoder", "causal = true\nwindow = 4"))
    fused = each(["self_attn.in_proj_weight"], (2 * WIDTH, WIDTH))
    fused |= each(["self_attn.in_proj_bias"], (2 * WIDTH,))
    out.append(Case("encoder", "kv_heads = 1\nhead_width = 8", fused))
    gate = each(["ffn_gate"], (HIDDEN, WIDTH)) | each(["ffn_gate.bias"], (HIDDEN,))
    out.append(Case("encoder", "", gate, names=own("encoder", "ffn_gate")))
    first = "[[encoder.except]]\nlayers = [0]\nattention_norm = false\n"
    gone = {"encoder.layers.0.norm1.weight": None, "encoder.layers.0.norm1.bias": None}
    out.append(Case("encoder", f'norm_place = "before"\n{first}', gone))
    one = {name: None for name in block("encoder", 1, False)}
    out.append(Case("encoder", "layers = 3\nsets = 1", one))
    return out


def input_cases() -> list[Case]:
    out = []
    table = {"src_positions.weight": (IDS + 4, WIDTH)}
    scaled = 'embedding_scale = "sqrt_width"\n'
    out.append(Case("encoder", "", table, plain=f'position = "learned"\n{scaled}'))
    for position in ("sinusoidal", "sinusoidal-halves"):
        plain = f'position = "{position}"\n{scaled}'
        out.append(Case("encoder", "max_positions = 30", plain=plain))
    for place, inner in (("last", INNER), ("before-positions", WIDTH)):
        inputs = {"src_embedding.weight": (IDS, INNER), "source.projection": (WIDTH, INNER)}
        inputs |= {"source.projection.bias": (WIDTH,), "source.segments": (3, inner)}
        inputs |= {"source.embedding_norm": (inner,), "source.embedding_norm.bias": (inner,)}
        parts = ("projection", "segments", "embedding_norm")
        names = "".join(f'source.{part} = "source.{part}"\n' for part in parts)
        lines = f'projection_place = "{place}"\nembedding_norm_place = "before-positions"\n'
        out.append(Case("encoder", lines + "embedding_norm_eps = 1e-3", inputs, names=names))
    norm = {"source.embedding_norm": (WIDTH,)}
    names = 'source.embedding_norm = "source.embedding_norm"\n'
    out.append(Case("encoder", 'embedding_norm = "rms"', norm, names=names))
    gone = {"encoder.norm.bias": None}
    out.append(Case("encoder", 'final_norm = "rms"\nfinal_norm_eps = 1e-3', gone))
    ids = "pad = 5\nunknown = 1\nmask = 2\nstart = 3\nend = [4]\nprefix = [3]\nsuffix = [4]\n"
    pair = "pair = [4]\npair_segment = 1\nlongest_text = 64\n"
    segments = {"source.segments": (2, WIDTH)}
    names = 'source.segments = "source.segments"\n'
    out.append(Case("encoder", f"[source]\n{ids}{pair}", segments, names=names))
    vectors = {"src_embedding.weight": None, "proj.weight": (WIDTH, 6)}
    out.append(Case("encoder", "", vectors, names='source.projection = "proj.weight"\n'))
    texts = "".join(f'{key} = "x"\n' for key in ("name", "author", "license", "credit", "origin"))
    out.append(Case("encoder", texts))
    return out


def output_cases() -> list[Case]:
    out = []
    head = {"head.weight": (10, WIDTH), "head.bias": (10,)}
    head |= {"head_norm.weight": (10,), "head_norm.bias": (10,)}
    heads = 'head = "head.weight"\nhead_norm = "head_norm.weight"\n'
    for activation in ("none", "relu", "gelu", "gelu-tanh", "silu", "relu2", "tanh"):
        lines = f'output = "logits"\nhead_activation = "{activation}"\nhead_norm_eps = 1e-3'
        own_matrix = {"output.weight": (IDS, 10), "output.bias": (IDS,)}
        out.append(Case("encoder", lines, head | own_matrix, names=heads))
    bare = {"head.weight": (10, WIDTH), "head_norm.weight": (10,), "output.weight": (IDS, 10)}
    lines = 'norm = "rms"\noutput = "logits"\noutput_scale = 0.5\noutput_cap = 30.0'
    out.append(Case("encoder", lines, NO_NORM_BIASES | bare, names=heads))
    out.append(Case("encoder", 'output = "source-embedding"'))
    for pooling in ("mean", "first", "last", "max"):
        out.append(Case("encoder", f'pooling = "{pooling}"\nnormalize = true'))
    classes = {"fc.weight": (3, WIDTH), "fc.bias": (3,)}
    for scores in ("softmax", "sigmoid", "plain"):
        lines = f'scores = "{scores}"\nlabels = ["a", "b", "c"]'
        out.append(Case("encoder", lines, classes, names='classifier = "fc.weight"\n'))
    for expansion in ("none", "hidden", "seen"):
        lines = "query_length = 32\ndocument_length = 64\nquery_marker = 5\ndocument_marker = 6\n"
        lines += f'skipped = [7, 8]\nexpansion = "{expansion}"\nscores = "plain"\n'
        lines += '[source]\nmask = 2\n[prompts]\nquery = "query: "\n'
        vectors = {"fc.weight": (8, WIDTH)}
        out.append(Case("encoder", lines, vectors, names='classifier = "fc.weight"\n'))
    return out


def decoder_cases() -> list[Case]:
    out = [Case("decoder"), Case("decoder", 'output = "target-embedding"', {"output.weight": None})]
    for early in ("no", "yes", "never"):
        numbers = "top_k = 5\ntop_p = 0.9\nmin_p = 0.1\ntypical_p = 0.5\ntemperature = 0.7\n"
        numbers += "repetition_penalty = 1.2\nlength_penalty = 0.5\nno_repeat_ngram = 3\n"
        numbers += "source_no_repeat_ngram = 4\nmin_new = 1\nmax_new = 9\nbeams = 4\n"
        lists = "suppressed = [3]\nbad_words = [1, 2]\nforced_last = 4\n"
        yes = str(early == "yes").lower()
        flags = f'sample = {yes}\nrenormalize = {yes}\nearly_stopping = "{early}"\n'
        out.append(Case("decoder", f"[generation]\n{numbers}{lists}{flags}"))
    shared = {"tgt_embedding.weight": None, "output.weight": None}
    sides = "[target]\nstart = 1\ndecoder_start = 2\nforced_first = 3\nembedding_shared = true\n"
    out.append(Case("encoder-decoder", f'output = "source-embedding"\n{sides}', shared))
    cross = {"encoder.norm.weight": None, "encoder.norm.bias": None}
    cross |= {"src_embedding.weight": (IDS, INNER)}
    for name, shape in stack_of("encoder").items():
        if name.startswith("encoder.layers"):
            cross[name] = tuple({WIDTH: INNER, 3 * WIDTH: 3 * INNER}.get(n, n) for n in shape)
    for layer in range(2):
        cross |= block("decoder", layer, True, INNER)
        start = f"decoder.layers.{layer}.multihead_attn."
        cross |= {f"{start}{x}_proj_weight": (8, INNER) for x in "kv"}
        cross |= {f"{start}in_proj_bias": None, f"{start}score.v": (WIDTH,)}
        cross |= {f"{start}q_proj_weight": (WIDTH, WIDTH), f"{start}q_proj_bias": (WIDTH,)}
    lines = 'cross_score = "additive"\ncross_score_scale = 2.0\n'
    lines += "cross_heads = 4\ncross_kv_heads = 2\n"
    lines += f"cross_head_width = 4\n{START}[encoder]\nfinal_norm = false\n"
    out.append(Case("encoder-decoder", lines, cross))
    return out


CASES = [*encoder_cases(), *input_cases(), *output_cases(), *decoder_cases()]


def read(case: Case) -> dict:
    shapes = {**stack_of(case.stack), **case.tensors}
    rng = np.random.default_rng(1)
    tensors = {
        name: stored(rng.normal(size=shape)) for name, shape in shapes.items() if shape is not None
    }
    toml = f'{HEADS}stack = "{case.stack}"\n{case.plain}{case.lines}\n[names]\n{case.names}'
    description = parse_description(tomllib.loads(toml))
    model = state_dict.read(Checkpoint(Path("m.pt"), tensors), description)
    assert model.problems() == []
    return model.descriptor


@pytest.fixture(scope="module")
def reached() -> dict[str, list]:
    """The values of each field, over all descriptions."""
    out: dict[str, list] = {}
    for case in CASES:
        for where, _, values, fields in D.scopes_of(read(case)):
            scope = D.SCOPE_NAMES.get("kinds" if where.startswith("kind") else where)
            for field in fields:
                out.setdefault(f"{scope}.{field.name}", []).append((values[field.name], field))
    return out


FIELDS = [
    (scope, name, row)
    for scope in ("model", "side", "stack", "kind", "output", "generation")
    for name, row in FACTS[scope].items()
]


@pytest.mark.parametrize("scope, name, row", FIELDS, ids=[f"{s}.{n}" for s, n, _ in FIELDS])
def test_every_value_of_a_field(reached, scope, name, row):
    where = f"{scope}.{name}"
    if where in ELSEWHERE:
        return
    given = [value for value, _ in reached[where]]
    choice = row.get("choice", "")
    if choice.endswith("Activation"):
        of_head = choice == "HeadActivation"
        rows = FACTS["activations"].values()
        wanted = {r["number"] for r in rows if (r.get("head", True) if of_head else "word" in r)}
    elif choice:
        wanted = {v["number"] for v in FACTS["choice"][choice]["values"]}
        wanted = {n for n in wanted if n >= row.get("low", 0)} - PARTLY.get(where, set())
    elif row["type"] == "flag":
        wanted = {0, 1}
    else:
        default = reached[where][0][1].default
        assert any(value not in (default, None, [], 0, "") for value in given), where
        return
    assert wanted <= set(given), f"{where}: no description gives {sorted(wanted - set(given))}"


def test_nothing_is_elsewhere_in_vain():
    assert set(ELSEWHERE) <= {f"{scope}.{name}" for scope, name, _ in FIELDS}
