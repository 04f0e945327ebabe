"""--expect with PyTorch as the user's model: torch.nn.Transformer inside of a class, and classes of
transformers with their directories, in float32."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from described import RIGHT, right
from phasor import convert
from phasor import vectors as V
from phasor.errors import PhasorError
from phasor.expect import AUTHOR
from phasor.format.file import VECTORS, PhasorFile
from phasor.format.layout import F32
from phasor.sources.find import read_source
from texts import read_json, write_json

WIDTH = 16


class Attention(torch.nn.MultiheadAttention):
    """The same attention whose scores are multiplied once more."""

    times = 1.0

    def forward(self, query: torch.Tensor, *others: torch.Tensor, **how: object) -> tuple:
        heads, width = self.num_heads, self.embed_dim // self.num_heads
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            torch.nn.functional.linear(x, w, b).unflatten(-1, (heads, width)).transpose(1, 2)
            for x, w, b in zip((query, *others), weights, biases)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=how["attn_mask"], scale=self.times / math.sqrt(width)
        )
        return self.out_proj(mixed.transpose(1, 2).flatten(2)), None


class Translator(torch.nn.Module):
    """As tutorials write it. how: of torch.nn.Transformer; the rest is what a description can get
    wrong."""

    def __init__(
        self,
        base: float = 10000.0,
        heads: int = 2,
        offset: int = 0,
        masked: bool = True,
        tied: str = "",
        times: float = 0.0,
        gain: float = 1.0,
        flat: bool = True,
        **how: object,
    ) -> None:
        super().__init__()
        self.masked, self.gain = masked, gain
        self.src_tok_emb = torch.nn.Embedding(33, WIDTH)
        self.tgt_tok_emb = torch.nn.Embedding(33, WIDTH)
        self.transformer = torch.nn.Transformer(
            WIDTH, heads, 2, 2, 24, dropout=0.0, batch_first=True, **how
        )
        if times:
            for module in self.modules():
                if isinstance(module, torch.nn.MultiheadAttention):
                    module.__class__, module.times = Attention, times
        self.generator = torch.nn.Linear(WIDTH, 33, bias=flat)
        self.bias = None if flat else torch.nn.Parameter(torch.randn(1, 33))
        if tied:
            self.generator.weight = getattr(self, tied).weight
        rates = base ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        angles = (offset + torch.arange(20))[:, None] * rates
        self.table = torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(20, WIDTH)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.src_tok_emb(source) * math.sqrt(WIDTH) + self.table[: source.shape[1]]
        y = self.tgt_tok_emb(target) * math.sqrt(WIDTH) + self.table[: target.shape[1]]
        mask = torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        states = self.transformer(x, y, tgt_mask=mask if self.masked else None)
        logits = self.generator(states)
        return self.gain * (logits if self.bias is None else logits + self.bias)


def converted(folder: Path, model: torch.nn.Module, description: str = RIGHT) -> None:
    """What a user does who has this model: three lines save what it gives, here with the hidden
    states of the decoder, and the description says what it is."""
    weights = model.state_dict()
    if "-embedding" in description:
        del weights["generator.weight"]
    torch.save(weights, folder / "m.pt")
    (folder / "m.toml").write_text(description)
    hidden = []
    for layer in model.transformer.decoder.layers:
        if not hidden:
            layer.register_forward_pre_hook(lambda _, given: hidden.append(given[0]))
        layer.register_forward_hook(lambda _, given, output: hidden.append(output))
    ids, target = (
        torch.tensor([[4, 9, 3, 30, 7], [1, 2, 2, 8, 0]]),
        torch.tensor([[1, 5, 6, 32]] * 2),
    )
    output = model.eval()(ids, target)
    np.savez(
        folder / "expect.npz",
        ids=ids,
        target=target,
        logits=output.detach(),
        hidden=torch.stack(hidden[: 1 + 2]).detach(),
    )
    read, sections = read_source(folder / "m.pt")
    convert.convert(
        read, folder / "m.phasor", F32, sections, None, quiet=True, expect=folder / "expect.npz"
    )


TIED = right('output = "target-embedding"')
BIAS = '[names]\noutput_bias = "bias"\n'
DESCRIBED = {
    "as it is": (RIGHT, {}),
    "scores multiplied by one": (RIGHT, {"times": 1.0}),
    "tied": (TIED, {"tied": "tgt_tok_emb"}),
    "sinusoids from position 1": (right("position_offset = 1"), {"offset": 1}),
    "a bias in a row": (RIGHT + BIAS, {"flat": False}),
    "a bias in a row, scaled": (right("output_scale = 0.5") + BIAS, {"flat": False, "gain": 0.5}),
    "logits over the root of the width": (
        right('output_scale = "inverse_sqrt_width"'),
        {"gain": WIDTH**-0.5},
    ),
}


@pytest.mark.parametrize("description, how", DESCRIBED.values(), ids=list(DESCRIBED))
def test_the_model_that_was_described(tmp_path, description, how):
    torch.manual_seed(3)
    converted(tmp_path, Translator(**how), description)
    assert (tmp_path / "m.phasor").is_file()


# ---- Directories of Hugging Face

_SIZES = {
    "vocab_size": 41,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 30,
}
IDS = np.random.default_rng(2).integers(4, 41, (3, 9))


def directory(folder: Path, name: str, **more: object) -> torch.nn.Module:
    """A random model in FOLDER/m."""
    torch.manual_seed(5)
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**_SIZES, **more, attn_implementation="eager")).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.4 + (p.dim() == 1))
    model.save_pretrained(folder / "m")
    return model


def change(folder: Path, **fields: object) -> None:
    where = folder / "m" / "config.json"
    where.write_text(json.dumps({**read_json(where), **fields}))


def expected(folder: Path, capsys, **arrays: torch.Tensor | np.ndarray) -> str:
    """The line of a conversion that stops; "" where the file is there, with these as its proof."""
    np.savez(folder / "expect.npz", ids=IDS, **{k: np.asarray(v) for k, v in arrays.items()})
    out = folder / "m.phasor"
    words = [folder / "m", "-o", out, "--quiet", "--expect", folder / "expect.npz"]
    status = convert.main([str(word) for word in words])
    said = capsys.readouterr().err
    assert out.exists() == (status == 0)
    if status:
        return said
    file = PhasorFile(out)
    stored = V.read(file.section(VECTORS), file.descriptor)
    assert stored.author == AUTHOR and len(stored.vectors) == len(IDS)
    out.unlink()
    return ""


@pytest.mark.parametrize(
    "name, output, more, other",
    [
        ("BertModel", "last_hidden_state", {}, {"hidden_act": "gelu_new"}),
        ("BertForMaskedLM", "logits", {}, {"hidden_act": "gelu_new"}),
        ("LlamaForCausalLM", "logits", {}, {"rope_theta": 500.0}),
    ],
)
def test_hidden_states_of_a_directory(tmp_path, capsys, name, output, more, other):
    with torch.no_grad():
        out = directory(tmp_path, name, **more)(torch.tensor(IDS), output_hidden_states=True)
    arrays = {output: out[output], "hidden": torch.stack(out.hidden_states)}
    assert expected(tmp_path, capsys, **arrays) == ""
    change(tmp_path, **other)
    line = expected(tmp_path, capsys, **arrays)
    row = int(name.startswith("Llama"))  # position 0 is turned by nothing
    assert f"expect.npz: input 0, row {row}: the model that was described gives" in line
    assert line.endswith("; the hidden states differ from layer 0 on\n"), line


def test_vectors_whose_positions_see_all(tmp_path, capsys):
    """As GTE-Qwen2's own code gives them, which the library's class does not: without is_causal in
    config.json there is no file."""
    model = directory(tmp_path, "Qwen2Model", num_key_value_heads=2)
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    write_json(
        tmp_path / "m" / "modules.json",
        [
            {"idx": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (kind, path) in enumerate(modules)
        ],
    )
    (tmp_path / "m" / "1_Pooling").mkdir()
    (tmp_path / "m" / "1_Pooling" / "config.json").write_text('{"pooling_mode_lasttoken": true}')

    def pooled(**how: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            states = model(torch.tensor(IDS), **how).last_hidden_state
        return torch.nn.functional.normalize(states[:, -1], dim=-1)

    count, length = IDS.shape
    looking_back = pooled()
    seeing_all = pooled(attention_mask=torch.zeros(count, 1, length, length))
    different = "expect.npz: input 0, row 0: the model that was described gives something else"
    assert expected(tmp_path, capsys, pooled=looking_back) == ""
    assert different in expected(tmp_path, capsys, pooled=seeing_all)
    change(tmp_path, auto_map={"AutoModel": "modeling_qwen.Qwen2Model"})
    assert "config.json: auto_map: " in expected(tmp_path, capsys, pooled=seeing_all)
    change(tmp_path, auto_map=None, is_causal=False)
    assert expected(tmp_path, capsys, pooled=seeing_all) == ""
    assert different in expected(tmp_path, capsys, pooled=looking_back)


def test_classes_of_a_directory(tmp_path, capsys):
    with torch.no_grad():
        out = directory(tmp_path, "BertForSequenceClassification", num_labels=3)(torch.tensor(IDS))
    assert expected(tmp_path, capsys, logits=out.logits) == ""
    assert "something else" in expected(tmp_path, capsys, logits=out.logits.roll(1, -1))


# What the user's model is, against what the description says; the hidden states differ from there.
OTHERS = {
    "scale": ({"times": 2.0}, "from layer 0 on"),
    "norm place": ({"norm_first": True}, "from layer 0 on"),
    "offset": ({"offset": 1}, "from the embedding on"),
    "heads": ({"heads": 4}, "from layer 0 on"),
    "mask": ({"masked": False}, "from layer 0 on"),
    "tie": ({"tied": "src_tok_emb"}, "in the last layer or behind it"),
    "activation": ({"activation": "gelu"}, "from layer 0 on"),
    "theta": ({"base": 5000.0}, "from the embedding on"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_model_under_the_same_names(tmp_path, name):
    """Each of the eight ways in which a description can be another model."""
    how, where = OTHERS[name]
    torch.manual_seed(3)
    with pytest.raises(PhasorError) as told:
        converted(tmp_path, Translator(**how), TIED if name == "tie" else RIGHT)
    line = str(told.value)
    assert f"{tmp_path / 'expect.npz'}: input 0, row 0: the model that was described gives" in line
    assert line.endswith(f"; the hidden states differ {where}"), line
    assert not (tmp_path / "m.phasor").exists()
