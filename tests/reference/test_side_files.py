"""The keys of side files beside those that transformers 4.57 and 5, sentence-transformers and PEFT
know, and what the ones that matter do, beside these libraries. As a program it prints the keys of
the transformers first on the path."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import transformers

from conversions import convert_to
from places import run_newer
from texts import read_json, write_json

# Arguments that a tokenizer is made with, and that no file has.
NO_KEYS = {"vocab", "merges", "_spm_precompiled_charsmap"}


def tokenizer_classes() -> dict[str, type]:
    out = {}
    for package in pkgutil.iter_modules(transformers.models.__path__):
        for end in ("", "_fast"):
            name = f"transformers.models.{package.name}.tokenization_{package.name}{end}"
            try:
                module = importlib.import_module(name)
            except (ImportError, AttributeError, NameError):  # what needs a package
                continue
            out |= {
                name: kind
                for name, kind in vars(module).items()
                if inspect.isclass(kind) and issubclass(kind, transformers.PreTrainedTokenizerBase)
            }
    return out


def keys_of_transformers() -> dict[str, list[str]]:
    """Of tokenizer_config.json by the arguments of every class, and of generation_config.json; and
    the classes without token types."""
    kinds, names = tokenizer_classes(), set()
    for kind in kinds.values():
        for one in inspect.getmro(kind):
            if "__init__" in vars(one):
                names |= {
                    p.name
                    for p in inspect.signature(one.__init__).parameters.values()
                    if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
                }
    untyped = [n for n, kind in kinds.items() if "token_type_ids" not in kind.model_input_names]
    return {
        "tokenizer": sorted(names - {"self", *NO_KEYS}),
        "generation": sorted(transformers.GenerationConfig().to_dict()),
        "classes": sorted(kinds),
        "untyped": sorted(untyped),
    }


def newer_keys() -> dict[str, list[str]]:
    return json.loads(run_newer(__file__).splitlines()[-1])


@pytest.fixture(scope="module", params=["4", "5"])
def version(request) -> dict[str, list[str]]:
    return keys_of_transformers() if request.param == "4" else newer_keys()


def unknown(name: str, keys) -> list[str]:
    """Those that side_files.toml does not have."""
    from phasor import side_files

    root = side_files.table()[name].root
    return [key for key in keys if not any(node.rule for node in root.find(key))]


def test_every_key_of_transformers_is_known(version):
    assert len(version["classes"]) > 80
    assert not unknown("tokenizer_config.json", version["tokenizer"])
    assert not unknown("generation_config.json", version["generation"])


def test_the_classes_without_token_types(version):
    """Of both versions: what the library gives a model of a pair."""
    from phasor.sources.hugging_face.around import token_types

    backend = {"backend": "tokenizers"} if "TokenizersBackend" in version["classes"] else {}
    other = [
        name
        for name in version["classes"]
        if f"{name}Fast" not in version["classes"]  # which AutoTokenizer takes
        and token_types({"tokenizer_class": name, **backend})["typed"]
        == (name in version["untyped"])
    ]
    assert not other


def test_every_key_of_sentence_transformers_and_peft_is_known():
    pytest.importorskip("sentence_transformers")
    peft = pytest.importorskip("peft")
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer import modules as M

    for name, kind in (
        ("sentence_bert_config.json", Transformer),
        ("Dense", Dense),
        ("Pooling", M.Pooling),
        ("LayerNorm", M.LayerNorm),
        ("Dropout", M.Dropout),
    ):
        assert not unknown(name, kind.config_keys), name
    assert not unknown(
        "adapter_config.json", (field.name for field in dataclasses.fields(peft.LoraConfig))
    )


def test_every_key_of_ctranslate2_is_known():
    """What its converters write for an encoder-decoder."""
    specs = pytest.importorskip("ctranslate2.specs")
    made = specs.TransformerSpec.from_config(1, 2).config.to_dict()
    assert len(made) >= 6 and not unknown("CTranslate2", [*made, "layer_norm_epsilon"])


# ---- What the keys do


def saved(tmp_path, folder: Path) -> Path:

    return convert_to(folder, tmp_path / "m.phasor")


@pytest.mark.parametrize("name", ["two Dense", "two Dense, tanh", "truncate_dim", "Dropout"])
def test_modules(tmp_path, phasor, name):
    library = pytest.importorskip("sentence_transformers")
    import torch
    from sentence_transformers.sentence_transformer import modules as M
    from test_sentence_transformers import LINES, base, by_program, near

    first = M.Transformer(base(transformers.BertModel, tmp_path / "b"), max_seq_length=17)
    torch.manual_seed(5)
    none, more = torch.nn.Identity(), {}
    modules = [first, M.Pooling(24, "mean")]
    if "Dense" in name:
        last = torch.nn.Tanh() if "tanh" in name else none
        modules += [M.Dense(24, 40, activation_function=none)]
        modules += [M.Dense(40, 15, bias=False, activation_function=last), M.Normalize()]
    elif name == "Dropout":
        modules += [M.Dropout(0.5), M.Normalize()]
    else:
        more = {"truncate_dim": 8}
    model = library.SentenceTransformer(modules=modules, device="cpu", **more)
    model.save_pretrained(str(tmp_path / "saved"))
    path = saved(tmp_path, tmp_path / "saved")
    assert near(by_program(phasor, tmp_path, path, LINES), model.encode(LINES))


@pytest.mark.parametrize("lowers", [True, False])
def test_lower_case(tmp_path, phasor, lowers):
    """BGE says do_lower_case beside an uncased BERT; beside a cased one it is a step in front."""
    library = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules as M
    from test_sentence_transformers import base, by_program, near

    folder = Path(base(transformers.BertModel, tmp_path / "b"))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        values = read_json(folder / name)
        if name == "tokenizer.json":
            values["normalizer"]["lowercase"] = lowers
        else:
            values["do_lower_case"] = lowers
        write_json(folder / name, values)
    modules = [M.Transformer(str(folder), max_seq_length=17), M.Pooling(24, "cls")]
    model = library.SentenceTransformer(modules=modules, device="cpu")
    model.save_pretrained(str(tmp_path / "saved"))
    lines = ["People LIVE in a Town.", "Bread is made of FLOUR", "É Ünder 猫 İ"]
    plain = model.encode(lines)
    config = {"max_seq_length": 17, "do_lower_case": True}
    write_json(tmp_path / "saved/sentence_bert_config.json", config)
    theirs = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(lines)
    assert near(plain, theirs) == lowers
    path = saved(tmp_path, tmp_path / "saved")
    assert near(by_program(phasor, tmp_path, path, lines), theirs)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"model_input_names": ["input_ids", "attention_mask"]},
        {"tokenizer_class": "DistilBertTokenizer"},
        {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]},
    ],
)
def test_segments_of_pairs(tmp_path, phasor, change):
    library = pytest.importorskip("sentence_transformers")
    from test_sentence_transformers import base

    folder = base(transformers.BertForSequenceClassification, tmp_path / "b", num_labels=1)
    library.CrossEncoder(folder, device="cpu").save_pretrained(str(tmp_path / "saved"))
    path = tmp_path / "saved/tokenizer_config.json"
    path.write_text(json.dumps({**read_json(path), **change}))
    texts = ["people live in a town", "bread is made of flour"]
    pairs = [("how many people", text) for text in texts]
    theirs = library.CrossEncoder(str(tmp_path / "saved"), device="cpu").predict(pairs)
    model = saved(tmp_path, tmp_path / "saved")
    words = [phasor, "rank", model, "--json", "--quiet", "how many people", *texts]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    ours = {row["text"]: row["score"] for row in map(json.loads, said.splitlines())}
    assert np.abs(np.array([ours[text] for text in texts]) - theirs).max() < 1e-5


if __name__ == "__main__":
    print(json.dumps(keys_of_transformers()))
