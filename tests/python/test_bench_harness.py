"""What makes a comparison fair (tools/bench/common.py, peers.py): a model a process, one process
awake at a time, a peer at its best settings, and figures that outlive another machine's."""

from __future__ import annotations

import json
import os
import sys
import types
from argparse import Namespace
from pathlib import Path

import pytest

from bench import common, page, peers

# An engine that says how long it took: N milliseconds, given to it.
ENGINE = """
import json, sys
print(json.dumps({"version": "1"}), flush=True)
for line in sys.stdin:
    print(json.dumps({"seconds": float(sys.argv[1]), "request": line.strip()}), flush=True)
"""


def engine(seconds: float) -> common.Worker:
    return common.Worker(sys.executable, "-c", ENGINE, seconds)


def state(worker: common.Worker) -> str:
    stat = Path(f"/proc/{worker.process.pid}/stat").read_text()
    return stat.rsplit(")", 1)[1].split()[0]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_one_process_is_awake_at_a_time() -> None:
    with common.Engines({"a": engine(1), "b": engine(2)}) as workers:
        assert [state(w) for w in workers.values()] == ["T", "T"]
        answers = workers.take_turns("work 1", 2)
        assert [state(w) for w in workers.values()] == ["T", "T"]
    assert [len(runs) for runs in answers.values()] == [2, 2]
    assert all(w.process.returncode == 0 for w in workers.values())


def test_a_peer_answers_with_its_fastest_settings() -> None:
    choices = {"1 thread": engine(2), "2 threads": engine(3), "2 threads, X=1": engine(1)}
    with common.Engines({"peer": common.Candidates(choices)}) as workers:
        answers = workers.take_turns("work 1", 3)["peer"]
    assert {a["settings"] for a in answers} == {"2 threads, X=1"}
    results = common.Results("row", Path("unused"))
    results.add_rates("work", {"peer": answers}, 10, type="q8", threads=2)
    assert results.cases[0]["settings"] == "2 threads, X=1"


def test_a_peer_that_is_slower_with_more_threads_says_so() -> None:
    case = {"what": "work", "type": "q8", "threads": 2, "unit": "tokens/s", "spread": 0.0}
    cases = [
        {**case, "engine": "Phasor", "median": 50.0},
        {**case, "engine": "Peer", "median": 10.0, "settings": "1 thread, X=1"},
    ]
    text = "\n".join(page.table(cases))
    assert "10.0 (1 thread)" in text and "**5.00**" in text
    assert page.settings(cases) == ["Peer, 1 thread, X=1: work q8 at 2 threads"]
    result = {"name": "row", "cases": cases}
    assert page.large(result) == ["work, q8, 2, 5.00 × Peer: **not explained yet**"]


def test_every_peer_is_started_at_no_more_threads_than_the_row_has(monkeypatch) -> None:
    started: list[dict] = []

    class Fake:
        hello: dict = {}

        def __init__(self, *words: object, **options: object) -> None:
            started.append({"words": words, **options})

    monkeypatch.setattr(common, "Worker", Fake)
    for name in peers.PEERS:
        for threads in (1, 2):
            started.clear()
            common.peer(name, "model", threads=threads)
            assert {s["threads"] for s in started} == set(range(1, threads + 1))
            for s in started:
                assert s["environment"]["OMP_NUM_THREADS"] == str(s["threads"])
                assert s["threads"] > 1 or "OMP_WAIT_POLICY" not in s["environment"]


class Counting(types.ModuleType):
    """A library whose models are counted."""

    __version__ = "0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.made: list[str] = []

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)

        def make(*_: object, **__: object):
            self.made.append(name)
            return types.SimpleNamespace(
                eval=lambda: None, add_session_config_entry=lambda *_: None
            )

        return make


MODELS = {"Translator", "Encoder", "Generator", "InferenceSession", "SentenceTransformer"}


@pytest.mark.parametrize(
    ("name", "library"),
    [(n, "ctranslate2") for n in peers.PEERS if n.startswith("ct2-")] + [("onnx", "onnxruntime")],
)
def test_a_process_holds_one_model(monkeypatch, tmp_path, name, library) -> None:
    fake = Counting(library)
    monkeypatch.setitem(sys.modules, library, fake)
    (tmp_path / "ids").write_text("1 2 3\n")
    (tmp_path / "never.json").write_text("[0]")
    options = {"threads": 1, "sequences": 1, "beams": 1, "context": 8, "vocabulary": 8}
    peers.PEERS[name](
        Namespace(model=str(tmp_path), ids=str(tmp_path / "ids"), compute="float32", **options)
    )
    assert len([made for made in fake.made if made in MODELS]) == 1


def test_another_machines_row_takes_no_row_away(monkeypatch, tmp_path) -> None:
    where = {"type": "q8", "threads": 1}
    for machine, row, value in (("A, 2 cores", "decode", 1), ("A, 2 cores", "start", 2),
                                ("B, 4 cores", "decode", 3)):  # fmt: skip
        monkeypatch.setattr(common, "machine", lambda machine=machine: machine)
        results = common.Results(row, tmp_path)
        results.began += value  # seconds apart
        results.add("work", "Phasor", [value], "ms", **where)
        results.save()
    assert len(list(tmp_path.glob("*.json"))) == 2
    parts = page.newest(tmp_path)
    assert set(parts) == {"decode", "start"}
    assert parts["start"]["machine"] == "A, 2 cores"
    both = [json.loads(p.read_text())["decode"]["machine"] for p in tmp_path.glob("*.json")]
    assert sorted(both) == ["A, 2 cores", "B, 4 cores"]


def test_a_peer_has_its_best_over_at_most_so_many_threads(tmp_path) -> None:
    results = common.Results("x", tmp_path)
    for threads, ours, theirs in ((1, 50.0, 60.0), (2, 90.0, 40.0)):
        where = {"type": "q8", "threads": threads}
        results.add("greedy", common.OURS, [ours], "tokens/s", **where)
        settings = f"{threads} threads"
        results.add("greedy", "Peer", [theirs], "tokens/s", settings, **where)
        results.add("resident", "Peer", [theirs], "MiB", settings, **where)
    results.add("greedy", common.OURS, [10.0], "tokens/s", type="q8", threads=2, at="other")
    medians = [(c["engine"], c["what"], c["median"]) for c in results.cases]
    assert medians[3:] == [
        (common.OURS, "greedy", 90.0),
        ("Peer", "greedy", 60.0),  # its one thread's
        ("Peer", "resident", 40.0),
        (common.OURS, "greedy", 10.0),
    ]
    assert results.cases[4]["settings"] == "1 threads" and results.cases[4]["threads"] == 2


def test_a_program_that_is_older_than_its_library_is_not_measured(tmp_path):
    program, library = tmp_path / "bench_decoder", tmp_path / "libphasor.a"
    program.touch()
    assert common.command(program) == [str(program)]
    library.touch()
    os.utime(library, (100, 100))
    assert common.command(program) == [str(program)]
    os.utime(program, (99, 99))
    with pytest.raises(SystemExit, match="older than libphasor.a. TRY: make"):
        common.command(program)
