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


# ------------------------------------------------------------------ the model

def random_model(path):
    """A file of the shape that the project ships, with random weights: for trying this program."""
    import numpy as np
    import phasor_file
    import phasor_layout
    rng = np.random.default_rng(1)
    d, layers = 256, 3
    kind = {"norm": 1, "norm_place": 1, "norm_eps": 1e-5, "heads": 4, "head_width": 64, "scale": 0.125, "attention_biases": 15, "hidden": 1024,
            "activation": 1, "ffn_biases": 3}
    stack = {"width": d, "position": 2, "max_positions": 128, "embedding_scale": 16.0, "final_norm": 1, "final_norm_eps": 1e-5}
    pairs = [v for i in range(layers) for v in (0, i)]
    cross = [v for i in range(layers) for v in (1, i)]
    ids = {"pad": 0, "unknown": 1, "start": 2, "end": [3]}
    descriptor = {"model": {"stack": 3}, "source": {"vocabulary": 6000, **ids}, "target": {"vocabulary": 4000, "decoder_start": 2, **ids},
                  "encoder": {**stack, "layers": pairs}, "decoder": {**stack, "layers": cross},
                  "kinds": [kind, {**kind, "cross": 1, "cross_biases": 15}], "output": {"output": 1, "tied": 1}}

    def weights(slot):
        if slot.role == 8 and slot.stack in (1, 3):
            return 10000.0 ** (-np.arange(0, d, 2) / d)
        if slot.layout == phasor_layout.VECTOR:
            norm = slot.role & 1 == 0
            return (rng.normal(1.0, 0.1, sum(slot.parts)) if norm else rng.normal(0.0, 0.02, sum(slot.parts))).astype(np.float32)
        return (rng.standard_normal((sum(slot.parts), slot.cols)) / math.sqrt(slot.cols)).astype(np.float32)
    with open(path, "wb+") as f:
        phasor_file.write_model(f, descriptor, weights, phasor_layout.F32)


def read_model(path):
    """What export_peer needs, and the open file. Refuses what CTranslate2's Transformer does not have."""
    import numpy as np
    import phasor_descriptor
    import phasor_file
    f = phasor_file.PhasorFile(path)
    d = f.descriptor
    kinds = [d["kinds"][k] for name in ("encoder", "decoder") for k, _ in phasor_descriptor.layers_of(d[name])]
    first = kinds[0]
    plain = (d["model"]["stack"] == 3 and all(k["norm"] == 1 and k["activation"] == 1 and not k["gated"] and k["position"] == 0 and
                                              k["heads"] == first["heads"] and k["norm_place"] == first["norm_place"] for k in kinds)
             and abs(first["scale"] * math.sqrt(first["head_width"]) - 1) < 1e-6 and first["norm_place"] in (1, 2))
    if not plain:
        sys.exit(f"{path}: not the plain Transformer that {PEER} is compared on")
    tensors = {(k >> 24, k >> 8 & 0xFFFF, k & 0xFF): f.weights(k).astype(np.float32) for k in f.entries}
    positions = {}
    for name, stack in (("encoder", 1), ("decoder", 3)):
        if (stack, 0, 2) in tensors:
            positions[stack] = tensors[stack, 0, 2]
            continue
        angle = np.arange(max(d[name]["max_positions"], 128))[:, None] * f.weights(stack << 24 | 8)
        table = np.empty((angle.shape[0], d[name]["width"]))
        if d[name]["position"] == 2:
            table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
        else:
            table = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
        positions[stack] = table.astype(np.float32)
    scales = {d[n]["embedding_scale"] for n in ("encoder", "decoder")}
    scaled = scales == {math.sqrt(d["encoder"]["width"])}
    if not scaled and scales != {1.0}:
        sys.exit(f"{path}: embedding scale {scales}")
    if d["target"]["embedding_shared"]:
        tensors[3, 0, 1] = tensors[1, 0, 1]
    target = d["target"]
    never = sorted({i for i in (target["pad"], target["decoder_start"]) if i is not None})
    m = {"tensors": tensors, "encoder_layers": len(d["encoder"]["layers"]) // 2, "decoder_layers": len(d["decoder"]["layers"]) // 2,
         "heads": first["heads"], "pre_norm": first["norm_place"] == 1, "scaled": scaled, "positions": positions, "unknown": target["unknown"] or 0,
         "decoder_start": target["decoder_start"], "end": target["end"][0], "never": never}
    return m, f


