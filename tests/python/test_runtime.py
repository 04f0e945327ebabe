"""`phasor.load` (tools/phasor/runtime): the same bits as the program, and errors, threads and
signals that end as exceptions."""

from __future__ import annotations

import ctypes
import json
import random
import re
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import numpy as np
import pytest

import phasor
import random_models as M
from phasor import Status
from phasor.errors import PhasorError
from phasor.format import descriptor as D
from phasor.format import file as F
from phasor.runtime import _interface as c
from phasor.runtime import library
from phasor.tokenizers.models.word_list import build_wordlist_section
from places import ROOT, program, run_python, there, told

GOLDEN = ROOT / "tests/golden/models"
TRANSLATOR = ROOT / "models/zh-en-small.phasor"
LANGUAGE = ROOT / "models/positions/rotary.phasor"
TEXTS = """我有一只猫。
你叫什么名字？
今天天气很好。
他在学校学习中文。

我们明天去北京。
这本书很有意思。
""".splitlines()


@pytest.fixture(scope="module", autouse=True)
def shared() -> Path:
    return there(ROOT / "build/libphasor.so.0", "run make shared")


@pytest.fixture(scope="module")
def translator() -> phasor.Model:
    return phasor.load(TRANSLATOR)


@pytest.fixture(scope="module")
def language() -> phasor.Model:
    return phasor.load(LANGUAGE)


def run(*words: object, stdin: str | None = None) -> str:
    return told(program(), *words, "--quiet", stdin=stdin)


def refusal(call, *arguments, **named) -> phasor.Error:
    with pytest.raises(phasor.Error) as caught:
        call(*arguments, **named)
    assert len(str(caught.value).splitlines()) == 1
    return caught.value


# ---- the interface


def test_the_declarations_are_the_recorded_ones():
    """The layout is what ctypes makes of the fields, the record what the compiler made of them."""
    record = tomllib.loads((ROOT / "src/facts/abi.toml").read_text(encoding="utf-8"))
    assert set(c.FUNCTIONS) == set(record["functions"])
    for name, (size, fields) in record["structs"].items():
        struct = getattr(c, "".join(word.capitalize() for word in name.split("_")[1:]))
        found = [
            [n, getattr(struct, n).offset, getattr(struct, n).size] for n, _ in struct._fields_
        ]
        assert (ctypes.sizeof(struct), found) == (size, fields), name
    for name, value in record["constants"].items():
        short = name.removeprefix("PHASOR_")
        assert getattr(Status, short, None) == value or getattr(c, short) == value


def test_import_takes_no_time():
    """The package itself loads nothing; the runtime is cheap beside NumPy, in processor time."""
    code = """
import sys, time, numpy
begin = time.process_time()
import phasor
assert not [name for name in sys.modules if name.startswith("phasor.")]
phasor.load
print(time.process_time() - begin, *(n for n in sys.modules if n.startswith("phasor.sources")))
"""
    assert any(float(run_python("-c", code, newer=False)) < 0.1 for _ in range(5))


def test_a_missing_library_says_what_to_do(monkeypatch, tmp_path):
    library.library.cache_clear()
    try:
        monkeypatch.setattr(library, "_ROOT", tmp_path)
        (tmp_path / "Makefile").touch()
        error = refusal(phasor.load, TRANSLATOR)
        assert "libphasor.so.0: the shared library is missing. TRY: run make shared" in str(error)
        (tmp_path / "build").mkdir()
        (tmp_path / "build/libphasor.so.0").write_bytes(b"no library")
        error = refusal(phasor.load, TRANSLATOR)
        assert "not the shared library of this package" in str(error)
        assert error.status == Status.UNSUPPORTED
    finally:
        library.library.cache_clear()


# ---- the same bits


