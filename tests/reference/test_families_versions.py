"""Directories of both versions of transformers: the models of test_families_decoders.py and
test_families_encoders.py, saved by the pinned one and by the newer.

The newer has an environment of its own (tools/requirements-transformers5.txt), so it runs in
another process. It makes each model from the same configuration and weights, or loads a directory
of the older and saves it again. Its config.json has other names. What is converted gives what the
newer library computes, within 1e-5 of its range, and where both versions read the same from a
configuration the two files are the same, byte for byte.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import test_families_decoders as decoders
import test_families_encoders as encoders
import transformers
from save_newer import draw, restore, save_newer

from phasor import convert
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.layout import F32, PhasorError
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import need_newer
from sample import parameters
from texts import ids_text, read_json, write_json

TOLERANCE = 1e-5
IDS = np.random.default_rng(7).integers(4, 60, 20).tolist()
NEW = 28  # greedy tokens of a decoder: as far as Ministral 3's queries are not scaled

# Saved by the newer version and refused, with what the line says. Of position_embedding_type the
# newer version kept the field alone.
REFUSED = {
    name: "position_embedding_type: transformers 5"
    for name in (
        "BertForMaskedLM, relative_key",
        "BertForSequenceClassification, 1 label, relative_key_query",
        "RobertaForSequenceClassification, relative_key",
        "AlbertForSequenceClassification, relative_key",
    )
}
# What the newer version cannot make itself.
NOT_MADE = {"ModernBertForMaskedLM, all biases, one theta": "local_rope_theta has to be a number"}
# Models that are others with the newer version: a default of rope_theta that changed, a theta that
# only it reads, a bias that is one of two.
CHANGED = {
    "ModernBertDecoderForCausalLM, all biases, own output matrix, windows by layer_types",
    "CohereForCausalLM",
    "CohereForCausalLM, norms of q and k, biases",
    "Olmo3ForCausalLM",
    "PersimmonForCausalLM",
    "PersimmonForCausalLM, no norms of q and k, whole heads rotated, GELU",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration, tied, biases",
    "BertForMaskedLM, own output matrix, ReLU",
    "BertLMHeadModel, 2 token types, own output matrix, ReLU",
    "RobertaForCausalLM, own output matrix",
    "RobertaForMaskedLM, own output matrix",
}


class Case(NamedTuple):
    """A class with a configuration."""

    name: str
    model: str
    config: dict


def _decodes(case: Case) -> bool:
    """Whether its greedy tokens are compared: LongRoPE's change their frequencies on the way."""
    return case.model.endswith("CausalLM") and "LongRoPE" not in case.name


OF_BOTH = [
    Case(c.name, c.model, c.config)
    for c in decoders.CASES + encoders.CASES
    if not c.model.startswith("Nomic")
    and getattr(c, "modules", None) is None
    and c.name not in NOT_MADE
    and c.model not in encoders._AT_THE_END
]
OF_BOTH += [
    Case(  # whose end token is the last of the ids
        "CLIPTextModelWithProjection",
        "CLIPTextModelWithProjection",
        {**encoders._CLIP, "eos_token_id": IDS[-1]},
    ),
    *(
        Case(
            c.name,
            c.model,
            {**c.config, "text_config": {**c.config["text_config"], "eos_token_id": IDS[-1]}},
        )
        for c in encoders.CASES
        if c.model == "CLIPModel"
    ),
    Case(
        "RobertaForMaskedLM, own output matrix",
        "RobertaForMaskedLM",
        {**encoders._ROBERTA, "tie_word_embeddings": False},
    ),
]
AGAIN = list({c.model: c for c in reversed(OF_BOTH) if c.name not in REFUSED}.values())[
    ::-1
]  # the first of each class

