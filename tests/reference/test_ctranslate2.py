"""Models that CTranslate2's own converter makes, in every type that it has, against the package's
decoding with four beams, where it is installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from conversions import convert_to
from places import program, told

SIZES = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
# After each, what CTranslate2's converter is told of words: the list has as many as the embedding.
FAMILIES = {
    "marian": (
        transformers.MarianMTModel,
        transformers.MarianConfig,
        {"vocab_size": 41, "pad_token_id": 40, "eos_token_id": 0, "decoder_start_token_id": 40},
    ),
    "bart": (
        transformers.BartForConditionalGeneration,
        transformers.BartConfig,
        {"vocab_size": 40, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2},
    ),
    "m2m100": (
        transformers.M2M100ForConditionalGeneration,
        transformers.M2M100Config,
        {"vocab_size": 40, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2},
    ),
}


def saved(
    family: str, kind: str, folder: Path, heads: int = 1, varied: bool = False
) -> tuple[Path, list[str]]:
    """A random model of the family in a type of CTranslate2; `heads`: that it aligns by, 0: all."""
    from ctranslate2.converters import transformers as converters

    kind_of, config_of, more = FAMILIES[family]
    torch.manual_seed(4)
    config = config_of(**SIZES, **more, scale_embedding=True, forced_eos_token_id=None)
    model = kind_of(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.ndim > 1 else 1)  # outputs that are sure
        if varied:  # by source and position more than by the last token
            model.model.shared.weight.div_(8)
            model.model.decoder.layers[-1].final_layer_norm.weight.mul_(40)
            if family == "m2m100":
                model.model.decoder.layer_norm.weight.mul_(40)
    loader = {
        "marian": converters.MarianMTLoader,
        "bart": converters.BartLoader,
        "m2m100": converters.M2M100Loader,
    }[family]()
    if family == "bart":
        model.config.normalize_before, model.config.normalize_embedding = False, True
    spec = loader.get_model_spec(model)
    spec.decoder.alignment_heads = np.int16(heads)
    count = spec.decoder.embeddings.weight.shape[0]
    end = 0 if family == "marian" else 2
    words = [f"w{i}" for i in range(count)]
    words[end], words[3], words[4] = "</s>", "<unk>", "<s>"
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.decoder_start_token = "</s>"
    spec.config.add_source_eos = family == "marian"
    spec.validate()
    spec.optimize(quantization=kind)
    spec.save(str(folder))
    return folder, words


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int16", "int8"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_packages_own_decoding(family, kind, tmp_path, capsys):
    ctranslate2 = pytest.importorskip("ctranslate2")
    (tmp_path / "m").mkdir()
    folder, words = saved(family, kind, tmp_path / "m")
    out = tmp_path / "m.phasor"
    convert_to(folder, out, "--type", "f32")
    rng = np.random.default_rng(2)
    rows = [[words[i] for i in rng.integers(5, len(words), n)] for n in (1, 3, 8, 12, 20)]
    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    wanted = translator.translate_batch(
        rows,
        beam_size=4,
        num_hypotheses=4,
        return_scores=True,
        max_decoding_length=24,
        min_decoding_length=0,  # which takes the end token out of a softmax
    )
    command = [program(), "run", out, "--beam", "4", "--n-best", "4", "--json", "-n", "24"]
    command += ["--min-new", "0"]
    text = "".join(" ".join(row) + "\n" for row in rows)
    done = told(*command, stdin=text)
    worst = 0.0
    for line, result in zip(done.splitlines(), wanted, strict=True):
        found = {one["text"]: one["score"] for one in json.loads(line)["outputs"]}
        best = " ".join(result.hypotheses[0])
        assert next(iter(found)) == best
        worst = max(worst, abs(found[best] - result.scores[0]))
    with capsys.disabled():
        print(f"{family} {kind}: largest difference of a score {worst:.2g}")
    assert worst < 1e-4


@pytest.mark.parametrize("length, coverage", [(1.0, 0.2), (0.6, 1.5)])
@pytest.mark.parametrize("family", FAMILIES)
def test_coverage(family, length, coverage, tmp_path, capsys):
    """The package's coverage penalty, by the mean of the last layer's heads: the same outputs and
    scores. It ends a search when there are as many outputs as beams, which is our early stopping. A
    batch of one: of several, the package counts the padding of a shorter source too."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    (tmp_path / "m").mkdir()
    folder, words = saved(family, "float32", tmp_path / "m", heads=0, varied=True)
    out = tmp_path / "m.phasor"
    convert_to(folder, out, "--type", "f32")
    rng = np.random.default_rng(3)
    rows = [[words[i] for i in rng.integers(5, len(words), n)] for n in rng.integers(1, 24, 30)]
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    wanted = translator.translate_batch(
        rows,
        max_batch_size=1,
        beam_size=4,
        num_hypotheses=4,
        return_scores=True,
        return_end_token=True,
        max_decoding_length=30,
        min_decoding_length=0,
        length_penalty=length,
        coverage_penalty=coverage,
    )
    command = [program(), "run", out, "--beam", "4", "--n-best", "4", "--json", "-n", "30"]
    command += ["--min-new", "0", "--early-stopping", "yes", "--length-penalty", str(length)]
    text = "".join(" ".join(row) + "\n" for row in rows)
    both = []
    for more in ([], ["--coverage-penalty", str(coverage)]):
        done = told(*command, *more, stdin=text)
        both.append([json.loads(line)["outputs"] for line in done.splitlines()])
    worst, count = 0.0, 0
    for row, result in zip(both[1], wanted, strict=True):
        theirs = [" ".join(w for w in one if w != "</s>") for one in result.hypotheses]
        assert [one["text"] for one in row] == theirs
        worst = max(worst, *np.abs([one["score"] for one in row] - np.array(result.scores)))
        count += len(row)
    distinct = {i for row in both[1] for one in row for i in one["ids"]}
    changed = sum(a[0]["ids"] != b[0]["ids"] for a, b in zip(*both, strict=True))
    with capsys.disabled():
        print(
            f"{family} {length} {coverage}: {count} outputs of {len(distinct)} tokens, largest "
            f"difference of a score {worst:.2g}, {changed} of {len(rows)} best ones are others"
        )
    assert worst < 1e-4