def test_ids_and_texts(translator, language):
    for text in TEXTS:
        said = told(program(), "tokenize", TRANSLATOR, "--print-ids", text).strip()
        assert translator.tokenize(text) == [int(word) for word in said.split(",")]
        bare = translator.tokenize(text, add_special_tokens=False)
        assert translator.detokenize(bare, side="source") == text
        ids, places = translator.tokenize(text, offsets=True)
        said = json.loads(told(program(), "tokenize", TRANSLATOR, "--offsets", "--json", text))
        assert (ids, [list(place) for place in places]) == (said["ids"], said["offsets"])
        assert ids == translator.tokenize(text) and places[-1] == (0, 0)
        assert "".join(text[begin:end] for begin, end in places) == text
    # one session for both sides, which have tokenizers of their own: each forgets the other's texts
    fresh = {}
    for side in ("source", "target"):
        with phasor.load(TRANSLATOR) as alone:
            fresh[side] = [alone.tokenize(text, side=side) for text in TEXTS]
    assert fresh["source"] != fresh["target"]
    for _ in range(2):
        for number, text in enumerate(TEXTS):
            for side, ids in fresh.items():
                assert translator.tokenize(text, side=side) == ids[number]
    long = "The game was played." * 1000
    assert language.detokenize(language.tokenize(long)) == long


@pytest.mark.parametrize("threads", [1, 3])
def test_translations(threads):
    lines = "\n".join(TEXTS) + "\n"
    with phasor.load(TRANSLATOR, threads=threads) as model:
        assert model.translate(TEXTS) == run("run", TRANSLATOR, stdin=lines).splitlines()
        assert model.translate(TEXTS[0]) == model.translate(TEXTS)[0]
        flags = ("--beam", 4, "--n-best", 3)
        for text in filter(None, TEXTS):
            said = run("run", TRANSLATOR, *flags, text).splitlines()
            expected = [line.split("\t")[1] for line in said]
            assert model.translate(text, beam=4, n_best=3) == expected
        assert model.translate(TEXTS[:2], beam=4, n_best=2) == [
            model.translate(text, beam=4, n_best=2) for text in TEXTS[:2]
        ]
        assert model.translate([]) == []


@pytest.mark.parametrize(
    "options,flags",
    [
        ({"max_new": 30}, ["-n", 30]),
        ({"max_new": 40, "temperature": 0.8, "seed": 7}, "-n 40 --temperature 0.8 --seed 7"),
        ({"max_new": 9, "top_k": 9, "top_p": 0.9, "seed": 5}, "-n 9 --top-k 9 --top-p .9 --seed 5"),
        ({"max_new": 40, "stop": " the"}, ["-n", 40, "--stop", " the"]),
        ({"max_new": 40, "stop": [" song", " and"]}, "-n 40 --stop=\\ song --stop=\\ and"),
    ],
)  # fmt: skip
def test_streams(language, options, flags):
    words = flags if isinstance(flags, list) else flags.replace("\\ ", "\0").split()
    words = [str(word).replace("\0", " ") for word in words]
    pieces = list(language.stream("The game was", **options))
    assert "".join(pieces) + "\n" == run("run", LANGUAGE, *words, "The game was")
    assert len(pieces) > 1


def test_streams_with_drawn_stops(language):
    """Stop strings that overlap, end in a piece's middle or only begin: cut where the program
    cuts."""
    rng, prompt = random.Random(36), "In the year"
    text = "".join(language.stream(prompt, max_new=60))
    for _ in range(24):
        starts = [rng.randrange(len(text) - 9) for _ in range(rng.randint(1, 4))]
        stops = [text[at : at + rng.randint(1, 9)] for at in starts]
        stops = [one[:-1] + rng.choice([one[-1], "x"]) for one in stops]
        flags = [f"--stop={one}" for one in stops]
        found = "".join(language.stream(prompt, max_new=60, stop=stops))
        assert found + "\n" == run("run", LANGUAGE, "-n", 60, *flags, prompt), stops


