"""The program from outside: exit statuses, one-line errors, results that do not depend on threads
or levels, files for NumPy.

PHASOR names the program (default build/phasor). Needs numpy; the models are the small ones of
tests/golden/models.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from phasor.format import descriptor as D
from phasor.format.fields import FIELD_ROWS, STRING
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference
from phasor.reference.functions import CACHES
from places import ROOT
from random_models import encoder, write_random
from texts import ids_text

PHASOR = os.environ.get("PHASOR", str(ROOT / "build" / "phasor"))
MODELS = ROOT / "tests" / "golden" / "models"
TRANSLATOR = MODELS / "tiny-d2l-f32.phasor"  # word lists: source4 … source42, target4 … target46
LANGUAGE = MODELS / "tiny-lm-f32.phasor"  # a decoder without a tokenizer
SECTIONS = {
    1: "META",
    2: "DIRECTORY",
    3: "source tokenizer",
    4: "target tokenizer",
    5: "VECTORS",
    15: "DATA",
}


def phasor(*arguments, stdin: bytes | str = b"", **more):
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(
        [PHASOR, *map(str, arguments)],
        input=data,
        stdout=more.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        timeout=60,
        **more,
    )


def good(*arguments, **more) -> str:
    done = phasor(*arguments, **more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def bad(status: int, *arguments, says: tuple[str, ...] = (), **more) -> str:
    """Runs what must fail: the status, and one line on standard error that has all of `says`."""
    done = phasor(*arguments, **more)
    error = done.stderr.decode()
    assert done.returncode == status, (done.returncode, error)
    assert error.startswith("phasor: ") and error.endswith("\n") and error.count("\n") == 1, error
    for word in says:
        assert word in error, (word, error)
    return error


def levels() -> list[str]:
    return good("--version").split(" levels ")[1].split()


def sections(data: bytes) -> dict[int, tuple[int, int]]:
    count = struct.unpack_from("<I", data, 20)[0]
    return {
        kind: (offset, size)
        for kind, _, offset, size in (
            struct.unpack_from("<IIQQ", data, 64 + 32 * i) for i in range(count)
        )
    }


# ---- the command line


@pytest.mark.parametrize(
    "arguments, says",
    [
        ([], ["expected a command"]),
        (["walk"], ["walk", "unknown command"]),
        (["run"], ["expected a model file"]),
        (["run", "m", "--fast"], ["--fast", "unknown flag"]),
        (["run", "m", "--reps", "3"], ["--reps", "not a flag of run"]),
        (["run", "m", "-n"], ["-n", "expected a value"]),
        (["run", "m", "-n", "0"], ["-n 0", "from 1 to"]),
        (["run", "m", "-n", "ten"], ["-n ten", "whole number"]),
        (["run", "m", "-n", "-1"], ["-n -1", "whole number"]),
        (["run", "m", "-n", "99999999999999999999"], ["-n 9", "from 1 to"]),
        (["run", "m", "--threads=65"], ["--threads 65", "from 1 to 64"]),
        (["run", "m", "--threads", ""], ["--threads", "whole number"]),
        (["run", "m", "--quiet=yes"], ["--quiet", "no value"]),
        (["run", "m", "--ids", "1,,2"], ["--ids 1,,2", "separated by commas"]),
        (["run", "m", "--ids", "1;2"], ["--ids 1;2", "separated by commas"]),
        (["run", "m", "--ids", "4294967295"], ["--ids", "token ids"]),
        (["run", "m", "--isa", "quantum"], ["--isa quantum", "scalar"]),
        (["run", "m", "--seed", "-1"], ["--seed -1", "from 0 to 18446744073709551615"]),
        (["run", "m", "--seed", "18446744073709551616"], ["--seed", "whole number"]),
        (["run", "m", "--temperature", "-0.1"], ["--temperature -0.1", "from 0 to 1000"]),
        (["run", "m", "--temperature", "nan"], ["--temperature nan", "a number"]),
        (["run", "m", "--temperature", "1e9999"], ["--temperature 1e9999", "a number"]),
        (["run", "m", "--temperature", ""], ["--temperature", "a number"]),
        (["run", "m", "--top-p", "0"], ["--top-p 0", "above 0 up to 1"]),
        (["run", "m", "--top-p", "1.5"], ["--top-p 1.5", "above 0 up to 1"]),
        (["run", "m", "--min-p", "0.5x"], ["--min-p 0.5x", "from 0 to 1"]),
        (["run", "m", "--typical=2"], ["--typical 2", "up to 1"]),
        (["run", "m", "--repeat-penalty", "0"], ["--repeat-penalty 0", "above 0"]),
        (["run", "m", "--lookahead=65"], ["--lookahead 65", "from 1 to 64"]),
        (
            ["run", "m", "--top-k", "5", "--temperature", "0"],
            ["--top-k", "no effect at --temperature 0"],
        ),
        (["run", "m", "--stop", ""], ["--stop", "1 to 256 bytes"]),
        (["run", "m", *["--stop=x"] * 65], ["--stop", "at most 64"]),
        (["score", "m", "--top-k", "5"], ["--top-k", "not a flag of score"]),
        (["run", "m", "--beam=0"], ["--beam 0", "from 1 to 256"]),
        (["run", "m", "--beam=2", "--n-best", "3"], ["--n-best 3", "at most --beam, 2"]),
        (["run", "m", "--beam=2", "--length-penalty", "9"], ["--length-penalty 9", "from -4 to 4"]),
        (
            ["run", "m", "--beam=2", "--early-stopping", "maybe"],
            ["--early-stopping maybe", "no yes never"],
        ),
        (["run", "m", "--n-best", "3"], ["--n-best", "needs --beam"]),
        (["run", "m", "--length-penalty", "1"], ["--length-penalty", "needs --beam"]),
        (["run", "m", "--early-stopping", "yes"], ["--early-stopping", "needs --beam"]),
        (["run", "m", "--length-norm", "gnmt"], ["--length-norm", "needs --beam"]),
        (["run", "m", "--bad-words", "1,x"], ["--bad-words 1,x", "separated by commas"]),
        (["run", "m", "--forced-last", "1,2"], ["--forced-last", "one token id"]),
        *(
            (["run", "m", "--beam", "4", *flag], [flag[0], "does not go with --beam"])
            for flag in (
                ["--temperature", "1"],
                ["--top-k", "3"],
                ["--top-p", "0.5"],
                ["--min-p", "0.5"],
                ["--typical", "0.5"],
                ["--seed", "1"],
                ["--sample"],
                ["--lookahead"],
                ["--presence-penalty", "1"],
                ["--frequency-penalty", "1"],
                ["--keep", "1"],
                ["--save-state", "x"],
                ["--load-state", "x"],
            )
        ),
        (["quantize", "a", "--type", "q8"], ["quantize: expected two files"]),
        (["quantize", "a", "b"], ["quantize: expected --bytes or --type", "q4"]),
        (["quantize", "a", "b", "--inputs", "rotated"], ["expected --bytes or --type"]),
        (
            ["quantize", "a", "b", "--inputs", "16", "--output-type", "q8"],
            ["--output-type: needs --type"],
        ),
        *(
            (["quantize", "a", "b", "--bytes", size], [f"--bytes {size}:", "most 1099511627776"])
            for size in ("0", "-1", "1e6", "3MB", "3.5M", "9999999M", "1099511627777")
        ),
        (
            ["quantize", "a", "b", "--type", "q5"],
            ["--type q5", "expected one of: f32 f16 bf16 q8 q4"],
        ),
        (
            ["quantize", "a", "b", "--type", "q8", "--output-type", ""],
            ["--output-type", "expected one of: f32"],
        ),
        (["run", "a", "--type", "q8"], ["--type: not a flag of run"]),
    ],
)
def test_a_wrong_command_line(arguments, says):
    bad(2, *arguments, says=says)


def test_contradictions():
    bad(2, "run", TRANSLATOR, "source5", "--ids", "5", says=["--ids"])
    bad(
        2,
        "run",
        TRANSLATOR,
        "source5",
        "--prefix",
        "target5",
        "--prefix-ids",
        "5",
        says=["--prefix"],
    )
    bad(2, "run", LANGUAGE, "--ids", "5", "--source", "4", says=["--source"])
    bad(2, "run", LANGUAGE, "--ids", "5", "--hidden-decoder", "x.npy", says=["--hidden-decoder"])
    bad(2, "verify", TRANSLATOR, "extra", says=["extra"])


def test_help_and_version():
    text = good("--help")
    commands = "run embed fill classify tag answer rank chat tokenize inspect verify score bench"
    for command in [*commands.split(), "quantize"]:
        assert f"\n  {command} " in text
    for command in "run tokenize inspect verify score bench quantize".split():
        assert "--" in good(command, "--help")
    assert "numerics 1" in good("--version") and "scalar" in levels()


# ---- bad files


def test_files_that_are_none(tmp_path):
    empty, text, folder = tmp_path / "empty", tmp_path / "text", tmp_path
    empty.write_bytes(b"")
    text.write_text("This is a text file. " * 20)
    for command in ["run", "inspect", "verify", "bench", "tokenize", "score"]:
        bad(1, command, tmp_path / "none", says=[str(tmp_path / "none"), "no such file"])
        bad(1, command, folder, says=[str(folder), "is a directory"])
        bad(1, command, empty, says=[str(empty), "is empty"])
        bad(1, command, text, says=[str(text)])
    bad(1, "run", "/dev/null", says=["/dev/null", "not a regular file"])


def test_a_truncated_file(tmp_path):
    data = TRANSLATOR.read_bytes()
    cut = tmp_path / "cut.phasor"
    for size in [1, 7, 8, 63, 64, 100, 1000, len(data) // 2, len(data) - 64, len(data) - 1]:
        cut.write_bytes(data[:size])
        bad(1, "run", cut, "--ids", "5", says=[str(cut)])
        bad(1, "verify", cut, says=[str(cut)])
    cut.write_bytes(data + b"\0")
    bad(1, "verify", cut, says=[str(cut)])


def test_another_version(tmp_path):
    data = bytearray(TRANSLATOR.read_bytes())
    struct.pack_into("<I", data, 8, 2)
    other = tmp_path / "other.phasor"
    other.write_bytes(data)
    bad(1, "inspect", other, says=[str(other), "version 2"])


@pytest.mark.parametrize("kind", SECTIONS)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_flipped_bit(kind, place, tmp_path):
    data = bytearray(TRANSLATOR.read_bytes())
    offset, size = sections(data)[kind]
    data[offset + {"first": 0, "middle": size // 2, "last": size - 1}[place]] ^= 0x10
    damaged = tmp_path / "damaged.phasor"
    damaged.write_bytes(data)
    bad(1, "verify", damaged, says=[str(damaged)])
    bad(1, "run", damaged, "--ids", "5", "--check", says=[str(damaged)])


@pytest.mark.parametrize("byte", range(64))
def test_a_flipped_bit_in_the_header(byte, tmp_path):
    data = bytearray(TRANSLATOR.read_bytes())
    data[byte] ^= 0x01
    damaged = tmp_path / "damaged.phasor"
    damaged.write_bytes(data)
    bad(1, "inspect", damaged, says=[str(damaged)])


def test_verify_json_of_a_damaged_file(tmp_path):
    data = bytearray(TRANSLATOR.read_bytes())
    data[sections(data)[15][0] + 5] ^= 1
    damaged = tmp_path / "damaged.phasor"
    damaged.write_bytes(data)
    done = phasor("verify", damaged, "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (
        report["ok"] is False
        and report["vectors"] == []
        and report["error"] in done.stderr.decode()
    )


# ---- bad input


def test_a_token_id_out_of_range():
    bad(1, "run", TRANSLATOR, "--ids", "4,43", says=["--ids", "43"])
    bad(1, "run", TRANSLATOR, "--ids", "4,5", "--prefix-ids", "47", says=["--prefix-ids", "47"])
    bad(1, "run", LANGUAGE, "--ids", "4,99999", says=["--ids", "99999"])
    bad(1, "run", TRANSLATOR, "--ids", "", says=["--ids"])
    bad(1, "score", TRANSLATOR, "--ids", "4", "--target-ids", "5,47", says=["47"])


@pytest.mark.parametrize(
    "text, place",
    [
        (b"\xff", 0),
        (b"abc\x80", 3),
        (b"ab\xc3", 2),
        (b"\xed\xa0\x80", 0),
        (b"x\xc0\xaf", 1),
        (b"\xf5\x80\x80\x80", 0),
    ],
)
def test_invalid_utf8(text, place):
    bad(
        1,
        "run",
        TRANSLATOR,
        stdin=b"source5\n" + text + b"\nsource6\n",
        says=["line 2", f"byte {place}"],
    )
    bad(1, "tokenize", TRANSLATOR, stdin=text, says=["line 1", "UTF-8"])
    bad(1, "tokenize", TRANSLATOR, "--offsets", stdin=text, says=["line 1", "UTF-8"])
    bad(2, "tokenize", TRANSLATOR, "--offsets", "--decode", says=["--offsets", "--decode"])


def test_too_long_a_line():
    long = " ".join(["source5"] * 40)
    error = bad(
        1,
        "run",
        TRANSLATOR,
        "--source",
        "16",
        stdin=f"source5\n{long}\nsource6\n",
        says=["line 2", "41 tokens", "16"],
    )
    assert "--source" in error
    bad(1, "run", TRANSLATOR, "--source", "16", long, says=["argument 1", "41 tokens"])
    lines = ["source5", "y " * 50_000, "source6", "source7 " * 9_000, "source5"]
    done = phasor("run", TRANSLATOR, "--quiet", stdin="\n".join(lines) + "\n")
    one, long, two, longer, again = done.stdout.decode().split("\n")[:-1]
    assert done.returncode == 1 and long == longer == "" and one == again != ""
    assert two == good("run", TRANSLATOR, "--quiet", "source6").strip("\n")
    for number, count in ((2, 50001), (4, 9001)):
        assert f"line {number}: {count} tokens, there is room for 256 (--source; --split " in (
            done.stderr.decode()
        )
    bad(1, "run", LANGUAGE, "--context", "4", "--ids", "4,5,6,7,8", says=["--ids", "5 tokens", "4"])


def test_a_bad_line_keeps_the_others_in_their_place():
    lines = ["source5 source6", "", " ".join(["source5"] * 300), "source7", "source8"]
    done = phasor("run", TRANSLATOR, "-n", "4", stdin="\n".join(lines) + "\n")
    out = done.stdout.decode().split("\n")
    assert done.returncode == 1 and len(out) == 6 and out[5] == ""
    assert out[1] == "" and out[2] == ""
    for i in (0, 3, 4):
        assert out[i] + "\n" == good("run", TRANSLATOR, "-n", "4", "--quiet", lines[i])


def test_outputs_that_cannot_be_written(tmp_path):
    bad(
        1,
        "run",
        TRANSLATOR,
        "--ids",
        "5",
        "--logits",
        tmp_path / "no" / "x.npy",
        says=["x.npy", "No such file"],
    )
    bad(1, "run", TRANSLATOR, "--ids", "5", "--logits", tmp_path, says=[str(tmp_path)])
    bad(1, "run", TRANSLATOR, "--ids", "5", "--attention", "/dev/full", says=["/dev/full"])
    assert list(tmp_path.iterdir()) == []
    with open("/dev/full", "wb") as full:
        bad(1, "run", TRANSLATOR, "--ids", "5", stdout=full, says=["standard output"])
        bad(1, "inspect", TRANSLATOR, stdout=full, says=["standard output"])
        bad(1, "--help", stdout=full, says=["standard output"])


def test_a_file_that_failed_leaves_nothing(tmp_path):
    bad(1, "run", TRANSLATOR, "--ids", "99", "--logits", tmp_path / "x.npy", says=["99"])
    assert list(tmp_path.iterdir()) == []


# ---- results


def test_lines_and_arguments_are_the_same():
    lines = ["source5 source6", "source7", "source9 source10 source11"]
    from_arguments = good("run", TRANSLATOR, "-n", "6", *lines)
    assert from_arguments.count("\n") == 3
    assert good("run", TRANSLATOR, "-n", "6", stdin="\n".join(lines)) == from_arguments
    assert good("run", TRANSLATOR, "-n", "6", stdin="\r\n".join(lines) + "\r\n") == from_arguments
    assert (
        good("run", TRANSLATOR, "-n", "6", stdin="\ufeff" + "\n".join(lines) + "\n")
        == from_arguments
    )
    assert good("run", TRANSLATOR, stdin="") == ""
    assert good("run", TRANSLATOR, stdin="\n \n") == "\n\n"


def test_the_output_comes_while_the_program_reads():
    with subprocess.Popen(
        [PHASOR, "run", str(TRANSLATOR), "-n", "4", "--quiet"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as program:
        for line in (b"source5\n", b"source6 source7\n"):
            program.stdin.write(line)
            program.stdin.flush()
            assert program.stdout.readline().endswith(b"\n")
        program.stdin.close()
        assert program.wait(timeout=100) == 0


def test_ids_in_and_out():
    text = good("run", TRANSLATOR, "-n", "6", "source5 source6")
    ids = good("run", TRANSLATOR, "-n", "6", "--print-ids", "--ids", "5,6,3")
    assert good("tokenize", TRANSLATOR, "--decode", "--ids", ids.strip()) == text
    assert good("tokenize", TRANSLATOR, "--print-ids", "source5 source6") == "5,6,3\n"
    assert good("tokenize", TRANSLATOR, "source5") == "5\tsource5\n3\t<eos>\n\n"
    lists = good("run", TRANSLATOR, "-n", "6", "--print-ids", "--ids", "-", stdin="5,6,3\n\n7,3\n")
    assert lists == ids + "\n" + good("run", TRANSLATOR, "-n", "6", "--print-ids", "--ids", "7,3")


@pytest.mark.parametrize(
    "model, ids",
    [
        (TRANSLATOR, "5,6,7,8,9,10,3"),
        (MODELS / "tiny-post-sin-q8.phasor", "5,6,7"),
        (LANGUAGE, "4,5,6,7,8"),
        (MODELS / "tiny-lm-q8.phasor", "9,8"),
    ],
)
def test_threads_and_levels_change_nothing(model, ids, tmp_path):
    want = None
    for level in levels():
        for threads in (1, 2, 3, 7):
            file = tmp_path / f"{level}-{threads}.npy"
            out = good(
                "run",
                model,
                "--ids",
                ids,
                "-n",
                "12",
                "--print-ids",
                "--isa",
                level,
                "--threads",
                threads,
                "--logits",
                file,
            )
            got = (out, file.read_bytes())
            want = want or got
            assert got == want, (level, threads)


def test_a_forced_start():
    forced = good("run", TRANSLATOR, "-n", "6", "--print-ids", "--prefix-ids", "9,11", "source5")
    assert forced.startswith("9,11,") and forced.count(",") == 5
    assert (
        good("run", TRANSLATOR, "-n", "6", "--print-ids", "--prefix", "target9 target11", "source5")
        == forced
    )


def test_arrays_of_a_translation(tmp_path):
    names = {n: tmp_path / f"{n}.npy" for n in ("logits", "hidden", "hidden-decoder", "attention")}
    flags = [w for n, f in names.items() for w in (f"--{n}", f)]
    ids = [
        int(i)
        for i in good(
            "run",
            TRANSLATOR,
            "--ids",
            "5,6,7,3",
            "-n",
            "5",
            "--print-ids",
            "--prefix-ids",
            "9",
            *flags,
        ).split(",")
    ]
    a = {n: np.load(f) for n, f in names.items()}
    assert all(x.dtype == np.float32 and np.isfinite(x).all() for x in a.values())
    positions = len(ids)
    assert a["logits"].shape == (positions, 47)
    assert (a["logits"].argmax(1)[1:] == ids[1:]).all()  # the first was forced
    assert a["hidden"].shape == (3, 4, 60) and a["hidden-decoder"].shape == (3, positions, 60)
    assert a["attention"].shape == (1, 5, positions, 4)
    assert np.abs(a["attention"].sum(-1) - 1).max() < 1e-5
    assert all(np.abs(layer).max() > 0 for n in ("hidden", "hidden-decoder") for layer in a[n])


def test_arrays_of_a_decoder(tmp_path):
    names = {n: tmp_path / f"{n}.npy" for n in ("logits", "hidden", "attention")}
    flags = [w for n, f in names.items() for w in (f"--{n}", f)]
    ids = [
        int(i)
        for i in good("run", LANGUAGE, "--ids", "4,5,6", "-n", "4", "--print-ids", *flags).split(
            ","
        )
    ]
    a = {n: np.load(f) for n, f in names.items()}
    positions = 3 + len(ids) - 1
    assert a["logits"].shape[0] == a["hidden"].shape[1] == positions
    assert (a["logits"].argmax(1)[2:] == ids).all()
    layers, _, t, keys = a["attention"].shape
    assert layers == a["hidden"].shape[0] - 2 and t == keys == positions
    assert (
        a["attention"][..., np.triu_indices(positions, 1)[0], np.triu_indices(positions, 1)[1]] == 0
    ).all()
    bad(
        2,
        "run",
        LANGUAGE,
        "--ids",
        "-",
        "--logits",
        names["logits"],
        stdin="4\n5\n",
        says=["--logits", "one line"],
    )


def test_figures():
    done = phasor("run", TRANSLATOR, "source5", "-n", "3")
    assert "tokens/s" in done.stderr.decode() and "arena" in done.stderr.decode()
    assert phasor("run", TRANSLATOR, "source5", "-n", "3", "--quiet").stderr == b""
    line = json.loads(good("run", TRANSLATOR, "source5", "-n", "3", "--json"))
    assert (
        line["tokens"] == len(line["ids"]) <= 3
        and line["finish"] in ("end", "length")
        and line["input_tokens"] == 2
    )
    assert line["text"] + "\n" == good("run", TRANSLATOR, "source5", "-n", "3")


def test_inspect_adds_up():
    for context in (1, 16, 64):
        report = json.loads(
            good("inspect", TRANSLATOR, "--context", context, "--source", "20", "--json")
        )
        assert sum(p["bytes"] for p in report["arena_parts"]) == report["arena_bytes"]
        assert sum(t["bytes"] for t in report["tensors"]) == report["tensor_bytes"]
        assert (
            report["bytes"] == TRANSLATOR.stat().st_size and report["limits"]["target"] == context
        )
        assert report["step_macs"] > 0 and report["encode_macs"] > 0
    text = good("inspect", TRANSLATOR, "--context", "64", "--source", "20")
    assert f"{report['arena_bytes']:,}" in text
    run = json.loads(
        good("run", TRANSLATOR, "source5", "--context", "64", "--source", "20", "--json")
    )
    assert run["arena_bytes"] == report["arena_bytes"]


def cache_bytes(model, positions: int, cache: str) -> int:
    """Of the decoder's keys and values: pages of 16 positions, whole blocks of 16 of the head's
    width for values; in q8 a scale for 32."""
    d, total = PhasorFile(model).descriptor, 0
    for kind in (d["kinds"][index] for index, _ in D.layers_of(d["decoder"])):
        w = kind["head_width"]
        values, groups = 16 * (w + -(-w // 16) * 16), 2 * -(-w // 32)
        total += (
            kind["kv_heads"]
            * {"f32": 4 * values, "f16": 2 * values, "q8": values + 16 * 4 * groups}[cache]
        )
    return -(-(-(-positions // 16) * total) // 64) * 64


@pytest.mark.parametrize("cache, most", [("f16", 2e-4), ("q8", 2e-3)])
@pytest.mark.parametrize("name", ["tiny-rotary-f32", "tiny-d2l-f32"])
def test_a_smaller_cache(tmp_path, name, cache, most):
    """Its size by hand; the logits are those of the float64 reference with keys and values rounded,
    as near as one rounding the other way."""
    model = MODELS / f"{name}.phasor"
    exact = Reference(PhasorFile(model), cache=cache)
    source = [3 + 7 * i % 40 for i in range(20)] if name == "tiny-d2l-f32" else None
    limits = ["--context", 48, *(["--source", 24] if source else [])]

    def arena(*more):
        return {
            p["name"]: p["bytes"]
            for p in json.loads(good("inspect", model, *limits, "--json", *more))["arena_parts"]
        }

    whole, less = arena(), arena("--cache", cache)
    assert whole.pop("decoder keys and values") == cache_bytes(model, 48, "f32") and less.pop(
        "decoder keys and values"
    ) == cache_bytes(model, 48, cache)
    if source:
        assert less.pop("cross-attention keys and values") < 0.6 * whole.pop(
            "cross-attention keys and values"
        )
    assert less == whole
    ids = source or [3 + 7 * i % 50 for i in range(40)]
    rows = {}
    for kind in ("f32", cache):
        out = tmp_path / f"{kind}.npy"
        made = good(
            "run",
            model,
            "--ids",
            ids_text(ids),
            "-n",
            "6" if source else "1",
            "--print-ids",
            "--logits",
            out,
            "--cache",
            kind,
            "--context",
            48,
        ).split()[0]
        rows[kind] = np.load(out)
    if source:
        start = (
            exact.d["target"]["decoder_start"]
            if exact.d["target"]["decoder_start"] is not None
            else exact.d["target"]["start"]
        )
        wanted = exact.decode(
            [start, *map(int, made.split(",")[:-1])], exact.encode(source).output
        ).logits
    else:
        wanted = exact.decode(ids).logits
    n, reach = min(len(wanted), len(rows[cache])), np.ptp(wanted)
    from_reference, from_f32 = (
        np.abs(rows[cache][:n] - wanted[:n]).max() / reach,
        np.abs(
            rows[cache][0 if source else slice(n)] - rows["f32"][0 if source else slice(n)]
        ).max()
        / reach,
    )
    assert n >= 5 and from_reference < most and from_reference < from_f32 < 5e-2, (
        from_reference,
        from_f32,
    )


def test_a_smaller_cache_is_refused_by_name():
    bad(
        2,
        "run",
        MODELS / "tiny-rotary-f32.phasor",
        "--cache",
        "q3",
        says=["--cache q3", f"expected one of: {' '.join(CACHES)}"],
    )
    for cache in ("f16", "q8"):
        bad(
            1,
            "run",
            MODELS / "tiny-additive-f32.phasor",
            "--ids",
            "3,4",
            "--cache",
            cache,
            says=[f"--cache: {cache}", "keys in f32"],
        )


def test_where_the_weights_are_read_from(tmp_path):
    """Mapped or copied, the output is the same; and what is copied does not ask the file again."""
    model = ROOT / "models" / "zh-en.phasor"
    wanted = [
        good("run", model, "--print-ids", "--quiet", "我有一只猫", "--load", how)
        for how in ("auto", "map", "copy")
    ]
    assert wanted[0] and wanted == [wanted[0]] * 3
    # More than a hundred tokens.
    lines = "\n".join(["我有一只猫。", "今天天气很好。", "他每天早上六点起床。"] * 8) + "\n"
    long = {
        how: [
            good("run", model, "--print-ids", "--quiet", "--load", how, "--threads", t, stdin=lines)
            for t in (1, 2)
        ]
        for how in ("map", "auto", "copy")
    }
    assert long["map"] == long["auto"] == long["copy"] and long["map"][0] == long["map"][1]
    assert sum(len(line.split(",")) for line in long["map"][0].splitlines()) > 100
    bad(2, "run", model, "--load", "huge", says=["--load huge", "expected one of: auto map copy"])
    bad(2, "inspect", model, "--load", "copy", says=["--load: not a flag of inspect"])
    copied = tmp_path / "copied.phasor"
    copied.write_bytes(model.read_bytes())
    with subprocess.Popen(
        [PHASOR, "run", copied, "--load", "copy", "--print-ids", "--quiet"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        for _ in range(2):
            run.stdin.write("我有一只猫\n")
            run.stdin.flush()
            assert run.stdout.readline() == wanted[0]
            copied.write_bytes(b"")
        run.stdin.close()
        assert run.wait(60) == 0


def test_inspect_of_a_board():
    """The RAM that is asked for is exactly what model and arena take; one byte less takes a smaller
    chunk, or a shorter context."""
    model = MODELS / "tiny-rotary-q8.phasor"

    def ask(*more):
        done = phasor("inspect", model, "--json", *more)
        return done.returncode, json.loads(done.stdout)

    def need(*more):
        report = ask(*more)[1]
        return report["arena_bytes"] + report["model_bytes"]

    stack = ask("--ram", "1M")[1]["board"]["stack"]
    whole = need("--context", 64)
    code, report = ask("--context", 64, "--ram", whole + stack, "--flash", model.stat().st_size)
    assert (
        code == 0
        and report["board"]["fits"]
        and report["board"]["ram_needed"] == whole
        and report["board"]["chunk"] == 64
    )
    code, report = ask("--context", 64, "--ram", whole + stack - 1)
    assert (
        code == 0
        and report["board"]["chunk"] == 32
        and report["board"]["ram_needed"] == need("--context", 64, "--chunk", 32)
    )
    least = need("--context", 64, "--chunk", 1)
    code, report = ask("--context", 64, "--ram", least + stack - 1)
    board = report["board"]
    assert (
        code == 1
        and not board["fits"]
        and board["largest_part"] == "decoder keys and values"
        and 0 < board["largest_context"] < 64
    )
    assert (
        need("--context", board["largest_context"], "--chunk", 1)
        < least
        <= need("--context", board["largest_context"] + 1, "--chunk", 1)
    )
    code, report = ask("--flash", model.stat().st_size - 1)
    assert code == 1 and not report["board"]["fits"]
    assert ask("--ram", "1K")[1]["board"]["largest_context"] == 0
    text = phasor("inspect", model, "--context", 64, "--ram", "1M", "--flash", "32K")
    assert (
        text.returncode == 1
        and b"it does not fit" in text.stdout
        and b"they fit, and leave" in text.stdout
    )
    text = phasor("inspect", model, "--context", 64, "--ram", least + stack - 1).stdout.decode()
    saved = dict(re.findall(r"(--[a-z-]+(?: [a-z0-9]+)?) saves ([0-9,]+)", text))
    assert {"--cache f16", "--cache q8", "--tables rows"} <= set(saved)
    for flag, bytes_saved in saved.items():
        if flag.startswith("--cache"):
            smaller = need("--context", 64, "--chunk", 1, *flag.split())
            assert least - smaller == int(bytes_saved.replace(",", ""))
    for value in ("", "K", "12G", "-1", "0", "1.5M"):
        bad(2, "inspect", model, "--ram", value, says=["--ram", "expected bytes"])


@pytest.mark.parametrize("form, suffix", [("c", "c"), ("asm", "S")])
def test_inspect_emits_the_file(tmp_path, form, suffix):
    """What the compiler makes of it has the file's bytes at a multiple of 64."""
    model = MODELS / "tiny-opt-q8.phasor"
    (tmp_path / f"model.{suffix}").write_text(good("inspect", model, "--emit", form))
    (tmp_path / "main.c").write_text("""#include <stdint.h>
        #include <stdio.h>
        extern const unsigned char tiny_opt_q8_phasor[];
        extern const size_t tiny_opt_q8_phasor_bytes;
        int main(void) {
          if ((uintptr_t)tiny_opt_q8_phasor % 64 != 0) return 1;
          const size_t bytes = tiny_opt_q8_phasor_bytes;
          return fwrite(tiny_opt_q8_phasor, 1, bytes, stdout) == bytes ? 0 : 1;
        }""")
    subprocess.run(
        [
            "cc",
            "-std=c11",
            "-I",
            tmp_path,
            tmp_path / "main.c",
            tmp_path / f"model.{suffix}",
            "-o",
            tmp_path / "main",
        ],
        check=True,
        timeout=60,
    )
    assert (
        subprocess.run([tmp_path / "main"], stdout=subprocess.PIPE, check=True, timeout=60).stdout
        == model.read_bytes()
    )
    bad(2, "inspect", model, "--emit", "elf", says=["--emit elf", "expected one of: c asm h"])


