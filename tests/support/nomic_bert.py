"""Nomic-BERT as its paper and its published configuration describe it, in plain PyTorch: the tests'
own, transformers 4 has none."""

from __future__ import annotations

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, c: dict) -> None:
        super().__init__()
        self.heads, self.width = c["n_head"], c["n_embd"] // c["n_head"]
        self.rotated, self.interleaved = (
            int(self.width * c["rotary_emb_fraction"]),
            c["rotary_emb_interleaved"],
        )
        power = torch.arange(0, self.rotated, 2, dtype=torch.float32) / self.rotated
        self.rates = (1.0 / float(c["rotary_emb_base"]) ** power).double()
        self.Wqkv = nn.Linear(c["n_embd"], 3 * c["n_embd"], bias=c["qkv_proj_bias"])
        self.out_proj = nn.Linear(c["n_embd"], c["n_embd"], bias=c["qkv_proj_bias"])

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, H, w)"""
        angle = torch.arange(x.shape[1]).double()[:, None] * self.rates
        c, s = torch.cos(angle)[:, None, :].to(x.dtype), torch.sin(angle)[:, None, :].to(x.dtype)
        turned, rest = x[..., : self.rotated], x[..., self.rotated :]
        if self.interleaved:
            a, b = turned[..., 0::2], turned[..., 1::2]
            turned = torch.stack([a * c - b * s, b * c + a * s], dim=-1).flatten(-2)
        else:
            a, b = turned.chunk(2, dim=-1)
            turned = torch.cat([a * c - b * s, b * c + a * s], dim=-1)
        return torch.cat([turned, rest], dim=-1)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        q, k, v = self.Wqkv(x).reshape(*x.shape[:2], 3, self.heads, self.width).unbind(2)
        scores = torch.einsum("bthw,bshw->bhts", self.rotate(q), self.rotate(k)) / math.sqrt(
            self.width
        )
        p = scores.masked_fill(~seen[:, None, None, :], -torch.inf).softmax(-1)
        return self.out_proj(torch.einsum("bhts,bshw->bthw", p, v).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, c: dict) -> None:
        super().__init__()
        self.act = (
            nn.functional.silu if c["activation_function"] == "swiglu" else nn.functional.gelu
        )
        self.gated = c["activation_function"] in ("swiglu", "geglu")
        if self.gated:
            hidden = (c["n_inner"] + 255) // 256 * 256
            self.fc11, self.fc12 = (
                nn.Linear(c["n_embd"], hidden, bias=c["mlp_fc1_bias"]) for _ in range(2)
            )
        else:
            hidden = c["n_inner"]
            self.fc1 = nn.Linear(c["n_embd"], hidden, bias=c["mlp_fc1_bias"])
        self.fc2 = nn.Linear(hidden, c["n_embd"], bias=c["mlp_fc2_bias"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(
            self.fc11(x) * self.act(self.fc12(x)) if self.gated else self.act(self.fc1(x))
        )


class Block(nn.Module):
    def __init__(self, c: dict) -> None:
        super().__init__()
        self.attn, self.mlp = Attention(c), FeedForward(c)
        self.norm1, self.norm2 = (
            nn.LayerNorm(c["n_embd"], eps=c["layer_norm_epsilon"]) for _ in range(2)
        )

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attn(x, seen))
        return self.norm2(x + self.mlp(x))


class Model(nn.Module):
    def __init__(self, c: dict) -> None:
        super().__init__()
        rows = -(-c["vocab_size"] // c["pad_vocab_size_multiple"]) * c["pad_vocab_size_multiple"]
        self.embeddings = nn.ModuleDict({"word_embeddings": nn.Embedding(rows, c["n_embd"])})
        if c["type_vocab_size"]:
            self.embeddings["token_type_embeddings"] = nn.Embedding(
                c["type_vocab_size"], c["n_embd"]
            )
        self.emb_ln = nn.LayerNorm(c["n_embd"], eps=c["layer_norm_epsilon"])
        self.encoder = nn.ModuleDict(
            {"layers": nn.ModuleList(Block(c) for _ in range(c["n_layer"]))}
        )

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
    ) -> list[torch.Tensor]:
        """The residual before the first block and after each."""
        seen = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        x = self.embeddings["word_embeddings"](ids)
        if "token_type_embeddings" in self.embeddings:
            x = x + self.embeddings["token_type_embeddings"](
                torch.zeros_like(ids) if segments is None else segments
            )
        out = [self.emb_ln(x)]
        for block in self.encoder["layers"]:
            out.append(block(out[-1], seen))
        return out


class ForPreTraining(nn.Module):
    """With the head of masked words, tied to the embedding."""

    def __init__(self, c: dict) -> None:
        super().__init__()
        self.bert = Model(c)
        self.act = (
            nn.functional.silu if c["activation_function"] == "swiglu" else nn.functional.gelu
        )
        self.cls = nn.ModuleDict(
            {
                "predictions": nn.ModuleDict(
                    {
                        "transform": nn.ModuleDict(
                            {
                                "dense": nn.Linear(
                                    c["n_embd"], c["n_embd"], bias=c["mlp_fc1_bias"]
                                ),
                                "layer_norm": nn.LayerNorm(
                                    c["n_embd"], eps=c["layer_norm_epsilon"]
                                ),
                            }
                        ),
                        "decoder": nn.Linear(
                            c["n_embd"],
                            self.bert.embeddings["word_embeddings"].num_embeddings,
                            bias=c["mlp_fc1_bias"],
                        ),
                    }
                )
            }
        )
        self.cls["predictions"]["decoder"].weight = self.bert.embeddings["word_embeddings"].weight

    def forward(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
    ) -> list[torch.Tensor]:
        out, head = self.bert(ids, mask, segments), self.cls["predictions"]
        return [
            *out,
            head["decoder"](
                head["transform"]["layer_norm"](self.act(head["transform"]["dense"](out[-1])))
            ),
        ]


# config.json of nomic-ai/nomic-embed-text-v1, with small sizes put in by the tests.
CONFIG = {
    "activation_function": "swiglu",
    "architectures": ["NomicBertModel"],
    "attn_pdrop": 0.0,
    "auto_map": {
        "AutoConfig": "configuration_hf_nomic_bert.NomicBertConfig",
        "AutoModel": "modeling_hf_nomic_bert.NomicBertModel",
    },
    "bos_token_id": None,
    "causal": False,
    "dense_seq_output": True,
    "embd_pdrop": 0.0,
    "eos_token_id": None,
    "fused_bias_fc": True,
    "fused_dropout_add_ln": True,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-12,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "model_type": "nomic_bert",
    "n_embd": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "n_positions": 8192,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "reorder_and_upcast_attn": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_activation": None,
    "summary_first_dropout": 0.0,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "torch_dtype": "float32",
    "transformers_version": "4.34.0",
    "type_vocab_size": 2,
    "use_cache": True,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "use_xentropy": True,
    "vocab_size": 30528,
}
