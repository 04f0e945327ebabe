"""Checkpoints of strangers: each ends in one line that names the file and the thing, exit 1,
nothing written, in 10 s and 1 GB; no code of them runs."""

import json
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import hostile
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.format.layout import PhasorError

SHARED = hostile.ROOT.parent / "shared" / "hostile" / "conv"
TOML = (
    'preset = "torch-transformer"\nstack = "encoder"\nheads = 2\nposition = '
    '"none"\nembedding_scale = "one"\n'
)
PAIRS = (
    b")" + b"2\x86" * 60
)  # a tuple of two tuples of two … : 2^60 to hash, to print or to compare
HUGE = b"\x8a\x09" + b"\0" * 8 + b"\x01"  # 2^64


def text(value: bytes) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value


def storage(count: bytes = b"K\x04") -> bytes:
    return (
        b"("
        + text(b"storage")
        + b"ctorch\nFloatStorage\n"
        + text(b"0")
        + text(b"cpu")
        + count
        + b"tQ"
    )


def tensor(
    shape: bytes, strides: bytes, offset: bytes = b"K\x00", of: bytes | None = None
) -> bytes:
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + (of or storage())
        + offset
        + shape
        + strides
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def named(value: bytes) -> bytes:
    return b"\x80\x02}" + text(b"w") + value + b"s."