def variant(path, f, kind):
    """The same model with its matrices in another type."""
    import phasor_file
    import phasor_layout

    def weights(slot):
        if slot.matrix and kind == phasor_layout.Q8 and f.entries[slot.key].type == phasor_layout.Q8:
            return f.quantised(slot.key)
        return f.weights(slot.key)
    sections = {k: f.section(k) for k in f.sections if k in (phasor_file.SOURCE_TOKENIZER, phasor_file.TARGET_TOKENIZER)}
    with open(path, "wb+") as out:
        phasor_file.write_model(out, f.meta, weights, kind, sections)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="models/zh-en.phasor", help="'random': random weights in the shipped model's shape")
    parser.add_argument("--text", default="tools/bench_sentences.txt", help="sentences of the source language, a line each")
    parser.add_argument("--length", type=int, default=24, help="target tokens of each sentence")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--passes", type=int, default=3, help="over the sentences, in each run")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", help="write the page here")
    parser.add_argument("--peer", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        directory, ids, threads, compute, length, passes = args.peer
        return peer(directory, ids, int(threads), compute, int(length), int(passes))

    import phasor_layout
    driver = f"{args.build}/bench_peer"
    types = {"f32": ("float32", phasor_layout.F32), "int8": ("int8", phasor_layout.Q8)}
    with tempfile.TemporaryDirectory() as directory:
        model = args.model
        if model == "random":
            model = f"{directory}/random.phasor"
            random_model(model)
        elif not (ROOT / model).is_file():
            sys.exit(f"{model}: not there; 'random' tries the shipped model's shape with random weights")
        m, f = read_model(model)
        ids = f"{directory}/ids"
        if args.model == "random":
            import numpy as np
            rng = np.random.default_rng(2)
            lines = [" ".join(map(str, rng.integers(4, 6000, n))) + " 3" for n in rng.integers(4, 24, 40)]
            Path(ids).write_text("\n".join(lines) + "\n")
        else:
            with open(ids, "w", encoding="ascii") as out:
                subprocess.run([driver, model, "--tokenize", args.text], check=True, cwd=ROOT, stdout=out)
        for kind, (compute, code) in types.items():
            variant(f"{directory}/{kind}.phasor", f, code)
            export_peer(f"{directory}/{kind}", compute, m)
        never = [x for i in m["never"] for x in ("--never", str(i))]

        series = {(e, k, t): Series() for e in ("Phasor", PEER) for k in types for t in args.threads}
        began, load = time.time(), os.getloadavg()[0]
        for r in range(args.runs):
            for kind, (compute, _) in types.items():
                for t in args.threads:
                    ours = [driver, f"{directory}/{kind}.phasor", ids, "--threads", str(t), "--length", str(args.length), "--passes", str(args.passes), *never]
                    theirs = [sys.executable, __file__, "--peer", f"{directory}/{kind}", ids, str(t), compute, str(args.length), str(args.passes)]
                    turns = [("Phasor", ours), (PEER, theirs)]
                    for engine, command in turns if r % 2 == 0 else turns[::-1]:
                        series[engine, kind, t].runs.append(start(command))
                    print(f"\rrun {r + 1} of {args.runs}: {kind}, {t} thread{'s' * (t > 1)}   ", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)

        one = next(iter(series["Phasor", "f32", args.threads[0]].runs))
        other = next(iter(series[PEER, "f32", args.threads[0]].runs))
        pairs = [(a, b) for x, y in zip(one["ids"], other["ids"]) for a, b in zip(x, y)]
        whole = sum(x == y for x, y in zip(one["ids"], other["ids"]))
        lines = table(series, types, args.threads)
        facts = [
            f"{one['sentences']} sentences of {one['source_tokens'] / one['sentences']:.1f} source tokens on average, one at a time, {args.length} target tokens each; "
            f"{args.runs} runs in turns of {args.passes} passes; {time.strftime('%Y-%m-%d', time.gmtime(began))}",
            f"machine: {machine()}; load before the runs {load:.1f}",
            f"Phasor: level {one['isa']}, file {one['file'] / 2**20:.1f} MiB (f32), {series['Phasor', 'int8', args.threads[0]].runs[0]['file'] / 2**20:.1f} MiB (int8, "
            f"type q8), arena {one['arena'] / 1024:.0f} KiB; {compiler()}",
            f"{PEER} {other['version']}, compute types float32 and int8, its own choice of kernels, Python {platform.python_version()}",
            f"the same tokens in f32: {sum(a == b for a, b in pairs) / len(pairs) * 100:.2f} % of the tokens, {whole} of {one['sentences']} sentences whole",
        ]
        fewest, most = args.threads[0], args.threads[-1]
        if any(series[PEER, kind, most].encoder < series[PEER, kind, fewest].encoder for kind in types):
            facts.append(f"{PEER} is slower at {most} threads than at {fewest} in this run; the reason was not looked for here. "
                         f"The rows of {fewest} thread are the comparison.")
    if load > 1:
        facts.append(f"**The machine was busy** (load {load:.1f} before the first run): figures for several threads are then mostly about how each engine waits "
                     "for a thread that is not running, and ratios from them mean little. Measure again on an idle machine.")
        print(facts[-1], file=sys.stderr)
    print("\n".join(lines))
    for fact in facts:
        print(f"- {fact}")
    if args.out:
        page(args, lines, facts)
    return 0


def compiler():
    r = subprocess.run([os.environ.get("CXX", "g++"), "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return r.stdout.splitlines()[0] if r.stdout else "compiler unknown"


def page(args, lines, facts):
    command = "make bench" if args.model == "models/zh-en.phasor" else f"make bench MODEL={args.model}"
    Path(args.out).write_text("\n".join([
        "# Performance", "",
        "Written by `make bench`; the program and what each figure means: `tools/bench_peer.py`.", "",
        f"## Beside {PEER}", "",
        f"The same weights and the same source tokens, batch 1, greedy, in one run (`{command}`). A figure is the median of the runs; "
        "a ratio above 1 is in Phasor's favour, but for memory, where below 1 is. Spread is the slowest run less the fastest, as a share of the median.", "",
        *lines, "", *(f"- {fact}" for fact in facts), "",
        "Phasor's encoder includes the keys and values of cross-attention; CTranslate2 computes them in its first decoding step.", ""]), encoding="utf-8")
    print(f"wrote {args.out}")


if __name__ == "__main__":
    sys.exit(main())
