"""llama2.c's .bin files: the real one tells its story, a small one with an output of its own agrees
with the reference."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import torch_zip  # noqa: E402
from conversions import contents, convert_to, refused
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.reference.forward import Reference  # noqa: E402
from phasor.sources.llama2c import model as llama2c  # noqa: E402
from phasor.sources.llama2c.tokenizer import read_tokenizer_bin  # noqa: E402
from phasor.tokenizers.sentencepiece import read_model_proto  # noqa: E402
from places import DATA, program

SHARED = DATA / "llama2c"


def phasor(*arguments: object) -> bytes:
    done = subprocess.run([program(), *map(str, arguments)], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def write_small(path: Path, own_output: bool, vocabulary: int = 33) -> None:
    c = llama2c.Config(20, 28, 2, 5, 5, vocabulary, 24, own_output)
    rng = np.random.default_rng(3)
    with open(path, "wb") as file:
        file.write(
            struct.pack(
                "<7i",
                c.width,
                c.hidden,
                c.layers,
                c.heads,
                c.kv_heads,
                -c.vocabulary if own_output else c.vocabulary,
                c.positions,
            )
        )
        for shape in c.shapes().values():
            file.write(rng.normal(0, 0.3, shape).astype("<f4").tobytes())


@pytest.mark.parametrize("own_output", [False, True])
def test_a_small_file_gives_the_references_tokens(tmp_path: Path, own_output: bool) -> None:
    write_small(tmp_path / "small.bin", own_output)
    convert_to(tmp_path / "small.bin", tmp_path / "small.phasor")
    want = Reference(PhasorFile(tmp_path / "small.phasor")).greedy(None, 12, prefix=[7, 3])
    got = phasor(
        "run", tmp_path / "small.phasor", "--ids", "7,3", "--print-ids", "-n", 12, "--quiet"
    )
    assert [int(x) for x in got.split(b",")] == list(want)
    phasor("verify", tmp_path / "small.phasor")


# ---- Its own tokenizer

PIECES = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % value for value in range(256))]
PIECES += [b" ", b"a", b"b", b"ab", b" a", b" ab"]


IDS = [1, 264, 259, 264, 198, 172]  # of "ab  ab\u00e9", as run.c encodes it


def tokenizer_bin(pieces: list[bytes] = PIECES, longest: int = 7, scores: dict = {}) -> bytes:
    out = struct.pack("<I", longest)
    for i, text in enumerate(pieces):
        out += struct.pack("<fi", scores.get(i, float(-i) if i > 258 else 0.0), len(text)) + text
    return out


def test_its_own_tokenizer_is_the_model_that_it_was_exported_from() -> None:
    """tok512.bin is what llama2.c exports from tok512.model, but for what run.c does otherwise:
    it leaves runs of spaces, and has no words for the unknown piece."""
    if not SHARED.is_dir():
        pytest.skip(f"the checkpoint is not here: {SHARED}")
    ours = read_tokenizer_bin((SHARED / "tok512.bin").read_bytes())
    theirs = read_model_proto((SHARED / "tok512.model").read_bytes())
    assert theirs["remove_extra"] and not ours["remove_extra"]
    for name in set(ours) - {"remove_extra", "unknown_surface"}:
        assert ours[name] == theirs[name], name


def of_shared(checkpoint: str, out: Path) -> Path:
    """A checkpoint of SHARED as a weight file."""
    if not SHARED.is_dir():
        pytest.skip(f"the checkpoint is not here: {SHARED}")
    return convert_to(SHARED / checkpoint, out, "--tokenizer", SHARED / "tok512.model")


def test_stories260K_tells_its_story(tmp_path: Path) -> None:
    """Rotary positions with real weights: 200 greedy tokens, byte for byte."""
    out = of_shared("stories260K.bin", tmp_path / "stories.phasor")
    expected = (SHARED / "stories260K.expected.txt").read_bytes()
    words = ("run", out, "--ids", 1, "-n", 200, "--quiet")
    assert phasor(*words) == expected + b"\n"
    assert phasor(*words, "--threads", 2, "--isa", "scalar") == expected + b"\n"
    text = phasor("run", out, "Once upon a time", "-n", 20, "--quiet")
    assert expected.startswith(b"Once upon a time" + text.rstrip(b"\n")[:40])


def test_llama2xs_tells_its_story(tmp_path: Path) -> None:
    out = of_shared("llama2xs.model.bin", tmp_path / "xs.phasor")
    expected = (SHARED / "llama2xs.runc-greedy200.txt").read_bytes()
    got = phasor("run", out, "--ids", 1, "-n", 200, "--quiet")
    assert got.rstrip(b"\n") == expected.rstrip(b"\n")


# ---- Versions 1 and 2, and the trainer's checkpoints: written here by the layout of its export.py


ORDER = ("tok_embeddings", "wq", "wk", "wv", "wo", "w1", "w2", "w3")


class Small:
    """A random Llama under the names of llama2.c's model.py."""

    def __init__(
        self,
        own_output: bool,
        kv_heads: int = 2,
        width: int = 32,
        hidden: int = 64,
        heads: int = 4,
        layers: int = 2,
        vocabulary: int = 48,
    ) -> None:
        rng = np.random.default_rng(11)
        self.own, self.layers, self.numbers = (
            own_output,
            layers,
            (width, hidden, layers, heads, kv_heads, vocabulary, 24),
        )
        kv = width // heads * kv_heads
        rows = {
            "wq": (width, width),
            "wk": (kv, width),
            "wv": (kv, width),
            "wo": (width, width),
            "w1": (hidden, width),
            "w2": (width, hidden),
            "w3": (hidden, width),
        }
        self.names = {
            part: ("attention." if part in ("wq", "wk", "wv", "wo") else "feed_forward.") + part
            for part in rows
        }
        self.tensors = {
            "tok_embeddings.weight": rng.normal(0, 0.5, (vocabulary, width)),
            "norm.weight": rng.normal(1, 0.1, width),
        }
        for i in range(layers):
            for part, shape in rows.items():
                self.tensors[f"layers.{i}.{self.names[part]}.weight"] = rng.normal(0, 0.2, shape)
            for part in ("attention_norm", "ffn_norm"):
                self.tensors[f"layers.{i}.{part}.weight"] = rng.normal(1, 0.1, width)
        if own_output:
            self.tensors["output.weight"] = rng.normal(0, 0.5, (vocabulary, width))
        self.tensors = {name: value.astype("<f4") for name, value in self.tensors.items()}

    def norms(self) -> list[np.ndarray]:
        return [
            self.tensors[f"layers.{i}.{part}.weight"]
            for part in ("attention_norm", "ffn_norm")
            for i in range(self.layers)
        ] + [self.tensors["norm.weight"]]

    def matrices(self) -> list[str]:
        out = ["tok_embeddings.weight"] + [
            f"layers.{i}.{self.names[part]}.weight"
            for part in ORDER[1:]
            for i in range(self.layers)
        ]
        return out + (["output.weight"] if self.own else [])

    def write(self, path: Path, version: int, group: int = 0) -> Path:
        head = struct.pack("<Ii7iB", 0x616B3432, version, *self.numbers, not self.own) + (
            struct.pack("<i", group) if version == 2 else b""
        )
        with open(path, "wb") as file:
            file.write(head.ljust(256, b"\0"))
            for norm in self.norms():
                file.write(norm.tobytes())
            for name in self.matrices():
                if version == 1:
                    file.write(self.tensors[name].tobytes())
                    continue
                values = self.tensors[name].reshape(-1, group)
                scale = (np.abs(values).max(axis=1, keepdims=True) / np.float32(127)).astype("<f4")
                whole = np.round(values / scale).astype(np.int8)
                file.write(whole.tobytes() + scale.tobytes())
                self.tensors[name] = (whole * scale).astype("<f4").reshape(self.tensors[name].shape)
        return path

    def write_checkpoint(self, path: Path, prefix: str = "", **more: object) -> Path:
        names = (
            "dim",
            "n_layers",
            "n_heads",
            "n_kv_heads",
            "vocab_size",
            "max_seq_len",
            "multiple_of",
            "dropout",
        )
        width, _, layers, heads, kv_heads, vocabulary, positions = self.numbers
        arguments = {
            **dict(zip(names, (width, layers, heads, kv_heads, vocabulary, positions, 32, 0.0))),
            **more,
        }
        both = {
            **self.tensors,
            "output.weight": self.tensors.get(
                "output.weight", self.tensors["tok_embeddings.weight"]
            ),
        }
        return torch_zip.save_nested(
            path,
            {
                "model": {prefix + name: value for name, value in both.items()},
                "model_args": arguments,
                "optimizer": {"state": {0: {"step": np.ones(1, "<f4")}}},
                "iter_num": 3,
                "best_val_loss": np.ones(1, "<f4"),
            },
        )


