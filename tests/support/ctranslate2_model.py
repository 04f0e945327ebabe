"""A small encoder-decoder as CTranslate2 writes it, in any of its binary versions and types: made
from the format's description, without the package."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEADS, HIDDEN, LAYERS = 16, 4, 24, 2
WORDS = {
    side: ["<blank>", "<s>", "</s>", *letters]
    for side, letters in (("source", "abcdefgh"), ("target", "ABCDEFGHIJ"))
}
_TYPE = {"<f4": 0, "i1": 1, "<i2": 2, "<i4": 3, "<f2": 4, "bf16": 5}


def text(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


class Model:
    """Variables by name, which a test may change before they are written."""

    def __init__(self, seed: int = 1, spec: str = "TransformerSpec") -> None:
        rng = np.random.default_rng(seed)
        self.spec, self.aliases = spec, {}
        self.values: dict[str, np.ndarray] = {}
        self.kinds: dict[str, str] = {}
        draw = lambda *shape: rng.normal(0, 0.3, shape).astype(np.float32)  # noqa: E731

        def linear(name: str, rows: int, cols: int) -> None:
            self.values[f"{name}/weight"], self.values[f"{name}/bias"] = (
                draw(rows, cols),
                draw(rows),
            )

        def norm(name: str) -> None:
            self.values[f"{name}/gamma"], self.values[f"{name}/beta"] = 1 + draw(WIDTH), draw(WIDTH)

        for stack, side in (("encoder", "source"), ("decoder", "target")):
            place = "embeddings_0" if stack == "encoder" else "embeddings"
            self.values[f"{stack}/{place}/weight"] = draw(len(WORDS[side]) + 1, WIDTH)
            norm(f"{stack}/layer_norm")
            for i in range(LAYERS):
                layer = f"{stack}/layer_{i}"
                linear(f"{layer}/self_attention/linear_0", 3 * WIDTH, WIDTH)
                linear(f"{layer}/self_attention/linear_1", WIDTH, WIDTH)
                norm(f"{layer}/self_attention/layer_norm")
                if stack == "decoder":
                    linear(f"{layer}/attention/linear_0", WIDTH, WIDTH)
                    linear(f"{layer}/attention/linear_1", 2 * WIDTH, WIDTH)
                    linear(f"{layer}/attention/linear_2", WIDTH, WIDTH)
                    norm(f"{layer}/attention/layer_norm")
                linear(f"{layer}/ffn/linear_0", HIDDEN, WIDTH)
                linear(f"{layer}/ffn/linear_1", WIDTH, HIDDEN)
                norm(f"{layer}/ffn/layer_norm")
        linear("decoder/projection", len(WORDS["target"]) + 1, WIDTH)
        for stack in ("encoder", "decoder"):
            self.number(f"{stack}/num_heads", HEADS, "<i2")
            self.number(f"{stack}/pre_norm", 1, "i1")
            self.number(f"{stack}/activation", 0, "i1")
            self.number(f"{stack}/scale_embeddings", 1, "i1")

    def number(self, name: str, value: float, kind: str = "<f4") -> None:
        self.values[name], self.kinds[name] = np.array(value), kind

    def quantize(self, kind: str) -> None:
        """int8 or int16, as the package's own quantization defines them."""
        for name in [n for n in self.values if n.endswith("/weight")]:
            value = self.values[name]
            if kind == "i1":
                scale = (np.float32(127) / np.abs(value).max(axis=1)).astype(np.float32)
                self.values[name] = np.rint(value * scale[:, None])
            else:
                scale = np.float32(1024 / np.abs(value).max())
                self.values[name] = np.rint(value * scale)
            self.kinds[name] = kind
            self.values[f"{name}_scale"] = np.asarray(scale, np.float32)

    def meaning(self) -> dict[str, np.ndarray]:
        """The values in f32: an integer times one by its scale."""
        out = {}
        for name, value in self.values.items():
            if f"{name}_scale" in self.values:
                scale = self.values[f"{name}_scale"].reshape(-1, 1)
                out[name] = value.astype(np.float32) * (np.float32(1) / scale)
            elif not name.endswith("_scale"):
                out[name] = value.astype(np.float32)
        return out

    def bytes(self, version: int = 6) -> bytes:
        out = struct.pack("<I", version) + text(self.spec) + struct.pack("<II", 7, len(self.values))
        for name, value in sorted(self.values.items()):
            kind = self.kinds.get(name, "<f4")
            if kind == "bf16":
                data = (
                    (np.ascontiguousarray(value, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
                )
            else:
                data = np.ascontiguousarray(value).astype(kind).tobytes()
            out += text(name) + struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
            size = len(data) // max(value.size, 1)
            out += struct.pack(
                "<BI", *((_TYPE[kind], len(data)) if version >= 4 else (size, value.size))
            )
            out += data
        if version >= 3:
            out += struct.pack("<I", len(self.aliases))
            out += b"".join(text(a) + text(b) for a, b in self.aliases.items())
        return out

    def files(self, version: int = 6, config: dict[str, Any] | None = None) -> dict[str, bytes]:
        more = {"config.json": json.dumps(config).encode()} if config is not None else {}
        for side, words in WORDS.items():
            if version >= 6:
                more[f"{side}_vocabulary.json"] = json.dumps(words).encode()
            else:
                more[f"{side}_vocabulary.txt"] = ("\n".join(words) + "\n").encode()
        return {"model.bin": self.bytes(version), **more}

    def write(self, folder: Path, version: int = 6, config: dict[str, Any] | None = None) -> Path:
        folder.mkdir(exist_ok=True)
        for name, data in self.files(version, config).items():
            (folder / name).write_bytes(data)
        return folder
