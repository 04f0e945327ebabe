"""Random configurations of every family against transformers 4 and 5 (config_draws.py): what is
converted gives the library's outputs, or is refused by a line that names a key which was drawn.

    config_fuzz.py [--count N] [--first N] [--families llama,bert] [--versions 4.57] [--write]

draws of each family and version until N were made by the library (at most _MOST_TRIED times as
many), and prints a row for each, then what is wrong; --write puts their rows into families.md.
test_config_fuzz.py runs a few of each.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

import numpy as np
import test_families_decoders as decoders
import test_families_encoders as encoders
import test_families_translators as translators
import test_families_versions as versions
import test_merged as merged
import transformers  # the pinned one
from config_draws import LENGTHS
from family_table import Table

from phasor import vectors as V
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.errors import PhasorError
from phasor.families.decoders import FAMILIES as DECODERS
from phasor.families.encoders import FAMILIES as ENCODERS
from phasor.families.pictures import MODELS as PICTURED
from phasor.format import descriptor as D
from phasor.format.meta import as_stored
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import run_python

TOLERANCE = 1e-5  # of the outputs' range
VERSIONS = ("4.57", "5.x")
# Not of transformers; a vector at an end token, which drawn ids do not have.
_NOT_DRAWN = ("Nomic", "CLIPTextModelWithProjection", "CLIPModel")
_AT_ONCE = 20  # models of a family that lie in a folder
_MOST_TRIED = 8  # for each that is to be made


def bases(version: str = VERSIONS[0]) -> dict[str, list]:
    """The classes and configurations of the families' tests, by model_type; with the newer version
    also those that it alone has."""
    out: dict[str, list] = {}
    for case in (*decoders.CASES, *encoders.CASES, *translators.CASES):
        if not case.model.startswith(_NOT_DRAWN) and getattr(case, "modules", None) is None:
            family = getattr(transformers, case.model).config_class.model_type
            out.setdefault(family, []).append([case.model, case.config])
    for case in versions.OF_NEWER if version != VERSIONS[0] else ():
        if not hasattr(transformers, case.model):  # of 4.57
            family = next(
                (f.types[0] for f in (*DECODERS, *ENCODERS) if case.model.startswith(f.classes)), ""
            ) or next(name for name, of in PICTURED.items() if case.model in of.classes)
            out.setdefault(family, []).append([case.model, case.config])
    if version != VERSIONS[0]:
        out["t5gemma2"] = [[merged.MODEL, config] for config in merged.CASES.values()]
    return out


@dataclass
class Result:
    """Of one configuration: not made, refused (the line names what was drawn), elsewhere (it names
    another key or a tensor), unnamed, short, wrong, or equal."""

    what: str
    line: str = ""
    draw: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        d = self.draw
        keys = d.get("changed", ())
        changed = [(name, v) for name, v in items_of(d.get("config", {})) if name in keys]
        return f"{d.get('model')} {d['number']}: {self.what}: {self.line} {changed}"


def keys_of(value: Any) -> set[str]:
    """All names in a JSON value."""
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def items_of(value: Any) -> list[tuple[str, Any]]:
    """All names and values of the tables in a JSON value."""
    if not isinstance(value, dict):
        return []
    return [item for name, v in value.items() for item in ((name, v), *items_of(v))]


def checked(folder: Path, draw: dict[str, Any]) -> Result:
    """What the converter makes of a directory."""
    if draw["why"]:
        return Result("not made", draw["why"], draw)
    try:
        model, _ = read_source(folder)
        problems = model.problems()
        if problems:
            raise PhasorError(problems[0])
        descriptor = as_stored(model.descriptor)
        reference = Reference(V.ExactWeights(descriptor, model.weights))
        return Result(*compared(reference, np.load(folder / "outputs.npz")), draw)
    except PhasorError as error:
        files = [folder / name for name in ("config.json", "generation_config.json")]
        known = set().union(*(keys_of(json.loads(f.read_text())) for f in files if f.is_file()))
        words = set(re.findall(r"[\w.]+", str(error).replace(str(folder), "")))
        if any(name.is_file() for name in folder.glob("*.safetensors")):
            known |= set(open_checkpoint(folder))  # a line of tensors names them
        words |= {part for word in words for part in word.split(".")}
        drawn = set(draw["changed"]).union(
            *(keys_of(v) for name, v in items_of(draw["config"]) if name in draw["changed"])
        )
        what = "refused" if words & drawn else "elsewhere" if words & known else "unnamed"
        return Result(what, str(error), draw)


def compared(reference: Reference, outputs: Any) -> tuple[str, str]:
    """(result, line) for each length that the file takes."""
    d, compared_any = reference.d, False
    stacks = [s for s in ("encoder", "decoder") if s in d]
    for count in LENGTHS:
        longest = [D.longest(d, stack) for stack in stacks]
        if any(most and most < count for most in longest):
            continue
        ours = output_of(reference, outputs[f"ids_{count}"])
        single, double = (outputs[f"{kind}_{count}"].reshape(ours.shape) for kind in ("f32", "f64"))
        if not np.isfinite(double).all() or not np.isfinite(single).all():
            continue
        whole = max(np.ptp(double), np.abs(double).max(), 1e-30)
        gaps = [float(np.abs(ours - theirs).max() / whole) for theirs in (single, double)]
        noise = float(np.abs(single - double).max() / whole)
        if not min(gaps) <= max(TOLERANCE, 4 * noise):
            return "wrong", f"{min(gaps):.3g} of the range at {count} ids (float32: {noise:.2g})"
        compared_any = compared_any or min(gaps) <= TOLERANCE
    return ("equal", "") if compared_any else ("short", "nothing to compare")


def output_of(reference: Reference, ids: np.ndarray) -> np.ndarray:
    stack = reference.d["model"]["stack"]
    if stack == D.DECODER:
        return reference.decode(ids).logits
    encoded = reference.encode(ids)
    if stack == D.ENCODER:
        return reference.output(encoded)
    return reference.decode(ids[::-1], encoded.output).logits


def draw(version: str, of: dict[str, list], out: Path, first: int, count: int) -> None:
    """Runs config_draws.py with one of the versions."""
    out.mkdir(parents=True)
    (out / "bases.json").write_text(json.dumps(of))
    words = [Path(__file__).with_name("config_draws.py"), out / "bases.json", out, first, count]
    said = run_python(*words, newer=version == "5.x", OMP_NUM_THREADS="1")
    assert said.split("\n")[-2].startswith(version[0] + "."), said


def results(version: str, of: dict[str, list], first: int, count: int) -> Iterable[Result]:
    """Of all families, one after the other."""
    if not of:
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "models"
        draw(version, of, out, first, count)
        for family in of:
            for n in range(first, first + count):
                told = json.loads((out / f"{family}-{n}.json").read_text())
                yield checked(out / f"{family}-{n}", told)


def until_made(version: str, of: dict[str, list], first: int, count: int) -> Iterable[Result]:
    """Of each family until `count` were made by the library."""
    left, last = dict.fromkeys(of, count), first + count * _MOST_TRIED
    while first < last and (wanted := {name: of[name] for name in of if left[name]}):
        at_once = min(_AT_ONCE, last - first)
        for result in results(version, wanted, first, at_once):
            family = result.draw["family"]
            if left[family]:
                left[family] -= result.what != "not made"
                yield result
        first += at_once
    for family, missing in left.items():
        if missing:
            print(f"{version} {family}: {missing} fewer were made", flush=True)


KINDS = ("equal", "refused", "not made", "short", "elsewhere", "unnamed", "wrong")


TABLE = Table(
    "config_fuzz.py",
    "| family | made by transformers | equal | too short | refused by what was drawn | by another"
    " key | by another line | not made | wrong |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
)


_SHOWN = ("equal", "short", "refused", "elsewhere", "unnamed", "not made", "wrong")


def table_rows(counts: Counter, written: list[str]) -> list[str]:
    """A row a family, both versions together; families that were not drawn keep what is written."""
    rows = {row.split(" | ")[0][2:]: row for row in written if not row.startswith("| all |")}
    for family in {family for family, *_ in counts}:
        n = Counter()
        for (of, _, what), count in counts.items():
            n[what] += count if of == family else 0
        rows[family] = _row(family, [n.total() - n["not made"], *(n[what] for what in _SHOWN)])
    cells = [re.findall(r"[\d,]+|–", row.split(" | ", 1)[1]) for row in rows.values()]
    whole = [sum(int(n.replace(",", "")) for n in column if n != "–") for column in zip(*cells)]
    return [*(rows[family] for family in sorted(rows)), _row("all", whole)]


def _row(name: str, numbers: list[int]) -> str:
    return f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |\n"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--families", default="")
    parser.add_argument("--versions", default=",".join(VERSIONS))
    parser.add_argument("--write", action="store_true", help="their rows of families.md")
    parser.add_argument(
        "--show", default="wrong,unnamed,elsewhere", help="results that are printed"
    )
    args = parser.parse_args()
    chosen = args.families.split(",") if args.families else list(bases(VERSIONS[-1]))
    counts: Counter = Counter()
    for version in args.versions.split(","):
        found = {f: of for f, of in bases(version).items() if f in chosen}
        for result in until_made(version, found, args.first, args.count):
            counts[result.draw["family"], version, result.what] += 1
            if result.what in args.show.split(","):
                print(f"{version} {result}", flush=True)
    rows = {(family, version) for family, version, _ in counts}
    print(f"{'family':24} version " + " ".join(f"{kind:>9}" for kind in KINDS))
    for row in sorted(rows):
        print(f"{row[0]:24} {row[1]:7} " + " ".join(f"{counts[*row, kind]:9}" for kind in KINDS))
    total = [sum(counts[*row, kind] for row in rows) for kind in KINDS]
    print(f"{'all':32} " + " ".join(f"{n:9}" for n in total))
    if args.write:
        TABLE.write(table_rows(counts, TABLE.rows()))
    return int(total[-1] > 0)


if __name__ == "__main__":
    sys.exit(main())
