"""Packed directories against the packages that write them, where these are installed:
compressed-tensors and bitsandbytes pack a matrix, and unpack it again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from phasor.checkpoints import packed
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.format import layout as L


def module(tensors: dict[str, torch.Tensor], folder) -> packed.Module:
    saved = {f"m.{name}": tensor.contiguous() for name, tensor in tensors.items()}
    save_file(saved, folder / "m.safetensors")
    return packed.Module(open_checkpoint(folder / "m.safetensors"), "m")


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("block", [64, 128])
def test_bitsandbytes_4(kind, double, block, tmp_path):
    functional = pytest.importorskip("bitsandbytes.functional")
    torch.manual_seed(1)
    weight = torch.randn(96, 40)
    data, state = functional.quantize_4bit(
        weight, quant_type=kind, compress_statistics=double, blocksize=block
    )
    wanted = functional.dequantize_4bit(data, state).numpy()
    tensors = {"weight": data, **{f"weight.{n}": t for n, t in state.as_dict(packed=True).items()}}
    found = packed.bitsandbytes_4(module(tensors, tmp_path), kind).load()
    np.testing.assert_array_equal(found, wanted)


def test_bitsandbytes_8(tmp_path):
    functional = pytest.importorskip("bitsandbytes.functional")
    torch.manual_seed(2)
    data, scb, _ = functional.int8_vectorwise_quant(torch.randn(48, 64).half())
    wanted = functional.int8_vectorwise_dequant(data, scb).numpy()
    tensors = {"weight": data, "SCB": scb, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    found = packed.bitsandbytes_8(module(tensors, tmp_path)).load()
    np.testing.assert_array_equal(found, wanted)


FORMS = [
    *(("pack-quantized", bits, symmetric) for bits in (4, 8) for symmetric in (True, False)),
    *(("int-quantized", 8, symmetric) for symmetric in (True, False)),
    ("float-quantized", 8, True),
]


@pytest.mark.parametrize("size", [32, 0])
@pytest.mark.parametrize("form,bits,symmetric", FORMS)
def test_compressed_tensors(form, bits, symmetric, size, tmp_path):
    pytest.importorskip("compressed_tensors")
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    torch.manual_seed(3)
    rows, cols = 48, 96
    weight = torch.randn(rows, cols)
    kind = "float" if form == "float-quantized" else "int"
    strategy = "group" if size else "channel"
    how = QuantizationArgs(
        num_bits=bits,
        type=kind,
        symmetric=symmetric,
        strategy=strategy,
        group_size=size or None,
    )
    scheme = QuantizationScheme(targets=["Linear"], weights=how)
    groups = cols // size if size else 1
    scale = (torch.rand(rows, groups) * 0.02 + 0.01).float()
    tensors = {"weight": weight, "weight_scale": scale}
    if not symmetric:
        zero = torch.randint(-(1 << bits - 2), 1 << bits - 2, (rows, groups), dtype=torch.int8)
        tensors["weight_zero_point"] = zero
    compressor = BaseCompressor.get_value_from_registry(form)
    small = compressor.compress(dict(tensors), scheme)
    wanted = compressor.decompress(dict(small), scheme)["weight"].numpy()
    found = packed.compressed(module(small, tmp_path), [(bits, size or -1, symmetric)]).load()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("linear", ["bitlinear", "autobitlinear"])
def test_bitnet(linear, tmp_path):
    """transformers' own packing and unpacking."""
    bitnet = pytest.importorskip("transformers.integrations.bitnet")
    unpack = getattr(bitnet.unpack_weights, "_torchdynamo_orig_callable", bitnet.unpack_weights)
    torch.manual_seed(4)
    codes = torch.randint(-1, 2, (48, 40)).float()
    data, scale = bitnet.pack_weights(codes.clone()), torch.tensor([0.0371])
    assert torch.equal(unpack(data, torch.float32), codes)
    scale = 1 / scale if linear == "bitlinear" else scale
    wanted = (codes / scale if linear == "bitlinear" else codes * scale).numpy()
    small = module({"weight": data, "weight_scale": scale}, tmp_path)
    found = packed.bitnet(small, linear == "bitlinear")
    np.testing.assert_array_equal(found.load(), wanted)
    scales, q = found.quantized(L.Q2R)
    np.testing.assert_array_equal(L.dequantize(scales, q, 40, L.Q2R, np.float32), wanted)