ONE = b"K\x01\x85"
EVIL = text(b"touch it-ran")
# name -> the pickle of a torch.save zip, what the line says
PICKLES = {
    "os_system": (b"\x80\x02cos\nsystem\n" + EVIL + b"\x85R.", "asks for os.system"),
    "stack_global": (
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93" + EVIL + b"\x85R.",
        "asks for posix.system",
    ),
    "eval": (b"\x80\x02c__builtin__\neval\n" + EVIL + b"\x85R.", "asks for __builtin__.eval"),
    "dotted": (
        b"\x80\x04\x8c\x05torch\x8c\x10_utils.os.system\x93.",
        "holds an object of torch._utils.os.system",
    ),
    "inst": (b"(S'touch it-ran'\nios\nsystem\n.", "opcode INST"),
    "obj": (b"\x80\x02(cos\nsystem\nS'x'\no.", "asks for os.system"),
    "newobj": (b"\x80\x02ccollections\nOrderedDict\n)\x81.", "calls what is no function"),
    "new_of_text": (b"\x80\x04" + EVIL + b")}\x92.", "calls what is no function"),
    "new_of_evil": (b"\x80\x02cos\nsystem\n" + EVIL + b"\x85\x81.", "asks for os.system"),
    "set": (b"\x80\x04\x8f.", "holds an object of builtins.set"),
    "additems": (b"\x80\x04](K\x01\x90.", "adds to what is no set"),
    "set_of_pairs": (b"\x80\x04\x8f(" + PAIRS + b"\x90.", "holds an object of builtins.set"),
    "frozen_pairs": (b"\x80\x04(" + PAIRS + b"\x91.", "holds an object of builtins.frozenset"),
    "call_of_object": (
        b"\x80\x02cx.y\nz\n" + EVIL + b"\x85R" + EVIL + b"\x85R.",
        "holds an object of x.y.z, which is not read: torch.save(model.state_dict(), FILE)",
    ),
    "getattr": (b"\x80\x02cbuiltins\ngetattr\n(NNtR.", "asks for builtins.getattr"),
    "python_2": (b"\x80\x02ccommands\ngetoutput\n" + EVIL + b"\x85R.", "asks for commands.get"),
    "codecs": (b"\x80\x02c_codecs\nlookup\n" + EVIL + b"\x85R.", "asks for _codecs.lookup"),
    "types": (b"\x80\x02ctypes\nCodeType\n)R.", "asks for types.CodeType"),
    "object_of_tensors": (
        named(b"cx\ny\n)\x81}" + text(b"v") + tensor(ONE, ONE) + b"sb"),
        "w: is an object of x.y, not a plain tensor",
    ),
    "object_name": (b"\x80\x02cx\x1b[2J\ny\n)\x81.", "an object of x?[2J.y,"),
    "object_of_itself": (b"\x80\x02cx\ny\n)\x81q\x00h\x00b.", "holds an object of x.y"),
    "objects_of_one_list": (
        b"\x80\x02}(]("
        + b"N" * 200_000
        + b"eq\x000"
        + b"".join(text(b"%d" % i) + b"cx\ny\nh\x00\x85\x81" for i in range(20_000))
        + b"u.",
        "no tensors",
    ),
    "from_type": (
        named(b"ctorch._tensor\n_rebuild_from_type_v2\n(NNNNtR"),
        "w: is an object of torch._tensor._rebuild_from_type_v2",
    ),
    "from_type_of_table": (
        named(
            b"ctorch._tensor\n_rebuild_from_type_v2\n(ccollections\nOrderedDict\n"
            b"ctorch\nTensor\n))tR"
        ),
        "a parameter that is no tensor",
    ),
    "array": (
        named(b"cnumpy.core.multiarray\n_reconstruct\n)R"),
        "w: is an object of numpy.core.multiarray._reconstruct, not a plain tensor",
    ),
    "quantized": (
        named(tensor(ONE, ONE, of=storage().replace(b"Float", b"QInt8"))),
        "asks for torch.QInt8Storage, a type of elements that is not supported",
    ),
    "storage_hash": (
        b"\x80\x02(" + text(b"storage") + PAIRS + text(b"0") + text(b"cpu") + b"K\x01tQ.",
        "reference that is not a storage",
    ),
    "storage_name": (
        b"\x80\x02(" + PAIRS + b"ctorch\nFloatStorage\n" + text(b"0") + text(b"cpu") + b"K\x01tQ.",
        "reference that is not a storage",
    ),
    "storage_key": (
        b"\x80\x02("
        + text(b"storage")
        + b"ctorch\nFloatStorage\n"
        + PAIRS
        + text(b"cpu")
        + b"K\x01tQ.",
        "reference that is not a storage",
    ),
    "storage_view": (
        b"\x80\x02("
        + text(b"storage")
        + b"ctorch\nFloatStorage\n"
        + text(b"0")
        + text(b"cpu")
        + b"K\x04"
        + PAIRS
        + b"tQ.",
        "reference that is",
    ),
    "storage_count": (named(tensor(ONE, ONE, of=storage(HUGE))), "reference that is not a storage"),
    "key": (b"\x80\x04}" + PAIRS + b"K\x01s.", "neither text nor a number"),
    "keys": (b"\x80\x04}(" + PAIRS + b"K\x01u.", "neither text nor a number"),
    "dict": (b"\x80\x04(" + PAIRS + b"K\x01d.", "neither text nor a number"),
    "colliding": (
        b"\x80\x02}" + b"\x8a\x08" + struct.pack("<q", (1 << 61) - 1) + b"K\x01s.",
        "neither text nor a number",
    ),
    "ordered": (
        b"\x80\x04ccollections\nOrderedDict\n]" + PAIRS + b"K\x01\x86a\x85R.",
        "neither text nor a number",
    ),
    "ordered_pairs": (b"\x80\x04ccollections\nOrderedDict\n](K\x01tah\x00\x85R.", "damaged"),
    "size": (
        b"\x80\x04}" + text(b"w") + b"ctorch\nSize\n](" + b"K\x01" * 100 + b"e\x85Rs.",
        "a shape that cannot be",
    ),
    "parameter": (named(b"ctorch._utils\n_rebuild_parameter\n)R"), "a parameter that is no tensor"),
    "call_of_text": (b"\x80\x02" + EVIL + b")R.", "calls what is no function"),
    "call_with_pairs": (b"\x80\x04" + PAIRS + b"K\x01\x86R.", "calls what is no function"),
    "attributes": (
        b"\x80\x02]}" + text(b"append") + EVIL + b"sb.",
        "attributes to what can have none",
    ),
    "append": (b"\x80\x02)K\x01a.", "appends to what is no list"),
    "appends": (b"\x80\x02)(K\x01e.", "appends to what is no list"),
    "items": (b"\x80\x02](" + text(b"a") + b"K\x01u.", "into what is no table"),
    "big_stride": (named(tensor(ONE, HUGE + b"\x85")), "whole number below 2^48"),
    "big_offset": (named(tensor(ONE, ONE, HUGE)), "whole number below 2^48"),
    "beyond": (named(tensor(ONE, ONE, b"K\x04")), "reaches beyond its storage"),
    "negative_offset": (named(tensor(ONE, ONE, b"J\xff\xff\xff\xff")), "whole number below 2^48"),
    "negative_stride": (
        named(tensor(b"K\x02\x85", b"J\xff\xff\xff\xff\x85", b"K\x03")),
        "whole number below 2^48",
    ),
    "repeated": (named(tensor(b"J\xff\xff\xff\x7f\x85", b"K\x00\x85")), "missing"),
    "empty_and_huge": (
        named(tensor(b"K\x00" + HUGE + b"\x86", b"K\x01K\x01\x86")),
        "whole number below 2^48",
    ),
    "empty_and_large": (
        named(
            tensor(
                b"K\x00\x8a\x06" + b"\0" * 5 + b"\x7f\x8a\x06" + b"\0" * 5 + b"\x7f\x87",
                b"K\x01K\x01K\x01\x87",
            )
        ),
        "no tensor's",
    ),
    "dimensions": (
        named(tensor(b"(" + b"K\x01" * 100 + b"t", b"(" + b"K\x01" * 100 + b"t")),
        "100 dimensions",
    ),
    "shape_of_pairs": (named(tensor(PAIRS, ONE)), "a tensor that cannot be"),
    "shape_of_text": (named(tensor(EVIL, EVIL)), "a tensor that cannot be"),
    "flag_in_shape": (named(tensor(b"\x88\x85", ONE)), "whole number below 2^48"),
    "two_types": (
        b"\x80\x02}("
        + text(b"w")
        + tensor(ONE, ONE)
        + text(b"v")
        + tensor(ONE, ONE, of=storage().replace(b"Float", b"Int"))
        + b"u.",
        "the storage 0 has two types",
    ),
    "itself": (b"\x80\x02]q\x00h\x00a.", "does not hold a state_dict"),
    "deep": (b"\x80\x02" + b"]" * 200000 + b"a" * 199999 + b".", "does not hold a state_dict"),
    "result_of_pairs": (b"\x80\x04" + PAIRS + b".", "does not hold a state_dict"),
    "long4": (b"\x80\x02\x8b" + struct.pack("<i", 1 << 28) + b"\1" * 10 + b".", "damaged"),
    "bytes8": (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b".", "damaged"),
    "digits": (b"\x80\x02I" + b"9" * 4000000 + b"\n.", "too many digits"),
    "long_digits": (b"\x80\x02L" + b"9" * 4000000 + b"L\n.", "too many digits"),
    "memo": (b"\x80\x02h\x07.", "damaged"),
    "put": (b"\x80\x02]r\xff\xff\xff\xff.", "does not hold a state_dict"),
    "nothing": (b"", "damaged"),
    "not_utf8": (b"\x80\x02}" + text(b"\xff\xfe") + tensor(ONE, ONE) + b"s.", "damaged"),
    "escape_codes": (b"\x80\x02cos\x1b[2J\nsystem\n.", "holds an object of os?[2J.system,"),
    "too_large": (b"\x80\x02" + b"]0" * (5 << 20) + b".", "larger than any state_dict's"),
    "views": (
        b"\x80\x02}("
        + b"".join(text(b"w%d" % i) + b"h\x01" for i in range(100)).replace(
            b"h\x01", tensor(b"M\xe8\x03\x85", ONE, of=storage(b"M\xe8\x03")) + b"q\x01", 1
        )
        + b"u.",
        "views of one storage",
    ),
}


