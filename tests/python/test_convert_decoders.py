"""Decoders of Hugging Face directories without PyTorch: every fault of a configuration or of the
weights is one line with its name; ids and recommendations."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import torch_zip
from conversions import contents, convert_to, refused
from phasor import convert
from phasor.checkpoints.tensors import Checkpoint, stored
from phasor.checkpoints.wrappers import within_model
from phasor.families import decoder, decoders, encoders, hf_config
from phasor.families.decoders.bloom import BLOOM
from phasor.families.decoders.falcon import FALCON
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format.layout import PhasorError
from phasor.reference.forward import Reference
from phasor.sources.hugging_face import directory as hugging_face
from texts import write_json

WIDTH, HIDDEN, HEADS, LAYERS, ROWS, POSITIONS = 12, 17, 2, 2, 29, 24
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": ROWS,
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 1,
    "num_hidden_layers": LAYERS,
    "intermediate_size": HIDDEN,
    "max_position_embeddings": POSITIONS,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float32",
    "attention_dropout": 0.0,
    "rope_scaling": None,
}


pytestmark = pytest.mark.usefixtures("no_program")


def shapes():
    out = {
        "model.embed_tokens.weight": (ROWS, WIDTH),
        "lm_head.weight": (ROWS, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    w = WIDTH // HEADS
    for i in range(LAYERS):
        for name, shape in (
            ("self_attn.q_proj", (WIDTH, WIDTH)),
            ("self_attn.k_proj", (w, WIDTH)),
            ("self_attn.v_proj", (w, WIDTH)),
            ("self_attn.o_proj", (WIDTH, WIDTH)),
            ("mlp.gate_proj", (HIDDEN, WIDTH)),
            ("mlp.up_proj", (HIDDEN, WIDTH)),
            ("mlp.down_proj", (WIDTH, HIDDEN)),
            ("input_layernorm", (WIDTH,)),
            ("post_attention_layernorm", (WIDTH,)),
        ):
            out[f"model.layers.{i}.{name}.weight"] = shape
    return out


class Directory:
    """A Llama that a test may change before it is written."""

    def __init__(self, path):
        rng = np.random.default_rng(3)
        self.path, self.config, self.more, self.output = (
            path / "source",
            dict(CONFIG),
            {},
            path / "m.phasor",
        )
        self.arrays = {
            name: rng.normal(0, 0.4, size=shape).astype(np.float32)
            for name, shape in shapes().items()
        }

    def write(self):
        self.path.mkdir(exist_ok=True)
        write_json(self.path / "config.json", self.config)
        save_file(self.arrays, self.path / "model.safetensors")
        for name, value in self.more.items():
            write_json(self.path / name, value)
        return self.path

    def run(self, *more):
        return convert.main([str(self.write()), "-o", str(self.output), "--quiet", *map(str, more)])

    def descriptor(self, *more):
        assert self.run(*more) == 0
        return PhasorFile(self.output).descriptor

    def refused(self, capsys, *more):
        """The one line of a conversion that stops, and leaves nothing."""
        return refused(self.write(), self.output, capsys, *more)


@pytest.fixture()
def llama(tmp_path):
    return Directory(tmp_path)


# ---- What is made of it


def test_a_llama(llama):
    d = llama.descriptor()
    assert (
        d["output"]["tied"] == D.TIED_OWN
        and d["target"]["start"] == 1
        and d["target"]["end"] == [2]
        and d["decoder"]["max_positions"] == POSITIONS
    )
    assert (
        d["kinds"][0]["kv_heads"] == 1
        and d["kinds"][0]["position"] == D.ROTARY_HALVES
        and d["kinds"][0]["head_width"] == WIDTH // HEADS
    )
    file = PhasorFile(llama.output)
    gate_and_up = [
        llama.arrays[f"model.layers.1.mlp.{part}_proj.weight"] for part in ("gate", "up")
    ]
    assert np.array_equal(
        file.weights(R.DECODER << 24 | 1 << 8 | R.FFN_IN), np.concatenate(gate_and_up)
    )


@pytest.mark.parametrize(
    "family, fields, name",
    [
        (BLOOM, {"slow_but_exact": True, "pretraining_tp": 4}, "slow_but_exact: True is not"),
        (BLOOM, {"slow_but_exact": True, "pretraining_tp": 1}, None),
        (FALCON, {"alibi": True, "output_attentions": True}, "output_attentions: True is not"),
        (FALCON, {"alibi": False, "output_attentions": True}, None),
    ],
)
def test_a_field_that_only_changes_some_models(family, fields, name):
    """What transformers computes otherwise with both fields: found by config_fuzz.py."""
    heads = "n_head" if family is BLOOM else "num_attention_heads"
    sizes = {"hidden_size": 48, heads: 6, "vocab_size": 33}
    values = {**sizes, "transformers_version": "4.57.6", **fields}
    config = hf_config.Config(Path("config.json"), values, family.defaults, family.newer)
    if name is None:
        decoder.Decoder(family, config, 0)
        return
    with pytest.raises(PhasorError, match=f"config.json: {name}"):
        decoder.Decoder(family, config, 0)


def add_modules(folder):
    """Those of sentence-transformers: the last position's vector."""
    modules = [
        {"idx": i, "path": place, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, place) in enumerate((("Transformer", ""), ("Pooling", "1_Pooling")))
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')


def test_a_decoder_that_gives_vectors(llama):
    """As Qwen3-Embedding's directories: an encoder's file whose queries see what is before them."""
    add_modules(llama.write())
    d = llama.descriptor()
    assert d["model"]["stack"] == D.ENCODER and "decoder" not in d and "target" not in d
    assert d["source"]["start"] == 1 and d["source"]["end"] == [2]
    assert all(kind["causal"] for kind in d["kinds"])
    assert (d["output"]["output"], d["output"]["pooling"]) == (D.POOLED, D.LAST)
    file = PhasorFile(llama.output)
    assert np.array_equal(
        file.weights(R.key_of(R.SOURCE, 0, R.EMBEDDING)), llama.arrays["model.embed_tokens.weight"]
    )
    ids = [4, 9, 3]
    model = Reference(file)
    whole, start = (model.encode(np.array(n)).residuals[-1] for n in (ids, ids[:2]))
    assert np.array_equal(whole[:2], start), "a later id changes an earlier row"


def test_a_decoder_whose_positions_see_all(llama, capsys):
    llama.config["is_causal"] = False
    add_modules(llama.write())
    d = llama.descriptor()
    assert d["kinds"] and not any(kind["causal"] for kind in d["kinds"])
    ids = [4, 9, 3]
    model = Reference(PhasorFile(llama.output))
    whole, start = (model.encode(np.array(n)).residuals[-1] for n in (ids, ids[:2]))
    assert not np.allclose(whole[:2], start), "a later id changes no earlier row"
    llama.output.unlink()
    llama.config.update(architectures=["MistralForCausalLM"], model_type="mistral")
    assert "is_causal: false is built with" in llama.refused(capsys)  # its window
    llama.config["is_causal"] = 0
    assert "is_causal: 0, expected true or false" in llama.refused(capsys)


def test_logits_look_back_alone(llama, capsys):
    llama.config["is_causal"] = False
    assert "is_causal: False is not supported, expected True" in llama.refused(capsys)
    llama.config["is_causal"] = True
    assert "decoder" in llama.descriptor()


CODE = {"AutoConfig": "configuration_own.Config", "AutoModel": "modeling_own.LlamaModel"}


@pytest.mark.parametrize("output", ["ForCausalLM", "Model", "ForSequenceClassification"])
def test_vectors_and_classes_of_a_directory_with_code(llama, capsys, output):
    """GTE-Qwen2's code lets every position see all."""
    llama.config.update(architectures=[f"Llama{output}"], auto_map=CODE)
    llama.write()
    if output != "ForSequenceClassification":
        add_modules(llama.path)
    line = llama.refused(capsys)
    assert "config.json: auto_map: " in line and "is_causal" in line and "--expect" in line


def test_logits_of_a_directory_with_code(llama, capsys):
    """The class of the library's name is converted, and a note says what was not run."""
    causal = "AutoModelForCausalLM"
    llama.config["auto_map"] = {**CODE, causal: "someone/it--modeling_own.LlamaForCausalLM"}
    assert convert.main([str(llama.write()), "-o", str(llama.output)]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if "auto_map" in line]
    assert len(notes) == 1 and "not run" in notes[0] and "--expect" in notes[0]
    llama.output.unlink()
    for other in ("modeling_own.OwnForCausalLM", ["modeling_own.LlamaForCausalLM"], 3):
        llama.config["auto_map"] = {causal: other}
        assert "config.json: auto_map: " in llama.refused(capsys)
    llama.config["auto_map"] = "modeling_own.py"
    assert "auto_map: 'modeling_own.py', expected a table" in llama.refused(capsys)


@pytest.mark.parametrize("kept", [False, True])
def test_a_tied_output_may_be_there_twice(llama, kept):
    llama.config["tie_word_embeddings"] = True
    if kept:
        llama.arrays["lm_head.weight"] = llama.arrays["model.embed_tokens.weight"]
    else:
        del llama.arrays["lm_head.weight"]
    assert llama.descriptor()["output"]["tied"] == D.TIED_TARGET


def test_a_tied_output_may_not_differ(llama, capsys):
    llama.config["tie_word_embeddings"] = True
    assert "lm_head.weight differs from model.embed_tokens.weight" in llama.refused(capsys)


@pytest.mark.parametrize("kind", [np.float16, "bf16"])
def test_half_precision_is_read_exactly(llama, kind):
    rounded = {}
    for name, value in llama.arrays.items():
        bits = value.view(np.uint32)
        rounded[name] = (
            value.astype(np.float16).astype(np.float32)
            if kind is np.float16
            else (bits & 0xFFFF0000).view(np.float32)
        )
    llama.arrays = rounded
    llama.run()
    first = contents(llama.output)
    if kind is np.float16:
        llama.arrays = {name: value.astype(np.float16) for name, value in rounded.items()}
        assert llama.run() == 0
    else:
        llama.write()
        write_bf16(llama.path / "model.safetensors", rounded)
        convert_to(llama.path, llama.output)
    assert contents(llama.output) == first


def write_bf16(path, arrays):
    header, parts, at = {}, [], 0
    for name, value in arrays.items():
        parts.append((value.view(np.uint32) >> 16).astype("<u2").tobytes())
        header[name] = {
            "dtype": "BF16",
            "shape": list(value.shape),
            "data_offsets": [at, at + len(parts[-1])],
        }
        at += len(parts[-1])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def test_pytorch_model_bin_gives_the_same_file(llama):
    assert llama.run() == 0
    first = contents(llama.output)
    (llama.path / "model.safetensors").unlink()
    torch_zip.save(llama.path / "pytorch_model.bin", llama.arrays)
    convert_to(llama.path, llama.output)
    assert contents(llama.output) == first


def test_names_without_the_trunk(llama):
    assert llama.run() == 0
    first = contents(llama.output)
    llama.arrays = {name.removeprefix("model."): value for name, value in llama.arrays.items()}
    assert llama.run() == 0 and contents(llama.output) == first


def test_an_opt_without_the_first_part_of_its_names(tmp_path):
    """As its first checkpoints are."""
    files = []
    for trunk in ("model.decoder.", "decoder.", ""):
        opt = Directory(tmp_path)
        opt.config = {
            "architectures": ["OPTForCausalLM"],
            "model_type": "opt",
            "vocab_size": ROWS,
            "hidden_size": WIDTH,
            "num_attention_heads": HEADS,
            "num_hidden_layers": 1,
            "ffn_dim": HIDDEN,
            "max_position_embeddings": POSITIONS,
            "word_embed_proj_dim": WIDTH,
        }
        shapes = {
            "embed_tokens": (ROWS, WIDTH),
            "embed_positions": (POSITIONS + 2, WIDTH),
            "final_layer_norm": (WIDTH,),
        }
        block = {
            "self_attn_layer_norm": (WIDTH,),
            "final_layer_norm": (WIDTH,),
            "fc1": (HIDDEN, WIDTH),
            "fc2": (WIDTH, HIDDEN),
            **{f"self_attn.{part}_proj": (WIDTH, WIDTH) for part in ("q", "k", "v", "out")},
        }
        shapes.update({f"layers.0.{name}": shape for name, shape in block.items()})
        rng = np.random.default_rng(3)
        opt.arrays = {
            trunk + name + ".weight": rng.normal(size=shape).astype(np.float32)
            for name, shape in shapes.items()
        }
        opt.arrays.update(
            {
                trunk + name + ".bias": rng.normal(size=shape[:1]).astype(np.float32)
                for name, shape in shapes.items()
                if "embed" not in name
            }
        )
        assert opt.run() == 0
        files.append(contents(opt.output))
    assert files[0] == files[1] == files[2]


# ---- Faults


def test_sums_that_leave_float32_are_named(llama, capsys):
    """Every weight is finite; what the model computes is not, and no vector could be replayed."""
    llama.arrays["lm_head.weight"] = np.full((ROWS, WIDTH), 3e38, np.float32)
    assert "computes values that are no numbers of float32" in llama.refused(capsys)


def test_a_model_that_float32_cannot_compute_is_named(llama, capsys):
    """All outputs share a large part, and what is left of them is of the size of its rounding. The
    tolerance that such a run asks for would accept any result."""
    large = 1e8 + np.random.default_rng(1).normal(size=(ROWS, WIDTH)) * 16
    llama.arrays["lm_head.weight"] = large.astype(np.float32)
    assert "no test vector could tell a right run from a wrong one" in llama.refused(capsys)


def test_a_shard_that_is_missing(llama, capsys):
    llama.write()
    names = sorted(llama.arrays)
    half = len(names) // 2
    places = {
        name: f"model-0000{1 + (i >= half)}-of-00002.safetensors" for i, name in enumerate(names)
    }
    (llama.path / "model.safetensors").unlink()
    save_file(
        {name: llama.arrays[name] for name in names[:half]},
        llama.path / "model-00001-of-00002.safetensors",
    )
    write_json(llama.path / "model.safetensors.index.json", {"weight_map": places})
    line = refused(llama.path, llama.output, capsys)
    assert "model-00002-of-00002.safetensors" in line


def test_every_tensor_that_is_wrong_is_named(llama, capsys):
    llama.arrays["model.layers.0.mlp.up_proj.weight"] = np.zeros((HIDDEN + 1, WIDTH), np.float32)
    del llama.arrays["model.norm.weight"]
    llama.arrays["model.layers.0.self_attn.q_proj.bias"] = np.zeros(WIDTH, np.float32)
    assert llama.run() == 1 and not llama.output.exists()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert any(
        "misshapen: model.layers.0.mlp.up_proj.weight" in line
        and f"({HIDDEN + 1} x {WIDTH}), expected ({HIDDEN} x {WIDTH})" in line
        for line in lines
    )
    assert any("missing: model.norm.weight" in line for line in lines)
    assert any("left over: model.layers.0.self_attn.q_proj.bias" in line for line in lines)


@pytest.mark.parametrize(
    "name, value",
    [
        ("a_new_field", 1),
        ("hidden_act", "relu6"),
        ("head_dim", 0),
        ("num_attention_heads", 5),
        ("num_key_value_heads", 3),
        ("rms_norm_eps", -1),
        ("rope_theta", 0.5),
        ("rope_scaling", {"type": "linear", "factor": "two"}),
        ("rope_scaling", {"type": "new"}),
        ("rope_scaling", [1]),
        ("attention_bias", 1),
        ("quantization_config", {"bits": 4}),
        ("head_dim", 5),
        ("layer_types", ["full_attention"] * LAYERS),
        ("vocab_size", 1 << 30),
        ("num_hidden_layers", 100000),
        ("architectures", ["LlamaForQuestionAnswering"]),
        ("architectures", []),
        ("bos_token_id", "one"),
        ("rope_parameters", {"rope_theta": "x"}),
        ("sliding_window", 5),
    ],
)
def test_a_field_that_is_not_understood_is_named(llama, capsys, name, value):
    llama.config[name] = value
    if name == "bos_token_id":
        llama.more["generation_config.json"] = {"bos_token_id": value}
    line = llama.refused(capsys)
    assert name in line or (name, value) == ("head_dim", 5), line


@pytest.mark.parametrize(
    "more, what",
    [
        ({}, "num_local_experts: 8 is not supported, expected 0"),
        ({"num_local_experts": 0}, "layer_types: a Mamba layer is not supported"),
        ({"num_local_experts": 0, "layer_types": ["attention", "mamba"]}, "layer_types: a Mamba"),
    ],
)
def test_granite_4_with_experts_or_a_mamba_is_not_built(llama, capsys, more, what):
    own = {"model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"]}
    llama.config.update({**own, **more})
    assert what in llama.refused(capsys)


