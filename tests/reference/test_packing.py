"""Layouts and checksums for shapes and values that hypothesis chooses."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.format import checksum
from phasor.format import layout as L
from phasor.format.meta import decode_meta
from torch_zip import save

settings.register_profile(
    "phasor", deadline=None, derandomize=True
)  # machines differ, and so may not the examples
settings.load_profile("phasor")

sizes = st.integers(1, 70)
seeds = st.integers(0, 2**32 - 1)


def matrix(seed: int, rows: int, cols: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, cols)) * 10.0 ** rng.integers(-6, 5, size=(rows, 1))).astype(
        np.float32
    )


@given(seeds, sizes, sizes)
def test_f32_panels(seed, rows, cols):
    x = matrix(seed, rows, cols)
    data = np.frombuffer(L.pack_numbers(x, L.F32), np.uint8)
    assert data.size == L.panels_of([rows]) * L.panel_bytes(L.F32, cols)
    back = L.unpack_numbers(data, L.F32, cols)
    assert np.array_equal(back[:rows], L.flush_subnormals(x)) and not back[rows:].any()


@given(seeds, sizes, sizes)
def test_q8_panels_and_rows(seed, rows, cols):
    scales, q = L.quantize(matrix(seed, rows, cols), L.Q8)
    data = np.frombuffer(L.pack_panels(scales, q, cols, L.Q8), np.uint8)
    assert data.size == L.panels_of([rows]) * L.panel_bytes(L.Q8, cols)
    for back in (
        L.unpack_panels(data, cols, L.Q8),
        L.unpack_rows(
            np.frombuffer(L.pack_rows(scales, q, cols, L.Q8), np.uint8), rows, cols, L.Q8
        ),
    ):
        assert np.array_equal(back[0][:rows], scales) and np.array_equal(back[1][:rows], q)
        assert not back[0][rows:].any() and not back[1][rows:].any()


@given(seeds, sizes, sizes)
def test_no_group_is_worse_than_by_the_plain_rule(seed, rows, cols):
    """scale = f16(largest / 127), q = round(x / scale) of at most 127, in float64."""
    x = matrix(seed, rows, cols)
    scales, q = L.quantize(x, L.Q8)
    padded = np.zeros((rows, q.shape[1]))
    padded[:, :cols] = x
    grouped = padded.reshape(rows, -1, 32)
    plain = (np.abs(grouped).max(axis=2) / 127).astype(np.float16).astype(np.float64)[..., None]
    rounded = (
        np.clip(
            np.rint(np.divide(grouped, plain, where=plain > 0, out=np.zeros_like(grouped))),
            -127,
            127,
        )
        * plain
    )
    theirs = ((rounded - grouped) ** 2).sum(axis=2)
    ours = ((L.dequantize_q8(scales, q, q.shape[1]).reshape(grouped.shape) - grouped) ** 2).sum(
        axis=2
    )
    assert (ours <= theirs * (1 + 1e-5) + 1e-30).all()
    assert not q[:, cols:].any()


@given(st.binary(max_size=5000), st.integers(0, 5000))
def test_checksums_join(data, at):
    a, b = data[:at], data[at:]
    assert (
        checksum.crc32c(data)
        == checksum.crc32c(b, checksum.crc32c(a))
        == checksum.crc32c_join(checksum.crc32c(a), checksum.crc32c(b), len(b))
    )


@given(st.lists(sizes, min_size=1, max_size=3))
def test_parts_start_panels(parts):
    spans = list(L.part_rows(parts))
    assert [t.stop - t.start for t, _ in spans] == parts == [p.stop - p.start for _, p in spans]
    assert all(p.start % 16 == 0 for _, p in spans) and spans[-1][1].stop <= 16 * L.panels_of(parts)


@given(st.binary(max_size=400))
def test_metadata_of_any_bytes(data):
    try:
        decode_meta(data)
    except L.PhasorError:
        pass


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["<f4", "<f8", "<f2", "<i8"]), st.lists(st.integers(0, 5), max_size=3)
        ),
        min_size=1,
        max_size=4,
    ),
    seeds,
)
def test_torch_reads_what_we_read(tmp_path_factory, shapes, seed):
    """The handmade zip format is torch's: torch.load of the same file gives the same tensors."""
    import torch

    rng = np.random.default_rng(seed)
    arrays = {
        f"t{i}": (rng.normal(size=shape) * 100).astype(dtype)
        for i, (dtype, shape) in enumerate(shapes)
    }
    path = save(tmp_path_factory.mktemp("zip") / "m.pt", arrays)
    theirs, ours = torch.load(path, weights_only=True), open_checkpoint(path)
    for name, array in arrays.items():
        assert np.array_equal(theirs[name].numpy(), array)
        assert np.array_equal(
            ours.tensors[name].load(), array.astype("<f4") if array.dtype == np.float16 else array
        )
