"""What a conversion proves: test vectors that are computed together, each tensor read once; how
many there are, and that the file, the program and a terminal say so."""

import json
import os
import pty
import re
import select
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from conversions import convert_to
from phasor import convert, expect
from phasor import vectors as V
from phasor.format.file import VECTORS, Narrow, PhasorFile
from phasor.reference.forward import Reference
from phasor.runs import steps_of
from places import PROGRAM, ROOT
from random_models import lm, write_random

GOLDEN = ROOT / "tests" / "golden"
SOURCE = GOLDEN / "pytorch" / "torch-transformer.pt"
MODELS = sorted(path.stem for path in (GOLDEN / "models").glob("*.phasor"))


# ---- The runs


@pytest.mark.parametrize("name", MODELS)
def test_inputs_that_run_together_are_those_that_run_alone(name):
    file = PhasorFile(GOLDEN / "models" / f"{name}.phasor")
    inputs, steps = V.choose_inputs(file.descriptor), []
    (together,) = V.run_all(file, inputs, (np.float64,), lambda: steps.append(0))
    model = Reference(file)
    for given, ran in zip(inputs, together):
        source = model.encode(given.source) if given.source else None
        target = model.decode(given.target, source and source.output) if given.target else None
        alone = V.Ran(source, target, model.output(source if target is None else target))
        np.testing.assert_allclose(ran.output, alone.output, rtol=1e-9, atol=1e-9)
        for one, other in zip(ran.traces, alone.traces):
            assert (one is None) == (other is None)
            if one is not None:
                for x, y in zip(
                    (one.embedding, *one.residuals), (other.embedding, *other.residuals)
                ):
                    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
    assert len(steps) == steps_of(file.descriptor)


class Counted:
    """A file that counts how often each tensor is read."""

    def __init__(self, file: PhasorFile) -> None:
        self.descriptor, self.entries, self._file = file.descriptor, file.entries, file
        self.reads: Counter[int] = Counter()

    def narrow(self, key: int) -> Narrow:
        self.reads[key] += 1
        return self._file.narrow(key)


