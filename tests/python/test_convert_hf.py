"""Hugging Face directories without PyTorch: every fault of a configuration or of the weights is one
line with its name; whole or not at all."""

import re
from pathlib import Path
from typing import Callable, Iterator

import numpy as np
import pytest
from safetensors.numpy import save_file

from conversions import contents, refused
from phasor import convert
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError
from phasor.families import encoders, hf_config, joined, pictures
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.program import run as run_program
from phasor.reference.forward import Reference
from phasor.sources.hugging_face import directory as hugging_face
from places import program
from texts import write_json

WIDTH, HIDDEN, HEADS, LAYERS, ROWS, POSITIONS = 12, 17, 2, 2, 29, 11
CONFIG = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "vocab_size": ROWS,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "intermediate_size": HIDDEN,
    "max_position_embeddings": POSITIONS,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
    "transformers_version": "4.0.0",
    "hidden_dropout_prob": 0.1,
    "classifier_dropout": None,
}


pytestmark = pytest.mark.usefixtures("no_program")


def linear(name, rows, cols):
    return {f"{name}.weight": (rows, cols), f"{name}.bias": (rows,)}


def norm(name, width=WIDTH):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def trunk():
    out = {
        "embeddings.word_embeddings.weight": (ROWS, WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        **norm("embeddings.LayerNorm"),
    }
    for i in range(LAYERS):
        at = f"encoder.layer.{i}."
        for part in (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        ):
            out.update(linear(at + part, WIDTH, WIDTH))
        out.update(
            {
                **norm(at + "attention.output.LayerNorm"),
                **linear(at + "intermediate.dense", HIDDEN, WIDTH),
                **linear(at + "output.dense", WIDTH, HIDDEN),
                **norm(at + "output.LayerNorm"),
            }
        )
    return out


def words():
    return {
        **linear("cls.predictions.transform.dense", WIDTH, WIDTH),
        **norm("cls.predictions.transform.LayerNorm"),
        "cls.predictions.bias": (ROWS,),
    }


class Directory:
    """A BERT that a test may change before it is written."""

    def __init__(self, path):
        rng = np.random.default_rng(3)
        self.path, self.config, self.more = path / "source", dict(CONFIG), {}
        shapes = {**{"bert." + name: shape for name, shape in trunk().items()}, **words()}
        self.arrays = {
            name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()
        }
        self.output = path / "m.phasor"

    def bare(self):
        self.arrays = {
            name.removeprefix("bert."): value
            for name, value in self.arrays.items()
            if name.startswith("bert.")
        }
        self.config["architectures"] = ["BertModel"]

    def classes(self, count):
        self.arrays = {
            name: value for name, value in self.arrays.items() if name.startswith("bert.")
        }
        for name, shape in {
            **linear("bert.pooler.dense", WIDTH, WIDTH),
            **linear("classifier", count, WIDTH),
        }.items():
            self.arrays[name] = np.random.default_rng(4).normal(size=shape).astype(np.float32)
        self.config["architectures"] = ["BertForSequenceClassification"]

    def write(self):
        self.path.mkdir(exist_ok=True)
        write_json(self.path / "config.json", self.config)
        save_file(self.arrays, self.path / "model.safetensors")
        for name, value in self.more.items():
            (self.path / name).parent.mkdir(exist_ok=True)
            write_json(self.path / name, value)
        return self.path

    def run(self, *more):
        return convert.main([str(self.write()), "-o", str(self.output), "--quiet", *map(str, more)])

    def descriptor(self):
        assert self.run() == 0
        return PhasorFile(self.output).descriptor


@pytest.fixture()
def bert(tmp_path):
    return Directory(tmp_path)


def errors(capsys):
    return capsys.readouterr().err


# ---- What is made of it


def test_a_masked_language_model(bert):
    d = bert.descriptor()
    assert (
        d["output"]["output"] == D.LOGITS
        and d["output"]["tied"] == D.TIED_SOURCE
        and d["output"]["head_width"] == WIDTH
    )
    assert (
        d["source"]["pad"] == 0
        and d["encoder"]["segments"] == 2
        and d["encoder"]["max_positions"] == POSITIONS
    )
    assert d["model"]["name"] == "source"


def test_a_masked_language_model_without_a_tokenizer(bert):
    """Such a file has no mask; whoever gives ids knows its id."""
    assert bert.descriptor()["source"]["mask"] is None
    with pytest.raises(PhasorError, match="has no mask token: --mask ID says which one it is"):
        run_program(program(), "fill", bert.output, "--ids", "5,7,6", "--quiet")
    told = run_program(program(), "fill", bert.output, "--ids", "5,7,6", "--mask", 7, "--top", 3)
    model = Reference(PhasorFile(bert.output))
    row = model.output(model.encode([5, 7, 6]))[1]
    best = np.argsort(-row, kind="stable")[:3].tolist()
    lines = [line.split("\t") for line in told.splitlines() if line]
    assert [(int(place), int(id_)) for place, id_, *_ in lines] == [(1, id_) for id_ in best]


def test_doubles_buffers_and_a_head_that_is_not_used(bert, capsys):
    bert.arrays["cls.predictions.decoder.weight"] = bert.arrays[
        "bert.embeddings.word_embeddings.weight"
    ]
    bert.arrays["cls.predictions.decoder.bias"] = bert.arrays["cls.predictions.bias"]
    bert.arrays["bert.embeddings.position_ids"] = np.arange(POSITIONS)[None]
    bert.arrays["bert.pooler.dense.bias"] = np.zeros(WIDTH, np.float32)
    assert convert.main([str(bert.write()), "-o", str(bert.output)]) == 0
    assert "bert.pooler.dense.bias: no use in this output" in errors(capsys)


def test_the_first_checkpoints_names_of_norms(bert):
    first = bert.descriptor(), contents(bert.output)
    bert.arrays = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): value
        for name, value in bert.arrays.items()
    }
    assert (bert.descriptor(), contents(bert.output)) == first