@pytest.fixture()
def llava(llama):
    """The same Llama inside of a model with pictures."""
    text = {n: v for n, v in llama.config.items() if n not in ("architectures", "torch_dtype")}
    llama.config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "text_config": text,
        "vision_config": {"hidden_size": 8},
        "vision_feature_layer": -2,
    }
    llama.arrays = {"language_model." + name: value for name, value in llama.arrays.items()}
    llama.arrays["vision_tower.embed.weight"] = np.ones((3, 5), np.float32)
    return llama


def test_the_language_model_of_a_model_with_pictures(llama, llava, tmp_path, capsys):
    """The file is that of the language model by itself; a line says that pictures are left out."""
    assert convert.main([str(llava.write()), "-o", str(llava.output)]) == 0
    assert "pictures are left out" in capsys.readouterr().err
    given = contents(llava.output)
    llava.config = {**llava.config["text_config"], "architectures": ["LlamaForCausalLM"]}
    llava.arrays = {
        name.removeprefix("language_model."): value
        for name, value in llava.arrays.items()
        if not name.startswith("vision_tower.")
    }
    assert llava.run() == 0 and contents(llava.output) == given


@pytest.mark.parametrize(
    "table, more, what",
    [
        ("", {"hidden_size": 7}, "hidden_size: not known for LlavaForConditionalGeneration"),
        ("", {"architectures": ["LlavaModel"]}, "architectures: ['LlavaModel'] is not supported"),
        ("", {"text_config": None}, "text_config: missing"),
        ("", {"text_config": 3}, "text_config: 3, expected a table"),
        ("text_config", {"new": 1}, "text_config.new: not known"),
        ("text_config", {"hidden_size": "a"}, "text_config.hidden_size: 'a'"),
        (
            "text_config",
            {"model_type": "mamba"},
            "text_config.model_type: 'mamba' is not supported",
        ),
        ("text_config", {"model_type": ["llama"]}, "text_config.model_type: ['llama'] is not"),
        (
            "text_config",
            {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "new": 1}},
            "text_config.rope_scaling: ",
        ),
        (
            "text_config",
            {"model_type": "granite", "logits_scaling": 3.0},
            "text_config.logits_scaling: not computed by a class with pictures",
        ),
    ],
)
def test_a_fault_of_a_model_with_pictures(llava, capsys, table, more, what):
    (llava.config[table] if table else llava.config).update(more)
    assert what in llava.refused(capsys)


