"""`phasor run --shortlist`: what a file allows is what comes out, with the probabilities of the
subset, and a file that is none is refused with its line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_cli import LANGUAGE, ROOT, TRANSLATOR, bad, good, phasor

from phasor.format.file import PhasorFile

SHIPPED = ROOT / "models" / "zh-en.phasor"
SOURCES = ["source5 source9", "source6", "source7 source8 source9", "source5 source6 source7"]
NGRAMS = {
    ("source5",): ["target11", "target12", "target20"],
    ("source6",): ["target13", "target30"],
    ("source5", "source6"): ["target40", "target41"],
    ("source9",): ["target9", "target45"],
    ("source6", "source5"): ["target33"],  # no source has it
}
ALWAYS = ["target4", "target26"]


def vmap() -> str:
    lines = [" ".join(key) + "\t" + " ".join(values) for key, values in NGRAMS.items()]
    return "\n".join(["\t" + " ".join(ALWAYS), *lines]) + "\n"


def lexical() -> str:
    rng = np.random.default_rng(1)
    return "".join(f"target{t} source{s} {p:.6f}\n" for t, s, p in entries(rng))


def entries(rng) -> list[tuple[int, int, float]]:
    return [(int(t), int(s), float(rng.random())) for s in range(5, 10) for t in range(20, 46, 3)]


def ids_of(words) -> set[int]:
    """Ids of targetN; the model's own that are always there."""
    side = PhasorFile(TRANSLATOR).descriptor["target"]
    own = {side[name] for name in ("unknown", "start")} | set(side["end"])
    text = "".join(f"{word} " for word in words)
    pieces = {}
    for i in range(side["vocabulary"]):
        pieces.setdefault(f"target{i}", i)
    return {pieces[w] for w in text.split()} | {i for i in own if i is not None and i < 2**31}


def allowed(source: str) -> set[int]:
    words, out = source.split(), set(ALWAYS)
    for n in (1, 2):
        for i in range(len(words) - n + 1):
            out |= set(NGRAMS.get(tuple(words[i : i + n]), ()))
    return ids_of(out)


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes, name: str = "list"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def ids(line: dict) -> list[int]:
    return line["ids"]


def test_logits_of_a_list(file, tmp_path):
    """Those of the list's tokens are the same bits, the others are -infinity."""
    for source in SOURCES:
        flags = ["run", TRANSLATOR, source, "-n", "1", "--quiet", "--logits"]
        good(*flags, tmp_path / "a.npy")
        good(*flags, tmp_path / "b.npy", "--shortlist", file(vmap()))
        all_, some = (np.load(tmp_path / f"{n}.npy") for n in "ab")
        assert set(np.flatnonzero(np.isfinite(some[0]))) == allowed(source)
        kept = sorted(allowed(source))
        assert np.array_equal(all_[0][kept].view("u4"), some[0][kept].view("u4"))


@pytest.mark.parametrize("flags", [[], ["--beam", "3"], ["--temperature", "1.5", "--seed", "2"]])
def test_outputs_are_of_the_list(file, flags):
    given = ["run", TRANSLATOR, "--quiet", "--json", "-n", "9", "--min-new", "5", *flags]
    plain = [json.loads(x) for x in good(*given, *SOURCES).splitlines()]
    lists = [
        json.loads(x) for x in good(*given, *SOURCES, "--shortlist", file(vmap())).splitlines()
    ]
    for source, line in zip(SOURCES, lists):
        assert set(ids(line)) <= allowed(source)
    assert [ids(x) for x in plain] != [ids(x) for x in lists]
    many = good(*given, *SOURCES, "--shortlist", file(vmap()), "--batch", "3").splitlines()
    assert [ids(json.loads(x)) for x in many] == [ids(x) for x in lists]
    assert lists[0]["arena_bytes"] > plain[0]["arena_bytes"]
    # alone, and after a text that needs a larger arena
    long = " ".join(["source5"] * 700)
    again = phasor(*given, SOURCES[0], "--shortlist", file(vmap()), "--context", "12", stdin="")
    two = phasor(*given, "--shortlist", file(vmap()), stdin=f"{long}\n{SOURCES[0]}\n")
    if "--seed" not in flags:  # a seed is a line's
        assert ids(json.loads(two.stdout.splitlines()[-1])) == ids(lists[0])
    assert ids(json.loads(again.stdout)) == ids(lists[0])