def converted(source: Path, *more: object) -> dict[int, bytes]:
    return contents(convert_to(source, source.parent / "out.phasor", *more))


@pytest.mark.parametrize("own_output", [False, True])
def test_version_1_and_the_checkpoint_give_one_file(tmp_path: Path, own_output: bool) -> None:
    small = Small(own_output)
    first = converted(small.write(tmp_path / "small.bin", 1))
    assert converted(small.write_checkpoint(tmp_path / "small.ckpt.pt")) == first
    assert converted(tmp_path / "small.bin", "--tokenizer", "none") == first
    assert (
        converted(
            small.write_checkpoint(
                tmp_path / "small.pt", "_orig_mod.", norm_eps=1e-5, hidden_dim=None
            )
        )
        == first
    )
    file = PhasorFile(tmp_path / "out.phasor")
    assert np.array_equal(
        file.weights(4 << 24 | 1 << 8 | 0x90), small.tensors["layers.1.feed_forward.w2.weight"]
    )
    assert np.array_equal(
        file.weights(4 << 24 | 0 << 8 | 0x80), small.tensors["layers.0.ffn_norm.weight"]
    )
    assert (
        file.descriptor["output"]["tied"] == (0 if own_output else 1)
        and file.descriptor["kinds"][0]["kv_heads"] == 2
    )


