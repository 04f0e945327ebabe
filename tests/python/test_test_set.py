"""The translators' test set is made again from the public file, or the command says that it is
another (tools/train/split.py)."""

import hashlib
import json
import subprocess
import sys

import pytest

from places import ROOT

CORPUS = ROOT / "../shared/data/cmn-eng/cmn.attrib.txt"


def run(data, to):
    return subprocess.run(
        [sys.executable, "-m", "train.split", "--data", data, "--to", to],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not CORPUS.is_file(), reason=f"{CORPUS.name} is not at hand")
@pytest.mark.parametrize("model", ["zh-en", "zh-en-small"])
def test_the_recorded_set_is_made_again(tmp_path, model):
    done = run(CORPUS, tmp_path / "set")
    assert done.returncode == 0, done.stderr
    recorded = json.loads((ROOT / f"models/{model}.json").read_text(encoding="utf-8"))["split"]
    for name, digest in recorded["sha256"].items():
        assert hashlib.sha256((tmp_path / "set" / name).read_bytes()).hexdigest() == digest
    assert len((tmp_path / "set/test.zh").read_text().splitlines()) == recorded["test_pairs"]


def test_another_corpus_is_named_and_nothing_is_written(tmp_path):
    corpus = tmp_path / "cmn.txt"
    corpus.write_text(
        "".join(f"Cat {i}.\t猫{i}。\tnobody\n" for i in range(2000)), encoding="utf-8"
    )
    done = run(corpus, tmp_path / "set")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "cmn.txt: gives another test set than the recorded one" in done.stderr
    assert not (tmp_path / "set").exists()
