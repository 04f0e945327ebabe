"""`phasor rank --late` beside the formula of its paper over transformers' hidden states: ColBERT's
directories as Stanford's code saves them and as PyLate does (Khattab and Zaharia 2020, equation 3;
Santhanam et al. 2022)."""

from __future__ import annotations

import json
import string
import subprocess

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from test_spans import WORDS

from conversions import convert_to, refused
from phasor.format.file import PhasorFile
from texts import read_json, write_json

TOLERANCE = 1e-5
WIDTH, VECTOR, POSITIONS = 24, 16, 64
PIECES = [*WORDS, "[unused0]", "[unused1]", "!", "?", '"']
MASK, UNKNOWN, FIRST, LAST = (PIECES.index(p) for p in ("[MASK]", "[UNK]", "[CLS]", "[SEP]"))
QUERIES = ["how many people", "bread, is ! made of (flour)?", "", "people live in a town " * 12]
TEXTS = [
    "people live in a town",
    "Bread is made of FLOUR.",
    "how many " * 30,
    "猫",
    "",
    "a . town, (bread)! [MASK] town",
    "understands ' people 122",
]


def _net(kind):
    torch.manual_seed(3)
    common = dict(
        vocab_size=len(PIECES) + 2,  # PyLate's markers are added to the vocabulary
        hidden_size=WIDTH,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=POSITIONS,
    )
    if kind == "modernbert":
        ids = dict(pad_token_id=0, cls_token_id=FIRST, sep_token_id=LAST)
        ids |= dict(bos_token_id=FIRST, eos_token_id=LAST, local_attention=64)
        config = transformers.ModernBertConfig(**common, **ids, num_hidden_layers=4)
        config._attn_implementation, config.reference_compile = "eager", False
        net = transformers.ModernBertModel(config)
    else:
        net = transformers.BertModel(transformers.BertConfig(**common, num_hidden_layers=2))
    with torch.no_grad():
        for name, p in net.named_parameters():
            p.copy_(torch.randn_like(p) * 0.5 + (p.dim() == 1 and name.endswith("weight")))
    return net.eval(), torch.randn(VECTOR, WIDTH)


def _tokenizer(folder, added=()):
    """BERT's words; without token types, which ModernBERT has not."""
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    made = transformers.BertTokenizerFast(str(folder / "vocab.txt"))
    made.add_tokens(list(added))
    made.save_pretrained(folder)
    return made


def _write(folder, name, values):
    (folder / name).parent.mkdir(exist_ok=True)
    write_json(folder / name, values)


