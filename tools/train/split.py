"""The corpus of the translators and its split without a leak, from the standard library alone.

    make test-set DATA=cmn.txt [TO=build/test-set]

writes the test set of models/zh-en.phasor, test.zh and test.en, from the public file of sentence
pairs, and compares its SHA-256 with those of models/zh-en.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import random
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from phasor.entry import front_door
from phasor.files import read_json
from train.common import UserError, write_text

REPO = Path(__file__).resolve().parents[2]
RECORD = REPO / "models/zh-en.json"
SHOWCASE = ("我有一只猫。", "I have a cat.")  # shown in the README: must never be in training


class Sizes(Protocol):
    """What of a recipe decides the split."""

    seed: int
    valid_pairs: int
    test_pairs: int
    max_component: int


@dataclasses.dataclass(frozen=True)
class Pair:
    """One line of the corpus."""

    source: str
    target: str


@dataclasses.dataclass
class Split:
    """Three disjoint lists of pairs."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def normalize(sentence: str) -> str:
    """The form in which two sentences count as the same: NFKC, lower case, letters and digits
    only."""
    folded = unicodedata.normalize("NFKC", sentence).lower()
    kept = "".join(c for c in folded if unicodedata.category(c)[0] in "LNM")
    return kept or "".join(folded.split())


def read_pairs(path: Path) -> list[Pair]:
    """Distinct (Chinese, English) pairs of an `English TAB Chinese TAB credit` file, in file
    order."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})") from error
    pairs: dict[Pair, None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        fields = line.rstrip("\r").split("\t")
        if len(fields) < 2 or not fields[0].strip() or not fields[1].strip():
            raise UserError(f"{path}:{number}: expected English TAB Chinese TAB credit")
        pairs[Pair(fields[1].strip(), fields[0].strip())] = None
    if not pairs:
        raise UserError(f"{path} holds no sentence pairs")
    return list(pairs)


def components(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Connected components of the graph whose nodes are normalized sentences and whose edges are
    pairs."""
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def find(node: tuple[str, str]) -> tuple[str, str]:
        root = node
        while parent.setdefault(root, root) != root:
            root = parent[root]
        while parent[node] != root:
            parent[node], node = root, parent[node]
        return root

    for pair in pairs:
        parent[find(("zh", normalize(pair.source)))] = find(("en", normalize(pair.target)))
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(find(("zh", normalize(pair.source))), []).append(pair)
    return list(groups.values())


def split_pairs(pairs: Sequence[Pair], recipe: Sizes) -> Split:
    """Deal whole components to test, validation and training, so that no sentence is on two sides.

    Components of more than `max_component` pairs go to training: one would fill a test set with
    variants of one sentence.
    """
    groups = components(pairs)
    random.Random(recipe.seed).shuffle(groups)
    split = Split([], [], [])
    held_out = {normalize(SHOWCASE[0])}
    for group in groups:
        if any(normalize(pair.source) in held_out for pair in group):
            split.test.extend(group)
        elif len(group) <= recipe.max_component and len(split.test) < recipe.test_pairs:
            split.test.extend(group)
        elif len(group) <= recipe.max_component and len(split.valid) < recipe.valid_pairs:
            split.valid.extend(group)
        else:
            split.train.extend(group)
    return split


def check_split(split: Split) -> dict[str, int]:
    """Prove the split clean, or raise. Returns the counts that were compared."""
    for side in ("source", "target"):
        seen = {normalize(getattr(pair, side)) for pair in split.train}
        held = {normalize(getattr(pair, side)) for pair in split.test}
        tuned = {normalize(getattr(pair, side)) for pair in split.valid}
        comparisons = (
            ("train/test", seen, held),
            ("train/valid", seen, tuned),
            ("valid/test", tuned, held),
        )
        for name, left, right in comparisons:
            shared = left & right
            if shared:
                example = (
                    f"{len(shared)} {side} sentences in both of {name}, such as {min(shared)!r}"
                )
                raise UserError(f"split is not clean: {example}")
    if normalize(SHOWCASE[0]) in {normalize(pair.source) for pair in split.train}:
        raise UserError(f"split is not clean: {SHOWCASE[0]} is in training")
    return {
        "train_pairs": len(split.train),
        "valid_pairs": len(split.valid),
        "test_pairs": len(split.test),
        "test_sources": len({normalize(pair.source) for pair in split.test}),
        "showcase_target_in_train": sum(
            normalize(p.target) == normalize(SHOWCASE[1]) for p in split.train
        ),
    }


def test_texts(split: Split) -> dict[str, str]:
    """The files of a test set: a sentence a line."""
    return {
        "test.zh": "".join(f"{pair.source}\n" for pair in split.test),
        "test.en": "".join(f"{pair.target}\n" for pair in split.test),
    }


def sha256_of(split: Split) -> dict[str, str]:
    return {
        name: hashlib.sha256(text.encode("utf-8")).hexdigest()
        for name, text in test_texts(split).items()
    }


@dataclasses.dataclass
class _Recorded:
    seed: int
    valid_pairs: int
    test_pairs: int
    max_component: int


@front_door("test-set")
def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Writes the test set of models/zh-en.phasor.")
    parser.add_argument("--data", type=Path, required=True, help="English TAB Chinese TAB credit")
    parser.add_argument("--to", type=Path, required=True, help="folder of test.zh and test.en")
    options = parser.parse_args(arguments)
    record = read_json(RECORD)
    fields = (field.name for field in dataclasses.fields(_Recorded))
    sizes = _Recorded(**{name: record["recipe"][name] for name in fields})
    split = split_pairs(read_pairs(options.data), sizes)
    check_split(split)
    made, recorded = sha256_of(split), record["split"]["sha256"]
    if made != recorded:
        raise UserError(
            f"{options.data}: gives another test set than the recorded one ({len(split.test):,} "
            f"pairs, expected {record['split']['test_pairs']:,}); the recorded file had "
            f"{record['split']['corpus_pairs']:,} pairs, and this one gives another BLEU"
        )
    for name, text in test_texts(split).items():
        write_text(options.to / name, text)
    print(f"{options.to}: test.zh and test.en, {len(split.test):,} pairs, SHA-256 as recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