def test_a_lexical_list(file):
    """The first ids, and the most probable of each source token."""
    best: dict[int, list[int]] = {}
    for t, s, _ in sorted(entries(np.random.default_rng(1)), key=lambda e: (-e[2], e[0])):
        best.setdefault(s, []).append(t)
    given = ["run", TRANSLATOR, "--quiet", "--json", "-n", "12", "--min-new", "9"]
    flags = ["--shortlist", file(lexical()), "--shortlist-first", "6", "--shortlist-best", "2"]
    seen = set()
    for source in SOURCES:
        line = json.loads(good(*given, *flags, source))
        of = {t for w in source.split() for t in best[int(w[6:])][:2]}
        may = ids_of(f"target{t}" for t in of) | set(range(6))
        assert set(ids(line)) <= may, source
        seen |= set(ids(line))
    assert len(seen) > 3


def test_forced_tokens_need_not_be_in_it(file):
    line = json.loads(
        good(
            *("run", TRANSLATOR, SOURCES[0], "--json", "--quiet", "-n", "4", "--shortlist"),
            *(file(vmap()), "--prefix-ids", "33", "--forced-last", "35"),
        )
    )
    assert ids(line)[0] == 33 and (len(ids(line)) < 4 or ids(line)[-1] == 35)


def test_a_list_for_every_source_alone(file):
    """A vmap may have no source tokens."""
    given = ["run", TRANSLATOR, "--quiet", "--json", "-n", "9", "--min-new", "9", *SOURCES]
    lines = good(*given, "--shortlist", file("\ttarget5 target6 target7\n")).splitlines()
    assert len(lines) == len(SOURCES)
    seen = {i for line in lines for i in ids(json.loads(line))}
    assert len(seen) > 1 and seen <= ids_of(["target5", "target6", "target7"])


def test_the_shipped_translator(file):
    content = "\t\u2581I \u2581a .\n\u2581我有\t\u2581have\n一只猫\t\u2581cat \u2581dog nothing\n"
    done = phasor("run", SHIPPED, "我有一只猫", "--shortlist", file(content))
    assert done.stdout == b"I have a cat.\n"
    assert b"1 of 9 tokens are not the model's" in done.stderr


@pytest.mark.parametrize(
    "content, says",
    [
        (b"", "is empty, expected a shortlist"),
        (b"\n", "none of its 0 tokens is the model's"),
        ("\tx y\nfoo\tbar\n", "none of its 4 tokens is the model's"),
        ("target5 target6 0.5\n", "no line has a source and a target token of the model"),
        ("source5\ttarget500\n", "no line has a source and a target token of the model"),
        ("a\tb\nc d\n", "line 2: expected source tokens, one tab, and target tokens"),
        ("a\tb\tc\n", "line 1: expected source tokens, one tab"),
        ("a" + " a" * 16 + "\tb\n", "line 1: 17 source tokens, expected at most 16"),
        ("target5 source5\n", "line 1: expected a target token, a source token and a prob"),
        ("target5 source5 0.5 1\n", "line 1: expected a target token"),
        ("target5 source5 1.5\n", "line 1: expected a target token"),
        ("target5 source5 nan\n", "line 1: expected a target token"),
        ("target5 source5 0x1\n", "line 1: expected a target token"),
        ("target5 source5 0.5\nNULL source5\n", "line 2: expected a target token"),
        ("target5 source5 0.5\ntarget6 \tsource5 0.5\n", "line 2: expected a target token"),
        (b"a\tb\n\xff\tb\n", "line 2: "),
        (b"\x0b\xf0\x4c\xf1\x00\x00\x00\x00", "line 1: a byte of 0: expected a text file"),
    ],
)
def test_files_that_are_none(file, content, says):
    path = file(content)
    bad(1, "run", TRANSLATOR, "source5", "--shortlist", path, says=[str(path), says])


@pytest.mark.parametrize(
    "model, flags, says",
    [
        (TRANSLATOR, ["--shortlist-best", "3"], ["--shortlist-best", "needs --shortlist"]),
        (LANGUAGE, ["--shortlist", "x"], ["--shortlist", "decoder"]),
    ],
)
def test_what_does_not_go_with_it(model, flags, says):
    bad(2, "run", model, *flags, "source5", says=says)


def test_a_file_that_is_not_there(tmp_path):
    bad(1, "run", TRANSLATOR, "x", "--shortlist", tmp_path / "absent", says=["absent"])
