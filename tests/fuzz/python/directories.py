"""Hostile directories of Hugging Face's libraries: configurations, tokenizers, modules,
adapters."""

from __future__ import annotations

import base64
import functools
import json
import pickle
import random
import struct
from typing import Any

import checkpoints
import models
import numpy as np
import raw
import values
from source import GOLDEN, Source

import ctranslate2_model
import marian_model
import quantizers
import setfit
import translators
from phasor.tokenizers.pre_tokenizers import TEKKEN_REGEX

Words = tuple[str, ...]


def _json(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def _hostile_json(rng: random.Random, tree: Any, words: Words) -> bytes:
    """A tree that was changed, or its bytes."""
    if rng.random() < 0.92:
        return values.encoded(values.changed(rng, tree, words))
    data = raw.changed(rng, _json(tree))
    return b"\xef\xbb\xbf" + data if rng.random() < 0.1 else data


@functools.cache
def _weights(kind: str, name: str) -> bytes:
    return checkpoints.plain(models.directory(kind, name).arrays())


# ---- config.json of every family


@functools.cache
def _classes() -> list[tuple[str, str]]:
    return models.classes()


_ROPE: tuple[dict[str, Any], ...] = (
    {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    {"rope_scaling": {"type": "dynamic", "factor": 4.0}},
    {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8,
        }
    },
    {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 4,
            "beta_fast": 32,
            "beta_slow": 1,
        }
    },
    {
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0, 1.1, 1.3, 1.7],
            "long_factor": [1.5, 2.0, 3.0, 4.0],
        },
        "original_max_position_embeddings": 8,
    },
    {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }
    },
)
_MORE: tuple[dict[str, Any], ...] = (
    {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}},
    {"id2label": {"0": "a"}, "problem_type": "regression"},
    {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
    {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4},
    {"bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": 0},
    {"tie_word_embeddings": True},
    {"transformers_version": "5.0.0"},
    {"attention_bias": True, "mlp_bias": True},
)


def make_config(rng: random.Random, words: Words) -> Source:
    kind, name = rng.choice(_classes())
    seed = models.directory(kind, name)
    config = dict(seed.config)
    if rng.random() < 0.25:
        config |= rng.choice(_ROPE)
    if rng.random() < 0.15:
        config |= rng.choice(_MORE)
    own = tuple(sorted(seed.asked))
    words = own if rng.random() < 0.7 else words
    files = {
        "m/config.json": _hostile_json(rng, config, words),
        "m/model.safetensors": _weights(kind, name),
    }
    flags = ("--rope-context", str(rng.choice((1, 8, 1 << 20)))) if rng.random() < 0.1 else ()
    return Source(files, ("@m", *flags))


_GENERATION = {
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
    "pad_token_id": 0,
    "do_sample": True,
    "temperature": 0.6,
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "suppress_tokens": [5, 6],
    "forced_bos_token_id": 4,
    "max_new_tokens": 5,
    "max_length": 9,
    "renormalize_logits": True,
    "transformers_version": "4.57.6",
}


_OF_BEAMS = {
    "num_beams": 3,
    "length_penalty": 1.5,
    "early_stopping": "never",
    "forced_eos_token_id": 2,
    "encoder_no_repeat_ngram_size": 3,
    "bad_words_ids": [[4], [5, 6]],
    "num_return_sequences": 1,
}


def make_generation(rng: random.Random, words: Words) -> Source:
    kinds = (("llama", "LlamaForCausalLM"), ("gpt2", "GPT2LMHeadModel"))
    encoded = (("bart", "BartForConditionalGeneration"), ("t5", "T5ForConditionalGeneration"))
    kind = rng.choice((*kinds, *encoded))
    config = json.loads(checkpoints.config_of(*kind))
    given = _GENERATION | (_OF_BEAMS if kind in encoded else {})
    some = {k: v for k, v in given.items() if rng.random() < 0.7}
    files = {
        "m/config.json": _json(config),
        "m/model.safetensors": _weights(*kind),
        "m/generation_config.json": _hostile_json(rng, some, words),
    }
    if kind in encoded and rng.random() < 0.4:  # what config.json says of it counts too
        config |= {"forced_bos_token_id": 1, "force_bos_token_to_be_generated": True}
        files["m/config.json"] = _hostile_json(rng, config, words)
        if rng.random() < 0.5:
            del files["m/generation_config.json"]
    return Source(files, ("@m",))


# ---- sentence-transformers


def _module(number: int, folder: str, kind: str) -> dict[str, Any]:
    return {"idx": number, "name": str(number), "path": folder, "type": kind}


_PREFIX = "sentence_transformers.models."
_MODULES = [
    _module(0, "", _PREFIX + "Transformer"),
    _module(1, "1_Pooling", _PREFIX + "Pooling"),
    _module(2, "2_Dense", _PREFIX + "Dense"),
    _module(3, "3_LayerNorm", _PREFIX + "LayerNorm"),
    _module(4, "4_Normalize", _PREFIX + "Normalize"),
]


@functools.cache
def _sentence_weights() -> dict[str, bytes]:
    rng, width = np.random.default_rng(4), models.WIDTH
    dense = {"linear.weight": (width, width), "linear.bias": (width,)}
    norm = {"norm.weight": (width,), "norm.bias": (width,)}
    return {
        folder: checkpoints.plain({n: rng.normal(1, 0.3, s).astype("<f4") for n, s in part.items()})
        for folder, part in (("2_Dense", dense), ("3_LayerNorm", norm))
    }


def _make_static(rng: random.Random) -> Source:
    """Static embeddings, of whose tensors one is another."""
    tensors = {
        "embeddings": np.ones((5, 4), "<f4"),
        "mapping": np.array([0, 4, 2], "<i8"),
        "weights": np.ones(3, "<f4"),
    }
    name = rng.choice(list(tensors))
    odd = rng.choice((-1, 5, 1 << 40, 3, 1.5, float("nan")))
    shape = rng.choice(((), (0,), (3,), (1, 3), (5, 4)))
    tensors[name] = np.full(shape, odd, "<i8" if isinstance(odd, int) else "<f4")
    if rng.random() < 0.3:
        del tensors[rng.choice(list(tensors))]
    modules = [{"idx": 0, "name": "0", "path": "", "type": "x.StaticEmbedding"}]
    files = {"m/modules.json": _json(modules), "m/model.safetensors": checkpoints.plain(tensors)}
    return Source(files, ("@m",))