def test_no_adapter_of_a_model_with_pictures(llava, tmp_path, capsys):
    words = [str(llava.write()), "-o", str(llava.output), "--lora", str(tmp_path)]
    assert convert.main(words) == 1 and not llava.output.exists()
    assert "--lora are not supported for a model with pictures" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["audio_tower.weight", "language_model.model.more.weight"])
def test_a_tensor_of_a_model_with_pictures_that_is_not_listed(llava, capsys, name):
    llava.arrays[name] = np.ones(3, np.float32)
    assert "has no use in this model" in llava.refused(capsys)


@pytest.mark.parametrize(
    "more, what",
    [
        ({"model_type": "mixtral", "num_local_experts": 8}, "a mixture of experts"),
        ({"model_type": "qwen2_moe", "num_experts": 60}, "a mixture of experts"),
        ({"model_type": "olmoe", "num_experts": 64}, "a mixture of experts"),
        ({"model_type": "granitemoe", "num_local_experts": 8}, "a mixture of experts"),
        ({"model_type": "mamba", "state_size": 16}, "a state-space layer"),
        ({"model_type": "jamba", "mamba_d_state": 16}, "a state-space layer"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "latent attention"),
        (
            {"model_type": "deepseek_v2", "kv_lora_rank": 512, "n_routed_experts": 64},
            "a mixture of experts",
        ),
        ({"model_type": "lfm2_moe", "num_experts": 32}, "a mixture of experts"),
        (
            {
                "model_type": "gemma3n",
                "vision_config": {},
                "text_config": {"altup_num_inputs": 4, "hidden_size_per_layer_input": 256},
            },
            "streams of residuals side by side",
        ),
        (
            {
                "model_type": "gemma4_unified",
                "vision_config": {},
                "text_config": {"hidden_size_per_layer_input": 256},
            },
            "an embedding for each layer",
        ),
        ({"model_type": "kosmos-2", "vision_config": {}}, "pictures"),
        ({"model_type": "paligemma"}, "in both directions"),
        ({"model_type": "qwen2_audio", "audio_config": {}}, "sound"),
        ({"model_type": "whatever"}, "'whatever' is not supported"),
        ({"num_local_experts": 4}, "a mixture of experts"),
    ],
)
def test_an_architecture_that_is_not_built(llama, capsys, more, what):
    llama.config.update(more)
    line = llama.refused(capsys)
    assert what in line and more.get("model_type", "llama") in line


