"""Train a small language model: a decoder of Llama's shape (rotary positions, RMS norm, SwiGLU).

It is what bench.quality measures types of weights with: rows of 256 weights, float32, trained here
from nothing. The vocabulary is a byte-level BPE, made from the training text alone.

    train_decoder.py train  --pairs FILE --debs DIR --out DIR  train; the same again resumes
    train_decoder.py export --pairs FILE --debs DIR --out DIR --to DIR
                                               write a checkpoint that convert.py reads, and the
                                               texts: calibration, validation, test

FILE: English TAB Chinese TAB credit. DIR of packages: `apt-get download` puts them there.
Everything is seeded, and the batch of a step depends on the seed and the step alone. So a resumed
run repeats an uninterrupted one from the last checkpoint on. On one quiet core of a Xeon with AMX
4,096 tokens take 0.9 s in bfloat16, compiled 0.7 s: two epochs of the recipe take an hour.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn

from phasor.entry import front_door
from train.common import (
    UserError,
    add_recipe_options,
    count_parameters,
    descend,
    given_fields,
    keep_freed_memory,
    load_checkpoint,
    new_parser,
    save_weights,
    warm_cosine,
    write_atomically,
    write_json,
    write_text,
)
from train.decoder_text import Texts, make_texts

END = "<|end|>"
_CALIBRATION = 200  # passages of the training text


@dataclasses.dataclass
class Recipe:
    """Everything that decides the result. Stored in each checkpoint."""

    seed: int = 20170612
    valid_pairs: int = 500
    test_pairs: int = 1000
    max_component: int = 10
    valid_share: float = 0.01
    test_share: float = 0.01
    vocab: int = 4096
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    ffn: int = 768
    layers: int = 6
    theta: float = 10000.0
    norm_eps: float = 1e-5
    positions: int = 512
    length: int = 256
    batch: int = 8
    steps: int = 8800
    warmup_steps: int = 300
    peak_lr: float = 2e-3
    weight_decay: float = 0.1
    beta2: float = 0.95
    clip_norm: float = 1.0
    bf16: bool = True


# ---- model


class Attention(nn.Module):
    """Causal attention with rotary positions, query heads in groups."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        head = recipe.width // recipe.heads
        self.heads, self.kv_heads, self.head = recipe.heads, recipe.kv_heads, head
        self.q_proj = nn.Linear(recipe.width, recipe.heads * head, bias=False)
        self.k_proj = nn.Linear(recipe.width, recipe.kv_heads * head, bias=False)
        self.v_proj = nn.Linear(recipe.width, recipe.kv_heads * head, bias=False)
        self.o_proj = nn.Linear(recipe.heads * head, recipe.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x: (batch, length, width); cos, sin: (length, head)."""
        batch, length, _ = x.shape

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(batch, length, heads, self.head).transpose(1, 2)

        def turn(y: Tensor) -> Tensor:
            left, right = y.chunk(2, -1)
            return y * cos + torch.cat((-right, left), -1) * sin

        query = turn(split(self.q_proj(x), self.heads))
        key = turn(split(self.k_proj(x), self.kv_heads))
        value = split(self.v_proj(x), self.kv_heads)
        groups = self.heads // self.kv_heads
        key, value = (y.repeat_interleave(groups, 1) for y in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(recipe.width, recipe.ffn, bias=False)
        self.up_proj = nn.Linear(recipe.width, recipe.ffn, bias=False)
        self.down_proj = nn.Linear(recipe.ffn, recipe.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Named as transformers' Llama names them."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(recipe.width, recipe.norm_eps)
        self.self_attn = Attention(recipe)
        self.post_attention_layernorm = nn.RMSNorm(recipe.width, recipe.norm_eps)
        self.mlp = Gated(recipe)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """The model; its output is tied to its embedding."""

    cos: Tensor
    sin: Tensor

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(recipe.vocab, recipe.width)
        self.layers = nn.ModuleList(Layer(recipe) for _ in range(recipe.layers))
        self.norm = nn.RMSNorm(recipe.width, recipe.norm_eps)
        head = recipe.width // recipe.heads
        rates = recipe.theta ** (-torch.arange(0, head, 2, dtype=torch.float64) / head)
        angles = torch.outer(torch.arange(recipe.positions, dtype=torch.float64), rates)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                std = 0.02 / (2 * recipe.layers) ** 0.5 if deep else 0.02
                nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (batch, length, vocab) of ids (batch, length)."""
        x = self.embed_tokens(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        if torch.is_autocast_enabled("cpu"):
            cos, sin = cos.bfloat16(), sin.bfloat16()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.embed_tokens.weight)


# ---- text


def train_tokenizer(texts: Sequence[str], size: int) -> Tokenizer:
    """A byte-level BPE; the same for the same texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def as_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> NDArray[np.int64]:
    """All texts in a row, END before each."""
    end = tokenizer.token_to_id(END)
    rows = tokenizer.encode_batch(list(texts))
    return np.concatenate([np.array([end, *row.ids], np.int64) for row in rows])


@dataclasses.dataclass
class Data:
    """What the training reads."""

    texts: Texts
    tokenizer: Tokenizer
    train: NDArray[np.int64]
    valid: NDArray[np.int64]


def obtain(options: argparse.Namespace, recipe: Recipe) -> Data:
    """The texts and their ids; the tokenizer is made once, then read from the folder."""
    texts = make_texts(options.pairs, options.debs, recipe)
    random.Random(recipe.seed).shuffle(texts.train)
    path = options.out / "tokenizer.json"
    if not path.exists():
        made = train_tokenizer(texts.train, recipe.vocab)
        write_text(path, made.to_str(pretty=True))
    tokenizer = Tokenizer.from_file(str(path))
    if tokenizer.get_vocab_size() != recipe.vocab:
        raise UserError(f"{path}: {tokenizer.get_vocab_size()} pieces, expected {recipe.vocab}")
    return Data(texts, tokenizer, as_ids(tokenizer, texts.train), as_ids(tokenizer, texts.valid))


def batch_of(ids: NDArray[np.int64], recipe: Recipe, step: int) -> Tensor:
    """(batch, length + 1) ids: the rows of an epoch in an order of its own, `batch` a step."""
    rows = (len(ids) - 1) // recipe.length - 1
    first = step * recipe.batch
    chosen = []
    for place in range(first, first + recipe.batch):
        epoch, index = divmod(place, rows)
        generator = np.random.default_rng([recipe.seed, epoch])
        offset, order = int(generator.integers(recipe.length)), generator.permutation(rows)
        start = offset + int(order[index]) * recipe.length
        chosen.append(ids[start : start + recipe.length + 1])
    return torch.from_numpy(np.stack(chosen))


# ---- training


def loss_of(model: nn.Module, ids: Tensor, recipe: Recipe) -> Tensor:
    """Mean cross-entropy in nats of (batch, length + 1) ids."""
    with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bf16):
        logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


@torch.no_grad()
def valid_loss(model: Decoder, ids: NDArray[np.int64], recipe: Recipe) -> float:
    """Mean cross-entropy in nats over windows of `length`, in float32."""
    exact = dataclasses.replace(recipe, bf16=False)
    rows = (len(ids) - 1) // recipe.length
    windows = np.stack([ids[i * recipe.length : (i + 1) * recipe.length + 1] for i in range(rows)])
    parts = torch.from_numpy(windows).split(recipe.batch)
    total = sum(float(loss_of(model, part, exact)) * len(part) for part in parts)
    return total / rows


def optimizer_of(model: Decoder, recipe: Recipe) -> torch.optim.Optimizer:
    """AdamW; norms are not decayed."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": recipe.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, recipe.beta2), fused=True)