_LATE = {
    "pylate": {
        "config_sentence_transformers.json": {
            "prompts": {},
            "similarity_fn_name": "MaxSim",
            "query_prefix": "[CLS]",
            "document_prefix": "[SEP]",
            "query_length": 5,
            "document_length": 6,
            "attend_to_expansion_tokens": False,
            "skiplist_words": ["!", "."],
            "do_query_expansion": True,
        },
        "1_Dense/config.json": {
            "in_features": models.WIDTH,
            "out_features": models.WIDTH,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
            "use_residual": False,
        },
        "modules.json": [
            _module(0, "", "x.Transformer"),
            _module(1, "1_Dense", "pylate.models.Dense.Dense"),
        ],
    },
    "stanford": {
        "artifact.metadata": {
            "query_maxlen": 5,
            "doc_maxlen": 6,
            "mask_punctuation": True,
            "attend_to_mask_tokens": False,
            "similarity": "cosine",
            "query_token_id": "[CLS]",
            "doc_token_id": "[SEP]",
        },
    },
}


def _make_late(rng: random.Random, words: Words) -> Source:
    """Late interaction: a directory of PyLate's, or of Stanford's."""
    kind = rng.choice(list(_LATE))
    parts: dict[str, Any] = _LATE[kind]
    tree = tokenizer("wordpiece")
    files = dict(model_of(("bert", "BertModel"), rows_of(tree)))
    files["m/tokenizer.json"] = _json(tree)
    dense = _sentence_weights()["2_Dense"]
    if kind == "pylate":
        files["m/1_Dense/model.safetensors"] = dense
    else:
        d = models.directory("bert", "BertModel", vocab_size=rows_of(tree))
        files["m/config.json"] = _json({**d.config, "architectures": ["HF_ColBERT"]})
        width = rng.choice((1, 3, models.WIDTH))
        shape = rng.choice(((width, models.WIDTH), (width, models.WIDTH), (width,), (width, 2)))
        matrix = {"linear.weight": np.ones(shape, "<f4")} if rng.random() < 0.95 else {}
        files["m/model.safetensors"] = checkpoints.plain({**d.arrays(), **matrix})
    changed = rng.choice(list(parts))
    for name, part in parts.items():
        files[f"m/{name}"] = _hostile_json(rng, part, words) if name == changed else _json(part)
    return Source(files, ("@m",))


def _make_sparse(rng: random.Random, words: Words) -> Source:
    """A masked language model with SpladePooling."""
    kind, first = ("bert", "BertForMaskedLM"), rng.choice(("Transformer", "MLMTransformer"))
    parts: dict[str, Any] = {
        "modules.json": [_module(0, "", f"x.{first}"), _module(1, "1_Pool", "x.SpladePooling")],
        "1_Pool/config.json": {
            "pooling_strategy": "max",
            "activation_function": "relu",
            "word_embedding_dimension": models.ROWS,
            "chunk_size": None,
        },
        "config_sentence_transformers.json": {"model_type": "SparseEncoder", "prompts": {}},
        "sentence_bert_config.json": {"max_seq_length": 8, "transformer_task": "fill-mask"},
    }
    changed = rng.choice(list(parts))
    files = {f"m/{name}": _json(tree) for name, tree in parts.items()}
    files[f"m/{changed}"] = _hostile_json(rng, parts[changed], (*words, "1_Pool", "..", "."))
    files |= {"m/config.json": checkpoints.config_of(*kind), "m/model.safetensors": _weights(*kind)}
    return Source(files, ("@m",))


def _head_of(rng: random.Random) -> bytes:
    """A file of SetFit's: a logistic regression, or bytes that were one."""
    classes = rng.choice((["a", "b"], [0, 1, 2], np.array(["a", "b", "c"], object)))
    said = setfit.regression(classes, rng.choice((models.WIDTH, models.WIDTH, 3)))
    odd = rng.choice((None, "ovr", "multinomial", 3, [], "auto", "auto"))
    if rng.random() < 0.2:
        said[rng.choice(list(said))] = rng.choice((None, 3, "x", np.ones((2, 2)), np.ones(0)))
    name = setfit.REGRESSION if rng.random() < 0.9 else "sklearn.multiclass.OneVsRestClassifier"
    made = setfit.head(name, rng.random() < 0.7, multi_class=odd, **said)
    return made if rng.random() < 0.3 else raw.changed(rng, made)


def make_sentence(rng: random.Random, words: Words) -> Source:
    kind = ("bert", "BertModel")
    parts: dict[str, Any] = {
        "modules.json": [m for i, m in enumerate(_MODULES) if i < 2 or rng.random() < 0.6],
        "1_Pooling/config.json": {
            "word_embedding_dimension": models.WIDTH,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_cls_token": False,
            "include_prompt": True,
        },
        "2_Dense/config.json": {
            "in_features": models.WIDTH,
            "out_features": models.WIDTH,
            "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh",
        },
        "3_LayerNorm/config.json": {"dimension": models.WIDTH},
        "sentence_bert_config.json": {"max_seq_length": 8, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "document": ""},
            "default_prompt_name": "query",
            "similarity_fn_name": "cosine",
            "__version__": {"sentence_transformers": "5.1.0"},
        },
    }
    if rng.random() < 0.4:  # the names of its version 5.7
        parts["1_Pooling/config.json"] = {
            "embedding_dimension": models.WIDTH,
            "pooling_mode": rng.choice(("mean", ["cls"])),
            "include_prompt": True,
        }
        parts["sentence_bert_config.json"] = {
            "transformer_task": "feature-extraction",
            "modality_config": {
                "text": {"method": "forward", "method_output_name": "last_hidden_state"}
            },
            "module_output_name": "token_embeddings",
        }
        parts["2_Dense/config.json"]["module_input_name"] = "sentence_embedding"
    if rng.random() < 0.1:
        return _make_static(rng)
    if rng.random() < 0.25:
        return _make_late(rng, words)
    if rng.random() < 0.1:
        return _make_sparse(rng, words)
    if rng.random() < 0.1:
        parts["modules.json"] = parts["modules.json"][:1]
        parts["config_sentence_transformers.json"]["model_type"] = "CrossEncoder"
        parts["config_sentence_transformers.json"]["prompts"] = {}
    changed = rng.choice(list(parts)[:4] + ["modules.json", "config_sentence_transformers.json"])
    changed = changed if rng.random() < 0.85 else rng.choice(list(parts))
    words = (
        *words,
        "1_Pooling",
        "..",
        "2_Dense",
        ".",
        "3_LayerNorm",
        "./1_Pooling",
        "1_Pooling/..",
    )
    files = {f"m/{name}": _json(tree) for name, tree in parts.items()}
    files[f"m/{changed}"] = _hostile_json(rng, parts[changed], words)
    for folder, data in _sentence_weights().items():
        files[f"m/{folder}/model.safetensors"] = data
    if rng.random() < 0.1:
        files["m/2_Dense/model.safetensors"] = raw.changed(rng, _sentence_weights()["2_Dense"])
    files |= {"m/config.json": checkpoints.config_of(*kind), "m/model.safetensors": _weights(*kind)}
    if rng.random() < 0.3:
        said = {"labels": ["x", "y", "z"], "normalize_embeddings": rng.random() < 0.5}
        files["m/config_setfit.json"] = _hostile_json(rng, said, words)
        files["m/model_head.pkl"] = _head_of(rng)
    return Source(files, ("@m",))


