"""Tokenizers composed at random (tokenizer_draws.py) against the `tokenizers` package: what is
converted gives the package's ids and its text for ids, or the converter refuses a part by name.

    tokenizer_fuzz.py [--count N] [--first N] [--texts N] [--show wrong,unnamed] [--keep FOLDER]

prints each result of the kinds of --show, then how many there are of each kind, and the refusals by
part. --keep writes the tokenizer.json of what is shown. test_tokenizer_fuzz.py runs a few.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]

import tokenizer_draws as draws
from test_tokenizer import Driver, build_driver, in_characters
from tokenizers import Tokenizer

from exported import exported
from phasor.errors import PhasorError
from phasor.sources.hugging_face.tokenizer_json import build_hf_section

os.environ["TOKENIZERS_PARALLELISM"] = "false"

KINDS = ("equal", "refused", "unnamed", "wrong", "raised", "stuck")
TEXTS, SEQUENCES = 500, 200
_PATIENCE = 300  # seconds for one composition
_SHOWN = 120  # characters of a text
PHASOR = Path(os.environ.get("PHASOR", ROOT / "build" / "phasor"))


class Result(NamedTuple):
    """Of one composition: equal; refused (the line names a part of it); unnamed (the line does
    not); wrong; raised (the package does not make it, or encodes no text); stuck."""

    seed: int
    what: str
    line: str = ""
    part: str = ""  # that the converter refuses
    parts: str = ""  # all of them

    def __str__(self) -> str:
        return f"{self.seed}: {self.what}: {self.line}\n    {self.parts}"


# ---- The package, which panics in places


class Raised(Exception):
    """What the package raised."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What the package's panics print goes nowhere."""
    sys.stderr.flush()
    before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


def _asked(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return call(*args, **options)
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise Raised(f"{type(error).__name__}: {error}") from None
        raise


def _all_asked(call: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
    """What the package makes of each value; None where it raises."""
    out = []
    for value in values:
        try:
            out.append(_asked(call, value))
        except Raised:
            out.append(None)
    return out


# ---- The parts of a composition

_LISTS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def _steps(spec: dict, room: str) -> list[dict]:
    part = spec[room]
    return [] if part is None else part.get(_LISTS[room], [part])


def parts_of(spec: dict) -> str:
    def shown(part: dict) -> str:
        own = {k: v for k, v in part.items() if k not in ("type", "precompiled_charsmap", "vocab")}
        values = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)[:90]}" for k, v in own.items())
        return f"{part['type']}({values})"

    model = {k: v for k, v in spec["model"].items() if v not in (None, False) and k != "merges"}
    rooms = [", ".join(map(shown, _steps(spec, room))) or "-" for room in _LISTS]
    rooms.insert(2, shown(model))
    trained = {name for names in draws.NAMES for name in names}
    added = [
        token["content"] + "".join(" " + flag for flag in _FLAGS if token[flag])
        for token in spec["added_tokens"]
        if token["content"] not in trained
    ]
    return " | ".join(rooms) + f" | added {added} | truncation {spec['truncation']}"


def refused_part(spec: dict, line: str) -> str:
    """The part of the composition that a line names, with its room; nothing if it names none."""
    words = set(re.findall(r"\w+", line))
    steps = [(room, step) for room in _LISTS for step in _steps(spec, room)]
    for room, step in steps:
        if step["type"] in words:
            fields = sorted(words & step.keys() - {"type", "pattern"})
            return " ".join([room, step["type"], *fields])
    for room, step in steps:
        for field in step.keys() - {"type"}:
            if f"{room}.{field} " in line:
                return f"{room} {step['type']} {field}"
    for field, value in spec["model"].items():
        if field in words and field not in ("type", "vocab") and value not in (None, False):
            return f"model {spec['model']['type']} {field}"
    for room in ("truncation", "added_tokens", *_LISTS):
        if spec[room] and room in words:
            return room
    for flag in _FLAGS:
        if flag in words and any(token[flag] for token in spec["added_tokens"]):
            return f"added_tokens {flag}"
    return f"model {spec['model']['type']}" if spec["model"]["type"] in words else ""


# ---- Comparing


def _first(
    named: str, given: list, want: list, got: list, shown: Callable[[Any], str]
) -> str | None:
    """The shortest of what is unequal."""
    unlike = [row for row in zip(given, want, got, strict=True) if row[1] != row[2]]
    if not unlike:
        return None
    value, theirs, ours = min(unlike, key=lambda row: len(row[0]))
    return (
        f"{named}, {len(unlike)} of {len(want)}: {shown(value)} package {str(theirs)[:400]} "
        f"phasor {str(ours)[:400]}"
    )


def _offsets(driver: Driver, path: Path, known: list[tuple[bytes, list]]) -> str | None:
    # what is no UTF-8 the package reads as U+FFFD, whose places are not the text's
    known = [(text, offsets) for text, offsets in known if draws.as_text(text).encode() == text]
    texts = [text for text, _ in known]
    ours = [
        theirs if found is None else in_characters(draws.as_text(text), found)
        for (text, theirs), found in zip(known, driver.offsets(path, texts))
    ]
    return _first("offsets", texts, [offsets for _, offsets in known], ours, _bytes_shown)


