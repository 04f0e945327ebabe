"""The weight file: round trips, refusals, damage, and that it is written whole or not at all."""

import os
import struct

import numpy as np
import pytest

from phasor.files import replacing
from phasor.format import checksum, writer
from phasor.format import descriptor as D
from phasor.format import file as F
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.format.meta import decode_meta, encode_meta
from places import told


def small(**kind) -> dict:
    return {
        "model": {"stack": D.DECODER, "name": "näme"},
        "target": {"vocabulary": 19, "start": 1, "end": [2, 3]},
        "decoder": {
            "width": 12,
            "layers": [0, 0, 0, 1],
            "position": D.INTERLEAVED,
            "embedding_scale": 3.5,
        },
        "kinds": [
            {
                "norm": D.LAYER_NORM,
                "norm_place": D.AFTER,
                "norm_eps": 1e-5,
                "heads": 3,
                "head_width": 4,
                "scale": 0.5,
                "hidden": 33,
                "activation": D.RELU,
                "attention_biases": 5,
                **kind,
            }
        ],
        "output": {"output": D.LOGITS},
    }


def weights(slot: R.Slot) -> np.ndarray:
    rng = np.random.default_rng(slot.key)
    return rng.normal(
        size=(sum(slot.parts),) if slot.layout == L.VECTOR else (sum(slot.parts), slot.cols)
    ).astype(np.float32)


def write(path, descriptor=None, kind=L.F32, source=weights, extra=None):
    with replacing(path) as file:
        report = writer.write_model(file, descriptor or small(), source, kind, extra)
    return report


@pytest.mark.parametrize("kind", L.ROUNDED)
def test_round_trip(tmp_path, kind):
    path = tmp_path / "m.phasor"
    report = write(path, kind=kind, extra={F.TARGET_TOKENIZER: b"abc", F.VECTORS: b"12345"})
    file = F.PhasorFile(path)
    file.check()
    assert file.meta["model"]["name"] == "näme"
    assert (
        file.descriptor["target"]["end"] == [2, 3] and file.descriptor["kinds"][0]["kv_heads"] == 3
    )
    assert file.section(F.TARGET_TOKENIZER) == b"abc" and file.section(F.VECTORS) == b"12345"
    for slot in R.slots(file.descriptor):
        given, got = weights(slot), file.weights(slot.key)
        if slot.matrix and kind == L.Q8:
            assert np.abs(got - given).max() <= np.abs(given).max() / 127
            assert np.array_equal(got, L.dequantize_q8(*L.quantize(given, L.Q8), slot.cols))
        elif slot.matrix and kind == L.Q4:
            assert np.array_equal(got, L.dequantize_q8(*L.quantize(given, L.Q4), slot.cols))
        elif slot.matrix and kind in L.QUANTIZED:
            assert np.array_equal(got, L.dequantize(*L.quantize(given, kind), slot.cols, kind))
        elif slot.matrix and kind in L.HALVES:
            assert np.array_equal(got, L.widen(L.halves_of(given, kind), kind))
        else:
            assert np.array_equal(got, given)
    assert [r.type for r in report] == sorted({L.F32, kind, L.F64})
    assert all(e.offset % 64 == 0 for e in file.entries.values())
    assert file.bytes.size == os.path.getsize(path)


def test_directory_is_in_the_order_of_the_keys():
    for descriptor in (small(), small(gated=1, ffn_biases=D.FFN_BIASES)):
        keys = [slot.key for slot in R.slots(D.with_defaults(descriptor))]
        assert keys == sorted(set(keys))


