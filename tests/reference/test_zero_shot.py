"""`phasor classify --labels` against the zero-shot pipeline of transformers 4 and 5, for a small
random BART with classes and a RoBERTa; and the classes of that BART without labels."""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from answers import newer_answers, zero_shot
from tokenizers import ByteLevelBPETokenizer

from phasor import convert
from phasor.format.layout import F32
from phasor.sources.find import read_source
from places import told

TOLERANCE = 1e-5
TEXTS = [
    "one day I will see the world",
    "The new phone has a very bright screen, and costs less.",
    "Naïve café, 42 times!",
    "a",
]
LABELS = "travel,  cooking ,very new phones,x"
TEMPLATES = ["This example is {}.", "Das handelt von {}!"]
SIZES = {"vocab_size": 290, "max_position_embeddings": 66, "pad_token_id": 1}
NAMES = ["contradiction", "neutral", "ENTAILMENT"]

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)


def tokenizer(folder: Path, kind: type) -> None:
    trained = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator([*TEXTS, LABELS] * 3, 290, 2, False, special)
    trained.save_model(str(folder))
    kind(str(folder / "vocab.json"), str(folder / "merges.txt")).save_pretrained(folder)


def bart(names: list[str]) -> torch.nn.Module:
    sizes = {f"{stack}_{what}": n for stack in ("encoder", "decoder") for what, n in WIDTHS.items()}
    config = transformers.BartConfig(**SIZES, **sizes, d_model=32, activation_function="gelu")
    config.id2label = dict(enumerate(names))
    return transformers.BartForSequenceClassification(config)


WIDTHS = {"layers": 2, "attention_heads": 4, "ffn_dim": 37}


def roberta(names: list[str]) -> torch.nn.Module:
    config = transformers.RobertaConfig(
        **SIZES,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=37,
        type_vocab_size=1,
    )
    config.id2label = dict(enumerate(names))
    return transformers.RobertaForSequenceClassification(config)


