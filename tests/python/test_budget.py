"""`phasor quantize` within limits: the size of the file, what each matrix and the whole file are
measured to cost, beside the float64 reference, the choice beside every type that all matrices may
have, what a session takes, and how fast it is.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_cli import LANGUAGE as NO_TEXT
from test_cli import MODELS, bad, good, levels, phasor
from test_encode import CLASSIFIER, HIDDEN, MASKED, SENTENCE

import random_models as M
from phasor import vectors
from phasor.format import file as F
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import VECTORS, PhasorFile
from phasor.reference.forward import Reference
from phasor.tokenizers.models.word_list import build_wordlist_section

LANGUAGE = MODELS / "tiny-gptj-f32.phasor"
TRANSLATOR = MODELS / "tiny-d2l-f32.phasor"
KINDS = {
    "decoder": LANGUAGE,
    "translator": TRANSLATOR,
    "masked": MASKED,
    "pooled": SENTENCE,
    "classifier": CLASSIFIER,
    "hidden": HIDDEN,
}


def uniform(path: Path, folder: Path, kind: str, *flags: object) -> Path:
    out = folder / f"{kind}{'-'.join(map(str, flags))}.phasor"
    if not out.exists():
        good("quantize", path, out, "--type", kind, "--quiet", *flags)
    return out


def made(path: Path, out: Path, size: int, *flags: object) -> dict:
    return json.loads(good("quantize", path, out, "--bytes", size, "--json", *flags))


def outputs(file: PhasorFile) -> list[np.ndarray]:
    """The reference's output rows of the file's test vectors; logits as log-probabilities."""
    model, rows = Reference(file), []
    for v in vectors.read(file.section(VECTORS), file.descriptor).vectors:
        encoded = model.encode(list(v.source)) if len(v.source) else None
        if len(v.target):
            state = None if encoded is None else encoded.output
            rows += list(model.decode(list(v.target), state).logits)
        else:
            rows += list(np.atleast_2d(model.output(encoded)))
    return rows


def cost(exact: list[np.ndarray], other: list[np.ndarray], logits: bool) -> float:
    """What probe.h defines."""
    if not logits:
        return np.mean([((a - b) ** 2).sum() / (a * a).sum() for a, b in zip(exact, other)])
    p, q = (
        [row - row.max() - np.log(np.exp(row - row.max()).sum()) for row in rows]
        for rows in (exact, other)
    )
    return np.mean([(np.exp(a) * (a - b)).sum() for a, b in zip(p, q)])


class Mixed(PhasorFile):
    """The file with one matrix of another."""

    def __init__(self, path: Path, other: PhasorFile, key: int) -> None:
        super().__init__(path)
        self.other, self.key = other, key

    def narrow(self, key: int):
        return self.other.narrow(key) if key == self.key else super().narrow(key)


@pytest.mark.parametrize("name", KINDS)
def test_what_the_matrices_cost(name, tmp_path):
    """Each alone in its type, in the float64 reference: rounding of inputs takes no part."""
    path, out = KINDS[name], tmp_path / "o.phasor"
    size = (
        uniform(path, tmp_path, "q4").stat().st_size + uniform(path, tmp_path, "q8").stat().st_size
    )
    report = made(path, out, size // 2)
    exact, file = PhasorFile(path), PhasorFile(out)
    keys = [k for k, e in exact.entries.items() if file.entries[k].type != e.type]
    assert len(keys) > len(report["matrices"]) / 2
    stored = json.loads(good("inspect", out, "--json"))["tensors"]
    kinds = dict(zip(file.entries, (t["type"] for t in stored)))
    matrices = [k for k in file.entries if k in uniform_keys(path, tmp_path)]
    assert [m["type"] for m in report["matrices"]] == [kinds[k] for k in matrices]
    assert [m["name"] for m in report["matrices"]] == [R.tensor_name(k) for k in matrices]
    assert [m["bytes"] for m in report["matrices"]] == [file.entries[k].bytes for k in matrices]
    rows, logits = outputs(exact), name in ("decoder", "translator", "masked")
    for key, matrix in list(zip(matrices, report["matrices"]))[:: 3 if len(matrices) > 6 else 1]:
        other = PhasorFile(uniform(path, tmp_path, matrix["type"]))
        want = cost(rows, outputs(Mixed(path, other, key)), logits)
        assert matrix["harm"] == pytest.approx(want, rel=0.02, abs=2e-8), matrix


def uniform_keys(path: Path, folder: Path) -> set[int]:
    exact, q4 = PhasorFile(path), PhasorFile(uniform(path, folder, "q4"))
    return {k for k, e in exact.entries.items() if q4.entries[k].type != e.type}


@pytest.mark.parametrize("name", KINDS)
def test_never_larger_never_worse_than_one_type(name, tmp_path):
    """At the size of each type and between them: at most that size, most of it used, and measured
    no worse than the type; the least divergence of all is that of f32."""
    path, out = KINDS[name], tmp_path / "o.phasor"
    rows, logits = outputs(PhasorFile(path)), name in ("decoder", "translator", "masked")
    kinds = ("q4", "q4m", "q8", "f16")
    at = sorted(uniform(path, tmp_path, kind).stat().st_size for kind in kinds)
    for size in (*at, (at[0] + at[2]) // 2, path.stat().st_size):
        report = made(path, out, size, "--inputs", "16")
        assert report["bytes"] == out.stat().st_size <= size < 1.25 * report["bytes"]
        good("verify", out)
        own = cost(rows, outputs(PhasorFile(out)), logits)
        assert report["divergence"] == pytest.approx(own, rel=0.05, abs=1e-6)
        for kind in kinds:
            inputs = ("--inputs", "16") if kind[0] == "q" else ()
            other = uniform(path, tmp_path, kind, *inputs)
            if other.stat().st_size <= size:
                assert own < 1.02 * cost(rows, outputs(PhasorFile(other)), logits) + 1e-9, kind
    assert {m["type"] for m in report["matrices"]} == {"f32"} and report["divergence"] < 2e-8


@pytest.mark.parametrize("output", ["q4m", "q8"])
def test_a_smaller_type_that_keeps_a_matrix_is_taken(output, tmp_path):
    """Where a matrix has the values of q4m, q8 rounds it and q4m does not."""
    before, exact, out = (tmp_path / f"{name}.phasor" for name in ("before", "exact", "o"))
    words = ("--type", "q4m", "--output-type", output, "--quiet")
    good("quantize", LANGUAGE, before, *words)
    good("quantize", before, exact, "--type", "f32", "--quiet")
    size = uniform(LANGUAGE, tmp_path, "q8").stat().st_size
    report = made(exact, out, size, "--inputs", "16")
    assert {m["type"] for m in report["matrices"]} == {"q4m", output}
    assert all(m["harm"] == 0 for m in report["matrices"])
    assert report["divergence"] < 1e-6 and out.stat().st_size == before.stat().st_size


def test_inputs_are_chosen_and_said(tmp_path):
    """Of 16 bits where those of 8 cost more than 0.0005; of floats there are none."""
    out = tmp_path / "o.phasor"
    size = uniform(LANGUAGE, tmp_path, "q8").stat().st_size
    both = {bits: made(LANGUAGE, out, size, "--inputs", bits)["divergence"] for bits in ("8", "16")}
    report = made(LANGUAGE, out, size)
    wide = both["8"] - both["16"] > 0.0005
    assert report["inputs"] == (16 if wide else 8)
    assert report["divergence"] == both[str(report["inputs"])]
    assert made(LANGUAGE, out, LANGUAGE.stat().st_size)["inputs"] == 0


def test_moments(tmp_path):
    """The files of single types that the choice is beside are those of --moments."""
    exact = PhasorFile(LANGUAGE)
    columns = sum(
        exact.entries[k].cols for k in exact.entries if k in uniform_keys(LANGUAGE, tmp_path)
    )
    moments = np.random.default_rng(3).uniform(0.01, 100, columns).astype(np.float32)
    np.save(tmp_path / "m.npy", moments)
    flags = ("--moments", tmp_path / "m.npy")
    size = uniform(LANGUAGE, tmp_path, "q4t").stat().st_size
    report = made(LANGUAGE, tmp_path / "b.phasor", size, *flags)
    kinds = {m["type"] for m in report["matrices"]} - {"f32"}
    assert len(kinds) > 1
    wholes = {}
    for kind in kinds:
        good("quantize", LANGUAGE, out := tmp_path / f"{kind}.phasor", "--type", kind, *flags)
        wholes[L.type_code(kind)] = PhasorFile(out)
    mixed = PhasorFile(tmp_path / "b.phasor")
    same = [k for k, e in mixed.entries.items() if e.type in wholes]
    assert len(same) > 4
    assert all(np.array_equal(wholes[mixed.entries[k].type].raw(k), mixed.raw(k)) for k in same)
    np.save(tmp_path / "m.npy", moments[1:])
    words = ["quantize", LANGUAGE, out, "--bytes", size, "--moments", tmp_path / "m.npy"]
    bad(1, *words, says=["moments, the file's matrices have"])


BOARD = ["--context", 48, "--cache", "q8", "--tables", "rows", "--text-bytes", 0]


@pytest.mark.parametrize("path", [LANGUAGE, TRANSLATOR], ids=["decoder", "translator"])
def test_ram_beside_inspect(path, tmp_path):
    """With --flash a session alone fits; without it the file too, and little is left unused."""
    out, least = tmp_path / "o.phasor", uniform(path, tmp_path, "q4").stat().st_size

    def session(file: Path, *flags: object) -> dict:
        return json.loads(good("inspect", file, *BOARD, *flags, "--json"))["board"]

    small = session(uniform(path, tmp_path, "q4"), "--chunk", 1, "--ram", "100M")["ram_needed"]
    ram = 2 * small
    words = ["quantize", path, out, *BOARD, "--json"]
    report = json.loads(good(*words, "--ram", ram, "--flash", 2 * least))
    board = session(out, "--ram", ram, "--flash", 2 * least)
    assert report["bytes"] <= 2 * least
    assert (report["ram_needed"], report["chunk"]) == (board["ram_needed"], board["chunk"])
    bad(1, *words, "--ram", small // 2, "--flash", 2 * least, says=["--ram", "a session of this"])
    stack = board["stack"]
    for extra in (0.1, 0.5, 0.9):
        ram = small + stack + int(least * (1 + extra)) + 8000
        report = json.loads(good(*words, "--ram", ram))
        needed = session(out, "--chunk", report["chunk"], "--ram", "100M")["ram_needed"]
        assert report["ram_needed"] == needed and report["chunk"] <= 16
        assert report["bytes"] + needed + stack <= ram
        capped = json.loads(good(*words, "--ram", ram, "--bytes", least + 100))
        assert capped["bytes"] <= least + 100
    bad(1, *words, "--ram", small + least // 2, says=["a session and the smallest file"])


@pytest.mark.parametrize("name", KINDS)
def test_shares_of_a_token(name, tmp_path):
    """They are of the products that the cost model counts for a token, and add up to 1."""
    path = KINDS[name]
    other = uniform(path, tmp_path, "q8")
    report = made(path, tmp_path / "o.phasor", path.stat().st_size)
    shares = [m["share"] for m in report["matrices"]]
    assert sum(shares) == pytest.approx(1)
    keys = [k for k in PhasorFile(path).entries if k in uniform_keys(path, tmp_path)]
    entries = [PhasorFile(file).entries for file in (path, other)]
    part = "encode_bytes" if name in ("masked", "pooled", "classifier", "hidden") else "step_bytes"
    exact, q8 = (json.loads(good("inspect", file, "--json"))[part] for file in (path, other))
    read = [k for k, share in zip(keys, shares) if share > 0]
    assert exact - q8 == sum(entries[0][k].bytes - entries[1][k].bytes for k in read)
    weights = [entries[0][k].rows * entries[0][k].cols for k in keys]
    known = {round(w / s) for w, s in zip(weights, shares) if s > 0}
    assert len(known) == 1


@pytest.mark.parametrize("name", KINDS)
def test_a_speed_is_kept_or_refused(name, tmp_path):
    """What is written was measured to be as fast; what cannot be is refused by its own speed."""
    path, out = KINDS[name], tmp_path / "o.phasor"
    words = ["quantize", path, out, "--json", "--tokens-per-second"]
    exact = json.loads(good(*words, 1))
    assert {m["type"] for m in exact["matrices"]} == {"f32"}
    speed = exact["tokens_per_second"]
    assert speed > 1
    for share in (0.25, 1, 4):
        out.unlink(missing_ok=True)
        done = phasor(*words, share * speed)
        if done.returncode == 0:
            assert json.loads(done.stdout)["tokens_per_second"] >= share * speed
            good("verify", out)
        else:
            assert "the fastest file" in done.stderr.decode() and not out.exists()
    bad(1, *words, 1e9, says=["--tokens-per-second 1e+09: the fastest file of this size makes"])
    size = uniform(path, tmp_path, "q8").stat().st_size * 3 // 4
    slow = json.loads(good(*words, 1, "--bytes", size))
    alone = made(path, out, size)
    assert slow["bytes"] <= size
    harm = [sum(m["harm"] for m in report["matrices"]) for report in (slow, alone)]
    assert harm[0] <= harm[1] * 1.0001 or slow["divergence"] <= alone["divergence"]


def test_the_same_choice_everywhere(tmp_path):
    """Threads and levels change nothing."""
    size = uniform(LANGUAGE, tmp_path, "q8").stat().st_size * 3 // 4
    made(LANGUAGE, tmp_path / "a", size)
    for isa in levels():
        made(LANGUAGE, tmp_path / "b", size, "--threads", 2, "--isa", isa)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes(), isa


def test_a_text_to_measure_with(tmp_path):
    out, text = tmp_path / "o.phasor", tmp_path / "text.txt"
    text.write_text("source5 source6\n\nsource7 source8 source9\n" + "source4 " * 600 + "\n")
    size = uniform(TRANSLATOR, tmp_path, "q8").stat().st_size * 3 // 4
    said = good("quantize", TRANSLATOR, out, "--bytes", size, "--text", text)
    assert " rows; all matrices as q4 " in said and said.count(" bytes  ") > 8
    M.write_ranker(tmp_path / "words.phasor", output=M.D.HIDDEN, classes=0, pooling=0, scores=0)
    text.write_text("word1 word2 word3\nword4\n")
    size = (tmp_path / "words.phasor").stat().st_size
    assert "on 8 rows" in good(
        "quantize", tmp_path / "words.phasor", out, "--bytes", size // 2, "--text", text
    )
    chat = MODELS / "tiny-chat-f32.phasor"
    text.write_text("What is the capital of France? " * 40)
    size = uniform(chat, tmp_path, "q8").stat().st_size
    assert made(chat, out, size, "--text", text)["bytes"] <= size
    text.write_bytes(b"ab\xff" * 9)
    bad(1, "quantize", chat, out, "--bytes", size, "--text", text, says=["UTF-8"])
    text.write_text("\n\n")
    words = tmp_path / "words.phasor"
    bad(1, "quantize", words, out, "--bytes", 9999, "--text", text, says=["a line of at least one"])


def test_outputs_that_are_no_numbers(tmp_path):
    """Of finite weights, in the last product: there is nothing to compare with."""
    words = ["<unk>", *(f"word{i}" for i in range(22))]
    descriptor = M.lm()

    def weights(slot):
        values = M.random_weights(slot)
        return np.sign(values) * 3e38 if slot.key >> 24 == 5 else values

    descriptor["target"] |= {"vocabulary": len(words), "tokenizer": F.TARGET_TOKENIZER}
    M.write_random(
        tmp_path / "m.phasor",
        descriptor,
        extra={F.TARGET_TOKENIZER: build_wordlist_section(words, 0)},
        weights=weights,
    )
    (tmp_path / "t").write_text("word1 word2 word3\n")
    line = ["quantize", tmp_path / "m.phasor", tmp_path / "o", "--bytes", "1M"]
    bad(1, *line, "--text", tmp_path / "t", says=["is not a number"])


def test_what_does_not_work(tmp_path):
    out = tmp_path / "o.phasor"
    small = uniform(LANGUAGE, tmp_path, "q4").stat().st_size
    bad(1, "quantize", LANGUAGE, out, "--bytes", small - 1000, says=["the smallest file"])
    for flag in (["--type", "q8"], ["--output-type", "q8"]):
        words = ["quantize", LANGUAGE, out, "--bytes", "1M", *flag]
        bad(2, *words, says=[f"--bytes: does not go with {flag[0]}"], cwd=tmp_path)
    bad(2, "quantize", LANGUAGE, out, "--type", "q8", "--text", "t", says=["needs --bytes"])
    for flag in (["--flash", "1M"], ["--ram", "1M"], ["--tokens-per-second", "1"]):
        words = ["quantize", LANGUAGE, out, "--type", "q8", *flag]
        bad(2, *words, says=[f"{flag[0]}: does not go with --type"])
    words = ["quantize", LANGUAGE, out, "--bytes", "1M"]
    bad(2, *words, "--flash", "1M", says=["--bytes: does not go with --flash"])
    bad(2, *words, "--context", "9", says=["--context: needs --ram"])
    bad(2, "quantize", LANGUAGE, out, says=["expected --bytes or --type"])
    words = ["quantize", LANGUAGE, out, "--flash", small - 1000]
    bad(1, *words, says=["--flash", "the smallest file"])
    narrow = uniform(LANGUAGE, tmp_path, "q8")
    says = ["has matrices of q", "--bytes rounds none twice. TRY: the model in f32"]
    bad(1, "quantize", narrow, out, "--bytes", "1M", says=says)
    (tmp_path / "t").write_text("a\n")
    bad(
        1,
        "quantize",
        NO_TEXT,
        out,
        "--bytes",
        "1M",
        "--text",
        tmp_path / "t",
        says=["has no tokenizer", "TRY: without --text"],
    )
    M.write_random(tmp_path / "bare.phasor", M.lm())
    bad(1, "quantize", tmp_path / "bare.phasor", out, "--bytes", "1M", says=["TRY: --text FILE"])
    assert not out.exists()
