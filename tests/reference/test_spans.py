"""`phasor answer`, `phasor tag` and multiple choice beside transformers: its pipelines with their
offsets, and its classes; and the same answers from Python."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from transformers.pipelines.question_answering import decode_spans

from phasor import convert, load
from phasor.errors import PhasorError
from phasor.format.file import PhasorFile
from phasor.format.layout import F32
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from texts import read_json

TOLERANCE = 1e-5
WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] how many people live in a town bread is made of fl ##our un"
    " ##der ##stand ##s , . ' ! ( ) 我 有 猫 e ##e i 1 2 ##2 don t"
).split()
CONTEXTS = [
    "people live in a town",
    "  Bread is made of  FLOUR.",
    "town, (a town)! don't understands 122",
    "Thé pe\u0301ople ée live ☃☃ in\u00a0a\u2003town\t, e\u0301",
    "我有猫, understand",
    "İi İ people ＦＬour \u200b in\u00ad a\u0301",
    "flour bread town of people " * 4,
]
QUESTION = "how many people"
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "thing"]


def _wordpiece(folder, words: list[str] = WORDS) -> None:
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)


def _wordpiece_pad_1(folder) -> None:
    """MPNet's code takes id 1 for the padding."""
    _wordpiece(folder, [WORDS[1], WORDS[0], *WORDS[2:]])


def _bytes(folder) -> None:
    """GPT-2's bytes in RoBERTa's template."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}
    vocab |= {letter: i + 5 for i, letter in enumerate(letters)}
    merges = [("i", "n"), ("t", "o"), ("Ġ", "to"), ("l", "i"), ("o", "u"), ("w", "n"), ("Ã", "©")]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    transformers.RobertaTokenizerFast(tokenizer_object=made).save_pretrained(folder)


def _metaspace(folder) -> None:
    """XLM-RoBERTa's: unigram, ▁ before a word."""
    rows = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces = ["▁", "▁people", "▁live", "▁in", "▁a", "▁to", "wn", "flour", "▁is", "▁made", "▁of"]
    pieces += ["i", "n", "t", "o", "w", "e", "p", "l", "v", "d", "我", "有", ",", ".", "un", "der"]
    rows += [(piece, -2.0 - 0.1 * i) for i, piece in enumerate(pieces)]
    rows.append(("<mask>", 0.0))
    made = tokenizers.Tokenizer(tokenizers.models.Unigram(rows, unk_id=3))
    p = tokenizers.pre_tokenizers
    made.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    made.pre_tokenizer = p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="always")])
    made.decoder = tokenizers.decoders.Metaspace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    transformers.XLMRobertaTokenizerFast(tokenizer_object=made).save_pretrained(folder)


