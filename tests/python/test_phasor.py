"""The phasor program against PyTorch's goldens and the float64 reference. Skips where the program
is not supported (PHASOR_REQUIRED=1: fails)."""

import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from conversions import convert_to
from phasor import vectors as phasor_vectors
from phasor.format.file import VECTORS, PhasorFile
from phasor.format.writer import replace_section
from phasor.reference.forward import Reference
from texts import ids_text

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "pytorch"
PRESETS = ("torch-transformer", "separate", "bias-free")
TINY = ("tiny-post-sin", "tiny-pre-learned", "tiny-d2l", "tiny-lm")


def call(phasor, *arguments, status: int = 0) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [phasor, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def printed(text: str) -> list[int]:
    return [int(word) for word in text.replace(",", " ").split()]


@pytest.mark.parametrize("preset", PRESETS)
def test_pytorchs_goldens(phasor, preset, tmp_path):
    """Logits within 1e-4 of the range of PyTorch's, and its greedy tokens; the converter has
    recorded the hashes."""
    path = tmp_path / "m.phasor"
    convert_to(GOLDEN / f"{preset}.pt", path, "--phasor", phasor)
    file, want = PhasorFile(path), np.load(GOLDEN / f"{preset}.npz")
    section = phasor_vectors.read(file.section(VECTORS), file.descriptor)
    assert section.numerics >= 1 and all(v.hash for v in section.vectors)
    model, source = Reference(file), want["source"].tolist()
    made = printed(
        call(
            phasor,
            "run",
            path,
            "--ids",
            ids_text(source),
            "--print-ids",
            "-n",
            12,
            "--quiet",
            "--logits",
            tmp_path / "l.npy",
        ).stdout
    )
    greedy = want["greedy"].tolist()
    assert made in (greedy, greedy[:-1])
    logits = np.load(tmp_path / "l.npy")
    exact = model.decode([2, *greedy[: len(logits) - 1]], model.encode(source).output).logits
    assert (np.abs(logits - exact).max(axis=1) <= 1e-5 * np.ptp(exact, axis=1)).all()


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("kind", ["f32", "q8"])
def test_vectors_replay(phasor, golden_models, name, kind):
    result = json.loads(
        call(phasor, "verify", "--json", golden_models / f"{name}-{kind}.phasor").stdout
    )
    assert result["ok"] and len(result["vectors"]) == 3
    worst = max(vector["worst_logit"] for vector in result["vectors"])
    assert worst < (1e-5 if kind == "f32" else 0.05)


def changed_vector(golden_models, path, change) -> None:
    """A golden model with something changed in its VECTORS section, checksums mended."""
    path.write_bytes((golden_models / "tiny-lm-f32.phasor").read_bytes())
    file = PhasorFile(path)
    section = bytearray(file.section(VECTORS))
    first = 24 + -(-struct.unpack_from("<I", section, 8)[0] // 4) * 4
    change(section, first)
    with open(path, "r+b") as stream:
        replace_section(stream, VECTORS, bytes(section))


def test_a_wrong_logit_is_found(phasor, golden_models, tmp_path):
    def change(section, first):
        at = first + 24 + 4 * (1 + 16 + 3)  # the first sampled logit of the first position
        struct.pack_into("<f", section, at, struct.unpack_from("<f", section, at)[0] + 0.01)

    changed_vector(golden_models, tmp_path / "m.phasor", change)
    assert "logit differs" in call(phasor, "verify", tmp_path / "m.phasor", status=1).stderr


def test_a_wrong_hash_is_found(phasor, golden_models, tmp_path):
    def change(section, first):
        struct.pack_into("<I", section, 4, 1)
        struct.pack_into("<Q", section, first + 16, 12345)

    changed_vector(golden_models, tmp_path / "m.phasor", change)
    assert "not the bits" in call(phasor, "verify", tmp_path / "m.phasor", status=1).stderr


@pytest.mark.parametrize("name", TINY)
def test_greedy_is_the_plain_loop(phasor, golden_models, name):
    """Token for token the loop that computes the whole prefix again at each step."""
    path = golden_models / f"{name}-f32.phasor"
    model = Reference(PhasorFile(path))
    for source in ([5, 6, 7, 3], [9], [11, 4, 30, 22, 8, 3]):
        lone = "encoder" not in model.d
        made = printed(
            call(
                phasor, "run", path, "--ids", ids_text(source), "--print-ids", "-n", 15, "--quiet"
            ).stdout
        )
        want = model.greedy(None, 15, source) if lone else model.greedy(source, 15)
        assert made in (want, want[:-1] if want[-1] in model.d["target"]["end"] else want)
