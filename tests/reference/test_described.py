"""Described checkpoints beside the models they come from: the sinusoids of fairseq and
tensor2tensor, in transformers' port of fairseq's translators, and the norm of the Annotated
Transformer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from test_families_decoders import share

from phasor.conversion import convert
from phasor.format.file import PhasorFile
from phasor.format.layout import F32
from phasor.reference.forward import Reference
from phasor.sources.find import read_source

SOURCE, TARGET = [*range(4, 38), 2], [2, 6, 8, 10, 22]
PARTS = {
    **{"attention_norm": "self_attn_layer_norm", "ffn_norm": "final_layer_norm"},
    **{"ffn_in": "fc1", "ffn_out": "fc2", "attention_out": "self_attn.out_proj"},
    **{part: f"self_attn.{part}_proj" for part in "qkv"},
}
FSMT = """
preset = "separate"
heads = 4
position = "sinusoidal-halves"
position_offset = 2
max_positions = 60
embedding_scale = "sqrt_width"
score_scale = "sqrt_head_width"
"""
SIDES = "[source]\npad = 1\n[target]\npad = 1\nstart = 2\nend = [2]\n"


def names_of(table: dict[str, str]) -> str:
    return "[names]\n" + "".join(f'{part} = "{name}"\n' for part, name in table.items())


@pytest.mark.parametrize("width", [32, 48])
@pytest.mark.parametrize("rates", ["tensor2tensor", "paper", "a base"])
def test_sinusoids_of_fairseq(rates, width, tmp_path):
    """Divided by D/2 − 1; of the paper's rates the model is another. A base says the same."""
    torch.manual_seed(0)
    sizes = {"encoder_layers": 2, "decoder_layers": 1, "d_model": width}
    sizes |= {"encoder_ffn_dim": 48, "decoder_ffn_dim": 40, "max_position_embeddings": 64}
    sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    config = transformers.FSMTConfig(
        langs=["de", "en"], src_vocab_size=40, tgt_vocab_size=37, tie_word_embeddings=False, **sizes
    )
    net = transformers.FSMTForConditionalGeneration(config).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (p.dim() == 1) * 0.5)
    for stack in (net.model.encoder, net.model.decoder):
        table = stack.embed_positions
        table.make_weight(table.num_embeddings, table.embedding_dim, table.padding_idx)
    tensors = {n.removeprefix("model."): t.clone() for n, t in net.state_dict().items()}
    tensors = {n: t for n, t in tensors.items() if "embed_positions" not in n}
    torch.save(tensors, tmp_path / "m.pt")
    names = {
        f"{stack}.{part}": f"{stack}.layers.{{layer}}.{name}.weight"
        for stack in ("encoder", "decoder")
        for part, name in PARTS.items()
    }
    cross = "decoder.layers.{layer}.encoder_attn"
    names |= {f"decoder.cross_{x}": f"{cross}.{x}_proj.weight" for x in ("q", "k", "v", "out")}
    names |= {"decoder.cross_norm": f"{cross}_layer_norm.weight"}
    names |= {"source.embedding": "encoder.embed_tokens.weight"}
    names |= {"target.embedding": "decoder.embed_tokens.weight"}
    names |= {"output": "decoder.output_projection.weight"}
    half = width / 2
    key = f'position_rates = "{rates}"\n'
    key = f"position_base = {10000 ** (half / (half - 1))!r}\n" if rates == "a base" else key
    (tmp_path / "m.toml").write_text(FSMT + key + SIDES + names_of(names))
    model, _ = read_source(tmp_path / "m.pt")
    convert(model, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    reference = Reference(PhasorFile(tmp_path / "m.phasor"))
    ours = reference.decode(np.array(TARGET), reference.encode(np.array(SOURCE)).output).logits
    with torch.no_grad():
        given = torch.tensor([SOURCE]), torch.tensor([TARGET])
        theirs = net(input_ids=given[0], decoder_input_ids=given[1], use_cache=False).logits[0]
    found = share(ours, theirs.numpy())
    assert found > 1e-3 if rates == "paper" else found < 1e-5


class AnnotatedNorm(torch.nn.Module):
    """x − mean over the deviation of N − 1 values, plus eps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.3 * torch.randn(width))
        self.bias = torch.nn.Parameter(0.3 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        std = x.std(-1, keepdim=True)
        return self.weight * (x - x.mean(-1, keepdim=True)) / (std + 1e-6) + self.bias


@pytest.mark.parametrize("width", [8, 32])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("norm", ["layer-unbiased", "layer"])
def test_the_norm_of_the_annotated_transformer(norm, place, width, tmp_path):
    torch.manual_seed(3)
    layer = torch.nn.TransformerEncoderLayer(
        width, 4, 24, dropout=0.0, batch_first=True, norm_first=place == "before"
    )
    stack = torch.nn.TransformerEncoder(layer, 2, torch.nn.Module(), enable_nested_tensor=False)
    stack.norm = AnnotatedNorm(width)
    for block in stack.layers:
        block.norm1, block.norm2 = AnnotatedNorm(width), AnnotatedNorm(width)
        for p in block.parameters():
            p.data = torch.randn_like(p) * 0.3 + (p.dim() == 1) * 0.5
    embedding = torch.nn.Embedding(40, width)
    tensors = {f"encoder.{name}": value for name, value in stack.state_dict().items()}
    tensors["src_embedding.weight"] = embedding.weight.detach()
    torch.save(tensors, tmp_path / "m.pt")
    keys = {"preset": "torch-transformer", "stack": "encoder", "norm_place": place, "norm": norm}
    toml = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
    more = 'position = "none"\nembedding_scale = 1\nheads = 4\nfinal_norm = true\nnorm_eps = 1e-6\n'
    (tmp_path / "m.toml").write_text(toml + more)
    model, _ = read_source(tmp_path / "m.pt")
    convert(model, tmp_path / "m.phasor", F32, {}, None, quiet=True)
    ids = np.arange(20)
    reference = Reference(PhasorFile(tmp_path / "m.phasor"))
    ours = reference.output(reference.encode(ids))
    stack.train()  # and not the fast path, which has norms of its own
    with torch.no_grad():
        theirs = stack(embedding(torch.tensor(ids))[None])[0].numpy()
    found = share(ours, theirs)
    assert found < 1e-5 if norm == "layer-unbiased" else found > 1e-3