def _template(tokenizer: Tokenizer, info: dict, given: list[str]) -> str | None:
    """What goes around a text and a pair of texts, the segments of both, and the truncation."""
    cut = tokenizer.truncation
    side = "right" if cut is None else cut["direction"].lower()
    said = info["truncation"], info["cut"]
    if said != (cut and cut["max_length"], side):
        return f"truncation: {said}, expected {(cut and cut['max_length'], side)}"
    encode = tokenizer.encode
    prefix, suffix, pair = info["prefix"], info["suffix"], info["pair"]
    for text in given:
        tokenizer.no_truncation()
        bare, whole = encode(text, add_special_tokens=False).ids, encode(text)
        if whole.ids != [*prefix, *bare, *suffix]:
            return f"around {text!r}: {prefix} {suffix}, expected {whole.ids[:40]}"
        if any(whole.type_ids) and not info["other_segments"]:
            return f"segments of {text!r}: 0, expected {whole.type_ids[:40]}"
        second = given[0]
        both, other = encode(text, second), encode(second, add_special_tokens=False).ids
        if pair is not None:
            if both.ids != [*prefix, *bare, *pair, *other, *suffix]:
                return f"around {text!r} and {second!r}: {pair}, expected {both.ids[:40]}"
            first = len(prefix) + len(bare) + len(pair)
            segments = [0] * first + [info["pair_segment"]] * (len(both.ids) - first)
            if both.type_ids != segments and not info["other_segments"]:
                return f"segments of {text!r} and {second!r}: {segments[-8:]}, {both.type_ids[-8:]}"
        if cut is None:
            continue
        room = max(cut["max_length"] - len(prefix) - len(suffix), 0)
        kept = bare[-room:] if side == "left" and room else bare[:room]
        tokenizer.enable_truncation(**cut)
        whole = encode(text)
        if whole.ids != [*prefix, *kept, *suffix]:
            return f"truncation of {text!r}: {kept[:40]}, expected {whole.ids[:40]}"
    return None


def difference(
    driver: Driver,
    section: bytes,
    info: dict,
    tokenizer: Tokenizer,
    spec: dict,
    seed: int,
    given: list[bytes],
) -> str | None:
    """What is wrong with a section, in a line. Raised if the package encodes no text at all."""
    cut = tokenizer.truncation
    tokenizer.no_truncation()
    encodings = _all_asked(lambda text: tokenizer.encode(text, add_special_tokens=False), map(
        draws.as_text, given
    ))  # fmt: skip
    known = [(text, encoding) for text, encoding in zip(given, encodings) if encoding is not None]
    if not any(text for text, _ in known):
        raise Raised("no text is encoded")
    given, theirs = [text for text, _ in known], [encoding.ids for _, encoding in known]
    path = driver.section(section)
    try:
        found = _first("ids", given, theirs, driver.encode(path, given), _bytes_shown)
        if found:
            return found
        found = _offsets(driver, path, [(text, encoding.offsets) for text, encoding in known])
        if found:
            return found
        sequences = [*theirs, *draws.sequences(seed, tokenizer, SEQUENCES)]
        decoded = _all_asked(tokenizer.decode, sequences)
        pairs = [
            (ids, text)
            for ids, text in zip(sequences, decoded)
            if text is not None and not _has_broken_bytes(tokenizer, spec, ids)
        ]
        sequences, decoded = [ids for ids, _ in pairs], [text.encode() for _, text in pairs]
        found = _first("text", sequences, decoded, driver.decode(path, sequences), _ids_shown)
        if found:
            return found
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return f"the engine: {str(error)[:300]}"
    finally:
        path.unlink()
    if cut is not None:
        tokenizer.enable_truncation(**cut)
    short = [draws.as_text(text) for text in given if 0 < len(text) < 200][:12]
    return _template(tokenizer, info, short)


def _exported_difference(
    phasor: Path, folder: Path, section: bytes, info: dict, tokenizer: Tokenizer, texts: list[bytes]
) -> str | None:
    """What is other in the tokenizer.json that `phasor tokenize --export` makes of the section:
    ids with those around a text, offsets, decoded texts."""
    try:
        path = exported(phasor, folder, section, {**info, "pair": info["pair"] or []})
        ours = _asked(Tokenizer.from_file, str(path))
    except (AssertionError, Raised) as error:
        return f"export: {error}"
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lines = [draws.as_text(text) for text in texts]

    def of(made: Tokenizer) -> list:
        found = _all_asked(made.encode, lines)
        ids = [[] if one is None else one.ids for one in found]
        places = [None if one is None else one.offsets for one in found]
        return list(zip(ids, places, _all_asked(made.decode, ids), strict=True))

    return _first("export", lines, of(tokenizer), of(ours), repr)


