#!/usr/bin/env python3
"""Phasor beside CTranslate2: the same weights, the same tokens, one sentence at a time, in one run; writes docs/performance.md.

    python3 tools/bench_peer.py [MODEL] [--runs 5] [--out docs/performance.md]

The weights are read from the .phasor file and given to CTranslate2 as a TransformerSpec, so both compute the same function; the share
of equal tokens is printed with the figures. For each engine, type and number of threads a fresh process is started, in turns, --runs
times; a figure is the median over the runs.

  encoder   source tokens / seconds of encoding alone
  decoder   (L − 1) tokens a sentence / (seconds for L tokens − seconds for one token), greedy, the end token not allowed before L
  whole     milliseconds from source ids to L target ids
  memory    peak resident memory of the process, and how much of it was there before the model was loaded (Python, libraries)

Phasor runs from the C interface (tests/cpp/bench_peer.cpp), CTranslate2 from its Python package; both are called once a sentence.
"""
import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEER = "CTranslate2"


# ------------------------------------------------------------------ the peer: its own process

def resident(field):
    with open("/proc/self/status", encoding="ascii") as f:
        for line in f:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def peer(directory, ids_path, threads, compute, length, passes):
    """Prints the same JSON as tests/cpp/bench_peer.cpp."""
    import ctranslate2
    before = resident("VmRSS:")
    common = {"device": "cpu", "compute_type": compute, "inter_threads": 1, "intra_threads": threads}
    translator = ctranslate2.Translator(f"{directory}/translator", **common)
    sentences = [[token(int(x)) for x in line.split()] for line in Path(ids_path).read_text().splitlines() if line.strip()]
    never = [[token(i)] for i in json.loads(Path(f"{directory}/never.json").read_text())]

    def translate(count):
        out = []
        for s in sentences:
            r = translator.translate_batch([s], beam_size=1, max_decoding_length=count, min_decoding_length=count, suppress_sequences=never)
            out.append(r[0].hypotheses[0])
        return out

    def timed(f, *args):
        start = time.perf_counter()
        result = f(*args)
        return time.perf_counter() - start, result

    translate(length)  # warm-up
    one, every, encode, out = [], [], [], None
    for _ in range(passes):
        one.append(timed(translate, 1)[0])
        seconds, out = timed(translate, length)
        every.append(seconds)
    peak = resident("VmHWM:")  # of translating: the second copy of the encoder comes after
    encoder = ctranslate2.Encoder(f"{directory}/encoder", **common)

    def encode_all():
        for s in sentences:
            encoder.forward_batch([s])
    encode_all()
    for _ in range(passes):
        encode.append(timed(encode_all)[0])
    print(json.dumps({
        "version": ctranslate2.__version__, "threads": threads, "sentences": len(sentences), "source_tokens": sum(map(len, sentences)),
        "length": length, "encode": encode, "one": one, "all": every, "rss_before": before, "rss_peak": peak,
        "ids": [[int(t[1:]) for t in s] for s in out]}))


def token(i):
    return f"t{i}"


def export_peer(directory, compute, m):
    """Writes the model as CTranslate2 reads it. m: see read_model."""
    import ctranslate2
    import numpy as np
    from ctranslate2.specs import TransformerEncoderModelSpec, TransformerSpec, common_spec, transformer_spec  # noqa: F401

    def build():
        spec = TransformerSpec.from_config((m["encoder_layers"], m["decoder_layers"]), m["heads"], pre_norm=m["pre_norm"],
                                           activation=common_spec.Activation.RELU)
        t = m["tensors"]

        def linear(to, stack, set_, role):
            to.weight = t[stack, set_, role]
            if (stack, set_, role + 1) in t:
                to.bias = t[stack, set_, role + 1]

        def norm(to, stack, set_, role):
            to.gamma, to.beta = t[stack, set_, role], t[stack, set_, role + 1]

        def layer(to, stack, i):
            first, second, third = (0x10, 0x50, 0x80) if m["pre_norm"] else (0x48, 0x70, 0x98)
            norm(to.self_attention.layer_norm, stack, i, first)
            linear(to.self_attention.linear[0], stack, i, 0x20)
            linear(to.self_attention.linear[1], stack, i, 0x40)
            if stack == 4:
                norm(to.attention.layer_norm, stack, i, second)
                linear(to.attention.linear[0], stack, i, 0x58)
                linear(to.attention.linear[1], stack, i, 0x60)
                linear(to.attention.linear[2], stack, i, 0x68)
            norm(to.ffn.layer_norm, stack, i, third)
            linear(to.ffn.linear_0, stack, i, 0x88)
            linear(to.ffn.linear_1, stack, i, 0x90)

        for side, stack, part in ((1, 2, spec.encoder), (3, 4, spec.decoder)):
            embeddings = part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings
            embeddings.weight = t[side, 0, 1]
            part.scale_embeddings = m["scaled"]
            part.position_encodings.encodings = m["positions"][side]
            for i, to in enumerate(part.layer):
                layer(to, stack, i)
            if m["pre_norm"]:
                norm(part.layer_norm, stack, 0xFFFF, 0xF0)
        spec.decoder.projection.weight = t[5, 0, 1] if (5, 0, 1) in t else t[3, 0, 1]
        return spec

    vocabulary = {side: [token(i) for i in range(m["tensors"][side, 0, 1].shape[0])] for side in (1, 3)}

    def save(spec, path):
        spec.validate()
        spec.optimize(quantization=None if compute == "float32" else compute)
        os.makedirs(path, exist_ok=True)
        spec.save(path)

    spec = build()
    spec.register_source_vocabulary(vocabulary[1])
    spec.register_target_vocabulary(vocabulary[3])
    names = {"unk_token": m["unknown"], "bos_token": m["decoder_start"], "eos_token": m["end"], "decoder_start_token": m["decoder_start"]}
    for name, i in names.items():
        setattr(spec.config, name, token(i))
    spec.config.add_source_bos = spec.config.add_source_eos = False
    save(spec, f"{directory}/translator")

    encoder = TransformerEncoderModelSpec(build().encoder)
    encoder.register_vocabulary(vocabulary[1])
    encoder.config.unk_token, encoder.config.bos_token, encoder.config.eos_token = token(m["unknown"]), token(m["decoder_start"]), token(m["end"])
    save(encoder, f"{directory}/encoder")
    Path(f"{directory}/never.json").write_text(json.dumps(m["never"]))
