"""Decoders with classes beside transformers: `…ForSequenceClassification`, which looks at the last
token that is no padding, and `…ForTokenClassification`."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
import test_families_decoders as decoders
import tokenizers
import torch
import transformers
from save_newer import restore

from conversions import convert_to, refused
from phasor import convert
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.layout import F32
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import told

TOLERANCE = 1e-5
VOCABULARY, LONGEST, PAD = 57, 24, 3
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": LONGEST,
}
_GPT2 = {
    "vocab_size": VOCABULARY,
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 3,
    "n_positions": LONGEST,
}
_OPT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "ffn_dim": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": LONGEST,
    "word_embed_proj_dim": 14,
    "do_layer_norm_before": False,
}
_BLOOM = {"vocab_size": VOCABULARY, "hidden_size": 24, "n_layer": 2, "n_head": 3}
_GEMMA3 = {**_SIZES, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 9}
_NO_GROUPS = {k: v for k, v in _SIZES.items() if k != "num_key_value_heads"}
SEQUENCE, TOKENS = "ForSequenceClassification", "ForTokenClassification"
# The class and its configuration; PAD None: the configuration has no padding.
CASES = {
    "Llama": (SEQUENCE, _SIZES, PAD),
    "Llama, one class": (SEQUENCE, {**_SIZES, "num_labels": 1}, None),
    "Qwen2": (SEQUENCE, {**_SIZES, "problem_type": "multi_label_classification"}, PAD),
    "Qwen3": (SEQUENCE, {**_SIZES, "head_dim": 10}, PAD),
    "Mistral": (SEQUENCE, {**_SIZES, "sliding_window": 5, "num_labels": 4}, PAD),
    "Gemma": (SEQUENCE, {**_SIZES, "head_dim": 8}, PAD),
    "Gemma2": (SEQUENCE, {**_SIZES, "head_dim": 8, "query_pre_attn_scalar": 8}, PAD),
    "Gemma3Text": (SEQUENCE, {**_GEMMA3, "num_labels": 4}, PAD),
    "Gemma3, its language model": (
        SEQUENCE,
        {"text_config": {**_GEMMA3, "pad_token_id": PAD}, "vision_config": decoders._VISION},
        PAD,
    ),
    "Phi3": (SEQUENCE, _SIZES, PAD),
    "GPTNeoX": (SEQUENCE, {**_NO_GROUPS, "rotary_pct": 0.7}, PAD),
    "GPT2": (SEQUENCE, _GPT2, PAD),
    "OPT, its own projection": (SEQUENCE, _OPT, PAD),
    "Bloom": (SEQUENCE, _BLOOM, PAD),
    "Llama, tokens": (TOKENS, {**_SIZES, "num_labels": 5}, PAD),
    "GPT2, tokens": (TOKENS, _GPT2, PAD),
}


class Classifier:
    def __init__(self, name: str, folder) -> None:
        torch.manual_seed(len(name))
        end, config, self.pad = CASES[name]
        self.tokens = end == TOKENS
        kind = getattr(transformers, name.split(",")[0] + end)
        config = {"num_labels": 3, **config, "pad_token_id": self.pad}
        self.net = kind(kind.config_class(**config, attn_implementation="eager")).eval()
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(torch.randn_like(p) * 0.3 + (p.dim() == 1))
        self.net.save_pretrained(folder / "m")
        model, sections = read_source(folder / "m")
        self.path = folder / "m.phasor"
        convert.convert(model, self.path, F32, sections, None, quiet=True)

    def logits(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            return self.net(torch.tensor([ids])).logits[0].numpy()

    def scores(self, ids: list[int]) -> np.ndarray:
        logits = torch.tensor(self.logits(ids))
        many = self.net.config.problem_type == "multi_label_classification"
        one = self.net.config.num_labels == 1
        return (logits.sigmoid() if many or one else logits.softmax(-1)).numpy()


@pytest.fixture(scope="module", params=CASES)
def classifier(request, tmp_path_factory):
    return Classifier(request.param, tmp_path_factory.mktemp("classifier"))


def texts() -> list[list[int]]:
    rng = np.random.default_rng(3)
    return [rng.integers(PAD + 1, VOCABULARY, n).tolist() for n in (1, 2, 9, LONGEST)]


def near(a: np.ndarray, b: np.ndarray) -> bool:
    assert a.shape == b.shape
    return float(np.abs(a - b).max()) < TOLERANCE * max(1.0, float(np.abs(b).max()))


def test_the_file_says_what_it_is(classifier):
    d = PhasorFile(classifier.path).descriptor
    assert d["model"]["stack"] == D.ENCODER and all(kind["causal"] for kind in d["kinds"])
    assert d["output"]["output"] == D.CLASSES and d["source"]["pad"] == classifier.pad
    assert d["output"]["pooling"] == (0 if classifier.tokens else D.LAST)
    assert d["output"]["bias"] == int(classifier.tokens)


def test_the_reference(classifier):
    reference = Reference(PhasorFile(classifier.path))
    for ids in texts():
        theirs = classifier.logits(ids)
        ours = reference.output(reference.encode(np.array(ids)))
        assert near(ours.reshape(theirs.shape), theirs)


def by_program(phasor, classifier, lists: list[list[int]]) -> list[np.ndarray]:
    given = "".join(",".join(map(str, ids)) + "\n" for ids in lists)
    words = [phasor, "classify", classifier.path, "--ids", "-", "--json", "--quiet"]
    done = told(*words, stdin=given)
    labels = [classifier.net.config.id2label[i] for i in range(classifier.net.config.num_labels)]

    def row(scored: list) -> list[float]:
        return [next(s["score"] for s in scored if s["label"] == label) for label in labels]

    answers = [json.loads(line) for line in done.splitlines()]
    return [
        np.array([row(t["labels"]) for t in a["tokens"]] if classifier.tokens else row(a["labels"]))
        for a in answers
    ]


def test_the_program(classifier, phasor):
    lists = texts()
    for ids, ours in zip(lists, by_program(phasor, classifier, lists), strict=True):
        assert near(ours, classifier.scores(ids))


def test_padding_behind_a_text_is_not_looked_at(classifier, phasor):
    """Of a model that has no padding id, the last token counts whatever it is."""
    ids = texts()[2]
    lists = [ids, [*ids, PAD], [*ids, PAD, PAD], [*ids, PAD, 5, PAD], [PAD, PAD]]
    if classifier.tokens:
        lists = lists[:1]
    ours = by_program(phasor, classifier, lists)
    for one, given in zip(ours, lists, strict=True):
        assert near(one, classifier.scores(given))
    if not classifier.tokens and classifier.pad is not None:
        assert np.array_equal(ours[0], ours[1]) and np.array_equal(ours[0], ours[2])
        assert not np.array_equal(ours[0], ours[3])


def class_of(case: decoders.Case) -> str | None:
    """The case's class with classes, where transformers has one."""
    if "is_decoder" in case.config:  # whose classes are an encoder's
        return None
    start = case.model.removesuffix("ForCausalLM").removesuffix("LMHeadModel")
    start += "Text" * (start == "Gemma3")  # whose other class has a part for pictures
    ends = (SEQUENCE, TOKENS)
    return next((start + end for end in ends if hasattr(transformers, start + end)), None)