# ---- adapters

_ADAPTER = {
    "peft_type": "LORA",
    "r": 2,
    "lora_alpha": 4,
    "bias": "none",
    "task_type": "CAUSAL_LM",
    "target_modules": ["q_proj", "v_proj"],
    "use_rslora": False,
    "init_lora_weights": True,
    "rank_pattern": {},
    "alpha_pattern": {"q_proj": 8},
    "fan_in_fan_out": False,
}


def make_adapter(rng: random.Random, words: Words) -> Source:
    kind = ("llama", "LlamaForCausalLM")
    shapes, some, arrays = models.directory(*kind).shapes, np.random.default_rng(6), {}
    for name, (rows, cols) in ((n, s) for n, s in shapes.items() if len(s) == 2):
        if ("q_proj" in name or "v_proj" in name) and ".1." in name:
            start = "base_model.model." + name.removesuffix(".weight")
            arrays[f"{start}.lora_A.weight"] = some.normal(size=(2, cols)).astype("<f4")
            arrays[f"{start}.lora_B.weight"] = some.normal(size=(rows, 2)).astype("<f4")
    how = rng.random()
    if how < 0.15:
        arrays["base_model.model.model.norm.weight"] = some.normal(size=models.WIDTH).astype("<f4")
    config: Any = dict(_ADAPTER)
    if rng.random() < 0.3:
        config["use_dora"] = True
        for name in [n for n in arrays if ".lora_B" in n]:
            place = name.replace("lora_B.weight", "lora_magnitude_vector")
            arrays[place] = np.ones(len(arrays[name]), "<f4")
    if how < 0.3:
        checkpoints.change_arrays(rng, arrays)
    patterns = ("q_proj", "^model.layers.1.*", ".*", "layers\\.1\\.", "(a+)+$", "^", "." * 300)
    data = _hostile_json(rng, config, (*words, *patterns)) if how > 0.2 else _json(config)
    weights = (
        checkpoints.plain(arrays) if how < 0.9 else checkpoints.hostile_safetensors(rng, arrays)
    )
    files = {
        "m/config.json": checkpoints.config_of(*kind),
        "m/model.safetensors": _weights(*kind),
        "a/adapter_config.json": data,
        "a/adapter_model.safetensors": weights,
    }
    return Source(files, ("@m", "--lora", "@a"))


# ---- packed matrices


_WIDER = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 16}
_LLAMA = ("llama", "LlamaForCausalLM")


@functools.cache
def _packed(form: str) -> dict[str, np.ndarray]:
    """A Llama of _WIDER, its first layer packed in this form."""
    some, pack, arrays = np.random.default_rng(8), quantizers.FORMS[form][1], {}
    for name, shape in models.directory(*_LLAMA).shapes.items():
        size = {models.WIDTH: 32, models.HEADS * 4: 16, models.HIDDEN: 32 if "mlp" in name else 24}
        wider = tuple(size.get(n, n) for n in shape)
        if "_proj" in name and ".0." in name:
            start = name.removesuffix("weight")
            module = pack(some, *wider)
            arrays |= {start + part: value for part, value in module.tensors.items()}
        else:
            arrays[name] = some.normal(0, 0.3, wider).astype("<f4")
    return arrays


