"""A model with short convolutions beside llama.cpp: the shape of LFM2-350M with random weights. A
row of tools/bench.

The GGUF file is written by the gguf package; ours is that file converted, without loss. Each engine
decodes 32 greedy steps behind a prompt of 16 tokens, and reads a prompt of 128.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import OURS, Engines, Results, Worker, at_threads, convert, peer, types_of
from bench.decoder import LLAMA, same_tokens
from bench.models import GGUF_TYPES
from phasor.files import replacing

WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY, TAPS = 1024, 4608, 16, 16, 8, 65536, 3
ATTENTION = (2, 5, 8, 10, 12, 14)  # the layers without a convolution
HEAD, STEPS, PROMPT, AIM = WIDTH // HEADS, 32, 128, 1.3
_SHORT = {
    "shortconv.in_proj": (3 * WIDTH, WIDTH),
    "shortconv.conv": (WIDTH, TAPS),
    "shortconv.out_proj": (WIDTH, WIDTH),
}
_ATTENDING = {
    "attn_q": (WIDTH, WIDTH),
    "attn_k": (KV_HEADS * HEAD, WIDTH),
    "attn_v": (KV_HEADS * HEAD, WIDTH),
    "attn_output": (WIDTH, WIDTH),
    "attn_q_norm": (HEAD,),
    "attn_k_norm": (HEAD,),
}
_BLOCK: dict[str, tuple[int, ...]] = {
    "attn_norm": (WIDTH,),
    "ffn_norm": (WIDTH,),
    "ffn_gate": (HIDDEN, WIDTH),
    "ffn_up": (HIDDEN, WIDTH),
    "ffn_down": (WIDTH, HIDDEN),
}


def shapes() -> dict[str, tuple[int, ...]]:
    """Of every tensor, by its GGUF name."""
    out: dict[str, tuple[int, ...]] = {
        "token_embd": (VOCABULARY, WIDTH),
        "token_embd_norm": (WIDTH,),
    }
    for i in range(LAYERS):
        own = _ATTENDING if i in ATTENTION else _SHORT
        out |= {f"blk.{i}.{name}": shape for name, shape in {**_BLOCK, **own}.items()}
    return out


def value(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Always the same: norms of ones, matrices that keep a vector's size."""
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(shape[-1] ** -0.5)


def write_gguf(path: Path, kind: str) -> None:
    import gguf

    f32, type_ = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType[GGUF_TYPES[kind]]
    with replacing(path) as file:
        writer = gguf.GGUFWriter(file.name, "lfm2")
        writer.add_tokenizer_model("no_vocab")
        for name, number in {
            "block_count": LAYERS,
            "context_length": 8192,
            "embedding_length": WIDTH,
            "feed_forward_length": HIDDEN,
            "attention.head_count": HEADS,
            "vocab_size": VOCABULARY,
            "shortconv.l_cache": TAPS,
        }.items():
            writer.add_uint32(f"lfm2.{name}", number)
        kv_heads = [KV_HEADS * (i in ATTENTION) for i in range(LAYERS)]
        writer.add_array("lfm2.attention.head_count_kv", kv_heads)
        writer.add_float32("lfm2.attention.layer_norm_rms_epsilon", 1e-5)
        writer.add_float32("lfm2.rope.freq_base", 1e6)
        for name, shape in shapes().items():
            own = type_ if len(shape) == 2 and "conv.conv" not in name else f32
            made = value(name, shape)
            data = made if own == f32 else gguf.quants.quantize(made, own)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=own)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def files(folder: Path, kind: str) -> tuple[Path, Path]:
    """(the GGUF file, ours), made if they are not there."""
    theirs, own = (folder / "models" / f"lfm2-350m-{kind}.{end}" for end in ("gguf", "phasor"))
    theirs.parent.mkdir(parents=True, exist_ok=True)
    if not theirs.exists():
        write_gguf(theirs, kind)
    if not own.exists() or own.stat().st_mtime < theirs.stat().st_mtime:
        convert(theirs, own, None, tokenizer="none")
    return theirs, own


def row_lfm2(args: Any, results: Results) -> None:
    for kind in types_of(args, ("q4", "q8")):
        theirs, own = files(args.folder, kind)
        for threads in args.threads:
            where: dict[str, Any] = {"type": kind, "threads": threads}
            options = {"threads": threads, "context": 256}
            workers = Engines({OURS: Worker(f"{args.build}/bench_decoder", own, **options)})
            workers[LLAMA] = peer("llama", theirs, **options)
            with workers:
                results.facts |= workers.versions()
                answers = workers.take_turns(f"decode 16 {STEPS}", args.runs)
                results.add_rates("decode", answers, STEPS, **where)
                same_tokens(results, answers, f"{kind}, {threads} threads")
                answers = workers.take_turns(f"prefill {PROMPT}", args.runs)
                results.add_rates(f"prefill {PROMPT}", answers, PROMPT, **where)
            for what in ("decode", f"prefill {PROMPT}"):
                claim = f"LFM2-350M shape, {what}, {kind}, {at_threads(threads)}"
                results.aim_beside(claim, what, LLAMA, AIM, **where)
            results.save()


ROWS = {"lfm2": row_lfm2}