EVERY = [case for case in decoders.CASES if class_of(case)]


@pytest.mark.parametrize("case", EVERY, ids=lambda c: c.name)
def test_every_decoder(case, tmp_path):
    config = {**case.config, "num_labels": 3, "pad_token_id": 0}
    kind = getattr(transformers, class_of(case))
    net = decoders.randomized(kind, config, len(case.name)).eval()
    net.save_pretrained(tmp_path / "m")
    restore(tmp_path / "m", config)
    model, sections = read_source(tmp_path / "m")
    convert.convert(model, tmp_path / "m.phasor", F32, sections, None, quiet=True)
    reference, rng = Reference(PhasorFile(tmp_path / "m.phasor")), np.random.default_rng(5)
    for length in (1, 2, 9, 40):
        ids = rng.integers(1, decoders.VOCABULARY, length)
        with torch.no_grad():
            theirs = net(torch.tensor(ids)[None]).logits[0].numpy()
        ours = reference.output(reference.encode(ids))
        assert near(ours.reshape(theirs.shape), theirs)


def test_how_many_families_have_classes():
    families = {case.model for case in EVERY}
    assert len(families) >= 34 and {"MptForCausalLM", "OpenAIGPTLMHeadModel"} <= families


@pytest.mark.parametrize("seed", range(20))
def test_two_classes_as_q4(seed, tmp_path, phasor, capsys):
    """Of two logits that are nearly one the rounding may be more than their distance: the file's
    own vectors pass nonetheless."""
    torch.manual_seed(seed)
    sizes = {**_NO_GROUPS, "hidden_size": 32, "intermediate_size": 64, "num_labels": 2}
    kind = transformers.BertForSequenceClassification
    net = kind(transformers.BertConfig(**sizes, initializer_range=(0.02, 0.2, 1.0)[seed % 3]))
    net.save_pretrained(tmp_path / "m")
    out = tmp_path / "m.phasor"
    convert_to(tmp_path / "m", out, "--type", "q4", "--phasor", phasor)
    told(phasor, "verify", out)