_DISTANCES = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}
_V2 = {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
# The class's beginning, its configuration's additions, its tokenizer, and how many ids that has.
CASES = {
    "Bert": ({}, _wordpiece, len(WORDS)),
    "DistilBert": ({"dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 40}, _wordpiece, 60),
    "Electra": ({"embedding_size": 12}, _wordpiece, len(WORDS)),
    "Roberta": ({"pad_token_id": 1, "type_vocab_size": 1}, _bytes, 270),
    "XLMRoberta": ({"pad_token_id": 1, "type_vocab_size": 1}, _metaspace, 40),
    "MPNet": ({}, _wordpiece_pad_1, len(WORDS)),
    "Albert": ({"embedding_size": 12, "num_hidden_groups": 2}, _wordpiece, len(WORDS)),
    "ModernBert": (
        {"pad_token_id": 0, "local_attention": 8, "classifier_bias": True},
        _wordpiece,
        len(WORDS),
    ),
    "Deberta": (_DISTANCES, _wordpiece, len(WORDS)),
    "DebertaV2": (
        {**_DISTANCES, **_V2, "position_biased_input": False},
        _wordpiece,
        len(WORDS),
    ),
    "RoFormer": ({"embedding_size": 24}, None, len(WORDS)),
}
# RoFormer's tokenizer is not supported: it is looked at by ids, below.
WITH_TEXTS = [name for name in CASES if name != "RoFormer"]
WITHOUT_SEGMENTS = ("DistilBert", "MPNet", "ModernBert")


def made(name: str, end: str, folder, **more):
    """(transformers' model, its tokenizer, the file)."""
    config, tokenizer, vocabulary = CASES[name]
    torch.manual_seed(len(name + end))
    kind = getattr(transformers, name + end)
    sizes = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 40,
    }
    if name == "DistilBert":
        sizes = {}
    whole = {"vocab_size": vocabulary, "max_position_embeddings": 300, **sizes, **config, **more}
    net = kind(kind.config_class(**whole)).eval()
    with torch.no_grad():
        for p in (p for p in net.parameters() if p.requires_grad):
            p.copy_(torch.randn_like(p) * 0.5 + (p.dim() == 1))
    net.save_pretrained(folder / "m")
    own = None
    if tokenizer is not None:
        tokenizer(folder / "m")
        own = transformers.AutoTokenizer.from_pretrained(folder / "m")
    if name in WITHOUT_SEGMENTS:  # as its own class has it
        own.model_input_names = ["input_ids", "attention_mask"]
    model, sections = read_source(folder / "m")
    convert.convert(model, folder / "m.phasor", F32, sections, None, quiet=True)
    return net, own, folder / "m.phasor"


def rows(phasor, *words) -> list[dict]:
    done = subprocess.run([phasor, *words, "--json", "--quiet"], check=True, capture_output=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def shown(score: float) -> float:
    """As the program's JSON has it, which rounds."""
    return float(f"{score:.12g}")


@pytest.fixture(scope="module", params=WITH_TEXTS)
def reader(request, tmp_path_factory):
    return made(request.param, "ForQuestionAnswering", tmp_path_factory.mktemp("reader"))


def answers(reader, context: str, top: int, longest: int) -> tuple[list[dict], float]:
    """By the pipeline's own search over the spans, and the score of no answer."""
    net, own, _ = reader
    enc = own([QUESTION], [context], return_tensors="pt", return_offsets_mapping=True)
    offsets = enc.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        out = net(**enc)
    inside = np.array([s == 1 for s in enc.sequence_ids(0)])
    seen = inside | (np.arange(len(inside)) == 0)

    def chances(logits: torch.Tensor) -> np.ndarray:
        x = np.where(seen, logits[0].numpy().astype(np.float64), -10000.0)
        x = np.exp(x - x.max())
        return x / x.sum()

    start, end = chances(out.start_logits), chances(out.end_logits)
    none = start[0] * end[0]
    start[0] = end[0] = 0
    found = decode_spans(start, end, top, longest, inside.astype(int))
    return [
        {"start": offsets[s][0], "end": offsets[e][1], "score": score}
        for s, e, score in zip(*found)
    ], none


@pytest.mark.parametrize("context", CONTEXTS)
def test_answers(reader, phasor, context):
    for top, longest in ((1, 15), (4, 15), (3, 1), (2, 200)):
        theirs, none = answers(reader, context, top, longest)
        flags = ["--top", top, "--max-answer", longest]
        words = ["answer", reader[2], QUESTION, context, *map(str, flags)]
        (ours,) = rows(phasor, *words)
        found = load(reader[2]).answer(QUESTION, context, top_k=top, max_answer_len=longest)
        said = [(a["text"], shown(a["score"]), a["start"], a["end"]) for a in ours["answers"]]
        assert [(a.answer, shown(a.score), a.start, a.end) for a in found] == said
        assert len(ours["answers"]) == len(theirs)
        for a, b in zip(ours["answers"], theirs, strict=True):
            assert abs(a["score"] - b["score"]) < TOLERANCE
            assert (a["start"], a["end"]) == (b["start"], b["end"])
            assert a["text"] == context[a["start"] : a["end"]]
        (ours,) = rows(phasor, *words, "--null")
        both = [(o["score"], o["end"]) for o in ours["answers"]]
        best = sorted([o["score"] for o in theirs] + [none], reverse=True)[:top]
        assert np.allclose([score for score, _ in both], best, atol=TOLERANCE)
        nothing = [score for score, end in both if end == 0]
        assert bool(nothing) == (none > min(best) - 1e-12) and len(nothing) < 2


def test_the_pipeline(reader, phasor):
    """Beside transformers' whole pipeline, where that reads a text in one piece."""
    net, own, path = reader
    own.model_max_length = 300
    answer = transformers.pipeline("question-answering", model=net, tokenizer=own, device="cpu")
    for context in CONTEXTS[:3]:
        theirs = answer(question=QUESTION, context=context, align_to_words=False)
        ours = rows(phasor, "answer", path, QUESTION, context)[0]["answers"][0]
        assert abs(ours["score"] - theirs["score"]) < TOLERANCE
        assert (ours["start"], ours["end"]) == (theirs["start"], theirs["end"])
        assert ours["text"] == theirs["answer"]


@pytest.fixture(scope="module", params=WITH_TEXTS)
def tagger(request, tmp_path_factory):
    names = dict(enumerate(LABELS))
    back = {name: i for i, name in names.items()}
    folder = tmp_path_factory.mktemp("tagger")
    return made(request.param, "ForTokenClassification", folder, id2label=names, label2id=back)


@pytest.mark.parametrize("context", CONTEXTS)
def test_tags(tagger, phasor, context):
    net, own, path = tagger
    own.model_max_length = 300
    tag = transformers.pipeline(
        "token-classification", net, tokenizer=own, aggregation_strategy="simple", device="cpu"
    )
    theirs = tag(context)
    (ours,) = rows(phasor, "tag", path, context)
    said = [
        (e["label"], shown(e["score"]), e["text"], e["start"], e["end"]) for e in ours["entities"]
    ]
    assert [(e[0], shown(e[1]), *e[2:]) for e in load(path).tag(context)] == said
    for a, b in zip(ours["entities"], theirs, strict=True):
        assert a["label"] == b["entity_group"] and abs(a["score"] - b["score"]) < TOLERANCE
        assert (a["start"], a["end"]) == (b["start"], b["end"])
        assert a["text"] == context[a["start"] : a["end"]]


CHOICES = ["a town", "bread is made of flour", "", "people live in a town"]


CHOOSERS = [(name, {}) for name in WITH_TEXTS if name != "Deberta"]  # which has no such class
CHOOSERS += [
    ("Electra", {"summary_activation": "relu"}),
    ("ModernBert", {"classifier_pooling": "mean", "classifier_activation": "relu"}),
    ("DebertaV2", {"pooler_hidden_act": "relu"}),
]


@pytest.mark.parametrize("name, more", CHOOSERS, ids=lambda x: x if isinstance(x, str) else len(x))
def test_multiple_choice(tmp_path, phasor, name, more):
    net, own, path = made(name, "ForMultipleChoice", tmp_path, **more)
    enc = own([QUESTION] * len(CHOICES), CHOICES, return_tensors="pt", padding=True)
    with torch.no_grad():
        theirs = net(**{key: value[None] for key, value in enc.items()}).logits[0].tolist()
    ours = rows(phasor, "rank", path, QUESTION, *CHOICES)
    assert [row["text"] for row in ours] == [
        text for _, text in sorted(zip(theirs, CHOICES), reverse=True)
    ]
    for row in ours:
        there = theirs[CHOICES.index(row["text"])]
        assert abs(row["score"] - there) < TOLERANCE * max(1, abs(there))


@pytest.mark.parametrize(
    "name, value",
    [("summary_type", "mean"), ("summary_use_proj", False), ("summary_activation", 3)],
)
def test_a_summary_that_is_not_built(tmp_path, name, value):
    made("Electra", "ForMultipleChoice", tmp_path)
    where = tmp_path / "m" / "config.json"
    where.write_text(json.dumps({**read_json(where), name: value}))
    with pytest.raises(PhasorError, match=f"config.json: {name}: "):
        read_source(tmp_path / "m")


@pytest.mark.parametrize("end", ["ForQuestionAnswering", "ForMultipleChoice"])
def test_by_ids(tmp_path, end):
    """RoFormer's; of a choice its code looks at the last position."""
    net, _, path = made("RoFormer", end, tmp_path)
    reference = Reference(PhasorFile(path))
    rng = np.random.default_rng(9)
    for length in (1, 2, 17, 90):
        ids = rng.integers(5, len(WORDS), length)
        with torch.no_grad():
            if end == "ForMultipleChoice":
                theirs = net(torch.tensor(ids)[None, None]).logits.numpy()
            else:
                out = net(torch.tensor(ids)[None])
                theirs = torch.stack([out.start_logits[0], out.end_logits[0]], -1).numpy()
        ours = reference.output(reference.encode(ids))
        assert ours.size == theirs.size
        error = np.abs(ours.reshape(theirs.shape) - theirs).max()
        assert error < TOLERANCE * max(1, np.abs(theirs).max())


def test_what_has_no_spans(reader, tagger, phasor, golden_models):
    def refused(*words) -> str:
        done = subprocess.run([phasor, *words], capture_output=True, text=True)
        assert done.returncode == 1
        return done.stderr

    assert "answers no questions" in refused("answer", tagger[2], "a", "b")
    assert "labels no tokens" in refused("tag", golden_models / "tiny-bert-f32.phasor", "b")
    assert "no tokens in the text" in refused("answer", reader[2], QUESTION, "")
    done = subprocess.run([phasor, "answer", reader[2]], capture_output=True)
    assert done.returncode == 2 and b"expected a question" in done.stderr