@pytest.mark.parametrize("name", ["tiny-lm-q8", "tiny-bert-f32", "tiny-d2l-f32"])
def test_a_tensor_is_read_once_for_all_inputs_and_types(name):
    """But where two places of a model share it: an embedding that is the output too, angles."""
    file = Counted(PhasorFile(GOLDEN / "models" / f"{name}.phasor"))
    V.build(file, V.choose_inputs(file.descriptor))
    stacks = [file.descriptor[name] for name in ("encoder", "decoder") if name in file.descriptor]
    layers = max(len(stack["layers"]) // 2 for stack in stacks)
    matrices = {key for key, entry in file.entries.items() if entry.cols > 1}
    ends = {key for key in matrices if not key >> 8 & 0xFFFF and key & 0xFF == 1}
    assert all(file.reads[key] <= 2 for key in ends)
    assert all(file.reads[key] <= 1 for key in matrices - ends if key >> 24 <= 4)
    assert max(file.reads.values()) <= layers + 1


class Odd(Counted):
    """A file whose tensors begin at an odd byte, as those of a mapped checkpoint may."""

    def narrow(self, key: int) -> Narrow:
        values, scales = super().narrow(key)
        moved = np.empty(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
        moved[...] = values
        assert values.itemsize == 1 or not moved.flags.aligned
        return Narrow(moved, scales)


@pytest.mark.parametrize("width", [96, 128])
def test_where_a_tensor_lies_changes_no_vector(width, tmp_path):
    """NumPy sums numbers that are not aligned in another order, of rows as long as these."""
    descriptor = lm(stack={"width": width}, head_width=width // 4, hidden=160)
    file = write_random(tmp_path / "m.phasor", descriptor)
    inputs = V.choose_inputs(file.descriptor)
    assert V.build(Odd(file), inputs) == V.build(file, inputs)


# ---- The choice


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proof")
    return {
        proof: convert_to(SOURCE, folder / f"{proof}.phasor", "--type", "q8", "--proof", proof)
        for proof in V.PROOFS
    }


def told(command: str, path, *flags: str) -> str:
    done = subprocess.run([PROGRAM, command, path, *flags], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_short_proof_lacks_the_longest_input(made):
    full, short = (
        V.read(PhasorFile(made[name]).section(VECTORS), PhasorFile(made[name]).descriptor)
        for name in ("full", "short")
    )
    assert (full.author, short.author) == (V.AUTHOR, f"{V.AUTHOR}, short")
    assert (len(full.vectors), len(short.vectors)) == (3, 2)
    for a, b in zip(full.vectors, short.vectors):
        assert a.source.tolist() == b.source.tolist() and a.hash == b.hash != 0
        np.testing.assert_allclose(a.logits, b.logits, rtol=1e-6)


def test_the_default_is_full(made, tmp_path):
    usual = convert_to(SOURCE, tmp_path / "m.phasor", "--type", "q8")
    assert usual.read_bytes() == made["full"].read_bytes()


@pytest.mark.parametrize(
    "proof, count, line",
    [
        ("full", 3, "against the description"),
        ("short", 2, "against the description, short"),
        ("none", 0, ""),
    ],
)
def test_the_program_says_which(proof, count, line, made, tmp_path):
    path = made[proof]
    assert re.search(f"\n  test vectors +{f'{count} {line}'.strip()} *\n", told("inspect", path))
    facts = json.loads(told("inspect", path, "--json"))
    assert (facts["vectors"], facts["proof"]) == (count, line)
    said = told("verify", path)
    assert (f"{count} test vectors {line}," if count else "no test vectors,") in said
    exact = convert_to(SOURCE, tmp_path / "f.phasor", "--proof", proof)
    told("quantize", exact, tmp_path / "q.phasor", "--type", "q8")
    assert json.loads(told("inspect", tmp_path / "q.phasor", "--json"))["proof"] == line


def test_a_file_without_a_proof_says_so(made, tmp_path, capsys):
    assert VECTORS not in PhasorFile(made["none"]).sections
    assert convert.main([str(SOURCE), "-o", str(tmp_path / "m.phasor"), "--proof", "none"]) == 0
    said = capsys.readouterr().err
    assert "no test vectors (--proof none): verify checks structure and checksums" in said
    assert "The test vectors check" not in said


def test_a_proof_of_ones_own_has_no_length(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        convert.parse([str(SOURCE), "-o", "m", "--expect", "e.npz", "--proof", "short"])
    assert end.value.code == 2 and "--proof: goes without --expect" in capsys.readouterr().err
    assert expect.AUTHOR == "the model's own outputs"  # which the program tells from ours


# ---- A terminal


def test_a_terminal_hears_of_it(tmp_path):
    own, theirs = pty.openpty()
    command = [sys.executable, ROOT / "tools" / "convert.py", SOURCE, "-o", tmp_path / "m.phasor"]
    with subprocess.Popen([*command, "--type", "q8"], stdout=subprocess.PIPE, stderr=theirs) as run:
        os.close(theirs)
        shown = b""
        while select.select([own], [], [], 60)[0]:
            try:
                data = os.read(own, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        assert run.wait() == 0
    os.close(own)
    lines = re.findall(rb"\rconvert: (\d+) of (\d+) ([a-z ]+)\x1b\[K", shown)
    assert [what for what in dict.fromkeys(what for _, _, what in lines)] == [
        b"layers of the test vectors",
        b"tensors written",
        b"layers of the stored test vectors",
    ]
    for what in {what for _, _, what in lines}:
        counted = [(int(a), int(b)) for a, b, name in lines if name == what]
        total = counted[0][1]
        assert counted == [(i, total) for i in range(1, total)]
    plain = subprocess.run([*command], capture_output=True)
    assert b"\r" not in plain.stderr