WORDS = "<unk> </s> <s> how many people live in a town bread is made of flour".split()
LINES = ["a town", "people live in a town", "bread is made of flour </s>", "bread bread"]


@pytest.fixture(scope="module", params=["end", "none"])
def reranker(request, tmp_path_factory):
    """A Llama with one class, its tokenizer and its file. Its padding is the token that ends a
    text, as many have it, or none."""
    folder = tmp_path_factory.mktemp("reranker") / "m"
    torch.manual_seed(8)
    pad = 1 if request.param == "end" else None
    config = {**_SIZES, "vocab_size": len(WORDS), "num_labels": 1, "pad_token_id": pad}
    net = transformers.LlamaForSequenceClassification(transformers.LlamaConfig(**config)).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (p.dim() == 1))
    net.save_pretrained(folder)
    words = {word: i for i, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(words, unk_token="<unk>", continuing_subword_prefix="##")
    )
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.decoder = tokenizers.decoders.WordPiece()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 2), ("</s>", 1)]
    )
    own = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="<unk>",
        eos_token="</s>",
        pad_token="</s>",
        model_input_names=["input_ids", "attention_mask"],
    )
    own.save_pretrained(folder)
    model, sections = read_source(folder)
    convert.convert(model, folder / "m.phasor", F32, sections, None, quiet=True)
    return net, own, folder / "m.phasor"


def score(reranker, *texts: str) -> float:
    net, own, _ = reranker
    with torch.no_grad():
        return net(**own(*texts, return_tensors="pt")).logits.sigmoid().item()


def test_texts_and_their_end(reranker, phasor):
    words = [phasor, "classify", reranker[2], "--json", "--quiet", *LINES]
    done = told(*words)
    for line, answer in zip(LINES, done.splitlines(), strict=True):
        found = json.loads(answer)["labels"][0]["score"]
        assert abs(found - score(reranker, line)) < TOLERANCE


def test_rank(reranker, phasor):
    query = "how many people"
    words = [phasor, "rank", reranker[2], query, *LINES, "--json", "--quiet"]
    done = told(*words)
    rows = [json.loads(line) for line in done.splitlines()]
    theirs = {line: score(reranker, query, line) for line in LINES}
    assert [row["text"] for row in rows] == sorted(LINES, key=lambda line: -theirs[line])
    assert all(abs(row["score"] - theirs[row["text"]]) < TOLERANCE for row in rows)


# ---- a language model that judges pairs

TEMPLATE = "<|a|>judge<|b|>\n<Query>: {query}\n<Document>: {document}<|b|>\n<|a|>"
_PAIRS = ["a town", "people live", "Bread is made\tof flour", "x<|b|>y", "", "  z"]


