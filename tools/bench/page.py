"""performance.md and its charts, of the results in docs/design/measurements: a JSON file for each
machine and day, in which each part has its figures. Of each part the newest counts. A part of
tools/bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Sequence

from bench.common import OURS, Answer, at_threads
from phasor.files import replacing, write_text

_TITLES = {
    "decode": (
        "A 135M Llama",
        "SmolLM2-135M's shape (30 layers, width 576, 9 heads and 3 for keys, vocabulary 49,152), "
        "random weights, the same in every engine: q8 is Q8_0's "
        "rounding, q4 is Q4_0's, q4m is Q4_1's. Decoding: greedy steps after a prompt of 16 "
        "tokens; prefill: 512 tokens read at once.",
    ),
    "inputs": (
        "Inputs of 16 bits",
        "The 135M shape in every quantized type, with inputs of 16 bits "
        "([rule 1.21](../reference/numerics.md#121-inputs-of-16-bits)) beside those of 8 bits; of "
        "types in groups also with rotated ones "
        "([rule 1.29](../reference/numerics.md#129-rotated-groups)).",
    ),
    "15m": (
        "A 15M Llama",
        "stories15M's shape (6 layers, width 288, vocabulary 32,000), the same way.",
    ),
    "limits": (
        "Beside the machine's limits",
        "`phasor bench` on the 135M shape (a prompt of 512, 32 steps) and what the machine was "
        "measured to have in the same minute; and the kernels alone on "
        "a matrix that stays in the cache (512 outputs of 256 inputs; one row and 64), which is "
        "the ceiling of what they can do, conversion and scaling of the groups of 32 included.",
    ),
    "matrix": (
        "Matrix products in f32",
        "rows × outputs × inputs, beside numpy's OpenBLAS and PyTorch's oneDNN, which has its "
        "weights reordered beforehand as ours are.",
    ),
    "q8r": (
        "Sums over whole rows: q8r",
        "The kernel alone (inputs rounded beforehand), rows × outputs × inputs from the cache, "
        "beside the level's raw multiply-adds of int8 on operands in registers, and beside q8; and "
        "a prompt of the 135M shape as q8r, q8rh and q8. Encoders and translators as q8r: their "
        "own sections.",
    ),
    "q4m": (
        "Four bits with a minimum: q4m",
        "Kernels in bytes of weights a second, from the cache (rows × outputs × inputs); and "
        "SmolLM2-135M-Instruct from its published Q4_1 file, converted without a flag, beside "
        "llama.cpp on that file: 48 greedy steps after a prompt of 16 tokens, a prompt of 512, "
        "and the files' sizes.",
    ),
    "levels": (
        "Four bits with a minimum at lower levels",
        "The same published file, inputs of 16 bits, at two of Phasor's levels, each beside a "
        "llama.cpp whose CPU backend was built for the same instructions "
        "(`tools/bench/llama_cpp_levels.sh`): 48 greedy steps after a prompt of 16 tokens, and a "
        "prompt of 512.",
    ),
    "codes": (
        "Two bits and one: q2, q1 and q2r",
        "Six layers of the shapes of BitNet 2B (2560 wide, 6912 hidden) and of Bonsai 1.7B (2048, "
        "6144) with a vocabulary of 32,000, random weights, tied, beside llama.cpp on the same "
        "weights as TQ2_0, Q1_0 and TQ2_0: 24 greedy steps after a prompt of 16 tokens, and a "
        "prompt of 128. The aims are twice llama.cpp, and 0.8 of the machine's reads or of its "
        "products of int8 in bytes of such weights, whichever is less.",
    ),
    "lfm2": (
        "Short convolutions: LFM2-350M's shape",
        "Random weights, tied, as Q4_0 and Q8_0; ours is the GGUF file converted, without loss: 32 "
        "greedy steps after a prompt of 16 tokens, and a prompt of 128.",
    ),
    "translator": (
        "Translators",
        "A translator of width 512, 6 + 6 layers, vocabulary 32,000, random weights (32 sources of "
        "8 to 40 tokens, 24 new tokens each), and the shipped one on 32 sentences of "
        "`tools/bench/sentences.txt`; the same weights and source tokens, end tokens not allowed. "
        "What each figure means: `tools/bench/translator.py`.",
    ),
    "translators": (
        "Translators, more sentences",
        "The shipped translator, and random weights of width 512 with 6 + 6 layers and of width "
        "1024 with 12 + 12 (heads of 64, feed-forward 4 times as wide, vocabulary 32,000; sources "
        "of 8 to 40 tokens, 24 new tokens each); the same weights and source tokens, end tokens "
        "not allowed. What each figure means: `tools/bench/translator.py`.",
    ),
    "encoder": (
        "A sentence encoder",
        "all-MiniLM-L6-v2, sentences of 64 tokens, one at a time and 32 together; mean pooling "
        "included. More lengths: `make bench-encoder`.",
    ),
    "lengths": (
        "A sentence encoder in more lengths",
        "all-MiniLM-L6-v2, pooled and normalized vectors, sentences of equal length. What each "
        "figure means: `tools/bench/encoder.py`.",
    ),
    "positions": (
        "Position encodings",
        "Random encoders that differ in their position encoding alone, one sentence at a time. "
        "`Phasor` is the one without positions.",
    ),
    "conversion": (
        "Conversion",
        "A Hugging Face directory to int8 with one thread, `--proof short`, beside CTranslate2's "
        "converter. What each figure means: `tools/bench/conversion.py`.",
    ),
    "tokenizer": (
        "Tokenizers",
        "Vocabularies of 6,000 trained on the first half of a text, and the other half's lines to "
        "ids and back, one at a time with one thread. What each figure means: "
        "`tools/bench/tokenizer.py`.",
    ),
    "python": (
        "Python",
        "`stream` and `encode` from Python beside `phasor run` and `phasor embed`: the same bits, "
        "one thread; and the time of the import. What each figure means: "
        "`tools/bench/python.py`.",
    ),
    "server": (
        "Server",
        "`python -m phasor.serve`, one thread, beside llama-cpp-python's server on the same Q4_1 "
        "file: completions of 32 tokens. What each figure means: `tools/bench/server.py`.",
    ),
    "step": (
        "A small model's step",
        "One token through a model that stays in the cache, beside its matrix products alone on "
        "the same weights: what is not arithmetic.",
    ),
    "start": (
        "Start",
        "Milliseconds from starting `phasor run` to its first token; of the peers from the call "
        "that loads the model to the first token, the start of Python and its imports left out.",
    ),
    "footprint": (
        "Footprint",
        "Sizes of static, stripped programs, of the code and constants of each room, and resident "
        "memory beside the file and the arena.",
    ),
    "growth": (
        "Growth",
        "The 135M shape as q8: steps at a context, prompts of a length, sequences that take their "
        "step together, and steps of models of several sizes.",
    ),
}
_LESS_IS_BETTER = {"ms", "s", "MiB", "MB", "kB", "µs", "ns", "cycles"}


_LOG = (
    "What was tried, what helped, why rows fall short, and what was aimed at for the newer types "
    "and levels, on other machines too: [performance-log.md](performance-log.md)."
)
_WITHDRAWN = (
    "Rows beside other engines from before 2026-11-25 are withdrawn. The harness then held two "
    "of a peer's models in one process and let idle engines spin, which cost a peer up to ten "
    "times its speed at two threads. A row is back when it is measured again."
)


def number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:,.1f}" if abs(x) >= 10 else f"{x:.2f}"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _distinct(cases: Sequence[Answer], field: str) -> list:
    """The values of a field, in the order in which they come."""
    return list(dict.fromkeys(c[field] for c in cases))


def _figure(case: Answer) -> str:
    """The median; of a peer that was faster with fewer threads, with how many."""
    own = case.get("settings", "").split(",")[0]
    fewer = own and own != at_threads(case.get("threads", 1))
    return number(case["median"]) + (f" ({own})" if fewer else "")


def settings(cases: Sequence[Answer]) -> list[str]:
    """For each peer its fastest settings, and what was measured with them."""
    found: dict[tuple[str, str], list[str]] = {}
    for c in cases:
        if "settings" in c:
            where = " ".join(str(c[k]) for k in ("what", "at", "type") if k in c)
            label = f"{where} at {at_threads(c['threads'])}"
            found.setdefault((c["engine"], c["settings"]), []).append(label)
    return [f"{engine}, {said}: {'; '.join(rows)}" for (engine, said), rows in found.items()]


# Why a ratio above 4 is what it is: (part, what, peer, type or ""): a reason that was checked
# beside the peer's own benchmark or example. Without one the page says so.
EXPLAINED: dict[tuple[str, str, str, str], str] = {
    ("encoder", "peak memory", "ONNX Runtime", ""): (
        "its process is Python: 44 MiB with numpy and onnxruntime imported, 90 with a session of "
        "the file, 130 after 32 sentences, in a plain `InferenceSession.run` as its documentation "
        "has it, without this harness"
    ),
    ("footprint", "resident", "llama.cpp", ""): (
        "it packs the weights once more for the processor: 173 MB beyond the file and its Python "
        "on a Xeon with AMX, in a plain `Llama(...).eval` of 16 tokens"
    ),
    ("footprint", "resident", "CTranslate2", ""): (
        "a plain `Generator` holds 41 MB beyond the file and its Python when it is loaded, 81 "
        "after `generate_batch` of 8 tokens"
    ),
    **{
        ("server", what, "llama-cpp-python", ""): (
            "it answers one request after the other; phasor.serve computes those of all clients in "
            "the same steps"
        )
        for what in ("requests", "an answer")
    },
}
_LARGE = 4


def large(result: Answer) -> list[str]:
    """A line for each figure that is more than four times a peer's."""
    out = []
    ours = {_key(c): c for c in result["cases"] if c["engine"] == OURS}
    for c in result["cases"]:
        own = ours.get(_key(c))
        if c["engine"].startswith(OURS) or own is None or not c["median"] or not own["median"]:
            continue
        ratio = own["median"] / c["median"]
        if (1 / ratio if own["unit"] in _LESS_IS_BETTER else ratio) <= _LARGE:
            continue
        of = (result["name"], c["what"], c["engine"])
        why = EXPLAINED.get((*of, c["type"])) or EXPLAINED.get((*of, ""))
        where = ", ".join(map(str, filter(None, _key(c)[:4])))
        out.append(f"{where}, {ratio:.2f} × {c['engine']}: {why or '**not explained yet**'}")
    return out


