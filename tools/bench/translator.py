"""Translators beside CTranslate2: encoding, greedy decoding, beam search, and 32 sentences
together. A row of tools/bench.

Two models: one of width 512 with 6 + 6 layers and a vocabulary of 32,000, random weights; and the
shipped one on tools/bench/sentences.txt. The weights are read from the .phasor file and given to
CTranslate2 as a TransformerSpec, so both compute the same function; the share of equal tokens is
noted.

  encoder   source tokens / seconds of encoding, one sentence at a time: the encoder by itself on
            both sides, without the keys and values of cross-attention
  greedy    (L − 1) tokens a sentence / (seconds for L tokens − seconds for one), one sentence at a
            time; end tokens are not allowed
  beam 4    the same by a search with 4 beams: tokens of the best output
  batch 32  all target tokens / all seconds, encoding included, up to 32 sentences together
  resident  the most that the process has held, ours linked statically; ours beside its file, its
            arena and 3 MB too

The row `translators` takes more sentences, and one of width 1024 with 12 + 12 layers too; --lines,
--shapes and --text say of what it is made.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.common import (
    OURS,
    ROOT,
    Engines,
    Results,
    Worker,
    at_threads,
    command,
    peer,
    settings_of,
    types_of,
)
from bench.models import CT2_TYPES, beside
from bench.peers import token
from phasor.files import replacing, write_text
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import SOURCE_TOKENIZER, TARGET_TOKENIZER, PhasorFile, Weights
from phasor.format.layout import PhasorError
from phasor.format.writer import write_model
from phasor.reference.functions import sinusoid

PEER = "CTranslate2"
BATCH, BEAMS = 32, 4
LENGTH = 24  # new tokens of a sentence
TYPES = ("f32", "q8", "q8r")
TEXT = ROOT / "tools" / "bench" / "sentences.txt"
VOCABULARY = 32000  # of random weights
SHIPPED = ROOT / "models" / "zh-en.phasor"
SHAPES = {"d512": (512, 6), "d1024": (1024, 12)}  # width, layers of each stack


# ---- models of ours


def random_model(path: Path, d: int, layers: int) -> None:
    """Of width d, with so many layers in each stack."""
    rng = np.random.default_rng(1)
    heads, vocabulary = d // 64, VOCABULARY
    kind = {
        "norm": D.LAYER_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 1e-5,
        "heads": heads,
        "head_width": d // heads,
        "scale": (d // heads) ** -0.5,
        "attention_biases": D.ATTENTION_BIASES,
        "hidden": 4 * d,
        "activation": D.RELU,
        "ffn_biases": D.FFN_BIASES,
    }
    stack = {
        "width": d,
        "position": D.INTERLEAVED,
        "max_positions": 256,
        "embedding_scale": math.sqrt(d),
        "final_norm": D.LAYER_NORM,
        "final_norm_eps": 1e-5,
    }
    side = {"vocabulary": vocabulary, "pad": 0, "unknown": 1, "start": 2, "end": [3]}
    descriptor = {
        "model": {"stack": D.ENCODER_DECODER},
        "source": side,
        "target": {**side, "decoder_start": 2},
        "encoder": {**stack, "layers": [n for i in range(layers) for n in (0, i)]},
        "decoder": {**stack, "layers": [n for i in range(layers) for n in (1, i)]},
        "kinds": [kind, {**kind, "cross": 1, "cross_biases": D.ATTENTION_BIASES}],
        "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
    }

    def weights(slot: R.Slot) -> np.ndarray:
        rows = sum(slot.parts)
        if slot.role == R.SINUSOID and slot.stack in (R.SOURCE, R.TARGET):
            return 10000.0 ** (-np.arange(0, d, 2) / d)
        if slot.layout != L.VECTOR:
            made = rng.standard_normal((rows, slot.cols), dtype=np.float32)
            return made / np.float32(math.sqrt(slot.cols))
        is_bias = slot.role & 1
        made = rng.normal(0.0, 0.02, rows) if is_bias else rng.normal(1.0, 0.1, rows)
        return made.astype(np.float32)

    with replacing(path) as file:
        write_model(file, descriptor, weights, L.F32)


def variant(path: Path, f: PhasorFile, kind: int) -> None:
    """The same model with its matrices in another type."""

    def weights(slot: R.Slot) -> Weights:
        is_same = slot.matrix and kind == L.Q8 and f.entries[slot.key].type == L.Q8
        return f.quantized(slot.key) if is_same else f.weights(slot.key)

    tokenizers = {k: f.section(k) for k in (SOURCE_TOKENIZER, TARGET_TOKENIZER) if f.section(k)}
    with replacing(path) as out:
        write_model(out, f.meta, weights, kind, tokenizers)


def encoder_alone(path: Path, f: PhasorFile, kind: int) -> None:
    """The encoder of an encoder-decoder as a file of its own, in `kind`: hidden states."""
    own = D.layers_of(f.descriptor["encoder"])
    kinds = sorted({k for k, _ in own})
    not_here = ("tokenizer", "embedding_shared")
    layers = [n for k, i in own for n in (kinds.index(k), i)]
    meta = {
        "model": {"stack": D.ENCODER},
        "source": {k: v for k, v in f.meta["source"].items() if k not in not_here},
        "encoder": {**f.meta["encoder"], "layers": layers},
        "kinds": [f.meta["kinds"][k] for k in kinds],
        "output": {"output": D.HIDDEN},
    }
    with replacing(path) as out:
        write_model(out, meta, lambda slot: f.weights(slot.key), kind)


# ---- the same models for CTranslate2


def refuse_others(path: Path, d: dict) -> None:
    """PhasorError for what CTranslate2's Transformer, as it is made here, does not have."""
    stacks = [d[name] for name in ("encoder", "decoder") if name in d]
    kinds = [d["kinds"][k] for stack in stacks for k, _ in D.layers_of(stack)]
    first, scales = kinds[0], {stack["embedding_scale"] for stack in stacks}
    same = {
        "norm": D.LAYER_NORM,
        "activation": D.RELU,
        "gated": 0,
        "position": 0,
        "heads": first["heads"],
        "norm_place": first["norm_place"],
    }
    plain = (
        d["model"]["stack"] == D.ENCODER_DECODER
        and all(same.items() <= {f: k[f] for f in same}.items() for k in kinds)
        and math.isclose(first["scale"] * math.sqrt(first["head_width"]), 1, rel_tol=1e-6)
        and first["norm_place"] in (D.BEFORE, D.AFTER)
        and (scales == {1.0} or is_scaled(d))
    )
    if not plain:
        raise PhasorError(f"{path}: not the plain Transformer that {PEER} is compared on")