def test_quantized_values_are_stored_as_they_are(tmp_path):
    def source(slot):
        if not slot.matrix:
            return weights(slot)
        groups = -(-slot.cols // 32)
        q = np.full((sum(slot.parts), groups * 32), -128, np.int8)
        q[:, slot.cols :] = 0
        return F.Quantized(np.full((sum(slot.parts), groups), 0.25, np.float16), q)

    write(tmp_path / "m.phasor", kind=L.Q8, source=source)
    file = F.PhasorFile(tmp_path / "m.phasor")
    file.check()
    assert (file.weights(R.DECODER << 24 | R.QKV) == -32).all()


@pytest.mark.parametrize(
    "change,message",
    [
        (lambda d: d["decoder"].update(width=13), "13 is odd"),
        (lambda d: d["decoder"].update(layers=[0, 1]), "order of first use"),
        (lambda d: d["decoder"].update(layers=[1, 0]), "layer 0 is of kind 1"),
        (lambda d: d["target"].update(start=19), "not below the vocabulary 19"),
        (lambda d: d["target"].pop("vocabulary"), "target.vocabulary: is missing"),
        (lambda d: d["kinds"][0].update(norm_eps=float("nan")), "finite"),
        (lambda d: d["kinds"][0].update(heads=0), "heads: 0, expected"),
        (lambda d: d["kinds"][0].update(heads=True), "heads: True"),
        (lambda d: d["kinds"][0].update(kv_heads=2), "does not divide"),
        (lambda d: d["kinds"][0].update(color=1), "no field is called 'color'"),
        (
            lambda d: d["kinds"][0].update(position=6),
            "kind0.max_distance: missing, its position needs a table",
        ),
        (
            lambda d: d["kinds"][0].update(max_distance=6),
            "kind0.max_distance: nothing is relative here",
        ),
        (
            lambda d: d["kinds"][0].update(position=1, max_distance=6, score=1),
            "an additive score has no relative keys",
        ),
        (lambda d: d["kinds"][0].update(position=4), "rotary_width: 0, expected an even number"),
        (lambda d: d["kinds"][0].update(rotary_width=4), "nothing is rotary here"),
        (lambda d: d["kinds"][0].update(norm_place=2, attention_norm=0), "norm_place before only"),
        (lambda d: d["kinds"][0].update(cross=1), "cross-attention without an encoder"),
        (lambda d: d.update(encoder=d["decoder"]), "the stack has none"),
        (lambda d: d.pop("output"), "scope output is missing"),
        (lambda d: d["output"].update(output=3), "a decoder gives logits"),
        (lambda d: d["output"].update(pooling=1), "output.pooling: a decoder gives logits"),
        (lambda d: d["decoder"].update(projection_bias=1), "the embedding is not projected"),
        (
            lambda d: d["target"].update(pair=[1], pair_segment=1),
            "pair_segment: 1, there are 0 segments",
        ),
    ],
)
def test_bad_descriptors(tmp_path, change, message):
    descriptor = small()
    change(descriptor)
    with pytest.raises(PhasorError, match=message):
        write(tmp_path / "m.phasor", descriptor)
    assert not list(tmp_path.iterdir())


def test_bad_weights(tmp_path):
    path = tmp_path / "m.phasor"
    path.write_bytes(b"before")
    for bad, message in (
        (lambda s: weights(s)[:-1], "has shape"),
        (lambda s: weights(s) * np.inf, "not finite"),
        (lambda s: weights(s).astype(np.float64) * 1e300, "not finite in f32"),
    ):
        with pytest.raises(PhasorError, match=message):
            write(path, source=bad)
    with pytest.raises(PhasorError, match="target embedding: a weight is too large for q8"):
        write(path, kind=L.Q8, source=lambda s: weights(s) * np.float32(1e20))
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]


def test_failure_in_the_middle_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.phasor"
    write(path)
    before, count = path.read_bytes(), [0]

    def source(slot):
        count[0] += 1
        if count[0] == 10:
            raise KeyboardInterrupt
        return weights(slot)

    with pytest.raises(KeyboardInterrupt):
        write(path, source=source)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_unwritable(tmp_path):
    with pytest.raises(PhasorError, match="cannot be written"):
        write(tmp_path / "no" / "m.phasor")


def test_sections_that_cannot_be_written(tmp_path):
    with pytest.raises(PhasorError, match="section 6"):
        write(tmp_path / "m.phasor", extra={6: b"x"})
    with pytest.raises(PhasorError, match="is empty"):
        write(tmp_path / "m.phasor", extra={F.VECTORS: b""})


# ---- Damage


@pytest.fixture()
def written(tmp_path):
    path = tmp_path / "m.phasor"
    write(path, extra={F.VECTORS: b"12345"})
    return path


def opened(path, data):
    path.write_bytes(bytes(data))
    file = F.PhasorFile(path)
    file.check()


def reseal(data: bytearray) -> bytearray:
    """The same with the head's checksum mended."""
    head = struct.unpack_from("<Q", data, 32)[0]
    struct.pack_into("<I", data, 40, 0)
    struct.pack_into("<I", data, 40, checksum.crc32c(bytes(data[:head])))
    return data


