"""`phasor run --batch N`: the lines that come out are those of N = 1, in their order."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import select
import subprocess
import time
from pathlib import Path

import pytest
from test_cli import LANGUAGE, MODELS, PHASOR, TRANSLATOR, bad, phasor

CHAT = MODELS / "tiny-chat-f32.phasor"  # a decoder with a tokenizer


def lines(seed: int, count: int) -> str:
    rng = random.Random(seed)
    words = [f"source{i}" for i in range(3, 40)]
    return "".join(" ".join(rng.choices(words, k=rng.randint(0, 30))) + "\n" for _ in range(count))


def lists(seed: int, count: int) -> str:
    rng = random.Random(seed)
    return "".join(
        ",".join(str(rng.randint(3, 30)) for _ in range(rng.randint(1, 25))) + "\n"
        for _ in range(count)
    )


def check_batches(given, text, batches):
    """Any number of lines side by side gives what one line after the other gives."""
    one = phasor("run", "--quiet", *given, "--batch", "1", stdin=text)
    assert len(set(one.stdout.split(b"\n"))) > 10
    for batch in batches:
        many = phasor("run", "--quiet", *given, "--batch", batch, stdin=text)
        assert (many.stdout, many.returncode) == (one.stdout, one.returncode)
        assert sorted(many.stderr.split(b"\n")) == sorted(one.stderr.split(b"\n"))


@pytest.mark.parametrize("flags", [[], ["-n", "5"], ["--temperature", "1.2", "--seed", "3"]])
@pytest.mark.parametrize(
    "path, given, text",
    [
        (TRANSLATOR, [], lines(1, 70)),
        (TRANSLATOR, ["--no-repeat-ngram", "2", "--source", "20"], lines(2, 70)),
        (LANGUAGE, ["--ids", "-", "--print-ids", "--context", "30"], lists(3, 60)),
        (CHAT, ["--ids", "-", "--stop", "a", "--repeat-penalty", "1.3"], lists(4, 60)),
    ],
)
def test_the_same_lines_in_their_order(path, given, text, flags):
    check_batches([path, *given, *flags], text, (2, 5, 32))


def test_a_stop_string_in_the_prefix():
    given = [TRANSLATOR, "--quiet", "--prefix", "target5 target6 target17", "--stop", "6 t"]
    for batch in ("1", "2"):
        done = phasor("run", *given, "--batch", batch, stdin="source5\nsource6 source7\nsource8\n")
        assert done.stdout == b"target5 target\n" * 3


def test_a_prefix_without_room():
    """It is not cut; a search has a token to search for."""
    ids, room = ["--prefix-ids", "5,6,7"], "--prefix-ids: 3 tokens, there is room for 2 "
    for flags in (["-n", "2"], ["-n", "3", "--beam", "2"], ["-n", "2", "--batch", "2"]):
        bad(1, "run", TRANSLATOR, "source5", *ids, *flags, says=[room + "(-n)"])
    bad(1, "run", TRANSLATOR, "source5", *ids, "--context", "2", says=[room + "(--context)"])
    for flags in (["-n", "3"], ["--context", "3"], ["-n", "4", "--beam", "2"]):
        done = phasor("run", TRANSLATOR, "source5", "--quiet", "--print-ids", *ids, *flags)
        assert done.returncode == 0 and done.stdout.startswith(b"5,6,7"), done.stderr


def test_a_prefix_behind_a_long_prompt():
    """Nor is it cut where the prompt leaves too little of the context."""
    given = ["run", MODELS / "tiny-gptj-f32.phasor", "--quiet", "--print-ids"]
    given += ["--prefix-ids", "5,6,7", "--ids"]
    prompt, room = "1,2,3,4,5,6,7,8", "10 tokens, there is room for 9 (--context"
    for more in ([], ["--batch", "2"]):
        bad(1, *given, prompt, "--context", "9", *more, says=[room, "), with --prefix-ids"])
        done = phasor(*given, prompt, "--context", "10", *more)
        assert done.returncode == 0 and done.stdout == b"5,6,7\n", done.stderr
    bad(1, *given, prompt, "--context", "10", "--beam", "2", says=["11 tokens, "])
    done = phasor(*given, prompt, "--context", "11", "--beam", "2")
    assert done.returncode == 0 and done.stdout.startswith(b"5,6,7,"), done.stderr


def test_a_bad_line_fails_alone():
    long, bytes_ = "source5 " * 300, "source4 " * 3000
    text = f"source5\n\n{long}\nsource6\n\udcff\n{bytes_}\nsource7 source8\n"
    given = text.encode("utf-8", "surrogateescape")
    one, many = (
        phasor("run", TRANSLATOR, "--quiet", "--batch", n, stdin=given) for n in ("1", "4")
    )
    assert many.returncode == one.returncode == 1
    assert many.stdout == one.stdout and many.stderr == one.stderr
    assert many.stderr.count(b"\n") == 3 and b"line 5: " in many.stderr
    assert many.stdout.split(b"\n")[1:3] == [b"", b""]


def test_a_line_that_fails_on_its_way():
    """Two tokens may be chosen, each once: what was streamed stays, and side by side nothing is."""
    other = ",".join(str(i) for i in range(47) if i not in (7, 9))
    given = ["--quiet", "--suppress", other, "--no-repeat-ngram", "1", "--print-ids"]
    text, outs = "source5\n\nsource6\n", []
    for more in (["--batch", "1"], ["--batch", "2"], ["--beam", "2"]):
        done = phasor("run", TRANSLATOR, *given, *more, stdin=text)
        said = done.stderr.decode().splitlines()
        assert (
            done.returncode == 1 and len(said) == 2 and "line 1: no token may be chosen" in said[0]
        )
        assert "line 3: no token may be chosen" in said[1]
        outs.append(done.stdout.decode().split("\n"))
    assert outs[1] == outs[2] == ["", "", "", ""]
    assert [len(line.split(",")) for line in outs[0]] == [2, 1, 2, 1] and outs[0][1] == ""


def peak(text: bytes, folder: Path, flags: list[str]) -> tuple[int, bytes, bytes]:
    """(the most KiB in memory, those at the end that are its own, standard output, standard error)
    of a run over these lines. The first counts pages of files too, of which the kernel maps some
    more or less; its number of a child that has ended counts what Python was before it."""
    out, errors = folder / "out", folder / "errors"
    command = [PHASOR, "run", TRANSLATOR, "--quiet", "-n", "5", "--source", "20", *flags]
    with open(out, "wb") as to, open(errors, "wb") as wrong:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=to, stderr=wrong) as process:
            process.stdin.write(text)
            process.stdin.flush()
            until = time.monotonic() + 600
            while out.read_bytes().count(b"\n") < text.count(b"\n"):
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.05)
            status = Path(f"/proc/{process.pid}/status").read_text()
            process.stdin.close()
            assert process.wait() == 1
    most, own = (int(re.search(rf"{of}:\s+(\d+) kB", status)[1]) for of in ("VmHWM", "RssAnon"))
    return most, own, out.read_bytes(), errors.read_bytes()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
@pytest.mark.parametrize(
    "flags", [["--batch", "1"], ["--batch", "8"], ["--beam", "2"], ["--split", "sentences"]]
)
def test_ten_thousand_lines_take_the_memory_of_a_hundred(flags, tmp_path):
    given = lines(9, 97).encode().split(b"\n")[:-1]
    given[10:10] = [b"\xff source5", b"source5 " * 40, b"source4 " * 3000]
    few = b"".join(line + b"\n" for line in given)
    (*first, out, errors), (*second, _, _), (*most, whole, all_errors) = (
        peak(few * count, tmp_path, flags) for count in (1, 10, 100)
    )
    assert few.count(b"\n") == 100 and len({*out.split(b"\n")}) > 15
    assert whole == out * 100
    # Buffers grow to the longest line's size; the last input is 3 MB longer than the one before.
    assert second[0] < first[0] + 2048 and most[0] < second[0] + 1024, (first, second, most)
    assert second[1] < first[1] + 512 and most[1] < second[1] + 64, (first, second, most)
    where = re.compile(rb"line (\d+): ")
    once = [int(n) for n in where.findall(errors)]
    assert {11, 12, 13} <= {*once}
    again = [int(n) for n in where.findall(all_errors)]
    assert again == [n + 100 * i for i in range(100) for n in once]
    assert where.sub(b"", all_errors) == where.sub(b"", errors) * 100


def test_json_and_arguments():
    words = ["source5 source9", "source6", "source7 source8 source9"]
    reports = []
    for batch in ("1", "3"):
        done = phasor("run", TRANSLATOR, "--quiet", "--json", "--batch", batch, *words)
        reports.append([json.loads(line) for line in done.stdout.splitlines()])
    for one, many in zip(*reports, strict=True):
        for name in ("line", "text", "ids", "finish", "input_tokens", "tokens"):
            assert one[name] == many[name], name


@pytest.mark.parametrize("beams", [["--beam", "3"], ["--beam", "4", "--n-best", "3", "-n", "9"]])
@pytest.mark.parametrize(
    "path, given, text",
    [
        (TRANSLATOR, ["--no-repeat-ngram", "2"], lines(5, 40)),
        (TRANSLATOR, ["--prefix-ids", "5,6", "--source", "20"], lines(6, 40)),
        (LANGUAGE, ["--ids", "-", "--print-ids", "--context", "20"], lists(7, 40)),
        (CHAT, ["--ids", "-", "--stop", "a", "--length-penalty", "0.6"], lists(8, 30)),
    ],
)
def test_beams_of_lines_side_by_side(path, given, text, beams):
    check_batches([path, *given, *beams], text, (2, 32))


def test_beams_as_json_and_the_arena_that_is_planned():
    given = ["--quiet", "--json", "--beam", "3", "--n-best", "2"]
    reports = []
    for batch in ("1", "3"):
        words = ["source5 source9", "", "source7 source8 source9", "source6"]
        done = phasor("run", TRANSLATOR, *given, "--batch", batch, stdin="\n".join(words) + "\n")
        reports.append([json.loads(line) for line in done.stdout.splitlines()])
    assert len(reports[0]) == 4 and reports[0][1]["outputs"] == []
    for one, many in zip(*reports, strict=True):
        for name in ("line", "text", "ids", "finish", "input_tokens", "tokens", "outputs"):
            assert one[name] == many[name], name
        assert many["arena_bytes"] > one["arena_bytes"]


def arena(*given, stdin="source5\nsource6\n") -> int:
    done = phasor("run", "--quiet", "--json", *given, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[0])["arena_bytes"]


def test_how_many_lines_without_the_flag():
    """As many as 16 in 256 MiB, of lines of standard input that nobody types."""
    one, most = (arena(TRANSLATOR, "--batch", n) for n in ("1", "16"))
    assert arena(TRANSLATOR) == most > arena(TRANSLATOR, "--batch", "15") > one
    assert arena(TRANSLATOR, "source5", "source6") == one
    assert arena(TRANSLATOR, "--lookahead", "2") < most
    beams = ["--beam", "4", "--source", "500", "--context", "500"]
    larger = ["--beam", "32", "--source", "1000", "--context", "1000"]
    for flags in (beams, larger):
        assert arena(TRANSLATOR, *flags) <= 256 << 20
    assert arena(TRANSLATOR, *beams) == arena(TRANSLATOR, *beams, "--batch", "16")
    some = [arena(TRANSLATOR, *larger, "--batch", n) for n in map(str, range(1, 17))]
    assert some[0] < 256 << 20 < some[-1]
    assert arena(TRANSLATOR, *larger) == max(x for x in some if x <= 256 << 20)
    whole = arena(CHAT, "--context", "40", "-n", "2", stdin="a\nb\n")
    assert whole == arena(CHAT, "--context", "40", "-n", "2", "--batch", "1", stdin="a\nb\n")


@pytest.mark.parametrize("flags", [[], ["--beam", "2"], ["--samples", "2", "--seed", "1"]])
def test_who_waits_for_an_answer_gets_it(flags):
    command = [PHASOR, "run", TRANSLATOR, "--quiet", "-n", "3", *flags]
    pipe = subprocess.PIPE
    asked = ["source5\n", "\n", "source6 source7\n", "\xff\n", "source8\n"]
    answers = []
    with subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        for line in asked:
            text = line.encode("latin-1")
            process.stdin.write(text[:-1])
            process.stdin.write(text[-1:])
            for _ in range(2 if "--samples" in flags else 1):
                assert select.select([process.stdout], [], [], 20)[0], "no answer"
                answers.append(process.stdout.readline())
        process.stdin.close()
        assert process.wait() == 1 and process.stdout.read() == b""
        assert process.stderr.read().count(b"\n") == 1
    given = "".join(asked).encode("latin-1")
    alone = phasor("run", TRANSLATOR, "--quiet", "-n", "3", *flags, "--batch", "1", stdin=given)
    assert b"".join(answers) == alone.stdout


def test_lines_that_are_typed_come_one_after_the_other():
    own, theirs = pty.openpty()
    command = [PHASOR, "run", TRANSLATOR, "--quiet", "--json", "-n", "3"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE) as process:
        for _ in range(2):
            os.write(own, b"source5\n")
            answer = json.loads(process.stdout.readline())
            assert answer["arena_bytes"] == arena(TRANSLATOR, "-n", "3", "--batch", "1")
        os.write(own, b"\x04")
        assert process.wait() == 0
    os.close(own), os.close(theirs)


@pytest.mark.parametrize("batch", ["1", "4"])
def test_a_terminal_sees_how_far_it_is(batch):
    def seen(flags, out):
        own, theirs = pty.openpty()
        command = [PHASOR, "run", TRANSLATOR, "-n", "3", "--batch", batch, *flags]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=theirs if out else subprocess.PIPE, stderr=theirs
        ) as process:
            for text in (b"source5\n" * 5, b"source6\n", b"\xff\n" + b"source6\n" * 4):
                process.stdin.write(text)
                process.stdin.flush()
                for _ in () if out else text.splitlines():
                    assert process.stdout.readline()
                time.sleep(0.3)
            process.stdin.close()
            shown = b""
            assert out or process.stdout.read() == b""
            assert process.wait() == 1
        os.close(theirs)
        while select.select([own], [], [], 0)[0]:
            try:
                shown += os.read(own, 4096)
            except OSError:
                break
        os.close(own)
        return shown

    shown = seen([], out=False)
    assert re.search(rb"\rphasor: \d+ lines, \d+ tokens\x1b\[K", shown)
    assert b"\r\x1b[Kphasor: standard input, line 7: " in shown  # an error has a line of its own
    assert b"tokens\x1b" not in seen(["--quiet"], out=False)
    assert b"tokens\x1b" not in seen([], out=True)


# a small letter behind a full stop: no sentence ends there
SENTENCES = ["source5 source6!", "source7 . source8 ?", "source9 \u3002", "source10."]
LONG = " ".join(SENTENCES)


@pytest.mark.parametrize("flags", [[], ["--beam", "2"], ["--print-ids"], ["--json"]])
def test_a_text_that_is_too_long_goes_in_sentence_by_sentence(flags):
    given = ["run", TRANSLATOR, "--quiet", "-n", "4", "--source", "6", *flags]
    alone = phasor(*given, *SENTENCES).stdout.decode().splitlines()
    done = phasor(*given, "--split", "sentences", LONG, SENTENCES[0])
    assert done.returncode == 0, done.stderr
    whole, next_ = done.stdout.decode().splitlines()
    if flags == ["--json"]:
        parts, whole = [json.loads(line) for line in alone], json.loads(whole)
        assert whole["text"] == " ".join(part["text"] for part in parts)
        assert whole["ids"] == sum((part["ids"] for part in parts), [])
        assert whole["tokens"] == len(whole["ids"]) and whole["input_tokens"] > 6
        assert json.loads(next_)["ids"] == parts[0]["ids"]
    else:
        assert whole == ("," if flags == ["--print-ids"] else " ").join(alone)
        assert next_ == alone[0]


@pytest.mark.parametrize("batch", ["1", "3"])
def test_the_outputs_of_a_line_of_sentences_are_those_of_its_sentences(batch):
    given = ["run", TRANSLATOR, "--quiet", "-n", "4", "--source", "6", "--beam", "2", "--json"]
    alone = [json.loads(x)["outputs"][0] for x in phasor(*given, *SENTENCES).stdout.splitlines()]
    done = phasor(*given, "--batch", batch, "--split", "sentences", LONG)
    whole = json.loads(done.stdout)
    assert whole["outputs"] == alone and whole["finish"] == alone[-1]["finish"]
    assert whole["text"] == " ".join(one["text"] for one in alone)


@pytest.mark.parametrize(
    "flags", [[], ["--beam", "2"], ["--print-ids"], ["--temperature", "1.1", "--seed", "4"]]
)
def test_sentences_side_by_side(flags):
    rng = random.Random(7)
    text = ""
    for _ in range(40):
        some = rng.choices([*SENTENCES, "source5 " * 7 + "!", ""], [9, 9, 9, 9, 5, 3], k=3)
        text += " ".join(some[: rng.randint(0, 3)]) + "\n"
    given = ["run", TRANSLATOR, "--quiet", "-n", "4", "--source", "6", "--split", "sentences"]
    one = phasor(*given, *flags, stdin=text)
    assert one.returncode == 1 and one.stderr.count(b"sentence ") > 2
    for batch in ("3", "8"):
        many = phasor(*given, *flags, "--batch", batch, stdin=text)
        assert (many.stdout, many.returncode) == (one.stdout, 1)
        assert sorted(many.stderr.split(b"\n")) == sorted(one.stderr.split(b"\n"))
    lines_ = [
        [
            json.loads(line)
            for line in phasor(*given, *flags, "--json", *more, stdin=text).stdout.splitlines()
        ]
        for more in ([], ["--batch", "5"])
    ]
    for a, b in zip(*lines_, strict=True):
        for name in ("line", "text", "ids", "finish", "input_tokens", "tokens", "error"):
            assert a.get(name) == b.get(name), name


def test_what_is_too_long_is_said_with_both_numbers():
    long = "source5 " * 7 + "! source6 ."
    text = f"source5\n{LONG}\n{long}\nsource6\n"
    given = ["run", TRANSLATOR, "--quiet", "-n", "4", "--source", "6"]
    plain = phasor(*given, stdin=text)
    split = phasor(*given, "--split", "sentences", stdin=text)
    assert plain.returncode == split.returncode == 1
    assert [line.split(b" tokens, ")[1] for line in plain.stderr.splitlines()] == [
        b"there is room for 6 (--source; --split sentences takes it apart)"
    ] * 2
    assert re.fullmatch(
        rb"phasor: standard input, line 3: sentence 1: \d+ tokens, there is room for 6 "
        rb"\(--source\)\n",
        split.stderr,
    )
    lines_ = split.stdout.split(b"\n")
    assert len(lines_) == 5 and lines_[1] and not lines_[2] and lines_[3]
    assert lines_[0] == plain.stdout.split(b"\n")[0]


@pytest.mark.parametrize(
    "model, flags, says",
    [
        (TRANSLATOR, ["--beam", "2", "--n-best", "2"], "--n-best"),
        (CHAT, [], "this model is a decoder"),
        (TRANSLATOR, ["--logits", "x.npy"], "--logits"),
    ],
)
def test_what_does_not_go_with_splitting(model, flags, says):
    bad(2, "run", model, "--split", "sentences", *flags, "x", says=[says, "--split"])


@pytest.mark.parametrize("flag", [["--keep", "2"], ["--lookahead"]])
def test_what_does_not_go_with_it(flag):
    bad(2, "run", TRANSLATOR, "--batch", "4", *flag, "x", says=[flag[0], "--batch"])