def make_packed(rng: random.Random, words: Words) -> Source:
    form = rng.choice(list(quantizers.FORMS))
    quantization = quantizers.FORMS[form][0]
    arrays = dict(_packed(form))
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        name = rng.choice([n for n in arrays if "_proj" in n])
        array = arrays[name]
        arrays[name] = rng.choice(
            (
                array[: len(array) // 2] if array.ndim else array,
                array.astype(rng.choice(("<i4", "<i8", "<f4", "<f2", "u1", "i1"))),
                np.zeros_like(array),
                array.ravel()[::-1].reshape(array.shape),
                array[..., None],
            )
        )
        if rng.random() < 0.2:
            arrays[name + rng.choice((".x", "s"))] = arrays.pop(name)
    how = rng.random()
    if how < 0.5:
        quantization = values.changed(rng, quantization, words)
    config = {**json.loads(checkpoints.config_of(*_LLAMA)), **_WIDER}
    config["quantization_config"] = quantization
    files = {"m/config.json": _json(config), "m/model.safetensors": checkpoints.plain(arrays)}
    return Source(files, ("@m",))


# ---- CTranslate2


def make_ctranslate2(rng: random.Random, words: Words) -> Source:
    """A small model of any version, variables and words changed, and its bytes."""
    model = ctranslate2_model.Model()
    if rng.random() < 0.4:
        model.quantize(rng.choice(("i1", "<i2")))
    names = list(model.values)
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        name, how = rng.choice(names), rng.random()
        value = model.values.get(name, np.ones(3))
        if how < 0.25:
            model.values.pop(name, None)
        elif how < 0.5:
            model.values[name] = value.ravel()[: rng.randrange(value.size + 1)]
        elif how < 0.7:
            model.values[name] = np.full_like(value, rng.choice((0, -1, 1, 2, 7, 1e6, 3e4)))
        elif how < 0.85:
            model.number(rng.choice(words), rng.choice((0, 1, 7)), rng.choice(("<f4", "i1")))
        else:
            model.aliases[rng.choice((name + "x", "a", rng.choice(names)))] = rng.choice(names)
    if rng.random() < 0.2:
        model.number("decoder/start_from_zero_embedding", 1, "i1")
    config: Any = {"eos_token": "</s>", "add_source_bos": True, "layer_norm_epsilon": None}
    if rng.random() < 0.3:
        config = values.changed(rng, config, words)
    files = model.files(rng.choice(range(2, 7)))
    for name in list(files):
        if rng.random() < (0.3 if name == "model.bin" else 0.1):
            files[name] = raw.changed(rng, files[name])
    files["config.json"] = values.encoded(config)
    return Source({f"m/{name}": data for name, data in files.items()}, ("@m",))


# ---- Marian


def make_marian(rng: random.Random, words: Words) -> Source:
    """A small transformer's .npz, its options and arrays changed, and its bytes."""
    model = marian_model.Model(rng.random() < 0.5, rng.random() < 0.5)
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        how, name = rng.random(), rng.choice(list(model.options))
        if how < 0.3:
            model.options[name] = rng.choice((0, 1, 7, 10**9, "n", "dan", '""', [], [1, 2], "x: y"))
        elif how < 0.4:
            model.options[rng.choice((*words, "", "- a", "a: b", "\t"))] = rng.choice(("1", "[]"))
        elif how < 0.5:
            del model.options[name]
        else:
            checkpoints.change_arrays(rng, model.arrays)
    data = model.bytes()
    if rng.random() < 0.3:
        data = raw.changed(rng, data)
    if rng.random() < 0.5:
        return Source({"m.npz": data}, ("@m.npz",))
    files = translators.marian_files()
    spm, rows = {side: files[f"{side}.spm"] for side in ("source", "target")}, marian_model.ROWS
    pieces = ["</s>", "<unk>", *translators.SOURCE_PIECES, *translators.TARGET_PIECES]
    pieces = [*dict.fromkeys(pieces), "é", '"q"', "<pad>", '">>eng<<"', *map(str, range(rows))]
    lines = [f"{piece}: {id_}" for id_, piece in enumerate(pieces[:rows])]
    for _ in range(rng.choice((0, 0, 1, 2))):
        at, odd = rng.randrange(len(lines)), rng.choice(_ODD_LINES)
        lines[at : at + rng.randrange(2)] = [odd if odd.count(":") else f"{odd}: {at}"]
    names = ("vocab.yml", "a.src.vocab.yml", "a.trg.vocab.yml", "x.vocab.yml")
    given = {name: "\n".join(lines).encode() for name in rng.sample(names, rng.choice((1, 1, 2)))}
    given |= {"source.spm": spm["source"], "target.spm": spm["target"], "m.npz": data}
    if rng.random() < 0.3:
        name = rng.choice(list(given))
        given[name] = raw.changed(rng, given[name])
    flags = ("--tokenizer", "@source.spm", "--tokenizer", "@target.spm")
    return Source(given, ("@m.npz", *flags[: rng.choice((2, 4, 4))]))


_ODD_LINES = (
    *("", "? a", ": 3", "- a", "a: b: 2", "'it''s'", r'"\x41\u00e9"', r'"\q"', r'"\ud800"', "&a b"),
    *("*a", "!!t a", "{a: 2}", "a #b", "a: -1", "a: 9999999", f"a: {'9' * 500}", "x" * 70000, "\0"),
)


# ---- tokenizers

_KINDS = {
    "wordpiece": ("bert", "BertModel"),
    "characters": ("llama", "LlamaForCausalLM"),
    "bytelevel": ("llama", "LlamaForCausalLM"),
    "composed": ("llama", "LlamaForCausalLM"),
    "metaspace": ("bert", "BertModel"),
    "bert_bpe": ("openai-gpt", "OpenAIGPTLMHeadModel"),
}
_FEWER = 60  # pieces beside the bytes and the special ones


@functools.cache
def tokenizer(name: str) -> dict[str, Any]:
    """A golden tokenizer.json with fewer pieces, or one of the first GPT."""
    if name == "bert_bpe":
        return _bert_bpe()
    tree = json.loads((GOLDEN / "tokenizers" / f"{name}.json").read_text(encoding="utf-8"))
    model = tree["model"]
    if isinstance(model["vocab"], list):
        model["vocab"] = model["vocab"][: 2 * _FEWER]
        kept = {piece for piece, _ in model["vocab"]}
    else:
        by_id = sorted(model["vocab"], key=model["vocab"].__getitem__)
        most = max(sum(len(word) == 1 for word in by_id), 256) + _FEWER
        model["vocab"] = {word: i for i, word in enumerate(by_id[:most])}
        kept = set(model["vocab"])
    following = len(model["vocab"])
    for token in tree["added_tokens"]:
        if token["content"] not in kept:
            token["id"], following = following, following + 1
    if "merges" in model:
        pairs = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
        model["merges"] = [p for p in pairs if {*p, "".join(p)} <= kept]
    return tree


def _bert_bpe() -> dict[str, Any]:
    """A tokenizer.json of the first GPT: BPE of BERT's words."""
    pieces = ["<unk>", *"abcde", *(f"{c}</w>" for c in "abcde.,"), "ab", "abc</w>", "d</w>"]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    unknown = {"id": 0, "content": "<unk>", "special": True, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**unknown, "single_word": False, "lstrip": False, "rstrip": False}],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "</w>",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [["a", "b"], ["ab", "c</w>"]],
        },
    }


_NORMALIZERS: tuple[Any, ...] = (
    {"type": "NFC"},
    {"type": "NFKC"},
    {"type": "Lowercase"},
    {"type": "StripAccents"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]},
    {"type": "BertNormalizer", "clean_text": True, "lowercase": True, "strip_accents": None},
    {"type": "Precompiled", "precompiled_charsmap": ""},
    {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
    {
        "type": "Sequence",
        "normalizers": [
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            {"type": "NFKD"},
            {"type": "StripAccents"},
        ],
    },
)
_PRE_TOKENIZERS: tuple[Any, ...] = (
    {"type": "BertPreTokenizer"},
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "Digits", "individual_digits": True},
    {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Removed", "invert": False},
    {
        "type": "Split",
        "pattern": {"String": " "},
        "behavior": "MergedWithPrevious",
        "invert": False,
    },
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
)


def _parts(rng: random.Random, tree: dict[str, Any]) -> dict[str, Any]:
    """Other steps than its own, at times in a sequence."""
    tree = dict(tree)
    if rng.random() < 0.2:
        tree["normalizer"] = rng.choice(_NORMALIZERS)
    if rng.random() < 0.2:
        steps = [rng.choice(_PRE_TOKENIZERS) for _ in range(rng.choice((1, 2, 3)))]
        tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    if rng.random() < 0.1:
        tree["truncation"] = {"max_length": 8, "strategy": "LongestFirst", "stride": 0}
    if rng.random() < 0.1:
        single = [
            {"SpecialToken": {"id": "a", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ]
        special = {"a": {"id": "a", "ids": [1], "tokens": ["a"]}}
        tree["post_processor"] = {
            "type": "TemplateProcessing",
            "single": single,
            "pair": single,
            "special_tokens": special,
        }
    return tree


_TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "__type": "AddedToken", "lstrip": False},
    "unk_token": "<unk>",
    "add_bos_token": True,
    "add_eos_token": False,
    "model_max_length": 512,
    "do_lower_case": True,
    "additional_special_tokens": ["<a>"],
    "added_tokens_decoder": {"0": {"content": "<s>", "special": True}},
}


