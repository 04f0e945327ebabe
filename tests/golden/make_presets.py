"""Makes tests/golden/presets: checkpoints of x-transformers and OpenNMT-py as the packages write
them, and what they give. Neither is in the reference environment; the files were made by

    pip install x-transformers==2.31.10 OpenNMT-py==3.5.1
    python tests/golden/make_presets.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from onmt.decoders.transformer import TransformerDecoder
from onmt.encoders.transformer import TransformerEncoder
from onmt.modules import Embeddings
from onmt.modules.embeddings import PositionalEncoding
from torch import nn
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, XTransformer

TO = Path(__file__).resolve().parent / "presets"
IDS, OUT = 19, 17
BLOCK = {"dim": 16, "depth": 2, "heads": 2, "attn_dim_head": 8, "ff_mult": 2}
OPTIONS = {
    "encoder_type": "transformer", "decoder_type": "transformer", "model_task": "seq2seq",
    "self_attn_type": "scaled-dot", "generator_function": "softmax", "copy_attn": False,
    "parallel_residual": False, "shared_layer_norm": False, "num_experts": 0,
    "num_experts_per_tok": 2, "n_src_feats": 0, "sliding_window": 0,
    "relative_positions_buckets": 0, "max_relative_positions": 0, "layer_norm": "standard",
    "norm_eps": 1e-6, "share_decoder_embeddings": False, "position_encoding": True,
    "position_encoding_type": "SinusoidalInterleaved", "pos_ffn_activation_fn": "relu",
    "heads": 2, "num_kv": 0, "rotary_theta": 10000, "rotary_dim": 0, "rotary_interleave": True,
    "enc_layers": 2, "dec_layers": 1, "enc_hid_size": 16, "dec_hid_size": 16,
    "transformer_ff": 24, "dropout": [0.0], "attention_dropout": [0.0], "add_qkvbias": False,
    "add_ffnbias": True, "use_ckpting": [], "world_size": 1, "parallel_mode": "data_parallel",
    "aan_useffn": False, "full_context_alignment": False, "alignment_layer": -1,
    "alignment_heads": 0, "lambda_align": 0.0,
}  # fmt: skip
ROTARY = {"position_encoding": False, "max_relative_positions": -1}


def drawn(*modules: nn.Module, mean: float = 0.0) -> None:
    """Every parameter counts, and none is as it begins. mean: of vectors, which are norms."""
    for module in modules:
        for parameter in module.parameters():
            value = torch.randn_like(parameter) * 0.3
            parameter.data.copy_(value + mean if value.dim() == 1 else value)


def save(name: str, saved: object, **arrays: torch.Tensor) -> None:
    torch.save(saved, TO / f"{name}.pt")
    np.savez(TO / f"{name}.npz", **{key: value.numpy() for key, value in arrays.items()})


def wrapper(kind: type, more: dict, **options: object) -> TransformerWrapper:
    layers = kind(**BLOCK, **options)
    return TransformerWrapper(num_tokens=IDS, max_seq_len=12, attn_layers=layers, **more)


def x_transformers() -> None:
    models = {
        "decoder": wrapper(Decoder, {}),
        "tied-t5-post": wrapper(
            Decoder, {"tie_embedding": True}, rel_pos_bias=True, pre_norm=False
        ),
        "rotary-glu": wrapper(
            Decoder, {}, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True, ff_swish=True,
            attn_kv_heads=1,
        ),
        "alibi-sandwich": wrapper(
            Encoder, {"use_abs_pos_emb": False, "emb_dim": 12, "post_emb_norm": True},
            alibi_pos_bias=True, sandwich_norm=True, ff_relu_squared=True,
        ),
    }  # fmt: skip
    ids, target = torch.randint(0, OUT, (2, 9)), torch.randint(0, OUT, (2, 7))
    for name, model in models.items():
        drawn(model.eval())
        held = AutoregressiveWrapper(model) if name == "rotary-glu" else model
        save(f"x-transformers-{name}", held.state_dict(), ids=ids, logits=model(ids))
    sides = {
        f"{side}_{key}": value
        for side in ("enc", "dec")
        for key, value in {**BLOCK, "max_seq_len": 12, "ff_glu": True, "use_rmsnorm": True}.items()
        if key != "dim"
    }
    pair = XTransformer(dim=16, enc_num_tokens=IDS, dec_num_tokens=OUT, **sides).eval()
    drawn(pair)
    logits = pair.decoder.net(target, context=pair.encoder(ids, return_embeddings=True))
    save("x-transformers-pair", pair.state_dict(), ids=ids, target=target, logits=logits)


def opennmt() -> None:
    PositionalEncoding.__init__.__defaults__ = (32,)  # its table has 5000 rows, else
    models = {
        "plain": {},
        "concat": {"position_encoding_type": "SinusoidalConcat", "pos_ffn_activation_fn": "gelu"},
        "rotary": {
            **ROTARY, "layer_norm": "rms", "norm_eps": 1e-5, "num_kv": 1, "add_ffnbias": False,
            "pos_ffn_activation_fn": "silu",
        },
        "halves": {
            **ROTARY, "rotary_interleave": False, "rotary_dim": 4, "rotary_theta": 5000,
            "pos_ffn_activation_fn": "gated-gelu", "add_qkvbias": True,
        },
        "relative": {
            "position_encoding": False, "max_relative_positions": 3,
            "share_decoder_embeddings": True,
        },
        "alibi": {"position_encoding": False, "max_relative_positions": -2},
    }  # fmt: skip
    lengths = torch.tensor([9, 9])
    for name, own in models.items():
        opt = argparse.Namespace(**{**OPTIONS, **own})
        embeddings = [
            Embeddings(
                word_vec_size=16, word_vocab_size=rows, word_padding_idx=1,
                position_encoding=opt.position_encoding,
                position_encoding_type=opt.position_encoding_type,
            )
            for rows in (IDS, OUT)
        ]  # fmt: skip
        model = nn.ModuleDict(
            {
                "encoder": TransformerEncoder.from_opt(opt, embeddings[0]),
                "decoder": TransformerDecoder.from_opt(opt, embeddings[1]),
            }
        ).eval()
        generator = nn.Linear(16, OUT)
        if opt.share_decoder_embeddings:
            generator.weight = embeddings[1].word_lut.weight
        drawn(model, generator, mean=1.0)
        ids, target = torch.randint(2, IDS, (2, 9)), torch.randint(2, OUT, (2, 7))
        encoded, state, _ = model["encoder"](ids[..., None], lengths)
        model["decoder"].init_state(ids[..., None], encoded, state)
        decoded, _ = model["decoder"](target[..., None], encoded, src_len=lengths)
        saved = {
            "model": model.state_dict(),
            "generator": generator.state_dict(),
            "vocab": {"src": [], "tgt": [], "data_task": "seq2seq"},
            "opt": opt,
            "optim": {"step": torch.zeros(1)},
        }
        save(f"opennmt-py-{name}", saved, ids=ids, target=target, logits=generator(decoded))


if __name__ == "__main__":
    TO.mkdir(exist_ok=True)
    torch.manual_seed(1)
    with torch.no_grad():
        x_transformers()
        opennmt()
