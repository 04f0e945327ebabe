"""Models that nobody wrote beside the float64 reference: what `phasor` gives for ids is what the
papers' formulas give for the same stored weights. tests/cpp/generator makes the models.

GENERATED=1000 takes so many in place of the quick run's, GENERATED_FIRST says from which number on.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.layout import QUANTIZED, PhasorError
from phasor.reference.forward import Reference
from phasor.vectors import rounding_bound

COUNT = int(os.environ.get("GENERATED", "120"))
FIRST = int(os.environ.get("GENERATED_FIRST", "0"))
# A difference, as a share of the largest value, is what float32 explains where it is at most so
# many times the larger of the bound of rounding and of what a float32 run of the reference shows: a
# norm of nearly equal values makes much of little.
TIMES = 16
# Int8 activations: a value on the border of two steps falls on either side, and then the result
# moves by a step and not by a rounding.
STEP = 0.06
# What the engine reads past and the converter's reader refuses: it means nothing to the output.
STRICTER = ("output.labels", "output.prompts", "output.scores", "output.bias")
NOT_FINITE = ("not finite", "not a number")  # the program's words

Arrays = dict[str, np.ndarray]


class Compared(NamedTuple):
    """A result's largest difference as a share of its largest value, and what is allowed."""

    what: str
    share: float
    allowed: float


@pytest.fixture(scope="module")
def driver(phasor: Path) -> Path:
    path = phasor.parent / "generate_driver"
    if not path.is_file():
        pytest.skip(f"no {path}: run `make tests`")
    return path


def run(program: Path, *words: object) -> str:
    command = [str(word) for word in (program, *words)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, errors="replace")
    assert made.returncode == 0, f"{' '.join(command[1:])}: {made.stderr}"
    return made.stdout