def test_inspect_emits_a_header(tmp_path):
    """The two blocks of the header are exact: with them the C program opens the model and a
    session, with a byte less it does not."""
    model, limits = (
        MODELS / "tiny-opt-q8.phasor",
        ["--context", 24, "--cache", "f16", "--chunk", 4, "--text-bytes", 96, "--tables", "rows"],
    )
    (tmp_path / "model.h").write_text(
        good("inspect", model, *limits, "--ram", "64K", "--flash", "1M", "--emit", "h")
    )
    (tmp_path / "model.S").write_text(good("inspect", model, "--emit", "asm"))
    (tmp_path / "main.c").write_text("""#include "model.h"
        static _Alignas(64) unsigned char block[TINY_OPT_Q8_PHASOR_MODEL_BYTES];
        static _Alignas(64) unsigned char arena[TINY_OPT_Q8_PHASOR_ARENA_BYTES];
        int main(void) {
          const phasor_limits limits = TINY_OPT_Q8_PHASOR_LIMITS;
          const unsigned char* file = tiny_opt_q8_phasor;
          const size_t bytes = tiny_opt_q8_phasor_bytes;
          phasor_model* model;
          phasor_session* session;
          if (limits.target != TINY_OPT_Q8_PHASOR_CONTEXT ||
              limits.source != TINY_OPT_Q8_PHASOR_SOURCE ||
              limits.text_bytes != TINY_OPT_Q8_PHASOR_TEXT_BYTES)
            return 1;
          if (limits.target != 24 || limits.chunk != 4 || limits.text_bytes != 96 ||
              limits.cache_type != PHASOR_CACHE_F16 || limits.tables != PHASOR_TABLES_ROWS)
            return 2;
          if (phasor_model_open(&model, block, sizeof block - 1, file, bytes, NULL, NULL) !=
              PHASOR_NO_MEMORY)
            return 3;
          if (phasor_model_open(&model, block, sizeof block, file, bytes, NULL, NULL) != PHASOR_OK)
            return 4;
          if (phasor_session_open(&session, arena, sizeof arena - 1, model, &limits, NULL, NULL) !=
              PHASOR_NO_MEMORY)
            return 5;
          return phasor_session_open(&session, arena, sizeof arena, model, &limits, NULL, NULL) ==
                 PHASOR_OK ? 0 : 6;
        }""")
    library = Path(PHASOR).parent / "libphasor.a"
    subprocess.run(
        [
            "cc",
            "-std=c11",
            f"-I{ROOT / 'include'}",
            "-I",
            tmp_path,
            tmp_path / "main.c",
            tmp_path / "model.S",
            library,
            "-o",
            tmp_path / "main",
        ],
        check=True,
        timeout=60,
    )
    assert subprocess.run([tmp_path / "main"], timeout=60).returncode == 0
    bad(1, "inspect", model, *limits, "--ram", "2K", "--emit", "h", says=["RAM is too small"])
    bad(1, "inspect", model, *limits, "--flash", "32K", "--emit", "h", says=["flash is too small"])
    says = ["--tables none", "expected one of: whole rows"]
    bad(2, "inspect", model, "--tables", "none", says=says)
    whole = json.loads(good("inspect", TRANSLATOR, "--json"))["arena_bytes"]
    assert (
        json.loads(good("inspect", TRANSLATOR, "--text-bytes", 0, "--json"))["arena_bytes"] < whole
    )