def test_every_truncation_is_an_error(written):
    data = written.read_bytes()
    for size in [*range(0, 200), *range(200, len(data), 97), len(data) - 1]:
        with pytest.raises(PhasorError):
            opened(written, data[:size])
    with pytest.raises(PhasorError, match="its header says"):
        opened(written, data + b"\0")


def test_every_flipped_bit_of_the_head_is_an_error(written):
    data = written.read_bytes()
    head = struct.unpack_from("<Q", data, 32)[0]
    for at in range(0, head, 3):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(PhasorError):
            opened(written, damaged)


def test_resealed_flips_of_the_head_never_crash(written):
    data = written.read_bytes()
    head = struct.unpack_from("<Q", data, 32)[0]
    refused = 0
    for at in range(8, head, 2):
        if 40 <= at < 44:
            continue
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        try:
            opened(written, reseal(damaged))
        except PhasorError:
            refused += 1
    assert refused > head // 4


def test_flipped_bits_of_every_part_are_found(written):
    data = written.read_bytes()
    head = struct.unpack_from("<Q", data, 32)[0]
    for at in range(head, len(data), 61):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(PhasorError, match="checksum|not zero"):
            opened(written, damaged)


@pytest.mark.parametrize(
    "offset,value,message",
    [
        (8, 2, "version 2"),
        (12, 0x04030201, "endian"),
        (20, 17, "17 sections"),
        (44, 1, "reserved"),
        (64 + 24, 1, "META: a checksum of its own"),
    ],
)
def test_header_fields(written, offset, value, message):
    data = bytearray(written.read_bytes())
    struct.pack_into("<I", data, offset, value)
    with pytest.raises(PhasorError, match=message):
        opened(written, reseal(data))


def test_a_byte_between_the_sections_of_the_head(written):
    data = bytearray(written.read_bytes())
    offset, size = struct.unpack_from("<QQ", data, 64 + 8)
    assert (offset + size) % 64
    data[offset + size] = 1
    with pytest.raises(PhasorError, match="between the sections of the head"):
        opened(written, reseal(data))


def test_not_a_file(tmp_path):
    with pytest.raises(PhasorError, match="cannot be read"):
        F.PhasorFile(tmp_path / "absent")
    with pytest.raises(PhasorError, match="is a directory, expected a file"):
        F.PhasorFile(tmp_path)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(PhasorError, match="is empty"):
        F.PhasorFile(tmp_path / "empty")
    (tmp_path / "text").write_text("hello " * 50)
    with pytest.raises(PhasorError, match="not a Phasor file"):
        F.PhasorFile(tmp_path / "text")


def test_unknown_keys(written):
    """Required: refused by number; optional: skipped."""
    meta = encode_meta(small())
    extra = struct.pack("<IBBHII", 8 << 24 | 5, 1, 1, 0, 4, 9)
    with pytest.raises(PhasorError, match=r"key 134217733 \(scope 8, field 5\) is required"):
        decode_meta(meta + extra)
    optional = extra[:5] + b"\0" + extra[6:]
    assert decode_meta(meta + optional) == decode_meta(meta)


@pytest.mark.long
def test_golden_models_are_what_the_script_writes(tmp_path, golden_models):
    import sys

    told(sys.executable, golden_models.parent / "make_models.py", tmp_path)
    names = sorted(p.name for p in tmp_path.glob("tiny-*.phasor"))
    assert names == sorted(p.name for p in golden_models.glob("tiny-*.phasor"))
    for name in names:
        ours, committed = F.PhasorFile(tmp_path / name), F.PhasorFile(golden_models / name)
        committed.check()
        assert ours.meta == committed.meta, name
        # Two models have frequencies of a processor whose power had another last bit.
        assert [_without_checksum(e) for e in ours.entries.values()] == [
            _without_checksum(e) for e in committed.entries.values()
        ]
        for key, entry in ours.entries.items():
            if entry.type == L.F64:
                np.testing.assert_array_max_ulp(ours.weights(key), committed.weights(key), maxulp=1)
            else:
                assert entry.crc == committed.entries[key].crc, (name, entry)


def _without_checksum(entry):
    return entry._replace(crc=0)
