"""The files that the commands of rows.py read, made from the golden models and by the tests' own
writers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
for folder in ("tools", "tests", "tests/support", "tests/python"):
    sys.path.insert(0, str(ROOT / folder))

import test_gguf  # noqa: E402
import test_llama2c  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402

import chat_model  # noqa: E402
import ctranslate2_model  # noqa: E402
import marian_model  # noqa: E402
import random_models  # noqa: E402
import tekken_model  # noqa: E402
import torch_legacy  # noqa: E402
import translators  # noqa: E402
from phasor import vectors as V  # noqa: E402
from phasor.checkpoints.checkpoint import open_checkpoint  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.reference.forward import Reference  # noqa: E402
from phasor.sources.llama2c import model as llama2c  # noqa: E402

MODELS = {
    "lm": "tiny-lm-f32",
    "translator": "tiny-d2l-f32",
    "encoder": "tiny-bert-f32",
    "classes": "tiny-classes-f32",
    "chat": "tiny-chat-f32",
    "small": "tiny-alibi-tokens-f32",
}
ADAPTER = {
    "peft_type": "LORA",
    "r": 2,
    "lora_alpha": 6,
    "task_type": "CAUSAL_LM",
    "bias": "none",
    "target_modules": ["q_proj"],
    "inference_mode": True,
}


def columns(descriptor: dict) -> int:
    """Of all matrices: what --moments has."""
    return sum(slot.cols for slot in R.slots(descriptor) if slot.matrix)


def write_checkpoints(to: Path) -> None:
    pytorch = ROOT / "tests" / "golden" / "pytorch"
    for name in ("separate.pt", "separate.toml"):
        shutil.copy(pytorch / name, to / name)
    given = open_checkpoint(to / "separate.pt")
    arrays = {name: np.ascontiguousarray(given.load(name)) for name in given}
    torch_legacy.save(to / "legacy.pt", arrays)
    save_file(arrays, to / "separate.safetensors")
    (to / "words.txt").write_text("".join(f"word{i}\n" for i in range(20)))
    (to / "marian.npz").write_bytes(marian_model.Model().bytes())
    (to / "opus").mkdir()
    (to / "opus" / "source.spm").write_bytes(translators.marian_files()["source.spm"])
    words = ["</s>", "<unk>", *(f"w{i}" for i in range(2, marian_model.ROWS))]
    lines = "".join(f"{word}: {id_}\n" for id_, word in enumerate(words))
    (to / "opus" / "vocab.yml").write_text(lines)
    (to / "tekken.json").write_text(json.dumps(tekken_model.tree(270)))
    (to / "chars.txt").write_text(" \na\nb\n")
    (to / "dict.txt").write_text("a 3\nb@@ 2\nab 1\n")
    (to / "bpe.codes").write_text("a b</w> 3\n")
    (to / "m.gguf").write_bytes(test_gguf.file_bytes())
    test_llama2c.write_small(to / "llama2c.bin", True, 270)
    (to / "tokenizer.bin").write_bytes(test_llama2c.tokenizer_bin())
    count = columns(llama2c.read(to / "llama2c.bin").descriptor)
    np.save(to / "llama2c.npy", np.ones(count, np.float32))
    own = llama2c.read(to / "llama2c.bin")
    outputs = Reference(V.ExactWeights(own.descriptor, own.weights)).decode(np.array([1, 5, 9]))
    np.savez(to / "expect.npz", ids=np.array([1, 5, 9]), logits=outputs.logits)


def write_directories(to: Path) -> None:
    template = (ROOT / "tests/golden/chat_templates/chatml.jinja").read_text(encoding="utf-8")
    chat_model.write(to / "llama", template, temperature=0.5)
    adapter, rng = to / "adapter", np.random.default_rng(9)
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps(ADAPTER))
    ctranslate2_model.Model().write(to / "ct2", 6, {"eos_token": "</s>"})
    (to / "link").hardlink_to(to / "llama" / "config.json")
    at = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    shapes = {"A": (2, chat_model.WIDTH), "B": (chat_model.WIDTH, 2)}
    save_file(
        {f"{at}{n}.weight": rng.normal(size=s).astype(np.float32) for n, s in shapes.items()},
        adapter / "adapter_model.safetensors",
    )


def write_all(to: Path, program: Path) -> None:
    """All inputs, in a new folder."""
    to.mkdir(parents=True)
    for name, model in MODELS.items():
        shutil.copy(ROOT / "tests" / "golden" / "models" / f"{model}.phasor", to / f"{name}.phasor")
    wide = random_models.lm({"width": 256, "max_positions": 16}, head_width=64, hidden=1024)
    random_models.write_random(to / "large.phasor", wide)
    random_models.write_ranker(to / "ranker.phasor")
    random_models.write_late(to / "late.phasor")
    random_models.write_spans(to / "spans.phasor")
    (to / "text.txt").write_text("hello there\nhello\n")
    (to / "vmap").write_text("\ttarget5 target6\nsource5\ttarget7 target9\n")
    write_checkpoints(to)
    write_directories(to)
    run = [program, "run", to / "lm.phasor", "--ids", "5,6", "-n", "3", "--quiet"]
    subprocess.run([*run, "--save-state", to / "state"], check=True, stdout=subprocess.DEVNULL)
    count = columns(PhasorFile(to / "lm.phasor").descriptor)
    np.save(to / "moments.npy", np.ones(count, np.float32))
    width = PhasorFile(to / "translator.phasor").descriptor["encoder"]["width"]
    np.save(to / "states.npy", np.ones((3, width), np.float32))