@pytest.mark.parametrize("model", sorted(MODELS.glob("*.phasor")), ids=lambda p: p.stem)
def test_verify(model):
    reports = [json.loads(good("verify", model, "--isa", level, "--json")) for level in levels()]
    assert all(
        r["ok"] and r["numerics"] == 1 and r["isa"] == level for r, level in zip(reports, levels())
    )
    hashes = [[v["hash"] for v in r["vectors"]] for r in reports]
    assert hashes[0] and all(h == hashes[0] and len(h[0]) == 16 for h in hashes)
    assert good("verify", model, "--quiet").count("\n") == 1


def test_score_is_the_logits(tmp_path):
    logits = tmp_path / "logits.npy"
    ids = [4, 5, 6, 7]
    good(
        "run",
        LANGUAGE,
        "--ids",
        ids_text(ids),
        "-n",
        "1",
        "--print-ids",
        "--logits",
        logits,
    )
    x = np.load(logits).astype(np.float64)
    x -= x.max(1, keepdims=True)
    want = sum(x[i, ids[i + 1]] - np.log(np.exp(x[i]).sum()) for i in range(3))
    got = json.loads(good("score", LANGUAGE, "--ids", ids_text(ids), "--json"))
    assert abs(got["log_probability"] - want) < 1e-9 * abs(want) + 1e-9 and got["tokens"] == 3
    assert abs(got["perplexity"] - np.exp(-want / 3)) < 1e-6 * got["perplexity"]
    assert "log-probability" in good("score", TRANSLATOR, "source5", "--target", "target6 target7")


