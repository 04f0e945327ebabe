"""Adapters that PEFT itself wrote, beside the logits of PEFT's model loaded from the same files, on
transformers 4.57 and on 5.x: every way of a tied matrix, new rows, and every class with an
adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import transformers
from answers import adapted, newer_answers
from safetensors.torch import load_file, save_file
from test_families_decoders import share

from phasor.conversion import convert
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.layout import F32, PhasorError
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from phasor.sources.tokenizer_files import NONE
from texts import read_json, write_json

peft = pytest.importorskip("peft")

TOLERANCE = 1e-5  # of the logits' range
ROWS, IDS, TARGET = 37, [3, 5, 30, 9, 11, 36, 2], [2, 4, 6, 8]
LLAMA = {
    "vocab_size": ROWS,
    "hidden_size": 24,
    "intermediate_size": 29,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
GPT2 = {"vocab_size": ROWS, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32}
OPT = {
    "vocab_size": ROWS,
    "hidden_size": 24,
    "word_embed_proj_dim": 24,
    "ffn_dim": 30,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 32,
}
BERT = {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}
BART = {
    "vocab_size": ROWS,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 30,
    "decoder_ffn_dim": 30,
    "max_position_embeddings": 32,
}
T5 = {
    "vocab_size": ROWS,
    "d_model": 24,
    "d_kv": 8,
    "num_heads": 3,
    "num_layers": 2,
    "d_ff": 30,
    "decoder_start_token_id": 0,
}
TIED = {**LLAMA, "tie_word_embeddings": True}
UNTIED = {**LLAMA, "tie_word_embeddings": False}


class Case(NamedTuple):
    kind: str  # the class
    config: dict[str, Any]
    how: dict[str, Any]  # of the adapter
    rows: int = ROWS  # of the vocabulary that it was trained with
    two: bool = False  # a tied matrix becomes two
    save: dict[str, Any] = {}


def llama(config: dict, **more: Any) -> Case:
    own = {key: more.pop(key) for key in ("rows", "two", "save") if key in more}
    return Case("LlamaForCausalLM", config, {"target_modules": ["q_proj"], **more}, **own)


EMBED, HEAD, SAVED = ["embed_tokens"], ["lm_head"], {"save_embedding_layers": True}
CASES = {
    "a copy of the embedding": llama(TIED, modules_to_save=EMBED, two=True),
    "a copy of it, tied": llama(TIED, modules_to_save=EMBED, ensure_weight_tying=True),
    "copies of both": llama(TIED, modules_to_save=EMBED + HEAD, two=True),
    "a copy of the output": llama(TIED, modules_to_save=HEAD, two=True),
    "a change of the embedding": llama(TIED, target_modules=["q_proj", *EMBED], two=True),
    "a change of the output": llama(TIED, target_modules=["v_proj", *HEAD], two=True),
    "changes of both": llama(TIED, target_modules=EMBED + HEAD, two=True, use_rslora=True),
    "a change of it, tied": llama(TIED, target_modules=EMBED, ensure_weight_tying=True),
    "DoRA of the output": llama(TIED, target_modules=HEAD, use_dora=True, two=True),
    "a change and a copy": llama(TIED, target_modules=HEAD, modules_to_save=EMBED, two=True),
    "embeddings saved": llama(TIED, save=SAVED),
    "new rows": llama(TIED, rows=ROWS + 3, save=SAVED),
    "new rows, copies": llama(TIED, modules_to_save=EMBED + HEAD, rows=ROWS + 3, two=True),
    "new rows, a change": llama(TIED, target_modules=EMBED, rows=ROWS + 3, two=True),
    "untied, new rows": llama(UNTIED, rows=ROWS + 5, save=SAVED),
    "untied, a copy": llama(UNTIED, modules_to_save=EMBED),
    "untied, all": llama(UNTIED, target_modules="all-linear", modules_to_save=EMBED + HEAD),
    "gpt2, a copy": Case(
        "GPT2LMHeadModel",
        GPT2,
        {"target_modules": ["c_attn"], "fan_in_fan_out": True, "modules_to_save": ["wte"]},
        two=True,
    ),
    "gpt2, a change": Case("GPT2LMHeadModel", GPT2, {"target_modules": ["wte"]}, two=True),
    "opt, a copy": Case(
        "OPTForCausalLM", OPT, {"target_modules": ["q_proj"], "modules_to_save": EMBED}, two=True
    ),
    "opt, biases": Case("OPTForCausalLM", OPT, {"target_modules": ["fc1"], "bias": "all"}),
    "bert, words": Case("BertForMaskedLM", BERT, {"target_modules": ["query", "dense"]}),
    "bert, classes": Case(
        "BertForSequenceClassification",
        {**BERT, "num_labels": 3},
        {"target_modules": ["value"], "modules_to_save": ["classifier"]},
    ),
    "bert, the embedding": Case(
        "BertForSequenceClassification", BERT, {"target_modules": ["word_embeddings"]}
    ),
    "bart": Case("BartForConditionalGeneration", BART, {"target_modules": ["q_proj", "fc2"]}),
    "t5": Case("T5ForConditionalGeneration", T5, {"target_modules": ["q", "v", "wo"]}),
}


def made(case: Case, folder: Path) -> peft.PeftModel:
    """The base and the adapter, as PEFT saves it; the model that was saved."""
    torch.manual_seed(7)
    kind = getattr(transformers, case.kind)
    base = kind(kind.config_class(**case.config)).eval()
    with torch.no_grad():
        for p in base.parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (p.dim() == 1))
    base.save_pretrained(folder / "base")
    if case.rows != case.config["vocab_size"]:
        base.resize_token_embeddings(case.rows, mean_resizing=False)
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=6, **case.how))
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.copy_(torch.randn_like(p) * 0.3)
    model.save_pretrained(folder / "adapter", **case.save)
    return model


def job(case: Case, folder: Path) -> dict[str, Any]:
    return {
        "kind": "adapted",
        "class": case.kind,
        "folder": str(folder / "base"),
        "adapter": str(folder / "adapter"),
        "again": None,
        "rows": case.rows,
        "asks": [IDS, TARGET],
    }


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """By name: the folder, and what PEFT's model gives on the older version and on the newer."""
    root = tmp_path_factory.mktemp("peft")
    folders = {name: root / str(i) for i, name in enumerate(CASES)}
    for name, case in CASES.items():
        made(case, folders[name])
    jobs = [job(case, folders[name]) for name, case in CASES.items()]
    newer = newer_answers(root, jobs)
    return {name: (folders[name], adapted(j), new) for name, j, new in zip(CASES, jobs, newer)}


