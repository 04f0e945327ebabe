"""Directories whose matrices a quantizer packed: f32 is the format's own meaning bit for bit, and
integers are kept where a type of ours has their grid."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import quantizers
from conversions import contents, convert_to, refused
from phasor import convert
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from quantizers import FORMS

WIDTH, HIDDEN, ROWS, LAYERS = 64, 96, 24, 2
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": ROWS,
    "hidden_size": WIDTH,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": LAYERS,
    "intermediate_size": HIDDEN,
    "max_position_embeddings": 24,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
MATRICES = {
    "self_attn.q_proj": (WIDTH, WIDTH),
    "self_attn.k_proj": (WIDTH // 2, WIDTH),
    "self_attn.v_proj": (WIDTH // 2, WIDTH),
    "self_attn.o_proj": (WIDTH, WIDTH),
    "mlp.gate_proj": (HIDDEN, WIDTH),
    "mlp.up_proj": (HIDDEN, WIDTH),
    "mlp.down_proj": (WIDTH, HIDDEN),
}


pytestmark = pytest.mark.usefixtures("no_program")


class Directory:
    """A Llama with packed matrices, and the same with what they mean."""

    def __init__(self, folder, form: str) -> None:
        self.folder, self.out = folder / "m", folder / "m.phasor"
        self.quantization, pack, self.kept = FORMS[form]
        rng = np.random.default_rng(5)
        shapes = {"model.embed_tokens.weight": (ROWS, WIDTH), "lm_head.weight": (ROWS, WIDTH)}
        shapes["model.norm.weight"] = (WIDTH,)
        self.tensors, self.plain = {}, {}
        for i in range(LAYERS):
            for norm in ("input_layernorm", "post_attention_layernorm"):
                shapes[f"model.layers.{i}.{norm}.weight"] = (WIDTH,)
            for name, shape in MATRICES.items():
                module = pack(rng, *shape)
                start = f"model.layers.{i}.{name}."
                self.plain[start + "weight"] = module.values
                self.tensors |= {start + part: value for part, value in module.tensors.items()}
        dense = {name: rng.normal(0, 0.4, s).astype(np.float32) for name, s in shapes.items()}
        self.tensors |= dense
        self.plain |= dense

    def write(self, tensors, quantization):
        self.folder.mkdir(exist_ok=True)
        more = {} if quantization is None else {"quantization_config": quantization}
        (self.folder / "config.json").write_text(json.dumps({**CONFIG, **more}))
        save_file(tensors, self.folder / "model.safetensors")

    def run(self, *flags, plain: bool = False) -> int:
        self.write(*((self.plain, None) if plain else (self.tensors, self.quantization)))
        return convert.main([str(self.folder), "-o", str(self.out), *flags])

    def file(self, *flags, plain: bool = False) -> PhasorFile:
        assert self.run("--quiet", *flags, plain=plain) == 0
        return PhasorFile(self.out)

    def refused(self, capsys) -> str:
        self.write(self.tensors, self.quantization)
        line = refused(self.folder, self.out, capsys)
        assert line.startswith(f"convert: {self.folder}"), line
        return line


def matrices(file: PhasorFile) -> dict[int, np.ndarray]:
    slots = [slot for slot in R.slots(file.descriptor) if slot.matrix]
    return {slot.key: file.weights(slot.key).astype(np.float32) for slot in slots}


@pytest.mark.parametrize("form", FORMS)
def test_as_f32_the_formats_own_meaning(form, tmp_path):
    directory = Directory(tmp_path, form)
    wanted = contents(directory.file("--type", "f32", plain=True))
    assert contents(directory.file("--type", "f32")) == wanted


@pytest.mark.parametrize("form", FORMS)
def test_kept_where_the_grid_is_ours(form, tmp_path, capsys):
    directory = Directory(tmp_path, form)
    wanted = matrices(directory.file("--type", "f32", plain=True))
    assert directory.run() == 0
    said = capsys.readouterr().err
    file = PhasorFile(directory.out)
    found = matrices(file)
    kinds = {slot.key: L.TYPES[file.entries[slot.key].type] for slot in R.slots(file.descriptor)}
    for slot in R.slots(file.descriptor):
        if slot.matrix:
            packed = slot.stack == R.DECODER
            assert kinds[slot.key] == (directory.kept if packed else "f32"), slot.name
            if form == "LLM.int8" and packed:  # SCB / 127 is rounded once, to the scale
                np.testing.assert_allclose(found[slot.key], wanted[slot.key], rtol=2e-7)
            else:
                np.testing.assert_array_equal(found[slot.key], wanted[slot.key], slot.name)
    assert "14 matrices of" in said and f"to {directory.kept} (exactly)" in said


@pytest.mark.parametrize("form", ["bitlinear", "autobitlinear"])
def test_bitnet_has_the_inputs_that_it_was_trained_with(form, tmp_path, capsys):
    directory = Directory(tmp_path, form)
    assert directory.run() == 0
    assert "inputs of 8 bits, as those that the model was trained with" in capsys.readouterr().err
    file = PhasorFile(directory.out)
    assert {e.inputs for e in file.entries.values()} == {0}
    packed = [slot for slot in R.slots(file.descriptor) if slot.matrix and slot.stack == R.DECODER]
    size = sum(file.entries[slot.key].bytes for slot in packed)
    source = sum(v.nbytes for n, v in directory.tensors.items() if "_proj" in n)
    columns = sum(slot.rows * (-slot.cols % L.ROW_STEP) for slot in packed)  # of padding
    scales = 64 * sum(file.entries[slot.key].panels for slot in packed)
    assert size <= 1.07 * source + columns // 4 + scales


BITNET_WRONG = {
    "a scale of zero": ("scale", [0.0], "weight_scale: the values are none that q2r has"),
    "a scale below zero": ("scale", [-0.5], "weight_scale: the values are none that q2r has"),
    "a scale that is infinite": ("scale", [np.inf], "weight_scale: a value is not finite"),
    "two scales": ("scale", [1.0, 2.0], "weight_scale has shape (2,), expected one number"),
    "float weights": ("weight", np.float32, "weight has elements of type <f4, expected u1"),
    "too few rows": ("rows", 4, "has shape (16 x 64), expected (64 x 64)"),
    "online": ("quantization_mode", "online", "quantization_mode"),
    "norms of its own": ("use_rms_norm", True, "use_rms_norm"),
    "another class": ("linear_class", "bitlinear2", "linear_class"),
    "a bias": ("bias", 0, "has a bias, which autobitlinear multiplies by weight_scale"),
}


@pytest.mark.parametrize("case", BITNET_WRONG)
def test_bitnet_that_is_refused(case, tmp_path, capsys):
    what, value, says = BITNET_WRONG[case]
    directory = Directory(tmp_path, "autobitlinear")
    name = "model.layers.0.self_attn.q_proj"
    if what == "scale":
        directory.tensors[f"{name}.weight_scale"] = np.array(value, np.float32)
    elif what == "weight":
        directory.tensors[f"{name}.weight"] = directory.tensors[f"{name}.weight"].astype(value)
    elif what == "rows":
        directory.tensors[f"{name}.weight"] = directory.tensors[f"{name}.weight"][:value]
    elif what == "bias":
        directory.tensors[f"{name}.bias"] = np.zeros(WIDTH, np.float32)
    else:
        directory.quantization = {**directory.quantization, what: value}
    assert says in directory.refused(capsys)


def test_q4_as_q8_is_lossless_too(tmp_path):
    directory = Directory(tmp_path, "gptq")
    wanted = matrices(directory.file("--type", "f32", plain=True))
    file = directory.file("--type", "q8", "--output-type", "f32")
    for key, values in matrices(file).items():
        np.testing.assert_array_equal(values, wanted[key])


def test_biases_of_zeros_that_a_quantizer_adds(tmp_path, capsys):
    directory = Directory(tmp_path, "gptq")
    zeros = {
        f"model.layers.{i}.{name}.bias": np.zeros(shape[0], np.float16)
        for i in range(LAYERS)
        for name, shape in MATRICES.items()
    }
    wanted = contents(directory.file())
    directory.tensors |= zeros
    assert contents(directory.file()) == wanted
    directory.tensors["model.layers.0.mlp.up_proj.bias"] = np.ones(HIDDEN, np.float16)
    directory.out.unlink()
    assert "left over: model.layers.0.mlp.up_proj.bias" in directory.refused(capsys)


def test_weights_and_activations_in_int8_as_they_are_published(tmp_path):
    """W8A8 of llm-compressor: a scale a row, activations with one a token. The integers and the
    scales are the file's own."""
    directory = Directory(tmp_path, "int-quantized")
    activations = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token"}
    group = directory.quantization["config_groups"]["group_0"]
    group = {**group, "input_activations": {**activations, "dynamic": True}}
    group["output_activations"] = None
    directory.quantization = {**directory.quantization, "config_groups": {"group_0": group}}
    file = directory.file()
    for layer in range(LAYERS):
        name = f"model.layers.{layer}.mlp.down_proj.weight"
        stored = file.quantized(R.key_of(R.DECODER, layer, R.FFN_OUT))
        integers, scales = directory.tensors[name], directory.tensors[f"{name}_scale"]
        np.testing.assert_array_equal(stored.values[:, : integers.shape[1]], integers)
        np.testing.assert_array_equal(stored.scales.ravel(), scales.astype(np.float32).ravel())


