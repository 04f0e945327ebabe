"""Configurations as they are published, by family: the fields that each has beside its sizes, with
dead ones that no line of its class reads. All are read; a dead field with a value that once meant
another model is refused by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file

import translators as T
from conversions import contents, convert_to
from phasor.checkpoints.tensors import Checkpoint
from phasor.families.encoder_decoders import FAMILIES
from phasor.format.layout import PhasorError
from phasor.sources.find import read_source
from phasor.sources.hugging_face import configured, tokenizer_json, tokenizer_model
from phasor.sources.hugging_face import directory as hugging_face
from phasor.values import settings
from texts import write_json

_OLD = settings("""
    _num_labels                3
    activation_dropout         0.0
    add_bias_logits            false
    add_final_layer_norm       false
    attention_dropout          0.0
    classif_dropout            0.0
    classifier_dropout         0.0
    decoder_layerdrop          0.0
    dropout                    0.1
    encoder_layerdrop          0.0
    extra_pos_embeddings       2
    id2label                   {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
    init_std                   0.02
    label2id                   {"LABEL_0": 0, "LABEL_1": 1, "LABEL_2": 2}
    normalize_before           false
    normalize_embedding        true
    num_hidden_layers          2
    output_past                false
    scale_embedding            false
    static_position_embeddings false
    use_cache                  true
    forced_eos_token_id        2
    gradient_checkpointing     false
""")
_TASKS = {
    "summarization": {
        "early_stopping": True,
        "length_penalty": 2.0,
        "max_length": 142,
        "min_length": 56,
        "no_repeat_ngram_size": 3,
        "num_beams": 4,
        "prefix": "summarize: ",
    }
}
_CHATS = {
    **_OLD,
    **settings("""
        do_blenderbot_90_layernorm        true
        encoder_no_repeat_ngram_size      3
        extra_layer_norm                  false
        force_bos_token_to_be_generated   false
        length_penalty                    0.65
        max_length                        60
        min_length                        20
        num_beams                         10
        scale_embedding                   true
        unk_token_id                      3
    """),
}
_T5_ONES = settings("""
    dropout_rate            0.1
    initializer_factor      1.0
    layer_norm_epsilon      1e-6
    n_positions             512
    output_past             true
    use_cache               true
""")
# Encoder-decoders: the model type, and what config.json has beside sizes and ids.
TRANSLATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "opus-mt": (
        "marian",
        {
            **_OLD,
            "_name_or_path": "/tmp/Helsinki-NLP/opus-mt-en-de",
            "activation_function": "swish",
            "bad_words_ids": [[1]],
            "decoder_vocab_size": T.ROWS,
            "extra_pos_embeddings": 1,
            "max_length": 512,
            "normalize_embedding": False,
            "num_beams": 6,
            "scale_embedding": True,
            "share_encoder_decoder_embeddings": True,
            "static_position_embeddings": True,
        },
    ),
    "t5-small": (
        "t5",
        {**_T5_ONES, "architectures": ["T5WithLMHeadModel"], "task_specific_params": _TASKS},
    ),
    "codet5-base": (
        "t5",
        {
            **_T5_ONES,
            "feed_forward_proj": "relu",
            "gradient_checkpointing": False,
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "task_specific_params": _TASKS,
        },
    ),
    "byt5-small": (
        "t5",
        {**_T5_ONES, "gradient_checkpointing": False, "tokenizer_class": "ByT5Tokenizer"},
    ),
    "mt5-small": (
        "mt5",
        {
            **_T5_ONES,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "tokenizer_class": "T5Tokenizer",
        },
    ),
    "umt5-small": (
        "umt5",
        {
            **_T5_ONES,
            "classifier_dropout": 0.0,
            "dense_act_fn": "gelu_new",
            "feed_forward_proj": "gated-gelu",
            "is_gated_act": True,
            "scalable_attention": True,
            "tie_word_embeddings": True,
            "tokenizer_class": "T5Tokenizer",
        },
    ),
    "bart-large": (
        "bart",
        {**_OLD, "architectures": ["BartModel"], "early_stopping": True, "num_beams": 4},
    ),
    "bart-large-cnn": (
        "bart",
        {
            **_OLD,
            "force_bos_token_to_be_generated": True,
            "forced_bos_token_id": 0,
            "length_penalty": 2.0,
            "max_length": 142,
            "min_length": 56,
            "no_repeat_ngram_size": 3,
            "prefix": " ",
            "task_specific_params": _TASKS,
        },
    ),
    "distilbart-cnn-12-6": (
        "bart",
        {
            **_OLD,
            "force_bos_token_to_be_generated": True,
            "replacing_rate": 0,
            "save_step": 58,
            "student_decoder_layers": None,
            "student_encoder_layers": None,
        },
    ),
    "kobart": (
        "bart",
        {
            **_OLD,
            "architectures": ["BartModel"],
            "author": "a name",
            "do_blenderbot_90_layernorm": False,
            "force_bos_token_to_be_generated": False,
            "kobart_version": 1.0,
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    ),
    "mbart-large-cc25": (
        "mbart",
        {
            **_OLD,
            "add_final_layer_norm": True,
            "max_length": 1024,
            "normalize_before": True,
            "scale_embedding": True,
            "task_specific_params": {"translation_en_to_ro": {"decoder_start_token_id": 5}},
        },
    ),
    "mbart-large-50": (
        "mbart",
        {**_OLD, "scale_embedding": True, "tokenizer_class": "MBart50Tokenizer"},
    ),
    "pegasus-large": (
        "pegasus",
        {
            **_OLD,
            "activation_function": "relu",
            "add_final_layer_norm": True,
            "extra_pos_embeddings": 1,
            "force_bos_token_to_be_generated": False,
            "length_penalty": 0.8,
            "normalize_before": True,
            "normalize_embedding": False,
            "scale_embedding": True,
            "static_position_embeddings": True,
            "task_specific_params": {"summarization_aeslc": {"max_length": 32}},
        },
    ),
    "m2m100_418M": (
        "m2m_100",
        {
            "activation_dropout": 0.0,
            "activation_function": "relu",
            "attention_dropout": 0.1,
            "decoder_layerdrop": 0.05,
            "dropout": 0.1,
            "early_stopping": True,
            "encoder_layerdrop": 0.05,
            "gradient_checkpointing": False,
            "init_std": 0.02,
            "max_length": 200,
            "num_beams": 5,
            "num_hidden_layers": 12,
            "scale_embedding": True,
            "use_cache": True,
        },
    ),
    "nllb-200-distilled-600M": (
        "m2m_100",
        {"activation_function": "relu", "max_length": 200, "tokenizer_class": "NllbTokenizer"},
    ),
    "blenderbot-400M-distill": (
        "blenderbot",
        {**_CHATS, "layernorm_variant": "prelayernorm", "normalize_before": True},
    ),
    "blenderbot_small-90M": ("blenderbot-small", {**_CHATS, "layernorm_variant": "xlm"}),
    "plbart-base": (
        "plbart",
        {**_OLD, "scale_embedding": True, "tokenizer_class": "PLBartTokenizer"},
    ),
}
TRANSLATORS["flan-t5-small"] = TRANSLATORS["t5-small"]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_published_encoder_decoder_is_read(name, tmp_path):
    kind, said = TRANSLATORS[name]
    folder = T.write(tmp_path / "m", kind, **said)
    if said.get("tie_word_embeddings") is True:
        whole = T.tensors(kind)
        save_file({k: v for k, v in whole.items() if k != "lm_head.weight"}, folder / WEIGHTS)
    model, _ = read_source(folder, [Path("none")])
    assert model.problems() == []


WEIGHTS = "model.safetensors"


@pytest.mark.parametrize("name", ["BartModel", "PegasusModel", "M2M100Model", "MBartModel"])
def test_names_without_their_beginning(name, tmp_path):
    """As a class without an output saves them: the file is the same."""
    kind = next(f.types[0] for f in FAMILIES if name in f.classes)
    named = {n: array for n, array in T.tensors(kind).items() if n.startswith("model.")}
    made, bare = [], {"architectures": [name]}
    for where, held, classes in (
        ("whole", named, {}),
        ("bare", {n.removeprefix("model."): array for n, array in named.items()}, bare),
    ):
        folder = T.write(tmp_path / where / "m", kind, **classes)
        save_file(held, folder / WEIGHTS)
        convert_to(folder, tmp_path / where / "f")
        made.append(contents(tmp_path / where / "f"))
    assert made[0] == made[1]


# Of a field that is dead with one value: another, and what the line says of it.
@pytest.mark.parametrize(
    "kind, said, line",
    [
        ("umt5", {"scalable_attention": False}, "scalable_attention: False is not supported"),
        ("t5", {"scalable_attention": True}, "scalable_attention: not known"),
        ("bart", {"do_blenderbot_90_layernorm": True}, "do_blenderbot_90_layernorm: True"),
        ("blenderbot", {"layernorm_variant": "xlm"}, "layernorm_variant: 'xlm'"),
        ("blenderbot", {"extra_layer_norm": True}, "extra_layer_norm: True"),
        ("blenderbot-small", {"do_blenderbot_90_layernorm": False}, "90_layernorm: False"),
        ("blenderbot-small", {"layernorm_variant": "prelayernorm"}, "layernorm_variant: 'pre"),
        ("pegasus", {"force_bos_token_to_be_generated": True}, "to_be_generated: true, which"),
        ("bart", {"force_bos_token_to_be_generated": 1}, "to_be_generated: 1, expected true or"),
        (
            "bart",
            {"force_bos_token_to_be_generated": True, "forced_bos_token_id": 5},
            "force_bos_token_to_be_generated: true, which versions",
        ),
        (
            "bart",
            {"force_bos_token_to_be_generated": True, "bos_token_id": None},
            "force_bos_token_to_be_generated: true, which versions",
        ),
    ],
)
def test_a_dead_field_that_would_say_something(kind, said, line, tmp_path):
    folder = T.write(tmp_path / "m", kind, **said)
    with pytest.raises(PhasorError, match=line):
        read_source(folder)


@pytest.mark.parametrize(
    "said, own, first",
    [
        ({"force_bos_token_to_be_generated": True}, None, 0),
        ({"force_bos_token_to_be_generated": False}, None, None),
        ({"force_bos_token_to_be_generated": False, "forced_bos_token_id": 5}, None, 5),
        ({"force_bos_token_to_be_generated": True}, {}, None),
        ({"forced_bos_token_id": 5}, {}, None),
        ({"forced_bos_token_id": 5}, {"forced_bos_token_id": 7}, 7),
        ({"force_bos_token_to_be_generated": True}, {"forced_bos_token_id": 7}, 7),
    ],
)
def test_the_first_token_of_bart(said, own, first, tmp_path):
    """As transformers 4.57 and 5 have it: generation_config.json, where it is there, says it
    alone."""
    folder = T.write(tmp_path / "m", "bart", **said)
    if own is not None:
        write_json(folder / "generation_config.json", {"eos_token_id": 2, **own})
    model, _ = read_source(folder)
    assert model.descriptor["target"]["forced_first"] == first
    left = own is not None and first is None
    assert any("left out, generation_config.json has no" in n for n in model.notes) == left


def test_the_line_for_a_class_has_every_class_of_its_type(tmp_path):
    for kind, names in (
        ("bart", ["BartForConditionalGeneration", "BartModel", "BartForSequenceClassification"]),
        ("t5", ["T5ForConditionalGeneration", "T5EncoderModel"]),
    ):
        folder = T.write(tmp_path / kind, kind, architectures=["BartForQuestions"])
        with pytest.raises(PhasorError, match="is not supported, expected") as error:
            read_source(folder)
        assert all(name in str(error.value) for name in names)


# ---- Models of one stack

_BERT = settings("""
    model_type                    "bert"
    attention_probs_dropout_prob  0.1
    hidden_act                    "gelu"
    hidden_dropout_prob           0.1
    initializer_range             0.02
    layer_norm_eps                1e-12
    pad_token_id                  0
""")
_ROBERTA = {**_BERT, "model_type": "roberta", "bos_token_id": 0, "eos_token_id": 2}
_LLAMA = settings("""
    model_type            "llama"
    architectures         ["LlamaForCausalLM"]
    bos_token_id          1
    eos_token_id          2
    hidden_act            "silu"
    hidden_size           64
    intermediate_size     96
    initializer_range     0.02
    num_attention_heads   2
    num_hidden_layers     2
    rms_norm_eps          1e-6
    tie_word_embeddings   false
    torch_dtype           "float16"
    transformers_version  "4.48.0"
    use_cache             true
    vocab_size            70
    num_key_value_heads   2
""")
STACKS = {
    "multilingual BERT": {
        **_BERT,
        **settings("""
            architectures               ["BertForMaskedLM"]
            directionality              "bidi"
            pooler_fc_size              768
            pooler_num_attention_heads  12
            pooler_num_fc_layers        3
            pooler_size_per_head        128
            pooler_type                 "first_token_transform"
            output_past                 true
        """),
    },
    "BERT saved by 4.48": {
        **_BERT,
        "architectures": ["BertModel"],
        "_attn_implementation_autoset": True,
        "transformers.js_config": {"dtype": "q8"},
    },
    "roberta-base-squad2": {
        **_ROBERTA,
        "architectures": ["RobertaForQuestionAnswering"],
        "language": "english",
        "name": "Roberta",
        "gradient_checkpointing": False,
    },
    "mpnet-base": {
        **_ROBERTA,
        "model_type": "mpnet",
        "architectures": ["MPNetForMaskedLM"],
        "relative_attention_num_buckets": 32,
    },
    "distilbert": settings("""
        model_type            "distilbert"
        architectures         ["DistilBertForMaskedLM"]
        activation            "gelu"
        attention_dropout     0.1
        dropout               0.1
        initializer_range     0.02
        qa_dropout            0.1
        seq_classif_dropout   0.2
        sinusoidal_pos_embds  false
        tie_weights_          true
    """),
    "deberta-v3": {
        **_BERT,
        **settings("""
            model_type             "deberta-v2"
            architectures          ["DebertaV2ForMaskedLM"]
            hidden_size            768
            layer_norm_eps         1e-7
            legacy                 true
            max_relative_positions -1
            norm_rel_ebd           "layer_norm"
            pooler_dropout         0
            pooler_hidden_act      "gelu"
            pooler_hidden_size     768
            pos_att_type           "p2c|c2p"
            position_biased_input  false
            position_buckets       256
            relative_attention     true
            share_att_key          true
            summary_type           "first"
            type_vocab_size        0
        """),
    },
    "gpt2": settings("""
        model_type              "gpt2"
        architectures           ["GPT2LMHeadModel"]
        activation_function     "gelu_new"
        attn_pdrop              0.1
        bos_token_id            3
        embd_pdrop              0.1
        eos_token_id            3
        initializer_range       0.02
        layer_norm_epsilon      1e-5
        n_ctx                   1024
        resid_pdrop             0.1
        summary_activation      null
        summary_first_dropout   0.1
        summary_proj_to_labels  true
        summary_type            "cls_index"
        summary_use_proj        true
        task_specific_params    {"text-generation": {"do_sample": true, "max_length": 50}}
    """),
    "unsloth's llama": {
        **_LLAMA,
        "_attn_implementation_autoset": True,
        "pretraining_tp": 1,
        "unsloth_fixed": True,
        "unsloth_version": "2024.9",
        "rope_scaling": None,
    },
    "smollm": {**_LLAMA, "is_llama_config": True, "rope_interleaved": False},
    "mistral": {
        **_LLAMA,
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "sliding_window": None,
    },
    "qwen2.5": {
        **_LLAMA,
        **settings("""
            architectures       ["Qwen2ForCausalLM"]
            model_type          "qwen2"
            max_window_layers   21
            sliding_window      32768
            use_mrope           false
            use_sliding_window  false
        """),
    },
    "gemma2": {
        **_LLAMA,
        **settings("""
            architectures            ["Gemma2ForCausalLM"]
            model_type               "gemma2"
            attn_logit_softcapping   50.0
            cache_implementation     "hybrid"
            final_logit_softcapping  30.0
            head_dim                 32
            hidden_act               "gelu_pytorch_tanh"
            hidden_activation        "gelu_pytorch_tanh"
            query_pre_attn_scalar    32
            sliding_window           4096
            tie_word_embeddings      true
        """),
    },
    "phi-4": {
        **_LLAMA,
        **settings("""
            architectures                     ["Phi3ForCausalLM"]
            model_type                        "phi3"
            embd_pdrop                        0.0
            original_max_position_embeddings  2048
            resid_pdrop                       0.0
            sliding_window                    null
            pad_token_id                      3
        """),
    },
}


@pytest.mark.parametrize("name", STACKS)
def test_a_published_stack_is_read(name, tmp_path, monkeypatch):
    """Until its weights, of which there are none."""
    monkeypatch.setattr(hugging_face, "_opened", lambda folder: Checkpoint(folder / "none", {}))
    write_json(tmp_path / "config.json", STACKS[name])
    try:
        model, _ = read_source(tmp_path)
        lines = model.problems()
    except PhasorError as error:
        lines = [str(error)]
    assert lines and all("missing" in line for line in lines[:1]), lines[:3]
    assert not any("config.json" in line for line in lines), lines[:3]


_BPE = {"model_type": 2, "charsmap": b"", "remove_extra": False, "escape": True, "suffix": False}
_BPE |= {"dummy_prefix": True, "byte_fallback": False}
_BPE["pieces"] = [(b"<unk>", 0.0, 2), (b"<s>", 0.0, 3), (b"</s>", 0.0, 3), (b"a", -1.0, 1)]
_BPE["pieces"] += [(b"b", -2.0, 1), (b"ab", -3.0, 1), ("▁".encode(), -4.0, 1)]


@pytest.mark.parametrize(
    "change, beside, line",
    [
        ({}, {}, ""),
        ({"model_type": 1}, {}, "a model that is not bpe"),
        ({"charsmap": b"x"}, {}, "precompiled_charsmap: the slow class of transformers and the"),
        ({"remove_extra": True, "suffix": True}, {}, "remove_extra_whitespaces, treat_white"),
        ({"escape": False}, {}, "escape_whitespaces off"),
        ({"dummy_prefix": False}, {}, "another add_dummy_prefix"),
        ({"pieces": _BPE["pieces"] + [(b"ab", 0.0, 1)]}, {}, "two pieces have the same text"),
        ({"pieces": _BPE["pieces"][1:]}, {}, "there are 0 unknown pieces, expected one"),
        ({"pieces": _BPE["pieces"] + [(b"\xff", 0.0, 1)]}, {}, "a piece is not UTF-8"),
        ({"pieces": _BPE["pieces"] + [(b"a" * 600, 0.0, 1)]}, {}, "has 600 characters, expected"),
        ({}, {"added_tokens.json": {"<pad>": 9}}, "'<pad>' has the id 9, the package would give"),
        ({}, {"tokenizer_config.json": {"added_tokens_decoder": {"0": ["<s>"]}}}, "expected texts"),
        ({}, {"tokenizer_config.json": {"eos_token": ["x"]}}, "eos_token: "),
    ],
)
def test_a_tokenizer_model_alone(change, beside, line, tmp_path, monkeypatch):
    """Its control pieces and the added tokens beside it are found in text; what its classes read in
    two ways is refused."""
    monkeypatch.setattr(tokenizer_model, "read_model_proto", lambda data: {**_BPE, **change})
    (tmp_path / "tokenizer.model").write_bytes(b"of the patch")
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    write_json(tmp_path / "added_tokens.json", {"<new>": 7})
    for name, values in beside.items():
        write_json(tmp_path / name, values)
    if not line:
        _, info = tokenizer_json.build_hf_section(tmp_path / "tokenizer.model")
        assert info["special"] == {"<unk>": 0, "<s>": 1, "</s>": 2} and info["ids"]["<new>"] == 7
        assert (info["prefix"], info["suffix"], info["pieces"]) == ([1], [], 8)
        for said, noted in (({}, True), ({"legacy": False}, False), ({"backend": "x"}, False)):
            said = json.dumps({"tokenizer_class": "LlamaTokenizer", **said})
            (tmp_path / "tokenizer_config.json").write_text(said)
            note = configured.other_ids(tmp_path / "tokenizer.model")
            assert (note is not None) == noted
        return
    with pytest.raises(PhasorError, match=line):
        tokenizer_json.build_hf_section(tmp_path / "tokenizer.model")
