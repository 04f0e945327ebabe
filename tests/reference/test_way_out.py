"""What a refusal says to do is done with the library that it names, and then the model converts."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from conversions import convert_to, refused
from phasor.format.file import TARGET_TOKENIZER, PhasorFile

TEXTS = ["Once upon a time there was a little girl named Lily.", "Hello world! 12345\n"] * 3


@pytest.fixture
def plain(tmp_path) -> Path:
    """A random Llama's directory with a byte-level tokenizer.json."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=made.get_vocab_size() + 1,  # with <|endoftext|>
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "plain")
    made.add_special_tokens(["<|endoftext|>"])
    made.save(str(tmp_path / "plain" / "tokenizer.json"))
    return tmp_path / "plain"


def converts(folder: Path, *flags: object) -> PhasorFile:
    return PhasorFile(convert_to(folder, folder.with_suffix(".phasor"), *flags))


def copied(plain: Path, name: str) -> Path:
    return Path(shutil.copytree(plain, plain.with_name(name)))


def test_a_slow_tokenizer_that_is_saved_as_a_fast_one(plain, tmp_path, capsys):
    folder = copied(plain, "slow")
    made = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.json").write_text(json.dumps(made["vocab"]))
    merges = [m if isinstance(m, str) else " ".join(m) for m in made["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    settings = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    line = refused(folder, tmp_path / "m.phasor", capsys)
    assert "save it as tokenizer.json (AutoTokenizer.from_pretrained(…).save_pretrained(…))" in line
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    assert TARGET_TOKENIZER in converts(folder).sections


def test_a_vocabulary_of_tiktoken(plain, tmp_path, capsys):
    folder = copied(plain, "tiktoken")
    (folder / "tokenizer.json").unlink()
    lines = (base64.b64encode(bytes([i])).decode() + f" {i}\n" for i in range(256))
    (folder / "tokenizer.model").write_text("".join(lines))
    line = refused(folder, tmp_path / "m.phasor", capsys)
    assert "is a vocabulary of tiktoken" in line and "tokenizer.json (--tokenizer FILE)" in line
    made = converts(folder, "--tokenizer", plain / "tokenizer.json")
    assert made.section(TARGET_TOKENIZER) == converts(plain).section(TARGET_TOKENIZER)


def test_weights_that_mlx_packed(plain, tmp_path, capsys):
    folder = copied(plain, "mlx")
    config = json.loads((folder / "config.json").read_text())
    config["quantization"] = config["quantization_config"] = {"group_size": 64, "bits": 4}
    (folder / "config.json").write_text(json.dumps(config))
    line = refused(folder, tmp_path / "m.phasor", capsys)
    assert "by MLX, 4 bits in groups of 64" in line and "--type q4" in line
    assert converts(plain, "--type", "q4").entries


def test_a_template_that_asks_for_the_day(plain, capsys):
    template = "{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}"
    (plain / "chat_template.jinja").write_text(template)
    converts(plain)
    assert "(--chat-date YYYY-MM-DD says which day it is)" in capsys.readouterr().err
    converts(plain, "--chat-date", "2025-01-31")
    assert "chat" not in capsys.readouterr().err