def ours(file: PhasorFile) -> np.ndarray:
    reference, d = Reference(file), file.descriptor
    memory = reference.encode(np.array(IDS)) if "encoder" in d else None
    if "decoder" in d:
        ids = TARGET if memory else IDS
        return reference.decode(np.array(ids), memory and memory.output).logits
    return reference.output(memory)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """As a share of each row's range."""
    return share(np.atleast_2d(a), np.atleast_2d(b))


@pytest.mark.parametrize("name", CASES)
def test_an_adapter_of_peft(name, both, tmp_path):
    folder, older, newer = both[name]
    case, base = CASES[name], folder / "base"
    model, _ = read_source(base, [NONE], lora=folder / "adapter")
    convert(model, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    file = PhasorFile(tmp_path / "m.phasor")
    got = ours(file)
    for theirs in map(np.array, (older, newer)):
        assert difference(got.reshape(theirs.shape), theirs) < TOLERANCE
    if file.descriptor["output"]["output"] == D.LOGITS and "decoder" in file.descriptor:
        tied = file.descriptor["output"]["tied"] != D.TIED_OWN
        assert tied == (case.config.get("tie_word_embeddings", True) and not case.two)
        assert file.descriptor["target"]["vocabulary"] == case.rows
    plain, _ = read_source(base, [NONE])
    if case.rows == ROWS and "saved" not in name:
        convert(plain, tmp_path / "plain.phasor", F32, {}, None, quiet=True)
        assert difference(ours(PhasorFile(tmp_path / "plain.phasor")), got) > 1e-3


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "GPT2LMHeadModel"])
def test_the_layer_says_how_its_weight_is_stored(kind, tmp_path):
    """PEFT corrects a fan_in_fan_out that is not the layer's, so it decides nothing of a square
    matrix either."""
    square = {"num_key_value_heads": 3, "tie_word_embeddings": False}
    config, module = (LLAMA | square, "q_proj") if kind[0] == "L" else (GPT2, "attn.c_proj")
    case = Case(kind, config, {"target_modules": [module]})
    made(case, tmp_path)
    path = tmp_path / "adapter" / "adapter_config.json"
    write_json(path, {**read_json(path), "fan_in_fan_out": kind[0] == "L"})
    model, _ = read_source(tmp_path / "base", [NONE], lora=tmp_path / "adapter")
    convert(model, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    theirs = np.array(adapted(job(case, tmp_path)))
    assert difference(ours(PhasorFile(tmp_path / "m.phasor")), theirs) < TOLERANCE


REFUSED = {
    "t5, its embedding": (
        Case("T5ForConditionalGeneration", T5, {"target_modules": ["shared"]}),
        "the adapter changes shared.weight in one place",
    ),
    "bert's words": (
        Case("BertForMaskedLM", BERT, {"target_modules": ["word_embeddings"]}),
        "the adapter changes bert.embeddings.word_embeddings.weight in one place",
    ),
    "new rows of one": (
        llama(TIED, modules_to_save=EMBED, rows=ROWS + 3),
        "has 40 rows and lm_head.weight 37",
    ),
    "new rows of one, untied": (
        llama(UNTIED, modules_to_save=EMBED, rows=ROWS + 3, save={"save_embedding_layers": False}),
        "has 40 rows and lm_head.weight 37",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, tmp_path):
    case, line = REFUSED[name]
    made(case, tmp_path)
    with pytest.raises(PhasorError, match=line) as caught:
        read_source(tmp_path / "base", [NONE], lora=tmp_path / "adapter")
    if "leave" in str(caught.value):
        left_out(case, tmp_path)
    else:
        both_saved(case, tmp_path)


def left_out(case: Case, folder: Path) -> None:
    """An adapter of other matrices is read; merged, the refused one is another model."""
    base = getattr(transformers, case.kind).from_pretrained(folder / "base").eval()
    ids = {"input_ids": torch.tensor([IDS])}
    if case.config is T5:
        ids["decoder_input_ids"] = torch.tensor([TARGET])
    with torch.no_grad():
        model = peft.PeftModel.from_pretrained(base, folder / "adapter").eval()
        before = model(**ids).logits[0].numpy()
        assert difference(model.merge_and_unload()(**ids).logits[0].numpy(), before) > 1e-2
    others = {"target_modules": ["q" if case.config is T5 else "query"]}
    made(Case(case.kind, case.config, others), folder / "other")
    assert read_source(folder / "other/base", [NONE], lora=folder / "other/adapter")


def both_saved(case: Case, folder: Path) -> None:
    """With both matrices, and merged where it was trained."""
    both = {**case.how, "modules_to_save": ["embed_tokens", "lm_head"]}
    made(Case(case.kind, case.config, both, case.rows), folder / "both")
    assert read_source(folder / "both/base", [NONE], lora=folder / "both/adapter")
    model = made(case, folder / "trained").eval()
    with torch.no_grad():
        theirs = model(torch.tensor([IDS])).logits[0].numpy()
    model.merge_and_unload().save_pretrained(folder / "merged")
    merged, _ = read_source(folder / "merged", [NONE])
    convert(merged, folder / "m.phasor", F32, {}, None, quiet=True)
    assert difference(ours(PhasorFile(folder / "m.phasor")), theirs) < TOLERANCE


def test_a_base_matrix_that_is_two(tmp_path):
    """A tied base has one matrix: an adapter with two of them, and no copies, is none of it."""
    made(CASES["embeddings saved"], tmp_path)
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(path)
    tensors["base_model.model.lm_head.weight"] = tensors["base_model.model.lm_head.weight"] + 1
    save_file(tensors, path)
    with pytest.raises(PhasorError, match="differ, and are one matrix of the base"):
        read_source(tmp_path / "base", [NONE], lora=tmp_path / "adapter")
    config = tmp_path / "adapter" / "adapter_config.json"
    config.write_text(json.dumps({**read_json(config), "modules_to_save": "x"}))
    with pytest.raises(PhasorError, match="modules_to_save"):
        read_source(tmp_path / "base", [NONE], lora=tmp_path / "adapter")


def test_how_many():
    assert len(CASES) >= 15


@pytest.mark.parametrize("kind", ["LlamaForCausalLM", "GPT2LMHeadModel", "OPTForCausalLM"])
@pytest.mark.parametrize("which", ["output", "both"])
def test_a_tied_matrix_by_the_name_of_the_output(kind, which, tmp_path):
    """Which of the two names a file has is up to its writer."""
    config = {"LlamaForCausalLM": TIED, "GPT2LMHeadModel": GPT2, "OPTForCausalLM": OPT}[kind]
    torch.manual_seed(2)
    own = getattr(transformers, kind)
    net = own(own.config_class(**config)).eval()
    net.save_pretrained(tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = load_file(path)
    name = next(n for n in tensors if n.endswith(("embed_tokens.weight", "wte.weight")))
    tensors["lm_head.weight"] = tensors[name].clone() if which == "both" else tensors.pop(name)
    save_file(tensors, path)
    model, _ = read_source(tmp_path / "m", [NONE])
    convert(model, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    with torch.no_grad():
        theirs = net(torch.tensor([IDS])).logits[0].numpy()
    assert difference(ours(PhasorFile(tmp_path / "m.phasor")), theirs) < TOLERANCE
    if which == "both":
        tensors["lm_head.weight"] += 1
        save_file(tensors, path)
        with pytest.raises(PhasorError, match="differs from"):
            read_source(tmp_path / "m", [NONE])


def test_an_adapter_of_a_directory_of_sentence_transformers(tmp_path):
    case = Case("BertModel", BERT, {"target_modules": ["query", "word_embeddings"]})
    made(case, tmp_path)
    kind = "sentence_transformers.models."
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    rows = [
        {"idx": i, "name": str(i), "path": path, "type": kind + name}
        for i, (path, name) in enumerate(modules)
    ]
    write_json(tmp_path / "base" / "modules.json", rows)
    (tmp_path / "base" / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 24, "pooling_mode_mean_tokens": True}
    write_json(tmp_path / "base" / "1_Pooling" / "config.json", pooling)
    model, _ = read_source(tmp_path / "base", lora=tmp_path / "adapter")
    convert(model, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    theirs = np.array(adapted(job(case, tmp_path))).mean(0)
    assert difference(ours(PhasorFile(tmp_path / "m.phasor")).reshape(-1), theirs) < TOLERANCE