def is_scaled(d: dict) -> bool:
    """Whether embeddings are multiplied by the root of the width."""
    root = math.sqrt(d["encoder"]["width"])
    scales = (d[name]["embedding_scale"] for name in ("encoder", "decoder"))
    return all(math.isclose(scale, root, rel_tol=1e-6) for scale in scales)


def never_chosen(d: dict) -> list[int]:
    target = d["target"]
    return sorted({target["pad"], target["decoder_start"]} - {None})


def parts_of(layer: Any, before: bool) -> list[tuple[Any, int]]:
    """The linear layers and norms of a layer in CTranslate2, each with the role of ours."""
    own, ffn = layer.self_attention, layer.ffn
    out = [
        (own.linear[0], R.QKV),
        (own.linear[1], R.ATTENTION_OUT),
        (ffn.linear_0, R.FFN_IN),
        (ffn.linear_1, R.FFN_OUT),
        (own.layer_norm, R.ATTENTION_BEFORE if before else R.ATTENTION_AFTER),
        (ffn.layer_norm, R.FFN_BEFORE if before else R.FFN_AFTER),
    ]
    if hasattr(layer, "attention"):
        out += zip(layer.attention.linear, (R.CROSS_Q, R.CROSS_KV, R.CROSS_OUT))
        out.append((layer.attention.layer_norm, R.CROSS_BEFORE if before else R.CROSS_AFTER))
    return out


def transformer_spec(f: PhasorFile) -> Any:
    """The model as CTranslate2 describes it."""
    from ctranslate2.specs import TransformerSpec, common_spec

    d, kind = f.descriptor, f.descriptor["kinds"][0]
    before = kind["norm_place"] == D.BEFORE
    spec = TransformerSpec.from_config(
        tuple(len(D.layers_of(d[name])) for name in ("encoder", "decoder")),
        kind["heads"],
        pre_norm=before,
        activation=common_spec.Activation.RELU,
    )

    def tensor(stack: int, weights: int, role: int) -> np.ndarray | None:
        key = stack << 24 | weights << 8 | role
        return f.weights(key).astype(np.float32) if key in f.entries else None

    def fill(to: Any, stack: int, weights: int, role: int) -> None:
        """A norm or a linear layer; what has no bias keeps none."""
        names = ("gamma", "beta") if hasattr(to, "gamma") else ("weight", "bias")
        for name, value in zip(names, (tensor(stack, weights, r) for r in (role, role + 1))):
            if value is not None:
                setattr(to, name, value)

    embeddings = {side: tensor(side, 0, R.EMBEDDING) for side in (R.SOURCE, R.TARGET)}
    if d["target"]["embedding_shared"]:
        embeddings[R.TARGET] = embeddings[R.SOURCE]
    for name, part, side, stack in (
        ("encoder", spec.encoder, R.SOURCE, R.ENCODER),
        ("decoder", spec.decoder, R.TARGET, R.DECODER),
    ):
        several = isinstance(part.embeddings, list)
        (part.embeddings[0] if several else part.embeddings).weight = embeddings[side]
        part.scale_embeddings = is_scaled(d)
        positions = tensor(side, 0, R.POSITIONS)
        if positions is None:
            at = np.arange(max(d[name]["max_positions"], 128))
            rates = f.weights(side << 24 | R.SINUSOID)
            positions = sinusoid(rates, at, d[name]["position"]).astype(np.float32)
        part.position_encodings.encodings = positions
        for i, layer in enumerate(part.layer):
            for to, role in parts_of(layer, before):
                fill(to, stack, i, role)
        if before:
            fill(part.layer_norm, stack, R.FINAL, R.FINAL_NORM)
    own = tensor(R.OUTPUT, 0, R.OUTPUT_WEIGHT)
    spec.decoder.projection.weight = embeddings[R.TARGET] if own is None else own
    return spec


