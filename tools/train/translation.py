"""Train the Chinese -> English Transformer that Phasor ships.

The model and the training follow "Attention is all you need" (Vaswani et al., 2017), sized for a
microcontroller-class engine and a small corpus: teacher forcing with the target shifted by one,
cross-entropy that ignores padding, label smoothing, dropout, a warm-up schedule, Adam with
beta2 = 0.98, a padding mask on the source, a causal mask on the target, and the average of the last
checkpoints as the final weights. SentencePiece unigram models, one for each language, are trained
on the training split only; training segments are sampled anew in each epoch (subword
regularization, Kudo 2018).

    train_translation.py check-split               prove that no test sentence is in training
    train_translation.py train  --out DIR          train; run it again to resume after a stop
    train_translation.py export --out DIR --to DIR average checkpoints, score, write the artifacts
    train_translation.py translate --model DIR     translate standard input, a sentence a line

Everything is seeded. A resumed run repeats an uninterrupted one: the order of batches and the
sampled segments depend on (seed, epoch) alone, and the checkpoint, written after each epoch, holds
the optimizer and the state of torch's generator.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import platform
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch
from sacrebleu.metrics import BLEU, CHRF
from torch import Tensor
from tqdm import tqdm

from phasor.entry import front_door
from phasor.errors import PhasorError
from phasor.files import read_bytes, read_json
from train.common import (
    UserError,
    add_recipe_options,
    count_parameters,
    descend,
    given_fields,
    keep_freed_memory,
    load_checkpoint,
    load_weights,
    new_parser,
    save_weights,
    warm_cosine,
    write_bytes,
    write_json,
    write_text,
)
from train.split import (
    SHOWCASE,
    Pair,
    Split,
    check_split,
    read_pairs,
    sha256_of,
    split_pairs,
    test_texts,
)
from train.translation_data import (  # the tests and other tools find them here
    BOS,
    DEFAULT_DATA,
    EOS,
    PAD,
    UNK,
    Recipe,
    Segmenters,
    epoch_batches,
    train_segmenter,
)
from train.translation_model import Translator, batch_loss, greedy


def prepare_torch(threads: int) -> None:
    """Settings that make short sentences fast on a CPU, and runs repeatable."""
    torch.set_num_threads(threads)
    torch.backends.cuda.enable_flash_sdp(
        False
    )  # the plain attention is faster below some 50 tokens
    torch.backends.mha.set_fastpath_enabled(False)  # one set of kernels in training and evaluation
    keep_freed_memory()


def learning_rate(recipe: Recipe, step: int, progress: float) -> float:
    """Linear warm-up over `warmup_steps`, then a cosine down to zero at the end (progress 1)."""
    angle = math.pi * min(1.0, progress)
    return warm_cosine(recipe.peak_lr, step, recipe.warmup_steps, angle)


def checkpoint_path(out: Path, epoch: int) -> Path:
    """Where the state after `epoch` epochs lies."""
    return out / f"epoch-{epoch:03d}.pt"


def checkpoints(out: Path) -> list[Path]:
    """Checkpoints in the order of their epochs."""
    return sorted(out.glob("epoch-[0-9][0-9][0-9].pt"))


def load_state(path: Path) -> dict[str, Any]:
    """The contents of a checkpoint."""
    return load_checkpoint(path, "torch_rng", "epoch", "history")


@dataclasses.dataclass
class Run:
    """A model in training."""

    recipe: Recipe
    segmenters: Segmenters
    model: Translator
    optimizer: torch.optim.Optimizer
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = dataclasses.field(default_factory=list)

    @classmethod
    def start(cls, recipe: Recipe, segmenters: Segmenters) -> Run:
        """A new model with seeded weights."""
        torch.manual_seed(recipe.seed)
        model = Translator(
            segmenters.source.get_piece_size(), segmenters.target.get_piece_size(), recipe
        )
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=0.0,
            betas=(recipe.beta1, recipe.beta2),
            eps=recipe.adam_eps,
            weight_decay=recipe.weight_decay,
            fused=True,
        )
        return cls(recipe, segmenters, model, optimizer)

    def save(self, path: Path) -> None:
        """Everything that a faithful continuation needs."""
        state = {
            "recipe": dataclasses.asdict(self.recipe),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "torch_rng": torch.get_rng_state(),
            "epoch": self.epoch,
            "step": self.step,
            "seconds": self.seconds,
            "history": self.history,
        }
        save_weights(path, state)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint."""
        state = load_state(path)
        try:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"{path} does not fit this recipe: {str(error).splitlines()[0]}"
            ) from error
        torch.set_rng_state(state["torch_rng"])
        self.epoch, self.step, self.seconds = state["epoch"], state["step"], state["seconds"]
        self.history = state["history"]

    def train_epoch(self, pairs: Sequence[Pair], quiet: bool = False) -> list[float]:
        """One pass over the training pairs; returns the loss of each step."""
        batches = epoch_batches(pairs, self.segmenters, self.recipe, self.epoch)
        losses: list[float] = []
        self.model.train()
        bar = tqdm(
            batches,
            desc=f"epoch {self.epoch + 1}/{self.recipe.epochs}",
            unit="step",
            disable=quiet,
            mininterval=0.5 if sys.stderr.isatty() else 30.0,
        )
        began = time.monotonic()
        for i, batch in enumerate(bar):
            rate = learning_rate(
                self.recipe, self.step, (self.epoch + i / len(batches)) / self.recipe.epochs
            )
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.recipe.bf16):
                loss = batch_loss(self.model, batch, self.recipe.label_smoothing)
            descend(self.model, self.optimizer, loss, rate, self.recipe.clip_norm)
            self.step += 1
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                raise UserError(
                    f"loss is {losses[-1]} at step {self.step}: resume with a lower --peak-lr"
                )
            bar.set_postfix(loss=f"{losses[-1]:.3f}", lr=f"{rate:.1e}", refresh=False)
        self.epoch += 1
        self.seconds += time.monotonic() - began
        return losses


