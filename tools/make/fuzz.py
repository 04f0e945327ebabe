#!/usr/bin/env python3
"""Runs the fuzz targets side by side and adds up what they have done (tests/fuzz/README.md).

    fuzz.py run --programs DIR --kind KIND --minutes N --jobs N [TARGET…]
    fuzz.py merge --programs DIR [TARGET…]      the committed corpus, made small again
    fuzz.py sums

A run's corpora grow in build/fuzz/corpus, findings lie in build/fuzz/findings, and each target's
share of a run is a line of build/fuzz/log.tsv.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from phasor.entry import front_door

ROOT = Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "build/fuzz"
LOG = OUT / "log.tsv"
COMMITTED = ROOT / "tests/fuzz/corpus"
COLUMNS = ("time", "kind", "target", "executions", "seconds", "cov", "ft", "corpus", "findings")

# Longest inputs, in bytes. Whole weight files are long, choices of a generator are short.
LONGEST = {"open": 16384, "file": 8192, "normalizer": 256, "tokenizer": 900, "chat": 700}
LONGEST_OF_CLI = 300
CLI = ("arguments", "input", "json", "npy")
WHOLE_RUN = ("open", "run", "generate", "state", "vectors", "quantize")
MOST_MIB, MOST_SECONDS = 2048, 20  # of one input
MOST_INPUTS, MOST_BYTES = 60, 32768  # of a target's committed corpus


def all_targets():
    rows = (ROOT / "tests/fuzz/targets.cpp").read_text(encoding="utf-8")
    return re.findall(r'\{"(\w+)", Shape', rows)


def longest(target):
    return LONGEST_OF_CLI if target in CLI else LONGEST.get(target, 1200)


def seed(target, folder):
    """A first corpus where there is none: bytes of every length, as choices and as parts."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    bits = random.Random(target)
    for i in range(60):
        lengths = [bits.choice([0, 8, 60, 200]) for _ in range(3)]
        head = b"".join(n.to_bytes(2, "little") for n in lengths[:2])
        (folder / f"seed-{i:02}").write_bytes(
            (head + bits.randbytes(sum(lengths)))[: longest(target)]
        )


def link(programs, target):
    """The program is the target that its name says."""
    path = programs / target
    if not path.exists():
        os.link(programs / "fuzz", path)
    elif path.stat().st_ino != (programs / "fuzz").stat().st_ino:
        path.unlink()
        os.link(programs / "fuzz", path)
    return path


def number(name, text):
    """The last one that libFuzzer prints behind a name."""
    found = [value for key, value in re.findall(r"(\S+): +(\d+)", text) if key == name]
    return int(found[-1]) if found else 0


def fuzz(target, programs, kind, seconds):
    """One target for a time; its line of the log. It goes on behind a finding."""
    corpus, findings = OUT / "corpus" / target, OUT / "findings" / target
    seed(target, corpus)
    findings.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    row = dict.fromkeys(COLUMNS, 0) | {"kind": kind, "target": target}
    row["time"] = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    start = time.monotonic()
    folders = [corpus] + ([COMMITTED / target] if (COMMITTED / target).is_dir() else [])
    for _ in range(20):
        left = int(seconds - (time.monotonic() - start))
        if left < 1:
            break
        command = [link(programs, target), f"-max_total_time={left}", f"-max_len={longest(target)}"]
        command += [f"-rss_limit_mb={MOST_MIB}", f"-timeout={MOST_SECONDS}", "-print_final_stats=1"]
        command += ["-reload=0", "-detect_leaks=0", f"-artifact_prefix={findings}/", *folders]
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True)
        text = done.stderr.decode("utf-8", "replace")
        row["executions"] += number("stat::number_of_executed_units", text)
        for key in ("cov", "ft"):
            row[key] = max(row[key], number(key, text))
        if done.returncode != 0:
            (findings / f"log-{time.time_ns()}").write_text(text[-20000:], encoding="utf-8")
    row["seconds"] = round(time.monotonic() - start)
    row["corpus"] = sum(1 for _ in corpus.iterdir())
    new = [p for p in findings.iterdir() if p not in before and not p.name.startswith("log-")]
    row["findings"] = len(new)
    with LOG.open("a", encoding="utf-8") as log:
        log.write("\t".join(str(row[c]) for c in COLUMNS) + "\n")
    return row