def export_peer(folder: Path, compute: str, f: PhasorFile) -> None:
    """Writes the model, its encoder alone, and the ids that are not to be chosen."""
    from ctranslate2.specs import TransformerEncoderModelSpec

    d, target = f.descriptor, f.descriptor["target"]
    unknown, end = token(target["unknown"] or 0), token(target["end"][0])
    start = token(target["decoder_start"])
    sources, targets = (
        [token(i) for i in range(d[side]["vocabulary"])] for side in ("source", "target")
    )

    def save(name: str, spec: Any) -> None:
        spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = unknown, start, end
        spec.validate()
        spec.optimize(quantization=None if compute == "float32" else compute)
        (folder / name).mkdir(parents=True, exist_ok=True)
        spec.save(str(folder / name))

    whole = transformer_spec(f)
    whole.register_source_vocabulary(sources)
    whole.register_target_vocabulary(targets)
    whole.config.decoder_start_token = start
    whole.config.add_source_bos = whole.config.add_source_eos = False
    save("translator", whole)
    encoder = TransformerEncoderModelSpec(transformer_spec(f).encoder)
    encoder.register_vocabulary(sources)
    save("encoder", encoder)
    write_text(folder / "never.json", json.dumps(never_chosen(d)))


# ---- the comparison


class Load(NamedTuple):
    """What a model is asked: of `lines` sentences, of which `alone` one at a time too."""

    types: tuple[str, ...]
    lines: int = BATCH
    alone: int = BATCH
    text: Path = TEXT
    aims: dict[int, float] | None = None  # by threads, of each figure; else AIMS