@functools.cache
def model_of(kind: tuple[str, str], rows: int) -> dict[str, bytes]:
    """config.json and weights of a small model with so many rows."""
    d = models.directory(*kind, vocab_size=rows)
    return {
        "m/config.json": _json(d.config),
        "m/model.safetensors": checkpoints.plain(d.arrays()),
    }


def rows_of(tree: dict[str, Any]) -> int:
    ids = [token["id"] for token in tree.get("added_tokens") or ()]
    return max([len(tree["model"]["vocab"]) - 1, *ids]) + 1


def make_tokenizer_json(rng: random.Random, words: Words) -> Source:
    name = rng.choice(list(_KINDS))
    tree = tokenizer(name)
    files = dict(model_of(_KINDS[name], rows_of(tree)))
    tree = _parts(rng, tree)
    vocabulary = list(tree["model"]["vocab"])[:40]
    words = (*words, *(w if isinstance(w, str) else w[0] for w in vocabulary))
    if rng.random() < 0.5:  # what is not the vocabulary
        model = dict(tree["model"])
        big = {name: model.pop(name) for name in ("vocab", "merges") if name in model}
        tree = values.changed(rng, {**tree, "model": model}, words)
        if isinstance(tree, dict) and isinstance(tree.get("model"), dict):
            tree["model"] = {**big, **tree["model"]}
        files["m/tokenizer.json"] = values.encoded(tree)
    else:
        files["m/tokenizer.json"] = _hostile_json(rng, tree, words)
    if rng.random() < 0.3:
        files["m/tokenizer_config.json"] = _json(_TOKENIZER_CONFIG)
    rank: tuple[str, ...] = ()
    if rng.random() < 0.2:  # pieces by their names
        pieces = rng.sample([w for w in words if w and "\0" not in w], 2)
        rank = ("--rank-template", "a {query} b {document}", "--rank-tokens", ",".join(pieces))
    return Source(files, ("@m", *rank))


def make_tokenizer_config(rng: random.Random, words: Words) -> Source:
    name = rng.choice(("wordpiece", "bytelevel", "metaspace"))
    tree = tokenizer(name)
    files = dict(model_of(_KINDS[name], rows_of(tree)))
    files["m/tokenizer.json"] = _json(tree)
    some = {k: v for k, v in _TOKENIZER_CONFIG.items() if rng.random() < 0.7}
    if rng.random() < 0.3:
        some["chat_template"] = rng.choice(
            ("{{ messages[0].content }}", [{"name": "default", "template": "{{ bos_token }}"}])
        )
    some["tokenizer_class"] = rng.choice(
        (
            "BertTokenizer",
            "GPT2Tokenizer",
            "LlamaTokenizerFast",
            "T5Tokenizer",
            "XLMRobertaTokenizer",
        )
    )
    where = rng.choice(
        ("tokenizer_config.json", "tokenizer_config.json", "special_tokens_map.json")
    )
    files[f"m/{where}"] = _hostile_json(rng, some, words)
    if rng.random() < 0.1:
        own = {"chat_template": "{{ messages[0].content }}"}
        files["m/chat_template.json"] = _hostile_json(rng, own, words)
    return Source(files, ("@m",))


def make_vocabulary(rng: random.Random, words: Words) -> Source:
    """vocab.txt; vocab.json with merges.txt; and the words of --tokenizer."""
    return rng.choice((_vocab_txt, _merges, _word_list))(rng, words)


def _hostile_lines(rng: random.Random, lines: list[str]) -> bytes:
    lines = list(lines)
    for _ in range(1 + int(rng.expovariate(0.8))):
        at, how = rng.randrange(len(lines)), rng.random()
        if how < 0.3:
            lines[at] = rng.choice(values.TEXTS)
        elif how < 0.5:
            lines[at] = rng.choice(lines)
        elif how < 0.6:
            del lines[at]
        elif how < 0.7:
            lines.insert(at, lines[at] * 2)
        elif how < 0.8:
            lines[at] = values.near(rng, lines[at], ("[UNK]", "##a", " ", "\r", "\t"))
        elif how < 0.9:
            lines[at:at] = [f"w{i}" for i in range(rng.choice((1, 50, 5000)))]
        if not lines:
            break
    data = rng.choice(("\n", "\n", "\n", "\r\n", "\r")).join(lines).encode("utf-8", "surrogatepass")
    return raw.changed(rng, data) if rng.random() < 0.15 else data + b"\n" * rng.randrange(3)


def _add_tokens(rng: random.Random, words: Words, files: dict[str, bytes], pieces: int) -> None:
    """Added tokens beside a vocabulary of so many pieces, in one of their three files."""
    words = (*words, "<new>", "<x0>", "<x1>", str(pieces))
    name = rng.choice(("added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"))
    tree: Any = {"<new>": pieces, "<x0>": pieces + 1}
    if name == "special_tokens_map.json":
        more = ["<x0>", {"content": "<x1>", "lstrip": True}]
        tree = {"additional_special_tokens": more, "pad_token": "<x1>"}
    elif name == "tokenizer_config.json":
        new = {"content": "<new>", "special": False, "normalized": True}
        tree = {str(pieces): new, str(pieces + 1): {"content": "<x0>", "single_word": True}}
    tree = values.changed(rng, tree, words)
    if name == "tokenizer_config.json":
        tree = {**json.loads(files[f"m/{name}"]), "added_tokens_decoder": tree}
    files[f"m/{name}"] = values.encoded(tree)


