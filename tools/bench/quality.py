"""What each type costs: size, and perplexity, the cosine of vectors or BLEU, as a table; beside
llama.cpp's types and ONNX Runtime's forms of the same weights.

    quality.py MODEL.phasor --text wiki.test.raw [--windows 20] [--moments moments.npy]
        [--divergence] [--prompts [FILE]] [--gguf f32.gguf] [--checkpoint DIR] [--llama Q4_K_M,Q8_0]
        [--openvino]
        [--types q8,q8r] [--inputs 8,16] [--files FILE...] [--sizes 90M,100M] [--calibration FILE]
        [--picture FILE.svg] [--threads N]
    quality.py ENCODER.phasor --text lines.txt [--lines 1000] [--types q8,q8r] [--checkpoint DIR]
    quality.py TRANSLATOR.phasor --sources test.zh --references test.en [--ctranslate2]

MODEL is the f32 file; its types are made by `phasor quantize`, f32 first and then those of --types
with inputs of the bits of --inputs, and behind them come --files as they are, and for each of
--sizes the file of `phasor quantize --bytes`, measured on --calibration. --picture draws what each
file loses over its size.
Perplexity is llama.cpp's, over the first windows of the text, and its baseline the first row;
--divergence adds the mean Kullback-Leibler divergence of each row's logits from the first row's,
over all of these windows, and the standard errors of both over the windows. --prompts compares
greedy answers of 64 tokens to 100 prompts, or to the lines of FILE, with the first row's: equal
first sentences, equal answers, the mean share of tokens equal from the start, and answers that end
in a stretch three times in a row where the first row's does not.

--gguf: the same weights in F32 as GGUF. llama.cpp makes its types from it (llama_types.py), with
and without an importance matrix where there is a --calibration. --checkpoint: the Hugging Face
directory of the weights; the GGUF file is made of it, and ONNX Runtime's forms (onnx_types.py),
with --openvino OpenVINO's too (openvino_types.py says what it needs). All read the same ids, and
a second table has, beside each of these files, the best file of ours that is no larger, with the
standard error of their difference over the same windows or lines.

An encoder of sentences reads the text's first lines that are not empty,
cut to what its makers say, and its vectors stand beside the first row's; converted to f32 with
--smooth, q8, q8r and q8rh have the input scales that the converter gives them. BLEU needs the
package sacrebleu; the standard error of its difference is over draws of the lines.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Sequence

import numpy as np

from bench import agreement
from bench.common import ROOT, command
from bench.llama_types import Form, Reader
from bench.losses import Point, draw, print_beside
from phasor.entry import front_door
from phasor.files import read_text
from phasor.format import layout as L
from phasor.format.layout import PhasorError

TYPES = (
    ("f32", None),
    ("f16", None),
    ("bf16", None),
    ("q8", None),
    ("q4", None),
    ("q4", "q8"),
    ("q8r", None),
    ("q8rh", None),
    ("q4m", None),
    ("q4k", None),
    ("q4t", None),
    ("q4t", "q8"),
    ("q6", None),
    ("q4x", None),
    ("q3", None),
    ("q5m", None),
    ("q5k", None),
)  # of the matrices, and of the output's where it is another
FLOATS = ("f32", "f16", "bf16")
WEIGHED = tuple(L.TYPES[k] for k in L.ROUNDED if k in L.GROUPED + L.CODED)  # by moments
EXCERPT = 128  # tokens whose logits are compared
_ANSWER = 64  # most tokens of an answer
_CHARACTERS = 6  # of a token, at most on average
_CALIBRATION = 16384  # tokens of an importance matrix


class QualityError(PhasorError):
    """One line."""


class Row(NamedTuple):
    name: str
    bytes: int
    score: float
    logits: np.ndarray
    windows: list[tuple[float, float]] = []  # of each, log perplexity and mean divergence
    answers: list[agreement.Answer] = []
    own: bool = True


def call(program: Path, *words: object, text: str = "", **options: object) -> str:
    """What the program prints, given `text`; QualityError with its last line when it fails."""
    line = command(program, *words, **options)
    done = subprocess.run(line, input=text, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        nothing = [f"{program}: exit status {done.returncode}"]
        raise QualityError((done.stderr.strip().splitlines() or nothing)[-1])
    return done.stdout


def variants(args: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path]]:
    """(name, file) of each type; a file is there until the next is asked for."""
    path, quiet = folder / "model.phasor", {"threads": args.threads, "quiet": True}
    for kind, output in TYPES:
        if args.types and kind not in ("f32", *args.types.split(",")):
            continue
        both = args.moments and kind in WEIGHED
        for moments, bits in itertools.product(
            (None, args.moments) if both else (None,),
            (None,) if kind in FLOATS else args.inputs.split(","),
        ):
            if bits == "rotated" and kind.startswith("q8r"):  # types of whole rows
                continue
            options = {"type": kind, "output_type": output, "moments": moments, "inputs": bits}
            call(args.phasor, "quantize", args.model, path, **options, **quiet)
            name = kind + (f", output {output}" if output else "")
            name += {"16": ", inputs of 16 bits", "rotated": ", rotated inputs"}.get(bits or "", "")
            yield name + (", moments" if moments else ""), path
    for file in args.files:
        yield file.name, file
    for size in args.sizes.split(",") if args.sizes else ():
        words = ("--text", args.calibration) if args.calibration else ()
        call(args.phasor, "quantize", args.model, path, *words, bytes=size, **quiet)
        yield f"--bytes {size}", path


# ---- A language model


def windows_of(args: argparse.Namespace, path: Path, count: int, spread: bool) -> list[int]:
    """The ids of a text's first windows; spread: of windows that begin all over it, each at the
    start of a line."""
    text, most = read_text(path), args.window * _CHARACTERS
    if not spread:
        return first_ids(args, path, text[: count * most], count * args.window)
    ids = []
    for i in range(count):
        start = (len(text) - most) * i // max(count - 1, 1)
        start = text.rfind("\n", 0, max(start, 0)) + 1
        ids += first_ids(args, path, text[start : start + most], args.window)
    return ids


def first_ids(args: argparse.Namespace, path: Path, text: str, count: int) -> list[int]:
    listed = call(args.phasor, "tokenize", args.model, "--print-ids", "--", text)
    ids = [int(part) for part in listed.strip().split(",")]
    if len(ids) < count:
        raise QualityError(f"{path}: {len(ids)} tokens, expected {count}")
    return ids[:count]


def joined(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def logits_of(args: argparse.Namespace, path: Path, ids: Sequence[int], to: Path) -> np.ndarray:
    """The logits of these ids, (count, vocabulary)."""
    excerpt = {"ids": joined(ids), "n": 1, "logits": to, "threads": args.threads}
    call(args.phasor, "run", path, "--print-ids", "--quiet", **excerpt)
    return np.load(to, mmap_mode="r")[: len(ids)]


def language_row(
    args: argparse.Namespace, name: str, path: Path, ids: list[int], folder: Path
) -> Row:
    scoring = {"ids": "-", "context": args.window, "threads": args.threads}
    words = ("--blocks", "--json", "--quiet")
    scored = call(args.phasor, "score", path, *words, text=joined(ids) + "\n", **scoring)

    def read(some: Sequence[int]) -> np.ndarray:
        return logits_of(args, path, some, folder / "logits.npy")

    logits = np.array(read(ids[:EXCERPT]))
    windows = divergences(args, read, ids, folder) if args.divergence else []
    said: list[agreement.Answer] = []
    if args.prompts:
        prompts = read_text(args.prompts).splitlines()
        said = agreement.answers(call, args.phasor, path, prompts, _ANSWER, args.threads)
    return Row(name, path.stat().st_size, json.loads(scored)["perplexity"], logits, windows, said)


def log_softmax(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def divergences(
    args: argparse.Namespace, read: Reader, ids: list[int], folder: Path
) -> list[tuple[float, float]]:
    """Of each window the log perplexity of its second half, as `phasor score --blocks` has it, and
    the mean divergence of all rows from the first file's, whose logits stay in `folder`."""
    out = []
    for first in range(0, len(ids), args.window):
        window, half, kept = ids[first : first + args.window], args.window // 2, f"{first}.npy"
        got, total, loss = read(window), 0.0, 0.0
        if not (folder / kept).exists():
            np.save(folder / kept, got)
        exact = np.load(folder / kept, mmap_mode="r")
        for at in range(0, args.window, 64):
            rows = slice(at, min(at + 64, args.window))
            p, q = log_softmax(exact[rows]), log_softmax(got[rows])
            total += float((np.exp(p) * (p - q)).sum())
            for row in range(max(at, half), min(rows.stop, args.window - 1)):
                loss -= float(q[row - at, window[row + 1]])
        out.append((loss / (args.window - 1 - half), total / args.window))
    return out