@pytest.mark.parametrize("command", ["inspect", "bench", "score", "run"])
def test_a_size_of_a_side_that_the_model_lacks(command):
    """It is not left out in silence."""
    rest = {"score": ["--ids", "5,6"], "run": ["--ids", "5"]}.get(command, [])
    says = ["--source: this model is a decoder and has no source"]
    bad(2, command, LANGUAGE, "--source", 7, *rest, says=says)
    flags = {"inspect": ["--context", "--beam"], "bench": ["--length", "-n", "--beam", "--context"]}
    for flag in flags.get(command, []):
        says = [f"{flag}: for a decoder; this model is an encoder"]
        bad(2, command, MODELS / "tiny-bert-f32.phasor", flag, 4, says=says)


def test_a_budget_for_a_side_that_the_model_lacks(tmp_path):
    words = ["quantize", LANGUAGE, tmp_path / "out.phasor", "--ram", "1M", "--source", "7"]
    bad(1, *words, says=["--source: this model is a decoder"])


def test_bench():
    report = json.loads(
        good(
            "bench",
            TRANSLATOR,
            "--source",
            "8",
            "-n",
            "4",
            "--reps",
            "2",
            "--threads",
            "2",
            "--json",
        )
    )
    assert report["source_tokens"] == 8 and report["decode_tokens"] == 4 and report["threads"] == 2
    assert report["encode_tokens_per_second"] > 0 and report["decode_tokens_per_second"] > 0
    assert report["arena_bytes"] > 0 and report["peak_rss_bytes"] > report["arena_bytes"]
    assert "decode" in good("bench", LANGUAGE, "--reps", "1")
    assert "beam" not in report


