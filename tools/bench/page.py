"""docs/performance.md and its charts, of the results in build/bench/results. A part of
tools/bench."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.common import OURS, spread
from phasor.files import replacing, write_text

_TITLES = {
    "decode": (
        "A 135M Llama",
        "SmolLM2-135M's shape (30 layers, width 576, 9 heads and 3 for keys, vocabulary 49,152), "
        "random weights, the same in every engine: q8 is Q8_0's "
        "rounding, q4 is Q4_0's. Decoding: greedy steps after a prompt of 16 tokens; prefill: 512 "
        "tokens read at once.",
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
    "translator": (
        "Translators",
        "A translator of width 512, 6 + 6 layers, vocabulary 32,000, random weights (32 sources of "
        "8 to 40 tokens, 24 new tokens each), and the shipped one on 32 sentences of "
        "`tools/bench/sentences.txt`; the same weights and source tokens, end tokens not allowed. "
        "What each figure means: `tools/bench/translator.py`.",
    ),
    "encoder": (
        "A sentence encoder",
        "all-MiniLM-L6-v2, sentences of 64 tokens, one at a time and 32 together; mean pooling "
        "included. More lengths: [performance-encoder.md](performance-encoder.md).",
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
_WHERE = ("what", "type", "threads", "at")
_LESS_IS_BETTER = {"ms", "s", "MiB", "MB", "kB", "µs", "ns", "cycles"}


def number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:,.1f}" if abs(x) >= 10 else f"{x:.2f}"


def _key(case: dict[str, Any]) -> tuple:
    return tuple(case.get(k) for k in _WHERE) + (case["unit"],)


def table(cases: list[dict[str, Any]]) -> list[str]:
    """A line for each case, a column for each engine, and how many times as good as each peer
    Phasor is."""
    engines = list(dict.fromkeys(c["engine"] for c in cases))
    peers = [e for e in engines if not e.startswith(OURS)]
    by: dict[tuple, dict[str, dict]] = {}
    for c in cases:
        by.setdefault(_key(c), {})[c["engine"]] = c
    has_at = any(c.get("at") is not None for c in cases)
    head = [
        "what",
        *(["at"] if has_at else []),
        "type",
        "threads",
        "unit",
        *engines,
        *(f"× {p}" for p in peers),
        "spread",
    ]
    out = [
        "| " + " | ".join(head) + " |",
        "|---" * 2
        + ("|---" if has_at else "")
        + "|---:|---"
        + "|---:" * (len(engines) + len(peers) + 1)
        + "|",
    ]
    for (what, type_, threads, at, unit), row in by.items():
        own = row.get(OURS)
        ratios = []
        for p in peers:
            if own is None or p not in row:
                ratios.append("")
                continue
            ratio = own["median"] / row[p]["median"] if row[p]["median"] else 0.0
            ratios.append(f"**{(1 / ratio if unit in _LESS_IS_BETTER and ratio else ratio):.2f}**")
        cells = [
            what,
            *([str(at) if at is not None else ""] if has_at else []),
            type_ or "",
            str(threads or ""),
            unit,
            *(number(row[e]["median"]) if e in row else "" for e in engines),
            *ratios,
            f"{max(spread(c['values']) for c in row.values()) * 100:.0f} %",
        ]
        out.append("| " + " | ".join(cells) + " |")
    return out


def aims(result: dict[str, Any]) -> list[str]:
    out = []
    for a in result.get("aims", []):
        most = a["kind"] == "most"
        good = a["ratio"] <= a["least"] if most else a["ratio"] >= a["least"]
        verdict = (
            "met"
            if good
            else (
                f"**{'over' if most else 'short'} by {abs(a['ratio'] / a['least'] - 1) * 100:.0f} "
                "%**"
            )
        )
        out.append(
            f"| {a['claim']} | {a['against']} | {number(a['ours'])} | {number(a['theirs'])} | "
            f"{a['ratio']:.2f} × | at {'most' if most else 'least'} {a['least']:g} × | {verdict} |"
        )
    return out


_AIM_HEAD = [
    "| work | against | Phasor | theirs | ratio | aimed at | |",
    "|---|---|---:|---:|---:|---|---|",
]


def section(result: dict[str, Any]) -> list[str]:
    title, text = _TITLES.get(result["name"], (result["name"], ""))
    facts = [
        f"{result['date']}, {result['seconds']:.0f} s, commit {result['commit']}, load "
        f"{result['load'][0]:.1f} before and {result['load'][1]:.1f} after"
    ]
    if result["load"][0] > 1:
        facts.append(
            f"**the machine was busy** (load {result['load'][0]:.1f} before the first run): "
            "measure again on an idle one"
        )
    versions = [f"{k}: {v}" for k, v in result["facts"].items() if not k.startswith("equal tokens")]
    tokens = [f"{k}: {v}" for k, v in result["facts"].items() if k.startswith("equal tokens")]
    facts += ["; ".join(versions)] if versions else []
    facts += ["; ".join(tokens)] if tokens else []
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


def _charts(folder: Path, parts: dict[str, dict]) -> dict[str, list[str]]:
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

    def save(figure: Any, part: str, name: str, text: str) -> None:
        with replacing(folder / name) as file:
            figure.savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")
        plt.close(figure)
        out.setdefault(part, []).extend([f"![{text}]({name})", ""])

    growth = parts.get("growth", {}).get("cases", [])
    wanted = [w for w in ("context", "prompt", "batch") if any(c["what"] == w for c in growth)]
    if wanted:
        figure, axes = plt.subplots(1, len(wanted), figsize=(3.4 * len(wanted), 2.8), squeeze=False)
        for ax, what in zip(axes[0], wanted):
            for engine in dict.fromkeys(c["engine"] for c in growth if c["what"] == what):
                points = sorted(
                    (c["at"], c["median"])
                    for c in growth
                    if c["what"] == what and c["engine"] == engine
                )
                ax.plot(*zip(*points), marker="o", markersize=3, label=engine)
            ax.set_xscale("log", base=2)
            ax.set_ylim(bottom=0)
            ax.set_xlabel(
                {
                    "context": "tokens in the context",
                    "prompt": "tokens of the prompt",
                    "batch": "sequences together",
                }[what]
            )
            ax.legend(frameon=False, fontsize=7)
        axes[0][0].set_ylabel("tokens/s")
        save(
            figure,
            "growth",
            "performance-growth.svg",
            "Tokens a second with the context, the prompt's length and the number of sequences",
        )
    for part, name in (("decode", "performance-decode.svg"), ("15m", "performance-15m.svg")):
        cases = [c for c in parts.get(part, {}).get("cases", []) if c["unit"] == "tokens/s"]
        groups = list(dict.fromkeys((c["what"], c["threads"]) for c in cases))
        if not groups:
            continue
        figure, axes = plt.subplots(1, len(groups), figsize=(3.0 * len(groups), 2.6), squeeze=False)
        for ax, (what, threads) in zip(axes[0], groups):
            chosen = [c for c in cases if (c["what"], c["threads"]) == (what, threads)]
            kinds, engines = (list(dict.fromkeys(c[k] for c in chosen)) for k in ("type", "engine"))
            for i, engine in enumerate(engines):
                bars = [
                    (kinds.index(c["type"]) + 0.8 * i / len(engines), c["median"])
                    for c in chosen
                    if c["engine"] == engine
                ]
                ax.bar(
                    [x for x, _ in bars],
                    [y for _, y in bars],
                    width=0.75 / len(engines),
                    label=engine,
                )
            ax.set_xticks([k + 0.3 for k in range(len(kinds))], kinds)
            ax.set_title(f"{what}, {threads} thread{'s' * (threads > 1)}", fontsize=9)
        axes[0][0].set_ylabel("tokens/s")
        axes[0][-1].legend(frameon=False, fontsize=7)
        save(figure, part, name, "Tokens a second by type")
    return out


def write(path: Path, results: Path, log: Path) -> None:
    parts = {
        p.stem: json.loads(p.read_text(encoding="utf-8")) for p in sorted(results.glob("*.json"))
    }
    order = [*(n for n in _TITLES if n in parts), *(n for n in parts if n not in _TITLES)]
    if not order:
        raise SystemExit(f"{results}: no results yet")
    first = parts[order[0]]
    lines = [
        "# Performance",
        "",
        "Written by `make bench` (`tools/bench`); one part of it again: `make bench ROWS=decode`. "
        "Same model, same tokens, the engines asked in turns on the same "
        "machine; a figure is the median, a ratio above 1 is in Phasor's favour, spread is the "
        "largest less the smallest as a share of the median, the widest of the line.",
        "",
        f"Machine: {first['machine']}; {first['compiler']}; Python {first['python']}.",
        "",
    ]
    all_aims = [line for name in order for line in aims(parts[name])]
    if all_aims:
        lines += ["## What was aimed at", "", *_AIM_HEAD, *all_aims, ""]
    pictures = _charts(path.parent, parts)
    for name in order:
        lines += section({**parts[name], "aims": []}) + pictures.get(name, [])
    if log.exists():
        lines += [
            "## What was tried and did not help",
            "",
            log.read_text(encoding="utf-8").split("\n", 2)[2].strip(),
            "",
        ]
    write_text(path, "\n".join(lines))
