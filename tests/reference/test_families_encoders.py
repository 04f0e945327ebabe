"""Encoders of Hugging Face directories against transformers: a small random model of each family's
true architecture, odd sizes, seeded.

The float64 reference is compared with the PyTorch model in double at every layer and at the output,
for lengths 1, 2 and the longest, and for batches padded on PyTorch's side; the program, in f32,
with the same. transformers computes these parts in float32 even in a double model, and the tests
replace them by the same formula in double: ModernBERT's cosines and sines. RoFormer's are a float32
table.

    test_families_encoders.py --write      measures every row and writes the table of
                                           docs/reference/families.md
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from family_table import Table
from save_newer import output_of, run_text
from test_families_decoders import float32_is_double

import nomic_bert
from phasor import convert
from phasor.families.encoders.deberta import log_buckets
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.layout import F32
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import PROGRAM
from texts import ids_text, write_json

TOLERANCE = 1e-6
PROGRAM_TOLERANCE = 1e-5
VOCABULARY, LONGEST, MASK = 61, 23, 3
# Pairs of encoders, of texts and of pictures; their vector of a text is compared.
_PAIRS = ("CLIPModel", "SiglipModel")
_AT_THE_END = ("CLIPTextModelWithProjection", "CLIPModel")  # the vector is an end token's
# Of these a text has one row, which their names do not say.
_ONE_ROW = ("BertForNextSentencePrediction", "SiglipTextModel", *_AT_THE_END, *_PAIRS)


@dataclass(frozen=True)
class Case:
    """One row of the table: a class of transformers with a configuration, or one of
    sentence-transformers' directories around it."""

    model: str  # the class, such as BertForMaskedLM
    what: str = ""  # how it differs from the row before it
    config: dict = field(default_factory=dict, hash=False)
    modules: dict | None = field(
        default=None, hash=False
    )  # pooling mode, dense, normalize: of sentence-transformers

    @property
    def name(self) -> str:
        return self.model + (f", {self.what}" if self.what else "")

    @property
    def head(self) -> str:
        return (
            "pooled"
            if self.modules
            else next(
                (h for h in ("MaskedLM", "PreTraining", "Sequence", "Token") if h in self.model),
                "Sequence" if self.model in _ONE_ROW else "hidden",
            )
        )


_BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 36,
    "num_attention_heads": 3,
    "num_hidden_layers": 3,
    "intermediate_size": 53,
    "max_position_embeddings": LONGEST,
}
_ROBERTA = {**_BERT, "max_position_embeddings": LONGEST + 2, "type_vocab_size": 1}
_MPNET = {**_BERT, "max_position_embeddings": 122}
_DISTILBERT = {
    "vocab_size": VOCABULARY,
    "dim": 36,
    "n_heads": 3,
    "n_layers": 2,
    "hidden_dim": 53,
    "max_position_embeddings": LONGEST,
}
_NARROW = {**_BERT, "embedding_size": 20}
_MODERN = {
    "vocab_size": VOCABULARY,
    "hidden_size": 36,
    "num_attention_heads": 3,
    "num_hidden_layers": 5,
    "intermediate_size": 53,
    "local_attention": 6,
    "max_position_embeddings": LONGEST,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
_NOMIC = {
    **nomic_bert.CONFIG,
    "vocab_size": 60,
    "pad_vocab_size_multiple": 8,
    "n_embd": 36,
    "n_head": 3,
    "n_layer": 2,
    "n_inner": 53,
    "n_positions": LONGEST,
}
_DEBERTA = {
    **_BERT,
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["c2p", "p2c"],
}
_DEBERTA_3 = {
    **_DEBERTA,
    "max_relative_positions": -1,
    "position_buckets": 6,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 36,
    "d_kv": 10,
    "d_ff": 53,
    "num_layers": 3,
    "num_heads": 5,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
    "is_encoder_decoder": False,
}
_MEAN = {"pooling": "mean_tokens", "normalize": True}
_ESM = {
    **{**_BERT, "max_position_embeddings": LONGEST + 2},
    **{"pad_token_id": 1, "mask_token_id": VOCABULARY - 1},
}
_NORM_OF_INPUT = {"emb_layer_norm_before": True, "token_dropout": True}
_ESM_2 = {**_ESM, "position_embedding_type": "rotary", "token_dropout": True}
_CLIP = {**_BERT, "eos_token_id": VOCABULARY - 1, "projection_dim": 29}
_VISION = {
    **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 4},
    **{"image_size": 8, "intermediate_size": 20},
}