@pytest.mark.long
def test_bench_of_a_beam_search():
    for model in TRANSLATOR, LANGUAGE:
        one, four = (
            json.loads(
                good(
                    "bench",
                    model,
                    "--length",
                    "6",
                    "-n",
                    "8",
                    "--reps",
                    "2",
                    "--beam",
                    beams,
                    "--json",
                )
            )
            for beams in (1, 4)
        )
        assert (
            one["beams"] == 1
            and four["beams"] == 4
            and four["beam_tokens"] == four["decode_tokens"] == 8
        )
        assert four["beam_tokens_per_second"] > 0
        work = [r["beam_operations_per_second"] * r["beam_seconds"] for r in (one, four)]
        assert np.isclose(
            work[1] / work[0], (1 + 7 * 4) / 8, rtol=0.02
        )  # one beam, then four; a step costs more as the cache grows
    assert "\nbeam " in good("bench", LANGUAGE, "--reps", "1", "--beam", "2")


def test_bench_measures_the_machine():
    report = json.loads(
        good("bench", LANGUAGE, "--length", "5", "-n", "3", "--reps", "2", "--chunk", "2", "--json")
    )
    assert report["prefill_tokens"] == 5 and report["decode_tokens"] == 3
    machine = report["machine"][-1]
    assert (
        machine["threads"] == 1
        and machine["read_bytes_per_second"] > 1e7
        and machine["f32_operations_per_second"] > 1e6
    )
    whole = "int8" if report["arithmetic"] == "int8" else "f32"
    for phase in "prefill", "decode":
        assert np.isclose(
            report[f"{phase}_peak_share"],
            report[f"{phase}_operations_per_second"] / machine[f"{whole}_operations_per_second"],
        )
        assert np.isclose(
            report[f"{phase}_bandwidth_share"],
            report[f"{phase}_bytes_per_second"] / machine["read_block_bytes_per_second"],
        )
    assert (
        0 < report["start_warm_seconds"] < 60
        and 0 < report["start_cold_seconds"] < 60
        and 0 <= report["start_cold_share_in_memory"] <= 1
    )
    assert 0 < report["rss_beyond_bytes"] < report["rss_bytes"] <= report["peak_rss_bytes"]