@pytest.mark.parametrize(
    "side,generation",
    [
        ({"forced_first": 7}, {}),
        ({}, {"forced_last": 9, "max_new": 5}),
        ({"forced_first": 7}, {"forced_last": 9, "max_new": 1}),
        ({}, {"min_new": 9, "suppressed": [11, 12]}),
        ({}, {"repetition_penalty": 1.7, "no_repeat_ngram": 2}),
        ({}, {"bad_words": [1, 5, 2, 6, 7], "source_no_repeat_ngram": 2, "max_new": 12}),
    ],
)
def test_streams_as_the_file_recommends(tmp_path, side, generation):
    words = ["<unk>", "<s>", "</s>", *(f"word{i}" for i in range(20))]
    descriptor = M.translator()
    sides = {"source": F.SOURCE_TOKENIZER, "target": F.TARGET_TOKENIZER}
    for name, section in sides.items():
        descriptor[name] |= {"vocabulary": len(words), "tokenizer": section}
    descriptor["source"] |= {"suffix": [2]}
    descriptor["target"] |= side
    descriptor["generation"] = generation
    section, path = build_wordlist_section(words, 0, (1, 2)), tmp_path / "m.phasor"
    M.write_random(path, descriptor, extra=dict.fromkeys(sides.values(), section))
    with phasor.load(path) as model:
        for text in drawn("word1 word2 word3 word4 word5 word6 word7", 12):
            found = "".join(model.stream(text, max_new=generation.get("max_new", 20)))
            assert found == model.translate(text, max_new=generation.get("max_new", 20))
            assert found + "\n" == run("run", path, "-n", generation.get("max_new", 20), text)


def test_a_stream_of_a_translator(translator):
    assert "".join(translator.stream(TEXTS[0])) == translator.translate(TEXTS[0])


def test_vectors(tmp_path):
    path, out = tmp_path / "m.phasor", tmp_path / "out.npy"
    M.write_ranker(path, classes=3)
    texts = [" ".join(f"word{i % 20}" for i in range(n % 9 + 1)) for n in range(70)]
    run("embed", path, "--npy", out, stdin="".join(f"{text}\n" for text in texts))
    expected = np.load(out)
    for threads in (1, 2):
        model = phasor.load(path, threads=threads)
        found = model.encode(texts)
        assert found.dtype == np.float32 and found.tobytes() == expected.tobytes()
        assert model.encode(texts[5]).tobytes() == expected[5].tobytes()
        assert model.encode([]).shape == (0, expected.shape[1])
        with pytest.raises(phasor.Error, match="prompt and prompt_name: expected one of them"):
            model.encode(texts[5], prompt="a", prompt_name="b")


def objects(*words: object, lines: list[str]) -> list[dict]:
    """What the program says of each line, with --json."""
    said = run(*words, "--json", stdin="".join(f"{line}\n" for line in lines))
    return [json.loads(line) for line in said.splitlines()]


def shown(score: float) -> float:
    """As the program's JSON has it, which rounds."""
    return float(f"{score:.12g}")


def drawn(words: str, count: int = 200) -> list[str]:
    rng, known = random.Random(count), words.split()
    return [" ".join(rng.choices(known, k=rng.randrange(1, 9))) for _ in range(count)]


WORDS = drawn(" ".join(f"word{i}" for i in range(20)))


@pytest.fixture(scope="module")
def inference(tmp_path_factory) -> phasor.Model:
    path = tmp_path_factory.mktemp("inference") / "m.phasor"
    labels = "".join(one + D.RECORD_END for one in ("Entailment", "neutral", "other"))
    M.write_ranker(path, classes=3, labels=labels, scores=D.SOFTMAX)
    return phasor.load(path, threads=2)


@pytest.mark.parametrize(
    "named,flags",
    [
        ({}, []),
        ({"top_k": 2}, ["--top", 2]),
        ({"text_pair": WORDS[::-1]}, ["--pair"]),
        ({"candidate_labels": ["word1", "word2 word5"]}, ["--labels", "word1,word2 word5"]),
        ({"candidate_labels": ["word3"]}, ["--labels", "word3"]),
        (
            {"candidate_labels": ["word1", "word2"], "multi_label": True,
             "hypothesis_template": "word7 {}"},
            ["--labels", "word1,word2", "--multi-label", "--template", "word7 {}"],
        ),
    ],
)  # fmt: skip
def test_classes(inference, named, flags):
    pairs = "text_pair" in named
    lines = [f"{a}\t{b}" for a, b in zip(WORDS, WORDS[::-1])] if pairs else WORDS
    expected = [
        one["labels"] for one in objects("classify", inference.info.path, *flags, lines=lines)
    ]
    found = inference.classify(WORDS, **named)
    assert [[{"label": x.label, "score": shown(x.score)} for x in one] for one in found] == expected
    if not pairs:
        assert inference.classify(WORDS[3], **named) == found[3]


