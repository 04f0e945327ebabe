#!/usr/bin/env python3
"""Writes the small random models of the tests: make_models.py DIRECTORY. numpy only; the same bytes every time.

The weights are uniform numbers from SHAKE-128 of the tensor's name, so they do not depend on a library's generator.
Each model is there in f32 and in q8, with test vectors from the float64 reference; hashes are not recorded in them,
they are in tests/golden/hashes.txt. tiny-post-sin-q8 has weights of −128, which the quantiser never makes.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Callable

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import phasor_descriptor as D  # noqa: E402
import phasor_layout as L  # noqa: E402
import phasor_tensors as R  # noqa: E402
import phasor_vectors as V  # noqa: E402
from phasor_file import SOURCE_TOKENIZER, TARGET_TOKENIZER, VECTORS, PhasorFile, Quantised, replace_section, replacing, write_model  # noqa: E402
from phasor_tokenizer import build_wordlist_section  # noqa: E402

PAD, UNKNOWN, START, END = 0, 1, 2, 3


def uniform(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of [−1, 1) in f32, a function of the name and the count."""
    count = int(np.prod(shape))
    words = np.frombuffer(hashlib.shake_128(name.encode()).digest(4 * count), dtype="<u4")
    return ((words >> 8).astype(np.float64) / 2 ** 23 - 1).astype(np.float32).reshape(shape)


def random_weights(name: str, slot: R.Slot, width: int) -> np.ndarray:
    """What a trained model might have: matrices of variance 1/K, norms near 1, small biases."""
    rows = sum(slot.parts)
    if slot.role == R.SINUSOID and slot.stack in (R.SOURCE, R.TARGET):
        return 10000.0 ** (-2.0 * np.arange(rows) / width)
    if slot.stack == R.KINDS and slot.role == R.ROTARY:
        return 10000.0 ** (-np.arange(rows) / rows)
    if slot.layout == L.VECTOR:
        values = uniform(f"{name} {slot.name}", (rows,)) * np.float32(0.1)
        is_norm = slot.role in (R.ATTENTION_BEFORE, R.ATTENTION_AFTER, R.CROSS_BEFORE, R.CROSS_AFTER, R.FFN_BEFORE, R.FFN_AFTER, R.FINAL_NORM)
        return values + np.float32(1) if is_norm else values
    gain = 2.0 if slot.role == R.QKV else 1.0  # attention that is not flat
    return uniform(f"{name} {slot.name}", (rows, slot.cols)) * np.float32(gain * np.sqrt(3 / slot.cols))


def side(vocabulary: int, **more: object) -> dict:
    return {"vocabulary": vocabulary, "pad": PAD, "unknown": UNKNOWN, "start": START, "end": [END], **more}


def kind(heads: int, width: int, hidden: int, place: int, biases: bool, **more: object) -> dict:
    return {"norm": D.LAYER_NORM, "norm_place": place, "norm_eps": 1e-5, "heads": heads, "head_width": width, "scale": float(width) ** -0.5,
            "hidden": hidden, "activation": D.RELU, "attention_biases": 15 * biases, "ffn_biases": 3 * biases, **more}


def stack(width: int, layers: list[int], position: int, **more: object) -> dict:
    return {"width": width, "layers": layers, "position": position, "embedding_scale": float(width) ** 0.5, **more}


def post_sin() -> dict:
    """The original Transformer: norm after, sinusoids, an output of its own with a bias."""
    block = kind(2, 20, 52, D.AFTER, True)
    return {"model": {"stack": D.ENCODER_DECODER}, "source": side(61, suffix=[END]), "target": side(67, decoder_start=START),
            "encoder": stack(40, [0, 0, 0, 1], D.INTERLEAVED, max_positions=96), "decoder": stack(40, [1, 0, 1, 1], D.INTERLEAVED, max_positions=96),
            "kinds": [block, {**block, "cross": 1, "cross_biases": 15}], "output": {"output": D.LOGITS, "bias": 1}}


def pre_learned() -> dict:
    """Norm before with final norms, learned positions, a tied output, no biases, one key and value head for three."""
    block = kind(3, 16, 40, D.BEFORE, False, kv_heads=1, norm_biases=0)
    final = {"final_norm": D.LAYER_NORM, "final_norm_eps": 1e-5, "max_positions": 48}
    # A final layer norm has a bias in the format; the blocks' norms here have none.
    return {"model": {"stack": D.ENCODER_DECODER}, "source": side(53, suffix=[END]), "target": side(71, decoder_start=START),
            "encoder": stack(48, [0, 0, 0, 1, 0, 2], D.LEARNED, **final), "decoder": stack(48, [1, 0], D.LEARNED, **final),
            "kinds": [block, {**block, "cross": 1}], "output": {"output": D.LOGITS, "tied": D.TIED_TARGET}}


