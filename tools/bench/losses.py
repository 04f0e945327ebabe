"""What files lose over their size, for bench.quality: the comparison with other engines' files, and
the picture."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np


_CHOSEN, _SECOND = "phasor quantize --bytes", ", second moments"
_MATRIX = ", importance matrix"
_SERIES = {
    "Phasor": "s",
    f"Phasor{_SECOND}": "P",
    _CHOSEN: "o:",
    f"{_CHOSEN}{_SECOND}": "o-",
    "llama.cpp": "^",
    f"llama.cpp{_MATRIX}": "v",
    "ONNX Runtime": "D",
    "OpenVINO": "p",
}  # of the picture, and their marks
_ENGINES = ("llama.cpp", "ONNX Runtime", "OpenVINO")


class Point(NamedTuple):
    """A file in the picture."""

    name: str
    bytes: int
    loss: float
    losses: Sequence[float] = ()  # of each window or line
    own: bool = True


def series(p: Point) -> str:
    """Which of the picture's a file belongs to."""
    if p.own:
        chosen = _CHOSEN if p.name.startswith("--bytes") else "Phasor"
        return chosen + _SECOND if p.name.endswith(_SECOND) else chosen
    engine = next(e for e in _ENGINES if p.name.startswith(e))
    return engine + _MATRIX if p.name.endswith(_MATRIX) else engine


def print_beside(points: Sequence[Point]) -> None:
    """Of each other engine's file: the best of ours that is no larger."""
    if all(p.own for p in points):
        return
    print(
        "\nBeside each file of another engine, the best of ours that is no larger; the difference "
        "of their losses, and the standard error of its mean.\n\n"
        "| file | MB | loss | ours | MB | loss | difference |\n|---|---:|---:|---|---:|---:|---:|"
    )
    for p in points:
        smaller = [q for q in points if q.own and q.bytes <= p.bytes]
        if p.own or not smaller:
            continue
        q = min(smaller, key=lambda q: q.loss)
        apart = np.array(p.losses) - np.array(q.losses)
        error = np.std(apart, ddof=1) / np.sqrt(len(apart))
        print(
            f"| {p.name} | {p.bytes / 1e6:.4g} | {p.loss:.5f} | {q.name} | {q.bytes / 1e6:.4g} | "
            f"{q.loss:.5f} | {apart.mean():+.5f} ± {error:.5f} |"
        )


def draw(points: Sequence[Point], what: str, path: Path) -> None:
    """Loss over size: files as named points, those of --bytes as a line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [p for p in points if p.loss > 0]
    with plt.rc_context({"svg.hashsalt": "phasor", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
        for i, (label, mark) in enumerate(_SERIES.items()):
            own = sorted((p for p in shown if series(p) == label), key=lambda p: p.bytes)
            if not own:
                continue
            x, y = zip(*((p.bytes / 1e6, p.loss) for p in own))
            axes.plot(x, y, mark, color=f"C{i}", markersize=4, linewidth=1, label=label)
            for p in own if not label.startswith(_CHOSEN) else []:
                name = p.name.removeprefix(label.removesuffix(_MATRIX)).lstrip()
                name = name.removesuffix(_MATRIX).removesuffix(_SECOND)
                place = (p.bytes / 1e6, p.loss)
                axes.annotate(
                    name, place, (3, 3), textcoords="offset points", fontsize=6, color=f"C{i}"
                )
        axes.legend(frameon=False)
        axes.set(xlabel="size in MB", ylabel=what, yscale="log")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
        plt.close(figure)