def zipped(
    path: Path,
    pickle: bytes,
    compression: int = zipfile.ZIP_STORED,
    more: dict[str, bytes] | None = None,
    data: int = 16,
) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", pickle)
        archive.writestr("archive/data/0", b"\0" * data)
        for name, content in (more or {}).items():
            archive.writestr(name, content)
    return path


def patched(path: Path, place: int, value: bytes, of: bytes = b"PK\1\2") -> Path:
    """A zip with other bytes in the first entry of its directory (or behind another mark)."""
    data = bytearray(path.read_bytes())
    at = data.index(of) + place
    data[at : at + len(value)] = value
    path.write_bytes(data)
    return path


def zips(folder: Path) -> dict[str, str]:
    """Files that are wrong as zips, with what the line says."""

    def made(name: str, **more) -> Path:
        return zipped(folder / name, named(tensor(ONE, ONE)), **more)

    patched(made("zip_version.pt"), 6, b"\x63")
    patched(made("zip_offset.pt"), 42, b"\xff\xff\xff\x7f")
    patched(made("zip_size.pt"), 24, b"\xff\xff\xff\x7f")
    patched(made("zip_encrypted.pt"), 8, b"\x01")
    patched(made("zip_directory.pt"), 12, b"\xff\xff\xff\x7f", b"PK\5\6")
    patched(made("zip_no_directory.pt"), 0, b"XX", b"PK\5\6")
    with pytest.warns(UserWarning):
        made("zip_twice.pt", more={"archive/data/0": b"\0" * 16})
    overlap = made("zip_overlap.pt", more={"archive/data/1": b"\0" * 16})
    data = bytearray(overlap.read_bytes())
    entries = [at for at in range(len(data)) if data[at : at + 4] == b"PK\1\2"]
    data[entries[2] + 42 : entries[2] + 46] = data[entries[1] + 42 : entries[1] + 46]
    overlap.write_bytes(data)
    made("zip_compressed.pt", compression=zipfile.ZIP_DEFLATED)
    zipped(folder / "zip_bomb.pt", b"\0" * (64 << 20), zipfile.ZIP_DEFLATED)
    made("zip_program.pt", more={"archive/code/x.py": b""})
    made("zip_two.pt", more={"other/data.pkl": b""})
    made("zip_order.pt", more={"archive/byteorder": b"BIG\n\x1b" * 9})
    (folder / "zip_cut.pt").write_bytes(made("zip_whole.pt").read_bytes()[:60])
    (folder / "zip_whole.pt").unlink()
    return {
        "zip_version": "damaged",
        "zip_offset": "damaged",
        "zip_size": "larger than any",
        "zip_encrypted": "encrypted",
        "zip_directory": "damaged",
        "zip_no_directory": "damaged",
        "zip_twice": "is there twice",
        "zip_overlap": "which ends at",
        "zip_compressed": "compressed",
        "zip_bomb": "larger than any",
        "zip_program": "TorchScript",
        "zip_two": "without one data.pkl",
        "zip_order": "byteorder says 'BIG\\n\\x1bBIG",
        "zip_cut": "damaged",
    }