def prepare(args: Any, name: str, load: Load) -> tuple[Path, Path, list[int]]:
    """The folder of models, the file of the sentences' ids, and ids that are not to be chosen.
    name: of SHAPES, with random weights; or the shipped one."""
    folder = args.folder / "models" / f"translator-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    ids = folder / "ids"
    if name in SHAPES:
        source = folder / "f32.phasor"
        if not source.exists():
            random_model(source, *SHAPES[name])
        rng = np.random.default_rng(2)
        rows = (rng.integers(4, VOCABULARY, n) for n in rng.integers(8, 40, load.lines))
        lines = [" ".join(map(str, row)) + " 3" for row in rows]
    else:
        source = SHIPPED
        line = command(f"{args.build}/bench_translator", source, tokenize=load.text)
        done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
        lines = [line for line in done.stdout.splitlines() if line]
        lines = (lines * -(-load.lines // max(len(lines), 1)))[: load.lines]
    write_text(ids, "".join(f"{line}\n" for line in lines))
    f = PhasorFile(source)
    refuse_others(source, f.descriptor)
    for kind in load.types:
        path, done = folder / f"{kind}.phasor", folder / kind / "done"
        if not done.exists() or done.stat().st_mtime < source.stat().st_mtime:
            if path != source:
                variant(path, f, L.type_code(kind))
            encoder_alone(folder / f"encoder-{kind}.phasor", f, L.type_code(kind))
            export_peer(folder / kind, CT2_TYPES[beside(kind)], f)
            done.touch()
    return folder, ids, never_chosen(f.descriptor)


def same_share(ours: list[list[int]], theirs: list[list[int]]) -> float:
    """Of equal tokens at equal places."""
    pairs = [pair for rows in zip(ours, theirs) for pair in zip(*rows)]
    return sum(a == b for a, b in pairs) / len(pairs)


SEARCHES = {"greedy": "greedy", "beam": f"beam {BEAMS}"}  # request, its title
AIMS = {"encoder": 2, "greedy": 2.5, f"beam {BEAMS}": 2, "batch 32": 1.5}
AIMS_OF = {"q8r": {"encoder": 1.5, "batch 32": 1.5}}


def hold(results: Results, claim: str, workers: Engines, where: dict[str, Any]) -> None:
    """What each process has held; and what ours may hold."""
    held = {engine: worker.ask("memory")["peak"] / 2**20 for engine, worker in workers.items()}
    for engine, peak in held.items():
        results.add("resident", engine, [peak], "MiB", **where)
    hello = workers[OURS].hello
    most = (hello["file"] + hello["arena"] + 3e6) / 2**20
    results.aim(claim, "file + arena + 3 MB", held[OURS], most, 1, "most")
    results.aim(claim, PEER, held[OURS], held[PEER], 1, "most")


def measure(args: Any, results: Results, name: str, load: Load) -> None:
    folder, ids, never = prepare(args, name, load)
    lines = ids.read_text().splitlines()
    tokens, runs = sum(len(line.split()) for line in lines), min(args.runs, 5)
    sentences = min(load.alone, len(lines))
    for kind in load.types:
        compute = CT2_TYPES[beside(kind)]
        for threads in args.threads:
            where = {"type": kind, "threads": threads, "at": name}
            own, options = f"{args.build}/bench_translator", {"threads": threads, "beams": BEAMS}
            more = {"batch": BATCH, "length": LENGTH, "never": never}
            theirs = {"ids": ids, "sequences": BATCH, "compute": compute}
            encoder = folder / f"encoder-{kind}.phasor"
            both = Engines(
                {
                    OURS: Worker(own, encoder, ids, threads=threads),
                    PEER: peer("ct2-source-encoder", folder / kind, threads=threads, **theirs),
                }
            )
            with both:
                results.add_rates("encoder", both.take_turns("encode", runs), tokens, **where)
            workers = Engines(
                {
                    OURS: Worker(own, folder / f"{kind}.phasor", ids, **options, **more),
                    PEER: peer("ct2-translator", folder / kind, **options, **theirs),
                }
            )
            with workers:
                results.facts |= workers.versions()
                for request, title in SEARCHES.items():
                    whole = f"{request} {sentences} {LENGTH}"
                    one, every = (
                        workers.take_turns(f"{request} {sentences} {n}", runs, choose=whole)
                        for n in (1, LENGTH)
                    )
                    for engine in workers:
                        pairs = zip(one[engine], every[engine])
                        seconds = [max(b["seconds"] - a["seconds"], 1e-9) for a, b in pairs]
                        rates = [sentences * (LENGTH - 1) / s for s in seconds]
                        settings = settings_of(every[engine])
                        results.add(title, engine, rates, "tokens/s", settings, **where)
                    search = f", beam {BEAMS}" if request == "beam" else ""
                    label = f"equal tokens, {name}, {kind}, {threads} threads{search}"
                    share = same_share(every[OURS][0]["ids"], every[PEER][0]["ids"])
                    results.facts[label] = f"{share * 100:.1f} %"
                answers = workers.take_turns(f"batch {LENGTH}", runs)
                results.add_rates("batch 32", answers, len(lines) * LENGTH, **where)
                claim = f"translator {name}, resident, {kind}, {at_threads(threads)}"
                hold(results, claim, workers, where)
            aims = AIMS_OF.get(kind, AIMS)
            if load.aims is not None:
                aims = dict.fromkeys(AIMS, load.aims[min(threads, max(load.aims))])
            for what, least in aims.items():
                claim = f"translator {name}, {what}, {kind}, {at_threads(threads)}"
                results.aim_beside(claim, what, PEER, least, f"{PEER} {compute}", **where)
            results.save()


def row_translator(args: Any, results: Results) -> None:
    types = types_of(args, TYPES)
    measure(args, results, "d512", Load(types, alone=6))
    if SHIPPED.exists():
        measure(args, results, "shipped", Load(types))


def row_translators(args: Any, results: Results) -> None:
    types = types_of(args, TYPES, ("f32", "q8r"))
    load = Load(types, text=args.text.absolute(), aims={1: 1.2, 2: 1.5})
    for name in args.shapes:
        lines = args.lines if name == "shipped" else min(args.lines, 300)
        measure(args, results, name, load._replace(lines=lines, alone=lines))


ROWS = {"translator": row_translator, "translators": row_translators}


def arguments(options: argparse.ArgumentParser) -> None:
    """The options of the row `translators`."""
    group = options.add_argument_group("translators")
    group.add_argument(
        "--lines", type=int, default=300, help="sentences (300; of random weights at most 300)"
    )
    names = ("shipped", *SHAPES)
    group.add_argument("--shapes", nargs="+", choices=names, default=list(names))
    group.add_argument("--text", type=Path, default=TEXT, help="sentences, again and again")
