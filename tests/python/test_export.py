"""`phasor tokenize --export`: the tokenizer.json of a weight file has the parts and the vocabulary
of the one that was converted; what a file lacks, and what is damaged, is refused in a line."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
from pathlib import Path

import pytest

from exported import exported, weight_file
from phasor.format import file as F
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.tokenizers.export import MOST
from phasor.tokenizers.models.word_list import build_wordlist_section
from phasor.tokenizers.section import Exportable
from phasor.tokenizers.tokenizer import json_section

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
KINDS = "bytelevel characters composed merged metaspace pipeline wordpiece".split()
PLAIN = ("added_tokens", "pre_tokenizer", "decoder", "normalizer")


def _section(name: str) -> tuple[bytes, dict, dict]:
    path = GOLDEN / "tokenizers" / f"{name}.json"
    section, info = build_hf_section(path)
    return section, info, json.loads(path.read_text(encoding="utf-8"))


def _steps(part: dict | None, inside: str) -> list:
    return [] if part is None else part.get(inside, [part])


@pytest.mark.parametrize("name", KINDS)
def test_the_file_has_the_parts_of_the_one_that_was_converted(phasor, tmp_path, name):
    section, info, given = _section(name)
    made = json.loads(exported(phasor, tmp_path, section, info).read_text(encoding="utf-8"))
    ours, theirs = made.pop("model"), given.pop("model")
    for part in PLAIN:
        inside = {"pre_tokenizer": "pretokenizers"}.get(part, part + "s")
        if part == "added_tokens":
            assert made[part] == given[part]
        else:
            assert _steps(made[part], inside) == _steps(given[part], inside), part
    assert ours.pop("vocab") == theirs.pop("vocab")
    merges = [m.split(" ") if isinstance(m, str) else m for m in theirs.pop("merges", [])]
    assert ours.pop("merges", []) == merges
    assert ours == theirs
    assert made["truncation"] is None and made["padding"] is None


def test_ids_around_a_text_are_those_of_the_file(phasor, tmp_path):
    section, _, _ = _section("wordpiece")
    around = {"prefix": [2, 3], "suffix": [1], "pair": [3, 3], "pair_segment": 1}
    made = json.loads(exported(phasor, tmp_path, section, around).read_text())
    template = made["post_processor"]["processors"][-1]
    ids = {
        name: [
            (*step["Sequence"].values(),)
            if "Sequence" in step
            else (int(step["SpecialToken"]["id"]), step["SpecialToken"]["type_id"])
            for step in template[name]
        ]
        for name in ("single", "pair")
    }
    assert ids["single"] == [(2, 0), (3, 0), ("A", 0), (1, 0)]
    assert ids["pair"] == [(2, 0), (3, 0), ("A", 0), (3, 0), (3, 0), ("B", 1), (1, 1)]
    assert {name: t["ids"] for name, t in template["special_tokens"].items()} == {
        "1": [1],
        "2": [2],
        "3": [3],
    }


def _spec(vocab: dict | list, **more) -> dict:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    part = {**level, "use_regex": False}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    return {"added_tokens": [], "pre_tokenizer": part, "decoder": part, "model": model, **more}


def test_pieces_that_are_spelled_otherwise_stand_as_they_are(phasor, tmp_path):
    """Of byte-level BPE one that is no bytes; of Unigram one that is there twice."""
    vocab = {"a": 0, "日": 1, "Ġb": 2, "æĹ¥": 3, '"\\': 4}
    section, _, _ = json_section(_spec(vocab))
    assert json.loads(exported(phasor, tmp_path, section).read_text())["model"]["vocab"] == vocab
    pieces = [["<unk>", 0.0], ["x", -1.25], ["y", -1 / 3], ["x", -2.5], ["\u2581", -1e-300]]
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    spec = _spec([], model={"type": "Unigram", "unk_id": 0, "vocab": pieces})
    section, _, _ = json_section({**spec, "pre_tokenizer": meta, "decoder": meta})
    made = json.loads(exported(phasor, tmp_path, section).read_text())
    assert made["model"]["vocab"] == pieces
    merged = _spec(vocab, model={"type": "BPE", "vocab": vocab, "merges": [["日", "日"]]})
    merged["model"]["vocab"] = {**vocab, "日日": 5}
    assert json_section(merged)[0].text == b""


def test_a_map_of_characters_is_not_there_twice(phasor, tmp_path):
    section, _, given = _section("metaspace")
    (step,) = [s for s in _steps(given["normalizer"], "normalizers") if s["type"] == "Precompiled"]
    assert len(base64.b64decode(step["precompiled_charsmap"])) > 2 * len(section.text)


def test_a_map_of_characters_that_comes_twice_is_written_out_once(phasor, tmp_path):
    """The section has the map of the first step, and the second one's in its row."""
    _, _, given = _section("metaspace")
    (step,) = [s for s in _steps(given["normalizer"], "normalizers") if s["type"] == "Precompiled"]
    model = {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}
    spec = _spec({}, model=model, normalizer={"type": "Sequence", "normalizers": [step, step]})
    section, _, _ = json_section({**spec, "pre_tokenizer": None, "decoder": None})
    made = json.loads(exported(phasor, tmp_path, section).read_text())
    assert made["normalizer"]["normalizers"] == [step, step]