def test_classes_of_a_decoder(tmp_path):
    """Read at the text's last end token, as BART's and T5's classifiers have it."""
    words = ["<unk>", "<s>", "</s>", *(f"word{i}" for i in range(20))]
    path = tmp_path / "m.phasor"
    output = {"output": D.CLASSES, "classes": 3, "scores": D.SOFTMAX}
    descriptor = M.translator(output=output)
    descriptor["source"] |= {"vocabulary": 23, "tokenizer": F.SOURCE_TOKENIZER, "end": [2]}
    descriptor["source"] |= {"suffix": [2], "unknown": 0}
    extra = {F.SOURCE_TOKENIZER: build_wordlist_section(words, 0, (1, 2))}
    M.write_random(path, descriptor, extra=extra)
    expected = [one["labels"] for one in objects("classify", path, lines=WORDS)]
    found = phasor.load(path).classify(WORDS)
    assert [[{"label": x.label, "score": shown(x.score)} for x in one] for one in found] == expected


def test_ranks(tmp_path):
    for late in (None, D.HIDDEN_EXPANSION, 0):
        path, flags = tmp_path / f"{late}.phasor", []
        if late is None:
            M.write_ranker(path)
        else:
            M.write_late(path, expansion=late)
            flags = ["--late"]
        said = objects("rank", path, *flags, "--top", 150, "word1 word2", lines=WORDS)
        expected = [(one["line"] - 1, one["score"], one["text"]) for one in said]
        found = phasor.load(path).rank("word1 word2", WORDS, top_k=150)
        assert [(one.corpus_id, shown(one.score), one.text) for one in found] == expected


LABELS = ("thing", "O", "I-PER", "B-PER", "I-LOC", "B-ORG", "I-ORG", "other", "B-LOC")
# With spaces that belong to no word, characters of several bytes, and words without an id.
SPACED = [("  " if i % 3 else "ä☃ ") + one.replace(" ", " " * (1 + i % 2)) + " " * (i % 4)
          for i, one in enumerate(WORDS)]  # fmt: skip


@pytest.fixture(scope="module")
def tagger(tmp_path_factory) -> phasor.Model:
    path = tmp_path_factory.mktemp("tagger") / "m.phasor"
    labels = "".join(one + D.RECORD_END for one in LABELS)
    M.write_ranker(path, classes=len(LABELS), pooling=0, scores=D.SOFTMAX, labels=labels)
    return phasor.load(path, threads=2)


@pytest.fixture(scope="module")
def reader(tmp_path_factory) -> phasor.Model:
    path = tmp_path_factory.mktemp("reader") / "m.phasor"
    M.write_spans(path)
    return phasor.load(path)


def test_entities(tagger):
    said = objects("tag", tagger.info.path, lines=SPACED)
    expected = [[tuple(entity.values()) for entity in one["entities"]] for one in said]
    found = tagger.tag(SPACED)
    shape = [[(*x[3:], x.word, x.entity_group, shown(x.score)) for x in one] for one in found]
    assert shape == expected and {x[3] for one in shape for x in one} == {"LOC", "thing"}
    assert any(a[3] == b[3] for one in shape for a, b in zip(one, one[1:]))  # B- begins a new one
    assert tagger.tag(SPACED[3]) == found[3] and tagger.tag("") == []


@pytest.mark.parametrize(
    "named,flags",
    [({}, []), ({"top_k": 2}, ["--top", 2]), ({"text_pair": WORDS[::-1]}, ["--pair"])],
)
def test_classes_of_tokens(tagger, named, flags):
    lines = [f"{a}\t{b}" for a, b in zip(SPACED, WORDS[::-1])] if "text_pair" in named else SPACED
    said = objects("classify", tagger.info.path, *flags, lines=lines)
    expected = [
        [(t["id"], t["piece"], [tuple(x.values()) for x in t["labels"]]) for t in one["tokens"]]
        for one in said
    ]
    found = tagger.classify_tokens(SPACED, **named)
    assert [
        [(t.token, t.token_str, [(x.label, shown(x.score)) for x in t.labels]) for t in one]
        for one in found
    ] == expected
    assert "text_pair" in named or tagger.classify_tokens(SPACED[7], **named) == found[7]