def _vocab_txt(rng: random.Random, words: Words) -> Source:
    lines = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghij",
        "##a",
        "##b",
        "ab",
        "##ab",
    ]
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "mask_token": "[MASK]"}
    files = dict(model_of(("bert", "BertModel"), models.ROWS))
    if rng.random() < 0.3:
        files["m/vocab.txt"] = "\n".join(lines).encode()
        files["m/tokenizer_config.json"] = _json(config)
        _add_tokens(rng, words, files, len(lines))
        return Source(files, ("@m",))
    both = rng.random()
    files["m/vocab.txt"] = _hostile_lines(rng, lines) if both < 0.7 else "\n".join(lines).encode()
    changed = _hostile_json(rng, {**config, "cls_token": {"content": "[CLS]"}}, (*words, *lines))
    files["m/tokenizer_config.json"] = changed if both > 0.5 else _json(config)
    return Source(files, ("@m",))


def _merges(rng: random.Random, words: Words) -> Source:
    tree = tokenizer("bytelevel")["model"]
    vocabulary = {**tree["vocab"], "<|endoftext|>": len(tree["vocab"])}
    rows = len(vocabulary)
    if rng.random() < 0.1:
        odd = (None, "x", [1], 1.5, True, -1, 0, 1 << 40)
        vocabulary["<|endoftext|>"] = rng.choice(odd)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in tree["merges"])]
    files = dict(model_of(("gpt2", "GPT2LMHeadModel"), rows))
    how = rng.random()
    files["m/vocab.json"] = (
        _hostile_json(rng, vocabulary, (*words, "Ġ")) if how < 0.5 else _json(vocabulary)
    )
    files["m/merges.txt"] = _hostile_lines(rng, lines) if how > 0.4 else "\n".join(lines).encode()
    config: Any = {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False}
    files["m/tokenizer_config.json"] = (
        _hostile_json(rng, config, words) if how > 0.8 else _json(config)
    )
    if rng.random() < 0.3:
        files["m/tokenizer_config.json"] = _json(config)
        _add_tokens(rng, words, files, len(vocabulary))
    return Source(files, ("@m",))


def _word_list(rng: random.Random, words: Words) -> Source:
    lines = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(20))]
    if rng.random() < 0.5:
        data, name = _hostile_lines(rng, lines), "words.txt"
    else:
        tree = lines if rng.random() < 0.5 else {word: i for i, word in enumerate(lines)}
        data, name = _hostile_json(rng, tree, (*words, *lines)), "words.json"
    parts = checkpoints._llama2c(random.Random(1), 0)
    return Source({"m.bin": raw.joined(parts), name: data}, ("@m.bin", "--tokenizer", f"@{name}"))


# ---- SentencePiece


def _fields(data: bytes) -> list[list[Any]]:
    """[number, wire type, value] of a protocol buffer's message."""
    out, at = [], 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value: Any = varint()
        else:
            size = varint() if key & 7 == 2 else 4 if key & 7 == 5 else 8
            value, at = data[at : at + size], at + size
        out.append([key >> 3, key & 7, value])
    return out


def _varint(value: int) -> bytes:
    out = bytearray()
    value %= 1 << 64
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _message(fields: list[list[Any]], rng: random.Random | None = None) -> bytes:
    """The message again; with a generator some length of it may lie."""
    out, lie = [], rng.randrange(len(fields)) if rng and fields and rng.random() < 0.1 else -1
    for i, (number, wire, value) in enumerate(fields):
        out.append(_varint(number << 3 | wire))
        if isinstance(value, int):
            out.append(_varint(value))
            continue
        if wire == 2:
            out.append(_varint(raw.number(rng, len(value)) if rng and i == lie else len(value)))
        out.append(value)
    return b"".join(out)


@functools.cache
def _proto(name: str) -> tuple[tuple[Any, ...], ...]:
    """A golden model with fewer pieces."""
    fields = _fields((GOLDEN / "tokenizers" / f"{name}.model").read_bytes())
    pieces = [f for f in fields if f[0] == 1]
    most = _FEWER + 260 * (name == "bpe")  # which has all bytes
    return tuple(map(tuple, pieces[:most] + [f for f in fields if f[0] != 1]))


def hostile_proto(rng: random.Random, fields: list[list[Any]], depth: int = 0) -> bytes:
    """Fields changed, put in, doubled, taken out, and so inside of the messages."""
    for _ in range(1 + int(rng.expovariate(1.0))):
        if not fields:
            break
        at, how = rng.randrange(len(fields)), rng.random()
        if rng.random() < 0.4:  # the specs, which are behind the pieces
            at = max(0, len(fields) - 1 - rng.randrange(4))
        number, wire, value = fields[at]
        if how < 0.45 and wire == 2 and depth < 2:
            try:
                fields[at][2] = hostile_proto(rng, _fields(value), depth + 1)
            except IndexError:
                fields[at][2] = raw.changed(rng, value)
        elif how < 0.6 and isinstance(value, int):
            fields[at][2] = raw.number(rng, value)
        elif how < 0.7 and isinstance(value, bytes):
            fields[at][2] = raw.changed(rng, value)
        elif how < 0.76:
            fields[at][0] = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 15, 16, 200, 1 << 28))
        elif how < 0.82:
            fields[at][1:] = rng.choice(([0, 7], [2, b""], [5, bytes(4)], [1, bytes(8)], [3, b""]))
        elif how < 0.9:
            fields.insert(at, list(rng.choice(fields)))
        elif how < 0.96:
            del fields[at]
        else:
            fields[at:at] = [[1, 2, b"\n\x01" + bytes([97 + i % 26])] for i in range(300)]
    return _message(fields, rng)


def make_sentencepiece(rng: random.Random, words: Words) -> Source:
    fields = [list(field) for field in _proto(rng.choice(("bpe", "unigram")))]
    data = hostile_proto(rng, fields) if rng.random() < 0.9 else raw.changed(rng, _message(fields))
    how = rng.random()
    if how < 0.7:
        files = {"m.bin": _llama2c_of(400), "t.model": data}
        return Source(files, ("@m.bin", "--tokenizer", "@t.model"))
    if how < 0.85:
        config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": rng.random() < 0.3}
        files = {**model_of(("llama", "LlamaForCausalLM"), 400), "m/tokenizer.model": data}
        files["m/tokenizer_config.json"] = _json(config)
        if rng.random() < 0.5:
            _add_tokens(rng, words, files, 5)
        return Source(files, ("@m",))
    files = {**model_of(("xlm-roberta", "RobertaModel"), 400), "m/sentencepiece.bpe.model": data}
    config = {"tokenizer_class": "XLMRobertaTokenizer"}
    files["m/tokenizer_config.json"] = _json(config)
    return Source(files, ("@m", "--tokenizer", "@m"))


