"""A sample of the rows of tokenizers.md: measured anew, each is as the page has it."""

from __future__ import annotations

import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("sentencepiece")
pytest.importorskip("transformers")

import tokenizer_table as table  # noqa: E402
from test_tokenizer import driver  # noqa: E402, F401


def test_the_page_has_every_row():
    lines = table.written()
    assert list(lines) == list(table.TABLE), "run make tokenizers"
    assert sum(line.endswith("| equal |") for line in lines.values()) >= 60
    assert len(table.texts()) >= 2000
    assert len(table.texts()[-1].encode()) > table.MEGABYTE - 4


@pytest.mark.parametrize("name", table.TABLE)
def test_a_row(driver, phasor, name):  # noqa: F811
    line = table.line_of(name, table.measure(table.TABLE[name], driver, phasor))
    assert line == table.written()[name]