@pytest.mark.parametrize(
    "named,flags",
    [
        ({}, []),
        ({"top_k": 9, "handle_impossible_answer": True}, ["--top", 9, "--null"]),
        ({"top_k": 100, "max_answer_len": 2}, ["--top", 100, "--max-answer", 2]),
    ],
)
def test_answers(reader, named, flags):
    question = "word3  word5"
    said = objects("answer", reader.info.path, *flags, question, lines=SPACED)
    expected = [[tuple(answer.values()) for answer in one["answers"]] for one in said]
    found = reader.answer(question, SPACED, **named)
    shape = [[(*x[2:], x.answer, shown(x.score)) for x in one] for one in found]
    assert shape == expected
    assert ("null" in str(flags)) == any(x[1] == 0 for one in shape for x in one)
    assert reader.answer(question, SPACED[3], **named) == found[3]


def test_masks(tmp_path):
    path = tmp_path / "m.phasor"
    M.write_ranker(path, output=D.LOGITS, classes=0, pooling=0, scores=0)
    model = phasor.load(path)
    lines = [f"{one} word19 word3 word19" for one in WORDS]  # word19: the mask
    expected = [
        [[tuple(best.values()) for best in mask["best"]] for mask in one["masks"]]
        for one in objects("fill", path, lines=lines)
    ]
    found = [[[(*x[:2], shown(x.score)) for x in m] for m in one] for one in model.fill(lines)]
    assert found == expected and all(len(one) >= 2 for one in found)
    assert len(model.fill(lines[0], top_k=3)[0]) == 3
    assert "no mask token (word19) in the text" in str(refusal(model.fill, "word3"))


def test_log_probabilities(language, translator):
    lines = [
        f"the {one}" for one in drawn("the game song of 1 a and his with was played in London by")
    ]
    said = objects("score", LANGUAGE, "--lines", lines=lines)
    expected = [(one["log_probability"], one["perplexity"], one["tokens"]) for one in said]
    found = language.score(lines, top_logprobs=2)
    assert [
        (shown(one.log_probability), shown(one.perplexity), len(one.tokens)) for one in found
    ] == expected
    for token in found[0].tokens:
        best, second = token.top_logprobs
        assert best[1] >= second[1] and token.logprob <= best[1]
        assert token.token != best[0] or token.logprob == best[1]
    long = "The game was played. " * 60
    said = json.loads(run("score", LANGUAGE, "--json", "--context", 512, long))
    assert shown(language.score(long).log_probability) == said["log_probability"]
    target = translator.translate(TEXTS[0])
    [said] = objects("score", TRANSLATOR, "--target", target, lines=TEXTS[:1])
    assert (
        shown(translator.score(TEXTS[0], target=target).log_probability) == said["log_probability"]
    )


@pytest.mark.parametrize(
    "named,flags", [({}, []), ({"beam": 3, "n_best": 2}, "--beam 3 --n-best 2")]
)
def test_alignments(translator, named, flags):
    words = flags.split() if flags else []
    said = objects("run", TRANSLATOR, "--align", *words, lines=TEXTS)
    for found, one in zip(translator.translate(TEXTS, align=True, **named), said, strict=True):
        outputs = one.get("outputs", [one])
        for made, expected in zip(found if named else [found], outputs):
            pairs = expected["alignment"]
            assert made.text == expected["text"]
            assert [list(pair) for pair in made.pairs] == pairs["pairs"]
            assert (list(made.source), list(made.target)) == (pairs["source"], pairs["target"])


@pytest.mark.parametrize(
    "named,flags",
    [
        ({"temperature": 0}, "--greedy"),
        ({"seed": 5}, "--seed 5"),
        ({"seed": 3, "temperature": 0.7, "stop": "e"}, "--seed 3 --temperature 0.7 --stop e"),
    ],
)
def test_chats(named, flags):
    path = GOLDEN / "tiny-chat-f32.phasor"
    model, messages = phasor.load(path), [{"role": "system", "content": "Be kind."}]
    lines = ["hello", "how is it", "good"]
    words = ("--system", "Be kind.", "-n", 12, *flags.split())
    for line, said in zip(lines, objects("chat", path, *words, lines=lines), strict=True):
        messages.append({"role": "user", "content": line})
        answer = model.chat(messages, max_new=12, **named)
        assert (
            answer
            == said["text"]
            == "".join(model.chat(messages, max_new=12, stream=True, **named))
        )
        if "seed" in named:
            break  # the program's next answer goes on with the same random numbers
        messages.append({"role": "assistant", "content": answer})
    for wrong in ([{"role": "user"}], "a text"):
        assert "expected a role and a content" in str(refusal(model.chat, wrong))