@pytest.mark.long
def test_bench_counts_what_a_prompt_costs():
    """Bytes and operations are those of `inspect`: a step's, less the logits that a prompt does not
    need."""
    report = json.loads(
        good("bench", LANGUAGE, "--length", "1", "-n", "1", "--reps", "1", "--json")
    )
    seen = json.loads(good("inspect", LANGUAGE, "--context", "1", "--json"))
    assert np.isclose(
        report["prefill_operations_per_second"] * report["prefill_seconds"], 2 * seen["step_macs"]
    )
    assert np.isclose(
        report["prefill_bytes_per_second"] * report["prefill_seconds"], seen["step_bytes"]
    )
    long = json.loads(good("bench", LANGUAGE, "--length", "2", "-n", "1", "--reps", "1", "--json"))
    logits = seen["descriptor"]["target.vocabulary"], seen["descriptor"]["decoder.width"]
    two = 2 * (2 * seen["step_macs"] - int(logits[0]) * int(logits[1]))
    assert (
        0 <= long["prefill_operations_per_second"] * long["prefill_seconds"] - two < 0.1 * two
    )  # and the second token's look at the first


def test_bench_refuses_what_does_not_fit():
    bad(
        1,
        "bench",
        LANGUAGE,
        "--length",
        "16",
        "--context",
        "16",
        says=("--length", "context of 16"),
    )
    bad(2, "bench", LANGUAGE, "--length", "0", says=("--length",))