def train(options: argparse.Namespace) -> None:
    """Train, or resume. A checkpoint every few minutes; the last holds the whole."""
    path = options.out / "checkpoint.pt"
    state = load_checkpoint(path, "history") if path.exists() else None
    recipe = Recipe(**(state["recipe"] if state else given_fields(options, Recipe)))
    data = obtain(options, recipe)
    torch.manual_seed(recipe.seed)
    model = Decoder(recipe)
    optimizer = optimizer_of(model, recipe)
    step, seconds, history = 0, 0.0, []
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step, seconds, history = state["step"], state["seconds"], state["history"]
    print(
        f"{count_parameters(model):,} parameters, {len(data.train):,} training tokens, "
        f"{recipe.steps * recipe.batch * recipe.length / len(data.train):.1f} epochs, from step "
        f"{step}",
        flush=True,
    )
    quick = torch.compile(model) if options.compile else model
    begun, saved, mean = time.monotonic(), time.monotonic(), 0.0
    while step < recipe.steps:
        loss = loss_of(quick, batch_of(data.train, recipe, step), recipe)
        rate = warm_cosine(
            recipe.peak_lr, step, recipe.warmup_steps, torch.pi * step / recipe.steps
        )
        descend(model, optimizer, loss, rate, recipe.clip_norm)
        step += 1
        value = float(loss.detach())
        mean = value if mean == 0.0 else 0.98 * mean + 0.02 * value
        last = step == recipe.steps
        if step % 50 == 0:
            used = seconds + time.monotonic() - begun
            print(f"step {step} loss {mean:.4f} {used:.0f} s", flush=True)
        if last or time.monotonic() - saved > options.minutes * 60:
            used = seconds + time.monotonic() - begun
            valid = valid_loss(model, data.valid, recipe)
            history.append({"step": step, "seconds": round(used), "valid_loss": round(valid, 4)})
            print(f"step {step} validation {valid:.4f}", flush=True)
            save_weights(
                path,
                {
                    "recipe": dataclasses.asdict(recipe),
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": step,
                    "seconds": used,
                    "history": history,
                },
            )
            saved = time.monotonic()


