"""Input scales for q8: the same function in f32, less rounding in q8, and where they go."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))

import make_models as M
import test_convert_hf
import test_int8_inputs
import test_packed

import quantizers
from phasor import convert
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format.writer import write_model
from phasor.reference.forward import Reference
from phasor.smoothing import Smoothed, scales

IDS = [2, 9, 17, 4, 31, 8, 22, 40, 3]


def with_outliers(name: str, descriptor: dict):
    """The golden models' weights, but two channels of every norm are fifty times as large, and what
    reads them as much smaller."""

    def source(slot: R.Slot) -> np.ndarray:
        values = M.random_weights(name, slot, descriptor["encoder"]["width"]).copy()
        if (
            slot.layout == L.VECTOR
            and slot.role in (R.ATTENTION_BEFORE, R.FFN_BEFORE, R.ATTENTION_AFTER, R.FFN_AFTER)
            and slot.stack == R.ENCODER
        ):
            values[[3, 21]] *= 50
        if slot.role in (R.QKV, R.FFN_IN) and slot.stack == R.ENCODER:
            values[:, [3, 21]] /= 50
        return values

    return source


def rest(difference: np.ndarray) -> float:
    """The norm without the two channels, which would be all of it."""
    return float(np.linalg.norm(np.delete(difference, [3, 21], axis=1)))


def output(path: Path, descriptor: dict, source, kind: int) -> np.ndarray:
    with open(path, "wb+") as file:
        write_model(file, descriptor, source, kind)
    model = Reference(PhasorFile(path))
    return model.encode(IDS).output


@pytest.mark.parametrize(
    "name, folded", [("tiny-bert", False), ("tiny-albert", False), ("tiny-modernbert", True)]
)
def test_the_same_function_with_less_rounding(tmp_path, name, folded):
    descriptor = D.with_defaults(M.MODELS[name][0]())
    source = with_outliers(name, descriptor)
    smoothed = Smoothed(descriptor, source)
    flags = [kind["input_scales"] for kind in smoothed.descriptor["kinds"]]
    assert flags == (
        [1, 0, 0] if folded else [3] * len(flags)
    )  # the first block has no norm before its attention
    assert all(kind["input_scales"] == 0 for kind in descriptor["kinds"])
    exact = output(tmp_path / "a.phasor", descriptor, source, L.F32)
    same = output(tmp_path / "b.phasor", smoothed.descriptor, smoothed.weights, L.F32)
    assert (
        np.abs(same - exact).max() < 1e-12 * np.abs(exact).max()
    )  # powers of two: f32 weights are the same but for their exponents
    plain = output(tmp_path / "c.phasor", descriptor, source, L.Q8)
    better = output(tmp_path / "d.phasor", smoothed.descriptor, smoothed.weights, L.Q8)
    assert rest(better - exact) < 0.75 * rest(plain - exact)


def test_scales_are_powers_of_two_around_one():
    largest = np.array([1, 1, 1, 64, 0, 1], np.float32)
    u = scales(largest, np.ones((4, 6), np.float32))
    assert (
        u[:4].tolist() == [1, 1, 1, 2.0**-3]
        and u[5] == 1
        and np.log2(u[4]) == np.rint(np.log2(u[4]))
        and u[4] > 1
    )
    assert scales(np.zeros(3, np.float32), np.ones((2, 3), np.float32)).tolist() == [1, 1, 1]


GIVEN = ["gptq", "int-quantized", "LLM.int8"]  # q4, q8r, q8r


@pytest.mark.parametrize("form", GIVEN)
def test_what_was_rounded_is_not_rounded_again(form, tmp_path, capsys):
    """Neither where a scale is asked for, nor silently where it is the default."""
    directory = test_packed.Directory(tmp_path, form)
    for flags in ((), ("--type", directory.kept)):
        assert directory.run("--smooth", *flags) == 1
        said = capsys.readouterr().err
        assert f"is {directory.kept} already, and what was rounded is not rounded again" in said
        assert "TRY: without --smooth" in said
    assert directory.run("--smooth", "--type", "q4m") == 0
    assert "to q4m (rounded)" in capsys.readouterr().err
    assert directory.run("--smooth", "--type", "f32") == 0  # by powers of two: exact
    assert "to f32 (exactly)" in capsys.readouterr().err


def test_a_gguf_file_is_not_rounded_again(tmp_path, capsys):
    source, out = test_int8_inputs.gguf(tmp_path), tmp_path / "m.phasor"
    words = [str(source), "-o", str(out), "--proof", "none", "--smooth"]
    assert convert.main(words) == 1 and not out.exists()
    assert "is q8 already, and what was rounded is not rounded again" in capsys.readouterr().err
    assert convert.main([*words, "--type", "q4"]) == 0
    assert "Q8_0 to q4 (rounded)" in capsys.readouterr().err
    assert convert.main([*words, "--type", "f32"]) == 0
    assert "Q8_0 to f32 (exactly)" in capsys.readouterr().err


def test_an_encoder_that_was_rounded_keeps_its_values(tmp_path, capsys):
    """q8r of a directory that has it: no input scales, though encoders have them."""
    given = test_convert_hf.Directory(tmp_path)
    given.bare()
    assert given.run("--type", "q8r") == 0
    scaled = PhasorFile(given.output).descriptor["kinds"]
    assert any(kind["input_scales"] for kind in scaled)
    given.config["quantization_config"] = quantizers.FORMS["LLM.int8"][0]
    rng, dense = np.random.default_rng(2), {}
    for name in [name for name in given.arrays if ".dense.w" in name or ".self." in name]:
        if name.endswith(".weight"):
            start, (tensors, values) = (
                name.removesuffix("weight"),
                quantizers.llm_int8(rng, *given.arrays.pop(name).shape),
            )
            given.arrays |= {start + part: value for part, value in tensors.items()}
            dense[name] = values
    for flags in ((), ("--type", "q8r")):
        assert convert.main([str(given.write()), "-o", str(given.output), *flags]) == 0
        said = capsys.readouterr().err
        assert " LLM.int8 to q8r (exactly)" in said and "scaled" not in said
        file = PhasorFile(given.output)
        assert not any(kind["input_scales"] for kind in file.descriptor["kinds"])
        slot = next(s for s in R.slots(file.descriptor) if s.role == R.FFN_IN)
        np.testing.assert_allclose(
            file.weights(slot.key), dense["encoder.layer.0.intermediate.dense.weight"], rtol=2e-7
        )