def test_scales_of_activations_are_passed_over(tmp_path, capsys):
    directory = Directory(tmp_path, "int-quantized")
    wanted = contents(directory.file())
    directory.tensors["model.layers.0.mlp.up_proj.input_scale"] = np.ones(1, np.float32)
    assert directory.run() == 0 and contents(directory.out) == wanted
    assert "1 tensors that round activations" in capsys.readouterr().err


def test_float_8_with_scales(tmp_path):
    rng = np.random.default_rng(2)
    directory = Directory(tmp_path, "gptq")
    codes = {n: rng.integers(0, 120, v.shape, np.uint8) for n, v in directory.plain.items()}
    table = np.array([quantized_float(code) for code in range(256)], np.float32)
    packed = [name for name in directory.plain if "_proj" in name]
    tensors = {n: v for n, v in directory.plain.items() if n not in packed}
    for name in packed:
        rows, cols = codes[name].shape
        scale = rng.uniform(0.001, 0.01, (-(-rows // 24), -(-cols // 24))).astype(np.float32)
        spread = np.repeat(np.repeat(scale, 24, 0)[:rows], 24, 1)[:, :cols]
        directory.plain[name] = table[codes[name]] * spread
        tensors[name], tensors[f"{name}_scale_inv"] = codes[name], scale
    wanted = contents(directory.file(plain=True))
    directory.quantization = {"quant_method": "fp8", "weight_block_size": [24, 24], "fmt": "e4m3"}
    directory.write(tensors, directory.quantization)
    retype(directory.folder / "model.safetensors", "U8", "F8_E4M3")
    convert_to(directory.folder, directory.out)
    assert contents(directory.out) == wanted


def quantized_float(code: int) -> float:
    sign, exponent, part = -1 if code >> 7 else 1, code >> 3 & 15, code & 7
    small = exponent == 0
    return sign * (part / 8 * 2**-6 if small else (1 + part / 8) * 2.0 ** (exponent - 7))


def retype(path, old: str, new: str) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].replace(f'"{old}"'.encode(), f'"{new}"'.encode()).rstrip()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])


