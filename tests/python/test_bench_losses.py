"""The picture of losses over sizes: its names do not cover each other, and those of the pages are
drawn from their tables."""

import re
import sys

import numpy as np
import pytest

from places import ROOT

sys.path.insert(0, str(ROOT / "tools"))
from bench.losses import apart, label, main, pictures, series  # noqa: E402


@pytest.mark.parametrize("seed", range(4))
def test_labels_cover_neither_each_other_nor_a_mark(seed):
    """Points in a few heaps, as files of nearly one size are."""
    rng = np.random.default_rng(seed)
    heaps = rng.uniform((150, 150), (650, 450), (6, 2))
    points = (heaps[:, None] + rng.normal(0, 12, (6, 5, 2))).reshape(-1, 2)
    sizes = np.stack([rng.uniform(15, 70, 30), np.full(30, 8.0)], axis=1)
    marks, inside = np.tile(points, 2) + (-4, -4, 4, 4), np.array([0, 0, 800, 600])
    places = apart(points, sizes, marks, inside)
    assert np.array_equal(places, apart(points, sizes, marks, inside))
    low, high = places - sizes / 2, places + sizes / 2
    assert (low >= inside[:2]).all() and (high <= inside[2:]).all()
    others = np.concatenate([marks, np.concatenate([low, high], axis=1)])
    for i in range(30):
        apart_ = (others[:, :2] >= high[i] - 1e-9) | (others[:, 2:] <= low[i] + 1e-9)
        assert apart_.any(axis=1).sum() == len(others) - 1  # all but itself
    assert (np.abs(places - points) < sizes / 2 + 60).all()


def test_a_label_without_room_takes_the_place_that_is_covered_least():
    taken = np.array([[0, 0, 100, 100], [0, 0, 100, 48]])
    places = apart(np.array([[50.0, 50]]), np.array([[20.0, 8]]), taken, taken[0])
    assert places[0, 1] - 4 >= 48


PICTURES = pictures(ROOT / "docs" / "design" / "performance-log.md")


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_of_a_page_names_the_files_of_its_table(path):
    """`python -m bench.losses PAGE` draws it again."""
    points, what = PICTURES[path]
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
    shown = [p for p in points if p.loss > 0]
    named = [label(p) for p in shown if not p.name.startswith("--bytes")]
    marks = [text for text in texts if text in named]
    assert sorted(marks) == sorted(named)
    assert {series(p) for p in shown} <= {*texts} and what in texts


@pytest.mark.parametrize(
    "table, says",
    [
        (
            "| file | MB | loss |\n|---|---:|---:|\n| q8 | 1 | 2 |",
            "has no column of losses behind one of sizes (found file, MB, loss; expected kB or MB "
            "as the second, and divergence or mean cosine or other lines)",
        ),
        ("| file |\n|---|\n| q8 |", "has no column of losses behind one of sizes (found file;"),
        ("| file | GB | divergence |\n|---|---|---|", "(found file, GB, divergence; expected kB"),
        (
            "| file | MB | divergence |\n|---|---|---|\n| q8 | 1 | – |",
            "(found '–', expected a number)",
        ),
        ("| file | MB | divergence |\n|---|---|---|\n| q8 |", "row q8, column 3 (found ''"),
        ("no table", "is not there"),
    ],
)
def test_a_table_without_losses_is_named(table, says, tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"{table}\n\n![x](a-size-loss.svg)\n")
    assert main([str(page)]) == 1
    line = capsys.readouterr().err
    assert line.startswith(f"losses: {page}: the table above a-size-loss.svg: "), line
    assert says in line and line.count("\n") == 1, line


def test_every_model_of_the_comparison_has_a_picture():
    drawn = {path.name.removesuffix("-size-loss.svg") for path in PICTURES}
    assert {"size-loss.svg", "minilm", "smollm2", "decoder", "zh-en"} <= drawn