# ---- export


def llama_config(recipe: Recipe) -> dict[str, Any]:
    """What transformers calls the shape."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": recipe.vocab,
        "hidden_size": recipe.width,
        "intermediate_size": recipe.ffn,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "num_key_value_heads": recipe.kv_heads,
        "hidden_act": "silu",
        "max_position_embeddings": recipe.positions,
        "rms_norm_eps": recipe.norm_eps,
        "rope_theta": recipe.theta,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": 0,
        "eos_token_id": 0,
        "torch_dtype": "float32",
    }


def export(options: argparse.Namespace) -> None:
    """A directory as transformers writes it, the texts beside it, and a record."""
    from safetensors.torch import save_file

    state = load_checkpoint(options.out / "checkpoint.pt", "history")
    recipe = Recipe(**state["recipe"])
    data = obtain(options, recipe)
    model = Decoder(recipe)
    model.load_state_dict(state["model"])
    weights = {f"model.{name}": w.contiguous() for name, w in state["model"].items()}
    to: Path = options.to
    write_atomically(
        to / "model.safetensors", lambda path: save_file(weights, path, {"format": "pt"})
    )
    write_json(to / "config.json", llama_config(recipe))
    write_text(to / "tokenizer.json", data.tokenizer.to_str(pretty=True))
    write_json(
        to / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": END,
            "eos_token": END,
            "add_bos_token": True,
        },
    )
    known = data.texts.train
    chosen = random.Random(recipe.seed).sample(known, min(_CALIBRATION, len(known)))
    texts = {
        "calibration.txt": "\n\n".join(chosen),
        "valid.txt": "\n\n".join(data.texts.valid),
        "test.txt": "\n\n".join(data.texts.test),
    }
    for name, text in texts.items():
        write_text(to / name, text + "\n")
    record = {
        "recipe": dataclasses.asdict(recipe),
        "parameters": count_parameters(model),
        "train_tokens": len(data.train),
        "steps": state["step"],
        "seconds": round(state["seconds"]),
        "history": state["history"],
        "torch": torch.__version__,
        "sources": data.texts.sources,
        "sha256": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
        "valid_loss": valid_loss(model, data.valid, recipe),
        "test_loss": valid_loss(model, as_ids(data.tokenizer, data.texts.test), recipe),
    }
    write_json(to / "record.json", record)
    print(f"{to}: test loss {record['test_loss']:.4f} nats a token")


# ---- command line


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = new_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in (("train", "train, or resume"), ("export", "write a checkpoint")):
        command = commands.add_parser(name, help=summary, description=summary)
        command.add_argument("--pairs", type=Path, required=True, help="sentence pairs")
        command.add_argument("--debs", type=Path, required=True, help="folder of packages")
        command.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
        command.add_argument("--threads", type=int, default=1)
        if name == "export":
            command.add_argument("--to", type=Path, required=True, help="folder of the artifacts")
        else:
            command.add_argument("--minutes", type=float, default=5, help="between checkpoints")
            command.add_argument(
                "--compile", action="store_true", help="by torch.compile: a fifth faster"
            )
            add_recipe_options(command, Recipe)
    return parser


@front_door("train_decoder", "; run the same command to resume")
def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    options = build_parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    if options.command == "train":
        train(options)
    else:
        export(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