class Saved:
    """A directory, its settings, and the scores of the formula."""

    def __init__(self, folder, kind="bert", **says):
        self.folder, self.kind, self.says = folder, kind, says
        self.net, self.matrix = _net(kind)
        self.texts = {}  # vectors of those that were asked for
        folder.mkdir()
        self.save()
        self.path = folder.parent / "m.phasor"
        convert_to(folder, self.path)

    def rows(self, ids, seen):
        """The vectors of ids, of which the first `seen` are attended to."""
        mask = torch.tensor([[1] * seen + [0] * (len(ids) - seen)])
        with torch.no_grad():
            states = self.net(torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
            return torch.nn.functional.normalize(states @ self.matrix.T, dim=1).double()

    def ids(self, text, marker, length):
        more = [] if marker is None else [marker]
        found = self.tokens(text, truncation=True, max_length=length - len(more))["input_ids"]
        return found[:1] + more + found[1:]

    def scores(self, query, texts):
        ids = self.ids(query, self.markers[0], self.lengths[0])
        seen = len(ids)
        ids += [MASK] * (self.lengths[0] - seen) if self.expands else []
        asked = self.rows(ids, len(ids) if self.sees else seen)
        return np.array([float((asked @ self.text(t).T).max(1).values.sum()) for t in texts])

    def text(self, text):
        if text not in self.texts:
            ids = self.ids(text, self.markers[1], self.lengths[1])
            kept = [i not in self.skipped for i in ids]
            self.texts[text] = self.rows(ids, len(ids))[kept]
        return self.texts[text]


class Stanford(Saved):
    def save(self):
        self.net.config.architectures = ["HF_ColBERT"]
        _write(self.folder, "config.json", self.net.config.to_dict())
        tensors = {f"bert.{name}": t for name, t in self.net.state_dict().items()}
        save_file({**tensors, "linear.weight": self.matrix}, self.folder / "model.safetensors")
        given = dict(query_maxlen=20, doc_maxlen=30, dim=VECTOR, similarity="cosine", **self.says)
        given |= dict(query_token_id="[unused0]", doc_token_id="[unused1]", lr=1e-5, nway=64)
        _write(self.folder, "artifact.metadata", given)
        self.tokens = _tokenizer(self.folder)
        self.markers = tuple(PIECES.index(f"[unused{i}]") for i in (0, 1))
        self.lengths, self.expands = (20, 30), True
        self.sees = given.get("attend_to_mask_tokens", False)
        words = string.punctuation if given.get("mask_punctuation", True) else ""
        self.skipped = {self.tokens.convert_tokens_to_ids(word) for word in words}


class PyLate(Saved):
    def save(self):
        self.net.save_pretrained(self.folder)
        given = {
            "__version__": {"sentence_transformers": "5.3.0", "pytorch": "2", "pylate": "1.6.0"},
            "prompts": {"query": "", "document": ""},
            "default_prompt_name": None,
            "similarity_fn_name": "MaxSim",
            "model_type": "SentenceTransformer",
            "query_prefix": "[Q] ",
            "document_prefix": "[D] ",
            "query_length": 24,
            "document_length": 33,
            "attend_to_expansion_tokens": False,
            "skiplist_words": list(string.punctuation),
            "do_query_expansion": True,
            **self.says,
        }
        _write(self.folder, "config_sentence_transformers.json", given)
        types = (
            ("", "sentence_transformers.models.Transformer"),
            ("1_Dense", "pylate.models.Dense"),
        )
        modules = [dict(idx=i, name=str(i), path=p, type=t) for i, (p, t) in enumerate(types)]
        _write(self.folder, "modules.json", modules)
        _write(self.folder, "sentence_bert_config.json", {"max_seq_length": 32})
        dense = dict(in_features=WIDTH, out_features=VECTOR, bias=False, use_residual=False)
        dense["activation_function"] = "torch.nn.modules.linear.Identity"
        _write(self.folder, "1_Dense/config.json", dense)
        save_file({"linear.weight": self.matrix}, self.folder / "1_Dense/model.safetensors")
        names = [given[f"{of}_prefix"] for of in ("query", "document")]
        self.tokens = _tokenizer(self.folder, filter(None, names))
        if self.kind != "bert":
            config = read_json(self.folder / "tokenizer_config.json")
            config["tokenizer_class"] = "PreTrainedTokenizerFast"
            _write(self.folder, "tokenizer_config.json", config)
        self.markers = tuple(self.tokens.convert_tokens_to_ids(n) if n else None for n in names)
        self.lengths = given["query_length"], given["document_length"]
        self.expands, self.sees = given["do_query_expansion"], given["attend_to_expansion_tokens"]
        self.skipped = {self.tokens.convert_tokens_to_ids(w) for w in given["skiplist_words"]}


def ranked(phasor, path, query, texts, *flags, status=0):
    done = subprocess.run(
        [phasor, "rank", "--late", path, query, *flags, "--json", "--quiet"],
        input="".join(f"{text}\n" for text in texts).encode(),
        capture_output=True,
    )
    assert done.returncode == status, done.stderr
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert [r["score"] for r in rows] == sorted((r["score"] for r in rows), reverse=True)
    return rows, done.stderr.decode()


def compare(phasor, saved):
    met = 0.0
    for query in QUERIES:
        theirs = saved.scores(query, TEXTS)
        rows, _ = ranked(phasor, saved.path, query, TEXTS, "--truncate")
        ours = np.array([r["score"] for r in sorted(rows, key=lambda r: r["line"])])
        assert np.abs(ours - theirs).max() < TOLERANCE * np.abs(theirs).max()
        met = max(met, np.ptp(theirs))
    assert met > 0.5  # texts are told apart


@pytest.mark.parametrize(
    "says",
    [{}, {"attend_to_mask_tokens": True}, {"mask_punctuation": False}],
    ids=["plain", "seen", "punctuation"],
)
def test_stanford(tmp_path, phasor, says):
    saved = Stanford(tmp_path / "s", **says)
    compare(phasor, saved)
    output = PhasorFile(saved.path).descriptor["output"]
    assert (output["query_length"], output["document_length"], output["classes"]) == (
        20,
        30,
        VECTOR,
    )
    assert output["skipped"] == sorted(saved.skipped)
    # what is not cut is refused, and so is a text that no text is
    rows, said = ranked(phasor, saved.path, QUERIES[3], ["a town"], status=1)
    assert rows == [] and "the query: 63 tokens, there is room for 20 (--truncate cuts)" in said
    rows, said = ranked(phasor, saved.path, "a", ["a town", "a " * 70, "town"], status=1)
    assert [r["line"] for r in rows] in ([1, 3], [3, 1]) and "line 2: 73 tokens" in said


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
@pytest.mark.parametrize(
    "says",
    [
        {},
        {"attend_to_expansion_tokens": True},
        {"do_query_expansion": False},
        {"query_prefix": "", "document_prefix": ""},
        {"skiplist_words": ["a", "town", "zzz"], "query_length": 30},
    ],
    ids=["plain", "seen", "alone", "unmarked", "words"],
)
def test_pylate(tmp_path, phasor, kind, says):
    compare(phasor, PyLate(tmp_path / "p", kind, **says))


def test_a_window_holds_a_token_that_is_seen(tmp_path, phasor):
    saved = PyLate(tmp_path / "p", "modernbert", query_length=44)
    query = "how many people live in a town bread is made of"
    rows, _ = ranked(phasor, saved.path, query, TEXTS[:1])
    assert abs(rows[0]["score"] - saved.scores(query, TEXTS[:1])[0]) < TOLERANCE * 50
    _, said = ranked(phasor, saved.path, "a", TEXTS[:1], status=1)
    assert "the query: sequence 0: 40 tokens are not seen, the window holds 32" in said


def test_what_is_not_built(tmp_path, capsys):
    saved, stanford = PyLate(tmp_path / "p"), Stanford(tmp_path / "s")
    settings, dense = "config_sentence_transformers.json", "1_Dense/config.json"
    for folder, name, change, line in (
        (saved, settings, {"similarity_fn_name": "cosine"}, "similarity_fn_name: 'cosine'"),
        (saved, settings, {"query_length": 0}, "query_length: 0, expected a whole"),
        (saved, settings, {"query_length": 65}, "65 ids of a text, 64 positions"),
        (saved, settings, {"document_length": "9"}, "document_length: '9', expected a whole"),
        (saved, settings, {"query_prefix": "[X] "}, "the tokenizer has no piece '[X] '"),
        (saved, settings, {"query_prefix": 3}, "query_prefix: 3, expected a text"),
        (saved, settings, {"skiplist_words": "ab"}, "skiplist_words: 'ab', expected a list"),
        (saved, settings, {"do_query_expansion": 1}, "do_query_expansion: 1, expected true"),
        (saved, settings, {"prompts": {"query": "q: "}}, "with late interaction expected none"),
        (saved, settings, {"prompts": ["q"]}, "prompts: ['q'], with late interaction"),
        (saved, settings, {"other": 1}, "other"),
        (saved, dense, {"use_residual": True}, "use_residual: True is not supported"),
        (saved, dense, {"activation_function": "torch.nn.modules.activation.Tanh"}, "activation"),
        (saved, dense, {"out_features": 17}, "1_Dense.linear.weight"),
        (stanford, "artifact.metadata", {"similarity": "l2"}, "similarity: 'l2' is not supported"),
        (stanford, "artifact.metadata", {"interaction": "flipr"}, "interaction: 'flipr'"),
        (stanford, "artifact.metadata", {"doc_maxlen": 65}, "65 ids of a text, 64 positions"),
        (stanford, "artifact.metadata", {"query_token_id": "[q]"}, "no piece '[q]'"),
        (stanford, "artifact.metadata", {"attend_to_mask_tokens": 0}, "attend_to_mask_tokens: 0"),
    ):
        path = folder.folder / name
        before = path.read_text()
        write_json(path, {**json.loads(before), **change})
        assert line in refused(folder.folder, tmp_path / "o.phasor", capsys)
        path.write_text(before)
    line = refused(saved.folder, tmp_path / "o.phasor", capsys, "--tokenizer", "none")
    assert "--tokenizer does not go" in line
    weights = stanford.folder / "model.safetensors"
    tensors = load_file(weights)
    del tensors["linear.weight"]
    save_file(tensors, weights)
    line = refused(stanford.folder, tmp_path / "o.phasor", capsys)
    assert "HF_ColBERT without a matrix linear.weight" in line