def entry(begin, end, shape, kind="F32") -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


NESTED = b"[" * 200000 + b"]" * 200000
SOUND = entry(0, 64, [16])
# name -> the header of a safetensors file (JSON or bytes), what the line says
HEADERS = {
    "overlap": ({"a": SOUND, "b": SOUND}, "begins at 0, in a"),
    "overlap_in_part": ({"a": entry(0, 36, [9]), "b": entry(32, 64, [8])}, "begins at 32, in a"),
    "negative": ({"a": entry(-4, 60, [16])}, "not sound"),
    "beyond": ({"a": entry(64, 128, [16])}, "it is cut off; download it again"),
    "huge": ({"a": entry(1 << 62, (1 << 62) + 64, [16])}, "not sound"),
    "reversed": ({"a": entry(64, 0, [16])}, "do not fit"),
    "numbers": ({"a": entry(0.0, 64.0, [16.0])}, "not sound"),
    "flags": ({"a": entry(False, 4, [True])}, "not sound"),
    "empty_and_huge": ({"a": entry(0, 0, [0, 1 << 62, 1 << 62])}, "not sound"),
    "empty_and_large": ({"a": entry(0, 0, [0, 1 << 40, 1 << 40])}, "no tensor's"),
    "dimensions": ({"a": entry(0, 4, [1] * 100)}, "100 dimensions"),
    "kind_of_list": ({"a": {**SOUND, "dtype": ["F32"]}}, "expected dtype"),
    "kind": ({"a": {**SOUND, "dtype": "F8_E8M0"}}, "not supported"),
    "entry_of_list": ({"a": [1, 2]}, "expected dtype"),
    "offsets": ({"a": {**SOUND, "data_offsets": [0, 64, 64]}}, "expected dtype"),
    "shape": ({"a": {**SOUND, "shape": {"0": 16}}}, "expected dtype"),
    "nested": (b'{"a":' + NESTED + b"}", "nested deeper"),
    "nested_a_little": (b'{"a":' + b"[" * 70 + b"]" * 70 + b"}", "nested deeper"),
    "twice": (
        b'{"a":{"dtype":"F32","shape":[16],"data_offsets":[0,64]},'
        b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        "is there twice",
    ),
    "digits": (
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,64]}}',
        "too many digits",
    ),
    "nan": (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,64]}}', "no number of JSON"),
    "infinite": (
        b'{"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,64]}}',
        "no number of JSON",
    ),
    "not_utf8": (b'{"\xff":1}', "is not UTF-8"),
    "surrogate": (b'{"\\ud800":1}', "surrogate"),
    "cut": (b'{"a":', "not a JSON object"),
    "line_ends": ({"a\nb\x1b[2J": entry(0, 64, [15])}, "a?b?[2J"),
}


