"""An adapter that the converter adds to the weights, beside transformers with W·x + s·B·A·x
computed by hooks (Hu et al. 2021), unmerged and in double."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from test_families_decoders import float32_is_double, randomized, share

from phasor import convert
from phasor.format.file import PhasorFile
from phasor.format.layout import F32
from phasor.reference.forward import Reference
from phasor.sources.find import read_source

SIZES = {
    "vocab_size": 37,
    "hidden_size": 24,
    "intermediate_size": 29,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
GPT = {"vocab_size": 37, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 32}
RANK, ALPHA = 3, 7
BASE = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": ALPHA,
    "bias": "none",
    "task_type": "CAUSAL_LM",
    "lora_dropout": 0.1,
    "inference_mode": True,
    "base_model_name_or_path": "somewhere",
    "init_lora_weights": True,
    "use_dora": False,
}


class Adapter:
    """Random A and B for the modules whose names a pattern finds; writes them as PEFT does, and
    hooks them into the model."""

    def __init__(
        self,
        model: torch.nn.Module,
        modules: str,
        config: dict,
        ranks: dict[str, tuple[int, float]] | None = None,
    ) -> None:
        torch.manual_seed(5)
        self.config, self.model, self.tensors, self.factors = {**BASE, **config}, model, {}, {}
        for name, module in model.named_modules():
            if not re.fullmatch(modules, name):
                continue
            rank, alpha = next(
                (value for end, value in (ranks or {}).items() if name.endswith(end)), (RANK, ALPHA)
            )
            rows, cols = module.weight.shape
            embedding, turned = (
                isinstance(module, torch.nn.Embedding),
                type(module).__name__ == "Conv1D",
            )
            inputs, outputs = (rows, cols) if embedding or turned else (cols, rows)
            a, b = torch.randn(rank, inputs) * 0.5, torch.randn(outputs, rank) * 0.5
            self.factors[name] = (
                a,
                b,
                alpha / (rank**0.5 if config.get("use_rslora") else rank),
                embedding,
            )
            if self.config["use_dora"]:
                place = f"base_model.model.{name}.lora_magnitude_vector"
                self.tensors[place] = torch.rand(outputs) + 0.5
        assert self.factors

    def write(self, folder) -> None:
        folder.mkdir()
        for name, (a, b, _, embedding) in self.factors.items():
            for part, value in (("A", a), ("B", b)):
                self.tensors[
                    "base_model.model."
                    + name
                    + (f".lora_embedding_{part}" if embedding else f".lora_{part}.weight")
                ] = value.contiguous()
        save_file(self.tensors, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps(self.config))

    def hook(self, model: torch.nn.Module) -> None:
        for name, (a, b, factor, embedding) in self.factors.items():
            a, b = a.double(), b.double()

            m = self.tensors.get(f"base_model.model.{name}.lora_magnitude_vector")

            def more(own, inputs, output, a=a, b=b, factor=factor, embedding=embedding, m=m):
                low = a.T[inputs[0]] if embedding else inputs[0] @ a.T
                if m is None:
                    return output + factor * (low @ b.T)
                weight = own.weight.T if type(own).__name__ == "Conv1D" else own.weight
                share = m.double() / torch.linalg.norm(weight + factor * (b @ a), dim=1)
                plain = inputs[0] @ weight.T
                return output + (share - 1) * plain + share * factor * (low @ b.T)

            model.get_submodule(name).register_forward_hook(more)


CASES = {
    "llama": ("LlamaForCausalLM", SIZES, r".*(q_proj|v_proj)", {}, None),
    "llama, all matrices, rsLoRA": (
        "LlamaForCausalLM",
        {**SIZES, "mlp_bias": True},
        r".*(_proj|lm_head)",
        {"use_rslora": True},
        None,
    ),
    "llama, patterns": (
        "LlamaForCausalLM",
        SIZES,
        r".*(k_proj|down_proj)",
        {"rank_pattern": {"k_proj": 2}, "alpha_pattern": {r"layers\.1\.self_attn\.k_proj": 5}},
        {"layers.1.self_attn.k_proj": (2, 5), "k_proj": (2, ALPHA)},
    ),
    "llama, the embedding": ("LlamaForCausalLM", SIZES, r".*(embed_tokens|o_proj)", {}, None),
    "gpt2, fan_in_fan_out": (
        "GPT2LMHeadModel",
        GPT,
        r".*(c_attn|c_proj|c_fc)",
        {"fan_in_fan_out": True},
        None,
    ),
    "gpt2, without the flag": ("GPT2LMHeadModel", GPT, r".*attn.c_proj", {}, None),
    "llama, DoRA": ("LlamaForCausalLM", SIZES, r".*_proj", {"use_dora": True}, None),
    "llama, DoRA and rsLoRA": (
        "LlamaForCausalLM",
        {**SIZES, "mlp_bias": True},
        r".*(up_proj|down_proj)",
        {"use_dora": True, "use_rslora": True},
        None,
    ),
    "gpt2, DoRA": (
        "GPT2LMHeadModel",
        GPT,
        r".*(c_attn|c_proj|c_fc)",
        {"fan_in_fan_out": True, "use_dora": True},
        None,
    ),
    "phi3, fused matrices": (
        "Phi3ForCausalLM",
        {**SIZES, "bos_token_id": 1, "eos_token_id": 2},
        r".*(qkv_proj|gate_up_proj)",
        {},
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_adapter(case, tmp_path):
    name, config, modules, more, ranks = CASES[case]
    model = randomized(getattr(transformers, name), config, 3)
    model.save_pretrained(tmp_path / "source")
    adapter = Adapter(model, modules, more, ranks)
    adapter.write(tmp_path / "adapter")
    read, _ = read_source(tmp_path / "source", lora=tmp_path / "adapter")
    convert.convert(read, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    ids = np.random.default_rng(1).integers(3, 37, 20)
    plain = model.double()
    with float32_is_double(), torch.no_grad():
        without = plain(torch.from_numpy(ids)[None]).logits[0].numpy()
        adapter.hook(plain)
        want = plain(torch.from_numpy(ids)[None]).logits[0].numpy()
    assert (
        share(Reference(PhasorFile(tmp_path / "m.phasor")).decode(ids).logits, want) < 1e-6
        and share(without, want) > 1e-2
    )


def test_an_adapter_of_an_encoder(tmp_path):
    config = {
        "vocab_size": 37,
        "hidden_size": 24,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "intermediate_size": 29,
        "max_position_embeddings": 32,
    }
    model = randomized(transformers.BertForMaskedLM, config, 3)
    model.save_pretrained(tmp_path / "source")
    adapter = Adapter(model, r".*(query|value|output.dense)", {"task_type": "FEATURE_EXTRACTION"})
    adapter.write(tmp_path / "adapter")
    read, _ = read_source(tmp_path / "source", lora=tmp_path / "adapter")
    convert.convert(read, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    ids, plain = np.random.default_rng(1).integers(3, 37, 20), model.double()
    adapter.hook(plain)
    with torch.no_grad():
        want = plain(torch.from_numpy(ids)[None]).logits[0].numpy()
    reference = Reference(PhasorFile(tmp_path / "m.phasor"))
    assert share(reference.output(reference.encode(ids)), want) < 1e-6


def test_what_peft_merges(tmp_path):
    """DoRA by the package itself, where it is installed."""
    peft = pytest.importorskip("peft")
    model = randomized(transformers.LlamaForCausalLM, SIZES, 3)
    model.save_pretrained(tmp_path / "source")
    config = peft.LoraConfig(
        r=4, lora_alpha=9, use_dora=True, target_modules=["q_proj", "down_proj"]
    )
    adapted = peft.get_peft_model(model, config)
    torch.manual_seed(6)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.add_(torch.rand_like(parameter) * 0.3)
    adapted.save_pretrained(tmp_path / "adapter")
    read, _ = read_source(tmp_path / "source", lora=tmp_path / "adapter")
    merged = adapted.merge_and_unload().state_dict()
    for name, wanted in merged.items():
        if name.endswith(("q_proj.weight", "down_proj.weight")):
            found = read.checkpoint.load(name)
            assert np.abs(found - wanted.numpy()).max() < 1e-5 * np.abs(found).max()
