"""Trains one small language model for each position encoding: the same text, sizes, steps and seed,
so that the encodings can be compared.

    train_positions.py train  --text FILE… --out DIR [NAME…]    train what is not yet trained; run
                                                                it again to resume after a stop
    train_positions.py table  --text FILE… --out DIR            the losses inside the trained length
                                                                and beyond it
    train_positions.py export --text FILE… --out DIR --to DIR   the weights (NAME.pt), a description
                                                                each (NAME.toml), tokenizer and
                                                                losses
    train_positions.py score  --from DIR --models DIR           what the float64 reference gives a
                                                                sentence in each converted model
                                                                (scores.json)

A model is a decoder of the PyTorch modules of torch_models.py, trained on windows: the start token,
then a stretch of the text. The text is plain UTF-8, a paragraph a line; every tenth article (a line
` = Title = ` begins one) is held out. Losses are in nats a token, over the same tokens of the
held-out articles for each length: cut into windows of the trained length, of twice and of four
times as many tokens. Everything is seeded, and a window depends on (seed, step) alone: a resumed
run repeats an uninterrupted one.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece as spm
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from phasor.entry import front_door
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.reference import torch_models
from phasor.reference import torch_positions as P
from phasor.reference.forward import Reference
from train.common import (
    UserError,
    add_recipe_options,
    count_parameters,
    descend,
    given_fields,
    load_checkpoint,
    new_parser,
    save_weights,
    train_unigram,
    warm_cosine,
    write_bytes,
    write_json,
    write_text,
)

UNKNOWN, START, END = 0, 1, 2
TITLE = re.compile(r" = [^=].* = ")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What all models have in common."""

    seed: int = 17
    vocabulary: int = 512
    width: int = 64
    layers: int = 2
    heads: int = 4
    hidden: int = 256
    length: int = 64  # tokens of a window
    batch: int = 32  # windows a step
    steps: int = 5000
    warmup: int = 200
    peak_rate: float = 8e-3
    clip: float = 1.0


@dataclasses.dataclass(frozen=True)
class Encoding:
    """One encoding: its fields in the descriptor, and what the converter must be told of it."""

    title: str
    kind: dict[str, int] = dataclasses.field(default_factory=dict)  # fields of scope 5
    stack: int = 0  # position of scope 4
    toml: str = ""  # lines beside those that all have
    bounded: bool = False  # there is no position past the trained length
    buckets: int = 0


