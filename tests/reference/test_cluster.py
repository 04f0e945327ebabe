"""examples/python/cluster.py: one of two workers is killed in the middle."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

import phasor
import random_models as M
from phasor.format import descriptor as D
from phasor.format import file as F
from phasor.tokenizers.models.word_list import build_wordlist_section
from places import ROOT, SERVER, need_server, there

TRANSLATOR = ROOT / "models/zh-en-small.phasor"
LINES = [
    who + what
    for who in ("我", "你", "他", "她", "我们", "他们", "老师", "小王", "这个人", "学生")
    for what in (
        *("有一只猫。", "明天去北京。", "在学校学习中文。", "很高兴。", "喜欢喝茶。", "有三本书。"),
        *("昨天没有来。", "会说英文吗？", "在家里。", "今天很忙。", "想买一辆车。", "不知道。"),
    )
]


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    there(ROOT / "build/libphasor.so.0", "run make shared")
    need_server()


def test_a_worker_that_is_killed(tmp_path):
    """Nothing is lost, the order is kept, and every line has the bits that it has alone."""
    expected = phasor.load(TRANSLATOR).translate(LINES)
    words = ["<unk>", *sorted({word for text in expected for word in text.split()})]
    side = {"vocabulary": len(words), "tokenizer": F.SOURCE_TOKENIZER, "unknown": 0}
    output = {"output": D.POOLED, "pooling": D.MEAN}
    encoder = tmp_path / "encoder.phasor"
    extra = {F.SOURCE_TOKENIZER: build_wordlist_section(words, 0)}
    M.write_random(encoder, M.encoder(side=side, output=output), extra=extra)
    vectors = phasor.load(encoder).encode(expected)
    assert len({row.tobytes() for row in vectors}) > 50

    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    words = [ROOT / "examples/python/cluster.py", TRANSLATOR, encoder, "lines.txt", "out"]
    path = os.pathsep.join([str(ROOT / "tools"), str(SERVER)])
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    killed, said = 0, []
    assert process.stderr is not None
    for line in process.stderr:
        said.append(line)
        if found := re.match(r"workers: (\d+) (\d+)$", line):
            killed = int(found[1])
        if line.startswith("1 of "):
            os.kill(killed, signal.SIGKILL)
    assert process.wait() == 0, "".join(said)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == LINES
    assert [row["translation"] for row in rows] == expected
    assert np.load(tmp_path / "out.npy").tobytes() == vectors.tobytes()
    assert any(line.startswith("1 of ") for line in said) and rows[-1]["worker"] != killed
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        *("encoder.phasor", "lines.txt", "out.jsonl", "out.npy"),
    ]