_KEY = ("what", "at", "type", "threads", "unit")


def _key(case: Answer) -> tuple:
    return tuple(case.get(word) or "" for word in _KEY)


def table(cases: Sequence[Answer]) -> list[str]:
    """A line for each case, a column for each engine, and how many times as good as each peer
    Phasor is."""
    engines = _distinct(cases, "engine")
    peers = [e for e in engines if not e.startswith(OURS)]
    has_at = any("at" in c for c in cases)
    words = tuple(word for word in _KEY if word != "at" or has_at)
    lines: dict[tuple, dict[str, Answer]] = {}
    for c in cases:
        key = tuple(c.get(word) or "" for word in words)
        lines.setdefault(key, {})[c["engine"]] = c

    def ratio(line: dict[str, Answer], peer: str) -> str:
        ours, theirs = (line.get(engine, {}).get("median") for engine in (OURS, peer))
        if ours is None or theirs is None:
            return ""
        less = line[OURS]["unit"] in _LESS_IS_BETTER
        over, under = (theirs, ours) if less else (ours, theirs)
        return f"**{(over / under if under else 0.0):.2f}**"

    right = "---:|" * (len(engines) + len(peers) + 1)
    out = [
        _row(*words, *engines, *(f"× {p}" for p in peers), "spread"),
        "|" + "---|" * (len(words) - 2) + "---:|---|" + right,
    ]
    for key, line in lines.items():
        medians = [_figure(line[e]) if e in line else "" for e in engines]
        widest = f"{max(c['spread'] for c in line.values()) * 100:.0f} %"
        out.append(_row(*key, *medians, *(ratio(line, p) for p in peers), widest))
    return out