@pytest.mark.parametrize(
    "name,code",
    [
        ("gelu_new", D.GELU_TANH),
        ("gelu_fast", D.GELU_TANH),
        ("gelu_pytorch_tanh", D.GELU_TANH),
        ("gelu", D.GELU_ERF),
        ("gelu_python", D.GELU_ERF),
        ("relu", D.RELU),
        ("silu", D.SILU),
        ("swish", D.SILU),
    ],
)
def test_names_of_activations(bert, name, code):
    bert.config["hidden_act"] = name
    assert bert.descriptor()["kinds"][0]["activation"] == code


@pytest.mark.parametrize(
    "more,scores",
    [
        ({}, 0),
        ({"problem_type": "multi_label_classification"}, 1),
        ({"problem_type": "regression"}, 2),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, 2),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}, 1),
    ],
)
def test_labels_and_scores(bert, more, scores):
    bert.classes(2)
    bert.config.update(
        {"id2label": {"1": "good", "0": "bad"}, "label2id": {"bad": 0, "good": 1}, **more}
    )
    d = bert.descriptor()
    assert (
        d["output"]["classes"] == 2
        and d["output"]["labels"] == "bad\x1egood\x1e"
        and d["output"]["scores"] == scores
    )


def test_a_single_class_is_a_sigmoid(bert):
    bert.classes(1)
    bert.config["id2label"] = {"0": "LABEL_0"}
    assert bert.descriptor()["output"]["scores"] == 1


def test_roberta_positions_begin_after_the_padding_id(bert):
    bert.bare()
    before = Reference(PhasorFile(bert.output)) if bert.run() == 0 else None
    bert.config.update(
        {
            "architectures": ["RobertaModel"],
            "model_type": "roberta",
            "pad_token_id": 1,
            "max_position_embeddings": POSITIONS + 2,
        }
    )
    table = bert.arrays["embeddings.position_embeddings.weight"]
    bert.arrays["embeddings.position_embeddings.weight"] = np.concatenate(
        [np.full((2, WIDTH), 1e6, np.float32), table]
    )
    assert bert.descriptor()["encoder"]["max_positions"] == POSITIONS
    ids = [5, 9, 3, 3]
    assert np.array_equal(
        Reference(PhasorFile(bert.output)).encode(ids).residuals[-1],
        before.encode(ids).residuals[-1],
    )


def sentence(bert, **pooling):
    bert.bare()
    bert.more = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {
                "idx": 1,
                "name": "1",
                "path": "1_Pooling",
                "type": "sentence_transformers.models.Pooling",
            },
            {
                "idx": 2,
                "name": "2",
                "path": "2_Normalize",
                "type": "sentence_transformers.models.Normalize",
            },
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": WIDTH,
            **(pooling or {"pooling_mode_mean_tokens": True}),
        },
        "sentence_bert_config.json": {"max_seq_length": 8, "do_lower_case": False},
    }


