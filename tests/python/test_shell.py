"""The program as who types sees it: help in every form, words that are nearly right, a command or a
file that is another one's, flags in place of fields; and as a program at the other end of its pipes
sees it: a line of output for each line of input, while more are to come."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from test_cli import LANGUAGE, MODELS, PHASOR, ROOT, TRANSLATOR, bad, good, phasor
from test_encode import CLASSIFIER, HIDDEN, LABELER, MASKED, SENTENCE

import random_models as M
from phasor import arguments
from phasor.format import tensors as R

COMMANDS = re.findall(r"^  ROW\((\w+)\)", (ROOT / "src/cli/commands/commands.h").read_text(), re.M)
CHAT = MODELS / "tiny-chat-f32.phasor"
FLAG = re.compile(r"^  (--?[a-z][a-z-]*)(?:( |\[=)(\S+))?", re.M)


def flags_of(command: str) -> list[tuple[str, str, str]]:
    """(name, what is between it and its value, value) of each flag."""
    return FLAG.findall(good(command, "--help").partition("\n\nExamples")[2])


# ---- help


def test_every_form_of_help():
    pages = {name: good("help", name) for name in COMMANDS}
    for name, page in pages.items():
        assert page.startswith(f"phasor {name} ")
        assert page == good(name, "--help") == good(name, "-h") == good(name, "m", "x", "-h")
    general = good("--help")
    assert general == good("-h") == good("help") == good("help", "help")
    assert good("version") == good("--version")
    for line in "".join([general, *pages.values()]).splitlines():
        assert len(line) <= 100, line
    bad(2, "help", "rnu", says=["rnu: unknown command", "did you mean run?"])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_command_are_command_lines(command, tmp_path):
    """Three, none of which the command calls wrong."""
    found = re.findall(r"^  \$ (phasor .*)", good(command, "--help"), re.M)
    assert len(found) == 3 and all(line.split()[1] == command for line in found)
    files = {
        "translator": TRANSLATOR,
        "language": CHAT,
        "model": CHAT,
        "encoder": SENTENCE,
        "masked": MASKED,
        "classifier": CLASSIFIER,
    }
    writers = {"tagger": M.write_spans, "reader": M.write_spans, "vectors": M.write_late}
    writers |= {"ranker": M.write_ranker, "inference": M.write_ranker}
    for line in found:
        words = shlex.split(line)[1:]
        stdin = words[words.index("<") + 1 :] if "<" in words else []
        words = words[: words.index("<")] if stdin else words
        for word in words:
            name, _, end = word.partition(".phasor")
            if end == "" and name in writers:
                writers[name](tmp_path / word)
            elif end == "" and name in files:
                shutil.copy(files[name], tmp_path / word)
        done = phasor(*words, stdin="a text\n", cwd=tmp_path)
        assert done.returncode != 2, (line, done.stderr)
        assert b"no such file" not in done.stderr or "sample" in line, (line, done.stderr)


def test_values_of_flags():
    words = ("run", TRANSLATOR, "source5 source6", "--print-ids", "--quiet")
    want = good(*words, "-n", "3")
    assert want == good(*words, "-n3") == good(*words[:2], "-n3", *words[2:])
    assert good(*words, "--prefix", "target5") == good(*words, "--prefix=target5")
    bad(2, *words, "-n3x", says=["-n 3x: expected a whole number"])
    bad(2, *words, "-n=3", says=["-n =3: expected a whole number"])
    bad(2, *words, "-hx", says=["-hx: unknown flag"])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_that_is_missing_is_described(command):
    for name, between, value in flags_of(command):
        if between != " ":
            continue
        said = bad(2, command, "m", name, says=[f"{name}: expected a value, "])
        if value in ("N", "X", "IDS", "ID", "SIZE") or "|" in value:
            kinds = "number from|number above|one of|separated by|bytes, at most"
            assert re.search(kinds, said), said


# ---- words that are nearly right


def test_a_mistyped_flag():
    """Each flag in one of the ways to mistype it, by the first command that has it."""
    commands = {name: one for one in reversed(COMMANDS) for name, *_ in flags_of(one)}
    commands = {"--help": "verify", **commands}
    for i, (name, command) in enumerate(sorted(commands.items())):
        swapped, below = name[:-2] + name[-1] + name[-2], "--" + name[2:].replace("-", "_")
        wrong = (name + "s", swapped, name[1:], name.upper(), below)[i % 5]
        near = wrong == swapped and name[:-1] in commands  # as near to that one
        if wrong not in commands and len(name) > 5 and not near:
            bad(2, command, "m", wrong, says=["unknown flag", f"did you mean {name}?"])
    bad(2, "run", "m", "-no-repeat-ngram", says=["unknown flag", "mean --no-repeat-ngram?"])
    bad(2, "embed", "m", "-n20", says=["-n: not a flag of embed"])
    for command in COMMANDS:
        assert "did you mean" not in bad(2, command, "m", "--xyzzy=1")


def test_a_mistyped_command():
    for name in COMMANDS:
        for wrong in (name + "s", name[:-2] + name[-1] + name[-2], name.upper()):
            if wrong not in COMMANDS:
                bad(2, wrong, says=["unknown command", f"did you mean {name}?"])
    for other in ("walk", "translate", "", "x", "y" * 5000):
        assert "did you mean" not in bad(2, other)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_value(command):
    for name, between, value in flags_of(command):
        choices = value.rstrip("]").split("|")
        if len(choices) < 2:
            continue
        for choice in choices:
            wrong = choice.upper() if choice.upper() != choice else choice + "s"
            says = [f"{name} {wrong}: expected one of:", f"did you mean {choice}?"]
            bad(2, command, "m", f"{name}={wrong}", says=says)
    if any(name == "--isa" for name, *_ in flags_of(command)):
        bad(2, command, "m", "--isa", "scaler", says=["did you mean scalar?"])


def test_a_mistyped_flag_of_the_converter(tmp_path):
    def said(*words: str) -> str:
        done = subprocess.run(
            ["python3", ROOT / "tools/convert.py", *words], capture_output=True, text=True
        )
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    assert "--tpye, did you mean --type?" in said("x", "-o", "y", "--tpye", "q8")
    assert "--outptu, did you mean --output?" in said("x", "--outptu", "y")
    assert "q9: expected one of: f32 " in said("x", "-o", "y", "--type", "q9")
    assert "did you mean q8?" in said("x", "-o", "y", "--type", "q8_0")
    assert "did you mean" not in said("x", "-o", "y", "--xyzzy")
    assert "required: SOURCE" in said()


def test_every_tool_knows_what_is_near():
    """No tool of the package makes argparse's own parser."""
    for path in sorted((ROOT / "tools/phasor").rglob("*.py")):
        if path.name != "arguments.py":
            assert "ArgumentParser(" not in path.read_text(encoding="utf-8"), path
    assert arguments.near("--beams", ["--beam", "-o"]) == ", did you mean --beam?"
    assert arguments.near("--o", ["-o", "--x"]) == ""