def aims(result: Answer) -> list[str]:
    out = []
    for a in result.get("aims", []):
        ratio, least, most = a["ratio"], a["least"], a["kind"] == "most"
        good = ratio <= least if most else ratio >= least
        short = f"**{'over' if most else 'short'} by {abs(ratio / least - 1) * 100:.0f} %**"
        bound = f"at {'most' if most else 'least'} {least:g} ×"
        figures = (number(a["ours"]), number(a["theirs"]), f"{ratio:.2f} ×", bound)
        out.append(_row(a["claim"], a["against"], *figures, "met" if good else short))
    return out


_AIM_HEAD = [
    "| work | against | Phasor | theirs | ratio | aimed at | |",
    "|---|---|---:|---:|---:|---|---|",
]


def section(result: Answer) -> list[str]:
    title, text = _TITLES.get(result["name"], (result["name"], ""))
    facts = [
        f"{result['date']}, {result['seconds']:.0f} s, commit {result['commit']}, load "
        f"{result['load'][0]:.1f} before and {result['load'][1]:.1f} after; {result['machine']}"
    ]
    if result["load"][0] > 1:
        facts.append(
            f"**the machine was busy** (load {result['load'][0]:.1f} before the first run): "
            "measure again on an idle one"
        )
    facts += settings(result["cases"]) + large(result)
    for are_tokens in (False, True):
        about = [k for k in result["facts"] if k.startswith("equal tokens") == are_tokens]
        facts += ["; ".join(f"{k}: {result['facts'][k]}" for k in about)] if about else []
    more = aims(result)
    return [
        f"## {title}",
        "",
        text,
        "",
        *([*_AIM_HEAD, *more, ""] if more else []),
        *table(result["cases"]),
        "",
        *(f"- {f}" for f in facts),
        "",
    ]


_GROWTH = {  # what grows, and the name of its axis
    "context": "tokens in the context",
    "prompt": "tokens of the prompt",
    "batch": "sequences together",
}