def made(folder: Path, kind: str, names: list[str]) -> Path:
    """A model of a kind, saved with its tokenizer, and converted."""
    torch.manual_seed(len(names) + len(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = {"Bart": bart, "Roberta": roberta}[kind](names)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * 0.3 + float("norm" in name and name.endswith("weight")))
    model.config.label2id = {name: i for i, name in enumerate(names)}
    model.save_pretrained(folder)
    tokenizer(folder, getattr(transformers, f"{kind}TokenizerFast"))
    read, sections = read_source(folder)
    convert.convert(read, folder.with_suffix(".phasor"), F32, sections, None, quiet=True)
    return folder.with_suffix(".phasor")


def asked(phasor: Path, path: Path, *flags: str, lines: list[str] = TEXTS) -> list[dict]:
    done = told(
        phasor,
        "classify",
        path,
        "--json",
        "--quiet",
        *flags,
        stdin="".join(f"{line}\n" for line in lines),
    )
    return [json.loads(line) for line in done.splitlines()]


def pipeline(folder: Path) -> transformers.Pipeline:
    return transformers.pipeline("zero-shot-classification", model=str(folder), device="cpu")


@pytest.fixture(scope="module")
def every(tmp_path_factory) -> dict[str, tuple[Path, Path]]:
    """Of each kind a directory and its model."""
    folder = tmp_path_factory.mktemp("zero")
    return {kind: (folder / kind, made(folder / kind, kind, NAMES)) for kind in ("Bart", "Roberta")}


@pytest.fixture(scope="module", params=["Bart", "Roberta"])
def model(request, every):
    return every[request.param]


def same_scores(
    phasor: Path, path: Path, labels: str, template: str, each: bool, wanted: list[dict]
) -> None:
    """The program's scores of TEXTS are those wanted."""
    flags = ["--labels", labels, *(["--multi-label"] if each else [])]
    if template != TEMPLATES[0]:  # which nobody has to say
        flags += ["--template", template]
    for theirs, line in zip(wanted, asked(phasor, path, *flags), strict=True):
        ours = {one["label"]: one["score"] for one in line["labels"]}
        assert ours.keys() == theirs.keys()
        assert all(abs(ours[name] - theirs[name]) < TOLERANCE for name in theirs), (ours, theirs)
        assert list(ours.values()) == sorted(ours.values(), reverse=True)


@pytest.mark.parametrize("labels", [LABELS, "only one"])
@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("each", [False, True], ids=["single", "multi"])
def test_the_scores_are_the_pipelines(model, labels, template, each, phasor):
    folder, path = model
    ask = pipeline(folder)
    wanted = [zero_shot(ask, text, labels, template, each) for text in TEXTS]
    same_scores(phasor, path, labels, template, each, wanted)


ASKED = [
    (labels, template, each)
    for labels in (LABELS, "only one")
    for template in TEMPLATES
    for each in (False, True)
]


@pytest.fixture(scope="module")
def newer(every, tmp_path_factory) -> dict[Path, tuple[Path, list[dict]]]:
    """Of each directory the one that the newer version saves, and its pipeline's scores."""
    out = tmp_path_factory.mktemp("newer")
    asks = [(text, *one) for one in ASKED for text in TEXTS]
    jobs = [
        {"kind": "zero-shot", "folder": str(folder), "again": str(out / kind), "asks": asks}
        for kind, (folder, _) in every.items()
    ]
    answers = newer_answers(out, jobs)
    return {folder: (out / kind, one) for (kind, (folder, _)), one in zip(every.items(), answers)}


@pytest.mark.parametrize("of", ["older", "newer"])
def test_the_scores_are_the_newer_pipelines(of, model, newer, tmp_path, phasor):
    """Of the older version's directory, and of the same saved again by the newer."""
    folder, path = model
    again, answers = newer[folder]
    if of == "newer":
        path = tmp_path / "m.phasor"
        read, sections = read_source(again)
        convert.convert(read, path, F32, sections, None, quiet=True)
    for i, one in enumerate(ASKED):
        same_scores(phasor, path, *one, answers[i * len(TEXTS) : (i + 1) * len(TEXTS)])


def test_entailment_may_be_the_first_class(tmp_path, phasor):
    path = made(tmp_path / "m", "Bart", ["entailment", "not_entailment"])
    ask = pipeline(tmp_path / "m")
    for text, line in zip(TEXTS, asked(phasor, path, "--labels", LABELS, "--multi-label")):
        want = ask(text, LABELS, multi_label=True)
        theirs = dict(zip(want["labels"], want["scores"]))
        ours = {one["label"]: one["score"] for one in line["labels"]}
        assert all(abs(ours[name] - theirs[name]) < TOLERANCE for name in theirs)


@pytest.mark.parametrize("ids", [[0, 9, 40, 2, 2, 77, 2], [0, 5, 2], [0, 5, 2, 60, 61]])
def test_the_classes_of_a_text(ids, tmp_path, phasor):
    """Those of its last end token, though tokens follow."""
    path = made(tmp_path / "m", "Bart", NAMES)
    model = transformers.BartForSequenceClassification.from_pretrained(tmp_path / "m").eval()
    with torch.no_grad():
        want = model(torch.tensor([ids])).logits.softmax(-1)[0].numpy()
    given = ",".join(map(str, ids))
    line = asked(phasor, path, "--ids", given, lines=[])[0]
    ours = {one["label"]: one["score"] for one in line["labels"]}
    assert np.abs([ours[name] - want[i] for i, name in enumerate(NAMES)]).max() < TOLERANCE


@pytest.mark.parametrize(
    "argv, line",
    [
        (["classify", "--labels", " , "], "--labels: expected some, separated by commas"),
        (["classify", "--labels", ",".join("a" * 1025)], "--labels: 1025 of them, expected at"),
        (["classify", "--labels", "a", "--template", "about it"], "about it: expected one {}"),
        (["classify", "--labels", "a", "--template", "{} {}"], "{} {}: expected one {}"),
        (["classify", "--labels", "a", "--template", "{0}"], "{0}: expected one {}"),
        (["classify", "--template", "{}"], "--template: goes with --labels"),
        (["classify", "--multi-label"], "--multi-label: goes with --labels"),
        (["classify", "--labels", "a", "--pair"], "--pair: does not go with --labels"),
        (["classify", "--labels", "a", "--hidden", "h.npy"], "--hidden, --attention: does not go"),
        (["classify", "--hidden", "h.npy"], "--attention: this model is an encoder-decoder"),
        (["classify", "--labels", "a", "--source", "5"], "tokens, there is room for 5 (--source)"),
        (["classify", "--labels", "a", "--source", "12"], "there is room for 12 (--source)"),
        (["classify", "--ids", "0,7,9"], "no end token, at which the classes are read"),
        (["embed", "--pooling", "mean"], "is an encoder-decoder, expected an encoder"),
        (["run"], "gives classes, expected a model that gives logits"),
        (["run", "--beam", "2"], "gives classes, expected a model that gives logits"),
        (["run", "--batch", "2"], "gives classes, expected a model that gives logits"),
        (["score", "--target", "x"], "gives classes, expected a model that gives logits"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_cannot_be(argv, line, tmp_path_factory, phasor):
    folder = tmp_path_factory.getbasetemp() / "refused"
    path = folder.with_suffix(".phasor")
    if not path.exists():
        made(folder, "Bart", NAMES)
    text = [] if "--ids" in argv else ["the new world"]
    done = subprocess.run(
        [phasor, argv[0], path, *text, *argv[1:]], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode in (1, 2) and line in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_a_model_without_entailment(tmp_path, phasor):
    path = made(tmp_path / "m", "Bart", ["good", "bad"])
    done = subprocess.run(
        [phasor, "classify", path, "--labels", "a", "text"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "has no class that begins with entail" in done.stderr


def test_verify_replays_its_vectors(tmp_path, phasor):
    path = made(tmp_path / "m", "Bart", NAMES)
    told(phasor, "verify", path)