def obtain_segmenters(out: Path, split: Split, recipe: Recipe) -> Segmenters:
    """The SentencePiece models of a run: read if they are there, else trained on the training
    split."""
    paths = (out / "zh.model", out / "en.model")
    if not all(path.exists() for path in paths):
        models = (
            train_segmenter(
                (pair.source for pair in split.train),
                recipe.source_vocab,
                recipe.source_coverage,
                recipe.normalization,
            ),
            train_segmenter(
                (pair.target for pair in split.train),
                recipe.target_vocab,
                1.0,
                recipe.normalization,
            ),
        )
        for path, model in zip(paths, models, strict=True):
            write_bytes(path, model)
    return Segmenters(*(path.read_bytes() for path in paths))


def bleu_chrf(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Corpus BLEU (13a tokens, cased) and chrF2; each sentence has one reference or more."""
    most = max(map(len, references))
    streams = [[row[i] if i < len(row) else None for row in references] for i in range(most)]
    return {
        "bleu": round(BLEU().corpus_score(list(hypotheses), streams).score, 2),
        "chrf": round(CHRF().corpus_score(list(hypotheses), streams).score, 2),
    }


def score_pairs(pairs: Sequence[Pair], hypotheses: Sequence[str]) -> dict[str, dict[str, float]]:
    """Two readings of one set of outputs.

    `single_reference`: each pair counts, against its own reference alone, so a source that has two
    translations counts twice and can match at most one of them. `multi_reference`: each distinct
    source counts once, against all its translations in the set.
    """
    references: dict[str, list[str]] = {}
    outputs: dict[str, str] = {}
    for pair, hypothesis in zip(pairs, hypotheses, strict=True):
        references.setdefault(pair.source, []).append(pair.target)
        outputs[pair.source] = hypothesis
    return {
        "single_reference": {
            "sentences": len(pairs),
            **bleu_chrf(hypotheses, [[pair.target] for pair in pairs]),
        },
        "multi_reference": {
            "sentences": len(outputs),
            **bleu_chrf(list(outputs.values()), list(references.values())),
        },
    }


def resume_recipe(out: Path, changes: dict[str, Any]) -> Recipe:
    """The recipe of the run in `out`, changed only where the command line says so."""
    found = checkpoints(out)
    if not found:
        return Recipe(**changes)
    stored = load_state(found[-1])["recipe"]
    data_fields = {
        "seed",
        "valid_pairs",
        "test_pairs",
        "max_component",
        "source_vocab",
        "target_vocab",
        "source_coverage",
        "normalization",
    }
    for name in sorted((data_fields | Recipe().model_fields().keys()) & changes.keys()):
        if changes[name] != stored[name]:
            raise UserError(
                f"{out} was begun with {name} {stored[name]}: cannot continue with {changes[name]}"
            )
    return Recipe(**{**stored, **changes})


def train(out: Path, split: Split, recipe: Recipe, keep: int = 10, validate_every: int = 4) -> Run:
    """Train to the last epoch, continuing from the newest checkpoint in `out`."""
    segmenters = obtain_segmenters(out, split, recipe)
    run = Run.start(recipe, segmenters)
    found = checkpoints(out)
    if found:
        run.load(found[-1])
        print(f"resumed after epoch {run.epoch}", flush=True)
    while run.epoch < recipe.epochs:
        losses = run.train_epoch(split.train)
        entry = {
            "epoch": run.epoch,
            "planned": recipe.epochs,
            "step": run.step,
            "loss": round(float(np.mean(losses)), 4),
            "seconds": round(run.seconds, 1),
        }
        if run.epoch % validate_every == 0 or run.epoch == recipe.epochs:
            sources = [pair.source for pair in split.valid]
            outputs = greedy(run.model, segmenters, [*sources, SHOWCASE[0]], recipe)
            entry |= bleu_chrf(outputs[:-1], [[pair.target] for pair in split.valid])
            print(f"  {SHOWCASE[0]} -> {outputs[-1]}", flush=True)
        run.history.append(entry)
        print(json.dumps(entry), flush=True)
        run.save(checkpoint_path(out, run.epoch))
        for stale in checkpoints(out)[:-keep]:
            stale.unlink()
    return run


# ---- export


def average_states(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights, computed in double precision."""
    return {
        name: torch.stack([state[name].double() for state in states]).mean(0).float()
        for name in states[0]
    }


def model_card(model: Translator, recipe: Recipe) -> dict[str, Any]:
    """What a reader of the weights must know to run them."""
    return {
        **recipe.model_fields(),
        "source_vocab": model.src_embedding.num_embeddings,
        "target_vocab": model.tgt_embedding.num_embeddings,
        "parameters": count_parameters(model),
        "activation": "relu",
        "layer_norm_eps": 1e-5,
        "final_norm": recipe.norm_first,
        "positions": "sinusoidal, interleaved, base 10000, not stored",
        "embedding_scale": model.scale,
        "output_projection": "tgt_embedding.weight, no bias",
        "pad_id": PAD,
        "unk_id": UNK,
        "bos_id": BOS,
        "eos_id": EOS,
        "source_form": "pieces </s>",
        "decoder_start": "<s>",
    }


def processor_name() -> str:
    """The name the processor gives itself, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def sample_text(
    pairs: Sequence[Pair], hypotheses: Sequence[str], seed: int, count: int = 20
) -> str:
    """Seeded random outputs beside source and reference, as they come."""
    chosen = sorted(random.Random(seed).sample(range(len(pairs)), min(count, len(pairs))))
    return "".join(
        f"zh   {pairs[i].source}\nref  {pairs[i].target}\nout  {hypotheses[i]}\n\n" for i in chosen
    )


def export(out: Path, to: Path, split: Split, recipe: Recipe) -> dict[str, Any]:
    """Average the last checkpoints, score them and write the artifacts."""
    found = checkpoints(out)[-recipe.average :]
    if not found:
        raise UserError(f"no checkpoint in {out}: run train first")
    segmenters = obtain_segmenters(out, split, recipe)
    states = [load_state(path) for path in found]
    model = Translator(
        segmenters.source.get_piece_size(), segmenters.target.get_piece_size(), recipe
    )
    weights = average_states([state["model"] for state in states])
    model.load_state_dict(weights)
    hypotheses = {
        name: greedy(model, segmenters, [pair.source for pair in getattr(split, name)], recipe)
        for name in ("valid", "test")
    }
    scores = {
        "recipe": dataclasses.asdict(recipe),
        "averaged_epochs": [state["epoch"] for state in states],
        "steps": states[-1]["step"],
        "training_seconds": round(states[-1]["seconds"]),
        "processor": processor_name(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "split": {**check_split(split), "sha256": sha256_of(split)},
        "decoding": "greedy, float32",
        "metrics": f"sacrebleu {sacrebleu.__version__}: BLEU 13a cased exp-smoothed, chrF2",
        "valid": score_pairs(split.valid, hypotheses["valid"]),
        "test": score_pairs(split.test, hypotheses["test"]),
        "showcase": {
            "source": SHOWCASE[0],
            "output": greedy(model, segmenters, [SHOWCASE[0]], recipe)[0],
        },
        "history": states[-1]["history"],
    }
    write_bytes(to / "zh.model", segmenters.source_bytes)
    write_bytes(to / "en.model", segmenters.target_bytes)
    write_json(to / "zh-en.json", model_card(model, recipe))
    for name, text in test_texts(split).items():
        write_text(to / name, text)
    write_text(to / "test.hyp", "".join(f"{line}\n" for line in hypotheses["test"]))
    write_text(to / "samples.txt", sample_text(split.test, hypotheses["test"], recipe.seed))
    write_json(to / "scores.json", scores)
    save_weights(to / "zh-en.pt", weights)
    return scores


def load_translator(folder: Path) -> tuple[Translator, Segmenters, Recipe]:
    """A model from the files that `export` writes."""
    try:
        card = read_json(folder / "zh-en.json")
        segmenters = Segmenters(read_bytes(folder / "zh.model"), read_bytes(folder / "en.model"))
        recipe = Recipe(**{name: card[name] for name in Recipe().model_fields()})
        model = Translator(card["source_vocab"], card["target_vocab"], recipe)
        model.load_state_dict(load_weights(folder / "zh-en.pt"))
    except (PhasorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise UserError(
            f"cannot load the model in {folder}: {str(error).splitlines()[0]}"
        ) from error
    return model, segmenters, recipe


# ---- command line


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = new_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in (
        ("check-split", "prove that no test sentence is in training"),
        ("train", "train, or resume"),
        ("export", "average, score and write the artifacts"),
    ):
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument(
            "--data", type=Path, default=DEFAULT_DATA, help="English TAB Chinese TAB credit lines"
        )
        if name != "check-split":
            command.add_argument(
                "--out", type=Path, required=True, help="folder of the checkpoints"
            )
            command.add_argument("--threads", type=int, default=2)
        if name == "export":
            command.add_argument("--to", type=Path, required=True, help="folder of the artifacts")
        add_recipe_options(command, Recipe)
    command = commands.add_parser("translate", help="translate standard input, a sentence a line")
    command.add_argument("--model", type=Path, required=True, help="folder that export wrote")
    command.add_argument("--threads", type=int, default=2)
    return parser


def run_command(options: argparse.Namespace) -> None:
    """Do what the command line says."""
    if options.command == "translate":
        prepare_torch(options.threads)
        model, segmenters, recipe = load_translator(options.model)
        for line in sys.stdin:
            print(greedy(model, segmenters, [line.strip()], recipe)[0], flush=True)
        return
    given = given_fields(options, Recipe)
    recipe = Recipe(**given)
    if options.command != "check-split":
        prepare_torch(options.threads)
        recipe = resume_recipe(options.out, given)
    split = split_pairs(read_pairs(options.data), recipe)
    counts = check_split(split)
    print(json.dumps(counts), flush=True)
    if options.command == "train":
        train(options.out, split, recipe)
    elif options.command == "export":
        scores = export(options.out, options.to, split, recipe)
        print(
            json.dumps(
                {name: scores[name] for name in ("valid", "test", "showcase")}, ensure_ascii=False
            )
        )


@front_door("train_translation", "; run the same command to resume")
def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    run_command(build_parser().parse_args(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
