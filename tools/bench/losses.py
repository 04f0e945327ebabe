"""What files lose over their size, for bench.quality: the comparison with other engines' files, and
the picture. The pictures of a page are drawn again from the tables above them:

    PYTHONPATH=tools .venv-bench/bin/python -m bench.losses docs/design/performance-log.md
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

import numpy as np

from phasor.entry import front_door
from phasor.errors import PhasorError
from phasor.files import read_text

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
    "CTranslate2": "^",
}  # of the picture, and their marks
_ENGINES = ("llama.cpp", "ONNX Runtime", "OpenVINO", "CTranslate2")
_PICTURE = re.compile(r"!\[.*\]\((.*size-loss\.svg)\)")
_UNITS = {"kB": 1e3, "MB": 1e6}
_LOSSES: dict[str, tuple[Callable[[float], float], str]] = {
    "divergence": (lambda x: x, "divergence in nats"),
    "mean cosine": (lambda x: 1 - x, "1 − mean cosine"),
    "other lines": (lambda x: x, "lines that are not f32's"),
}  # columns of a table


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


def label(p: Point) -> str:
    """The name of a file beside its mark."""
    engine = series(p).removesuffix(_MATRIX)
    name = p.name.removeprefix(engine).lstrip()
    return name.removesuffix(_MATRIX).removesuffix(_SECOND)


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


_LABEL = 6  # size of the names in the picture, in points
_MARK = np.array([-4, -4, 4, 4])  # room of a mark around its place, in pixels


def _overlap(box: np.ndarray, others: np.ndarray) -> float:
    """The area that a box (left, bottom, right, top) shares with others (N, 4)."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    return float(np.clip(high - low, 0, None).prod(axis=1).sum())


def apart(
    points: np.ndarray, sizes: np.ndarray, taken: np.ndarray, inside: np.ndarray
) -> np.ndarray:
    """Centers (N, 2) of labels of these sizes (N, 2) near their points (N, 2), all in pixels: each
    at the nearest place, of those on rings around its point, that neither the boxes `taken` (M, 4)
    nor a label before it cover. It lies in the box `inside`. Where every place is covered, the one
    with the least."""
    out = np.array(points, np.float64)
    for i, (point, size) in enumerate(zip(points, sizes)):
        best = np.inf
        for ring in range(1, 12):
            for turn in np.arange(1, 17) / 8 * np.pi:  # from up to the right on
                way = np.array([np.cos(turn), np.sin(turn)])
                center = point + way * (size / 2 + 3 * ring)
                label = np.concatenate([center - size / 2, center + size / 2])
                if (label[:2] < inside[:2]).any() or (label[2:] > inside[2:]).any():
                    continue
                area = _overlap(label, taken)
                if area < best:
                    best, out[i] = area, center
            if best == 0:
                break
        taken = np.vstack([taken, [*(out[i] - size / 2), *(out[i] + size / 2)]])
    return out


def draw(points: Sequence[Point], what: str, path: Path) -> None:
    """Loss over size: files as named points, those of --bytes as a line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [p for p in points if p.loss > 0]
    with plt.rc_context({"svg.hashsalt": "phasor", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(8, 6.5), layout="constrained")
        named, drawn = [], []
        for i, (kind, mark) in enumerate(_SERIES.items()):
            own = sorted((p for p in shown if series(p) == kind), key=lambda p: p.bytes)
            if not own:
                continue
            x, y = zip(*((p.bytes / 1e6, p.loss) for p in own))
            drawn += axes.plot(x, y, mark, color=f"C{i}", markersize=4, linewidth=1, label=kind)
            for p in own if not kind.startswith(_CHOSEN) else []:
                named.append(
                    axes.annotate(
                        label(p),
                        (p.bytes / 1e6, p.loss),
                        (0, 0),
                        textcoords="offset points",
                        fontsize=_LABEL,
                        color=f"C{i}",
                        ha="center",
                        va="center",
                        arrowprops={"arrowstyle": "-", "linewidth": 0.3, "color": f"C{i}"},
                    )
                )
        legend = axes.legend(frameon=False)
        axes.set(xlabel="size in MB", ylabel=what, yscale="log")
        axes.spines[["top", "right"]].set_visible(False)
        figure.canvas.draw()
        marks = axes.transData.transform([(p.bytes / 1e6, p.loss) for p in shown])
        solid = [line for line in drawn if line.get_ls() != "None"]
        lines = [line.get_path().transformed(axes.transData) for line in solid]
        taken = [np.tile(marks, 2) + _MARK, legend.get_window_extent().extents[None]]
        taken += [np.tile(line.interpolated(20).vertices, 2) + _MARK / 4 for line in lines]
        texts = [text.get_window_extent() for text in named]
        given = axes.transData.transform([text.xy for text in named])
        sizes = np.array([(text.width + 2, text.height) for text in texts]).reshape(-1, 2)
        places = apart(given, sizes, np.concatenate(taken), axes.get_window_extent().extents)
        for text, at, place in zip(named, given, places):
            text.set_position((place - at) * 72 / figure.dpi)
            far = np.abs(place - at) - (text.get_window_extent().width / 2, _LABEL)
            text.arrow_patch.set_visible(bool(far.max() > _LABEL))
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
        plt.close(figure)


def _number(row: Sequence[str], column: int) -> float:
    """What a cell begins with."""
    cell = row[column] if column < len(row) else ""
    try:
        return float(cell.partition(" ")[0])
    except ValueError:
        raise PhasorError(
            f"row {row[0]}, column {column + 1} (found {cell!r}, expected a number)"
        ) from None


def _table(lines: Sequence[str]) -> tuple[list[Point], str]:
    """The files of a table, and what its loss is: by the first column that is one."""
    if len(lines) < 2:
        raise PhasorError("is not there")
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split("|")] for line in lines)
    column = next((i for i, name in enumerate(head) if name in _LOSSES), None)
    if column is None or len(head) < 2 or head[1] not in _UNITS:
        raise PhasorError(
            f"has no column of losses behind one of sizes (found {', '.join(head)}; expected "
            f"{' or '.join(_UNITS)} as the second, and {' or '.join(_LOSSES)})"
        )
    loss, what = _LOSSES[head[column]]
    points = []
    for row in rows:
        value = loss(_number(row, column))
        own = not row[0].startswith(_ENGINES)
        points.append(Point(row[0], round(_number(row, 1) * _UNITS[head[1]]), value, (), own))
    return points, what


def pictures(page: Path) -> dict[Path, tuple[list[Point], str]]:
    """Of each picture of a page that shows losses over sizes: the files of the last table above it,
    and what their loss is."""
    found, table = {}, list[str]()
    before = ""
    for line in read_text(page).splitlines():
        if line.startswith("|"):
            table = [*table, line] if before.startswith("|") else [line]
        if picture := _PICTURE.fullmatch(line):
            try:
                found[page.parent / picture[1]] = _table(table)
            except PhasorError as error:
                raise PhasorError(f"{page}: the table above {picture[1]}: {error}") from error
        before = line
    return found


@front_door("losses")
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, help="A page of tables and pictures, in Markdown.")
    for path, (points, what) in pictures(parser.parse_args(argv).page).items():
        draw(points, what, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