def spread(row: Row, first: Row) -> str:
    """Cells of the divergence, and of the perplexity's share, each with its standard error."""
    loss, divergence = np.array(row.windows).T
    change = loss - np.array(first.windows)[:, 0]
    errors = [float(np.std(x, ddof=1) / np.sqrt(len(x))) for x in (divergence, change)]
    return f" {divergence.mean():.5f} ± {errors[0]:.5f} | ± {errors[1]:.2%} |"


def agreed(row: Row, first: Row) -> str:
    """Cells of the greedy answers."""
    a = agreement.compare(first.answers, row.answers)
    return f" {a.sentences} of {a.count} | {a.whole} | {a.tokens:.0%} | {a.loops} |"


def peers(args: argparse.Namespace, texts: list[list[int]], folder: Path) -> Iterator[Form]:
    """Files of other engines. texts: ids of the calibration text."""
    if args.checkpoint or args.gguf:
        from bench import llama_types

        gguf = args.gguf or folder / "f32.gguf"
        if not args.gguf:
            llama_types.write_gguf(args.checkpoint, gguf)
        kinds = args.llama.split(",") if args.llama else tuple(llama_types.TYPES)
        yield from llama_types.forms(gguf, texts, args.window, args.threads, folder, kinds)
    if args.checkpoint:
        from bench import onnx_types

        yield from onnx_types.forms(args.checkpoint, args.threads, folder)
    if args.checkpoint and args.openvino:
        from bench import openvino_types

        yield from openvino_types.forms(args.checkpoint, texts, args.threads, folder)