# ---- What is refused


NAME = "model.layers.0.mlp.up_proj."
# form, the tensor that is changed (None: the configuration), how, what the line says.
WRONG = {
    "bits": ("gptq", None, {"bits": 3}, "bits: 3 is not supported"),
    "group size": ("gptq", None, {"group_size": 0}, "group_size: 0, expected -1"),
    "format": ("gptq", None, {"checkpoint_format": "marlin"}, "'marlin' is not supported"),
    "dynamic": ("gptq", None, {"dynamic": {"-:x": {}}}, "dynamic"),
    "unknown field": ("gptq", None, {"rotated": True}, "quantization_config.rotated: not known"),
    "method": ("gptq", None, {"quant_method": "quip"}, "'quip'), which is not supported"),
    "no method": ("gptq", None, {"quant_method": None}, "(None), which is not supported"),
    "awq gemv": ("awq", None, {"version": "gemv"}, "version: 'gemv' is not supported"),
    "kv scheme": ("pack-quantized", None, {"kv_cache_scheme": {"a": 1}}, "kv_cache_scheme"),
    "no groups": ("pack-quantized", None, {"config_groups": {}}, "config_groups: expected"),
    "odd group": ("pack-quantized", None, {"config_groups": {"a": 1}}, "a.weights: expected"),
    "rotations": ("pack-quantized", None, {"transform_config": {"a": 1}}, "transform_config"),
    "sparse": ("pack-quantized", None, {"sparsity_config": {"format": "b"}}, "sparsity_config"),
    "dynamic weights": (
        "pack-quantized",
        None,
        quantizers.group(dynamic=True),
        "weights.dynamic: True",
    ),
    "storage": ("nf4", None, {"bnb_4bit_quant_storage": "bfloat16"}, "bnb_4bit_quant_storage"),
    "no scales": ("gptq", "scales", None, "has no scales"),
    "scales": ("gptq", "scales", lambda a: a[:, 1:], "scales has shape"),
    "scales of NaN": ("gptq", "scales", lambda a: a * np.nan, "a value is not finite"),
    "zeros": ("gptq", "qzeros", lambda a: a[:, 1:], "qzeros has shape"),
    "zero of two readings": ("gptq", "qzeros", lambda a: a | -1, "read in two ways"),
    "words": ("gptq", "qweight", lambda a: a.astype(np.int64), "elements of type <i8"),
    "group index": ("gptq", "g_idx", lambda a: a + 9, "a group that is none of"),
    "negative group": ("gptq", "g_idx", lambda a: a - 2, "a group that is none of"),
    "short index": ("gptq", "g_idx", lambda a: a[1:], "g_idx has shape"),
    "awq zeros": ("awq", "qzeros", lambda a: a[:, :-1], "qzeros has shape"),
    "shape": ("pack-quantized", "weight_shape", lambda a: a * 2, "is not that of"),
    "columns": ("pack-quantized", "weight_shape", lambda a: a - [0, 32], "groups fit"),
    "no shape": ("pack-quantized", "weight_shape", None, "has no weight_shape"),
    "scale": ("pack-quantized", "weight_scale", lambda a: a[:, :, None], "weight_scale has shape"),
    "no zeros": ("int-quantized asymmetric", "weight_zero_point", None, "no weight_zero_point"),
    "scb": ("LLM.int8", "SCB", lambda a: a[1:], "SCB has shape"),
    "columns first": ("LLM.int8", "weight_format", lambda a: a + 1, "only row-major"),
    "map": ("nf4", "weight.quant_map", lambda a: a[1:], "quant_map has shape"),
    "absmax": ("nf4", "weight.absmax", lambda a: a[1:], "absmax has shape"),
    "bytes": ("nf4", "weight", lambda a: a[1:], "bytes for"),
    "nested": ("nf4 double", "weight.nested_absmax", lambda a: a[:0], "nested_absmax has shape"),
    "state": (
        "nf4",
        "weight.quant_state.bitsandbytes__nf4",
        lambda a: a[1:],
        "quant_state: not",
    ),
    "long state": (
        "nf4",
        "weight.quant_state.bitsandbytes__nf4",
        lambda a: np.full(9999, 32, np.uint8),
        "at most 4096",
    ),
    "large shape": (
        "nf4",
        "weight.quant_state.bitsandbytes__nf4",
        lambda a: np.frombuffer(
            a.tobytes().replace(b"[96, 64]", b"[99999999, 99999999]"), np.uint8
        ),
        "bytes for",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused_in_a_line(name, tmp_path, capsys):
    form, tensor, change, says = WRONG[name]
    directory = Directory(tmp_path, form)
    if tensor is None:
        directory.quantization = {**directory.quantization, **change}
    elif change is None:
        del directory.tensors[NAME + tensor]
    else:
        directory.tensors[NAME + tensor] = np.ascontiguousarray(
            change(directory.tensors[NAME + tensor])
        )
    assert says in directory.refused(capsys)


def test_a_weight_beside_its_pieces(tmp_path, capsys):
    directory = Directory(tmp_path, "gptq")
    directory.tensors[NAME + "weight"] = directory.plain[NAME + "weight"]
    assert "has a weight beside its qweight" in directory.refused(capsys)


def test_nothing_is_packed(tmp_path, capsys):
    directory = Directory(tmp_path, "gptq")
    directory.tensors = directory.plain
    assert "no matrix is packed so" in directory.refused(capsys)


def test_pieces_without_a_configuration(tmp_path, capsys):
    directory = Directory(tmp_path, "gptq")
    directory.quantization = None
    line = directory.refused(capsys)
    assert "qweight: the weights are packed, and config.json has no quantization_config" in line
    assert "give the model that they were made from" in line
    directory.tensors = directory.plain
    assert directory.run("--quiet", "--type", "q4") == 0