@pytest.mark.parametrize("name", ["tiny-lm-f32", "tiny-lm-q8", "tiny-gptj-q4", "tiny-neox-f32"])
def test_logits_of_steps(name, tmp_path):
    path, ids = GOLDEN / f"{name}.phasor", [5, 9, 17, 4, 11]
    words = ("--ids", ",".join(map(str, ids)), "-n", 1, "--logits", tmp_path / "l.npy")
    run("run", path, *words)
    expected = np.load(tmp_path / "l.npy")
    model = phasor.load(path)
    with model.session(context=32, sequences=2, logit_rows=len(ids)) as session:
        logits = session.step(ids, logits="all").logits
        assert logits.tobytes() == expected.tobytes()
        assert not logits.flags.writeable and np.shares_memory(logits, session.arena)
        for row, token in zip(expected, ids):
            assert session.step([token], sequence=1).logits.tobytes() == row.tobytes()
        assert session.length(0) == session.length(1) == len(ids)
        # What a sequence continues with is the same, however it came there.
        after = session.step([7]).logits.tobytes()
        session.truncate(len(ids))
        session.fork(1)
        assert session.step([7], sequence=1).logits.tobytes() == after
        state = session.save()
        session.clear()
        assert session.length() == 0 and session.step([3], logits="none").logits.shape[0] == 0
        session.restore(state)
        last = session.step(np.array([7], np.int64)).logits
        assert last.tobytes() == after
    assert last.tobytes() == after  # a view keeps the memory of a session that is closed


def test_steps_of_a_translator(translator):
    with translator.session() as session:
        session.encode(translator.tokenize(TEXTS[0]))
        ids = [int(translator.info.fields["target.decoder_start"])]
        for _ in range(20):
            ids.append(int(session.step(ids[-1:]).logits.argmax()))
    text = translator.translate(TEXTS[0])
    assert translator.detokenize(ids[1:]).startswith(text)


def test_what_a_file_says(translator, language):
    info = translator.info
    assert (info.kind, info.output, info.vectors) == ("encoder-decoder", "logits", 3)
    assert info.fields["decoder.width"] == str(info.width)
    assert language.info.kind == "decoder" and not language.info.chat
    classes = phasor.load(GOLDEN / "tiny-classes-f32.phasor")
    assert len(classes.info.classes) == 3 and classes.info.output == "classes"
    assert phasor.load(TRANSLATOR, isa="scalar").info.isa == "scalar"


@pytest.mark.parametrize("name", ["tiny-d2l-q8", "tiny-bert-f32", "tiny-lm-q8", "tiny-classes-q8"])
def test_verify(name):
    with phasor.load(GOLDEN / f"{name}.phasor") as model:
        assert model.verify() == model.info.vectors > 0


# ---- errors


def test_a_damaged_file(tmp_path):
    """Whatever is done to it, it is refused or gives what it gave, and no signal ends the tests."""
    whole, path = (GOLDEN / "tiny-d2l-q8.phasor").read_bytes(), tmp_path / "m.phasor"
    rng = np.random.default_rng(3)
    statuses = set()
    for number in range(60):
        data = bytearray(whole)
        if number % 3 == 0:
            data = data[: int(rng.integers(len(data)))]
        else:
            data[int(rng.integers(2048 if number % 3 == 1 else len(data)))] ^= 1 << number % 8
        path.write_bytes(data)
        try:
            with phasor.load(path) as model:
                model.verify()
        except phasor.Error as error:
            assert str(error).startswith(str(path))
            statuses.add(error.status)
    assert {Status.BAD_FILE, Status.BAD_CHECKSUM} <= statuses


def test_files_that_are_none(tmp_path):
    (tmp_path / "empty").touch()
    for path in (tmp_path, tmp_path / "empty", tmp_path / "absent", __file__, "a\0b"):
        error = refusal(phasor.load, path)
        assert error.status == Status.BAD_FILE and isinstance(error, PhasorError)