# ---- a command or a file that is another one's


def test_a_command_that_is_for_other_models(tmp_path):
    """Every refusal names commands, and those take the model."""
    models = [LANGUAGE, TRANSLATOR, CHAT, SENTENCE, HIDDEN, MASKED, CLASSIFIER, LABELER]
    for write in (M.write_spans, M.write_ranker, M.write_late):
        models.append(tmp_path / f"{write.__name__}.phasor")
        write(models[-1])
    refused = set()
    for model in models:
        named = {}
        for command in COMMANDS:
            if command in ("quantize", "bench"):
                continue
            words = ["q"] if command in ("answer", "rank") else []
            said = phasor(command, model, *words, stdin="5,6\n").stderr.decode()
            if found := re.search("; this model is for phasor (.*)", said):
                named[command] = set(found[1].split(", "))
        assert named, model
        for command, others in named.items():
            assert others and not others & set(named), (model, command, others)
        refused |= set(named)
    assert refused == set("run score chat embed fill classify tag answer rank".split())
    bad(1, "run", MASKED, "a", says=["is an encoder", "for phasor embed, fill"])
    bad(1, "embed", LANGUAGE, "a", says=["is a decoder", "for phasor run, score"])
    bad(1, "fill", CLASSIFIER, "a", says=["no logits", "embed, classify"])


