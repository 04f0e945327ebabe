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


# ------------------------------------------------------------------ the table

def start(command):
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, stdin=subprocess.DEVNULL)
    if r.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {r.stderr.strip()}")
    return json.loads(r.stdout)


def machine():
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
                 platform.processor() or platform.machine())
    flags = next((set(line.split()) for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Features"))), set())
    seen = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "asimddp") if f in flags]
    return f"{model}, {os.cpu_count()} cores, {' '.join(seen)}"


class Series:
    """The runs of one engine, type and number of threads."""

    def __init__(self):
        self.runs = []

    def figure(self, f):
        return statistics.median(f(r) for r in self.runs)

    @property
    def encoder(self):
        return self.figure(lambda r: r["source_tokens"] / statistics.median(r["encode"]))

    @property
    def decoder(self):
        return self.figure(lambda r: r["sentences"] * (r["length"] - 1) / (statistics.median(r["all"]) - statistics.median(r["one"])))

    @property
    def whole(self):
        return self.figure(lambda r: statistics.median(r["all"]) / r["sentences"] * 1e3)

    @property
    def spread(self):
        """(slowest − fastest) / median of the whole, over the runs."""
        values = [statistics.median(r["all"]) for r in self.runs]
        return (max(values) - min(values)) / statistics.median(values)

    @property
    def peak(self):
        return self.figure(lambda r: r["rss_peak"]) / 2**20

    @property
    def before(self):
        return self.figure(lambda r: r["rss_before"]) / 2**20


def table(series, types, threads):
    lines = ["| type | threads | engine | encoder tokens/s | decoder tokens/s | whole ms | peak memory MiB (before loading) | spread |",
             "|---|---|---|---|---|---|---|---|"]
    for kind in types:
        for t in threads:
            ours, theirs = series["Phasor", kind, t], series[PEER, kind, t]
            for name, s in (("Phasor", ours), (PEER, theirs)):
                lines.append(f"| {kind} | {t} | {name} | {s.encoder:,.0f} | {s.decoder:,.0f} | {s.whole:.2f} | {s.peak:.1f} ({s.before:.1f}) | "
                             f"{s.spread * 100:.0f} % |")
            lines.append(f"| {kind} | {t} | **ratio** | **{ours.encoder / theirs.encoder:.2f}** | **{ours.decoder / theirs.decoder:.2f}** | "
                         f"**{theirs.whole / ours.whole:.2f}** | **{ours.peak / theirs.peak:.2f}** | |")
    return lines