def test_wrong_arguments(translator, language, inference, tagger, reader):
    session = language.session(context=16)
    for call, arguments, named, says in [
        (phasor.load, [TRANSLATOR], {"threads": 0}, "threads=0: expected 1 to 256"),
        (phasor.load, [TRANSLATOR], {"isa": "none"}, 'instruction set "none"'),
        (phasor.load, [TRANSLATOR], {"isa": 5}, "expected a text, found int"),
        (translator.translate, [5], {}, "expected a text, found int"),
        (translator.translate, [[5]], {}, "expected a text, found int"),
        (translator.translate, ["\ud800"], {}, "half of a surrogate at character 0"),
        (translator.translate, ["我" * 3000], {}, "tokens, the model has"),
        (translator.translate, ["我"], {"beam": 300}, "beam=300: expected 0 to 256"),
        (translator.translate, ["我"], {"n_best": 2}, "n_best=2: expected 1 to beam, which is 0"),
        (translator.translate, ["我"], {"max_new": -1}, "max_new=-1"),
        (translator.encode, ["我"], {}, "encode needs a model of kind encoder"),
        (language.classify, ["a"], {}, "classify needs a model of kind encoder or encoder-decoder"),
        (translator.classify, ["a"], {}, "classify needs a model with classes"),
        (translator.rank, ["a", ["b"]], {}, "rank needs a model of kind encoder"),
        (language.fill, ["a"], {}, "fill needs a model of kind encoder"),
        (language.chat, [[]], {}, "has no chat template"),
        (language.score, [""], {}, "text 0: nothing to score"),
        (language.score, ["a a"], {"target": "b"}, "a decoder has none"),
        (language.score, ["a a"], {"top_logprobs": -1}, "top_logprobs=-1: expected"),
        (translator.score, ["a"], {}, "an encoder-decoder needs one"),
        (translator.score, [["a"]], {"target": ["b", "b"]}, "2 texts, expected 1"),
        (inference.classify, ["word1"], {"top_k": 0}, "top_k=0: expected a whole number"),
        (inference.classify, ["word1"], {"text_pair": ["a", "b"]}, "2 texts, expected 1"),
        (inference.classify, ["word1"], {"candidate_labels": []}, "candidate_labels: 0 of them"),
        (
            inference.classify,
            ["word1"],
            {"candidate_labels": ["a"], "hypothesis_template": "x"},
            "expected one {}",
        ),
        (inference.rank, ["a", ["b"]], {}, "does not rank"),
        (inference.fill, ["a"], {}, "is no masked language model"),
        (inference.tag, ["a"], {}, "labels no tokens: it is no classifier of them"),
        (inference.classify_tokens, ["a"], {}, "labels no tokens"),
        (
            language.tag,
            ["a"],
            {},
            "tag needs a model of kind encoder, this is a model of kind deco",
        ),
        (tagger.classify, ["a"], {}, "labels tokens, not texts. TRY: classify_tokens, or tag"),
        (tagger.classify_tokens, [["word1", ""]], {"top_k": 0}, "top_k=0: expected"),
        (tagger.classify_tokens, ["a"], {"text_pair": ["a", "b"]}, "2 texts, expected 1"),
        (tagger.tag, ["word1 " * 3000], {}, "text 0 has 3002 tokens: expected 1 to"),
        (tagger.tag, [5], {}, "expected a text, found int"),
        (tagger.answer, ["a", "b"], {}, "answers no questions: it has no classes start and end"),
        (reader.answer, ["a", ["b", ""]], {}, "text 1: no tokens, expected at least one"),
        (reader.answer, ["a", "b"], {"top_k": 0}, "top_k=0: expected"),
        (reader.answer, ["a", "b"], {"max_answer_len": 0}, "max_answer_len=0: expected"),
        (reader.answer, [5, "b"], {}, "expected a text, found int"),
        (reader.answer, ["a", 5], {}, "expected a text, found int"),
        (language.translate, ["a"], {}, "translate needs a model of kind encoder-decoder"),
        (language.stream, ["a"], {"temperature": -1}, "temperature=-1"),
        (language.stream, ["a"], {"temperature": 0, "seed": 1}, "no effect with temperature 0"),
        (language.stream, ["a"], {"top_p": 2}, "top_p=2: expected 0 to 1"),
        (language.stream, ["a"], {"seed": 1 << 64}, "seed="),
        (language.stream, ["a"], {"stop": ""}, "a stop string of 0 bytes: expected 1 to 256"),
        (language.stream, ["a"], {"stop": ["x"] * 65}, "65 stop strings: expected at most 64"),
        (language.tokenize, ["a"], {"side": "left"}, "side='left'"),
        (language.tokenize, ["a"], {"side": "source"}, "no tokenizer"),
        (language.detokenize, [[1 << 31]], {}, "the vocabulary has"),
        (language.detokenize, [[-1]], {}, "token ids of -1 to -1"),
        (language.detokenize, [[0.5]], {}, "expected a list of token ids"),
        (language.session, [-1], {}, "-1: expected a number"),
        (language.session, [], {"sequences": 0}, "limits.sequences: 0"),
        (session.step, [[1] * 17], {}, "17"),
        (session.step, [[]], {}, "no tokens; expected at least 1"),
        (session.step, [[1]], {"sequence": 1}, "sequence 1: the session has 1"),
        (session.step, [[1]], {"logits": "some"}, "expected one of none, last, all"),
        (session.step, [[1, 2]], {"logits": "all"}, "logits of 2 rows, the limits hold 1"),
        (session.encode, [[1]], {}, "encode"),
        (session.truncate, [5], {}, "truncate"),
        (session.restore, [b"no state"], {}, ""),
    ]:
        error = refusal(call, *arguments, **named)
        assert re.search(says, str(error)), (call, str(error))
        assert isinstance(error.status, Status)