def table(rows):
    head = ("executions", "a second", "cov", "ft", "corpus", "findings")
    print(f"{'target':<12}" + "".join(f"{name:>13}" for name in head))
    for r in rows:
        rate = int(r["executions"]) // max(int(r["seconds"]), 1)
        values = (r["executions"], rate, r["cov"], r["ft"], r["corpus"], r["findings"])
        print(f"{r['target']:<12}" + "".join(f"{int(value):>13,}" for value in values))
    whole = sum(int(r["executions"]) for r in rows if r["target"] in WHOLE_RUN)
    every = sum(int(r["executions"]) for r in rows)
    print(f"fuzz: {every - whole:,} executions of cheap targets, {whole:,} of whole runs")


def run(options):
    targets = options.targets or all_targets()
    unknown = sorted(set(targets) - set(all_targets()))
    if unknown:
        sys.exit(f"fuzz: {' '.join(unknown)}: expected some of {' '.join(all_targets())}")
    OUT.mkdir(parents=True, exist_ok=True)
    jobs = min(options.jobs, len(targets))
    share = options.minutes * 60 * jobs / len(targets)
    with ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(lambda t: fuzz(t, options.programs, options.kind, share), targets))
    table(rows)
    bad = [r["target"] for r in rows if r["findings"]]
    if bad:
        print(f"findings of {', '.join(bad)}: {OUT / 'findings'}", file=sys.stderr)
    return 1 if bad else 0


def sums(_options):
    """All lines of the log, target by target."""
    by_target = {}
    for line in LOG.read_text(encoding="utf-8").splitlines():
        row = dict(zip(COLUMNS, line.split("\t"), strict=True))
        kept = by_target.setdefault(
            row["target"], dict.fromkeys(COLUMNS, 0) | {"target": row["target"]}
        )
        for key in ("executions", "seconds", "findings"):
            kept[key] += int(row[key])
        for key in ("cov", "ft", "corpus"):
            kept[key] = max(kept[key], int(row[key]))
    table([by_target[t] for t in all_targets() if t in by_target])
    return 0


def merge(options):
    """A few inputs that together reach what all of them reach, the small ones first."""
    for target in options.targets or all_targets():
        folders = [f for f in (COMMITTED / target, OUT / "corpus" / target) if f.is_dir()]
        with tempfile.TemporaryDirectory() as scratch:
            command = [
                link(options.programs, target),
                "-set_cover_merge=1",
                f"-max_len={longest(target)}",
            ]
            subprocess.run([*command, scratch, *folders], cwd=ROOT, check=True, capture_output=True)
            chosen, size = [], 0
            for path in sorted(Path(scratch).iterdir(), key=lambda p: (p.stat().st_size, p.name)):
                size += path.stat().st_size
                if len(chosen) < MOST_INPUTS and size <= MOST_BYTES:
                    chosen.append(path)
            kept = [p for p in (COMMITTED / target).glob("finding-*")]
            (COMMITTED / target).mkdir(parents=True, exist_ok=True)
            for old in (COMMITTED / target).iterdir():
                if old not in kept:
                    old.unlink()
            for path in chosen:
                shutil.copyfile(path, COMMITTED / target / path.name[:16])
            print(f"{target}: {len(chosen)} inputs and {len(kept)} findings")
    return 0


@front_door("fuzz")
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "merge", "sums"])
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--programs", type=Path, default=OUT / "address")
    parser.add_argument("--kind", default="address")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_intermixed_args()
    options.programs = options.programs.resolve()
    return {"run": run, "merge": merge, "sums": sums}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
