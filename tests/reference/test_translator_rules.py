"""What a generation_config.json recommends for an encoder-decoder, one rule at a time and several
together: a model of each class, saved with each of them by the pinned transformers and the newer.
Greedy tokens, and the hypotheses and scores of 4 beams, are those that either version generates; no
flag but --beam, --n-best and -n is given, so that the rules are the file's.

    test_translator_rules.py --write    every rule with more sources, into the table of
                                        docs/reference/families.md
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import test_families_translators as T
from family_table import Table
from generated import Outputs, recommended
from test_beam import cuts

from places import PROGRAM, need_newer
from sample import part

SOURCES, ALL_SOURCES = 2, 4  # of each of five lengths
CASES = list({case.model: case for case in T.CASES if not case.recommends}.values())
TABLE = Table(
    "test_translator_rules.py",
    "| class | rules | greedy, 4.57 | 5.x | hypotheses, 4.57 | 5.x |\n|---|---|---|---|---|---|\n",
)


def rules_of(said: list[list[int]], end: int, own: list[list[int]]) -> dict[str, dict[str, Any]]:
    """Options of generation by a name. said: outputs without any, whose tokens are those that a ban
    moves; own: bad words of the model, which stay (a pad has no position in M2M100)."""
    often = Counter(i for row in said for i in row if i != end).most_common(8)
    words = Counter(
        tuple(row[i : i + n]) for row in said for n in (2, 3) for i in range(len(row) - n)
    )
    banned = [i for i, _ in often[1:6:2]]
    bad = [[often[0][0]], *([*word] for word, _ in words.most_common(4)), [end], *own]
    one = {
        "repetition": {"repetition_penalty": 1.7},
        "repetition below one": {"repetition_penalty": 0.6},
        "no token twice": {"no_repeat_ngram_size": 1},
        "n-grams of the source": {"encoder_no_repeat_ngram_size": 2},
        "least length": {"min_length": 9},
        "fewest new": {"min_new_tokens": 7},
        "suppressed": {"suppress_tokens": banned},
        "bad words": {"bad_words_ids": bad},
        "first": {"forced_bos_token_id": often[2][0]},
        "last": {"forced_eos_token_id": end},
        "renormalized": {"renormalize_logits": True, "suppress_tokens": banned},
        "short": {"length_penalty": -1.0},
        "long": {"length_penalty": 2.0},
        "early": {"early_stopping": True, "length_penalty": 0.4},
        "never early": {"early_stopping": "never", "length_penalty": 1.5},
    }
    together = ("repetition", "n-grams of the source", "least length", "bad words", "first", "last")
    one["together"] = {name: x for rule in together for name, x in one[rule].items()}
    one["together, renormalized"] = {
        **one["together"],
        **one["renormalized"],
        **one["never early"],
        "no_repeat_ngram_size": 3,
    }
    return one


# They change nothing where an output is greedy.
OF_BEAMS = ("short", "long", "early", "never early")


class Ruled:
    """A case's model; what it generates with each of its rules, or with some."""

    def __init__(self, case: T.Case, folder: Path, count: int, whole: bool) -> None:
        self.case, self.folder = case, folder
        self.model = T.randomized(case)
        in_words = T.replace(case, recommends={"encoder_no_repeat_ngram_size": 2})
        every = T.sources(in_words, self.model, ALL_SOURCES)  # in the model's own words
        self.sources = [row for i, row in enumerate(every) if i % ALL_SOURCES < count]
        plain = recommended(self.model, {}, folder / "plain", self.sources, T.NEW, T.BEAMS)
        said = [row for outputs in plain for _, rows in outputs for row in rows]
        own = self.model.generation_config.bad_words_ids or []
        rules = rules_of(said, T.end_of(case), own)
        names = [*rules] if whole else [*part([*rules][:-2]), *[*rules][-2:]]
        self.rules = {name: rules[name] for name in names}
        self.older = {}
        for number, (name, rule) in enumerate(self.rules.items()):
            made = recommended(
                self.model, rule, folder / f"older{number}", self.sources, T.NEW, T.BEAMS
            )
            self.older[name] = made
            changed = [made[i] != plain[i] for i in (0, 1)]
            matters = changed == [name not in OF_BEAMS, True] or not whole  # of a few sources
            assert matters, f"{case.name}: {name} changes nothing"

    def job(self) -> dict[str, Any]:
        about = T.job(self.case, self.folder / "plain", self.folder / "newer")
        asked = {"sources": self.sources, "new": T.NEW, "beams": T.BEAMS}
        return {**about, **asked, "rules": [*self.rules.values()]}

    def compare(self, phasor: Path) -> list[int]:
        """Greedy outputs and hypotheses, and those that are each version's."""
        same = [0] * 4
        for number, name in enumerate(self.rules):
            newer = json.loads((self.folder / "newer" / f"{number}.json").read_text())
            for at, folder, made in (
                (0, self.folder / f"older{number}", self.older[name]),
                (1, self.folder / "newer" / str(number), newer),
            ):
                path = self.folder / "m.phasor"
                T.convert_to(folder, path)
                lines = T.run(phasor, path, self.sources)
                same[at] += sum(
                    line["ids"] == rows[0] for line, (_, rows) in zip(lines, made[0], strict=True)
                )
                same[2 + at] += self._beams(phasor, path, name, made[1])
        lists = len(self.sources) * len(self.rules)
        return [lists, *same[:2], T.BEAMS * lists, *same[2:]]

    def _beams(self, phasor: Path, path: Path, name: str, theirs: Outputs) -> int:
        """Hypotheses that are the library's in their places. Of two whose scores are nearer than
        SCORE, at the end or on the way, either may be the one that is kept."""
        flags = ["--beam", T.BEAMS, "--n-best", T.BEAMS]
        same = ties = 0
        lines = T.run(phasor, path, self.sources, *flags)
        for source, line, (scores, want) in zip(self.sources, lines, theirs, strict=True):
            rows = [o["ids"] for o in line["outputs"]]
            ours = [o["score"] for o in line["outputs"]]
            same += sum(a == b for a, b in zip(rows, want))
            if rows == want:
                off = np.abs(np.subtract(ours, scores)) / np.maximum(1, np.abs(scores))
                assert off.max() < T.SCORE, (self.case.name, name, source, ours, scores)
                continue
            near = min([abs(a - b) for a, b in zip(scores, scores[1:])] + [self._cut(name, source)])
            assert near < T.SCORE, (self.case.name, name, source, scores, want, ours, rows)
            print(f"{self.case.name}, {name}: a tie within {near:.1e}: {want} {rows}")
            ties += 1
        assert ties <= max(1, len(lines) / 20)
        return same

    def _cut(self, name: str, source: list[int]) -> float:
        own = self.model.generation_config
        self.model.generation_config = T.copy.deepcopy(own)
        self.model.generation_config.update(**self.rules[name])
        near = cuts(self.model, source, {"num_beams": T.BEAMS, "max_new_tokens": T.NEW})
        self.model.generation_config = own
        return near