_OF_BERT = [
    Case("BertForNextSentencePrediction", "", _BERT),
    Case("ErnieModel", "", _BERT),
    Case("ErnieForMaskedLM", "types of tasks", {**_BERT, "use_task_id": True}),
    Case(
        "ErnieForSequenceClassification",
        "3 labels, types of tasks",
        {**_BERT, "use_task_id": True, "task_type_vocab_size": 2, "num_labels": 3},
    ),
    Case("MegatronBertModel", "", _BERT),
    Case("MegatronBertForMaskedLM", "", {**_BERT, "hidden_size": 42, "hidden_act": "relu"}),
    Case("MegatronBertForTokenClassification", "", _BERT),
    Case("RobertaPreLayerNormModel", "", _ROBERTA),
    Case("RobertaPreLayerNormForMaskedLM", "", {**_ROBERTA, "type_vocab_size": 2}),
    Case("RobertaPreLayerNormForSequenceClassification", "", _ROBERTA),
    Case("EsmModel", "", _ESM_2),
    Case("EsmModel", "norms of the embedding, learned positions", {**_ESM, **_NORM_OF_INPUT}),
    Case("EsmForMaskedLM", "", {**_ESM_2, "token_dropout": False}),
    Case("EsmForSequenceClassification", "3 labels", {**_ESM_2, "num_labels": 3}),
    Case("EsmForTokenClassification", "", {**_ESM, "token_dropout": True}),
    Case("CLIPTextModel", "", _CLIP),
    Case("CLIPTextModel", "GELU", {**_CLIP, "hidden_act": "gelu", "num_attention_heads": 2}),
    Case("CLIPTextModelWithProjection", "", _CLIP),
    Case("CLIPTextModelWithProjection", "the first configurations", {**_CLIP, "eos_token_id": 2}),
    Case("SiglipTextModel", "", _BERT),
    Case("SiglipTextModel", "a projection", {**_BERT, "projection_size": 17}),
    Case("CLIPModel", "", {"text_config": _CLIP, "vision_config": _VISION, "projection_dim": 31}),
    Case(
        "CLIPModel",
        "the first configurations, GELU",
        {
            "text_config": {**_CLIP, "eos_token_id": 2, "hidden_size": 42, "hidden_act": "gelu"},
            **{"vision_config": _VISION, "projection_dim": 10},
        },
    ),
    Case("SiglipModel", "", {"text_config": _BERT, "vision_config": _VISION}),
    Case(
        "SiglipModel",
        "a projection",
        {
            "text_config": {**_BERT, "hidden_size": 42, "projection_size": 16},
            "vision_config": _VISION,
        },
    ),
]
CASES = [
    Case("BertModel", "", _BERT),
    Case("BertForMaskedLM", "", {**_BERT, "hidden_act": "gelu_new"}),
    Case(
        "BertForMaskedLM",
        "own output matrix, ReLU",
        {**_BERT, "hidden_act": "relu", "tie_word_embeddings": False},
    ),
    Case("BertForMaskedLM", "relative_key", {**_BERT, "position_embedding_type": "relative_key"}),
    Case("BertForPreTraining", "", _BERT),
    Case(
        "BertForSequenceClassification",
        "3 labels",
        {**_BERT, "id2label": {0: "no", 1: "perhaps", 2: "yes"}},
    ),
    Case(
        "BertForSequenceClassification",
        "1 label, relative_key_query",
        {**_BERT, "num_labels": 1, "position_embedding_type": "relative_key_query"},
    ),
    Case(
        "BertForTokenClassification",
        "5 labels, SiLU",
        {**_BERT, "num_labels": 5, "hidden_act": "silu"},
    ),
    Case("BertModel", "mean, normalized", _BERT, _MEAN),
    Case(
        "BertModel",
        "first token, dense with tanh, normalized",
        _BERT,
        {"pooling": "cls_token", "dense": (17, "Tanh"), "normalize": True},
    ),
    Case(
        "BertModel",
        "last token, dense without activation",
        _BERT,
        {"pooling": "lasttoken", "dense": (40, "Identity")},
    ),
    Case("RobertaModel", "", _ROBERTA),
    Case("RobertaForMaskedLM", "2 token types", {**_ROBERTA, "type_vocab_size": 2}),
    Case(
        "RobertaForSequenceClassification",
        "relative_key",
        {**_ROBERTA, "num_labels": 4, "position_embedding_type": "relative_key"},
    ),
    Case("XLMRobertaForMaskedLM", "", _ROBERTA),
    Case("XLMRobertaForSequenceClassification", "1 label", {**_ROBERTA, "num_labels": 1}),
    Case("XLMRobertaModel", "mean, normalized", _ROBERTA, _MEAN),
    Case("CamembertForTokenClassification", "", {**_ROBERTA, "num_labels": 3}),
    *_OF_BERT,
    Case("DistilBertModel", "", _DISTILBERT),
    Case(
        "DistilBertForMaskedLM", "sinusoidal start", {**_DISTILBERT, "sinusoidal_pos_embds": True}
    ),
    Case("DistilBertForSequenceClassification", "", {**_DISTILBERT, "num_labels": 3}),
    Case("DistilBertForTokenClassification", "", {**_DISTILBERT, "num_labels": 3}),
    Case("MPNetModel", "", _MPNET),
    Case("MPNetForMaskedLM", "", _MPNET),
    Case("MPNetForSequenceClassification", "", {**_MPNET, "num_labels": 3}),
    Case("MPNetForTokenClassification", "", {**_MPNET, "num_labels": 3}),
    Case("MPNetModel", "mean, normalized", _MPNET, _MEAN),
    Case("AlbertModel", "", _NARROW),
    Case(
        "AlbertForMaskedLM",
        "2 groups of 2 layers",
        {**_NARROW, "num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
    ),
    Case("AlbertForPreTraining", "", _NARROW),
    Case(
        "AlbertForSequenceClassification",
        "relative_key",
        {**_NARROW, "num_labels": 3, "position_embedding_type": "relative_key"},
    ),
    Case("AlbertForTokenClassification", "", {**_NARROW, "num_labels": 3}),
    Case("ElectraModel", "", _NARROW),
    Case("ElectraForMaskedLM", "the generator", _NARROW),
    Case("ElectraForPreTraining", "the discriminator", {**_BERT, "embedding_size": 36}),
    Case("ElectraForSequenceClassification", "", {**_NARROW, "num_labels": 3}),
    Case("ElectraForTokenClassification", "", {**_NARROW, "num_labels": 3}),
    Case("RoFormerModel", "", _BERT),
    Case("RoFormerForMaskedLM", "narrow embedding", _NARROW),
    Case("RoFormerForSequenceClassification", "", {**_BERT, "num_labels": 3}),
    Case("RoFormerForTokenClassification", "", {**_BERT, "num_labels": 3}),
    Case("ModernBertModel", "", _MODERN),
    Case("ModernBertForMaskedLM", "", _MODERN),
    Case(
        "ModernBertForMaskedLM",
        "all biases, one theta",
        {
            **_MODERN,
            "norm_bias": True,
            "attention_bias": True,
            "mlp_bias": True,
            "classifier_bias": True,
            "local_rope_theta": None,
            "global_attn_every_n_layers": 2,
            "local_attention": 7,
        },
    ),
    Case("ModernBertForSequenceClassification", "first token", {**_MODERN, "num_labels": 3}),
    Case(
        "ModernBertForSequenceClassification",
        "mean",
        {**_MODERN, "num_labels": 3, "classifier_pooling": "mean"},
    ),
    Case("ModernBertForTokenClassification", "", {**_MODERN, "num_labels": 3}),
    Case("NomicBertModel", "", _NOMIC),
    Case("NomicBertModel", "mean, normalized", _NOMIC, _MEAN),
    Case(
        "NomicBertModel",
        "GELU, biases, part of a head rotated, interleaved",
        {
            **_NOMIC,
            "activation_function": "gelu",
            "qkv_proj_bias": True,
            "mlp_fc1_bias": True,
            "mlp_fc2_bias": True,
            "rotary_emb_fraction": 0.5,
            "rotary_emb_interleaved": True,
        },
    ),
    Case("NomicBertForPreTraining", "", {**_NOMIC, "architectures": ["NomicBertForPreTraining"]}),
    Case("DebertaModel", "", _DEBERTA),
    Case(
        "DebertaForMaskedLM",
        "positions of both kinds, clipped distances",
        {**_DEBERTA, "position_biased_input": True, "max_relative_positions": 5},
    ),
    Case(
        "DebertaForSequenceClassification",
        "content to position, 2 token types",
        {**_DEBERTA, "pos_att_type": "c2p", "type_vocab_size": 2, "num_labels": 3},
    ),
    Case(
        "DebertaForTokenClassification",
        "no relative attention",
        {**_DEBERTA, "relative_attention": False, "position_biased_input": True, "num_labels": 3},
    ),
    Case("DebertaV2Model", "", _DEBERTA_3),
    Case(
        "DebertaV2Model",
        "projections of their own, no buckets",
        {**_DEBERTA, "norm_rel_ebd": "none", "share_att_key": False},
    ),
    Case("DebertaV2Model", "narrow embedding", {**_DEBERTA_3, "embedding_size": 20}),
    Case("DebertaV2ForMaskedLM", "", _DEBERTA_3),
    Case(
        "DebertaV2ForMaskedLM",
        "the later head",
        {**_DEBERTA_3, "legacy": False, "tie_word_embeddings": False},
    ),
    Case(
        "DebertaV2ForSequenceClassification",
        "position to content, ReLU",
        {**_DEBERTA_3, "pos_att_type": ["p2c"], "pooler_hidden_act": "relu", "num_labels": 3},
    ),
    Case("DebertaV2ForTokenClassification", "", {**_DEBERTA_3, "num_labels": 3}),
    Case("DebertaV2Model", "mean, normalized", _DEBERTA_3, _MEAN),
    Case("T5EncoderModel", "", _T5),
    Case("T5EncoderModel", "mean, dense, normalized", _T5, {**_MEAN, "dense": (20, "Identity")}),
    Case("T5EncoderModel", "v1.1: gated", {**_T5, "feed_forward_proj": "gated-gelu"}),
    Case("MT5EncoderModel", "SiLU", {**_T5, "feed_forward_proj": "gated-silu"}),
    Case("UMT5EncoderModel", "", {**_T5, "feed_forward_proj": "gated-gelu"}),
]


# ---- PyTorch's side


class Torch:
    """A random model in double, and what it gives for a batch."""

    def __init__(self, case: Case, folder: Path) -> None:
        torch.manual_seed(len(case.name))
        self.case, self.nomic = case, case.model.startswith("NomicBert")
        self.inner = (
            folder / "0_Transformer"
            if case.modules and case.modules["pooling"] == "lasttoken"
            else folder
        )  # both ways are in use
        self.inner.mkdir(exist_ok=True)
        model = self._make_nomic() if self.nomic else self._make()
        if case.modules:
            self._write_modules(folder)
        self.model = model.double().eval()
        self.residual = None  # where the last hidden states are after the final norm
        if "T5" in case.model:
            self.model.encoder.final_layer_norm.register_forward_pre_hook(self._keep)
        if "Megatron" in case.model:
            self.model.base_model.encoder.ln.register_forward_pre_hook(self._keep)
        if "Esm" in case.model:
            self.model.base_model.encoder.emb_layer_norm_after.register_forward_pre_hook(self._keep)
        if case.model in _PAIRS:
            for layer in self.model.text_model.encoder.layers:
                layer.register_forward_hook(self._keep_layer)
        if "ModernBert" in case.model:
            for part in self.model.modules():
                if type(part).__name__ == "ModernBertRotaryEmbedding":
                    part.forward = _rotary_in_double.__get__(part)

    def _keep(self, _: torch.nn.Module, given: tuple[torch.Tensor]) -> None:
        self.residual = given[0]

    def _keep_layer(self, _: torch.nn.Module, given: Any, out: Any) -> None:
        self.layers.append(out[0] if isinstance(out, tuple) else out)

    def _randomize(self, model: torch.nn.Module) -> None:
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "embed_positions" not in name:
                    p.copy_(
                        torch.randn_like(p) * (0.3 if p.dim() > 1 else 0.2)
                        + (1.0 if p.dim() == 1 and name.lower().endswith("norm.weight") else 0.0)
                    )
                if name.endswith("SelfAttention.q.weight"):  # T5's, whose scores are not scaled
                    p.mul_(self.case.config["d_kv"] ** -0.5)

    def _make(self) -> torch.nn.Module:
        kind = getattr(transformers, self.case.model)
        model = kind(kind.config_class(**self.case.config))
        self._randomize(model)
        model.save_pretrained(self.inner)
        return model

    def _make_nomic(self) -> torch.nn.Module:
        from safetensors.torch import save_file

        kind = (
            nomic_bert.Model if self.case.model == "NomicBertModel" else nomic_bert.ForPreTraining
        )
        model = kind(self.case.config)
        self._randomize(model)
        weights = {n: p.detach().clone() for n, p in model.named_parameters()}
        save_file(weights, self.inner / "model.safetensors")
        write_json(self.inner / "config.json", self.case.config)
        return model

    def _write_modules(self, folder: Path) -> None:
        from safetensors.torch import save_file

        width, m = (
            next(
                v for n, v in self.case.config.items() if n in ("hidden_size", "n_embd", "d_model")
            ),
            self.case.modules,
        )
        inner = "" if self.inner == folder else self.inner.name
        modules = [("Transformer", inner), ("Pooling", "1_Pooling")]
        self.dense = None
        if "dense" in m:
            rows, activation = m["dense"]
            self.dense = torch.nn.Linear(width, rows)
            (folder / "2_Dense").mkdir()
            save_file(
                {f"linear.{n}": p.detach().clone() for n, p in self.dense.named_parameters()},
                folder / "2_Dense" / "model.safetensors",
            )
            full = {
                "Tanh": "torch.nn.modules.activation.Tanh",
                "Identity": "torch.nn.modules.linear.Identity",
            }[activation]
            write_json(
                folder / "2_Dense" / "config.json",
                {
                    "in_features": width,
                    "out_features": rows,
                    "bias": True,
                    "activation_function": full,
                },
            )
            modules.append(("Dense", "2_Dense"))
            self.dense.double()
        if m.get("normalize"):
            modules.append(("Normalize", f"{len(modules)}_Normalize"))
        write_json(
            folder / "modules.json",
            [
                {
                    "idx": i,
                    "name": str(i),
                    "path": path,
                    "type": f"sentence_transformers.models.{kind}",
                }
                for i, (kind, path) in enumerate(modules)
            ],
        )
        (folder / "1_Pooling").mkdir()
        modes = {
            f"pooling_mode_{name}": name == m["pooling"]
            for name in (
                "cls_token",
                "mean_tokens",
                "max_tokens",
                "mean_sqrt_len_tokens",
                "weightedmean_tokens",
                "lasttoken",
            )
        }
        write_json(
            folder / "1_Pooling" / "config.json",
            {"word_embedding_dimension": width, **modes, "include_prompt": True},
        )

    def run(
        self, ids: np.ndarray, lengths: list[int], segments: np.ndarray | None
    ) -> tuple[list[list[np.ndarray]], list[np.ndarray]]:
        """(the residuals after each block, the output) of each row of a padded batch, cut to its
        length."""
        if "Siglip" in self.case.model and len(lengths) > 1:  # it looks at the last position
            runs = [self.run(row[None, :n], [n], None) for row, n in zip(ids, lengths)]
            return [layers for (layers,), _ in runs], [output for _, (output,) in runs]
        mask = torch.tensor([[int(i < n) for i in range(ids.shape[1])] for n in lengths])
        batch = torch.from_numpy(ids)
        # T5's norms and softmax are float32 in any model, and CLIP's mask
        single = "T5" in self.case.model or "CLIP" in self.case.model
        double = float32_is_double() if single else contextlib.nullcontext()
        with double, torch.no_grad():
            if self.nomic:
                hidden = self.model(
                    batch, mask, None if segments is None else torch.from_numpy(segments)
                )
                out = hidden.pop() if self.case.model == "NomicBertForPreTraining" else hidden[-1]
            else:
                more = {} if segments is None else {"token_type_ids": torch.from_numpy(segments)}
                if self.case.model in _PAIRS:
                    self.layers = [batch]
                    out = run_text(self.model, batch, attention_mask=mask)
                    hidden = self.layers
                else:
                    result = self.model(
                        input_ids=batch, attention_mask=mask, output_hidden_states=True, **more
                    )
                    hidden, out = result.hidden_states, output_of(result, self.case.model)
                if self.residual is not None:
                    hidden = (*hidden[:-1], self.residual)
        rows = range(len(lengths))
        layers = [[h[r, : lengths[r]].numpy() for h in hidden[1:]] for r in rows]
        if self.case.modules:
            return layers, [self._pool(out[r, : lengths[r]]).numpy() for r in rows]
        return layers, [
            out[r].numpy() if self.case.head == "Sequence" else out[r, : lengths[r]].numpy()
            for r in rows
        ]

    def _pool(self, hidden: torch.Tensor) -> torch.Tensor:
        m = self.case.modules
        x = {"mean_tokens": hidden.mean(0), "cls_token": hidden[0], "lasttoken": hidden[-1]}[
            m["pooling"]
        ]
        if self.dense is not None:
            with torch.no_grad():
                x = self.dense(x)
            x = torch.tanh(x) if m["dense"][1] == "Tanh" else x
        return torch.nn.functional.normalize(x, dim=0) if m.get("normalize") else x


def _rotary_in_double(
    self, x: torch.Tensor, position_ids: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    angle = position_ids[:, :, None].double() * self.original_inv_freq.double()
    both = torch.cat([angle, angle], dim=-1)
    return both.cos().to(x.dtype), both.sin().to(x.dtype)


# ---- The comparison


class Pair:
    """A case's PyTorch model and its converted file."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, source = case, folder / "source"
        source.mkdir()
        self.folder, self.torch, self.path = folder, Torch(case, source), folder / "model.phasor"
        model, _ = read_source(source)
        if model.descriptor["output"]["output"] == D.LOGITS:
            model.descriptor["source"]["mask"] = (
                MASK  # which a tokenizer would say, and `phasor fill` asks for
            )
        convert.convert(model, self.path, F32, {}, None, quiet=True)
        self.file = PhasorFile(self.path)
        self.file.check()
        self.reference = Reference(self.file)
        self.longest = self.reference.d["encoder"]["max_positions"] or LONGEST

    def batches(self) -> list[tuple[np.ndarray, list[int], np.ndarray | None]]:
        """(ids, lengths, segments): lengths 1, 2 and the longest alone, then padded together; a
        text's ids are never the padding's."""
        rng, side = np.random.default_rng(7), self.reference.d["source"]
        segments = self.reference.d["encoder"]["segments"]
        out = []
        for lengths in ([1], [2], [self.longest], [2, self.longest, 1, self.longest // 2]):
            ids = rng.integers(MASK, side["vocabulary"], (len(lengths), max(lengths)))
            ids[:, 0] = MASK
            for row, n in enumerate(lengths):
                if self.case.model in _AT_THE_END:  # the end token is a text's last
                    ids[row] = np.minimum(ids[row], VOCABULARY - 2)
                    ids[row, n - 1] = VOCABULARY - 1
                ids[row, n:] = side.get("pad") or 0
            kinds = (np.arange(max(lengths)) >= max(lengths) // 2).astype(np.int64) * (segments - 1)
            out.append(
                (
                    ids,
                    lengths,
                    np.tile(kinds, (len(lengths), 1))
                    if segments > 1 and len(lengths) > 1
                    else None,
                )
            )
        return out

    def compare(self) -> tuple[float, float]:
        """The largest differences of a layer's residual and of the output, each as a share of the
        row's largest value."""
        layer = output = 0.0
        for ids, lengths, segments in self.batches():
            layers, outputs = self.torch.run(ids, lengths, segments)
            for row, n in enumerate(lengths):
                trace = self.reference.encode(
                    ids[row, :n], None if segments is None else segments[row, :n]
                )
                ours = self.groups(trace.residuals)
                assert len(ours) == len(layers[row])
                layer = max([layer, *(relative(a, b) for a, b in zip(ours, layers[row]))])
                given = self.reference.output(trace)
                output = max(output, relative(given, outputs[row].reshape(given.shape)))
        return layer, output

    def groups(self, residuals):
        """Of ALBERT, whose hidden states are those after each group of layers, every so many."""
        inner = self.case.config.get("inner_group_num", 1)
        return residuals[inner - 1 :: inner]

    def compare_program(self, program: Path) -> tuple[float, float]:
        """The same of `phasor` in f32: the length of a row's largest difference, of residuals and
        of the output, as a share of the longest row's."""
        layer = output = 0.0
        for ids, lengths, segments in self.batches():
            layers, outputs = self.torch.run(ids, lengths, segments)
            for row, n in enumerate(lengths):
                planes, ours = self.run_program(
                    program, ids[row, :n], None if segments is None else segments[row, :n]
                )
                layer = max(
                    [
                        layer,
                        *(
                            distance(a, b)
                            for a, b in zip(self.groups(planes[1:-1]), layers[row], strict=True)
                        ),
                    ]
                )
                output = max(output, distance(ours, outputs[row].reshape(ours.shape)))
        return layer, output

    def run_program(
        self, program: Path, ids: np.ndarray, segments: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(planes of hidden states, output rows)"""
        kind = self.reference.d["output"]["output"]
        common = [
            "--ids",
            ids_text(ids),
            "--quiet",
            *(["--segments", ids_text(segments)] if segments is not None else []),
        ]

        def run(command: str, *more: str) -> None:
            subprocess.run(
                [program, command, self.path, *common, *more],
                cwd=self.folder,
                check=True,
                stdout=subprocess.DEVNULL,
            )

        run(
            "embed",
            "--hidden",
            "hidden.npy",
            "--npy",
            "output.npy",
            *(["--pooling", "last"] if kind != D.POOLED else []),
        )
        if kind in (D.LOGITS, D.CLASSES):
            run("fill" if kind == D.LOGITS else "classify", "--logits", "output.npy")
        planes = np.load(self.folder / "hidden.npy").astype(np.float64)
        return planes, planes[-1] if kind == D.HIDDEN else np.load(
            self.folder / "output.npy"
        ).astype(np.float64)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(
        np.linalg.norm(a - b, axis=-1).max() / np.linalg.norm(b, axis=-1).max()
    )  # one logit alone may be near zero


def relative(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max() / np.abs(b).max())


def test_buckets_of_deberta():
    from transformers.models.deberta_v2 import modeling_deberta_v2 as theirs

    sizes = [
        (256, 512),
        (2, 3),
        (3, 4),
        (6, 9),
        *((b, b + m) for b in range(8, 300, 7) for m in (1, 9, 400)),
    ]
    for buckets, longest in sizes:
        distances = np.arange(-longest - 5, longest + 6)
        want = theirs.make_log_bucket_position(torch.from_numpy(distances), buckets, longest)
        found, want = log_buckets(distances, buckets, longest), want.long().numpy()
        for at in np.flatnonzero(found != want):  # where the float32 logarithm's last bit decides
            middle, away = buckets // 2, abs(int(distances[at]))
            part = math.log(away / middle) / math.log((longest - 1) / middle) * (middle - 1)
            assert abs(part - round(part)) < 1e-6 * middle and abs(found[at] - want[at]) == 1
            print(f"{buckets} buckets up to {longest}: a tie at distance {distances[at]}")


@pytest.fixture(scope="module", params=CASES, ids=lambda c: c.name)
def pair(request, tmp_path_factory):
    return Pair(request.param, tmp_path_factory.mktemp("family"))


def test_every_layer_and_the_output(pair):
    layer, output = pair.compare()
    assert layer < TOLERANCE and output < TOLERANCE


def test_the_program(pair, phasor):
    layer, output = pair.compare_program(phasor)
    assert layer < PROGRAM_TOLERANCE and output < PROGRAM_TOLERANCE


def test_modules_have_no_parameter_at_its_default(pair):
    for name, p in pair.torch.model.named_parameters():
        assert p.abs().max() > 0 and not torch.equal(p, torch.ones_like(p)), name


# ---- The document

TABLE = Table(
    "test_families_encoders.py",
    "| class | reference: layers | output | phasor, f32: layers | output "
    "|\n|---|---|---|---|---|\n",
)


def test_the_document_has_these_rows():
    assert TABLE.names() == [case.name for case in CASES], "run make families"


def write() -> None:
    """Measures every row."""
    import tempfile

    rows = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            pair = Pair(case, Path(folder))
            measured = [*pair.compare(), *pair.compare_program(PROGRAM)]
        print(case.name, measured)
        rows.append(f"| {case.name} | " + " | ".join(f"{value:.0e}" for value in measured) + " |\n")
    TABLE.write(rows)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    write()