def config(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


FOREIGN = {
    "a.gguf": (b"GGUF\3\0\0\0" + b"0" * 200, "is a GGUF file", "convert.py makes"),
    "a.safetensors": (struct.pack("<Q", 8) + b'{"a":{}}', "safetensors", "convert.py makes"),
    "a.pt": (b"PK\3\4" + b"0" * 100, "PyTorch checkpoint", "convert.py makes"),
    "old.bin": (b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "is a pickle", "convert.py makes"),
    "a.onnx": (b"\x08\x08\x12\x07pytorch", "is an ONNX file", "convert.py the checkpoint"),
    "spiece.model": (b"\n\x0e\n\5<unk>\x15\0\0\0\0\x18\2", "SentencePiece", "the directory"),
    "tokenizer.json": (b'{"version":"1.0","added_tokens":[]}', "tokenizer.json", "the directory"),
    "config.json": (b'{"model_type": "llama"}', "is a config.json", "the directory"),
    "a.json": (b"{}", "is JSON", "the directory of a checkpoint"),
    "lfs.phasor": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "git lfs pull"),
    "a.h5": (b"\x89HDF\r\n\x1a\n", "is an HDF5 file", "convert.py the checkpoint"),
    "other": (b"hello", "not a .phasor file", ""),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_weight_file(name, tmp_path):
    data, *says = FOREIGN[name]
    (tmp_path / name).write_bytes(data)
    for command in COMMANDS:
        words = ["b", "--type", "q8"] if command == "quantize" else []
        words = ["q"] if command in ("answer", "rank") else words
        line = bad(1, command, name, *words, says=[f"{name}: ", *says], cwd=tmp_path)
        assert len(line) <= 200, line
    for short in range(min(len(data), 12)):
        (tmp_path / name).write_bytes(data[:short])
        bad(1, "verify", name, cwd=tmp_path)


def test_what_is_no_file(tmp_path):
    config(tmp_path / "llama")
    (tmp_path / "empty").mkdir()
    for words, says in (
        (["llama"], ["is a directory", "config.json", "convert.py"]),
        (["empty"], ["is a directory", "convert.py"]),
        (["org/Name-1.5b"], ["nothing is downloaded", "hf download org/Name-1.5b", "convert.py"]),
        (["llama/model"], ["llama/model: no such file\n"]),
        (["a/b/c"], ["a/b/c: no such file\n"]),
        (["./a"], ["./a: no such file\n"]),
        (["models/m.phasor"], ["models/m.phasor: no such file\n"]),
    ):
        for command in ("run", "embed", "inspect"):
            assert len(bad(1, command, *words, says=says, cwd=tmp_path)) <= 200


# ---- flags in place of fields


def settings() -> dict[str, dict[str, str]]:
    """{table: {field: flag}} of src/cli/engine/wording.cpp."""
    text = (ROOT / "src/cli/engine/wording.cpp").read_text()
    found = re.findall(r"Setting (k\w+)\[\] = \{(.*?)\n\};", text, re.S)
    return {name: dict(re.findall(r'\{"(\w+)", "([\w-]*)"\}', rows)) for name, rows in found}


def fields(struct_name: str) -> set[str]:
    """The fields of a struct of the public header, but its size."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "include/phasor.h").read_text(), flags=re.S)
    body = re.search(rf"typedef struct {struct_name} \{{(.*?)\}} {struct_name};", text, re.S)[1]
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)
    names = {word for part in body.split(";") for word in re.findall(r"(\w+) *(?:,|$)", part)}
    return names - {"struct_size"}


def test_every_field_of_the_library_has_its_flag_or_none():
    tables = settings()
    assert set(tables["kLimits"]) == fields("phasor_limits")
    both = fields("phasor_generate_options") | fields("phasor_beam_options")
    assert set(tables["kOptions"]) == both
    known = {name for command in COMMANDS for name, *_ in flags_of(command)}
    for table in tables.values():
        assert set(table.values()) - {""} <= known


def test_a_limit_is_named_by_its_flag(tmp_path):
    learned = MODELS / "tiny-opt-f32.phasor"
    bad(1, "run", learned, "--ids", "5", "--context", 999, says=[": --context: 999, expected 1 "])
    bad(1, "fill", MASKED, "--ids", "5", "--source", 999, says=[": --source: 999, expected 1 to"])
    room = ("run", TRANSLATOR, "--source", "3")
    text = "source5 source6 source7 source8"
    bad(1, *room, text, says=["there is room for 3 (--source; --split sentences takes it apart)"])
    bad(1, "run", LANGUAGE, "--ids", "5,6,7", "--context", "2", says=["(--context; --keep 0 "])
    good("run", LANGUAGE, "--ids", "5,6,7", "--context", "2", "--keep", "0", "-n", "1")
    state = tmp_path / "state"
    good("run", LANGUAGE, "--ids", "5,6", "-n", "1", "--cache", "q8", "--save-state", state)
    load = ("run", LANGUAGE, "--ids", "7", "-n", "1", "--load-state", state)
    bad(1, *load, says=[str(state), "; --cache q8 reads it"])
    good(*load, "--cache", "q8")
    bad(1, *load, "--cache", "q8", "--context", "1", says=["; --context asks for more room"])


def test_a_damaged_tensor_has_its_name(tmp_path):
    data = bytearray(LANGUAGE.read_bytes())
    tensors = json.loads(good("inspect", LANGUAGE, "--json"))["tensors"]
    for index, tensor in enumerate(tensors):
        damaged = bytearray(data)
        damaged[tensor["offset"]] ^= 1
        (tmp_path / "m").write_bytes(damaged)
        line = bad(1, "verify", tmp_path / "m", says=[f"tensor {index}, ", "is damaged"])
        name = R.tensor_name(R.key_of(tensor["stack"], tensor["set"], tensor["role"]))
        assert f"tensor {index}, {name}, (key" in line, line
        assert line.endswith("; copy or convert it again\n")
    for part in (data[:-1], data[:100] + b"?" + data[101:]):
        (tmp_path / "m").write_bytes(part)
        bad(1, "run", tmp_path / "m", says=["; copy or convert it again"])
    (tmp_path / "m").write_bytes(data)
    good("verify", tmp_path / "m")


# ---- a line in, a line out


def answered(words: list, lines: list[str], ends: int = 1) -> None:
    """Each line is answered before the next one is written; an answer has `ends` line feeds or, of
    0, ends with an empty line."""
    program = subprocess.Popen(
        [PHASOR, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with program:
        for line in lines:
            program.stdin.write(line.encode())
            program.stdin.flush()
            said, until = b"", time.monotonic() + 60
            while not (said.count(b"\n") >= ends if ends else b"\n\n" in b"\n" + said):
                left = max(until - time.monotonic(), 0)
                assert select.select([program.stdout], [], [], left)[0], (words, line, said)
                more = program.stdout.read1()
                assert more, (words, line, said)
                said += more
        program.stdin.close()
        assert program.stdout.read() == b""
        assert program.wait(60) in (0, 1)


def test_every_command_of_lines_answers_while_more_are_to_come(tmp_path):
    spans, ranker = tmp_path / "spans.phasor", tmp_path / "ranker.phasor"
    M.write_spans(spans)
    M.write_ranker(ranker)
    texts = ["word4 word5\n", "word9\n", "word4 word7 word5\n"]
    ids = ["2,9,17,4,31,8,3\n", "2,4,3\n", "2,4,4,3\n"]
    targets = ("--target-ids", "4,3")
    for words, lines, ends in (
        (["embed", HIDDEN, "--pooling", "mean", "--ids", "-"], ids, 1),
        (["embed", HIDDEN, "--pooling", "mean", "--ids", "-", "--json"], ids, 1),
        (["embed", MASKED, "--sparse", "--ids", "-"], ids, 0),
        (["fill", MASKED, "--ids", "-"], ids, 0),
        (["fill", MASKED, "--ids", "-", "--json"], ids, 1),
        (["classify", CLASSIFIER, "--ids", "-"], ids, 1),
        (["classify", LABELER, "--ids", "-"], ids, 0),
        (["classify", ranker, "--pair"], ["word4\tword5\n", "word9\tword4\n"], 1),
        (["rank", ranker, "--in-order", "word4"], ["word4\n", "word9\n", "word5\n"], 1),
        (["rank", ranker, "--in-order", "--json", "word4"], ["word4\n", "word9\n"], 1),
        (["tag", spans], texts, 0),
        (["answer", spans, "word4"], texts, 0),
        (["tokenize", spans], texts, 0),
        (["tokenize", spans, "--json"], texts, 1),
        (["run", TRANSLATOR], ["source5\n", "source6 source7\n"], 1),
        (["run", TRANSLATOR, "--beam", "2"], ["source5\n", "source6 source7\n"], 1),
        (["run", CHAT, "--lines", "-n", "2", "--json"], ["a\n", "b c\n"], 1),
        (["score", TRANSLATOR, *targets], ["source5\n", "source6 source7\n"], 1),
        (["score", CHAT, "--lines"], ["a b\n", "b c\n"], 1),
        (["score", LANGUAGE, "--ids", "-"], ["5,6\n", "6,7\n"], 1),
    ):
        answered(words, lines, ends)


def test_ranks_in_order_are_those_that_are_sorted(tmp_path):
    ranker = tmp_path / "ranker.phasor"
    M.write_ranker(ranker)
    texts = "word4\nword9\nword5\nword4 word7\n"
    ordered, ranked = (
        phasor("rank", ranker, *flags, "word4", stdin=texts).stdout.decode().splitlines()
        for flags in (["--in-order"], [])
    )
    assert [line.split("\t")[1:] for line in ordered] == [
        [str(i + 1), text] for i, text in enumerate(texts.splitlines())
    ]
    assert sorted(ordered, key=lambda line: -float(line.split("\t")[0])) == ranked
    bad(2, "rank", ranker, "--in-order", "--top", "2", "word4", says=["--top", "--in-order"])


def test_a_bad_line_is_answered_too():
    answered(["embed", HIDDEN, "--pooling", "mean", "--ids", "-"], ["2,9,3\n", "x\n", "2,9\n"])


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="pipes of packets are Linux's")
def test_a_file_is_read_in_full_batches(tmp_path):
    """The output of a batch is written at once: a packet has as many lines as a batch has texts."""
    lines = tmp_path / "lines"
    lines.write_text("2,9,3\n" * 100)
    words = ["--pooling", "mean", "--dim", "1", "--ids", "-", "--batch", "32", "--quiet"]
    reader, writer = os.pipe2(os.O_DIRECT)
    with lines.open() as stdin:
        subprocess.run([PHASOR, "embed", HIDDEN, *words], stdin=stdin, stdout=writer, check=True)
    os.close(writer)
    counts = []
    while packet := os.read(reader, 1 << 16):
        counts.append(packet.count(b"\n"))
    os.close(reader)
    assert counts == [32, 32, 32, 4]


def test_a_line_that_fails_keeps_its_row(tmp_path):
    rows = tmp_path / "rows.npy"
    words = ("embed", HIDDEN, "--pooling", "mean", "--ids", "-", "--npy", rows)
    lines = ["2,9,3", "x", "4294967294", "2,4,3"]
    done = phasor(*words, stdin="\n".join(lines) + "\n")
    assert done.returncode == 1 and done.stdout == b""
    said = done.stderr.decode().splitlines()
    assert len(said) == 2
    for line, number in zip(said, (2, 3)):
        assert f"line {number}: " in line
        assert line.endswith(f"(row {number - 1} of {rows} is NaN)")
    found = np.load(rows)
    assert np.isnan(found[1:3]).all() and np.isfinite(found[[0, 3]]).all() and len(found) == 4
    for row, line in ((0, lines[0]), (3, lines[3])):
        alone = tmp_path / "one.npy"
        good(*words[:-3], line, "--npy", alone)
        assert np.load(alone)[0].tobytes() == found[row].tobytes()


# ---- texts whole, pieces whole


@pytest.mark.parametrize("end", ["", "\n", "\n\n", " \n", "\r\n"])
def test_a_prompt_is_the_same_from_standard_input(end):
    text = "ab cd" + end
    run = ("run", CHAT, "-n", "1", "--quiet", "--json")
    count = [
        json.loads(said)["input_tokens"]
        for said in (good(*run, text.replace("\r\n", "\n")), good(*run, stdin=text))
    ]
    ids = json.loads(good("tokenize", CHAT, text.replace("\r", ""), "--json"))["ids"]
    assert count[0] == count[1] == len(ids)
    score = ("score", CHAT, "--quiet")
    assert good(*score, text.replace("\r\n", "\n")) == good(*score, stdin=text)


def test_lines_of_a_decoder():
    words = ("run", CHAT, "-n", "3", "--quiet")
    lines = ["ab", "cd ef", "gh"]
    alone = [good(*words, line) for line in lines]
    assert good(*words, "--lines", stdin="\n".join(lines) + "\n") == "".join(alone)
    assert good(*words, "--lines", "--batch", "3", stdin="\n".join(lines)) == "".join(alone)
    bad(2, "run", TRANSLATOR, "--lines", stdin="source5\n", says=["--lines: for a decoder"])
    bad(2, "score", TRANSLATOR, "--lines", "--target-ids", "4", says=["--lines: for a decoder"])


def test_pieces_are_whole_characters():
    """Of a byte-level tokenizer and of one with byte pieces: no half character, no line end."""
    text = "ab\tc\nd \u00e9\U0001f642"
    out = good("tokenize", CHAT, text)
    record = json.loads(good("tokenize", CHAT, "--json", text))
    rows = [line.split("\t") for line in out[:-2].split("\n")]
    assert all(len(row) == 2 for row in rows)
    assert [int(row[0]) for row in rows] == record["ids"]
    assert [row[1] for row in rows] == record["pieces"]
    assert "\ufffd" not in out and all(type(i) is int for i in record["ids"])
    assert json.loads(good("tokenize", CHAT, "--json", "--print-ids", text)) == {
        "line": 1,
        "ids": record["ids"],
    }
    ids = ",".join(map(str, record["ids"]))
    back = json.loads(good("tokenize", CHAT, "--json", "--decode", "--ids", ids))
    assert back["line"] == 1 and isinstance(back["text"], str)
    done = phasor("tokenize", CHAT, "--json", stdin=b"a\n\xff\nb\n")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1 and [one["line"] for one in found] == [1, 2, 3]
    assert "UTF-8" in found[1]["error"]


def test_quantize_says_what_is_on_the_disk(tmp_path):
    out = tmp_path / "m.phasor"
    said = json.loads(good("quantize", TRANSLATOR, out, "--type", "q8", "--json"))
    assert said["file"] == str(out) and said["bytes"] == out.stat().st_size
    assert sum(one["bytes"] for one in said["types"]) < said["bytes"]
    assert type(said["argmax_differs"]) is int and type(said["worst_logit"]) is float
    size = f"{out.stat().st_size:,} bytes"
    assert good("quantize", TRANSLATOR, out, "--type", "q8").startswith(f"{out}: {size}\n")
    assert good("quantize", TRANSLATOR, out, "--type", "q8", "--quiet") == ""
    # What cannot be written is not reported.
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$0" quantize "$1" "$2" --type q8', PHASOR]
        + [str(TRANSLATOR), str(tmp_path / "other")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stdout == "", done
