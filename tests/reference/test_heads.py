"""Every head by its library's convention: transformers' text-classification pipeline, sentence-
transformers' CrossEncoder and SentenceTransformer, on 200 inputs each, long, short and of unequal
lengths, cut where the library cuts them; on transformers 4.57 and on 5.x."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
from answers import newer_answers, scored
from test_spans import WORDS, _bytes, _wordpiece, _wordpiece_pad_1

from conversions import convert_to, problems
from places import told
from sample import parameters
from texts import read_json, write_json

TOLERANCE = 2e-5
INPUTS, POSITIONS = 200, 40
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
}
ROBERTA = {**SIZES, "vocab_size": 300, "max_position_embeddings": POSITIONS + 3, "pad_token_id": 1}
DISTIL = {
    **{"vocab_size": len(WORDS), "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 3},
    "max_position_embeddings": POSITIONS,
}
SEQUENCE, MODEL = "ForSequenceClassification", "Model"
PLAIN = {"id2label": {0: "a"}, "label2id": {"a": 0}}


class Case(NamedTuple):
    """kind: pipeline, cross-encoder (its directory is config.json's, or with modules, or with what
    older versions wrote), vectors."""

    kind: str
    model: str = "Bert" + SEQUENCE
    config: dict[str, Any] = SIZES
    more: dict[str, Any] = {}
    pairs: bool = False
    words: Any = _wordpiece
    modules: list[tuple[str, dict[str, Any]]] = []


def bert(labels: int, problem: str | None, pairs: bool = False, **more: Any) -> Case:
    given = {"num_labels": labels, "problem_type": problem, **more}
    return Case("pipeline", more=given, pairs=pairs)


def ranks(labels: int, function: str | None, form: str = "", **more: Any) -> Case:
    """form: of the directory that says the function."""
    kind = {"activation": "torch.nn.modules.activation.", "linear": "torch.nn.modules.linear."}
    name = function and kind["linear" if function == "Identity" else "activation"] + function
    said: dict[str, Any] = {}
    modules: list[tuple[str, dict]] = []
    if form == "older":
        said["sbert_ce_default_activation_function"] = name
    elif form == "modules":
        modules = [("Transformer", {"activation_fn": name} if name else {})]
    elif form == "both":  # the newer one counts
        said["sbert_ce_default_activation_function"] = "torch.nn.modules.activation.Sigmoid"
        said["sentence_transformers"] = {"activation_fn": name, "version": "5.0.0"}
    elif name:
        said["sentence_transformers"] = {"activation_fn": name, "version": "5.0.0"}
    return Case("cross", more={"num_labels": labels, **said, **more}, pairs=True, modules=modules)


def vector(pooling: dict[str, Any], *behind: tuple[str, dict], model: str = "BertModel") -> Case:
    modules = [("Transformer", {}), ("Pooling", {"word_embedding_dimension": 24, **pooling})]
    return Case("vectors", model, modules=[*modules, *behind])


REGRESSION, SINGLE, MULTI = words = (
    "regression",
    "single_label_classification",
    "multi_label_classification",
)
NORMALIZE = ("Normalize", {})
DENSE = ("Dense", {"in_features": 24, "out_features": 24, "bias": True,
                   "activation_function": "torch.nn.modules.activation.Tanh"})  # fmt: skip
CASES = {
    **{f"{n} labels, {p}": bert(n, p) for n in (1, 3) for p in (None, *words)},
    "2 labels of pairs": bert(2, None, pairs=True),
    "1 label of pairs": bert(1, SINGLE, pairs=True),
    "DistilBERT": Case("pipeline", "DistilBert" + SEQUENCE, DISTIL, {"num_labels": 3}),
    "RoBERTa": Case("pipeline", "Roberta" + SEQUENCE, ROBERTA, {"num_labels": 3}, words=_bytes),
    "RoBERTa of pairs": Case(
        "pipeline", "Roberta" + SEQUENCE, ROBERTA, {"num_labels": 3}, True, words=_bytes
    ),
    "ELECTRA": Case("pipeline", "Electra" + SEQUENCE, {**SIZES, "embedding_size": 24}, PLAIN),
    "MPNet": Case(
        "pipeline",
        "MPNet" + SEQUENCE,
        {**SIZES, "max_position_embeddings": POSITIONS + 2, "pad_token_id": 1},
        {"num_labels": 2},
        words=_wordpiece_pad_1,
    ),
    "ModernBERT": Case(
        "pipeline",
        "ModernBert" + SEQUENCE,
        {**SIZES, "num_attention_heads": 2, "local_attention": 8},
        {"num_labels": 3, "cls_token_id": 2, "sep_token_id": 3, "classifier_pooling": "mean"},
    ),
    "DeBERTa-v2 of pairs": Case(
        "pipeline",
        "DebertaV2" + SEQUENCE,
        {**SIZES, "type_vocab_size": 2, "relative_attention": True, "pos_att_type": "p2c|c2p"},
        {"num_labels": 1, "problem_type": REGRESSION},
        True,
    ),
    "GPT-2": Case(
        "pipeline",
        "GPT2" + SEQUENCE,
        {"vocab_size": 300, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": POSITIONS},
        {"num_labels": 3, "pad_token_id": 1},
        words=_bytes,
    ),
    "Llama": Case(
        "pipeline",
        "Llama" + SEQUENCE,
        {**SIZES, "vocab_size": 300, "num_key_value_heads": 1},
        {"num_labels": 1, "problem_type": SINGLE, "pad_token_id": 1},
        words=_bytes,
    ),
    "ranks by Sigmoid": ranks(1, "Sigmoid"),
    "ranks by Identity": ranks(1, "Identity"),
    "ranks by Softmax": ranks(3, "Softmax"),
    "ranks by Identity, 3 classes": ranks(3, "Identity"),
    "ranks, older form": ranks(1, "Identity", "older"),
    "ranks, both forms": ranks(1, "Identity", "both"),
    "ranks, modules": ranks(1, "Identity", "modules"),
    "ranks, modules, no function": ranks(1, None, "modules", problem_type=REGRESSION),
    "ranks, modules, 3 classes": ranks(3, None, "modules"),
    "mean": vector({"pooling_mode_mean_tokens": True}),
    "first": vector({"pooling_mode_cls_token": True}, NORMALIZE),
    "last": vector({"pooling_mode_lasttoken": True}, DENSE),
    "√length, normalized": vector({"pooling_mode_mean_sqrt_len_tokens": True}, NORMALIZE),
    "newer form": vector({"pooling_mode": "cls"}),
    "both forms": vector({"pooling_mode": "cls", "pooling_mode_mean_tokens": True}),
}


def made(case: Case, folder: Path) -> None:
    """A directory as its library saves it."""
    torch.manual_seed(5)
    kind = getattr(transformers, case.model)
    net = kind(kind.config_class(**{**case.config, **case.more})).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * 0.4 + (p.dim() == 1))
    net.save_pretrained(folder)
    case.words(folder)
    where = folder / "tokenizer_config.json"
    said = {**read_json(where), "model_max_length": POSITIONS}
    if not getattr(net.config, "type_vocab_size", 0):
        said["model_input_names"] = ["input_ids", "attention_mask"]
    write_json(where, said)
    if not case.modules:
        return
    types = "sentence_transformers.models."
    rows = []
    for i, (name, fields) in enumerate(case.modules):
        path = "" if name == "Transformer" else f"{i}_{name}"
        rows.append({"idx": i, "name": str(i), "path": path, "type": types + name})
        if path:
            (folder / path).mkdir()
            write_json(folder / path / "config.json", fields)
        if name == "Dense":
            dense = {"linear.weight": torch.randn(24, 24), "linear.bias": torch.randn(24)}
            torch.save(dense, folder / path / "pytorch_model.bin")
    write_json(folder / "modules.json", rows)
    task = {"max_seq_length": POSITIONS}
    if case.kind == "cross":
        task |= {"transformer_task": "sequence-classification", "module_output_name": "scores"}
        task |= {"modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}}
    write_json(folder / "sentence_bert_config.json", task)
    if case.kind == "cross":
        fields = {"model_type": "CrossEncoder", **case.modules[0][1]}
        write_json(folder / "config_sentence_transformers.json", fields)


def inputs(pairs: bool) -> list[list[str]]:
    """Texts of 1 to 60 words, two of unequal lengths as often as of equal ones."""
    rng = np.random.default_rng(11)
    plain = [word for word in WORDS[5:] if word.isalpha()]

    def text(length: int) -> str:
        return " ".join(plain[i] for i in rng.integers(0, len(plain), length))

    out = []
    for i in range(INPUTS):
        lengths = rng.choice([1, 2, 5, 17, 18, 19, 20, 30, 36, 37, 38, 60], 2)
        lengths[1] = lengths[0] if i % 4 == 0 else lengths[1]
        out.append([text(n) for n in lengths[: 1 + pairs]])
    return out


def alone(case: Case) -> bool:
    """Whether 5.23 refuses the configuration: one label with this problem."""
    return case.more.get("num_labels") == 1 and case.more.get("problem_type") == SINGLE


@pytest.fixture(scope="module")
def both(request, tmp_path_factory):
    """By name: the folder, and what the libraries give on the older version and on the newer."""
    pytest.importorskip("sentence_transformers")
    root, found, jobs = tmp_path_factory.mktemp("heads"), {}, []
    for number, name in enumerate(dict.fromkeys(parameters(request, "name"))):
        case, folder = CASES[name], root / str(number)
        made(case, folder)
        job = {"kind": case.kind, "folder": str(folder), "again": None}
        jobs.append({**job, "asks": inputs(case.pairs), "may_fail": alone(case)})
        found[name] = folder, scored(jobs[-1])
    newer = newer_answers(root, jobs)
    return {name: (*two, answer) for (name, two), answer in zip(found.items(), newer)}


@pytest.mark.parametrize("name", CASES)
def test_a_head(name, both, phasor, tmp_path):
    folder, older, newer = both[name]
    case, out = CASES[name], tmp_path / "m.phasor"
    convert_to(folder, out)
    text = "".join("\t".join(one) + "\n" for one in inputs(case.pairs))
    flags = ["--truncate", "--quiet", *["--pair"] * case.pairs]
    if case.kind == "vectors":
        words = [phasor, "embed", out, "--npy", tmp_path / "v.npy", *flags]
        told(*words, stdin=text)
        ours = np.load(tmp_path / "v.npy")
    else:
        words = [phasor, "classify", out, "--json", "--top", "100", *flags]
        done = told(*words, stdin=text)
        rows = [json.loads(line)["labels"] for line in done.splitlines()]
        labels = sorted({one["label"] for one in rows[0]})
        ours = np.array([[next(o["score"] for o in r if o["label"] == n) for n in labels]
                         for r in rows])  # fmt: skip
    assert len(ours) == INPUTS
    if alone(case):
        assert "requires `num_labels > 1`" in newer
        newer = older
    for theirs in map(np.array, (older, newer)):
        assert theirs.shape == ours.shape
        worst = np.abs(theirs - ours).max(axis=1)
        assert worst.max() < TOLERANCE * max(1.0, np.abs(theirs).max()), int(worst.argmax())
    assert len({tuple(row) for row in np.round(ours, 6)}) > INPUTS // 3 or "Softmax" in name


def test_how_many():
    assert len(CASES) >= 20 and INPUTS >= 200


@pytest.mark.parametrize(
    "case, line",
    [
        (
            ranks(1, "Tanh"),
            "activation_fn: 'Tanh' is not supported, expected Identity, Sigmoid, Soft",
        ),
        (
            ranks(1, "ReLU", "older"),
            "sbert_ce_default_activation_function: 'ReLU' is not supported",
        ),
        (ranks(1, "Softplus", "modules"), "activation_fn: 'Softplus' is not supported"),
        (
            vector({"pooling_mode_weightedmean_tokens": True}),
            "weightedmean_tokens is not supported",
        ),
        (vector({"pooling_mode_mean_sqrt_len_tokens": True}), "pooling_mode_mean_sqrt_len_tokens"),
        (vector({"pooling_mode": "weightedmean"}, NORMALIZE), "pooling_mode: 'weightedmean' is"),
        (vector({"pooling_mode": "mean_sqrt_len_tokens"}, DENSE, NORMALIZE), "pooling_mode: 'mean"),
        (
            vector({"pooling_mode": ["mean", "max"]}),
            "pooling_mode: ['mean', 'max'] is not supported",
        ),
    ],
)
def test_what_is_not_built(case, line, tmp_path, capsys):
    made(case, tmp_path / "m")
    assert line in problems(tmp_path / "m", tmp_path / "o.phasor", capsys)
