"""`phasor run` beyond greedy: draws, stop strings, lookahead, states, a context that slides; the
exact tokens, whatever the level or the threads."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest
from test_cli import LANGUAGE, MODELS, PHASOR, TRANSLATOR, bad, good, levels, phasor

from phasor.format import descriptor as phasor_descriptor
from places import ROOT, told
from random_models import lm, write_random
from texts import ids_text

SHIPPED = ROOT / "models" / "zh-en.phasor"


def ids(*arguments, **more) -> list[int]:
    text = good("run", *arguments, "--print-ids", "--quiet", **more).strip()
    return [int(word) for word in text.split(",")] if text else []


def figures(*arguments) -> dict:
    return json.loads(good("run", *arguments, "--json", "--quiet"))


def test_a_seed_is_a_text():
    flags = ["--ids", "5,6,7", "-n", "20", "--temperature", "1.3", "--top-p", "0.95"]
    first = ids(LANGUAGE, *flags, "--seed", "4")
    assert first == ids(LANGUAGE, *flags, "--seed=4") != ids(LANGUAGE, *flags, "--seed", "5")
    for level in levels():
        assert ids(LANGUAGE, *flags, "--seed", "4", "--isa", level) == first
    assert ids(LANGUAGE, *flags, "--seed", "4", "--threads", "3") == first
    assert ids(LANGUAGE, *flags, "--seed", "4", "--lookahead") == first


def test_a_new_seed_is_said_and_gives_the_text_again():
    done = phasor("run", LANGUAGE, "--ids", "5,6,7", "-n", "20", "--top-k", "40", "--print-ids")
    line = done.stderr.decode().splitlines()[0]
    assert line.startswith("phasor: seed ")
    assert ids(
        LANGUAGE, "--ids", "5,6,7", "-n", "20", "--top-k", "40", "--seed", line.split()[-1]
    ) == [int(w) for w in done.stdout.split(b",")]
    assert b"seed" not in phasor("run", LANGUAGE, "--ids", "5,6,7", "-n", "20").stderr


def test_lines_have_seeds_of_their_own():
    lines = good(
        "run", LANGUAGE, "--ids", "-", "-n", "15", "--seed", "10", "--quiet", stdin="5,6,7\n5,6,7\n"
    ).splitlines()
    assert lines[0] != lines[1]
    assert (
        lines[1]
        == good("run", LANGUAGE, "--ids", "5,6,7", "-n", "15", "--seed", "11", "--quiet").strip()
    )


def test_cold_draws_and_one_candidate_are_greedy():
    greedy = ids(LANGUAGE, "--ids", "5,6,7", "-n", "20")
    assert ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--top-k", "1", "--seed", "3") == greedy
    assert (
        ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--temperature", "0.001", "--seed", "3")
        == greedy
    )
    assert ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--temperature", "0") == greedy


def test_penalties_and_bans():
    plain = ids(LANGUAGE, "--ids", "5,6,7", "-n", "20")
    assert len(set(plain)) < len(plain)
    once = ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--no-repeat-ngram", "1")
    assert len({5, 6, 7, *once}) == 3 + len(once)
    assert ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--repeat-penalty", "1.5") != plain
    assert ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--frequency-penalty", "2") != plain
    assert ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--presence-penalty", "2") != plain
    assert plain[0] not in ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--suppress", str(plain[0]))
    assert ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--end", str(plain[1])) == plain[:2]
    assert (
        len(ids(LANGUAGE, "--ids", "5,6,7", "-n", "20", "--end", str(plain[1]), "--min-new", "9"))
        > 9
    )
    bad(1, "run", LANGUAGE, "--ids", "5", "--suppress", "100000", says=["--suppress", "100000"])
    bad(1, "run", LANGUAGE, "--ids", "5", "--end", "100000", says=["--end", "100000"])


def test_stop_strings():
    whole = figures(
        TRANSLATOR, "source5 source6", "--prefix", "target5 target6 target17 target17", "-n", "6"
    )
    assert whole["text"].startswith("target5 target6 target17 target17")
    cut = figures(
        TRANSLATOR,
        "source5 source6",
        "--prefix",
        "target5 target6 target17 target17",
        "-n",
        "6",
        "--stop",
        "7 target17",
        "--stop",
        "nothing",
    )
    assert (cut["text"], cut["finish"]) == ("target5 target6 target1", "stop string")
    assert cut["ids"] == whole["ids"][:4]
    bad(1, "run", LANGUAGE, "--ids", "5", "--stop", "x", says=["--stop", "no tokenizer"])


def test_stop_strings_of_a_real_tokenizer():
    """Wherever it is cut: what comes is what stands before the first occurrence."""
    text = good("run", SHIPPED, "我有一只猫。", "--quiet").rstrip("\n")
    for at in range(len(text)):
        for length in (1, 3, 7):
            stop = text[at : at + length]
            assert (
                good("run", SHIPPED, "我有一只猫。", "--quiet", "--stop", stop).rstrip("\n")
                == text[: text.find(stop)]
            )


@pytest.mark.parametrize("name", ["bpe", "unigram", "bytelevel", "metaspace", "wordpiece"])
def test_stop_strings_of_every_tokenizer(tmp_path, name):
    """The forced start of an output is any text: characters of several tokens, pieces of several
    characters, strings that begin in one and end in another."""
    section = (ROOT / "tests" / "golden" / "tokenizers" / f"{name}.bin").read_bytes()
    descriptor = lm({"max_positions": 256})
    descriptor["target"] |= {
        "vocabulary": struct.unpack_from("<I", section, 8)[0],
        "tokenizer": 4,
        "end": [],
    }
    model = tmp_path / "m.phasor"
    write_random(model, descriptor, extra={4: section})
    text = "My dog 🙂🙃 isn't here. 我的狗不在这里。 the theory of théories"
    flags = [model, "--ids", "3", "--prefix", text, "--json", "--quiet"]
    count = len(good("tokenize", model, "--print-ids", text).strip().split(","))
    whole = json.loads(good("run", *flags, "-n", count))["text"]
    assert "theory" in whole and len(whole) > 20
    rng = random.Random(4)
    for _ in range(25):
        stops = [
            whole[at : at + rng.randint(1, 12)] + rng.choice(["", "", "x"])
            for at in (rng.randrange(len(whole)) for _ in range(rng.randint(1, 3)))
        ]
        got = json.loads(good("run", *flags, "-n", count, *(f"--stop={s}" for s in stops)))
        found = [
            (whole.encode().find(s.encode()) + len(s.encode()), -len(s.encode()))
            for s in stops
            if s in whole
        ]
        if found:
            end, length = min(found)
            assert (got["text"], got["finish"]) == (
                whole.encode()[: end + length].decode(),
                "stop string",
            ), stops
        else:
            assert (got["text"], got["finish"]) == (whole, "length"), stops


@pytest.mark.parametrize("name", ["tiny-lm-q8", "tiny-rotary-f32", "tiny-d2l-f32", "tiny-alibi-q8"])
def test_lookahead_is_the_same_text(name):
    path = MODELS / f"{name}.phasor"
    for prompt in ("5,6,7,5,6,7,5", "9", "11,4,11,4"):
        plain = figures(path, "--ids", prompt, "-n", "12")
        ahead = figures(path, "--ids", prompt, "-n", "12", "--lookahead=4")
        assert ahead["ids"] == plain["ids"]
        assert ahead["steps"] + ahead["accepted"] == len(plain["ids"])
    assert (
        "guesses right"
        in phasor("run", path, "--ids", "5,6,7", "-n", "8", "--lookahead").stderr.decode()
    )


def test_states(tmp_path):
    state = tmp_path / "state"
    whole = ids(LANGUAGE, "--ids", "5,6,7", "-n", "20")
    first = ids(LANGUAGE, "--ids", "5,6,7", "-n", "8", "--save-state", state)
    for level in levels():
        assert (
            ids(LANGUAGE, "--load-state", state, "--ids", "", "-n", "12", "--isa", level)
            == whole[8:]
        )
    assert first == whole[:8]
    more = tmp_path / "more"
    assert ids(
        LANGUAGE, "--load-state", state, "--ids", "9,10", "-n", "6", "--save-state", more
    ) == ids(LANGUAGE, "--ids", ids_text([5, 6, 7, *first, 9, 10]), "-n", "6")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["more", "state"]
    bad(2, "run", TRANSLATOR, "source5", "--save-state", state, says=["--save-state", "decoder"])
    bad(
        2,
        "run",
        LANGUAGE,
        "--ids",
        "-",
        "--save-state",
        state,
        stdin="5\n6\n",
        says=["--save-state", "one line"],
    )
    bad(
        1,
        "run",
        LANGUAGE,
        "--ids",
        "5",
        "--load-state",
        tmp_path / "none",
        says=["none", "no such file"],
    )
    bad(
        1,
        "run",
        MODELS / "tiny-lm-q8.phasor",
        "--ids",
        "5",
        "--load-state",
        state,
        says=["state", "another weight file"],
    )
    data = bytearray(state.read_bytes())
    data[100] ^= 1
    state.write_bytes(data)
    bad(1, "run", LANGUAGE, "--ids", "5", "--load-state", state, says=["damaged"])
    before = more.read_bytes()
    bad(1, "run", LANGUAGE, "--ids", "5,6,100000", "--save-state", more)
    assert more.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_a_context_that_is_full():
    plain = figures(LANGUAGE, "--ids", "5,6,7", "--context", "16")
    assert plain["finish"] == "length" and len(plain["ids"]) == 14
    on = figures(
        LANGUAGE, "--ids", "5,6,7", "--context", "16", "--keep", "2", "-n", "40", "--min-new", "40"
    )
    assert len(on["ids"]) == 40 and on["slides"] > 2 and on["ids"][:14] == plain["ids"]
    error = bad(1, "run", LANGUAGE, "--ids", ",".join(["5"] * 20), "--context", "16")
    assert "20 tokens" in error and "16" in error and "--context" in error
    long = [3 + i % 9 for i in range(30)]
    assert ids(
        LANGUAGE, "--ids", ids_text(long), "--context", "16", "--keep", "2", "-n", "1"
    ) == ids(LANGUAGE, "--ids", ids_text(long[:2] + long[-14:]), "--context", "16", "-n", "1")
    bad(1, "run", LANGUAGE, "--ids", "5", "--context", "16", "--keep", "15", says=["keep", "15"])
    bad(2, "run", LANGUAGE, "--ids", "5", "--keep", "2", "--logits", "x.npy", says=["--keep"])


def test_recommended_options(tmp_path):
    descriptor = lm({"max_positions": 64}) | {
        "generation": {
            "sample": 1,
            "temperature": 1.5,
            "top_k": 4,
            "suppressed": [5, 9],
            "max_new": 7,
        }
    }
    write_random(tmp_path / "m.phasor", descriptor)
    flags = ["--ids", "3,4", "--seed", "6"]
    assert "generation.top_k" in good("inspect", tmp_path / "m.phasor")
    assert ids(tmp_path / "m.phasor", *flags, "--sample") == ids(
        tmp_path / "m.phasor",
        *flags,
        "--temperature",
        "1.5",
        "--top-k",
        "4",
        "--suppress",
        "5,9",
        "-n",
        "7",
    )
    assert ids(
        tmp_path / "m.phasor", *flags, "--sample", "--top-k", "0", "-n", "20", "--temperature", "9"
    ) == ids(tmp_path / "m.phasor", *flags, "--temperature", "9", "--suppress", "5,9", "-n", "20")
    assert (
        len(ids(tmp_path / "m.phasor", "--ids", "3,4", "-n", "20")) > 0
    )  # greedy: the file's options are not asked for
    write_random(tmp_path / "n.phasor", lm({"max_positions": 64}))
    assert ids(tmp_path / "n.phasor", *flags, "--sample", "-n", "9") == ids(
        tmp_path / "n.phasor", *flags, "--temperature", "1", "-n", "9"
    )


@pytest.mark.parametrize(
    "values, says",
    [
        ({"top_p": 1.5}, "generation.top_p: 1.5"),
        ({"min_p": -0.25}, "generation.min_p: -0.25"),
        ({"typical_p": 2.0}, "generation.typical_p: 2"),
        ({"temperature": -1.0}, "generation.temperature: -1 is negative"),
        ({"repetition_penalty": -2.0}, "generation.repetition_penalty: -2 is negative"),
        ({"suppressed": [3, 23]}, "generation.suppressed: id 23 is not below the vocabulary 23"),
        ({"forced_last": 23}, "generation.forced_last: id 23 is not below the vocabulary 23"),
        ({"bad_words": [2, 1, 23]}, "generation.bad_words: id 23 is not below the vocabulary 23"),
        ({"bad_words": [3, 1, 2]}, "generation.bad_words: a sequence of 3 ids, expected 1 to 2"),
    ],
)
def test_recommended_options_that_are_none(tmp_path, monkeypatch, values, says):
    """The reader says so too, of a file that another writer made."""
    monkeypatch.setattr(phasor_descriptor, "_check_generation", lambda _: None)
    write_random(tmp_path / "m.phasor", lm() | {"generation": values})
    bad(1, "inspect", tmp_path / "m.phasor", says=[says])


@pytest.mark.parametrize("name", ["rotary", "alibi"])
def test_the_grammar_example(name):
    """tests/cpp/grammar.cpp: whatever the seed, the output is a JSON list of booleans and
    numbers."""
    program = Path(PHASOR).parent / "grammar"
    if not program.is_file():
        pytest.skip(f"no {program}: run make tests")
    lists = []
    for seed in range(30):
        done = told(
            program,
            ROOT / "models" / "positions" / f"{name}.phasor",
            "The scores were",
            seed,
            timeout=60,
        )
        lists.append(json.loads(done))
    assert all(isinstance(values, list) and 1 <= len(values) <= 5 for values in lists)
    assert all(isinstance(v, (bool, int, float)) for values in lists for v in values)
    assert len({str(values) for values in lists}) > 5