def test_the_program_needs_the_c_library_alone():
    """docs/design/decisions/no-cxx-library.md: what the headers of the C++ library call is in
    src/cli/host/cxx_library.cpp, or is not used; a program with musl has no such library at all."""
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not there (binutils)")
    with open(PHASOR, "rb") as file:
        if file.read(4) != b"\x7fELF":
            pytest.skip("not a program of Linux")
    told = subprocess.run(["readelf", "-d", PHASOR], capture_output=True, text=True, check=True)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", told.stdout)
    if any(re.match(r"lib(asan|ubsan|tsan|clang_rt|c\+\+)", name) for name in needed):
        pytest.skip("a program under sanitizers, or with another C++ library")
    others = [n for n in needed if not re.match(r"(lib(c|m|pthread)\.so|ld-linux)", n)]
    assert others == [], told.stdout


def test_bench_of_an_encoder():
    report = json.loads(
        good("bench", MODELS / "tiny-bert-f32.phasor", "--source", "6", "--reps", "1", "--json")
    )
    assert (
        report["source_tokens"] == 6
        and report["encode_peak_share"] > 0
        and "decode_seconds" not in report
        and report["start_warm_seconds"] > 0
    )


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.phasor")), ids=lambda path: path.stem)
def test_numbers_of_the_descriptor_are_numbers(path):
    """What inspect --json says of each field is what the file has: whole numbers, fractions and
    lists of them; a choice is its name, and a text is a text."""
    shown = json.loads(good("inspect", path, "--json"))["descriptor"]
    d, seen = PhasorFile(path).descriptor, set()
    for key, value in shown.items():
        scope, _, name = key.partition(".")
        table = d["kinds"][int(scope[4:])] if scope.startswith("kind") else d[scope]
        want = table[name]
        seen.add(type(value))
        if isinstance(value, str):
            assert isinstance(want, str) or not value.replace(" ", "").isdigit(), key
        elif isinstance(value, list):
            assert value == list(want), key
        else:  # a list of one number is the number
            assert np.isclose(value, want[0] if isinstance(want, (list, tuple)) else want), key
            assert isinstance(value, int) or not float(want).is_integer() or abs(want) >= 1e6, key
    assert seen >= {str, int, float, list}


def test_a_text_that_looks_like_a_number_is_a_text(tmp_path):
    """Every key of type string; a list that is cut is one too, not a list with half a number."""
    texts = {"name": "12", "author": "1 2", "license": "3e4", "credit": "0.5", "origin": "-1"}
    texts["converter"] = "7"
    strings = {
        (scope, row[2]) for scope, rows in FIELD_ROWS.items() for row in rows if row[1] == STRING
    }
    assert {name for _, name in strings} == {*texts, "labels", "prompts"}
    labels = {"classes": 2, "output": D.CLASSES, "labels": f"1{D.RECORD_END}2{D.RECORD_END}"}
    prompts = {"prompts": f"3\x1f4{D.RECORD_END}"}
    descriptor = encoder(output={**labels, **prompts})
    descriptor["model"] |= texts
    descriptor["encoder"]["layers"] = [0, 0] * 120
    path = write_random(tmp_path / "m.phasor", descriptor).path
    shown = json.loads(good("inspect", path, "--json"))["descriptor"]
    assert {name: shown[f"model.{name}"] for name in texts} == texts
    assert shown["output.labels"] == "1 2 " and shown["output.prompts"] == "3 4 "
    assert shown["output.classes"] == 2 and isinstance(shown["encoder.layers"], str)