def _judge(folder, kind, config, tied: bool):
    torch.manual_seed(4)
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = {letter: i + 2 for i, letter in enumerate(letters)}
    words |= {"<|a|>": 0, "<|b|>": 1}
    for i, piece in enumerate(("ye", "yes", "no")):
        words[piece] = 258 + i
    merges = [("y", "e"), ("ye", "s"), ("n", "o")]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(words, merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|a|>", "<|b|>"])
    own = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|b|>")
    config = {**config, "vocab_size": 264, "max_position_embeddings": 200}
    net = kind(kind.config_class(**config, tie_word_embeddings=tied, attn_implementation="eager"))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * 0.2 + (p.dim() == 1))
    net.eval().save_pretrained(folder)
    own.save_pretrained(folder)
    return net, own


@pytest.mark.parametrize(
    "name, config, tied, tokens",
    [
        ("Qwen3ForCausalLM", {**_SIZES, "head_dim": 10}, True, "yes,no"),
        ("Qwen3ForCausalLM", {**_SIZES, "head_dim": 10}, False, "#259,no"),
        ("Gemma2ForCausalLM", {**_SIZES, "head_dim": 8, "query_pre_attn_scalar": 8}, True, "yes"),
        ("PhiForCausalLM", {**_NO_GROUPS, "partial_rotary_factor": 0.7}, False, "yes,no"),
    ],
)
def test_a_language_model_that_judges(tmp_path, phasor, name, config, tied, tokens):
    """As Qwen3-Reranker's card: the probability of yes beside no behind the last token; and the
    plain logit of yes, as the rerankers of Gemma have it."""
    net, own = _judge(tmp_path / "m", getattr(transformers, name), config, tied)
    out = tmp_path / "m.phasor"
    convert_to(tmp_path / "m", out, "--rank-template", TEMPLATE, "--rank-tokens", tokens)
    ranked = ["rank", out, "how \tmany", *_PAIRS, "--json", "--quiet"]
    done = told(phasor, *ranked)
    found = {one["text"]: one["score"] for one in map(json.loads, done.splitlines())}
    ids = [own.convert_tokens_to_ids(piece) for piece in ("yes", "no")]
    assert ids == [259, 260] and set(found) == set(_PAIRS)
    for text in _PAIRS:
        whole = TEMPLATE.replace("{query}", "how \tmany").replace("{document}", text)
        with torch.no_grad():
            logits = net(**own(whole, return_tensors="pt")).logits[0, -1, ids]
        theirs = logits.softmax(0)[0].item() if "," in tokens else logits[0].item()
        assert abs(found[text] - theirs) < TOLERANCE
    assert np.ptp(list(found.values())) > 1e-3
    cut = [phasor, "rank", out, "a", "b", "--truncate"]
    refused = subprocess.run(cut, capture_output=True, text=True)
    assert refused.returncode == 2 and "--truncate: the model reads two texts" in refused.stderr


def test_what_cannot_judge(tmp_path, capsys):
    sizes = {**_SIZES, "head_dim": 8, "query_pre_attn_scalar": 8}
    _judge(tmp_path / "m", transformers.Gemma2ForCausalLM, sizes, True)
    for template, tokens, line in (
        ("{query}", "yes", "expected {document} once"),
        ("{document}{query}", "yes", "expected {query} before {document}"),
        ("{query}{document}\x1f", "yes", "a separator of the format"),
        ("{query}{document}", "maybe", "'maybe' is no piece of"),
        ("{query}{document}\udcff", "yes", "--rank-template: is not UTF-8"),
        ("{query}{document}" + "x" * 300000, "yes", "output.prompts: expected at most"),
        ("{query}{document}", "#264", "'#264' is no piece of"),
        ("{query}{document}", "#" + "9" * 5000, "is no piece of"),
        ("{query}{document}", "yes,yes", "expected YES or YES,NO"),
        ("{query}{document}", "yes,no", "the logits are capped"),
    ):
        flags = ["--rank-template", template, "--rank-tokens", tokens]
        assert line in refused(tmp_path / "m", tmp_path / "o.phasor", capsys, *flags)
    for flags in (["--rank-template", "{query}{document}"], ["--rank-tokens", "yes"]):
        with pytest.raises(SystemExit):
            convert.main([str(tmp_path / "m"), "-o", str(tmp_path / "o.phasor"), *flags])