def _charts(folder: Path, parts: dict[str, Answer]) -> dict[str, list[str]]:
    """Pictures beside the page; the lines that show them, by part. None without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return {}
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "phasor",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    out: dict[str, list[str]] = {}

    def picture(part: str, text: str, groups: dict[str, list[Answer]], draw: Any) -> None:
        """An axis for each group of cases, filled by `draw`."""
        if not groups:
            return
        name = f"performance-{part}.svg"
        size = (3.2 * len(groups), 2.7)
        figure, axes = plt.subplots(1, len(groups), figsize=size, squeeze=False)
        for ax, (title, cases) in zip(axes[0], groups.items()):
            draw(ax, title, cases)
        axes[0][0].set_ylabel("tokens/s")
        axes[0][-1].legend(frameon=False, fontsize=7)
        with replacing(folder / name) as file:
            figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
        out[part] = [f"![{text}]({name})", ""]

    def lines(ax: Any, title: str, cases: list[Answer]) -> None:
        for engine in _distinct(cases, "engine"):
            points = sorted((c["at"], c["median"]) for c in cases if c["engine"] == engine)
            ax.plot(*zip(*points), marker="o", markersize=3, label=engine)
        ax.set_xscale("log", base=2)
        ax.set_ylim(bottom=0)
        ax.set_xlabel(title)
        ax.legend(frameon=False, fontsize=7)

    def bars(ax: Any, title: str, cases: list[Answer]) -> None:
        kinds, engines = _distinct(cases, "type"), _distinct(cases, "engine")
        for i, engine in enumerate(engines):
            own = {kinds.index(c["type"]): c["median"] for c in cases if c["engine"] == engine}
            at = [k + 0.8 * i / len(engines) for k in own]
            ax.bar(at, own.values(), width=0.75 / len(engines), label=engine)
        ax.set_xticks([k + 0.3 for k in range(len(kinds))], kinds)
        ax.set_title(title, fontsize=9)

    def cases_of(part: str) -> list[Answer]:
        return [c for c in parts.get(part, {}).get("cases", []) if c["unit"] == "tokens/s"]

    grown = {w: [c for c in cases_of("growth") if c["what"] == w] for w in _GROWTH}
    picture(
        "growth",
        "Tokens a second with the context, the prompt's length and the number of sequences",
        {_GROWTH[what]: cases for what, cases in grown.items() if cases},
        lines,
    )
    for part in ("decode", "15m"):
        groups: dict[str, list[Answer]] = {}
        for c in cases_of(part):
            groups.setdefault(f"{c['what']}, {at_threads(c['threads'])}", []).append(c)
        picture(part, "Tokens a second by type", groups, bars)
    return out


def newest(folder: Path) -> dict[str, Answer]:
    """Of each part the newest of all machines and days."""
    parts: dict[str, Answer] = {}
    for path in folder.glob("*.json"):
        for name, part in json.loads(path.read_text(encoding="utf-8")).items():
            if name not in parts or parts[name]["date"] < part["date"]:
                parts[name] = part
    return parts


def write(path: Path, results: Path, alone: Sequence[str] = ()) -> None:
    """The page of all results; of those named in `alone`, without the link to what is written by
    hand. What was aimed at stands together, but for parts that another machine measured."""
    parts = newest(results)
    order = [*(n for n in _TITLES if n in parts), *(n for n in parts if n not in _TITLES)]
    order = [
        name for name in order if (name in alone if alone else name not in ("lengths", "positions"))
    ]
    if not order:
        raise SystemExit(f"{results}: no results yet")
    first = parts[order[0]]
    lines = [
        "# Performance",
        "",
        "Written by `make bench` (`tools/bench`); one part of it again: `make bench ROWS=decode`. "
        "Same model, same tokens, the engines asked in turns on the same "
        "machine, a process for each model, one awake at a time; a peer has its best "
        "settings at no more than the row's threads, named below the table; a figure is the "
        "median, a ratio above 1 is in Phasor's favor, spread is the "
        "largest less the smallest as a share of the median, the widest of the line.",
        "",
        f"Machine: {first['machine']}; {first['compiler']}; Python {first['python']}.",
        "",
    ]
    if not alone:
        lines += [_LOG, "", _WITHDRAWN, ""]
    together = [name for name in order if parts[name]["machine"] == first["machine"]]
    all_aims = [line for name in together for line in aims(parts[name])]
    if all_aims:
        lines += ["## What was aimed at", "", *_AIM_HEAD, *all_aims, ""]
    pictures = _charts(path.parent, {name: parts[name] for name in order})
    for name in order:
        part = {**parts[name], "aims": []} if name in together else parts[name]
        lines += section(part) + pictures.get(name, [])
    write_text(path, "\n".join(lines))