def peer_row(args: argparse.Namespace, form: Form, ids: list[int], folder: Path) -> Row:
    read = form.read()
    logits, windows = read(ids[:EXCERPT]), divergences(args, read, ids, folder)
    perplexity = float(np.exp(np.mean([loss for loss, _ in windows])))
    return Row(form.name, form.path.stat().st_size, perplexity, logits, windows, own=False)


def language(args: argparse.Namespace, folder: Path) -> None:
    ids, texts = windows_of(args, args.text, args.windows, args.spread), []
    if args.calibration and (args.gguf or args.checkpoint):
        known = windows_of(args, args.calibration, _CALIBRATION // args.window, False)
        texts = [known[i : i + args.window] for i in range(0, len(known), args.window)]
    print(
        f"Perplexity over {args.windows} windows of {args.window} tokens; logits of the first "
        f"{EXCERPT} tokens beside those of the first row, as a share of each position's range.\n"
    )
    more = " divergence | ± of the share |" if args.divergence else ""
    if args.prompts:
        more += " equal first sentences | equal answers | tokens | loops |"
    print(
        "| | MB | perplexity | beside the first | largest difference of a logit | best token is "
        f"another |{more}\n|---|---:|---:|---:|---:|---:|{'---:|' * more.count('|')}",
        flush=True,
    )
    first: Row | None = None

    def rows() -> Iterator[Row]:
        for name, path in variants(args, folder):
            yield language_row(args, name, path, ids, folder)
        for form in peers(args, texts, folder):
            yield peer_row(args, form, ids, folder)

    for row in rows():
        first = first or row
        losses = [d for _, d in row.windows] or [row.score / first.score - 1]
        args.points.append(Point(row.name, row.bytes, float(np.mean(losses)), losses, row.own))
        share = np.abs(row.logits - first.logits).max(axis=1) / np.ptp(first.logits, axis=1)
        others = int((row.logits.argmax(axis=1) != first.logits.argmax(axis=1)).sum())
        print(
            f"| {row.name} | {row.bytes / 1e6:.4g} | {row.score:.3f} | "
            f"{row.score / first.score - 1:+.2%} | {share.max():.2g} | {others} of {EXCERPT} |"
            + (spread(row, first) if row.windows else "")
            + (agreed(row, first) if row.answers else ""),
            flush=True,
        )


# ---- An encoder of sentences


def is_encoder(args: argparse.Namespace) -> bool:
    shown = json.loads(call(args.phasor, "inspect", args.model, json=True))
    return bool(shown["stack"] == "encoder")


def lines_of(args: argparse.Namespace, text: str) -> list[list[int]]:
    """The ids of each line that is not empty, cut as `phasor embed --truncate` cuts them."""
    text = "\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"
    listed = call(args.phasor, "tokenize", args.model, "--print-ids", text=text)
    described = json.loads(call(args.phasor, "inspect", args.model, json=True))["descriptor"]
    most = described["source.longest_text"]
    every = [[int(part) for part in line.split(",")] for line in listed.splitlines()]
    return [ids if len(ids) <= most else [*ids[: most - 1], ids[-1]] for ids in every]


def sentences(args: argparse.Namespace, folder: Path) -> None:
    every = [line.strip() for line in read_text(args.text).splitlines() if line.strip()]
    if len(every) < args.lines:
        raise QualityError(f"{args.text}: {len(every)} lines, expected {args.lines}")
    text, to = "\n".join(every[: args.lines]) + "\n", folder / "vectors.npy"
    print(
        f"Vectors of {args.lines} lines beside those of the first row.\n\n"
        "| | MB | mean cosine | least cosine | below 0.9995 |\n|---|---:|---:|---:|---:|",
        flush=True,
    )
    first: np.ndarray | None = None

    def rows() -> Iterator[tuple[str, Path, bool, np.ndarray]]:
        for name, path in variants(args, folder):
            given = {"npy": to, "threads": args.threads}
            call(args.phasor, "embed", path, "--truncate", "--quiet", text=text, **given)
            yield name, path, True, np.load(to)
        if args.gguf or args.checkpoint:
            ids, known = lines_of(args, text), []
            if args.calibration:
                known = lines_of(args, read_text(args.calibration))
                tokens = itertools.accumulate(map(len, known))
                known = [line for line, total in zip(known, tokens) if total <= _CALIBRATION]
            for form in peers(args, known, folder):
                read = form.read()
                yield form.name, form.path, False, np.stack([read(line) for line in ids])

    for name, path, own, vectors in rows():
        made = vectors.astype(np.float64)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        first = made if first is None else first
        cosines = (made * first).sum(axis=1)
        loss = float(1 - cosines.mean())
        args.points.append(Point(name, path.stat().st_size, loss, list(1 - cosines), own))
        error = np.std(cosines, ddof=1) / np.sqrt(len(cosines))
        print(
            f"| {name} | {path.stat().st_size / 1e6:.4g} | {cosines.mean():.5f} ± {error:.5f} | "
            f"{cosines.min():.5f} | {(cosines < 0.9995).sum()} of {args.lines} |",
            flush=True,
        )


# ---- A translator


def counted(made: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """What BLEU adds up, of each line: n-grams that match, n-grams, and both lengths."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(effective_order=True)
    each = [metric.sentence_score(line, [right]) for line, right in zip(made, references)]
    return np.array([(*one.counts, *one.totals, one.sys_len, one.ref_len) for one in each])


def bleu(rows: np.ndarray) -> float:
    from sacrebleu.metrics import BLEU

    *grams, ours, theirs = rows.sum(axis=0).tolist()
    return BLEU.compute_bleu(grams[:4], grams[4:], ours, theirs, smooth_method="exp").score


def change(rows: np.ndarray, first: np.ndarray) -> str:
    """The difference from the first row, and its standard error: of 1,000 draws of as many lines,
    the same of both."""
    rng, count = np.random.default_rng(1), len(rows)
    draws = [rng.integers(0, count, count) for _ in range(1000)]
    error = np.std([bleu(rows[draw]) - bleu(first[draw]) for draw in draws], ddof=1)
    return f"{bleu(rows) - bleu(first):+.2f} ± {error:.2f}"


def translation(args: argparse.Namespace, folder: Path) -> None:
    from sacrebleu.metrics import CHRF

    sources, references = read_text(args.sources), read_text(args.references).splitlines()
    print(
        "| | MB | BLEU | beside the first | chrF2 | lines that are others |\n"
        "|---|---:|---:|---:|---:|---:|",
        flush=True,
    )
    first: list[str] = []
    exact: np.ndarray | None = None

    def outputs() -> Iterator[tuple[str, Path, str]]:
        for name, path in variants(args, folder):
            how = {"threads": args.threads}
            yield name, path, call(args.phasor, "run", path, "--quiet", text=sources, **how)
        if args.ctranslate2:
            from bench import ct2_types

            listed = call(args.phasor, "tokenize", args.model, "--print-ids", text=sources)
            ids = [[int(part) for part in line.split(",")] for line in listed.splitlines()]
            for kind, path, made in ct2_types.outputs(args.model, ids, args.threads, folder):
                text = "\n".join(map(joined, made)) + "\n"
                words = ("--decode", "--ids", "-")
                yield (
                    f"CTranslate2 {kind}",
                    path,
                    call(args.phasor, "tokenize", args.model, *words, text=text),
                )

    for name, path, printed in outputs():
        made = printed.split("\n")[: len(references)]
        first, rows = first or made, counted(made, references)
        exact = rows if exact is None else exact
        args.points.append(Point(name, path.stat().st_size, bleu(exact) - bleu(rows)))
        print(
            f"| {name} | {path.stat().st_size / 1e6:.4g} | {bleu(rows):.2f} | "
            f"{change(rows, exact)} | {CHRF().corpus_score(made, [references]).score:.2f} | "
            f"{sum(a != b for a, b in zip(made, first))} of {len(made)} |",
            flush=True,
        )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, help_ in (
        ("model", "The model in f32."),
        ("--text", "Text of a language model, or lines of an encoder."),
        ("--gguf", "The same weights in F32, for llama.cpp."),
        ("--checkpoint", "Their Hugging Face directory, for llama.cpp and ONNX Runtime."),
        ("--sources", "Source lines of a translator."),
        ("--references", "Reference translations of these lines."),
        ("--moments", "Moments from tools/moments.py: also measure q8, q4 and q4t with them."),
    ):
        parser.add_argument(name, type=Path, help=help_)
    parser.add_argument("--types", help="Types beside f32, as q8,q8r. Default: all.")
    parser.add_argument(
        "--spread", action="store_true", help="Windows spread over the text, not its first."
    )
    parser.add_argument("--inputs", default="8", help="Bits of their inputs, as 8,16. Default: 8.")
    parser.add_argument(
        "--ctranslate2", action="store_true", help="Also CTranslate2's types of a translator."
    )
    parser.add_argument("--openvino", action="store_true", help="Also OpenVINO's types.")
    parser.add_argument("--llama", help="llama.cpp's types, as Q4_K_M,IQ4_XS. Default: all.")
    parser.add_argument("--files", type=Path, nargs="+", default=[], help="Files beside them.")
    parser.add_argument(
        "--divergence", action="store_true", help="Also measure the divergence of the logits."
    )
    parser.add_argument(
        "--sizes", help="Also files of `phasor quantize --bytes` of these sizes, as 90M,100M."
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        help="Text of --sizes and of importance matrices, not the one that is scored.",
    )
    parser.add_argument("--picture", type=Path, metavar="FILE", help="Draw losses over sizes.")
    parser.add_argument(
        "--prompts",
        type=Path,
        nargs="?",
        const=agreement.PROMPTS,
        metavar="FILE",
        help="Also compare greedy answers to these lines. Without FILE: to 100 prompts.",
    )
    for name, default in (("windows", 20), ("window", 512), ("lines", 1000), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    program = ROOT / "build" / "phasor"
    parser.add_argument("--phasor", type=Path, default=program, metavar="PATH")
    args = parser.parse_args(argv)
    lines = {args.sources is None, args.references is None}
    if len(lines) != 1 or lines == {args.text is None}:
        parser.error("expected either --text, or --sources and --references")
    args.divergence |= args.gguf is not None or args.checkpoint is not None
    return args


@front_door("quality")
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    work: Callable[[argparse.Namespace, Path], None] = translation
    args.points, what = [], "loss of BLEU"
    if args.text and is_encoder(args):
        work, what = sentences, "1 − mean cosine"
    elif args.text:
        work, what = language, "divergence in nats" if args.divergence else "loss of perplexity"
    with tempfile.TemporaryDirectory() as folder:
        work(args, Path(folder))
    print_beside(args.points)
    if args.picture:
        draw(args.points, what, args.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