def test_a_field_of_every_refusal_has_a_value_that_says_nothing():
    for _, fields, absent, _ in hf_config._REFUSED:
        hf_config.refuse("config.json", {name: value for name in fields for value in absent})


# ---- Ids and recommendations


def test_ids_of_generation_config_count_more(llama):
    llama.more["generation_config.json"] = {
        "bos_token_id": 5,
        "eos_token_id": [7, 9, 7],
        "pad_token_id": 3,
        "transformers_version": "4.40.0",
    }
    target = llama.descriptor()["target"]
    assert (target["start"], target["end"], target["pad"]) == (5, [7, 9], 3)


def test_an_id_outside_the_vocabulary_is_left_out(llama, capsys):
    llama.config["bos_token_id"] = 50256
    assert convert.main([str(llama.write()), "-o", str(llama.output)]) == 0
    assert "bos_token_id: 50256 is not in the vocabulary" in capsys.readouterr().err
    assert PhasorFile(llama.output).descriptor["target"]["start"] is None


def test_recommended_options(llama, capsys):
    llama.more["generation_config.json"] = {
        "do_sample": True,
        "temperature": 0.6,
        "top_p": 0.9,
        "top_k": 40,
        "repetition_penalty": 1.1,
        "num_beams": 4,
        "suppress_tokens": [4, 3],
        "max_new_tokens": 7,
        "no_repeat_ngram_size": 3,
        "typical_p": 1.0,
        "penalty_alpha": 0.5,
    }
    assert convert.main([str(llama.write()), "-o", str(llama.output)]) == 0
    g = PhasorFile(llama.output).descriptor["generation"]
    assert (
        g["sample"],
        g["top_k"],
        g["max_new"],
        g["no_repeat_ngram"],
        g["suppressed"],
        g["typical_p"],
        g["beams"],
    ) == (1, 40, 7, 3, [3, 4], 0, 4)
    assert [g[name] for name in ("temperature", "top_p", "repetition_penalty")] == [
        np.float32(x) for x in (0.6, 0.9, 1.1)
    ]
    assert "penalty_alpha: recommended, and not kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, value",
    [
        ("top_p", 1.5),
        ("temperature", -1),
        ("top_k", 0.5),
        ("do_sample", "yes"),
        ("suppress_tokens", ["a"]),
    ],
)
def test_a_recommendation_that_cannot_be(llama, capsys, name, value):
    llama.more["generation_config.json"] = {name: value}
    assert name in llama.refused(capsys)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "top_p",
        "temperature",
        "top_k",
        "do_sample",
        "suppress_tokens",
        "eos_token_id",
        "bos_token_id",
        "max_new_tokens",
        "num_beams",
        "a_new_field",
        "x\n" * 999,
    ],
)
def test_an_odd_recommendation_is_an_error_or_a_note(llama, name):
    source = llama.write()
    for value in ODD:
        write_json(source / "generation_config.json", {name: value})
        try:
            notes = hugging_face.read(source).model.notes
            assert all(note.isprintable() and len(note) < 700 for note in notes)
        except PhasorError as error:
            assert str(error).isprintable() and len(str(error)) < 700


@pytest.mark.parametrize(
    "values, noted",
    [
        ({"top_h": 0.4, "use_cache": True, "max_length": 20}, "top_h"),
        (
            {
                "max_length": 142,
                "max_time": 2.5,
                "num_return_sequences": 3,
                "num_beam_groups": 2,
                "diversity_penalty": 0.5,
                "force_words_ids": [[5]],
                "forced_bos_token_id": 4,
            },
            "max_length, max_time, num_return_sequences, num_beam_groups, diversity_penalty, "
            "force_words_ids, forced_bos_token_id",
        ),
        (
            {
                "num_return_sequences": 1,
                "num_beam_groups": 1,
                "diversity_penalty": 0.0,
                "constraints": None,
            },
            None,
        ),
        (
            {"stop_strings": ["x"], "watermarking_config": {"a": 1}},
            "stop_strings, watermarking_config",
        ),
        (
            {
                "token_healing": False,
                "stop_strings": [],
                "transformers_version": "5.23.0",
                "temperature": None,
            },
            None,
        ),
    ],
)
def test_a_recommendation_that_is_not_known_is_noted(llama, capsys, values, noted):
    llama.more["generation_config.json"] = values
    assert convert.main([str(llama.write()), "-o", str(llama.output)]) == 0
    text = capsys.readouterr().err
    assert f"{noted}: recommended, and not kept" in text if noted else "recommended" not in text


# ---- Positions


def test_a_share_of_rotated_values_of_newer_configurations(llama, capsys):
    """Only families that turn a share of a head know the field, wherever it is."""
    for where in (llama.config, llama.config.setdefault("rope_parameters", {"rope_theta": 1e4})):
        where["partial_rotary_factor"] = 0.5
        assert "partial_rotary_factor: 0.5 is not supported" in llama.refused(capsys)
        where["partial_rotary_factor"] = 1.0
        assert llama.run() == 0
        llama.output.unlink()


NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "intermediate_size": 8,
    "vocab_size": 9,
}


@pytest.mark.parametrize(
    "fields, width, theta",
    [
        ({}, 4, 10000),
        ({"rotary_pct": 0.5, "rotary_emb_base": 500}, 8, 500),
        ({"rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 500}}, 8, 500),
        ({"rotary_pct": 0.5, "rope_parameters": {"rope_theta": 500}}, 8, 500),
        ({"rotary_pct": 0.5, "partial_rotary_factor": 0.5, "rope_theta": 10000}, 8, 10000),
        (
            {
                "rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 500},
                "partial_rotary_factor": 1,
                "rope_theta": 500.0,
            },
            16,
            500,
        ),
    ],
)
def test_the_share_of_a_gpt_neox(fields, width, theta):
    family = next(f for f in decoders.FAMILIES if "gpt_neox" in f.types)
    made = decoder.Decoder(
        family, hf_config.Config("config.json", {**NEOX, **fields}, family.defaults)
    )
    assert made.kind["rotary_width"] == width
    exponents = np.arange(0, width, 2).astype(np.float32) / np.float32(width)
    power = np.power(np.float64(theta), exponents.astype(np.float64))  # numpy's float32 one differs
    want = np.float32(1) / power.astype(np.float32)  # from machine to machine
    assert np.array_equal(made.kind["tables"][R.ROTARY], want.astype(np.float64))


@pytest.mark.parametrize(
    "kind, fields, what",
    [
        (
            "gpt_neox",
            {
                "rotary_pct": 0.5,
                "rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 10000},
            },
            "rotary_pct: 0.5, and rope_parameters.partial_rotary_factor is 0.25",
        ),
        (
            "gpt_neox",
            {"partial_rotary_factor": 0.5},
            "partial_rotary_factor: 0.5 is not supported, expected 0.25",
        ),
        ("gpt_neox", {"rope_theta": 500}, "rope_theta: 500 is not supported, expected 10000"),
        (
            "gpt_neox",
            {"rope_parameters": {"rope_theta": 10000, "rotary_pct": 0.5}},
            "rope_parameters: rotary_pct is not a key of default",
        ),
        (
            "llama",
            {"rope_theta": 500, "rope_parameters": {"rope_theta": 10000}},
            "rope_theta: 500, and rope_parameters.rope_theta is 10000",
        ),
        (
            "llama",
            {
                "rope_scaling": {"type": "linear", "factor": 2},
                "rope_parameters": {"rope_theta": 10000},
            },
            "rope_scaling: does not say what rope_parameters says",
        ),
        (
            "llama",
            {"rope_parameters": {"full_attention": {"rope_theta": 10000}}},
            "rope_parameters: full_attention is not a key of default",
        ),
        (
            "llama",
            {"rope_scaling": {"type": "linear", "factor": 2, "rope_theta": 500}},
            "rope_scaling: rope_theta is not a key of linear",
        ),
        (
            "gemma3_text",
            {"rope_parameters": {"rope_theta": 500, "rope_type": "default"}},
            "rope_parameters: expected a table with a rope_theta for each of",
        ),
        (
            "olmo3",
            {"rope_parameters": {"full_attention": {"rope_theta": 500}, "sliding_attention": {}}},
            "expected a table with a rope_theta for each of",
        ),
        (
            "gemma3_text",
            {
                "rope_parameters": {
                    "full_attention": {"rope_theta": 500, "new": 1},
                    "sliding_attention": {"rope_theta": 10000},
                }
            },
            "rope_parameters.full_attention: new is not a key of default",
        ),
        (
            "gemma3_text",
            {
                "rope_parameters": {
                    "full_attention": {"rope_theta": 500},
                    "sliding_attention": {"rope_theta": 10000},
                    "new": 1,
                }
            },
            "rope_parameters.new: not known for gemma3_text",
        ),
        (
            "cohere",
            {},
            "rope_theta: is missing: 10000.0 before transformers 5, 500000.0 from then on",
        ),
        ("cohere", {"transformers_version": 5}, "transformers_version: 5, expected a version"),
        (
            "llama",
            {
                "original_max_position_embeddings": 8,
                "rope_scaling": {
                    "type": "yarn",
                    "factor": 2.0,
                    "original_max_position_embeddings": 16,
                },
            },
            "8, and rope_scaling.",
        ),
        (
            "llama",
            {
                "original_max_position_embeddings": 8,
                "rope_scaling": {"type": "yarn", "factor": 2.0},
            },
            "yarn of transformers before 5 does not read it",
        ),
        (
            "llama",
            {
                "rope_scaling": {
                    "type": "longrope",
                    "short_factor": [1] * 64,
                    "long_factor": [2] * 64,
                    "original_max_position_embeddings": 8,
                }
            },
            "longrope of transformers before 5 does not read it",
        ),
        (
            "llama",
            {
                "original_max_position_embeddings": 8,
                "rope_scaling": {
                    "type": "longrope",
                    "short_factor": [1] * 64,
                    "long_factor": [2] * 64,
                    "factor": 3.0,
                },
            },
            "factor: is not max_position_embeddings / original_max_position_embeddings",
        ),
    ],
)
def test_positions_that_are_said_twice_or_nowhere(kind, fields, what):
    family = next(f for f in decoders.FAMILIES if kind in f.types)
    with pytest.raises(PhasorError) as caught:
        decoder.Decoder(
            family,
            hf_config.Config(
                "config.json", {"model_type": kind, **fields}, family.defaults, family.newer
            ),
        )
    assert what in str(caught.value)


@pytest.mark.parametrize("version, theta", [("4.57.6", 10000), ("5.23.0", 500000)])
@pytest.mark.parametrize("kind", ["cohere", "olmo3"])
def test_a_default_that_transformers_changed(kind, version, theta):
    family = next(f for f in decoders.FAMILIES if kind in f.types)
    made = decoder.Decoder(
        family,
        hf_config.Config(
            "config.json", {"transformers_version": version}, family.defaults, family.newer
        ),
    )
    table = made.kind.get("tables", {}).get(R.ROTARY)
    table = made.per_layer[0]["tables"][R.ROTARY] if table is None else table
    assert table[1] == pytest.approx(theta ** (-2 / made.kind["head_width"]), rel=1e-6)


def test_the_table_of_newer_configurations_says_the_same(llama):
    llama.config.update(rope_theta=5000.0, rope_scaling={"rope_type": "linear", "factor": 2.0})
    assert llama.run() == 0
    first = contents(llama.output)
    del llama.config["rope_theta"], llama.config["rope_scaling"]
    llama.config["rope_parameters"] = {"rope_theta": 5000.0, "rope_type": "linear", "factor": 2.0}
    assert llama.run() == 0 and contents(llama.output) == first


# Fields that published configurations have and that change nothing, with a value that would (None:
# none would).
PUBLISHED = {
    "llama": {
        "is_llama_config": (True, None),
        "rope_interleaved": (False, True),
        "transformers.js_config": ({}, None),
        "max_sequence_length": (2048, None),
    },
    "qwen2": {
        "use_mrope": (False, True),
        "sliding_window": (32768, None),
        "max_window_layers": (24, None),
        "use_sliding_window": (False, None),
    },
    "smollm3": {"max_window_layers": (28, None), "pretraining_tp": (2, None)},
    "gemma": {"hidden_activation": ("gelu", None)},
    "gemma2": {"cache_implementation": ("hybrid", None), "hidden_act": ("gelu_pytorch_tanh", None)},
    "gemma3_text": {
        "sliding_window_pattern": (6, None),
        "use_bidirectional_attention": (False, None),
        "attn_logit_softcapping": (None, 50.0),
    },
    "phi3": {
        "attention_bias": (False, True),
        "mlp_bias": (False, True),
        "lm_head_bias": (False, True),
        "full_attn_mod": (1, 2),
        "interpolate_factor": (1, 2),
        "embd_pdrop": (0.0, None),
    },
    "gpt2": {
        "n_ctx": (1024, None),
        "task_specific_params": ({"text-generation": {"do_sample": True}}, None),
        "summary_type": ("cls_index", None),
    },
    "gpt_neo": {"attention_layers": (["global", "local"] * 12, ["local"] * 24)},
    "gptj": {"rotary": (True, None), "tokenizer_class": ("GPT2Tokenizer", None)},
    "gpt_neox": {"partial_rotary_factor": (0.25, None), "rope_theta": (10000, None)},
    "opt": {"prefix": ("</s>", None), "activation_dropout": (0.0, None)},
    "bloom": {
        "apply_residual_connection_post_layernorm": (False, True),
        "n_embed": (64, None),
        "offset_alibi": (100, None),
        "seq_length": (2048, None),
    },
    "mpt": {
        "attn_config": (
            {"alibi": True, "qk_ln": False, "attn_impl": "torch", "rope": False},
            {"alibi": False},
        ),
        "no_bias": (True, False),
        "expansion_ratio": (4, 2),
        "logit_scale": (None, "inv_sqrt_d_model"),
        "norm_type": ("low_precision_layernorm", "rmsnorm"),
        "tokenizer_name": ("gpt-neox", None),
    },
    "falcon": {
        "apply_residual_connection_post_layernorm": (False, True),
        "num_ln_in_parallel_attn": (None, 2),
    },
    "cohere": {"model_max_length": (131072, None)},
    "cohere2": {
        "layer_switch": (4, None),
        "position_embedding_type": ("rope_gptj", "learned"),
        "rotary_pct": (1.0, 0.5),
        "use_parallel_block": (True, False),
    },
    "starcoder2": {
        "attention_softmax_in_fp32": (True, None),
        "mlp_type": ("default", None),
        "layer_norm_epsilon": (1e-5, None),
    },
    "exaone4": {
        "layer_types": (["full_attention"] * 32, ["some"] * 32),
        "sliding_window": (None, None),
        "sliding_window_pattern": (None, None),
    },
}


@pytest.mark.parametrize("kind", PUBLISHED)
def test_fields_of_published_configurations(kind):
    """Those of a family together say nothing; each with another value is refused by its name."""
    family = next(f for f in decoders.FAMILIES if kind in f.types)

    def describe(fields):
        return decoder.Decoder(
            family, hf_config.Config("config.json", {"model_type": kind, **fields}, family.defaults)
        ).descriptor("m")

    assert (
        describe({name: nothing for name, (nothing, _) in PUBLISHED[kind].items()})["model"][
            "stack"
        ]
        == D.DECODER
    )
    for name, (_, other) in PUBLISHED[kind].items():
        if other is not None:
            with pytest.raises(PhasorError, match=name if name != "attn_config" else "alibi"):
                describe({name: other})


ODD = (
    None,
    True,
    -1,
    0,
    1,
    3,
    1.5,
    float("inf"),
    float("nan"),
    1e300,
    "x",
    "\n\x1b[2J",
    "9" * 9999,
    [],
    {},
    [1],
    {"a": 1},
    {"\n": 1},
    10**30,
    10**4000,
    [None] * 9999,
    [[["global"], 10**9]],
    [[["global"] * 9999, 1]] * 999,
)
ODD_TABLES = (
    {"rope_type": "yarn", "factor": 0},
    {"rope_type": "longrope", "short_factor": "ab", "long_factor": [0] * 64},
    {"rope_type": "linear", "factor": None},
    {"rope_type": ["a"]},
    {"rope_theta": "x"},
    {"partial_rotary_factor": 0.5},
    {"full_attention": 1, "sliding_attention": []},
    {"full_attention": {"rope_theta": 9}, "sliding_attention": {"rope_theta": None}},
    {
        "full_attention": {"rope_theta": 9},
        "sliding_attention": {"rope_theta": 9, "rope_type": "yarn", "factor": 2, "truncate": False},
    },
)
SCALINGS = (
    {"rope_type": "linear", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 2.0, "beta_fast": 32, "mscale": 1.0},
    {
        "rope_type": "llama3",
        "factor": 2.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    {"rope_type": "longrope", "short_factor": [1.0] * 64, "long_factor": [1.0] * 64},
)


def one_line(family, values):
    """What Config and Decoder make of it: a descriptor, or one short line."""
    try:
        decoder.Decoder(
            family, hf_config.Config("config.json", values, family.defaults, family.newer)
        ).descriptor("m")
    except PhasorError as error:
        assert str(error).isprintable() and len(str(error)) < 700


@pytest.mark.long
@pytest.mark.parametrize("family", decoders.FAMILIES, ids=lambda f: f.types[0])
def test_an_odd_value_of_any_field_is_an_error_and_not_a_crash(family):
    for name in {
        *family.defaults,
        "rope_scaling",
        "rope_parameters",
        "head_dim",
        "layer_types",
        "original_max_position_embeddings",
        "transformers_version",
        "a_new_field",
        "x\n" * 999,
        "architectures",
        *family.aliases,
    }:
        for value in ODD + ODD_TABLES:
            one_line(family, {**family.defaults, name: value})


@pytest.mark.parametrize("table", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda s: s["rope_type"])
def test_an_odd_value_inside_of_a_scaling(table, scaling):
    family = next(f for f in decoders.FAMILIES if "llama" in f.types)
    for name in {
        *scaling,
        "rope_theta",
        "partial_rotary_factor",
        "original_max_position_embeddings",
        "a_new_field",
    }:
        for value in ODD:
            one_line(family, {**family.defaults, table: {**scaling, name: value}})
            one_line(
                family,
                {
                    **family.defaults,
                    table: {**scaling, name: value},
                    "original_max_position_embeddings": 16,
                },
            )


# What those say whose defaults are not supported.
BUILT = {"granitemoehybrid": {"num_local_experts": 0, "layer_types": ["attention"] * 32}}


@pytest.mark.parametrize("family", decoders.FAMILIES, ids=lambda f: f.types[0])
def test_the_defaults_of_every_family_make_a_descriptor(family):
    kind = family.types[0]
    values = {"model_type": kind, **BUILT.get(kind, {})}
    made = decoder.Decoder(family, hf_config.Config("config.json", values, family.defaults))
    assert D.check(made.descriptor("m")) is None
    assert len(D.layers_of(made.stack)) == made.count


def test_every_family_is_known_once():
    """Or of two of one type, one has a field that tells it from the other."""
    families = encoders.FAMILIES + decoders.FAMILIES
    types = [(t, family.told_by) for family in families for t in family.types]
    assert len(set(types)) == len(types)


def test_rope_context_says_the_longest_sequence(llama):
    assert llama.descriptor("--rope-context", 100)["decoder"]["max_positions"] == 100
    llama.config["rope_scaling"] = {"rope_type": "dynamic", "factor": 2.0}
    longer = llama.descriptor("--rope-context", 40), contents(llama.output)
    trained = llama.descriptor()
    assert (
        longer[0]["decoder"]["max_positions"] == 40
        and trained["decoder"]["max_positions"] == POSITIONS
        and contents(llama.output) != longer[1]
    )


def test_rope_context_without_rotary_positions(llama, capsys):
    llama.config.update(
        model_type="gpt2",
        architectures=["GPT2LMHeadModel"],
        n_embd=WIDTH,
        n_head=HEADS,
        n_layer=LAYERS,
        n_positions=POSITIONS,
    )
    assert "--rope-context: this model has a table of positions" in llama.refused(
        capsys, "--rope-context", 40
    )


def test_flags_of_a_directory_alone(tmp_path, capsys):
    path = torch_zip.save(tmp_path / "m.pt", {"a": np.zeros(3, np.float32)})
    for flag, value in (("--rope-context", "9"), ("--lora", tmp_path)):
        assert flag in refused(path, tmp_path / "m.phasor", capsys, flag, value)


# ---- Adapters


RANK, ALPHA = 2, 6
ADAPTER = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": ALPHA,
    "task_type": "CAUSAL_LM",
    "bias": "none",
    "target_modules": ["q_proj"],
    "inference_mode": True,
}
QUERY = "model.layers.0.self_attn.q_proj"


class Adapter:
    """A change of one matrix, that a test may change before it is written."""

    def __init__(self, path):
        rng = np.random.default_rng(9)
        self.path, self.config = path / "adapter", dict(ADAPTER)
        self.a, self.b = (
            rng.normal(size=shape).astype(np.float32) for shape in ((RANK, WIDTH), (WIDTH, RANK))
        )
        self.arrays = {
            f"base_model.model.{QUERY}.lora_A.weight": self.a,
            f"base_model.model.{QUERY}.lora_B.weight": self.b,
        }

    def write(self):
        self.path.mkdir(exist_ok=True)
        write_json(self.path / "adapter_config.json", self.config)
        save_file(self.arrays, self.path / "adapter_model.safetensors")
        return self.path


@pytest.fixture()
def adapter(tmp_path):
    return Adapter(tmp_path)


def test_an_adapter_is_added(llama, adapter):
    assert llama.run("--lora", adapter.write()) == 0
    first = contents(llama.output)
    llama.arrays[QUERY + ".weight"] = (
        llama.arrays[QUERY + ".weight"].astype(np.float64)
        + ALPHA / RANK * np.einsum("or,ri->oi", adapter.b.astype(np.float64), adapter.a)
    ).astype(np.float32)
    assert llama.run() == 0 and contents(llama.output) == first


def test_an_adapter_in_a_directory_without_weights(llama, adapter, capsys):
    """Some trainers put a config.json there. The line says what to give, and that converts."""
    base = llama.write()
    adapter.config["base_model_name_or_path"] = "org/base-1.5"
    write_json(adapter.write() / "config.json", llama.config)
    for there in (True, False):
        if not there:
            (adapter.path / "config.json").unlink()
        assert refused(adapter.path, llama.output, capsys).endswith(
            "has an adapter without its model: give the model's directory, and this one with --lora"
            " (its base is org/base-1.5)"
        )
    assert llama.run("--lora", adapter.path) == 0 and base == llama.path


@pytest.mark.parametrize("tied", [False, True])
def test_names_that_all_begin_with_model(tied, llama):
    """As a trainer that calls the model `model` saves them."""
    if tied:
        llama.config["tie_word_embeddings"] = True
        del llama.arrays["lm_head.weight"]
    assert llama.run() == 0
    first = contents(llama.output)
    llama.arrays = {f"model.{name}": array for name, array in llama.arrays.items()}
    assert llama.run() == 0 and contents(llama.output) == first


@pytest.mark.parametrize(
    "trunk, names, kept",
    [
        ("bert.", ["model.bert.x", "model.cls.y"], ["bert.x", "cls.y"]),
        ("bert.", ["bert.x", "model.y"], ["bert.x", "model.y"]),
        ("", ["model.x", "model.y"], ["x", "y"]),
        ("model.", ["model.x", "model.y"], ["model.x", "model.y"]),
        ("model.", ["model.model.x", "model.lm_head.y"], ["model.x", "lm_head.y"]),
        ("model.", ["model.model.x", "lm_head.y"], ["model.model.x", "lm_head.y"]),
        ("model.decoder.", ["model.decoder.x"], ["model.decoder.x"]),
        ("model.decoder.", ["model.model.decoder.x"], ["model.decoder.x"]),
    ],
)
def test_what_stands_before_the_names_of_a_class(trunk, names, kept):
    tensors = {name: stored(np.zeros(1)) for name in names}
    assert list(within_model(Checkpoint(Path("m"), tensors), trunk)) == kept


def test_an_adapter_beside_the_weights(llama, adapter, capsys):
    """The library would load it: it is not left out without a word."""
    assert llama.run("--lora", adapter.write()) == 0
    first = contents(llama.output)
    adapter.path = llama.path
    adapter.write()
    llama.output.unlink()
    assert llama.run() == 1 and not llama.output.exists()
    assert "is an adapter beside the model's weights: --lora" in capsys.readouterr().err
    assert llama.run("--lora", llama.path) == 0 and contents(llama.output) == first


def test_modules_that_are_saved_replace_the_bases(llama, adapter):
    head = np.linspace(-0.25, 0.25, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    for name in (
        "base_model.model.lm_head.weight",
        "base_model.model.lm_head.modules_to_save.weight",
        "base_model.model.lm_head.modules_to_save.default.weight",
    ):
        adapter.arrays = {
            name: head,
            **{key: value for key, value in adapter.arrays.items() if "lora" in key},
        }
        assert llama.run("--lora", adapter.write()) == 0
        assert np.array_equal(
            PhasorFile(llama.output).weights(R.OUTPUT << 24 | R.OUTPUT_WEIGHT), head
        )


def test_an_adapter_in_pytorchs_format(llama, adapter):
    assert llama.run("--lora", adapter.write()) == 0
    first = contents(llama.output)
    (adapter.path / "adapter_model.safetensors").unlink()
    torch_zip.save(adapter.path / "adapter_model.bin", adapter.arrays)
    convert_to(llama.path, llama.output, "--lora", adapter.path)
    assert contents(llama.output) == first


@pytest.mark.parametrize(
    "name, value",
    [
        ("peft_type", "ADALORA"),
        ("peft_type", None),
        ("use_dora", "yes"),
        ("lora_bias", True),
        ("init_lora_weights", "pissa"),
        ("r", 3),
        ("r", 0),
        ("lora_alpha", "x"),
        ("a_new_field", 1),
        ("layer_replication", [[0, 1]]),
        ("bias", "some"),
        ("rank_pattern", {"q_proj": 5}),
        ("alpha_pattern", {"q_proj": -1}),
        ("alpha_pattern", [1]),
        ("trainable_token_indices", [3]),
        ("use_qalora", True),
    ],
)
def test_an_adapter_that_is_not_understood(llama, adapter, capsys, name, value):
    adapter.config[name] = value
    line = llama.refused(capsys, "--lora", adapter.write())
    assert name in line or "r is 5" in line or "r is 3" in line, line


@pytest.mark.parametrize(
    "name, shape, what",
    [
        (
            "base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight",
            (RANK, WIDTH),
            "has no model.layers.7.self_attn.q_proj.weight",
        ),
        (
            f"base_model.model.{QUERY}.lora_A.weight",
            (RANK, WIDTH + 1),
            "do not make a change of shape",
        ),
        (
            f"base_model.model.{QUERY}.lora_magnitude_vector.weight",
            (WIDTH,),
            "expected lora_A and lora_B, found lora_A, lora_B, lora_magnitude_vector",
        ),
        (
            "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight",
            (RANK, WIDTH),
            "expected lora_A and lora_B",
        ),
        ("base_model.model.score.weight", (2, WIDTH), "has no score.weight"),
        (
            "base_model.model.lm_head.weight",
            (2, WIDTH),
            f"model.embed_tokens.weight has {ROWS} rows and lm_head.weight 2: the adapter was",
        ),
    ],
)
def test_a_tensor_of_an_adapter_that_has_no_place(llama, adapter, capsys, name, shape, what):
    adapter.arrays[name] = np.ones(shape, np.float32)
    assert what in llama.refused(capsys, "--lora", adapter.write())


def test_dora(llama, adapter, capsys):
    """Rows of W + s·B·A of length 1, times the magnitude; and what cannot be."""
    magnitude = np.linspace(0.5, 2, WIDTH).astype(np.float32)
    place = f"base_model.model.{QUERY}.lora_magnitude_vector"
    adapter.config["use_dora"] = True
    assert "expected lora_A and lora_B and lora_magnitude_vector" in llama.refused(
        capsys, "--lora", adapter.write()
    )
    adapter.arrays[place] = magnitude
    assert llama.run("--lora", adapter.write()) == 0
    first = llama.output.read_bytes()
    base = llama.arrays[f"{QUERY}.weight"].astype(np.float64)
    scale = adapter.config["lora_alpha"] / RANK
    wanted = base + scale * (adapter.b.astype(np.float64) @ adapter.a.astype(np.float64))
    for row, length in zip(wanted, magnitude):
        row *= np.float64(length) / np.sqrt((row * row).sum())
    llama.arrays[f"{QUERY}.weight"] = wanted.astype(np.float32)
    assert llama.run() == 0
    one, other = (weights_of_q(data, llama) for data in (first, llama.output.read_bytes()))
    np.testing.assert_allclose(one, other, rtol=3e-7)
    llama.arrays[f"{QUERY}.weight"] = base.astype(np.float32)
    llama.output.unlink()
    adapter.arrays[place] = magnitude[1:]
    assert "has 11 values, expected 12" in llama.refused(capsys, "--lora", adapter.write())
    adapter.arrays[place] = magnitude
    adapter.arrays[f"base_model.model.{QUERY}.lora_A.weight"] = np.zeros_like(adapter.a)
    llama.arrays[f"{QUERY}.weight"][3] = 0
    assert "all zeros" in llama.refused(capsys, "--lora", adapter.write())


def weights_of_q(data, llama):
    """q, k and v of the layer that the adapter changes."""
    path = llama.output.with_name("read.phasor")
    path.write_bytes(data)
    file = PhasorFile(path)
    slots = {slot.name: slot.key for slot in R.slots(file.descriptor)}
    return file.weights(slots["decoder 0 q,k,v weight"])


def test_an_adapter_that_is_not_there(llama, tmp_path, adapter, capsys):
    assert "--lora" in llama.refused(capsys, "--lora", tmp_path / "nowhere")
    adapter.write()
    (adapter.path / "adapter_model.safetensors").unlink()
    assert "adapter_model.safetensors or adapter_model.bin" in llama.refused(
        capsys, "--lora", adapter.path
    )


def test_an_embedding_that_is_the_output_too(llama, adapter):
    """The adapter changes one of two tied matrices: the file has both."""
    llama.config["tie_word_embeddings"] = True
    del llama.arrays["lm_head.weight"]
    at = "base_model.model.model.embed_tokens.lora_embedding_"
    adapter.arrays = {
        at + "A": np.ones((RANK, ROWS), np.float32),
        at + "B": np.ones((WIDTH, RANK), np.float32),
    }
    assert llama.descriptor()["output"]["tied"] == D.TIED_TARGET
    embedding = llama.arrays["model.embed_tokens.weight"]
    assert llama.descriptor("--lora", adapter.write())["output"]["tied"] == D.TIED_OWN
    file = PhasorFile(llama.output)
    output = file.weights(R.key_of(R.OUTPUT, 0, R.OUTPUT_WEIGHT))
    changed = file.weights(R.key_of(R.TARGET, 0, R.EMBEDDING))
    assert np.array_equal(output, embedding) and not np.array_equal(changed, embedding)