@pytest.mark.parametrize("own_output", [False, True])
def test_version_2_has_the_values_of_its_groups(tmp_path: Path, own_output: bool) -> None:
    small = Small(own_output)
    first = converted(small.write(tmp_path / "small.bin", 2, 32))
    (tmp_path / "exact").mkdir()
    assert converted(small.write(tmp_path / "exact" / "small.bin", 1)) == first


def test_version_2_as_q8_keeps_its_integers(tmp_path: Path) -> None:
    """In groups of 32 a scale becomes f16, and no integer changes."""
    small = Small(False)
    small.write(tmp_path / "small.bin", 2, 32)
    converted(tmp_path / "small.bin", "--type", "q8")
    exact = small.tensors["layers.0.feed_forward.w1.weight"]
    stored = PhasorFile(tmp_path / "out.phasor").weights(4 << 24 | 0x88)[: exact.shape[0]]
    groups, rounded = exact.reshape(-1, 32), np.asarray(stored, np.float32).reshape(-1, 32)
    scale, ours = (np.abs(g).max(axis=1, keepdims=True) / 127 for g in (groups, rounded))
    assert (
        np.array_equal(np.round(groups / scale), np.round(rounded / ours))
        and np.abs(ours / scale - 1).max() < 2.0**-11
    )


@pytest.mark.parametrize(
    "at, value, what",
    [(4, 3, "version 3"), (8, 0, "numbers"), (36, 2, "numbers"), (37, 31, "groups of 31")],
)
def test_a_header_that_is_not_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture, at: int, value: int, what: str
) -> None:
    path = Small(False).write(tmp_path / "small.bin", 2, 32)
    data = bytearray(path.read_bytes())
    data[at] = value
    path.write_bytes(data)
    assert what in refused(path, tmp_path / "out", capsys)


def test_a_versioned_file_that_is_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = Small(False).write(tmp_path / "small.bin", 1)
    whole = path.read_bytes()
    for size in (100, len(whole) - 4):
        path.write_bytes(whole[:size])
        refused(path, tmp_path / "out", capsys)


@pytest.mark.parametrize(
    "more, what",
    [
        ({"norm_eps": 1e-6}, "norm_eps"),
        ({"rope_theta": 5e5}, "rope_theta"),
        ({"n_layers": 3}, "layers.2"),
        ({"n_layers": 1}, "left over"),
        ({"n_heads": 5}, "sizes"),
        ({"n_heads": "4"}, "sizes"),
    ],
)
def test_a_checkpoint_that_is_not_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture, more: dict, what: str
) -> None:
    path = Small(False).write_checkpoint(tmp_path / "small.pt", **more)
    assert what in refused(path, tmp_path / "out", capsys)


def test_the_published_checkpoint_gives_the_file_of_its_export(tmp_path: Path) -> None:
    names = ("llama2xs.ckpt.pt", "llama2xs.model.bin")
    first, second = (contents(of_shared(name, tmp_path / "xs")) for name in names)
    assert first == second
