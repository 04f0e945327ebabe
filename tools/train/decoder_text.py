"""Texts for train_decoder.py: English sentences and the documentation of Debian packages, dealt
into training, validation and test without a leak.

Everything here is a function of its arguments and of the recipe's seed. A passage is some
paragraphs of one file in a row; whole passages are dealt. A paragraph that is in the test or the
validation text, after `normalize`, is left out of training, wherever it is there.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import gzip
import hashlib
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from train.common import UserError
from train.split import Sizes, normalize, read_pairs, split_pairs

PASSAGE = 2000  # characters
ENTRY_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True)
class Package:
    """What is read of a Debian package: the files whose path a pattern fits."""

    name: str
    license: str
    pattern: str


PACKAGES = (
    Package("debian-faq", "FAQ's own (copies with this notice)", "*/debian-faq.en.txt.gz"),
    Package("debian-policy", "GPL-2.0-or-later", "*/policy.txt.gz"),
    Package("debian-reference-en", "GPL-2.0-or-later", "*/debian-reference.en.txt.gz"),
    Package("developers-reference", "GPL-2.0-or-later", "*/_sources/*.rst.txt"),
    Package("git-doc", "GPL-2.0-only", "*/git-doc/*.txt"),
    Package("installation-guide-amd64", "GPL-2.0-only", "*/install.en.txt.gz"),
    Package("jargon-text", "public domain", "*/jargon.txt.gz"),
    Package("python3.11-doc", "PSF-2.0", "*/_sources/*.rst.txt"),
    Package("wordnet-base", "WordNet-3.0", "*/wordnet/data.*"),
)


@dataclasses.dataclass
class Texts:
    """Passages, each one text."""

    train: list[str]
    valid: list[str]
    test: list[str]
    sources: list[dict[str, str]]


class Shares:
    """Which part of a hundred thousand a passage is dealt to."""

    def __init__(self, seed: int, valid: float, test: float) -> None:
        self._seed = seed
        self._edges = (int(test * 1e5), int((test + valid) * 1e5))

    def side(self, name: str) -> str:
        digest = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
        place = int.from_bytes(digest[:8], "big") % 100_000
        return ("test", "valid", "train")[sum(place >= edge for edge in self._edges)]


def paragraphs_of(text: str) -> list[str]:
    """Blocks between empty lines, their lines joined where they are prose."""
    blocks = re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n"))
    return [block.strip("\n") for block in blocks if block.strip()]


def glosses_of(text: str) -> list[str]:
    """Of a WordNet data file its entries, as `words: meaning`."""
    found = []
    for line in text.split("\n"):
        head, bar, gloss = line.partition(" | ")
        fields = head.split(" ")
        if not bar or len(fields) < 5:
            continue
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        found.append(f"{', '.join(words).replace('_', ' ')}: {gloss.strip()}")
    return found


def passages_of(paragraphs: Sequence[str], joint: str) -> Iterator[list[str]]:
    """Runs of paragraphs of about PASSAGE characters."""
    run: list[str] = []
    size = 0
    for paragraph in paragraphs:
        run.append(paragraph)
        size += len(paragraph) + len(joint)
        if size >= PASSAGE:
            yield run
            run, size = [], 0
    if run:
        yield run


def read_package(path: Path, package: Package) -> Iterator[tuple[str, str]]:
    """(path inside, text) of the files wanted, by name."""
    result = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", str(path)], capture_output=True, check=False
    )
    if result.returncode:
        raise UserError(f"{path}: dpkg-deb cannot read it")
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as archive:
        entries = [entry for entry in archive if entry.isfile()]
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not fnmatch.fnmatch(entry.name, package.pattern) or entry.size > ENTRY_BYTES:
                continue
            file = archive.extractfile(entry)
            data = file.read() if file else b""
            if entry.name.endswith(".gz"):
                data = gzip.decompress(data)
            yield entry.name, data.decode("utf-8", errors="ignore")


def package_file(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"{name}_*.deb"))
    if len(found) != 1:
        names = " ".join(package.name for package in PACKAGES)
        raise UserError(
            f"{folder}: {len(found)} files of package {name}, expected one. "
            f"TRY: cd {folder} && apt-get download {names}"
        )
    return found[0]


class Parts(Sizes, Protocol):
    """What of a recipe decides the texts."""

    valid_share: float
    test_share: float


def sentences(pairs: Path, sizes: Sizes) -> dict[str, list[str]]:
    """The English side of the pairs, dealt as for the translator; each sentence once."""
    split = split_pairs(read_pairs(pairs), sizes)
    sides = (("test", split.test), ("valid", split.valid), ("train", split.train))
    return {side: list(dict.fromkeys(pair.target for pair in part)) for side, part in sides}


def make_texts(pairs: Path, debs: Path, parts: Parts) -> Texts:
    """All of the texts, dealt."""
    sides: dict[str, list[tuple[str, list[str]]]] = {"train": [], "valid": [], "test": []}
    for side, lines in sentences(pairs, parts).items():
        sides[side] += [("\n", run) for run in passages_of(lines, "\n")]
    shares = Shares(parts.seed, parts.valid_share, parts.test_share)
    sources = [{"name": "sentence pairs, English", "license": "CC-BY-2.0-FR"}]
    for package in PACKAGES:
        path = package_file(debs, package.name)
        sources.append({"name": path.name, "license": package.license})
        lists = package.name == "wordnet-base"
        joint = "\n" if lists else "\n\n"
        for name, text in read_package(path, package):
            paragraphs = glosses_of(text) if lists else paragraphs_of(text)
            for number, run in enumerate(passages_of(paragraphs, joint)):
                sides[shares.side(f"{package.name} {name} {number}")].append((joint, run))
    return _without_leaks(sides, sources)


def _without_leaks(
    sides: dict[str, list[tuple[str, list[str]]]], sources: list[dict[str, str]]
) -> Texts:
    """Each paragraph on one side alone, the test's first."""
    seen: set[str] = set()
    kept: dict[str, list[str]] = {}
    for side in ("test", "valid", "train"):
        here: set[str] = set()
        kept[side] = []
        for joint, run in sides[side]:
            left = []
            for paragraph in run:
                plain = normalize(paragraph)
                if plain not in seen and plain not in here:
                    here.add(plain)
                    left.append(paragraph)
            if left:
                kept[side].append(joint.join(left))
        seen |= here
    return Texts(kept["train"], kept["valid"], kept["test"], sources)