def encodings(recipe: Recipe) -> dict[str, Encoding]:
    """Every encoding by the name of its file."""
    w, table = recipe.width // recipe.heads, {"max_distance": recipe.length}
    relative = 'attention_position = "{}"'.format
    return {
        "none": Encoding("none"),
        "learned": Encoding("learned", stack=D.LEARNED, bounded=True),
        "sinusoidal": Encoding("sinusoidal, interleaved", stack=D.INTERLEAVED),
        "relative-key": Encoding(
            "relative_key",
            {"position": D.RELATIVE_KEY, **table},
            toml=relative("relative_key"),
            bounded=True,
        ),
        "relative-key-query": Encoding(
            "relative_key_query",
            {"position": D.RELATIVE_KEY_QUERY, **table},
            toml=relative("relative_key_query"),
            bounded=True,
        ),
        "three-way": Encoding(
            "three-way",
            {"position": D.THREE_WAY, **table},
            toml=relative("three-way"),
            bounded=True,
        ),
        "clipped": Encoding(
            "relative keys and values, clipped at 16",
            {"position": D.CLIPPED, "max_distance": 16},
            toml=relative("clipped"),
        ),
        "t5-bias": Encoding(
            "T5 bias, 16 buckets to 64",
            {"position": D.T5_BIAS, **table},
            toml=relative("t5") + f"\nmax_distance = {recipe.length}",
            buckets=16,
        ),
        "alibi": Encoding("ALiBi", {"position": D.ALIBI}, toml=relative("alibi")),
        "rotary": Encoding(
            "rotary, pairs",
            {"position": D.ROTARY_INTERLEAVED, "rotary_width": w},
            toml=relative("rotary"),
        ),
        "rotary-halves": Encoding(
            "rotary, halves, half of each head",
            {"position": D.ROTARY_HALVES, "rotary_width": w // 2},
            toml=relative("rotary-halves") + f"\nrotary_width = {w // 2}",
        ),
        "additive": Encoding(
            "additive score, sinusoidal",
            {"score": 1, "scale": 1.0},
            stack=D.INTERLEAVED,
            toml='score = "additive"',
        ),
    }


# ---- text


def read_articles(paths: Sequence[Path]) -> list[list[str]]:
    """The articles of the files, each a list of paragraphs."""
    articles: list[list[str]] = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {path}: {error}") from error
        articles.append([])
        for line in lines:
            if TITLE.fullmatch(line):
                articles.append([])
            if line.strip():
                articles[-1].append(line.strip())
    found = [article for article in articles if article]
    if len(found) < 10:
        raise UserError(
            f"{', '.join(map(str, paths))}: {len(found)} articles, expected at least 10, each "
            "after a line ' = Title = '"
        )
    return found


def split(articles: Sequence[list[str]]) -> tuple[list[str], list[str]]:
    """(paragraphs to train on, paragraphs held out): every tenth article is held out."""
    parts: tuple[list[str], list[str]] = ([], [])
    for i, article in enumerate(articles):
        parts[i % 10 == 9].extend(article)
    return parts


def train_pieces(paragraphs: Sequence[str], vocabulary: int) -> bytes:
    """A SentencePiece unigram model without a map of characters, as the bytes of its file."""
    return train_unigram(
        paragraphs,
        vocabulary,
        "{} pieces",
        character_coverage=0.9995,
        normalization_rule_name="identity",
        pad_id=-1,
        unk_id=UNKNOWN,
        bos_id=START,
        eos_id=END,
        max_sentence_length=1 << 16,
    )


@dataclasses.dataclass
class Text:
    """The pieces and the two streams of ids, each paragraph ended by END."""

    pieces: bytes
    train: Tensor  # (N)
    valid: Tensor  # (M)


def obtain_text(paths: Sequence[Path], out: Path, recipe: Recipe) -> Text:
    """The text as ids; the pieces are trained once and kept in `out`."""
    train, valid = split(read_articles(paths))
    path = out / "pieces.model"
    if not path.exists():
        write_bytes(path, train_pieces(train, recipe.vocabulary))
    pieces = path.read_bytes()
    processor = spm.SentencePieceProcessor(model_proto=pieces)
    streams = [
        torch.tensor([i for row in processor.encode(part) for i in (*row, END)])
        for part in (train, valid)
    ]
    if min(map(len, streams)) <= 4 * recipe.length:
        raise UserError(
            f"the text has {len(streams[0])} and {len(streams[1])} tokens, expected more than "
            f"{4 * recipe.length} of each"
        )
    return Text(pieces, *streams)


def windows(stream: Tensor, starts: Sequence[int], length: int) -> tuple[Tensor, Tensor]:
    """(B, length) what a model reads, START first, and (B, length) what follows each of it."""
    targets = torch.stack([stream[at : at + length] for at in starts])
    return torch.cat([torch.full((len(targets), 1), START), targets[:, :-1]], dim=1), targets


# ---- model


def descriptor(recipe: Recipe, encoding: Encoding) -> dict:
    """The descriptor of one model, with defaults."""
    w = recipe.width // recipe.heads
    kind = {
        "norm": D.LAYER_NORM,
        "norm_place": D.BEFORE,
        "norm_eps": 1e-5,
        "heads": recipe.heads,
        "head_width": w,
        "scale": 1 / math.sqrt(w),
        "attention_biases": D.ATTENTION_BIASES,
        "hidden": recipe.hidden,
        "activation": D.GELU_TANH,
        "ffn_biases": D.FFN_BIASES,
        **encoding.kind,
    }
    stack = {
        "width": recipe.width,
        "layers": [n for i in range(recipe.layers) for n in (0, i)],
        "position": encoding.stack,
        "embedding_scale": math.sqrt(recipe.width),
        "final_norm": D.LAYER_NORM,
        "final_norm_eps": 1e-5,
        "max_positions": recipe.length if encoding.stack == D.LEARNED else 0,
    }
    return D.with_defaults(
        {
            "model": {"stack": D.DECODER},
            "target": {"vocabulary": recipe.vocabulary},
            "decoder": stack,
            "kinds": [kind],
            "output": {"output": D.LOGITS, "tied": D.TIED_TARGET},
        }
    )


def make_model(recipe: Recipe, encoding: Encoding) -> torch_models.Base:
    """A model with seeded weights: what the encodings share is drawn first, so it is the same for
    all."""
    torch.manual_seed(recipe.seed)
    model = torch_models.build(descriptor(recipe, encoding), "separate", encoding.buckets)
    generator = torch.Generator().manual_seed(recipe.seed)
    named = dict(model.named_parameters())
    shared = [
        name
        for name in named
        if ".position." not in name and ".score." not in name and "pos_embedding" not in name
    ]
    with torch.no_grad():
        for name in [*shared, *(n for n in named if n not in shared)]:
            initialize(name, named[name], generator)
        for part in model.modules():
            if isinstance(
                part, P.ThreeWay
            ):  # a factor of the scores: 1, and not 0, changes nothing
                part.keys.weight += 1
    return model


def initialize(name: str, parameter: Tensor, generator: torch.Generator) -> None:
    """Embeddings as wide as √(1/D), matrices by Glorot and Bengio 2010, tables of positions small;
    norms and biases as PyTorch has them at first."""
    if name.endswith("bias") and parameter.dim() == 1:
        parameter.zero_()
    elif ".position." in name or "pos_embedding" in name:
        parameter.normal_(std=0.02, generator=generator)
    elif "embedding" in name:
        parameter.normal_(std=parameter.shape[1] ** -0.5, generator=generator)
    elif parameter.dim() == 2 and ".score." not in name:
        nn.init.xavier_uniform_(parameter, generator=generator)


def loss_of(model: torch_models.Base, given: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats."""
    return F.cross_entropy(model(None, given).flatten(0, 1), targets.flatten())


# ---- training


def rate(recipe: Recipe, step: int) -> float:
    """Linear warm-up, then a cosine down to zero."""
    return warm_cosine(recipe.peak_rate, step, recipe.warmup, math.pi * step / recipe.steps)


def train(
    name: str, encoding: Encoding, recipe: Recipe, text: Text, out: Path, every: int = 500
) -> torch_models.Base:
    """The trained model; a checkpoint every `every` steps, and continued from the newest."""
    model = make_model(recipe, encoding)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    path, step, seconds = out / f"{name}.pt", 0, 0.0
    if path.exists():
        state = load_checkpoint(path)
        if state["recipe"] != dataclasses.asdict(recipe):
            raise UserError(f"{path} was begun with another recipe: {state['recipe']}")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, seconds = state["step"], state["seconds"]
    bar = tqdm(
        total=recipe.steps,
        initial=step,
        desc=name,
        unit="step",
        mininterval=0.5 if sys.stderr.isatty() else 60.0,
    )
    began = time.process_time()
    while step < recipe.steps:
        generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + step)
        starts = torch.randint(
            len(text.train) - recipe.length, (recipe.batch,), generator=generator
        ).tolist()
        loss = loss_of(model, *windows(text.train, starts, recipe.length))
        descend(model, optimizer, loss, rate(recipe, step), recipe.clip)
        step += 1
        bar.update()
        if step % 50 == 0:
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
        if step % every == 0 or step == recipe.steps:
            if not math.isfinite(loss.item()):
                raise UserError(f"{name}: the loss is {loss.item()} at step {step}")
            state = {
                "recipe": dataclasses.asdict(recipe),
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step,
                "seconds": seconds + time.process_time() - began,
            }
            save_weights(path, state)
    bar.close()
    return model


# ---- measuring


@torch.no_grad()
def held_out_loss(model: torch_models.Base, stream: Tensor, length: int, longest: int) -> float:
    """Mean loss over the held-out tokens in windows of `length`; the same tokens for each length
    that divides `longest`."""
    count = len(stream) // longest * longest
    total = 0.0
    for first in range(0, count, 16 * longest):
        starts = range(first, min(first + 16 * longest, count), length)
        total += loss_of(model, *windows(stream, starts, length)).item() * length * len(starts)
    return total / count


def measure(
    recipe: Recipe, encoding: Encoding, state: dict[str, Any], text: Text
) -> dict[str, Any]:
    """Parameters, seconds of processor time and losses; None past the end of a table."""
    model = make_model(recipe, encoding)
    model.load_state_dict(state["model"])
    losses = {}
    for times in (1, 2, 4):
        length = times * recipe.length
        known = times == 1 or not encoding.bounded
        losses[str(length)] = (
            round(held_out_loss(model, text.valid, length, 4 * recipe.length), 4) if known else None
        )
    return {
        "title": encoding.title,
        "parameters": count_parameters(model),
        "seconds": round(state["seconds"]),
        "loss": losses,
    }


def measured(out: Path, recipe: Recipe, text: Text) -> dict[str, dict[str, Any]]:
    """The measures of every model that is done."""
    results = {}
    for name, encoding in encodings(recipe).items():
        path = out / f"{name}.pt"
        if path.exists() and (state := load_checkpoint(path))["step"] == recipe.steps:
            results[name] = measure(recipe, encoding, state, text)
    if not results:
        raise UserError(f"no trained model in {out}: run train first")
    return results


def as_table(results: dict[str, dict[str, Any]]) -> str:
    """The measures as a table in Markdown."""
    lengths = list(next(iter(results.values()))["loss"])
    lines = [
        "| file | encoding | parameters | "
        + " | ".join(f"loss at {n}" for n in lengths)
        + " | seconds |",
        "|---|---|---:|" + "---:|" * (len(lengths) + 1),
    ]
    for name, row in results.items():
        losses = " | ".join(
            "no position there" if v is None else f"{v:.3f}" for v in row["loss"].values()
        )
        lines.append(
            f"| `{name}` | {row['title']} | {row['parameters']:,} | {losses} | {row['seconds']} |"
        )
    return "\n".join(lines)


# ---- export


POSITION_NAMES = {
    0: "none",
    D.LEARNED: "learned",
    D.INTERLEAVED: "sinusoidal",
    D.HALVES: "sinusoidal-halves",
}


def description(name: str, encoding: Encoding, recipe: Recipe) -> str:
    """The TOML that the converter reads."""
    more = encoding.toml + "\n" if encoding.toml else ""
    score = "" if encoding.kind.get("score") else 'score_scale = "sqrt_head_width"\n'
    return f"""\
name = "positions/{name}"
license = "CC BY-SA 3.0"
credit = "Wikipedia's authors, by way of WikiText-2 (Merity et al. 2016)"
origin = "tools/train_positions.py, {recipe.steps} steps, seed {recipe.seed}"
preset = "separate"
stack = "decoder"
heads = {recipe.heads}
norm_place = "before"
final_norm = true
activation = "gelu-tanh"
output = "target-embedding"
{score}position = "{POSITION_NAMES[encoding.stack]}"
{more}
[target]
tokenizer = "pieces.model"
unknown = {UNKNOWN}
start = {START}
end = [{END}]
prefix = [{START}]
"""


def export(out: Path, to: Path, recipe: Recipe, text: Text) -> dict[str, dict[str, Any]]:
    """Writes what the converter needs, and the losses."""
    results = measured(out, recipe, text)
    write_bytes(to / "pieces.model", text.pieces)
    for name in results:
        save_weights(to / f"{name}.pt", load_checkpoint(out / f"{name}.pt")["model"])
        write_text(to / f"{name}.toml", description(name, encodings(recipe)[name], recipe))
    content = {
        "recipe": dataclasses.asdict(recipe),
        "train_tokens": len(text.train),
        "valid_tokens": len(text.valid),
        "torch": torch.__version__,
        "models": results,
    }
    write_json(to / "losses.json", content)
    return results


# ---- scoring

SENTENCE = (
    "The first season of the series began in the autumn of the following year , and was seen by "
    "two million people ."
)


def log_probability(path: Path, ids: Sequence[int]) -> float:
    """The logarithm of the probability of all ids but the first, in nats, by the float64
    reference."""
    logits = Reference(PhasorFile(path)).decode(ids[:-1]).logits
    largest = logits.max(axis=1, keepdims=True)
    normal = logits - largest - np.log(np.exp(logits - largest).sum(axis=1, keepdims=True))
    return float(normal[np.arange(len(ids) - 1), ids[1:]].sum())


def score(source: Path, models: Path) -> dict[str, Any]:
    """The sentence and its logarithm in each model; written beside the models."""
    processor = spm.SentencePieceProcessor(model_file=str(source / "pieces.model"))
    ids = [START, *processor.encode(SENTENCE)]
    found = sorted(models.glob("*.phasor"))
    if not found:
        raise UserError(f"no model in {models}")
    content = {
        "text": SENTENCE,
        "ids": ids,
        "log_probability": {path.stem: log_probability(path, ids) for path in found},
    }
    write_json(models / "scores.json", content)
    return content


# ---- command line


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = new_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in (
        ("train", "train, or resume"),
        ("table", "print the losses"),
        ("export", "write what the converter needs"),
    ):
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument(
            "--text",
            type=Path,
            nargs="+",
            required=True,
            metavar="FILE",
            help="plain text, a paragraph a line; WikiText-2 raw fits",
        )
        command.add_argument("--out", type=Path, required=True, help="folder of the checkpoints")
        command.add_argument("--threads", type=int, default=1)
        if name == "export":
            command.add_argument("--to", type=Path, required=True, help="folder of the artifacts")
        if name == "train":
            command.add_argument("names", nargs="*", metavar="NAME", help="encodings; default: all")
        add_recipe_options(command, Recipe)
    command = commands.add_parser("score", help="record what the reference gives a sentence")
    command.add_argument(
        "--from", dest="source", type=Path, required=True, help="folder that export wrote"
    )
    command.add_argument(
        "--models", type=Path, required=True, help="folder of the converted models"
    )
    return parser


def run_command(options: argparse.Namespace) -> None:
    """Do what the command line says."""
    if options.command == "score":
        print(json.dumps(score(options.source, options.models)["log_probability"], indent=2))
        return
    torch.set_num_threads(options.threads)
    recipe = Recipe(**given_fields(options, Recipe))
    known = encodings(recipe)
    for name in getattr(options, "names", ()):
        if name not in known:
            raise UserError(f"no encoding is called {name}; there are {', '.join(known)}")
    text = obtain_text(options.text, options.out, recipe)
    if options.command == "train":
        for name in options.names or known:
            train(name, known[name], recipe, text, options.out)
    elif options.command == "table":
        print(as_table(measured(options.out, recipe, text)))
    else:
        print(as_table(export(options.out, options.to, recipe, text)))


@front_door("train_positions", "; run the same command to resume")
def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    run_command(build_parser().parse_args(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
