"""Translators beside CTranslate2: encoding, greedy decoding, beam search, and 32 sentences
together. A part of tools/bench.

    PYTHONPATH=tools python3 -m bench.translator --peer FOLDER IDS --threads N --batch N --compute
        float32|int8     the peer, which answers requests

Two models: one of width 512 with 6 + 6 layers and a vocabulary of 32,000, random weights; and the
shipped one on tools/bench/sentences.txt. The weights are read from the .phasor file and given to
CTranslate2 as a TransformerSpec, so both compute the same function; the share of equal tokens is
noted.

  encoder   source tokens / seconds of encoding, one sentence at a time: the encoder by itself on
            both sides, without the keys and values of cross-attention
  greedy    (L − 1) tokens a sentence / (seconds for L tokens − seconds for one), one sentence at a
            time; end tokens are not allowed
  beam 4    the same by a search with 4 beams: tokens of the best output
  batch 32  all target tokens / all seconds, encoding included, up to 32 sentences together
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.common import OURS, ROOT, Results, Worker, engine_versions, resident, serve, take_turns
from phasor.entry import front_door

PEER = "CTranslate2"
BATCH, BEAMS = 32, 4


# ---- the peer: its own process


class Peer:
    """Answers what tests/cpp/bench_translator.cpp answers."""

    def __init__(self, folder: str, ids: str, threads: int, compute: str) -> None:
        import ctranslate2

        common = {
            "device": "cpu",
            "compute_type": compute,
            "inter_threads": 1,
            "intra_threads": threads,
        }
        self.version = f"CTranslate2 {ctranslate2.__version__}"
        self.translator, self.encoder = (
            ctranslate2.Translator(f"{folder}/translator", **common),
            ctranslate2.Encoder(f"{folder}/encoder", **common),
        )
        self.sentences = [
            [token(int(x)) for x in line.split()]
            for line in Path(ids).read_text().splitlines()
            if line.strip()
        ]
        self.never = [[token(i)] for i in json.loads(Path(f"{folder}/never.json").read_text())]

    def _translate(
        self, sentences: list[list[str]], count: int, batch: int, beams: int = 1
    ) -> list[list[int]]:
        results = self.translator.translate_batch(
            sentences,
            beam_size=beams,
            max_decoding_length=count,
            min_decoding_length=count,
            suppress_sequences=self.never,
            max_batch_size=batch,
        )
        return [[int(t[1:]) for t in r.hypotheses[0]] for r in results]

    def answer(self, request: list[str]) -> dict[str, Any]:
        if request[0] == "memory":
            return {"rss": resident("VmRSS"), "peak": resident("VmHWM")}
        numbers, ids = [int(n) for n in request[1:]], []
        start = time.perf_counter()
        if request[0] == "encode":
            for s in self.sentences:
                self.encoder.forward_batch([s])
        elif request[0] in ("greedy", "beam"):
            ids = [
                self._translate([s], numbers[1], 1, BEAMS if request[0] == "beam" else 1)[0]
                for s in self.sentences[: numbers[0]]
            ]
        else:
            self._translate(self.sentences, numbers[0], BATCH)
        return {"seconds": time.perf_counter() - start, "ids": ids}


def token(i):
    return f"t{i}"


def export_peer(directory, compute, m):
    """Writes the model as CTranslate2 reads it. m: see read_model."""
    from ctranslate2.specs import (  # noqa: F401
        TransformerEncoderModelSpec,
        TransformerSpec,
        common_spec,
        transformer_spec,
    )

    def build():
        spec = TransformerSpec.from_config(
            (m["encoder_layers"], m["decoder_layers"]),
            m["heads"],
            pre_norm=m["pre_norm"],
            activation=common_spec.Activation.RELU,
        )
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
            embeddings = (
                part.embeddings[0] if isinstance(part.embeddings, list) else part.embeddings
            )
            embeddings.weight = t[side, 0, 1]
            part.scale_embeddings = m["scaled"]
            part.position_encodings.encodings = m["positions"][side]
            for i, to in enumerate(part.layer):
                layer(to, stack, i)
            if m["pre_norm"]:
                norm(part.layer_norm, stack, 0xFFFF, 0xF0)
        spec.decoder.projection.weight = t[5, 0, 1] if (5, 0, 1) in t else t[3, 0, 1]
        return spec

    vocabulary = {
        side: [token(i) for i in range(m["tensors"][side, 0, 1].shape[0])] for side in (1, 3)
    }

    def save(spec, path):
        spec.validate()
        spec.optimize(quantization=None if compute == "float32" else compute)
        os.makedirs(path, exist_ok=True)
        spec.save(path)

    spec = build()
    spec.register_source_vocabulary(vocabulary[1])
    spec.register_target_vocabulary(vocabulary[3])
    names = {
        "unk_token": m["unknown"],
        "bos_token": m["decoder_start"],
        "eos_token": m["end"],
        "decoder_start_token": m["decoder_start"],
    }
    for name, i in names.items():
        setattr(spec.config, name, token(i))
    spec.config.add_source_bos = spec.config.add_source_eos = False
    save(spec, f"{directory}/translator")

    encoder = TransformerEncoderModelSpec(build().encoder)
    encoder.register_vocabulary(vocabulary[1])
    encoder.config.unk_token, encoder.config.bos_token, encoder.config.eos_token = (
        token(m["unknown"]),
        token(m["decoder_start"]),
        token(m["end"]),
    )
    save(encoder, f"{directory}/encoder")
    Path(f"{directory}/never.json").write_text(json.dumps(m["never"]))


# ---- the models


def random_model(
    path: Path,
    vocabulary: int = 32000,
    d: int = 512,
    hidden: int = 2048,
    layers: int = 6,
    heads: int = 8,
) -> None:
    import numpy as np

    from phasor.format import file as phasor_file
    from phasor.format import layout as phasor_layout

    rng = np.random.default_rng(1)
    kind = {
        "norm": 1,
        "norm_place": 1,
        "norm_eps": 1e-5,
        "heads": heads,
        "head_width": d // heads,
        "scale": (d // heads) ** -0.5,
        "attention_biases": 15,
        "hidden": hidden,
        "activation": 1,
        "ffn_biases": 3,
    }
    stack = {
        "width": d,
        "position": 2,
        "max_positions": 256,
        "embedding_scale": math.sqrt(d),
        "final_norm": 1,
        "final_norm_eps": 1e-5,
    }
    ids = {"pad": 0, "unknown": 1, "start": 2, "end": [3]}
    descriptor = {
        "model": {"stack": 3},
        "source": {"vocabulary": vocabulary, **ids},
        "target": {"vocabulary": vocabulary, "decoder_start": 2, **ids},
        "encoder": {**stack, "layers": [v for i in range(layers) for v in (0, i)]},
        "decoder": {**stack, "layers": [v for i in range(layers) for v in (1, i)]},
        "kinds": [kind, {**kind, "cross": 1, "cross_biases": 15}],
        "output": {"output": 1, "tied": 1},
    }

    def weights(slot):
        if slot.role == 8 and slot.stack in (1, 3):
            return 10000.0 ** (-np.arange(0, d, 2) / d)
        if slot.layout == phasor_layout.VECTOR:
            norm = slot.role & 1 == 0
            return (
                rng.normal(1.0, 0.1, sum(slot.parts))
                if norm
                else rng.normal(0.0, 0.02, sum(slot.parts))
            ).astype(np.float32)
        return rng.standard_normal((sum(slot.parts), slot.cols), dtype=np.float32) / np.float32(
            math.sqrt(slot.cols)
        )

    with phasor_file.replacing(path) as f:
        phasor_file.write_model(f, descriptor, weights, phasor_layout.F32)


def read_model(path):
    """What export_peer needs, and the open file. Refuses what CTranslate2's Transformer does not
    have."""
    import numpy as np

    from phasor.format import descriptor as phasor_descriptor
    from phasor.format import file as phasor_file

    f = phasor_file.PhasorFile(path)
    d = f.descriptor
    kinds = [
        d["kinds"][k]
        for name in ("encoder", "decoder")
        for k, _ in phasor_descriptor.layers_of(d[name])
    ]
    first = kinds[0]
    plain = (
        d["model"]["stack"] == 3
        and all(
            k["norm"] == 1
            and k["activation"] == 1
            and not k["gated"]
            and k["position"] == 0
            and k["heads"] == first["heads"]
            and k["norm_place"] == first["norm_place"]
            for k in kinds
        )
        and abs(first["scale"] * math.sqrt(first["head_width"]) - 1) < 1e-6
        and first["norm_place"] in (1, 2)
    )
    if not plain:
        sys.exit(f"{path}: not the plain Transformer that {PEER} is compared on")
    tensors = {
        (k >> 24, k >> 8 & 0xFFFF, k & 0xFF): f.weights(k).astype(np.float32) for k in f.entries
    }
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
    scaled = all(abs(scale / math.sqrt(d["encoder"]["width"]) - 1) < 1e-6 for scale in scales)
    if not scaled and scales != {1.0}:
        sys.exit(f"{path}: embedding scale {scales}")
    if d["target"]["embedding_shared"]:
        tensors[3, 0, 1] = tensors[1, 0, 1]
    target = d["target"]
    never = sorted({i for i in (target["pad"], target["decoder_start"]) if i is not None})
    m = {
        "tensors": tensors,
        "encoder_layers": len(d["encoder"]["layers"]) // 2,
        "decoder_layers": len(d["decoder"]["layers"]) // 2,
        "heads": first["heads"],
        "pre_norm": first["norm_place"] == 1,
        "scaled": scaled,
        "positions": positions,
        "unknown": target["unknown"] or 0,
        "decoder_start": target["decoder_start"],
        "end": target["end"][0],
        "never": never,
    }
    return m, f


def variant(path, f, kind):
    """The same model with its matrices in another type."""
    from phasor.format import file as phasor_file
    from phasor.format import layout as phasor_layout

    def weights(slot):
        if (
            slot.matrix
            and kind == phasor_layout.Q8
            and f.entries[slot.key].type == phasor_layout.Q8
        ):
            return f.quantised(slot.key)
        return f.weights(slot.key)

    with phasor_file.replacing(path) as out:
        phasor_file.write_model(
            out, f.meta, weights, kind, {k: f.section(k) for k in (3, 4) if f.section(k)}
        )  # the tokenizers


def encoder_alone(path, f, kind):
    """The encoder of an encoder-decoder as a file of its own, in `kind`: hidden states."""
    from phasor.format import descriptor as phasor_descriptor
    from phasor.format import file as phasor_file

    kinds = sorted({k for k, _ in phasor_descriptor.layers_of(f.descriptor["encoder"])})
    layers = [(kinds.index(k), i) for k, i in phasor_descriptor.layers_of(f.descriptor["encoder"])]
    meta = {
        "model": {"stack": 1},
        "source": {
            k: v for k, v in f.meta["source"].items() if k not in ("tokenizer", "embedding_shared")
        },
        "encoder": {**f.meta["encoder"], "layers": [x for pair in layers for x in pair]},
        "kinds": [f.meta["kinds"][k] for k in kinds],
        "output": {"output": 2},
    }
    with phasor_file.replacing(path) as out:
        phasor_file.write_model(out, meta, lambda slot: f.weights(slot.key), kind)


def prepare(args: Any, name: str, source: Path | None) -> tuple[Path, Path, list[int]]:
    """The folder of models, ids of sentences, and ids that are not to be chosen. source: a .phasor
    file, None: random weights."""
    import numpy as np

    from phasor.format import layout as phasor_layout

    folder = args.folder / "models" / f"translator-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    ids = folder / "ids"
    if source is None:
        source = folder / "f32.phasor"
        if not source.exists():
            random_model(source)
        rng = np.random.default_rng(2)
        ids.write_text(
            "".join(
                " ".join(map(str, rng.integers(4, 32000, n))) + " 3\n"
                for n in rng.integers(8, 40, BATCH)
            )
        )
    else:
        out = subprocess.run(
            [
                f"{args.build}/bench_translator",
                str(source),
                "--tokenize",
                str(ROOT / "tools" / "bench" / "sentences.txt"),
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        ids.write_text("".join(out.stdout.splitlines(keepends=True)[:BATCH]))
    m, f = read_model(str(source))
    for kind, (compute, code) in TYPES.items():
        path = folder / f"{kind}.phasor"
        if (
            path.exists()
            and (path == source or path.stat().st_mtime > source.stat().st_mtime)
            and (folder / kind / "done").exists()
        ):
            continue
        if path != source:
            variant(path, f, getattr(phasor_layout, code))
        encoder_alone(folder / f"encoder-{kind}.phasor", f, getattr(phasor_layout, code))
        export_peer(str(folder / kind), compute, m)
        (folder / kind / "done").touch()
    return folder, ids, m["never"]


TYPES = {"f32": ("float32", "F32"), "q8": ("int8", "Q8")}


def measure(
    args: Any, results: Results, name: str, source: Path | None, sentences: int, length: int
) -> None:
    folder, ids, never = prepare(args, name, source)
    lines = [line.split() for line in ids.read_text().splitlines() if line.strip()]
    tokens, runs = sum(map(len, lines)), min(args.runs, 5)
    for kind, (compute, _) in TYPES.items():
        for threads in args.threads:
            workers = {
                OURS: Worker(
                    [
                        f"{args.build}/bench_translator",
                        folder / f"{kind}.phasor",
                        ids,
                        "--threads",
                        threads,
                        "--batch",
                        BATCH,
                        "--beams",
                        BEAMS,
                        "--length",
                        length,
                        *(x for i in never for x in ("--never", i)),
                    ]
                ),
                PEER: Worker(
                    [
                        sys.executable,
                        "-m",
                        __spec__.name,
                        "--peer",
                        folder / kind,
                        ids,
                        "--threads",
                        threads,
                        "--compute",
                        compute,
                    ]
                ),
            }
            results.facts |= engine_versions(workers) | {OURS: workers[OURS].hello["isa"]}
            where = {"type": kind, "threads": threads, "at": name}
            alone = Worker(
                [
                    f"{args.build}/bench_translator",
                    folder / f"encoder-{kind}.phasor",
                    ids,
                    "--threads",
                    threads,
                ]
            )
            encode = take_turns({OURS: alone, PEER: workers[PEER]}, "encode", runs)
            alone.close()
            decoded = {
                what: [take_turns(workers, f"{what} {sentences} {n}", runs) for n in (1, length)]
                for what in ("greedy", "beam")
            }
            batch = take_turns(workers, f"batch {length}", runs)
            for e in workers:
                results.add(
                    "encoder", e, [tokens / a["seconds"] for a in encode[e]], "tokens/s", **where
                )
                for what, title in (("greedy", "greedy"), ("beam", f"beam {BEAMS}")):
                    one, every = (d[e] for d in decoded[what])
                    results.add(
                        title,
                        e,
                        [
                            sentences * (length - 1) / max(b["seconds"] - a["seconds"], 1e-9)
                            for a, b in zip(one, every)
                        ],
                        "tokens/s",
                        **where,
                    )
                results.add(
                    "batch 32",
                    e,
                    [len(lines) * length / a["seconds"] for a in batch[e]],
                    "tokens/s",
                    **where,
                )
                results.add(
                    "resident", e, [workers[e].ask("memory")["peak"] / 2**20], "MiB", **where
                )
            for what, (_, every) in decoded.items():
                pairs = [
                    (a, b)
                    for x, y in zip(every[OURS][0]["ids"], every[PEER][0]["ids"])
                    for a, b in zip(x, y)
                ]
                search = f", beam {BEAMS}" if what == "beam" else ""
                results.facts[f"equal tokens, {name}, {kind}, {threads} threads{search}"] = (
                    f"{sum(a == b for a, b in pairs) / len(pairs) * 100:.1f} %"
                )
            for what, least in (
                ("encoder", 2),
                ("greedy", 2.5),
                (f"beam {BEAMS}", 2),
                ("batch 32", 1.5),
            ):
                results.aim(
                    f"translator {name}, {what}, {kind}, {threads} thread{'s' * (threads > 1)}",
                    f"CTranslate2 {compute}",
                    results.median(what, OURS, **where),
                    results.median(what, PEER, **where),
                    least,
                )
            for worker in workers.values():
                worker.close()
            results.save()


def row_translator(args: Any) -> Results:
    results = Results("translator", args.folder / "results")
    measure(args, results, "d512", None, 6, 24)
    shipped = ROOT / "models" / "zh-en.phasor"
    if shipped.exists():
        measure(args, results, "shipped", shipped, BATCH, 24)
    return results


ROWS = {"translator": row_translator}


@front_door("bench_translator")
def peer_main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", nargs=2, metavar=("FOLDER", "IDS"), required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--compute", default="float32")
    args = parser.parse_args()
    peer = Peer(*args.peer, args.threads, args.compute)
    serve(peer.answer, {"version": peer.version})


if __name__ == "__main__":
    sys.exit(peer_main())