def test_many_added_tokens_are_a_few_bytes():
    """Whisper has fifteen hundred, which are a tenth of its vocabulary."""
    given = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": 1 + i, "content": f"<|{i / 50:.2f}|>", "special": i % 2 == 0, **given}
        for i in range(1500)
    ]
    section, _, _ = json_section(_spec({"a": 0}, added_tokens=added))
    assert len(section.text) < 1500 * 16
    alike = [{**token, "special": True} for token in added]
    assert len(json_section(_spec({"a": 0}, added_tokens=alike))[0].text) < 1024


def _refused(phasor: Path, model: Path, *more: object, status: int = 1) -> str:
    out = model.with_suffix(".json")
    command = [phasor, "tokenize", model, "--export", out, *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == status and not done.stdout and not out.exists()
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_file_without_the_text_says_what_is_missing(phasor, tmp_path):
    section, info, _ = _section("bytelevel")
    model = tmp_path / "m.phasor"
    weight_file(model, bytes(section), info)
    assert "convert it again" in _refused(phasor, model)
    weight_file(model, build_wordlist_section(["a", "b"], 0))
    assert "the tokenizers package can read" in _refused(phasor, model)


def test_flags_that_do_not_go_with_it(phasor, tmp_path):
    section, info, _ = _section("bytelevel")
    model = tmp_path / "m.phasor"
    weight_file(model, section, info)
    for words in (["--print-ids"], ["--offsets"], ["--json"], ["--pair"]):
        assert f"--export: does not go with {words[0]}" in _refused(phasor, model, *words, status=2)
    assert "--export: expected no text" in _refused(phasor, model, "a", status=2)


HOSTILE = {
    b'{"a":"\xff"}': "not UTF-8",
    b'{"a":1': "ends too early at byte 6",
    b'{"a":"b': "ends too early",
    b"{]": "closes nothing at byte 2",
    b"[" * 65: "too deep",
    b'{"a":\n1}': "control character at byte 6",
    b"[\x01z;]": "a mark that is none",
    b"[\x01p": "a mark that is none",
    b"[\x01sp0-1;]": "a mark that is none",
    b"{\x01tq0-1;}": "another form",
    b"[\x01a\x7f0-1;]": "another form",
    b'"\x01tp0-1;"': "a mark that is none",
    b"[\x01c0-0;]": "a mark that is none",
    b'{"a":"\\\x01c0-0;"}': "a mark that is none",
    b'["\x01c0-0;","\x01c0-0;"]': "a map too many",
    b'"\x01c4294967295-0;"': "a map too many",
    b"{\x01tp5-4;}": "twice, or for ids that are not there",
    b"{\x01tp0-4;,\x01tp4-5;}": "twice, or for ids that are not there",
    b"{\x01tp0-4294967295;}": "twice, or for ids that are not there",
    b"{\x01tp0-99999999999999999999;}": "a mark that is none",
    b"[\x01ml;,\x01ml;]": "twice, or for ids that are not there",
    b"[\x01p;,\x01p;]": "twice, or for ids that are not there",
    b"[\x01s0-5;]": "the pieces have none",
    b"\x01tp0-300;": "a piece for text that is none",
}


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_a_damaged_text_is_refused(phasor, tmp_path, text):
    section, info, _ = _section("bytelevel")
    hostile = Exportable(section)
    hostile.text = text
    weight_file(tmp_path / "m.phasor", hostile, info)
    line = _refused(phasor, tmp_path / "m.phasor")
    assert HOSTILE[text] in line and "m.phasor: its text for --export" in line


def test_a_long_text_is_left_out():
    split = {"type": "Replace", "pattern": {"String": "x"}, "content": "y" * (MOST + 1)}
    spec = _spec({"a": 0})
    spec["model"] = {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}
    spec["pre_tokenizer"] = {"type": "Whitespace"}
    assert json_section({**spec, "decoder": None})[0].text
    assert json_section({**spec, "decoder": split})[0].text == b""


def test_the_text_goes_along_when_weights_are_quantized(phasor, tmp_path):
    section, info, _ = _section("bytelevel")
    weight_file(tmp_path / "m.phasor", section, info)
    command = ["quantize", tmp_path / "m.phasor", tmp_path / "q.phasor", "--type", "q8"]
    done = subprocess.run([phasor, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert F.PhasorFile(tmp_path / "q.phasor").section(F.TARGET_EXPORT) == section.text
    file = bytearray((tmp_path / "m.phasor").read_bytes())
    (at,) = struct.unpack_from("<Q", file, 64 + 32 * 3 + 8)
    assert file[at : at + 8] == section.text[:8]
    file[at] ^= 1
    (tmp_path / "m.phasor").write_bytes(file)
    done = subprocess.run(
        [str(phasor), "verify", str(tmp_path / "m.phasor")], capture_output=True, text=True
    )
    assert done.returncode == 1 and "section 11" in done.stderr + done.stdout