@pytest.mark.parametrize(
    "mode,code",
    [("cls_token", 2), ("mean_tokens", 1), ("lasttoken", 3), ("max_tokens", 4)],
)
def test_a_sentence_encoder(bert, mode, code):
    sentence(bert, pooling_mode_weightedmean_tokens=False, **{f"pooling_mode_{mode}": True})
    d = bert.descriptor()
    assert (
        d["output"]["output"] == D.POOLED
        and d["output"]["pooling"] == code
        and d["output"]["normalize"] == 1
    )


@pytest.mark.parametrize(
    "files, longest",
    [
        ({}, 8),
        ({"sentence_bert_config.json": {"max_seq_length": None}}, 0),
        ({"sentence_bert_config.json": {}, "tokenizer_config.json": {"model_max_length": 7}}, 7),
        (
            {"sentence_bert_config.json": {}, "tokenizer_config.json": {"model_max_length": 1e30}},
            "positions",
        ),
        ({"sentence_bert_config.json": {}, "tokenizer_config.json": {"model_max_length": "7"}}, 0),
    ],
)
def test_the_length_that_texts_are_cut_to(bert, files, longest):
    sentence(bert)
    bert.more.update(files)
    d = bert.descriptor()
    positions = bert.config["max_position_embeddings"]
    assert d["source"]["longest_text"] == (positions if longest == "positions" else longest)


def test_prompts(bert):
    sentence(bert)
    bert.more["config_sentence_transformers.json"] = {
        "prompts": {"query": "query: ", "document": "passage: "},
        "default_prompt_name": "document",
    }
    assert bert.descriptor()["output"]["prompts"] == "document\x1fpassage: \x1equery\x1fquery: \x1e"
    bert.more["config_sentence_transformers.json"]["default_prompt_name"] = None
    assert bert.descriptor()["output"]["prompts"].startswith("\x1f\x1equery\x1f")
    bert.more["config_sentence_transformers.json"]["prompts"] = {"query": "", "document": ""}
    assert bert.descriptor()["output"].get("prompts", "") == ""


# ---- Faults


