"""q8r in the program: what it refuses by name, and that the engine says what the reference says."""

import struct
import subprocess

import numpy as np
import pytest

from phasor.format import checksum
from phasor.format import file as F
from phasor.format import layout as L
from phasor.format import tensors as R
from random_models import lm, write_random

FFN_OUT = R.key_of(R.DECODER, 0, R.FFN_OUT)


def run(phasor, *arguments) -> subprocess.CompletedProcess:
    return subprocess.run(
        [phasor, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def sealed(path, key: int, change) -> None:
    """change(the tensor's bytes, in place), and every checksum put right."""
    file = F.PhasorFile(path)
    data = bytearray(file.bytes.tobytes())
    e, (offset, size, _) = file.entries[key], file.sections[F.DATA]
    tensor = np.frombuffer(data, np.uint8)[e.offset : e.offset + e.bytes]
    change(tensor)
    directory = file.sections[F.DIRECTORY][0] + 8 + F.ENTRY_BYTES * list(file.entries).index(key)
    struct.pack_into("<I", data, directory + 36, checksum.crc32c(tensor))
    at = F.HEADER_BYTES + F.SECTION_BYTES * list(file.sections).index(F.DATA)
    struct.pack_into("<I", data, at + 24, checksum.crc32c(bytes(data[offset : offset + size])))
    struct.pack_into("<I", data, 40, 0)
    struct.pack_into("<I", data, 40, checksum.crc32c(bytes(data[: file.head_bytes])))
    del tensor
    path.write_bytes(data)


@pytest.mark.parametrize("kind", (L.Q8R, L.Q8RH))
def test_more_inputs_than_the_sums_hold(phasor, kind, tmp_path, monkeypatch):
    """Refused by the converter, by quantize, and by who opens such a file."""
    wide = {"hidden": L.MOST_IN_ROW + 1, "heads": 1, "kv_heads": 1, "head_width": 2}
    descriptor = lm(**wide)
    name, says = L.TYPES[kind], f"132105 inputs, {L.TYPES[kind]} has at most 132104"
    with pytest.raises(L.PhasorError, match=says):
        write_random(tmp_path / "m", descriptor, kind)
    write_random(tmp_path / "exact", descriptor)
    done = run(phasor, "quantize", tmp_path / "exact", tmp_path / "m", "--type", name)
    assert done.returncode == 1 and says in done.stderr and not (tmp_path / "m").exists()
    monkeypatch.setattr(L, "MOST_IN_ROW", 1 << 20)
    write_random(tmp_path / "m", descriptor, kind)
    done = run(phasor, "inspect", tmp_path / "m")
    assert done.returncode == 1 and says in done.stderr and "feed-forward out" in done.stderr


@pytest.mark.parametrize(
    "scale, says",
    [
        (2.0**-39, "out of range"),
        (-1.0, "out of range"),
        (np.inf, "out of range"),
        (np.nan, "out of range"),
        (2.0**-38, None),
        (0.0, None),
    ],
)
def test_scales_that_a_row_may_have(phasor, scale, says, tmp_path):
    write_random(tmp_path / "m", lm(), L.Q8RH)
    number = np.frombuffer(np.float32(scale).tobytes(), np.uint8)

    def change(tensor):
        tensor[8:12] = number

    sealed(tmp_path / "m", FFN_OUT, change)
    done = run(phasor, "verify", tmp_path / "m")
    assert done.returncode == (1 if says else 0) and (not says or says in done.stderr), done


def test_padding_is_zero(phasor, tmp_path):
    path = tmp_path / "m"
    cols = write_random(path, lm(), L.Q8R).slots[FFN_OUT].cols
    assert cols % 64

    def change(tensor):
        tensor[64 + cols // 4 * 64 + cols % 4] = 1  # row 0, the first column that there is not

    sealed(path, FFN_OUT, change)
    assert "padding is not zero" in run(phasor, "verify", path).stderr


def test_what_is_in_rows_becomes_f32_alone(phasor, tmp_path):
    """The nearest f32 of each weight, rotated back."""
    for kind in (L.Q8R, L.Q8RH):
        given = write_random(tmp_path / "m", lm(), kind)
        done = run(phasor, "quantize", tmp_path / "m", tmp_path / "n", "--type", "q8")
        assert done.returncode == 1 and f"is {L.TYPES[kind]}, and what was rounded" in done.stderr
        assert run(phasor, "quantize", given.path, tmp_path / "n", "--type", "f32").returncode == 0
        back = F.PhasorFile(tmp_path / "n")
        for key, entry in given.entries.items():
            a, b = given.weights(key), back.weights(key)
            assert np.abs(a - b).max() <= 2.0**-20 * np.abs(a).max()
            assert entry.type == L.Q8RH or np.array_equal(a.astype(np.float32), b)
