"""What Python costs: `Model.stream` and `Model.encode` beside `phasor run` and `phasor embed`, the
same model and the same outputs, which is checked. A row of tools/bench.

A figure is tokens or texts a second, of the wall clock and of the processor: a process with the
whole input less one with a short input, so that starting and opening are in neither. The two are
measured in pairs, one after the other. The models have random weights in q8: a Llama of 15M, one
of 135M, and an encoder of MiniLM's shape. The import is the processor time of `phasor.load`'s
modules, less that of NumPy.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

from bench import models
from bench.common import OURS, ROOT, Results, cost, run_json
from phasor.files import replacing, write_text
from phasor.format import descriptor as D
from phasor.format import file as F
from phasor.format import layout as L
from phasor.format.tensors import Slot
from phasor.format.writer import write_model
from phasor.tokenizers.models.word_list import build_wordlist_section

PYTHON, LEAST = "Python", 0.97
PAIRS, TEXTS, FEW = 15, 1000, 8
TOKENS = {"15m": 1200, "135m": 150}
_STREAM = """
import sys, phasor
for piece in phasor.load(sys.argv[1]).stream(sys.argv[2], max_new=int(sys.argv[3])):
    sys.stdout.write(piece)
    sys.stdout.flush()
print()
"""
_ENCODE = """
import sys, numpy, phasor
texts = sys.stdin.read().splitlines()
numpy.save(sys.argv[2], phasor.load(sys.argv[1]).encode(texts))
"""
_IMPORT = """
import json, time, numpy
begin = time.process_time()
import phasor
phasor.load
print(json.dumps({"seconds": time.process_time() - begin}))
"""


def _weights(slot: Slot) -> np.ndarray:
    rng = np.random.default_rng(slot.key)
    if slot.type == L.F64:
        return 10000.0 ** (-np.arange(sum(slot.parts)) / sum(slot.parts))
    if slot.layout == L.VECTOR:
        return np.ones(sum(slot.parts), np.float32)
    made = rng.standard_normal((sum(slot.parts), slot.cols), dtype=np.float32)
    return made * np.float32(slot.cols**-0.5)


def _words(count: int) -> list[str]:
    return ["<unk>", "<s>", "</s>", *(f"word{i}" for i in range(count - 3))]


def _write(path: Path, descriptor: dict, side: str, section: int) -> None:
    words = _words(descriptor[side]["vocabulary"])
    descriptor[side]["tokenizer"] = section
    extra = {section: build_wordlist_section(words, 0, (1, 2))}
    with replacing(path) as file:
        write_model(file, descriptor, _weights, L.type_code("q8"), extra)


def _language(path: Path, shape: str) -> None:
    descriptor = models.descriptor(models.SHAPES[shape])
    descriptor["target"]["end"] = []
    _write(path, descriptor, "target", F.TARGET_TOKENIZER)


def _encoder(path: Path) -> None:
    kind = {"norm": D.LAYER_NORM, "norm_place": D.AFTER, "norm_eps": 1e-12, "heads": 12}
    kind |= {"head_width": 32, "scale": 32**-0.5, "hidden": 1536, "activation": D.GELU_ERF}
    side = {"vocabulary": 30522, "prefix": [1], "suffix": [2], "end": [2]}
    layers = [n for i in range(6) for n in (0, i)]
    stack = {"width": 384, "layers": layers, "position": D.LEARNED, "max_positions": 512}
    output = {"output": D.POOLED, "pooling": D.MEAN}
    descriptor = {"model": {"stack": D.ENCODER}, "source": side, "encoder": stack}
    _write(path, descriptor | {"kinds": [kind], "output": output}, "source", F.SOURCE_TOKENIZER)


class _Case(NamedTuple):
    """The two commands with the whole input or a short one, and what they differ by."""

    commands: dict[str, dict[bool, tuple[object, ...]]]  # by engine; True: the whole input
    given: dict[bool, Path | None]
    amount: int
    unit: str


def _streams(folder: Path, program: Path, shape: str) -> _Case:
    model, prompt = folder / "language.phasor", "word7 word8 word9"
    _language(model, shape)
    counts = {True: TOKENS[shape], False: FEW}
    commands: dict[str, dict[bool, tuple[object, ...]]] = {OURS: {}, PYTHON: {}}
    for whole, count in counts.items():
        commands[OURS][whole] = (program, "run", model, "-n", count, "--quiet", prompt)
        commands[PYTHON][whole] = (sys.executable, "-c", _STREAM, model, prompt, count)
        first, second = (
            subprocess.run(
                list(map(str, commands[engine][whole])),
                stdout=subprocess.PIPE,
                check=True,
                cwd=ROOT / "tools",
            ).stdout
            for engine in (OURS, PYTHON)
        )
        if first != second or len(first.split()) < count:
            sys.exit(f"bench: python: stream gives another text than {program} run")
    return _Case(commands, {True: None, False: None}, TOKENS[shape] - FEW, "tokens/s")


def _encodes(folder: Path, program: Path) -> _Case:
    model, rng = folder / "encoder.phasor", np.random.default_rng(1)
    _encoder(model)
    texts = [
        " ".join(f"word{i}" for i in rng.integers(0, 30000, rng.integers(4, 30)))
        for _ in range(TEXTS)
    ]
    given: dict[bool, Path | None] = {}
    outputs = {engine: folder / f"{engine}.npy" for engine in (OURS, PYTHON)}
    for whole, count in ((True, TEXTS), (False, FEW)):
        path = given[whole] = folder / f"{count}.txt"
        write_text(path, "".join(f"{text}\n" for text in texts[:count]))
    ours = (program, "embed", model, "--npy", outputs[OURS], "--quiet", "--threads", 1)
    theirs = (sys.executable, "-c", _ENCODE, model, outputs[PYTHON])
    for words in (ours, theirs):
        cost(*words, given=given[True])
    # The values: the two headers may be padded otherwise.
    ours_made, theirs_made = (path.read_bytes()[-4 * 384 * TEXTS :] for path in outputs.values())
    if len(ours_made) != 4 * 384 * TEXTS or ours_made != theirs_made:
        sys.exit(f"bench: python: encode gives other vectors than {program} embed")
    commands = {OURS: dict.fromkeys((True, False), ours)}
    commands[PYTHON] = dict.fromkeys((True, False), theirs)
    return _Case(commands, given, TEXTS - FEW, "texts/s")


def row_python(args: Any, results: Results) -> None:
    program, pairs = Path(args.build).resolve() / "phasor", max(args.runs, PAIRS)
    with tempfile.TemporaryDirectory() as name:
        cases: dict[str, Callable[[Path, Path], _Case]] = {
            f"stream, {shape}": partial(_streams, shape=shape) for shape in TOKENS
        }
        for what, make in (cases | {"encode": _encodes}).items():
            case = make(Path(name), program)
            rates: dict[tuple[str, str], list[float]] = {}
            for pair in range(pairs):
                engines = (OURS, PYTHON) if pair % 2 == 0 else (PYTHON, OURS)
                for engine in engines:
                    whole, few = (
                        cost(*case.commands[engine][part], given=case.given[part])
                        for part in (True, False)
                    )
                    for clock in ("seconds", "wall"):
                        taken = getattr(whole, clock) - getattr(few, clock)
                        rates.setdefault((clock, engine), []).append(case.amount / taken)
            for (clock, engine), found in rates.items():
                at = {"seconds": "processor", "wall": "wall clock"}[clock]
                results.add(what, engine, found, case.unit, at=at, threads=1)
            for clock, at in (("seconds", "processor"), ("wall", "wall clock")):
                both = zip(rates[clock, PYTHON], rates[clock, OURS])
                shares = [theirs / ours for theirs, ours in both]
                results.add(f"{what}, share", PYTHON, shares, "of ours", at=at, threads=1)
                claim = f"`{what}` from Python, {case.unit} of the {at}"
                results.aim(claim, "the program", statistics.median(shares), 1.0, LEAST)
    seconds = [run_json(sys.executable, "-c", _IMPORT)["seconds"] * 1000 for _ in range(pairs)]
    results.add("import", PYTHON, seconds, "ms", threads=1)
    claim = "`import phasor` and `phasor.load`, ms beyond NumPy"
    results.aim(claim, "100 ms", statistics.median(seconds), 100.0, 1.0, "most")


ROWS = {"python": row_python}