def measured(cases: list[T.Case], folder: Path, count: int, whole: bool, phasor: Path):
    """Of each case its name, how many rules, and what `compare` gives."""
    made = []
    for number, case in enumerate(cases):
        (folder / str(number)).mkdir()
        made.append(Ruled(case, folder / str(number), count, whole))
    T.save_newer(folder, [ruled.job() for ruled in made])
    for ruled in made:
        yield ruled.case.model, len(ruled.rules), ruled.compare(phasor)


def test_what_is_recommended_is_what_either_version_does(tmp_path, phasor):
    need_newer()
    for name, _, counts in measured(part(CASES), tmp_path, SOURCES, False, phasor):
        lists, greedy, newer, outputs, *alike = counts
        assert greedy == newer == lists, name
        assert min(alike) >= 0.97 * outputs, name


def test_the_document_has_these_rows():
    assert TABLE.names() == [case.model for case in CASES], "run make families"


def write() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as made:
        for name, rules, counts in measured(CASES, Path(made), ALL_SOURCES, True, PROGRAM):
            lists, greedy, newer, outputs, alike, again = counts
            rows.append(
                f"| {name} | {rules} | {greedy} of {lists} | {newer} |"
                f" {alike} of {outputs} | {again} |\n"
            )
            print(rows[-1], end="", flush=True)
    TABLE.write(rows)


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else sys.exit(__doc__)