_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 24,
    "rope_theta": 3000.0,
}
_PLAIN, _WINDOW = {"rope_type": "default", "rope_theta": 700.0}, {"sliding_window": 5}
_NEOX = {name: value for name, value in decoders._NEOX.items() if not name.startswith("rotary")}
_MINISTRAL3 = {
    **decoders._LLAMA,
    "rope_parameters": {
        **{"type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "mscale": 1.0},
        **{"original_max_position_embeddings": 48, "beta_fast": 32.0, "beta_slow": 1.0},
        **{"mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1, "max_position_embeddings": 96},
    },
}
# Configurations that only the newer version writes.
OF_NEWER = [
    Case(
        "GPTNeoXForCausalLM, a share and YaRN",
        "GPTNeoXForCausalLM",
        {**_NEOX, "rope_parameters": {**_YARN, "partial_rotary_factor": 0.5}},
    ),
    Case(
        "GPTNeoXForCausalLM, whole heads",
        "GPTNeoXForCausalLM",
        {**_NEOX, "rope_parameters": {**_PLAIN, "partial_rotary_factor": 1.0}},
    ),
    Case(
        "GlmForCausalLM, a quarter",
        "GlmForCausalLM",
        {
            **decoders._LLAMA,
            "head_dim": 16,
            "rope_parameters": {**_PLAIN, "partial_rotary_factor": 0.25},
        },
    ),
    Case(
        "PhiForCausalLM, a share",
        "PhiForCausalLM",
        {**decoders._PLAIN, "rope_parameters": {**_PLAIN, "partial_rotary_factor": 0.75}},
    ),
    Case(
        "StableLmForCausalLM, a share, linear",
        "StableLmForCausalLM",
        {
            **decoders._PLAIN,
            "rope_parameters": {
                "rope_type": "linear",
                "factor": 3.0,
                "rope_theta": 50.0,
                "partial_rotary_factor": 0.5,
            },
        },
    ),
    Case(
        "LlamaForCausalLM, LongRoPE",
        "LlamaForCausalLM",
        {
            **decoders._PLAIN,
            "rope_parameters": {
                "rope_type": "longrope",
                "short_factor": [1.0, 1.1, 1.3, 1.7],
                "long_factor": [1.5, 2.0, 3.0, 4.0],
                "original_max_position_embeddings": 32,
                "rope_theta": 900.0,
            },
        },
    ),
    Case(
        "LlamaForCausalLM, dynamic",
        "LlamaForCausalLM",
        {
            **decoders._PLAIN,
            "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 900.0},
        },
    ),
    Case(
        "Gemma3ForCausalLM, YaRN in the layers that see everything",
        "Gemma3ForCausalLM",
        {
            **decoders._LLAMA,
            **_WINDOW,
            "rope_parameters": {"full_attention": _YARN, "sliding_attention": _PLAIN},
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        },
    ),
    Case(
        "Olmo3ForCausalLM, a scaling for each type",
        "Olmo3ForCausalLM",
        {
            **decoders._PLAIN,
            **_WINDOW,
            "num_hidden_layers": 4,
            "rope_parameters": {
                "full_attention": _YARN,
                "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 90.0},
            },
        },
    ),
    Case(
        "Jais2ForCausalLM",
        "Jais2ForCausalLM",
        {**decoders._PLAIN, "rope_parameters": _PLAIN},
    ),
    Case(
        "Jais2ForCausalLM, no biases, YaRN",
        "Jais2ForCausalLM",
        {
            **decoders._PLAIN,
            "attention_bias": False,
            "mlp_bias": False,
            "rope_parameters": _YARN,
        },
    ),
    Case("Ministral3ForCausalLM", "Ministral3ForCausalLM", _MINISTRAL3),
    Case(
        "Ministral3ForCausalLM, a window, no scaled queries",
        "Ministral3ForCausalLM",
        {
            **_MINISTRAL3,
            "sliding_window": 7,
            "head_dim": 12,
            "rope_parameters": {**_YARN, "llama_4_scaling_beta": 0.0},
        },
    ),
    Case(
        "CwmForCausalLM",
        "CwmForCausalLM",
        {**decoders._LLAMA, "num_hidden_layers": 5, "sliding_window": 7},
    ),
    Case(
        "CwmForCausalLM, biases, windows by layer_types",
        "CwmForCausalLM",
        {
            **decoders._LLAMA,
            **_WINDOW,
            "mlp_bias": True,
            "rope_parameters": _PLAIN,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    Case(
        "HyperCLOVAXForCausalLM",
        "HyperCLOVAXForCausalLM",
        {
            **decoders._PLAIN,
            "embedding_multiplier": 3.0,
            "attention_multiplier": 0.2,
            "logits_scaling": 0.3,
        },
    ),
    Case(
        "HyperCLOVAXForCausalLM, norms before alone, biases",
        "HyperCLOVAXForCausalLM",
        {
            **decoders._PLAIN,
            "use_post_norm": False,
            "residual_multiplier": 0.4,
            "attention_bias": True,
            "mlp_bias": True,
        },
    ),
    Case("NanoChatForCausalLM", "NanoChatForCausalLM", decoders._PLAIN),
    Case(  # what it multiplies cosines and sines by, the norms behind them take away
        "NanoChatForCausalLM, yarn",
        "NanoChatForCausalLM",
        {
            **decoders._PLAIN,
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 2.0,
                "original_max_position_embeddings": 32,
                "rope_theta": 10000.0,
            },
        },
    ),
    Case(
        "NanoChatForCausalLM, biases, no cap",
        "NanoChatForCausalLM",
        {
            **decoders._PLAIN,
            "attention_bias": True,
            "final_logit_softcapping": None,
            "rope_parameters": _PLAIN,
        },
    ),
    Case(
        "Qwen2ForTokenClassification, each position sees all",
        "Qwen2ForTokenClassification",
        {**decoders._PLAIN, "is_causal": False},
    ),
    Case(
        "GlmForSequenceClassification, each position sees all",
        "GlmForSequenceClassification",
        {**decoders._LLAMA, "head_dim": 16, "is_causal": False, "num_labels": 3},
    ),
    Case(
        "ModernBertForMaskedLM, a window first",
        "ModernBertForMaskedLM",
        {
            **encoders._MODERN,
            "num_hidden_layers": 3,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": _PLAIN,
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
        },
    ),
]

_BIDIRECTIONAL = {**encoders._BERT, "rope_parameters": _PLAIN}
_EURO = {
    **{**_BIDIRECTIONAL, "pad_token_id": 0, "num_attention_heads": 6},
    **{"num_key_value_heads": 2, "head_dim": 10},
}
OF_NEWER += [
    Case("GteModel", "GteModel", _BIDIRECTIONAL),
    Case("GteForMaskedLM, YaRN", "GteForMaskedLM", {**_BIDIRECTIONAL, "rope_parameters": _YARN}),
    Case("GteForSequenceClassification", "GteForSequenceClassification", _BIDIRECTIONAL),
    Case(
        "GteForTokenClassification, no types",
        "GteForTokenClassification",
        {**_BIDIRECTIONAL, "type_vocab_size": 0, "hidden_act": "relu"},
    ),
    Case("JinaEmbeddingsV3Model", "JinaEmbeddingsV3Model", _BIDIRECTIONAL),
    Case("JinaEmbeddingsV3ForMaskedLM", "JinaEmbeddingsV3ForMaskedLM", _BIDIRECTIONAL),
    Case(
        "JinaEmbeddingsV3ForSequenceClassification",
        "JinaEmbeddingsV3ForSequenceClassification",
        {**_BIDIRECTIONAL, "num_labels": 3, "type_vocab_size": 1},
    ),
    Case("NomicBertModel of transformers", "NomicBertModel", _BIDIRECTIONAL),
    Case(
        "NomicBertForMaskedLM, YaRN, wide heads",
        "NomicBertForMaskedLM",
        {**_BIDIRECTIONAL, "rope_parameters": _YARN, "head_dim": 10},
    ),
    Case(
        "NomicBertForSequenceClassification",
        "NomicBertForSequenceClassification",
        {**_BIDIRECTIONAL, "num_labels": 3, "hidden_act": "gelu"},
    ),
    Case(
        "NomicBertForTokenClassification, one type",
        "NomicBertForTokenClassification",
        {**_BIDIRECTIONAL, "type_vocab_size": 1, "hidden_size": 42},
    ),
    Case("EuroBertModel", "EuroBertModel", _EURO),
    Case("EuroBertForMaskedLM", "EuroBertForMaskedLM", {**_EURO, "rope_parameters": _YARN}),
    Case(
        "EuroBertForMaskedLM, biases, tied",
        "EuroBertForMaskedLM",
        {**_EURO, "mlp_bias": True, "attention_bias": True, "tie_word_embeddings": True},
    ),
    Case(
        "EuroBertForSequenceClassification, first token",
        "EuroBertForSequenceClassification",
        {**_EURO, "classifier_pooling": "bos"},
    ),
    Case(
        "EuroBertForSequenceClassification, mean",
        "EuroBertForSequenceClassification",
        {**_EURO, "classifier_pooling": "mean"},
    ),
    Case("EuroBertForTokenClassification", "EuroBertForTokenClassification", _EURO),
]

_GEMMA4 = {
    **{**decoders._LLAMA, "num_hidden_layers": 7, "num_attention_heads": 4},
    **{"global_head_dim": 14, "sliding_window": 5, "num_kv_shared_layers": 3},
    "tie_word_embeddings": False,
    **{"hidden_size_per_layer_input": 7, "vocab_size_per_layer_input": decoders.VOCABULARY},
    "layer_types": [
        ("full_attention" if i in (1, 4, 6) else "sliding_attention") for i in range(7)
    ],
}
_GEMMA4_SHARES = {**_GEMMA4, "use_double_wide_mlp": True, "final_logit_softcapping": 3.0}
_GEMMA4_WHOLE = {
    **{"vision_config": {**decoders._VISION, "position_embedding_size": 16, "head_dim": 8}},
    **{"audio_config": None, "image_token_id": 61, "video_token_id": 62, "audio_token_id": 63},
}
OF_NEWER += [
    Case("Gemma4ForCausalLM", "Gemma4ForCausalLM", _GEMMA4),
    Case(
        "Gemma4ForCausalLM, wider feed-forwards, a cap of the logits, a larger table",
        "Gemma4ForCausalLM",
        {**_GEMMA4_SHARES, "vocab_size_per_layer_input": decoders.VOCABULARY + 3},
    ),
    Case(
        "Gemma4ForCausalLM, values from the matrix of keys, biases, no per-layer embeddings",
        "Gemma4ForCausalLM",
        {
            **_GEMMA4,
            **{"hidden_size_per_layer_input": 0, "attention_k_eq_v": True},
            **{"num_global_key_value_heads": 1, "num_kv_shared_layers": 0},
            "attention_bias": True,
        },
    ),
    Case(
        "Gemma4ForCausalLM, linear and proportional scaling, one layer in six sees all",
        "Gemma4ForCausalLM",
        {
            **{name: value for name, value in _GEMMA4.items() if name != "layer_types"},
            **{"num_kv_shared_layers": 1, "hidden_activation": "silu", "hidden_size": 33},
            "rope_parameters": {
                "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 90.0},
                "full_attention": {
                    **{"rope_type": "proportional", "rope_theta": 500.0, "factor": 1.5},
                    "partial_rotary_factor": 0.6,
                },
            },
        },
    ),
    Case(
        "Gemma4ForConditionalGeneration",
        "Gemma4ForConditionalGeneration",
        {"text_config": _GEMMA4_SHARES, **_GEMMA4_WHOLE},
    ),
]

_SMALL = {
    **{"vocab_size": 64, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"intermediate_size": 40, "max_position_embeddings": 48, "pad_token_id": 0},
}
_TABLES = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}
_READERS = {
    "Bert": _SMALL,
    "Roberta": {**_SMALL, "pad_token_id": 1},
    "MPNet": {**_SMALL, "pad_token_id": 1},
    "Albert": {**_SMALL, "embedding_size": 12},
    "Electra": {**_SMALL, "embedding_size": 12},
    "DebertaV2": {**_SMALL, **_TABLES, "position_buckets": 8},
    "ModernBert": {
        **{**_SMALL, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2},
        **{"bos_token_id": 1, "eos_token_id": 2},
    },
}
_GROUPED = {**_SMALL, "num_key_value_heads": 1, "num_labels": 3}
_JUDGES = {
    "Llama": _GROUPED,
    "Qwen2": _GROUPED,
    "Gemma2": {**_GROUPED, "head_dim": 8},
    "Phi3": _GROUPED,
    "GPT2": {"vocab_size": 64, "n_embd": 24, "n_layer": 2, "n_head": 3, "pad_token_id": 0},
    "Bloom": {"vocab_size": 64, "hidden_size": 24, "n_layer": 2, "n_head": 3, "pad_token_id": 0},
}
# Answers, choices and decoders' classes, by both versions.
HEADS = [
    Case(name + end, name + end, config)
    for families, ends in (
        (_READERS, ("ForQuestionAnswering", "ForMultipleChoice")),
        (_JUDGES, ("ForSequenceClassification", "ForTokenClassification")),
    )
    for name, config in families.items()
    for end in ends
]
_GEMMA3 = {**_GROUPED, "head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 9}
HEADS += [
    Case("Gemma3TextForSequenceClassification", "Gemma3TextForSequenceClassification", _GEMMA3),
    Case(
        "Gemma3ForSequenceClassification",
        "Gemma3ForSequenceClassification",
        {"text_config": _GEMMA3, "vision_config": decoders._VISION, "num_labels": 3},
    ),
]


class Saved(NamedTuple):
    """The folders of the models."""

    older: Path
    newer: Path  # made by the newer version
    again: Path  # of the older, loaded and saved by the newer
    only: Path  # that only the newer has

    @staticmethod
    def of(parent: Path, name: str) -> Path:
        """The folder of one model; they all have one name, which goes into a file."""
        return parent / name.replace("/", "_") / "model"


@pytest.fixture(scope="module")
def saved(request, tmp_path_factory) -> Saved:
    need_newer()
    out = tmp_path_factory.mktemp("versions")
    folders = Saved(*(out / name for name in Saved._fields))
    jobs = []

    def job(parent: Path, case: Case, config: dict | None, weights: Path | None) -> None:
        folder = Saved.of(parent, case.name)
        folder.mkdir(parents=True)
        jobs.append(
            {
                "model": case.model,
                "config": config,
                "weights": None if weights is None else str(weights),
                "folder": str(folder),
                "ids": [IDS] if case.model.endswith("Choice") else IDS,
                **({"greedy": NEW} if parent == folders.only and _decodes(case) else {}),
            }
        )

    wanted = {"GPTNeoXForCausalLM", *parameters(request, "name")}
    of_both, again, of_newer, heads = (
        [case for case in cases if case.name in wanted]
        for cases in (OF_BOTH, AGAIN, OF_NEWER, HEADS)
    )
    for case in of_both:
        older = Saved.of(folders.older, case.name)
        older.mkdir(parents=True)
        kind = getattr(transformers, case.model)
        if case.model.endswith(("CausalLM", "LMHeadModel", "ConditionalGeneration")):
            decoders.randomized(kind, case.config, len(case.name)).save_pretrained(older)
            restore(older, case.config)
        else:
            encoders.Torch(encoders.Case(case.model, "", case.config), older)
        job(folders.newer, case, case.config, older)
    for case in again:
        job(folders.again, case, None, Saved.of(folders.older, case.name))
    for case in of_newer:
        job(folders.only, case, case.config, None)
    for case in heads:
        kind = getattr(transformers, case.model)
        model = kind(kind.config_class(**case.config))
        draw(model)
        model.save_pretrained(Saved.of(folders.older, case.name))
        job(folders.newer, case, case.config, Saved.of(folders.older, case.name))
    save_newer(out, jobs)
    return folders


def converted(folder: Path) -> Path:
    path = folder.with_suffix(".phasor")
    model, _ = read_source(folder)
    convert.convert(model, path, F32, {}, None, quiet=True)
    return path


def difference(path: Path, wanted: np.ndarray) -> float:
    """Of the outputs of the reference, as a share of the range of what is wanted."""
    reference = Reference(PhasorFile(path))
    ids = np.array(IDS)
    ours = (
        reference.decode(ids).logits
        if reference.d["model"]["stack"] == D.DECODER
        else reference.output(reference.encode(ids))
    )
    wanted = wanted.reshape(ours.shape)
    return float(np.abs(ours - wanted).max() / max(np.ptp(wanted), np.abs(wanted).max()))


def check(folder: Path) -> Path:
    path = converted(folder)
    assert difference(path, np.load(str(folder) + ".npy")) < TOLERANCE
    return path


def names(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [case.name for case in cases])


@names(OF_BOTH)
def test_a_model_of_the_newer_version(saved, name):
    folder = Saved.of(saved.newer, name)
    if name in REFUSED:
        with pytest.raises(PhasorError, match=REFUSED[name]):
            converted(folder)
        return
    both = check(folder).read_bytes(), converted(Saved.of(saved.older, name)).read_bytes()
    assert (both[0] == both[1]) == (name not in CHANGED)


@names(AGAIN)
def test_a_model_of_the_older_version_that_the_newer_saved_again(saved, name):
    both = (
        check(Saved.of(saved.again, name)).read_bytes(),
        converted(Saved.of(saved.older, name)).read_bytes(),
    )
    assert (both[0] == both[1]) == (
        name != "Olmo3ForCausalLM"
    )  # whose layers with a window the newer version gives its own default


@names(HEADS)
def test_a_head_of_both_versions(saved, name):
    """Of answers the starts are compared, the first of what the class gives."""
    folder = Saved.of(saved.newer, name)
    path = converted(folder)
    reference, wanted = Reference(PhasorFile(path)), np.load(f"{folder}.npy")
    ours = reference.output(reference.encode(np.array(IDS)))
    ours = ours[:, 0] if name.endswith("Answering") else ours
    assert np.abs(ours.ravel() - wanted.ravel()).max() < TOLERANCE * max(1, np.ptp(wanted))
    assert path.read_bytes() == converted(Saved.of(saved.older, name)).read_bytes()


@names(OF_NEWER)
def test_a_configuration_that_only_the_newer_version_writes(saved, name):
    check(Saved.of(saved.only, name))


@names([case for case in OF_NEWER if _decodes(case)])
def test_greedy_tokens_of_what_only_the_newer_version_has(saved, phasor, name):
    """The program's beside those of the library's generate, past windows and ends."""
    folder = Saved.of(saved.only, name)
    theirs = read_json(Path(f"{folder}.json"))
    path = folder.with_suffix(".greedy.phasor")
    model, _ = read_source(folder)
    model.descriptor["target"]["end"] = []  # so that the greedy tokens go on
    convert.convert(model, path, F32, {}, None, quiet=True)
    words = [phasor, "run", path, "--ids", ids_text(IDS), "-n", str(NEW)]
    words += ["--context", str(len(IDS) + NEW), "--print-ids", "--quiet"]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=120)
    assert len(theirs) == NEW and len(set(theirs)) > 1
    assert [int(id_) for id_ in done.stdout.split(b",")] == theirs


def test_nothing_of_a_table_is_passed_over(saved):
    """Fields of rope_parameters, changed one at a time, make another file or a refusal."""
    folder = Saved.of(saved.newer, "GPTNeoXForCausalLM")
    values = read_json(folder / "config.json")
    whole = converted(folder).read_bytes()
    try:
        for name, other in (
            ("partial_rotary_factor", 0.75),
            ("rope_theta", 4000),
            ("rope_type", "dynamic"),
            ("factor", 2.0),
            ("new", 1),
        ):
            write_json(
                folder / "config.json",
                {**values, "rope_parameters": {**values["rope_parameters"], name: other}},
            )
            try:
                assert converted(folder).read_bytes() != whole, name
            except PhasorError as error:
                assert name in str(error) or "dynamic" in str(error)
    finally:
        write_json(folder / "config.json", values)
