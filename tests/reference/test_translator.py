"""The shipped translator, models/zh-en.phasor, on the held-out test set: the same tokens as
PyTorch, and the scores that are written beside it.

The file is q8. For the comparison with PyTorch its weights are taken as they are stored, put into
torch.nn.Transformer, and converted once more as f32: the whole chain, with trained weights. The
test set is the split of tools/train_translation.py.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.format.layout import F32  # noqa: E402
from phasor.format.writer import write_model  # noqa: E402
from sample import part  # noqa: E402

torch = pytest.importorskip("torch")
sacrebleu = pytest.importorskip("sacrebleu")
from phasor.reference.torch_models import TorchTransformer  # noqa: E402
from places import DATA, PROGRAM, ROOT
from texts import ids_text, read_json
from train import translation as trainer  # noqa: E402

MODEL = ROOT / "models" / "zh-en.phasor"
CORPUS = DATA / "cmn-eng" / "cmn.attrib.txt"
NEAR = 1e-4  # of the range of the logits: closer candidates than this may come in either order


def run(*arguments: object, lines: str = "") -> str:
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)],
        input=lines,
        capture_output=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def state_of(file: PhasorFile) -> dict[str, torch.Tensor]:
    """The stored weights under torch.nn.Transformer's names."""

    def get(stack: int, layer: int, role: int) -> torch.Tensor:
        slot = file.slots[stack << 24 | layer << 8 | role]
        values = np.asarray(file.weights(slot.key), dtype=np.float32)
        return torch.from_numpy(
            np.ascontiguousarray(
                values[: sum(slot.parts)] if values.ndim == 1 and len(slot.parts) == 1 else values
            )
        )

    def parts(stack: int, layer: int, role: int, name: str, out: dict[str, torch.Tensor]) -> None:
        out[f"{name}weight"], out[f"{name}bias"] = (
            get(stack, layer, role),
            get(stack, layer, role + 1),
        )

    out = {
        "src_embedding.weight": get(R.SOURCE, 0, R.EMBEDDING),
        "tgt_embedding.weight": get(R.TARGET, 0, R.EMBEDDING),
    }
    for name, stack in (("encoder", R.ENCODER), ("decoder", R.DECODER)):
        for i in range(len(file.descriptor[name]["layers"]) // 2):
            at = f"{name}.layers.{i}."
            parts(stack, i, R.QKV, at + "self_attn.in_proj_", out)
            parts(stack, i, R.ATTENTION_OUT, at + "self_attn.out_proj.", out)
            parts(stack, i, R.ATTENTION_BEFORE, at + "norm1.", out)
            parts(stack, i, R.FFN_IN, at + "linear1.", out)
            parts(stack, i, R.FFN_OUT, at + "linear2.", out)
            parts(stack, i, R.FFN_BEFORE, at + ("norm2." if name == "encoder" else "norm3."), out)
            if name == "decoder":
                q, kv = get(stack, i, R.CROSS_Q), get(stack, i, R.CROSS_KV)
                out[at + "multihead_attn.in_proj_weight"] = torch.cat([q, kv])
                out[at + "multihead_attn.in_proj_bias"] = torch.cat(
                    [get(stack, i, R.CROSS_Q + 1), get(stack, i, R.CROSS_KV + 1)]
                )
                parts(stack, i, R.CROSS_OUT, at + "multihead_attn.out_proj.", out)
                parts(stack, i, R.CROSS_BEFORE, at + "norm2.", out)
        parts(stack, R.FINAL, R.FINAL_NORM, f"{name}.norm.", out)
    return out


@pytest.fixture(scope="module")
def shipped() -> PhasorFile:
    assert PROGRAM.is_file(), f"{PROGRAM} is missing: run make"
    return PhasorFile(MODEL)


@pytest.fixture(scope="module")
def module(shipped: PhasorFile) -> TorchTransformer:
    model = TorchTransformer(shipped.descriptor)
    model.load_state_dict(state_of(shipped))
    return model.eval()


@pytest.fixture(scope="module")
def f32(shipped: PhasorFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as f32, with the shipped file's tokenizers."""
    path = tmp_path_factory.mktemp("translator") / "zh-en-f32.phasor"
    sections = {kind: bytes(shipped.section(kind)) for kind in (3, 4)}
    with open(path, "w+b") as file:
        write_model(
            file, shipped.meta, lambda slot: np.asarray(shipped.weights(slot.key)), F32, sections
        )
    return path


@pytest.fixture(scope="module")
def pairs() -> list:
    if not CORPUS.is_file():
        pytest.skip(f"the sentence pairs are not here: {CORPUS}")
    recorded = read_json(ROOT / "models" / "zh-en.json")
    recipe = trainer.Recipe(**{k: v for k, v in recorded["recipe"].items()})
    return trainer.split_pairs(trainer.read_pairs(CORPUS), recipe).test


@pytest.fixture(scope="module")
def sources(pairs: list) -> list[list[int]]:
    """Source ids of each test sentence, by phasor's own tokenizer."""
    return ids_of(pairs)


def ids_of(pairs: list) -> list[list[int]]:
    out = run("tokenize", MODEL, "--print-ids", lines="".join(pair.source + "\n" for pair in pairs))
    return [[int(x) for x in line.split(",")] for line in out.splitlines()]


@torch.no_grad()
def greedy(
    module: TorchTransformer, sources: list[list[int]], most: int
) -> dict[int, tuple[list[int], torch.Tensor]]:
    """The tutorial's loop, whole prefix again at each step, for sources of one length: ids and the
    logits of every step."""
    target = module.d["target"]
    made = torch.full((len(sources), 1), target["decoder_start"])
    done = torch.zeros(len(sources), dtype=torch.bool)
    rows = []
    given = torch.tensor(sources)
    while made.shape[1] <= most and not bool(done.all()):
        rows.append(module(given, made)[:, -1])
        best = rows[-1].argmax(dim=1)
        done |= torch.isin(best, torch.tensor(target["end"]))
        made = torch.cat([made, best[:, None]], dim=1)
    logits = torch.stack(rows, dim=1)
    out = {}
    for i in range(len(sources)):
        ids = made[i, 1:].tolist()
        ends = [k for k, id_ in enumerate(ids) if id_ in target["end"]]
        out[i] = (ids[: ends[0] + 1] if ends else ids, logits[i])
    return out


def test_f32_gives_pytorchs_greedy_tokens_for_the_test_sentences(
    f32: Path, module: TorchTransformer, sources: list[list[int]]
) -> None:
    limit, sources = 60, part(sources)
    lines = "".join(ids_text(ids) + "\n" for ids in sources)
    ours = [
        [int(x) for x in line.split(",")]
        for line in run(
            "run", f32, "--ids", "-", "--print-ids", "-n", limit, "--quiet", lines=lines
        ).splitlines()
    ]
    assert len(ours) == len(sources)
    by_length: dict[int, list[int]] = {}
    for i, ids in enumerate(sources):
        by_length.setdefault(len(ids), []).append(i)
    near = 0
    for indices in by_length.values():
        for first in range(0, len(indices), 64):
            batch = indices[first : first + 64]
            most = (
                2 * len(sources[batch[0]]) + 10
            )  # PyTorch computes the whole prefix each time: a loop that never ends is cut
            for i, (want, logits) in zip(
                batch, greedy(module, [sources[j] for j in batch], most).values()
            ):
                if ours[i][:most] == want:
                    continue
                k = next(k for k, (a, b) in enumerate(zip(ours[i], want)) if a != b)
                gap = float(
                    (logits[k][want[k]] - logits[k][ours[i][k]])
                    / (logits[k].max() - logits[k].min())
                )
                print(
                    f"sentence {i}, token {k}: {ours[i][k]} for {want[k]}, {gap:.1e} of the range "
                    "apart"
                )
                assert gap <= NEAR, f"sentence {i}: {ours[i]}, PyTorch has {want}"
                near += 1
    print(
        f"{len(sources)} sentences, {len(sources) - near} with the same tokens, {near} that begin "
        f"to differ at candidates closer than {NEAR} of the range"
    )
    assert near <= len(sources) // 100


def test_f32_logits_are_pytorchs(
    f32: Path, module: TorchTransformer, sources: list[list[int]], tmp_path: Path
) -> None:
    worst = 0.0
    for ids in sources[:: len(sources) // 40]:
        out = run(
            "run",
            f32,
            "--ids",
            ids_text(ids),
            "--print-ids",
            "-n",
            60,
            "--logits",
            tmp_path / "logits.npy",
            "--quiet",
        )
        made = [int(x) for x in out.split(",")]
        ours = np.load(tmp_path / "logits.npy")
        with torch.no_grad():
            want = module(
                torch.tensor([ids]),
                torch.tensor([[module.d["target"]["decoder_start"], *made[:-1]]]),
            )[0].numpy()
        assert ours.shape == want.shape
        worst = max(worst, float((np.abs(ours - want).max(axis=1) / np.ptp(want, axis=1)).max()))
    print(f"largest difference of a logit: {worst:.1e} of the range")
    assert worst <= 1e-4


def test_the_recorded_scores_are_what_the_shipped_file_gives(f32: Path, pairs: list) -> None:
    """The same bits everywhere, so the same outputs, so exactly these scores."""
    recorded = read_json(ROOT / "models" / "zh-en.json")["phasor"]
    lines = "".join(pair.source + "\n" for pair in pairs)
    references = [[pair.target for pair in pairs]]
    q8 = sacrebleu.corpus_bleu(
        run("run", MODEL, "--quiet", lines=lines).splitlines(), references
    ).score
    same = sacrebleu.corpus_bleu(
        run("run", f32, "--quiet", lines=lines).splitlines(), references
    ).score
    print(
        f"BLEU {q8:.2f} as q8, {same:.2f} with its weights as f32, {recorded['bleu_f32']} with the "
        "trained weights"
    )
    assert round(q8, 2) == recorded["bleu_q8"]
    beams = sacrebleu.corpus_bleu(
        run("run", MODEL, "--quiet", "--beam", 4, lines=lines).splitlines(), references
    ).score
    assert round(beams, 2) == recorded["bleu_q8_beam_4"]
    assert abs(q8 - recorded["bleu_f32"]) <= 0.3
    assert abs(q8 - same) <= 0.3


def test_the_recorded_scores_of_the_small_one(pairs: list) -> None:
    """models/zh-en-small.phasor, for microcontrollers: its own split is the large one's."""
    recorded = read_json(ROOT / "models" / "zh-en-small.json")
    assert (
        trainer.split_pairs(trainer.read_pairs(CORPUS), trainer.Recipe(**recorded["recipe"])).test
        == pairs
    )
    lines = "".join(pair.source + "\n" for pair in pairs)
    q8 = sacrebleu.corpus_bleu(
        run("run", ROOT / "models" / "zh-en-small.phasor", "--quiet", lines=lines).splitlines(),
        [[pair.target for pair in pairs]],
    ).score
    assert round(q8, 2) == recorded["phasor"]["bleu_q8"]
    beams = run(
        "run", ROOT / "models" / "zh-en-small.phasor", "--quiet", "--beam", 4, lines=lines
    ).splitlines()
    assert (
        round(sacrebleu.corpus_bleu(beams, [[pair.target for pair in pairs]]).score, 2)
        == recorded["phasor"]["bleu_q8_beam_4"]
    )


def test_the_sentence_of_the_readme() -> None:
    assert run("run", MODEL, "我有一只猫。", "--quiet") == "I have a cat.\n"


def test_it_verifies_itself() -> None:
    assert json.loads(run("verify", MODEL, "--json"))["ok"] is True