def test_what_is_closed():
    with phasor.load(LANGUAGE) as model:
        session = model.session(context=16)
    for call in (model.verify, model.session, lambda: model.tokenize("a")):
        assert "this model is closed" in str(refusal(call))
    session.step([1])  # a session keeps the file
    session.close()
    session.close()
    assert "this session is closed" in str(refusal(session.step, [1]))


# ---- threads and signals


def test_a_session_of_two_threads_is_an_error(language):
    session = language.session(context=16)
    inside, done = threading.Event(), threading.Event()
    other = threading.Thread(target=lambda: session.use(lambda: (inside.set(), done.wait(60))))
    other.start()
    assert inside.wait(60)
    for call in (lambda: session.step([1]), session.length, session.close, session.save):
        assert "another thread is using this session" in str(refusal(call))
    done.set()
    other.join()
    session.step([1])


def test_eight_threads_share_a_model(translator):
    expected = translator.translate(TEXTS)
    found: list = [None] * 8

    def work(number: int) -> None:
        found[number] = translator.translate(TEXTS), translator.translate(TEXTS[0], beam=2)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(expected, translator.translate(TEXTS[0], beam=2))] * 8


def test_a_stream_that_is_left(language):
    """Its computation ends, and the next one begins anew."""
    for _ in range(3):
        stream = language.stream("The game was")
        next(stream)
        stream.close()
    before = threading.active_count()
    first = "".join(language.stream("The game was", max_new=9))
    assert "".join(language.stream("The game was", max_new=9)) == first
    assert threading.active_count() <= before


INTERRUPTED = """
import os, signal, sys, threading, time
import phasor
signal.signal(signal.SIGINT, signal.default_int_handler)
model = phasor.load(sys.argv[1], threads=2)
calls = [
    lambda: model.translate(["我有一只猫。"] * 1000000),
    lambda: [model.translate("我有一只猫。") for _ in range(1000000)],
    lambda: phasor.load(sys.argv[2]).score("The game was played. " * 30000),
    lambda: list(phasor.load(sys.argv[2]).stream("The game was played. " * 30000)),
    lambda: [list(phasor.load(sys.argv[2]).stream("The game was")) for _ in range(1000000)],
]
for call in calls:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted")
print(model.translate("我有一只猫。"))
"""


def test_an_interrupt_ends_a_call():
    environment = {"PYTHONPATH": str(ROOT / "tools"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", INTERRUPTED, TRANSLATOR, LANGUAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.stdout, done.stderr) == ("interrupted\n" * 5 + "I have a cat.\n", "")