@pytest.mark.parametrize(
    "change,message",
    [
        (
            {"model_type": "gpt99"},
            "model_type: 'gpt99' is not supported, the nearest is gptj; docs/",
        ),
        (
            {"model_type": "longt5"},
            "'longt5' is not supported, the nearest is t5; docs/reference/families.md lists",
        ),
        ({"model_type": "nllb-moe"}, "'nllb-moe' is not supported, the nearest is m2m_100; docs/"),
        ({"model_type": "led"}, "'led' is not supported, the nearest is bart; docs/"),
        ({"model_type": "zzz"}, "model_type: 'zzz' is not supported; docs/"),
        ({"model_type": None}, "model_type: is missing"),
        (
            {"architectures": ["BertLMHeadModel"]},
            "architectures: BertLMHeadModel is not supported, expected BertModel, BertForMaskedLM",
        ),
        ({"architectures": None}, "architectures: None, expected the name of one class"),
        ({"hidden_act": "gelu_10"}, "hidden_act: 'gelu_10' is not supported, expected relu, gelu"),
        ({"hidden_act": "quick_gelu"}, "'quick_gelu' is not supported"),
        ({"hidden_size": "12"}, "hidden_size: '12', expected a whole number"),
        ({"hidden_size": True}, "hidden_size: True, expected a whole number"),
        ({"num_attention_heads": 5}, "num_attention_heads: 5 does not divide the width 12"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps: 'small', expected a number"),
        (
            {"position_embedding_type": "alibi"},
            "position_embedding_type: 'alibi' is not supported, expected absolute",
        ),
        (
            {"scale_scores_by": 3},
            "scale_scores_by: not known for BertForMaskedLM, and might change what it computes",
        ),
        ({"is_decoder": True}, "is_decoder: True is not supported"),
        ({"add_cross_attention": True}, "add_cross_attention: True is not supported"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads: a table is not supported"),
        (
            {"num_hidden_layers": 10**9},
            "num_hidden_layers: 1000000000, expected a whole number from 1 to 1024",
        ),
        ({"quantization_config": {"bits": 4}}, "quantization_config: the weights are packed"),
        ({"auto_map": {"AutoModel": "modeling.Bert"}}, "auto_map: a table is not supported"),
        ({"vocab_size": ROWS + 1}, "misshapen: bert.embeddings.word_embeddings.weight"),
        ({"tie_word_embeddings": False}, "missing: cls.predictions.decoder.weight"),
        ({"num_hidden_layers": 3}, "missing: bert.encoder.layer.2.attention.self.query.weight"),
        ({"num_hidden_layers": 1}, "left over: bert.encoder.layer.1."),
        ({"type_vocab_size": 0}, "left over: bert.embeddings.token_type_embeddings.weight"),
        (
            {"position_embedding_type": "relative_key"},
            "missing: bert.encoder.layer.0.attention.self.distance_embedding.weight",
        ),
    ],
)
def test_faults_of_a_configuration(bert, capsys, change, message):
    bert.config.update(change)
    assert bert.run() == 1
    text = errors(capsys)
    assert message in text and not bert.output.exists()


ODD = (
    None,
    True,
    -1,
    0,
    1,
    1.5,
    float("nan"),
    1e300,
    "x",
    "\n\x1b[2J",
    "9" * 9999,
    [],
    ["x"],
    {},
    {"x": 1},
    {"\n": {}},
    10**12,
    10**4000,
    [[]],
)


@pytest.mark.long
@pytest.mark.parametrize("family", encoders.FAMILIES, ids=lambda f: f.types[0])
def test_odd_values_are_errors_of_ours(bert, family):
    """Every field of every family with values of every kind: a model, or one line; never a crash,
    and never for long."""
    source, heads, turn = bert.write(), list(family.heads), 0
    small = {name: 4 for name in family.fields.values() if name.startswith("n_")}
    for name in dict.fromkeys(
        [
            *family.defaults,
            *family.fields.values(),
            "id2label",
            "num_labels",
            "problem_type",
            "sentence_transformers",
            "architectures",
            "pad_token_id",
            "model_type",
            "tie_word_embeddings",
            "embedding_size",
            "layer_types",
            "rope_parameters",
            "a_new_field",
            "transformers_version",
            "x\n" * 999,
            "quantization_config",
            "sbert_ce_default_activation_function",
        ]
    ):
        for value in ODD:
            turn += 1
            start = {
                "architectures": [family.classes[0] + heads[turn % len(heads)]],
                "model_type": family.types[0],
                "vocab_size": ROWS,
                **small,
            }
            write_json(source / "config.json", {**start, name: value})
            try:
                hugging_face.read(source)
            except hf_config.PhasorError as error:
                assert str(error).isprintable() and len(str(error)) < 700 + len(str(source)), (
                    name,
                    value,
                )


@pytest.mark.parametrize(
    "text",
    [
        "[" * 99999,
        '{"a":' * 99999,
        '{"hidden_size": ' + "9" * 9999 + "}",
        "[]",
        "null",
        "\x00",
        '"' + "x" * 99999,
        "",
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
    ],
)
def test_a_file_that_is_not_json_is_one_line(bert, capsys, name, text):
    sentence(bert)
    source = bert.write()
    (source / name).write_text(text)
    assert name in refused(source, bert.output, capsys)


def test_a_configuration_of_a_gigabyte_is_not_read(bert, capsys):
    source = bert.write()
    with (source / "config.json").open("r+b") as file:
        file.truncate(1 << 30)
    line = refused(source, bert.output, capsys)
    assert "config.json: is longer than 16,777,216 bytes" in line


def test_a_name_of_a_tensor_stays_on_its_line(bert, capsys):
    bert.arrays["x\n\x1b[2J"] = np.zeros(3, np.float32)
    assert bert.run() == 1
    assert len(errors(capsys).splitlines()) == 1


def test_a_field_that_is_null_says_nothing(bert):
    bert.config["scale_scores_by"] = None
    assert bert.run() == 0


def test_faults_of_the_weights_are_all_named(bert, capsys):
    del bert.arrays["bert.encoder.layer.1.attention.self.key.bias"]
    del bert.arrays["cls.predictions.bias"]
    bert.arrays["bert.encoder.layer.0.output.dense.weight"] = np.zeros(
        (WIDTH, HIDDEN + 1), np.float32
    )
    bert.arrays["extra.weight"] = np.zeros(3, np.float32)
    assert bert.run() == 1
    text = errors(capsys)
    for part in (
        "missing: bert.encoder.layer.1.attention.self.key.bias",
        "missing: cls.predictions.bias",
        "misshapen: bert.encoder.layer.0.output.dense.weight",
        "left over: extra.weight",
    ):
        assert part in text
    assert len(text.splitlines()) == 4


def test_tied_tensors_may_not_differ(bert, capsys):
    bert.arrays["cls.predictions.decoder.weight"] = np.zeros((ROWS, WIDTH), np.float32)
    assert bert.run() == 1
    assert (
        "cls.predictions.decoder.weight differs from bert.embeddings.word_embeddings.weight, with "
        "which it is tied" in errors(capsys)
    )


def test_positions_are_not_looked_up_by_ids(bert, capsys):
    del bert.config["max_position_embeddings"]
    bert.arrays["bert.embeddings.position_embeddings.weight"] = np.zeros((ROWS, WIDTH), np.float32)
    assert bert.run() == 1
    assert "positions are counted from 0, and not looked up by token ids" in errors(capsys)


def test_labels_that_are_not_numbered(bert, capsys):
    bert.classes(2)
    for labels, message in (
        ({"0": "a", "2": "b"}, "its keys are not 0, 1, 2"),
        ({"0": "a", "1": "b\x1e"}, "cannot be printed"),
        ({str(i): "x" for i in range(3)}, "misshapen: classifier.weight"),
    ):
        bert.config["id2label"] = labels
        assert bert.run() == 1 and message in errors(capsys)


@pytest.mark.parametrize(
    "name,value,message",
    [
        (
            "1_Pooling/config.json",
            {"pooling_mode_weightedmean_tokens": True},
            "pooling_mode_weightedmean_tokens is not supported",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "pooling_mode_cls_token and pooling_mode_mean_tokens is not",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": True, "include_prompt": False},
            "include_prompt: False is not supported",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": True, "power": 2},
            "power (2): not known, and might change",
        ),
        ("sentence_bert_config.json", {"do_lower_case": 1}, "do_lower_case: 1, expected true or"),
        ("sentence_bert_config.json", {"max_seq_length": 0}, "max_seq_length: 0, expected a whole"),
        ("sentence_bert_config.json", {"max_seq_length": "8"}, "max_seq_length: '8', expected"),
        (
            "config_sentence_transformers.json",
            {"prompts": {"a": 1}},
            "prompts: expected a table of texts",
        ),
        (
            "config_sentence_transformers.json",
            {"prompts": {"a": "b"}, "default_prompt_name": "c"},
            "default_prompt_name one of its names",
        ),
        (
            "modules.json",
            [
                {"idx": 0, "path": "", "type": "x.Transformer"},
                {"idx": 1, "path": "1_WK", "type": "x.WKPooling"},
            ],
            "WKPooling is not supported",
        ),
        (
            "modules.json",
            [
                {"idx": 0, "path": "1_Pooling", "type": "x.Pooling"},
                {"idx": 1, "path": "", "type": "x.Transformer"},
            ],
            "the order is Transformer, Pooling",
        ),
        (
            "modules.json",
            [{"idx": 0, "path": "", "type": "x.Transformer"}],
            "an encoder and a pooling are needed",
        ),
        (
            "modules.json",
            [{"idx": 0, "path": "../a", "type": "x.Transformer"}],
            "not a list of modules",
        ),
        ("modules.json", {}, "not a list of modules"),
        ("modules.json", 3, "not a list of modules"),
    ],
)
def test_faults_of_a_sentence_encoder(bert, capsys, name, value, message):
    sentence(bert)
    bert.more[name] = value
    assert bert.run() == 1
    assert message in errors(capsys) and not bert.output.exists()


def test_other_directories(tmp_path, bert, capsys):
    bert.write()
    (bert.path / "config.json").write_text("{")
    assert "config.json: not a JSON object" in refused(bert.path, bert.output, capsys)
    write_json(bert.path / "config.json", CONFIG)
    (bert.path / "model.safetensors").unlink()
    line = refused(bert.path, bert.output, capsys)
    assert "directory without weights: expected model.safetensors" in line


def test_a_tokenizer_that_cannot_be_read_is_an_error_unless_it_is_not_wanted(bert, capsys):
    bert.more["tokenizer.json"] = {"model": {"type": "Nonsense"}}
    assert bert.run() == 1
    assert "--tokenizer none converts without" in errors(capsys) and not bert.output.exists()
    assert bert.run("--tokenizer", "none") == 0
    assert PhasorFile(bert.output).descriptor["source"]["tokenizer"] == 0


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s"]


def test_a_vocabulary_is_berts_wordpiece(bert):
    bert.write()
    (bert.path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    side = bert.descriptor()["source"]
    assert side["tokenizer"] == 3 and (
        side["pad"],
        side["unknown"],
        side["start"],
        side["end"],
        side["mask"],
    ) == (0, 1, 2, [3], 4)
    assert (side["prefix"], side["suffix"], side["pair"], side["pair_segment"]) == (
        [2],
        [3],
        [3],
        1,
    )
    bert.config["type_vocab_size"] = 1
    bert.arrays["bert.embeddings.token_type_embeddings.weight"] = bert.arrays[
        "bert.embeddings.token_type_embeddings.weight"
    ][:1]
    assert bert.descriptor()["source"].get("pair_segment", 0) == 0


def test_a_vocabulary_that_another_class_reads_is_refused(bert, capsys):
    bert.write()
    (bert.path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    bert.more["tokenizer_config.json"] = {"tokenizer_class": "BertJapaneseTokenizer"}
    assert bert.run() == 1
    assert "tokenizer_class: 'BertJapaneseTokenizer' may split texts in its own way" in errors(
        capsys
    )
    bert.more["tokenizer_config.json"] = {"tokenizer_class": "BertTokenizer"}
    (bert.path / "vocab.txt").write_text("\n".join([*WORDS, *"abcdefghijklmnopqrstuvwxyz"]) + "\n")
    assert bert.run() == 1
    line = "has 34 pieces, the embedding has 29 rows, and none for "
    assert line in (said := errors(capsys)) and " (29), " in said


def test_a_vocabulary_size_that_is_not_the_embeddings(bert, capsys):
    """The line is about these two, not about the tokenizer; with what it says it converts."""
    rows = len(bert.arrays["bert.embeddings.word_embeddings.weight"])
    bert.config["vocab_size"] = rows - 1
    bert.more["tokenizer_config.json"] = {"tokenizer_class": "BertTokenizer"}
    bert.write()
    words = [*WORDS, *(chr(97 + i) for i in range(rows - len(WORDS)))]
    (bert.path / "vocab.txt").write_text("\n".join(words) + "\n")
    assert bert.run() == 1
    assert errors(capsys) == (
        f"convert: {bert.path / 'config.json'}: vocab_size: {rows - 1}, and the embedding"
        f" bert.embeddings.word_embeddings.weight has {rows} rows: correct vocab_size, or take the"
        " weights that belong to this file\n"
    )
    bert.config["vocab_size"] = rows
    assert bert.run() == 0


def test_families_do_not_claim_the_same_names():
    types = [(t, family.told_by) for family in encoders.FAMILIES for t in family.types]
    assert len(types) == len(set(types))
    for family in encoders.FAMILIES:
        assert not set(family.harmless) & set(hf_config.NEUTRAL)


def refusals() -> Iterator[str]:
    """What is said of a class that is none of a family's, of every family; of each architecture
    that is not supported; and of halves of a pair, of which not all can be one."""
    where, long = Path("config.json"), "a_model_type_of_34_letters_or_more"

    def told(call: Callable[..., object], *given: object) -> str:
        with pytest.raises(PhasorError) as error:
            call(*given)
        return str(error.value)

    for family in hugging_face.FAMILIES:
        values = {"architectures": [f"{family.classes[0]}ForImages"], "model_type": family.types[0]}
        yield told(hugging_face._check_class, hf_config.Config(where, values), family)
        if family.stack == D.ENCODER:
            yield told(hugging_face._head, hf_config.Config(where, values), family)
    for _, fields, *_ in hf_config._REFUSED:
        for name in fields:
            yield told(hugging_face._family, where, {"model_type": long, name: 7})
    for kind in pictures._OTHERWISE:
        yield told(pictures.text_part, where, {"model_type": kind})
    for kind in (long, *hugging_face._KIN):
        yield told(hugging_face._family, where, {"model_type": kind, "vision_config": {}})
        yield told(hugging_face._family, where, {"model_type": kind})
    half = joined.Half(hf_config.Config(where, {"model_type": long}), Checkpoint(where, {}), "")
    yield told(joined._encoder, half)
    yield told(joined._decoder, half, 0)


def test_a_refusal_is_short():
    """Why, and what there is, without the list of all families."""
    lines = list(refusals())
    assert len(lines) > 140 and max(map(len, lines)) <= 200, max(lines, key=len)
    types = {name for family in hugging_face.FAMILIES for name in family.types}
    for line in lines:
        behind = line.split("is not supported")[-1]
        assert len(types & set(re.findall(r"[\w-]+", behind))) <= 6, line