def text_of(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def scores_of(row: np.ndarray, how: int) -> np.ndarray:
    """The scores of a row of classes: output.scores of docs/reference/file-format.md."""
    if how == 0:  # softmax
        made = np.exp(row - row.max())
        return made / made.sum()
    return 1 / (1 + np.exp(-row)) if how == 1 else row


def some_ids(rng: random.Random, d: dict, name: str) -> list[int]:
    vocabulary = d["source" if name == "encoder" else "target"]["vocabulary"]
    most = min(D.longest(d, name) or 12, 12)
    return [rng.randrange(vocabulary) for _ in range(rng.randint(1, most))]


class Trial:
    """One model, its ids, and where the program writes."""

    def __init__(self, phasor: Path, path: Path, seed: int, folder: Path) -> None:
        rng = random.Random(seed)
        self.phasor, self.path, self.file = phasor, path, PhasorFile(path)
        self.d = d = self.file.descriptor
        self.rows, self.hidden = folder / "rows.npy", folder / "hidden.npy"
        self.source = some_ids(rng, d, "encoder") if "encoder" in d else []
        self.target = some_ids(rng, d, "decoder") if "decoder" in d else []
        if self.source and d["source"]["mask"] is not None:
            self.source[rng.randrange(len(self.source))] = d["source"]["mask"]

    def compare(self) -> list[Compared]:
        """Nothing where a value of the reference is not finite, or where the model reads vectors,
        of which test_embeddings.py has the values."""
        if self.source and self.d["source"]["vectors"]:
            return []
        if {"encoder", "decoder"} <= self.d.keys() and self.d["output"]["output"] == D.CLASSES:
            got = self.classes()
            if not got:
                return []
        else:
            got = self.decoder() if "decoder" in self.d else self.encoder()
        exact = self.reference(Reference(self.file))
        single = self.reference(Reference(self.file, dtype=np.float32))
        if not all(np.isfinite(values).all() for values in exact.values()):
            return []
        return self.compared(got, exact, single)

    def encoder(self) -> Arrays:
        """hidden: planes of the residuals; vector: the pooled one; rows: logits or classes."""
        ids, output = ["--ids", text_of(self.source), "--quiet"], self.d["output"]
        pooling = [] if output["pooling"] else ["--pooling", "last"]
        out = ["--hidden", self.hidden, "--npy", self.rows]
        run(self.phasor, "embed", self.path, *ids, *pooling, *out)
        made = {"hidden": np.load(self.hidden), "vector": np.load(self.rows)[0]}
        masked = self.d["source"]["mask"] in self.source  # what fill needs
        commands = {D.CLASSES: "classify", D.LOGITS: "fill" if masked else None}
        if command := commands.get(output["output"]):
            run(self.phasor, command, self.path, *ids, "--logits", self.rows)
            made["rows"] = np.load(self.rows)
        return made

    def classes(self) -> Arrays:
        """scores: of the classes behind both stacks, the highest first, at the source's last end
        token, where `classify` reads them. Nothing where the target has no such ids."""
        ends, rows = self.d["source"]["end"], self.d["target"]["vocabulary"]
        if not ends or max(self.source) >= rows:
            return {}
        self.source = [i for i in self.source if i not in ends][: self.room() - 1] + [ends[0]]
        words = ["--ids", text_of(self.source), "--json", "--quiet"]
        line = json.loads(run(self.phasor, "classify", self.path, *words))
        self.target = [self.d["target"]["decoder_start"], *self.source[:-1]]
        return {"scores": np.array([one["score"] for one in line["labels"]])}

    def room(self) -> int:
        """The longest text that both stacks take, at most 12."""
        return min(D.longest(self.d, name) or 12 for name in ("encoder", "decoder"))

    def decoder(self) -> Arrays:
        """rows: logits; hidden: planes of the decoder's residuals. `target` becomes what went
        in."""
        if self.source:  # the target follows the start token, as a forced output
            words = ["--ids", text_of(self.source), "--prefix-ids", text_of(self.target)]
            words += ["-n", len(self.target), "--hidden-decoder", self.hidden]
        else:
            words = ["--ids", text_of(self.target), "-n", 1, "--hidden", self.hidden]
        words += ["--logits", self.rows, "--print-ids", "--quiet", "--temperature", 0]
        printed = run(self.phasor, "run", self.path, *words).strip()
        start = [self.d["target"]["decoder_start"]] if self.source else self.target
        self.target = start + [int(word) for word in printed.split(",") if word][:-1]
        return {"rows": np.load(self.rows), "hidden": np.load(self.hidden)}

    def reference(self, model: Reference) -> Arrays:
        output = self.d["output"]
        source = model.encode(self.source) if self.source else None
        trace = model.decode(self.target, source and source.output) if self.target else source
        made = {"hidden": np.stack([trace.embedding, *trace.residuals, trace.output])}
        if not self.target:
            pooled = model.pool(trace.output, output["pooling"] or D.LAST)
            made["vector"] = (model.output(trace) if output["output"] == D.POOLED else pooled)[0]
        if self.target or output["output"] in (D.LOGITS, D.CLASSES):
            made["rows"] = model.output(trace)
        if self.source and self.target and output["output"] == D.CLASSES:
            made["scores"] = np.sort(scores_of(made["rows"][-1], output["scores"]))[::-1]
        return made

    def compared(self, got: Arrays, exact: Arrays, single: Arrays) -> list[Compared]:
        bound, made = rounding_bound(self.file), []
        step = STEP if any(e.type in QUANTIZED for e in self.file.entries.values()) else 0
        for what, values in got.items():
            assert values.shape == exact[what].shape, what
            for plane in range(len(values)) if what == "hidden" else [slice(None)]:
                a, b, c = values[plane], exact[what][plane], single[what][plane]
                largest = np.abs(b).max() or 1
                share, noise = (float(np.abs(x - b).max() / largest) for x in (a, c))
                made.append(Compared(what, share, TIMES * max(noise, bound) + step))
        return made


def test_generated_models_are_the_reference_s(phasor, driver, tmp_path):
    wrong, largest, tried, unread = [], {True: 0.0, False: 0.0}, 0, 0
    for seed in range(FIRST, FIRST + COUNT):
        path, results = tmp_path / f"{seed}.phasor", []
        run(driver, seed, path)
        try:
            with np.errstate(all="ignore"):
                results = Trial(phasor, path, seed, tmp_path).compare()
        except PhasorError as problem:
            unread += 1
            if not any(name in str(problem) for name in STRICTER):
                wrong.append(f"model {seed}: {problem}")
        except AssertionError as problem:
            if not any(words in str(problem) for words in NOT_FINITE):
                wrong.append(f"model {seed}: {problem}")
        path.unlink()
        for what, share, allowed in results:
            tried += 1
            largest[allowed > STEP] = max(largest[allowed > STEP], share)
            if not share <= allowed:
                wrong.append(
                    f"model {seed}: {what} differs by {share:.3g}, {allowed:.3g} is allowed"
                )
    print(
        f"{COUNT} models, {tried} arrays; the largest difference is {largest[False]:.3g} of the "
        f"largest value, {largest[True]:.3g} where activations are rounded"
    )
    assert not wrong, "\n".join(wrong[:20])
    assert tried > 2 * COUNT and unread * 10 < COUNT
