"""An EncoderDecoderModel of RoBERTa and GPT-2 with a tokenizer for each side, text to text, against
transformers 4 and 5: convert.py's --tokenizer twice, as files and as folders of the directory."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from conversions import convert_to, refused
from places import run_newer

NEW, BEAMS, WIDTH = 12, 3, 32
SIDES = ("source", "target")

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()


def lines(seed: int, letters: str, count: int) -> list[str]:
    rng = random.Random(seed)
    known = ["".join(rng.choices(letters, k=rng.randint(2, 7))) for _ in range(300)]
    return [" ".join(rng.choices(known, k=rng.randint(1, 7))) for _ in range(count)]


TEXTS = [*lines(1, "abdeghi", 12), " ab  a", "Über 42!", "日本 \U0001f600", "</s> <mask> a"]


def words(kind: str, folder: Path) -> Any:
    """A tokenizer of RoBERTa's or GPT-2's class, trained, with a vocabulary of its own."""
    roberta = kind == "Roberta"
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if roberta else ["<|endoftext|>"]
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.train_from_iterator(
        lines(1, "abdeghi", 500) if roberta else lines(2, "klmnrstou", 500),
        trainers.BpeTrainer(
            vocab_size=420 if roberta else 390,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    folder.mkdir()
    names = trained.model.save(str(folder))
    made = getattr(transformers, f"{kind}TokenizerFast")(*names)
    made.save_pretrained(folder)
    return made


class Made:
    """The directory, with the tokenizers in two folders of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.words = [words(k, folder / side) for k, side in zip(("Roberta", "GPT2"), SIDES)]
        config = transformers.EncoderDecoderConfig(
            encoder={
                **{"model_type": "roberta", "vocab_size": len(self.words[0]), "pad_token_id": 1},
                **{"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4},
                **{"intermediate_size": 37, "max_position_embeddings": 90, "type_vocab_size": 1},
            },
            decoder={
                **{"model_type": "gpt2", "vocab_size": len(self.words[1]), "n_embd": WIDTH},
                **{"n_positions": 40, "n_layer": 2, "n_head": 4, "n_inner": 37},
                **{"is_decoder": True, "add_cross_attention": True},
                **{"bos_token_id": 0, "eos_token_id": 0},
            },
            **{"decoder_start_token_id": 0, "eos_token_id": 0, "pad_token_id": 0},
        )
        torch.manual_seed(8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model = transformers.EncoderDecoderModel(config).eval()
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(torch.randn_like(p) * (0.5 if p.dim() > 1 else 0.1))
                norm = "norm" in name.lower() or ".ln_" in name
                p.add_(float(norm and name.endswith("weight")))
        self.model.save_pretrained(folder)

    def answers(self) -> list[list[str]]:
        return answers(self.model, *self.words, TEXTS, NEW, BEAMS)


def answers(
    model: Any, source: Any, target: Any, texts: list[str], new: int, beams: int
) -> list[list[str]]:
    """The texts of greedy decoding and of a search with beams."""
    out: list[list[str]] = []
    for text in texts:
        batch, ways = torch.tensor([source(text).input_ids]), []
        for n in (1, beams):
            with torch.no_grad():
                made = model.generate(
                    batch,
                    attention_mask=torch.ones_like(batch),
                    **{"do_sample": False, "max_new_tokens": new, "num_beams": n},
                )
            ways.append(
                target.decode(made[0], skip_special_tokens=True, clean_up_tokenization_spaces=False)
            )
        out.append(ways)
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return Made(tmp_path_factory.mktemp("joined") / "m")


def converted(folder: Path, path: Path, *tokenizers: object) -> Path:
    flags = [word for name in tokenizers for word in ("--tokenizer", name)]
    return convert_to(folder, path, *flags)


def ours(phasor: Path, path: Path) -> list[list[str]]:
    ways = []
    for beams in ("1", str(BEAMS)):
        done = subprocess.run(
            [phasor, "run", path, "--quiet", "--json", "-n", str(NEW), "--beam", beams, *TEXTS],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        ways.append([json.loads(line)["text"] for line in done.stdout.splitlines()])
    return [[*pair] for pair in zip(*ways, strict=True)]


@pytest.mark.parametrize("form", ["folders", "tokenizer.json", "vocab.json"])
def test_a_tokenizer_for_each_side(made, form, tmp_path, phasor):
    names = [made.folder / side / ("" if form == "folders" else form) for side in SIDES]
    path = converted(made.folder, tmp_path / "m.phasor", *names)
    want = made.answers()
    assert ours(phasor, path) == want
    assert len({text for pair in want for text in pair}) > len(TEXTS)
    for text in TEXTS:
        argv = [phasor, "tokenize", path, "--print-ids", text]
        ids = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert [int(i) for i in ids.split(",")] == made.words[0](text).input_ids


def test_a_directory_and_answers_of_the_newer_version(made, tmp_path, phasor):
    said = run_newer(__file__, made.folder, tmp_path / "again")
    version, want = json.loads(said.splitlines()[-1])
    assert version.startswith("5.") and want == made.answers()
    again = tmp_path / "again"
    path = converted(again, tmp_path / "m.phasor", *(again / side for side in SIDES))
    assert ours(phasor, path) == want


def test_the_directory_alone_says_which_flag_to_give(made, capsys):
    line = refused(made.folder, made.folder / "o", capsys)
    assert "in source, target: give those, --tokenizer SOURCE --tokenizer TARGET" in line


def newer(folder: Path, again: Path) -> None:
    """Run with the newer version first on the path: prints it and its answers, and saves the
    directory again."""
    transformers.utils.logging.disable_progress_bar()
    model = transformers.EncoderDecoderModel.from_pretrained(folder, dtype=torch.float32).eval()
    model.save_pretrained(again)
    both = [transformers.AutoTokenizer.from_pretrained(folder / side) for side in SIDES]
    for side, one in zip(SIDES, copy.deepcopy(both)):
        one.save_pretrained(again / side)
    made = answers(model, *both, TEXTS, NEW, BEAMS)
    print(json.dumps([transformers.__version__, made]))


if __name__ == "__main__":
    newer(Path(sys.argv[1]), Path(sys.argv[2]))
