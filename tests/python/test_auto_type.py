"""--type q8r-auto: what is measured, what is chosen and said, and that the file is the one that the
chosen flags make."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import test_gguf
import test_smoothing

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))

import make_models as M

from conversions import contents
from phasor import auto_type, convert
from phasor.auto_type import FORMS, Form
from phasor.errors import PhasorError
from phasor.families.model import Model
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile

Q8 = Form(L.Q8, False)


def measured(*values: float) -> dict[Form, float]:
    return dict(zip((*FORMS, Q8), values))


@pytest.mark.parametrize(
    "values, taken",
    [
        ((4.0, 3.0, 2.0, 1.0, 4.0), 0),  # no worse than q8
        ((4.1, 3.0, 2.0, 1.0, 4.0), 1),
        ((1.25, 3.0, 2.0, 1.0, 0.5), 0),  # within a quarter of the best
        ((1.26, 3.0, 2.0, 1.0, 0.5), 3),
        ((9.0, 1.2, 1.0, 1.1, 0.5), 1),
        ((np.inf, np.inf, 1.0, 0.9, 0.5), 2),
    ],
)
def test_the_simplest_form_that_is_good_enough(values: tuple[float, ...], taken: int) -> None:
    assert auto_type.choose(measured(*values), Q8) == FORMS[taken]


def test_no_form_that_is_finite() -> None:
    with pytest.raises(PhasorError, match="every form of q8r computes values that are not finite"):
        auto_type.choose(measured(*[np.inf] * 4, 1.0), Q8)


def test_the_lines_say_why_and_recommend_q8_where_it_stays_better() -> None:
    found = measured(0.036, 0.022, 0.0056, 0.006, 0.0038)
    lines = auto_type.reasons(found, FORMS[2], Q8, 50, "the ids of the test vectors")
    assert lines == [
        "q8r-auto: differences from the exact weights over 50 rows of the ids of the test vectors: "
        "q8r 0.036, q8r, smoothing 0.022, q8rh 0.0056, q8rh, smoothing 0.006, q8 0.0038",
        "q8r-auto: q8rh: the simplest form that is within 25% of the best one",
        "q8r-auto: q8 stays better, 1.5 times as near: prefer --type q8 unless many rows at once "
        "are what matters (encoders, batches, long prompts)",
    ]
    lines = auto_type.reasons(measured(1, 2, 3, 4, 1), FORMS[0], Q8, 50, "t.txt")
    assert len(lines) == 2 and lines[1].endswith("q8r: the simplest form that is no worse than q8")
    assert len(auto_type.reasons(measured(5, 4, 3, 1.25, 1), FORMS[3], Q8, 50, "t.txt")) == 2


def test_the_differences_are_divergences_and_cosines() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 7, 11))
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (a, b))
    for output in (D.LOGITS, D.CLASSES):
        got = auto_type.difference(a, b, output)
        assert np.isclose(got, (p * np.log(p / q)).sum(axis=1).mean(), rtol=1e-12)
    cosines = [x @ y / np.sqrt(x @ x * (y @ y)) for x, y in zip(a, b)]
    assert np.isclose(auto_type.difference(a, b, D.POOLED), 1 - np.mean(cosines), rtol=1e-12)
    assert auto_type.difference(a, 3 * a, D.HIDDEN) < 1e-12
    b[3, 2] = np.nan
    assert auto_type.difference(a, b, D.LOGITS) == np.inf


def test_channels_that_are_large_are_met() -> None:
    """Two channels of each norm fifty times as large: by their scale q8r loses, and both remedies
    bring it back."""
    name = "tiny-modernbert"
    descriptor = D.with_defaults(M.MODELS[name][0]())
    values = test_smoothing.with_outliers(name, descriptor)
    model = Model(descriptor, None, values={slot.key: values(slot) for slot in R.slots(descriptor)})
    picked = auto_type.pick(model, {}, None)
    plain, smooth, rotated, both, q8 = picked.found.values()
    assert max(smooth, both, q8) < plain / 4 and rotated < plain  # blocks of 4 here
    assert picked.smoothed is not None


def small(folder: Path, name: str, *more: str) -> Path:
    """A small GGUF with a tokenizer, converted."""
    (folder / "small.gguf").write_bytes(test_gguf.changed(**test_gguf.vocabulary()))
    made = folder / name
    assert convert.main([str(folder / "small.gguf"), "-o", str(made), *more]) == 0
    return made


def test_the_file_is_what_the_chosen_flags_make(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    for more in ((), ("--output-type", "q8")):
        auto = small(tmp_path, "auto.phasor", "--type", "q8r-auto", *more)
        said = capsys.readouterr().err
        chosen = next(form for form in FORMS if f"q8r-auto: {auto_type._name(form)}: the" in said)
        flags = ("--type", L.TYPES[chosen.kind], *more, *["--smooth"] * chosen.smooth)
        assert contents(auto) == contents(small(tmp_path, "same.phasor", *flags))
        again = small(tmp_path, "again.phasor", "--type", "q8r-auto", *more)
        assert contents(auto) == contents(again)
        capsys.readouterr()
    file = PhasorFile(auto)
    assert file.entries[R.TARGET << 24 | R.EMBEDDING].type == L.Q8


@pytest.mark.parametrize("kind", ["q8r", "q8rh", "q8r-auto"])
def test_q8r_alone_says_what_else_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture, kind: str
) -> None:
    small(tmp_path, "made.phasor", "--type", kind)
    hint = "--type q8rh rotates them, q8r-auto measures and chooses"
    assert (hint in capsys.readouterr().err) == (kind == "q8r")


def test_a_text_is_read_with_the_models_tokenizer(
    tmp_path: Path, phasor: Path, capsys: pytest.CaptureFixture
) -> None:
    words = tmp_path / "words.txt"
    words.write_text('"!#$%&<a>!!\n' * 100)
    flags = ("--type", "q8r-auto", "--calibration", str(words), "--phasor", str(phasor))
    made = small(tmp_path, "a.phasor", *flags)
    assert f"over 512 rows of {words}: " in capsys.readouterr().err
    assert contents(made) == contents(small(tmp_path, "b.phasor", *flags))


def refusal(folder: Path, capsys: pytest.CaptureFixture, *more: str) -> str:
    """The one line that a conversion is refused with; it leaves nothing."""
    capsys.readouterr()
    try:
        status = convert.main([str(folder / "small.gguf"), "-o", str(folder / "no"), *more])
    except SystemExit as error:
        status = error.code
    assert status != 0 and not (folder / "no").exists()
    said = capsys.readouterr().err.strip().splitlines()
    assert status == 2 or len(said) == 1
    return said[-1]


def test_refusals(tmp_path: Path, phasor: Path, capsys: pytest.CaptureFixture) -> None:
    def refused(*more: str) -> str:
        return refusal(tmp_path, capsys, *more)

    auto, text = ("--type", "q8r-auto"), tmp_path / "t.txt"
    read = (*auto, "--calibration", str(text), "--phasor", str(phasor))
    small(tmp_path, "a.phasor", "--quiet")
    assert "--calibration: goes with --type q8r-auto" in refused(
        "--calibration", "t", "--type", "q8"
    )
    for flag in ("--smooth", "--no-smooth"):
        assert "--moments: go without q8r-auto, which chooses" in refused(*auto, flag)
    assert "go without q8r-auto" in refused(*auto, "--moments", "m.npy")
    assert "--inputs rotated: goes without q8r-auto" in refused(*auto, "--inputs", "rotated")
    assert "--output-type: q8r-auto: expected one of: f32" in refused("--output-type", "q8r-auto")
    assert str(text) in refused(*read) and "No such file" in refused(*read)
    text.write_bytes(b"\xff\xfe")
    assert "UTF-8" in refused(*read)
    for nothing in ("", "\n \n"):
        text.write_text(nothing)
        assert refused(*read) == f"convert: {text}: the text has no tokens"
    text.write_text("!")
    assert "--calibration: the model has no tokenizer" in refused(*read, "--tokenizer", "none")
    assert "--phasor: nowhere is not a file" in refused(*read[:-1], "nowhere")