def make_llama2c_tokenizer(rng: random.Random, words: Words) -> Source:
    """tokenizer.bin beside a model of 400 rows: wrong lengths, scores, texts and places."""
    texts = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % i for i in range(256))]
    texts += [b" " + bytes([97 + i % 26, 97 + i // 26]) for i in range(rng.randrange(140))]
    longest = raw.Number("<I", max(map(len, texts)))
    parts: list[raw.Part] = [longest]
    for at in sorted(rng.sample(range(len(texts)), rng.randrange(3))):
        at, how = min(at, len(texts) - 1), rng.random()
        if how < 0.4:
            texts[at] = rng.choice((b"", b"\0", b"\xff" * 7, b"a" * 600, b"\xe2\x96\x81"))
        elif how < 0.7:
            del texts[at]
        else:
            texts.insert(at, rng.choice(texts))
    for text in texts:
        score = rng.choice((0.0, -1.0, float("nan"), float("inf"))) if rng.random() < 0.01 else -2.0
        parts += [struct.pack("<f", score), raw.Text("<i", text)]
    if rng.random() < 0.6:
        raw.changed_parts(rng, parts, (b"<unk>", b"<0x00>", b" a"))
    files = {"m.bin": _llama2c_of(400), "t.bin": raw.joined(parts)}
    return Source(files, ("@m.bin", "--tokenizer", "@t.bin"))


def make_tiktoken(rng: random.Random, words: Words) -> Source:
    """A tekken.json or a file of tiktoken beside a model of 400 rows."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b" a", b"\xe2\x96", b"\n\n"]
    rows = [base64.b64encode(token).decode() for token in tokens]
    if rng.random() < 0.3:
        lines = [f"{row} {rank}" for rank, row in enumerate(rows)]
        data = "\n".join(lines).encode() + b"\n"
        data = raw.changed(rng, data) if rng.random() < 0.8 else data
        name = rng.choice(
            ("r50k_base.tiktoken", "p50k_base.tiktoken", "cl100k_base.tiktoken", "x.tiktoken")
        )
    else:
        config = {"pattern": TEKKEN_REGEX, "default_num_special_tokens": 5}
        config["default_vocab_size"] = 5 + len(tokens)
        tree: Any = {
            "config": config,
            "vocab": [{"rank": i, "token_bytes": row} for i, row in enumerate(rows)],
        }
        if rng.random() < 0.5:
            texts = ("<unk>", "<s>", "</s>", "[INST]")
            tree["special_tokens"] = [{"rank": i, "token_str": t} for i, t in enumerate(texts)]
        name = "tekken.json"
        data = _hostile_json(rng, tree, words) if rng.random() < 0.7 else _json(tree)
    files = {"m.bin": _llama2c_of(400), name: data}
    return Source(files, ("@m.bin", "--tokenizer", f"@{name}"))


_PATTERN_PARTS = (
    *r"\w \d \s \S \p{L} \p{Han} \P{Lu} . [a-c] [^a] [[:alpha:]] [a&&b] \b \B ^ $ \A \z".split(),
    *r"* + ? *? ++ ?+ {2} {1,3} {0,99} {200} {1000}{1000} {2}+".split(),
    *r"| | ( ) (?: (?i: (?= (?! (?<= (?>".split(),
    *r"(?<n> \1 \k<n> \K \G \X \R \Z (?~a) (?(1)a) (?R) [ ] { } \ \x{110000} \ud800".split(),
    *"- && é 中".split(),
    *"a a a b 1 '".split(),
    " ",
)


@functools.cache
def _stored_parts() -> dict[str, list[Any]]:
    """Steps of each room and models, as tests/golden/tokenizers/make_parts.py wrote them."""
    path = GOLDEN / "tokenizers" / "parts.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    rooms = ("normalizers", "pre_tokenizers", "models", "decoders")
    return {room: [row[0] for row in stored[room] if row[0] is not None] for room in rooms}


def make_pipeline(rng: random.Random, words: Words) -> Source:
    """A tokenizer.json of any parts that the package has, one of them changed."""
    parts = _stored_parts()

    def any_steps(room: str, inside: str) -> Any:
        some = rng.choices(parts[room], k=rng.choice((0, 1, 2, 3, 20)))
        return some[0] if len(some) == 1 else {"type": "Sequence", inside: some}

    tree: dict[str, Any] = {
        "added_tokens": [],
        "normalizer": any_steps("normalizers", "normalizers"),
        "pre_tokenizer": any_steps("pre_tokenizers", "pretokenizers"),
        "decoder": any_steps("decoders", "decoders"),
        "model": rng.choice(parts["models"]),
    }
    files = dict(model_of(_KINDS["bytelevel"], rows_of(tree)))
    if rng.random() < 0.8:
        room = rng.choice(("normalizer", "pre_tokenizer", "decoder", "model"))
        tree[room] = values.changed(rng, tree[room], words)
    files["m/tokenizer.json"] = values.encoded(tree)
    return Source(files, ("@m",))


def make_patterns(rng: random.Random, words: Words) -> Source:
    """A tokenizer.json with a Split of any pattern, or a tekken.json."""
    some = rng.choices(_PATTERN_PARTS, k=rng.randrange(1, 30))
    pattern = "".join(some) * (rng.choice((40, 400)) if rng.random() < 0.05 else 1)
    if rng.random() < 0.3:
        pattern = rng.choice((r"(?:%s)+", "(?i:%s)", "(?:%s|a)*?b", "(?=%s)a")) % pattern
    if rng.random() < 0.3:
        tokens = [base64.b64encode(bytes([i])).decode() for i in range(256)]
        rows = [{"rank": i, "token_bytes": token} for i, token in enumerate(tokens)]
        config = {"pattern": pattern, "default_num_special_tokens": 5, "default_vocab_size": 261}
        tree: Any = {"config": config, "vocab": rows}
        files = {"m.bin": _llama2c_of(400), "tekken.json": _json(tree)}
        return Source(files, ("@m.bin", "--tokenizer", "@tekken.json"))
    tree = tokenizer("bytelevel")
    split: Any = {"type": "Split", "pattern": {"Regex": pattern}, "invert": rng.random() < 0.5}
    split["behavior"] = rng.choice(("Isolated", "Removed", "MergedWithNext", "Contiguous", "x"))
    if rng.random() < 0.2:
        split = values.changed(rng, split, words)
    steps = [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    if rng.random() < 0.2:
        steps.reverse()
    tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    files = dict(model_of(_KINDS["bytelevel"], rows_of(tree)))
    files["m/tokenizer.json"] = _json(tree)
    return Source(files, ("@m",))


def make_characters(rng: random.Random, words: Words) -> Source:
    """A table of characters in its three forms, or of bytes, beside a model of 400 rows."""
    given = {"m.bin": _llama2c_of(400)}
    if rng.random() < 0.1:
        name = rng.choice(("bytes", "bytes+6", "bytes+144", "bytes+145", "bytes+9999"))
        return Source(given, ("@m.bin", "--tokenizer", name))
    table = [*"\n !abc\u00e9\u732b\U0001f431", "<pad>", "[UNK]", *map(chr, range(0x400, 0x420))]
    rng.shuffle(table)
    if rng.random() < 0.2:
        table.append(rng.choice(("", "ab", "a", "<>", "<a b>", "\r\n", "\ud800", "<\ud800>", "\0")))
    how = rng.random()
    if how < 0.3:
        name = rng.choice(("chars.txt", "vocab.txt"))
        data = "".join(c + "\n" for c in table).encode("utf-8", "surrogatepass")
    elif how < 0.6:
        tree: Any = table if rng.random() < 0.5 else {c: i for i, c in enumerate(table)}
        name, data = "chars.json", _hostile_json(rng, tree, (*words, *table))
    else:
        name, stoi = "meta.pkl", {c: i for i, c in enumerate(table)}
        value: Any = {"vocab_size": len(stoi), "itos": dict(enumerate(stoi)), "stoi": stoi}
        if rng.random() < 0.4:
            value = values.changed(rng, value, (*words, *table))
        data = pickle.dumps(value, rng.randrange(6))
    if rng.random() < 0.4:
        data = raw.changed(rng, data)
    return Source({**given, name: data}, ("@m.bin", "--tokenizer", f"@{name}"))


def make_fairseq(rng: random.Random, words: Words) -> Source:
    """A dict.txt with its codes, or without them, beside a model of 400 rows."""
    left, right = ["a", "b", "th", "e", "\u00e9"], ["a", "b", "e", "e</w>", "th</w>", "a</w>"]
    if rng.random() < 0.2:
        some = rng.choice((left, right))
        some.append(rng.choice(("@@", "<s>", "e</w>", "</w>", "<unk", ">", "b@@</w>")))
    merges = [(rng.choice(left), rng.choice(right)) for _ in range(rng.randrange(1, 20))]
    if rng.random() < 0.9:
        merges = [*dict.fromkeys(merges)]
    tokens = [*"abteh", *(part + "@@" for part in left)]
    tokens += ["".join(pair).removesuffix("</w>") for pair in merges]
    tokens = [*dict.fromkeys(tokens)]
    counts = (1, 7, -1, 10**30) if rng.random() < 0.1 else (1, 7, 10**30)
    chosen = rng.sample(tokens, rng.randrange(1, len(tokens) + 1))
    lines = [f"{token} {rng.choice(counts)}" for token in chosen]
    if rng.random() < 0.1:
        lines.append(rng.choice(("", "a", "a b 3", "\u3000 1", "x" * 600 + " 1", "#fairseq 1 2")))
    files = {"m.bin": _llama2c_of(400), "dict.txt": "\n".join(lines).encode() + b"\n"}
    if rng.random() < 0.8:
        head = ["#version: 0.2"] if rng.random() < 0.4 else []
        count = "" if head else " 12"
        if rng.random() < 0.1:
            count = rng.choice((" 12", "", " 1 2"))
        rows = [f"{first} {second}{count}" for first, second in merges]
        files["bpe.codes"] = "\n".join([*head, *rows]).encode() + b"\n"
    for name in ("dict.txt", "bpe.codes"):
        if name in files and rng.random() < 0.3:
            files[name] = raw.changed(rng, files[name])
    return Source(files, ("@m.bin", "--tokenizer", "@dict.txt"))


# ---- the tokenizers of translators


def make_translator_tokenizer(rng: random.Random, words: Words) -> Source:
    kinds = ("marian", "marian", "t5", "pegasus", "mbart", "plbart", "blenderbot-small")
    kind = rng.choice(kinds)
    if kind == "blenderbot-small":
        files, ids = translators.small_blenderbot_files(), {}
    elif kind == "t5":
        files, ids = dict(translators.t5_files()), translators.T5_IDS
    elif kind == "pegasus":
        files, ids = dict(translators.pegasus_files()), translators.T5_IDS
    elif kind == "mbart":
        name = rng.choice(("MBart", "MBart50", "Nllb", "Nllb"))
        files, ids = dict(translators.fairseq_files(name)), {}
    elif kind == "plbart":
        files, ids = dict(translators.fairseq_files("PLBart", language_codes="multi")), {}
    else:
        added = {"2": {"content": "<pad>"}}
        files, ids = (
            dict(translators.marian_files(added_tokens_decoder=added)),
            translators.MARIAN_IDS,
        )
    name = rng.choice(list(files))
    if name.endswith(".json"):
        files[name] = _hostile_json(rng, json.loads(files[name]), words)
    elif name.endswith(".txt"):
        files[name] = _hostile_lines(rng, files[name].decode().split("\n"))
    else:
        fields = [list(field) for field in _fields(files[name])]
        files[name] = hostile_proto(rng, fields)
    config = translators.configuration(kind, **ids)
    flags = ("--target-lang", rng.choice(("eng", "cmn_Hans", "", "x" * 300, "\x1b")))
    folder = {f"m/{part}": data for part, data in files.items()}
    folder |= {
        "m/config.json": _json(config),
        "m/model.safetensors": _weights(kind, config["architectures"][0]),
    }
    own = ["none", "@m", *(f"@m/{part}" for part in files)]  # in place of the directory's own
    given = [rng.choice(own) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    if given and rng.random() < 0.5:  # for one side what is no translator's
        tree = tokenizer(rng.choice(("wordpiece", "bytelevel", "bert_bpe", "bert_bpe")))
        folder["w/tokenizer.json"] = _hostile_json(rng, tree, words)
        given[rng.randrange(len(given))] = rng.choice(("@w", "@w/tokenizer.json"))
    given = [word for path in given for word in ("--tokenizer", path)]
    return Source(folder, ("@m", *(flags if rng.random() < 0.3 else ()), *given))


@functools.cache
def _llama2c_of(rows: int) -> bytes:
    c = checkpoints._SIZES._replace(vocabulary=rows)
    parts: list[raw.Part] = [raw.Number("<i", n) for n in c[:7]]
    body = np.random.default_rng(1).normal(0, 0.3, c.bytes() // 4).astype("<f4").tobytes()
    return raw.joined([*parts, body])[: c.bytes()]