_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _has_broken_bytes(tokenizer: Tokenizer, spec: dict, ids: list[int]) -> bool:
    """Whether a sequence has a run of byte tokens that is not UTF-8: the package makes U+FFFD of
    every byte of it, which a text that goes out token by token cannot (file-format.md)."""
    if not any(step["type"] == "ByteFallback" for step in _steps(spec, "decoder")):
        return False
    special = {token["content"] for token in spec["added_tokens"] if token["special"]}
    tokens = [tokenizer.id_to_token(id_) for id_ in ids]
    tokens = [token for token in tokens if token is not None and token not in special]
    if any(step["type"] == "CTC" for step in _steps(spec, "decoder")):
        tokens = [token for token, _ in itertools.groupby(tokens)]
    run = b""
    for token in (*tokens, ""):
        byte = _BYTE.fullmatch(token)
        if byte:
            run += bytes([int(byte[1], 16)])
            continue
        try:
            run.decode()
        except UnicodeDecodeError:
            return True
        run = b""
    return False


def _bytes_shown(text: bytes) -> str:
    return repr(draws.as_text(text)[:_SHOWN])


def _ids_shown(ids: list[int]) -> str:
    return str(ids[:_SHOWN])


def checked(
    driver: Driver,
    path: Path,
    seed: int,
    given: list[bytes],
    oracle: Tokenizer | None = None,
    phasor: Path | None = None,
) -> Result:
    """What becomes of a tokenizer.json; its oracle is what the package reads there. phasor: the
    program, where it is exported again too."""
    spec = json.loads(path.read_text(encoding="utf-8"))
    result = Result(seed, "equal", parts=parts_of(spec))
    try:
        with _quiet():
            tokenizer = oracle or _asked(Tokenizer.from_file, str(path))
        section, info = build_hf_section(path)
        with _quiet():
            line = _asked(difference, driver, section, info, tokenizer, spec, seed, given)
            if line is None and phasor is not None:
                more = (section, info, tokenizer, given)
                line = _exported_difference(phasor, path.parent, *more)
    except PhasorError as error:
        line = str(error).replace(str(path), path.name)
        part = refused_part(spec, line)
        return result._replace(what="refused" if part else "unnamed", line=line, part=part or line)
    except Raised as error:
        return result._replace(what="raised", line=str(error))
    except Exception as error:  # the converter's own
        return result._replace(what="wrong", line=f"{type(error).__name__}: {error}")
    return result._replace(what="wrong", line=line) if line else result


def compare(
    driver: Driver,
    folder: Path,
    seed: int,
    given: list[bytes] | None = None,
    phasor: Path | None = None,
) -> Result:
    """What becomes of the composition of a number, whose tokenizer.json is in the folder then."""
    path = folder / "tokenizer.json"
    try:
        with _quiet():
            _asked(lambda: draws.draw(seed).save(str(path)))
    except Raised as error:
        return Result(seed, "raised", str(error))
    given = draws.texts(seed, TEXTS) if given is None else given
    return checked(driver, path, seed, given, phasor=phasor)


# ---- Many


def _sent(pipe: Any, driver: Driver, folder: Path, seed: int, count: int) -> None:
    phasor = PHASOR if PHASOR.exists() else None
    pipe.send(compare(driver, folder, seed, draws.texts(seed, count), phasor))


def results(driver: Driver, folder: Path, seeds: Iterable[int], count: int) -> Iterable[Result]:
    """Each in a process of its own, which may crash or hang."""
    fork = multiprocessing.get_context("fork")
    for seed in seeds:
        ours, theirs = fork.Pipe(duplex=False)
        process = fork.Process(target=_sent, args=(theirs, driver, folder, seed, count))
        process.start()
        theirs.close()
        try:
            there = ours.poll(_PATIENCE)
            yield ours.recv() if there else Result(seed, "stuck", f"after {_PATIENCE} s")
        except EOFError:
            process.join()
            yield Result(seed, "stuck", f"the process ended with {process.exitcode}")
        if process.is_alive():
            process.kill()
        process.join()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--show", default="wrong,unnamed,stuck", help="results that are printed")
    parser.add_argument("--keep", type=Path, help="where the tokenizer.json of these goes")
    args = parser.parse_args()
    counts, refused = Counter(), Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = build_driver(folder)
        for rule in draws.RULES:
            draws.charsmap(rule)  # once, before the processes
        seeds = range(args.first, args.first + args.count)
        for result in results(driver, folder, seeds, args.texts):
            counts[result.what] += 1
            refused[result.part] += result.what in ("refused", "unnamed")
            if result.what in args.show.split(","):
                print(result, flush=True)
                if args.keep and (folder / "tokenizer.json").exists():
                    args.keep.mkdir(parents=True, exist_ok=True)
                    shutil.copy(folder / "tokenizer.json", args.keep / f"{result.seed}.json")
    for part, count in refused.most_common():
        if count:
            print(f"{count:6} refused: {part}")
    made = counts.total() - counts["raised"]
    print(", ".join(f"{kind} {counts[kind]:,}" for kind in KINDS))
    print(f"{100 * counts['equal'] / max(made, 1):.1f} % of {made:,} are converted and equal")
    return int(counts["wrong"] + counts["stuck"] > 0)


if __name__ == "__main__":
    sys.exit(main())