def strings(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def gguf(tensors: int, keys: int, body: bytes = b"\0" * 64, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + body


def place(kind: int = 0, offset: int = 0, *shape: int) -> bytes:
    return (
        strings(b"t")
        + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        + b"\0" * 64
    )


ARCHITECTURE = strings(b"general.architecture") + struct.pack("<I", 8) + strings(b"llama")
GGUF = {
    "tensors": (gguf(1 << 63, 0), "the number of tensors"),
    "keys": (gguf(0, 1 << 63), "the number of keys"),
    "many_tensors": (gguf(70000, 0, b"\0" * 70000 * 24), "expected at most 65536"),
    "many_keys": (gguf(0, 70000, b"\0" * 70000 * 24), "expected at most 65536"),
    "text": (gguf(0, 1, struct.pack("<Q", 1 << 63) + b"\0" * 32), "the length of a text"),
    "array": (
        gguf(0, 1, strings(b"k") + struct.pack("<IIQ", 9, 0, 1 << 63) + b"\0" * 32),
        "the number of values",
    ),
    "many_values": (
        gguf(0, 1, strings(b"k") + struct.pack("<IIQ", 9, 0, 9 << 20) + b"\0" * (9 << 20)),
        "in all metadata",
    ),
    "array_of_arrays": (
        gguf(0, 1, strings(b"k") + struct.pack("<IIQ", 9, 9, 1) + b"\0" * 32),
        "type 9 is not supported",
    ),
    "kind_of_value": (
        gguf(0, 1, strings(b"k") + struct.pack("<I", 99) + b"\0" * 32),
        "type 99 are not known",
    ),
    "twice": (
        gguf(0, 2, 2 * (strings(b"k") + struct.pack("<IB", 0, 1)) + b"\0" * 32),
        "is there twice",
    ),
    "not_utf8": (gguf(0, 1, strings(b"\xff\xfe") + b"\0" * 64), "not UTF-8"),
    "dimensions": (
        gguf(1, 0, strings(b"t") + struct.pack("<I", 1 << 31) + b"\0" * 64),
        "dimensions",
    ),
    "shape": (gguf(1, 0, place(0, 0, 1 << 62, 4, 1, 1)), "no tensor's"),
    "empty": (gguf(1, 0, place(0, 0, 0, 4)), "no tensor's"),
    "offset": (gguf(1, 0, place(0, (1 << 64) - 32, 4)), "has 16 bytes from"),
    "kind": (gguf(1, 0, place(77, 0, 4)), "not supported"),
    "overlap": (
        gguf(2, 0, place(0, 0, 16)[:-64] + place(0, 32, 16).replace(b"t", b"u", 1) + b"\0" * 256),
        "begins at 32, in t",
    ),
    "alignment_0": (
        gguf(0, 1, strings(b"general.alignment") + struct.pack("<II", 4, 0) + b"\0" * 64),
        "power of two",
    ),
    "alignment_huge": (
        gguf(0, 1, strings(b"general.alignment") + struct.pack("<IQ", 10, 1 << 63) + b"\0" * 64),
        "power of two",
    ),
    "alignment_of_array": (
        gguf(
            0, 1, strings(b"general.alignment") + struct.pack("<IIQ", 9, 0, 20000) + b"\0" * 20064
        ),
        "power of two",
    ),
    "version": (gguf(0, 0, version=9), "version 9"),
    "architecture_of_array": (
        gguf(
            0,
            1,
            strings(b"general.architecture")
            + struct.pack("<IIQ", 9, 2, 1 << 20)
            + b"\1" * (2 << 20),
        ),
        "is not supported",
    ),
    "no_sizes": (gguf(0, 1, ARCHITECTURE + b"\0" * 64), "llama.block_count: is missing"),
    "layers": (
        gguf(
            0,
            2,
            ARCHITECTURE
            + strings(b"llama.block_count")
            + struct.pack("<IQ", 10, 1 << 63)
            + b"\0" * 64,
        ),
        "llama.block_count",
    ),
    "short": (b"GGUF", "ends in it"),
    "nothing": (b"", "ends in it"),
}


def directories(folder: Path) -> dict[str, str]:
    """Directories with an index of shards, and things that are no files."""
    index = "model.safetensors.index.json"

    def made(name: str, content: object) -> Path:
        (folder / name).mkdir()
        (folder / name / index).write_text(
            content if isinstance(content, str) else json.dumps(content)
        )
        return folder / name

    made("outside", {"weight_map": {"a": "../../../etc/passwd"}})
    made("absolute", {"weight_map": {"a": "/etc/passwd"}})
    made("itself", {"weight_map": {"a": index}})
    made("nested", "[" * 200000)
    made("list", [])
    made("map_of_list", {"weight_map": [1]})
    made("zero_byte", {"weight_map": {"a": "a\0b"}})
    made("number", {"weight_map": {"a": 1}})
    made("folder", {"weight_map": {"a": "shard"}}).joinpath("shard").mkdir()
    made("device", {"weight_map": {"a": "shard"}}).joinpath("shard").symlink_to("/dev/zero")
    os.mkfifo(made("pipe", {"weight_map": {"a": "shard"}}) / "shard")
    header = json.dumps({"a": entry(0, 4, [1])}).encode()
    twice = made("one_file_twice", {"weight_map": {"a": "first", "b": "second"}})
    (twice / "first").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    (twice / "second").symlink_to("first")
    (folder / "nothing_in_it").mkdir()
    return {
        "outside": "not a file beside the index",
        "absolute": "not a file beside the index",
        "itself": "is JSON, not weights: give the directory that it is in",
        "nested": "nested deeper",
        "list": "not a JSON object",
        "map_of_list": "weight_map",
        "zero_byte": "not a file beside the index",
        "number": "not a file beside the index",
        "folder": "is a directory, expected a file",
        "device": "is a device, expected a file",
        "pipe": "is a pipe, expected a file",
        "one_file_twice": "are one file",
        "nothing_in_it": "a directory without",
    }


def others(folder: Path) -> dict[str, str]:
    """Sources that are no file, or hardly."""
    (folder / "empty.pt").write_bytes(b"")
    (folder / "device.pt").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.pt")
    with open(folder / "sparse.pt", "wb") as file:
        file.truncate(1 << 40)
    (folder / "text.pt").write_text("hello " * 20)
    with open(folder / "sparse.safetensors", "wb") as file:
        file.write(struct.pack("<Q", 1 << 28) + b"{")
        file.truncate(1 << 29)
    (folder / "versioned.bin").write_bytes(
        struct.pack("<Ii7i", 0x616B3432, 2, *(1 << 30,) * 7)
        + b"\1"
        + struct.pack("<i", 0)
        + b"\0" * 256
    )
    return {
        "empty.pt": "is empty",
        "device.pt": "is a device",
        "pipe.pt": "is a pipe",
        "sparse.pt": "neither",
        "text.pt": "neither",
        "sparse.safetensors": "header has",
        "versioned.bin": "llama2.c",
    }


def legacy(pickle: bytes) -> bytes:
    return (
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 "
        b"j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00protocol_version"
        b"M\xe9\x03X\r\x00\x00\x00little_endian\x88u." + pickle
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[dict, dict]:
    """({name: (source, what the line says)}, the results of all)."""
    folder = tmp_path_factory.mktemp("hostile")
    sources: dict[str, tuple[Path, str]] = {}
    for name, (pickle, says) in PICKLES.items():
        sources[f"pickle-{name}"] = (
            zipped(folder / f"{name}.pt", pickle, data=4000 if name == "views" else 16),
            says,
        )
    for name, says in zips(folder).items():
        sources[name] = (folder / f"{name}.pt", says)
    for name, (header, says) in HEADERS.items():
        data = header if isinstance(header, bytes) else json.dumps(header).encode()
        sources[f"safetensors-{name}"] = (folder / f"{name}.safetensors", says)
        sources[f"safetensors-{name}"][0].write_bytes(
            struct.pack("<Q", len(data)) + data + b"\0" * 64
        )
    for name, (data, says) in GGUF.items():
        sources[f"gguf-{name}"] = (folder / f"{name}.gguf", says)
        sources[f"gguf-{name}"][0].write_bytes(data)
    for name, says in directories(folder).items():
        sources[f"directory-{name}"] = (folder / name, says)
    for name, says in others(folder).items():
        sources[f"other-{name}"] = (folder / name, says)
    for name in ("storage_hash", "os_system", "deep", "key"):
        path = folder / f"legacy-{name}.bin"
        path.write_bytes(legacy(PICKLES[name][0]) + b"\x80\x02].")
        sources[f"legacy-{name}"] = (path, "" if name == "deep" else PICKLES[name][1])
    described = folder / "described.toml"
    described.write_text(TOML)
    cases = {
        name: [
            str(path),
            *(
                []
                if name.startswith("gguf") or path.suffix == ".bin" and "versioned" in path.name
                else ["--describe", str(described)]
            ),
        ]
        for name, (path, _) in sources.items()
    }
    results = hostile.run(cases, folder)
    assert not list(folder.rglob("it-ran"))
    return sources, results


NAMES = [
    *(f"pickle-{n}" for n in PICKLES),
    *(
        f"zip_{n}"
        for n in (
            "version offset size encrypted directory no_directory twice overlap compressed "
            "bomb program two order cut"
        ).split()
    ),
    *(f"safetensors-{n}" for n in HEADERS),
    *(f"gguf-{n}" for n in GGUF),
    *(
        f"directory-{n}"
        for n in (
            "outside absolute itself nested list map_of_list zero_byte number folder "
            "device pipe one_file_twice nothing_in_it"
        ).split()
    ),
    *(
        f"other-{n}"
        for n in (
            "empty.pt device.pt pipe.pt sparse.pt text.pt sparse.safetensors versioned.bin"
        ).split()
    ),
    *(f"legacy-{n}" for n in ("storage_hash", "os_system", "deep", "key")),
]


@pytest.mark.parametrize("name", NAMES)
def test_one_line(made, name):
    sources, results = made
    hostile.check(name, results, *sources[name])


def test_all_of_them(made):
    assert sorted(made[0]) == sorted(NAMES)


def test_pickles_of_every_opcode_twice(tmp_path):
    """Short programs of random opcodes: an error of ours or a checkpoint, never another
    exception."""
    import pickletools
    import random

    random.seed(5)
    codes = [op.code.encode("latin-1") for op in pickletools.opcodes]
    refused = 0
    for i in range(1500):
        body = b"".join(
            random.choice(
                (
                    random.choice(codes),
                    bytes([random.randrange(256)]),
                    b"K\x01",
                    text(b"w"),
                    storage(),
                    b"}",
                    b"(",
                    b")",
                )
            )
            for _ in range(random.randrange(1, 12))
        )
        path = zipped(tmp_path / "m.pt", b"\x80\x04" + body + b".")
        try:
            open_checkpoint(path)
        except PhasorError as error:
            refused += 1
            assert str(error).startswith(str(path)) and len(str(error).splitlines()) == 1
    assert refused > 1400


@pytest.mark.long
@pytest.mark.skipif(
    not SHARED.is_dir(), reason="the reproductions beside the checkout are not there"
)
def test_the_reproductions_beside_the_checkout(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    subprocess.run(
        [sys.executable, str(SHARED / "make.py"), str(files)],
        check=True,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        [sys.executable, str(SHARED / "hash_bomb.py"), str(files / "hash_bomb.pt")],
        check=True,
        cwd=tmp_path,
    )
    (tmp_path / "d.toml").write_text(TOML)
    sources = {path.name: path for path in sorted(files.iterdir())}
    results = hostile.run(
        {
            name: [str(path)]
            + ([] if path.suffix == ".gguf" else ["--describe", str(tmp_path / "d.toml")])
            for name, path in sources.items()
        },
        tmp_path,
    )
    assert len(sources) >= 69
    for name, path in sources.items():
        hostile.check(name, results, path)
    assert not list(tmp_path.rglob("PWNED*"))