def d2l() -> dict:
    """The tutorial's style: attention without biases, five heads, sinusoids, word lists as tokenizers."""
    block = {**kind(5, 12, 36, D.AFTER, False), "ffn_biases": 3}
    return {"model": {"stack": D.ENCODER_DECODER}, "source": side(43, tokenizer=SOURCE_TOKENIZER, suffix=[END]),
            "target": side(47, tokenizer=TARGET_TOKENIZER, decoder_start=START),
            "encoder": stack(60, [0, 0], D.INTERLEAVED), "decoder": stack(60, [1, 0], D.INTERLEAVED),
            "kinds": [block, {**block, "cross": 1}], "output": {"output": D.LOGITS, "bias": 1}}


def lm() -> dict:
    """A decoder alone: norm before, ReLU, sinusoids in halves; vocabulary and hidden width are not multiples of 16."""
    return {"model": {"stack": D.DECODER}, "target": side(59), "kinds": [kind(2, 16, 44, D.BEFORE, True)],
            "decoder": stack(32, [0, 0, 0, 1], D.HALVES, final_norm=D.LAYER_NORM, final_norm_eps=1e-5), "output": {"output": D.LOGITS}}


def rotary() -> dict:
    """Llama's block: RMS norm before, gated SiLU, grouped heads, rotary positions; the two layers turn pairs and halves, the second in part."""
    block = {**kind(4, 16, 44, D.BEFORE, False, kv_heads=2, norm_biases=0), "norm": D.RMS_NORM, "activation": D.SILU, "gated": 1}
    return {"model": {"stack": D.DECODER}, "target": side(61),
            "kinds": [{**block, "position": D.ROTARY_INTERLEAVED, "rotary_width": 16}, {**block, "position": D.ROTARY_HALVES, "rotary_width": 10}],
            "decoder": {**stack(40, [0, 0, 1, 1], 0, final_norm=D.RMS_NORM, final_norm_eps=1e-5), "embedding_scale": 1.0},
            "output": {"output": D.LOGITS, "tied": D.TIED_TARGET}}


def words(language: str, count: int) -> bytes:
    """A word list: control ids, then "source4 source5 …"."""
    return build_wordlist_section(["<pad>", "<unk>", "<bos>", "<eos>"] + [f"{language}{i}" for i in range(4, count)], UNKNOWN, (PAD, START, END))


MODELS: dict[str, tuple[Callable[[], dict], bool]] = {  # name -> descriptor, weights of −128 in the q8 one
    "tiny-post-sin": (post_sin, True), "tiny-pre-learned": (pre_learned, False), "tiny-d2l": (d2l, False), "tiny-lm": (lm, False), "tiny-rotary": (rotary, False)}


def with_minus_128(values: np.ndarray) -> Quantised:
    """The q8 form with −128 wherever the quantiser has −127."""
    scales, q = L.quantize_q8(values)
    return Quantised(scales, np.where(q == -127, -128, q).astype(np.int8))


def write(path: Path, name: str, kind_: int) -> None:
    make, extreme = MODELS[name]
    descriptor = make()
    descriptor["model"].update(name=name, licence="MIT", converter="tests/golden/make_models.py")
    extra = {}
    if descriptor.get("source", {}).get("tokenizer"):
        extra = {SOURCE_TOKENIZER: words("source", 43), TARGET_TOKENIZER: words("target", 47)}
    full = D.with_defaults(descriptor)
    inputs = V.choose_inputs(full)
    extra[VECTORS] = bytes(V.section_bytes(full, inputs))

    def source(slot: R.Slot) -> np.ndarray | Quantised:
        width = full["encoder" if slot.stack in (R.SOURCE, R.ENCODER) else "decoder"]["width"]
        values = random_weights(name, slot, width)
        return with_minus_128(values) if extreme and kind_ == L.Q8 and slot.matrix else values

    with replacing(path) as file:
        write_model(file, descriptor, source, kind_, extra)
        file.flush()
        replace_section(file, VECTORS, V.build(PhasorFile(file.name), inputs))
    PhasorFile(path).check()


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_models.py DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        for kind_ in (L.F32, L.Q8):
            path = directory / f"{name}-{L.TYPES[kind_]}.phasor"
            write(path, name, kind_)
            print(f"{path.name}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
