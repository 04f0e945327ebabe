"""Live modules become files by `phasor.export`: the ten of own_modules.py with renamed attributes
and no description by hand, each proved with the module's own outputs, which catch eight changes of
it; and what cannot be described is refused by a line."""

from __future__ import annotations

import copy
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Callable

import numpy as np
import pytest
import torch
import transformers
from test_own_descriptions import CHANGES, changed
from test_spans import WORDS, _wordpiece

import phasor
from live_modules import Branching, Capped, Grouped, Parallel, Recurrent, Sums, Tutorial
from own_modules import NAMES
from phasor import convert, expect
from phasor import vectors as V
from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError
from phasor.format.file import VECTORS, PhasorFile
from phasor.format.meta import as_stored
from phasor.live.proof import checkpoint_of, stored
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import parse_description
from renamed import renamed

OWN = Path(__file__).resolve().parents[1] / "support/own_modules.py"
MODELS = renamed(str(OWN))
# What no call says, and the owner does.
SAID = {
    "translator-sinusoidal": {"start": 1},
    "translator-learned": {"start": 1},
    "translator-rotary": {"start": 1},
    "annotated": {"start": 1},
    "classifier": {"labels": ["sport", "art", "trade", "science"]},
    "tagger": {"labels": [f"tag {i}" for i in range(7)]},
    "time-series": {"task": "values"},
    "vision": {"labels": ["bird", "cat", "dog", "fish", "frog"]},
}


def example_of(own):
    return tuple(map(torch.from_numpy, own.given.values()))


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """(module, what was exported, seconds) by name, made once."""
    folder, made = tmp_path_factory.mktemp("export"), {}

    def of(name):
        if name not in made:
            own = MODELS.make(name)
            began = time.process_time()
            found = phasor.export(
                own.net,
                folder / f"{name}.phasor",
                example=example_of(own),
                quiet=True,
                **SAID.get(name, {}),
            )
            made[name] = own, found, time.process_time() - began
        return made[name]

    return of


@pytest.mark.parametrize("name", NAMES)
def test_a_live_module_becomes_a_proved_file(exports, name):
    own, found, seconds = exports(name)
    print(f"{name}: {found.gap:.2g} of a row's range, {seconds:.1f} s of a processor")
    assert found.gap <= 1e-5 and found.precision == "float64"
    words = {word for key in own.net.state_dict() for word in key.split(".")}
    assert not words & {"embedding", "lm_head", "wte", "lut", "fc_q", "to_qkv", "enc_blocks"}
    section = V.read(PhasorFile(found.path).section(VECTORS), PhasorFile(found.path).descriptor)
    assert section.author == expect.AUTHOR and len(section.vectors) >= 7


def proved(own, description: dict, section: V.Section) -> bool:
    """Whether a description of the module gives what the file's test vectors have."""
    path = Path("changed.toml")
    source = checkpoint_of(own.net.state_dict(), path)
    model = state_dict.read(source, parse_description(description, path))
    if "vectors" in own.given:  # the rows that the vectors of the file speak of
        given = {"vectors": stored(own.given["vectors"].astype(np.float64))}
        expect.put_vectors(Checkpoint(path, given), model)
    file, one = V.ExactWeights(as_stored(model.descriptor), model.weights), section.vectors[0]
    ids = V.Input(tuple(map(int, one.source)), tuple(map(int, one.target)))
    ((ran,),) = V.run_all(file, [ids], (np.float64,))
    theirs, ours = one.logits, ran.output[:, one.logit_ids.astype(int)]
    return bool((np.abs(theirs - ours).max(1) <= section.tolerance * one.range).all())


@pytest.mark.parametrize("name", NAMES)
def test_the_stored_proof_catches_eight_changes(exports, name):
    own, found, _ = exports(name)
    file = PhasorFile(found.path)
    section = V.read(file.section(VECTORS), file.descriptor)
    assert proved(own, tomllib.loads(found.description), section)
    for key in CHANGES:
        toml = tomllib.loads(changed(found.description, name, key))
        if (name, key) == ("characters", "heads"):
            with pytest.raises(PhasorError, match=r"expected \(32 x 16\)"):
                proved(own, toml, section)
        else:
            assert not proved(own, toml, section), key


class Parametrized(Sums):
    """Weights that are computed of others."""

    def __init__(self) -> None:
        super().__init__()
        torch.nn.utils.parametrizations.weight_norm(self.o)
        torch.nn.utils.parametrizations.orthogonal(self.q)


IDS = torch.randint(0, 30, (2, 9), generator=torch.Generator().manual_seed(0))
NAMED = {"labels": ["a", "b", "c"]}
CAUSAL = torch.triu(torch.full((7, 7), float("-inf")), 1)
# Other ways to write the parts: model, example, what its owner says, lines of the description.
OTHERS = {
    "grouped": (
        Grouped,
        IDS,
        {},
        [
            "kv_heads = 2",
            'norm = "rms"',
            "norm_eps = 1e-06",
            "rotary_base = 500000.0",
            'attention_position = "rotary-halves"',
            'activation = "silu"',
            "[rename]",
            'half = "second"',
        ],
    ),
    "sums": (
        Sums,
        IDS,
        NAMED,
        [
            'attention_position = "alibi"',
            'activation = "gelu"',
            'head_activation = "tanh"',
            'pooling = "first"',
        ],
    ),
    "padded": (lambda: Sums(0), IDS + 1, {**NAMED, "pad": 0}, ["pad = 0"]),
    "tutorial": (Tutorial, (IDS.T, IDS.T[:7], CAUSAL), {"start": 1}, ['norm_place = "before"']),
    "parallel": (
        Parallel,
        IDS,
        {},
        [
            'parallel = "one-norm"',
            'position = "sinusoidal-halves"',
            "position_base = 1000.0",
            'position_rates = "tensor2tensor"',
            "window = 4",
            "qkv_by_head = true",
            'activation = "gelu-tanh"',
            "norm_eps = 0.001",
            'output = "target-embedding"',
            "transposed = true",
        ],
    ),
    "norms of heads": (
        Capped,
        IDS,
        {},
        [
            'qk_norm = "rms"',
            "cap = 5.0",
            "output_cap = 3.0",
            'attention_position = "rotary-halves"',
        ],
    ),
    "norms of all heads": (lambda: Capped(True), IDS, {}, ['qk_norm_over = "all-heads"']),
    "layer norms of heads": (
        lambda: Capped(False, torch.nn.LayerNorm),
        IDS,
        {},
        [
            'qk_norm = "layer"',
            "cap = 5.0",
        ],
    ),
    "computed": (lambda: Parametrized(), IDS, NAMED, ["# Computed weights are taken as their"]),
    "half": (lambda: Sums().bfloat16(), IDS, NAMED, ['pooling = "first"']),
}


def made(kind) -> torch.nn.Module:
    torch.manual_seed(3)
    return kind()


@pytest.mark.parametrize("name", OTHERS)
def test_other_ways_to_write_the_parts(tmp_path, name, capsys):
    kind, example, said, lines = OTHERS[name]
    toml = tmp_path / "found.toml"
    found = phasor.export(
        made(kind), tmp_path / "m.phasor", example=example, save_description=toml, **said
    )
    assert found.gap <= 1e-5
    assert capsys.readouterr().out == toml.read_text() == found.description
    for line in lines:
        assert line in found.description


def test_a_saved_description_is_the_converters(tmp_path):
    own, path = MODELS.make("tagger"), tmp_path / "m.phasor"
    toml = tmp_path / "tagger.toml"
    phasor.export(
        own.net, path, example=example_of(own), save_description=toml, quiet=True, **SAID["tagger"]
    )
    torch.save(own.net.state_dict(), tmp_path / "tagger.pt")
    np.savez(tmp_path / "tagger.npz", **own.given, output=own.output)
    words = [tmp_path / "tagger.pt", "--expect", tmp_path / "tagger.npz", "-o", tmp_path / "c"]
    assert convert.main([*map(str, words), "--quiet"]) == 0


def test_the_module_is_left_as_it_was(tmp_path):
    module = made(Sums).train()
    calls: list[int] = []
    module.words.register_forward_hook(lambda *given: calls.append(1))
    before = copy.deepcopy(module.state_dict())
    found = phasor.export(module, tmp_path / "m.phasor", example=IDS, quiet=True, **NAMED)
    assert module.training and module.out.training and not calls
    assert "# Hooks are left out" in found.description
    assert module.out.weight.dtype == torch.float32 and module.out.weight.requires_grad
    module(IDS)
    assert calls == [1]
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


class Length(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(x, dim=-1)


def with_norms(make: Callable[[], torch.nn.Module], names: str = "first second") -> Capped:
    module = Capped()
    for own in module.sets:
        own.update({name: make() for name in names.split()})
    return module


REFUSED = {
    "no weights": (lambda: with_norms(Length), IDS, {}, "a norm without weights is not read"),
    "one norm": (
        lambda: with_norms(torch.nn.Identity, "first"),
        IDS,
        {},
        "expected one of q and one of k",
    ),
    "epsilon": (
        lambda: with_norms(lambda: torch.nn.RMSNorm(6, 1e-3)),
        IDS,
        {},
        "the norms of q and k have epsilon 0.001 and 0.001, those of the layer 1e-06",
    ),
    "labels": (Sums, IDS, {}, r"labels=: missing: the module gives 3 classes"),
    "label count": (Sums, IDS, {"labels": ["a"]}, r"labels=: 1 names, the module gives 3 classes"),
    "start": (Tutorial, (IDS.T, IDS.T[:7], CAUSAL), {}, r"start=: missing"),
    "pad": (lambda: Sums(3), IDS, NAMED, r"pad=: missing: .* compares ids with 3 \(live_mod.*:\d+"),
    "example": (Sums, None, NAMED, r"example=: missing"),
    "short": (Sums, IDS[:, :2], NAMED, r"example=: has shape \(2, 2\): expected at least 3"),
    "ids": (Sums, IDS + 30, NAMED, r"Sums: fails on the example: IndexError"),
    "type": (Sums, IDS, {**NAMED, "type": "int7"}, r"type=: 'int7': expected one of f32, "),
    "task": (Sums, IDS, {**NAMED, "task": "sort"}, r"task=: 'sort': expected one of values"),
    "branch": (Branching, IDS, NAMED, r"live_modules.py:\d+: bool of a tensor that depends on"),
    "recurrent": (Recurrent, IDS, {}, r"the module has no attention that is read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_a_line_and_writes_nothing(tmp_path, name):
    kind, example, said, line = REFUSED[name]
    path = tmp_path / "m.phasor"
    path.write_bytes(b"before")
    with pytest.raises(phasor.Error, match=line):
        phasor.export(
            made(kind),
            path,
            example=example,
            quiet=True,
            save_description=tmp_path / "d.toml",
            **said,
        )
    assert path.read_bytes() == b"before" and sorted(tmp_path.iterdir()) == [path]


class Around(torch.nn.Module):
    """What a person writes around a module."""

    def __init__(self, kind, change) -> None:
        super().__init__()
        self.net, self.change = kind(), change

    def forward(self, ids: torch.Tensor):
        return self.change(self.net(ids))


class Hidden(Tutorial):
    def forward(self, src, trg, tgt_mask) -> torch.Tensor:
        return self.net(self.a(src), self.b(trg), tgt_mask=tgt_mask)


class LowRank(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = (torch.nn.Parameter(torch.randn(*n)) for n in ((24, 3), (3, 24)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.a @ self.b)


class Computed(Sums):
    """A matrix is a product of two."""

    def __init__(self) -> None:
        super().__init__()
        self.o = LowRank()


def plain(module: torch.nn.Module) -> torch.nn.Module:
    low, module.o = module.o, torch.nn.Linear(24, 24, bias=False)
    module.o.weight = torch.nn.Parameter((low.a @ low.b).detach())
    return module


class OldNorm(Sums):
    def __init__(self) -> None:
        super().__init__()
        torch.nn.utils.weight_norm(self.o)


# What a refusal says, the module that gets it, and that module after what the line says.
TRIED = {
    "TRY: a module that gives its logits": (
        lambda: Around(Sums, lambda y: y.softmax(-1)),
        lambda m: m.net,
        NAMED,
    ),
    "TRY: a module around it that gives the one": (
        lambda: Around(Sums, lambda y: (y, y * 2)),
        lambda m: Around(lambda: m, lambda y: y[0]),
        NAMED,
    ),
    "TRY: a module whose calls are the same": (
        Branching,
        lambda m: setattr(m, "__class__", Sums) or m,
        NAMED,
    ),
    "TRY: the module it was made of": (
        lambda: torch.jit.trace(made(Sums), IDS),
        lambda m: made(Sums),
        NAMED,
    ),
    "TRY: put the computed value in its place": (Computed, plain, NAMED),
    "TRY: torch.nn.utils.remove_weight_norm": (
        OldNorm,
        lambda m: torch.nn.utils.remove_weight_norm(m.o) and m,
        NAMED,
    ),
    "TRY: a module that ends in its output matrix": (
        Hidden,
        lambda m: setattr(m, "__class__", Tutorial) or m,
        {"start": 1},
    ),
}


@pytest.mark.parametrize("line", TRIED)
def test_what_a_refusal_says_works(tmp_path, line):
    kind, follow, said = TRIED[line]
    module = made(kind)
    example = (IDS.T, IDS.T[:7], CAUSAL) if "start" in said else IDS
    with pytest.raises(phasor.Error, match=line):
        phasor.export(module, tmp_path / "m.phasor", example=example, quiet=True, **said)
    found = phasor.export(
        follow(module), tmp_path / "m.phasor", example=example, quiet=True, **said
    )
    assert found.gap <= 1e-5


def test_a_refusal_of_padding_says_what_to_give(tmp_path):
    with pytest.raises(phasor.Error, match="say which id pads"):
        phasor.export(
            made(lambda: Sums(0)), tmp_path / "m.phasor", example=IDS + 1, quiet=True, **NAMED
        )
    found = phasor.export(
        made(lambda: Sums(0)), tmp_path / "m.phasor", example=IDS + 1, quiet=True, pad=0, **NAMED
    )
    assert found.gap <= 1e-5


class Masked(Sums):
    """Rows of a batch that end sooner, by a mask that is given."""

    def forward(self, ids: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        q, k, v = (f(x).unflatten(-1, (4, 6)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, seen[:, None, None])
        x = self.one(x + self.o(y.transpose(1, 2).flatten(2)))
        x = self.two(x + self.down(torch.nn.functional.gelu(self.up(x))))
        return self.out(torch.tanh(self.dense(x[:, 0])))


class Cut(Tutorial):
    def forward(self, src, trg, tgt_mask, pad) -> torch.Tensor:
        x, y = self.a(src), self.b(trg)
        return self.out(self.net(x, y, tgt_mask=tgt_mask, src_key_padding_mask=pad))


@pytest.mark.parametrize("kind", [Masked, Cut])
@pytest.mark.parametrize("row", [0, 1])
def test_a_mask_of_some_rows_says_what_to_give(tmp_path, kind, row):
    module, none = made(kind), torch.full((2, 9), kind is Masked)
    cut = none.clone()
    cut[row, 6:] = kind is Cut
    before = (IDS,) if kind is Masked else (IDS.T, IDS.T[:7], CAUSAL)
    words = {"quiet": True, **(NAMED if kind is Masked else {"start": 1})}
    with pytest.raises(phasor.Error, match="give an example without padding"):
        phasor.export(module, tmp_path / "m.phasor", example=(*before, cut), **words)
    found = phasor.export(module, tmp_path / "m.phasor", example=(*before, none), **words)
    assert found.gap <= 1e-5


def test_a_description_that_differs_names_the_sub_layer(tmp_path, monkeypatch):
    """The reference with another eps: the error says where the two part, with both values."""
    from phasor.live import describe

    real = describe.Describing._norm

    def other(self, part, norm, parts):
        real(self, part, norm, parts)
        if part == "attention_norm":
            self.tables["encoder"]["embedding_scale"] = 1.5, ""

    monkeypatch.setattr(describe.Describing, "_norm", other)
    with pytest.raises(phasor.Error) as caught:
        phasor.export(made(Sums), tmp_path / "m.phasor", example=IDS, quiet=True, **NAMED)
    found = re.search(
        r"part at encoder, the embedding.*has (\S+) and the reference (\S+);", str(caught.value)
    )
    assert found and float(found[2]) == pytest.approx(1.5 * float(found[1]), rel=1e-4)
    assert not list(tmp_path.iterdir())


SMALL = {
    "vocab_size": len(WORDS),
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
}


def pipeline(folder):
    config = transformers.BertConfig(**SMALL, id2label={0: "no", 1: "yes"})
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    _wordpiece(folder)
    return transformers.pipeline("text-classification", model=str(folder))


def embedder(folder):
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    transformers.BertModel(transformers.BertConfig(**SMALL)).save_pretrained(folder)
    _wordpiece(folder)
    net = modules.Transformer(str(folder))
    return library.SentenceTransformer(modules=[net, modules.Pooling(24, "mean")])


def decoder(folder):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, num_key_value_heads=1))


@pytest.mark.parametrize("kind", [pipeline, embedder, decoder])
def test_a_librarys_model_goes_by_its_family(tmp_path, kind):
    torch.manual_seed(3)
    found = phasor.export(kind(tmp_path / "saved"), tmp_path / "m.phasor", type="q8", quiet=True)
    file = PhasorFile(found.path)
    assert found.gap <= 1e-5 and V.read(file.section(VECTORS), file.descriptor).author == (
        expect.AUTHOR
    )
    with pytest.raises(phasor.Error, match="start=: goes without a"):
        phasor.export(kind(tmp_path / "again"), tmp_path / "n.phasor", start=1, quiet=True)


def adapted(how):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False)
    if how == "a model of PEFT":
        return peft.get_peft_model(decoder(None), config)
    module = decoder(None)
    module.add_adapter(config)
    return module


@pytest.mark.parametrize("how", ["a model of PEFT", "an adapter that is added"])
def test_an_adapter_beside_the_weights_is_refused(tmp_path, how):
    with pytest.raises(phasor.Error, match=r"TRY: the model that merge_and_unload\(\) gives"):
        phasor.export(adapted(how), tmp_path / "m.phasor", example=IDS, quiet=True)
    assert not list(tmp_path.iterdir())
    if how == "a model of PEFT":  # the other has no such method
        phasor.export(adapted(how).merge_and_unload(), tmp_path / "m.phasor", quiet=True)


def test_a_librarys_model_without_a_layer_is_a_line(tmp_path):
    module = decoder(None)
    module.model.layers = module.model.layers[:1]
    with pytest.raises(phasor.Error, match=r"missing: model\.layers\.1\."):
        phasor.export(module, tmp_path / "m.phasor", quiet=True)


def test_a_librarys_model_that_is_compiled_and_has_a_hook(tmp_path):
    module = decoder(None)
    module.model.register_forward_hook(lambda *given: None)
    found = phasor.export(torch.compile(module), tmp_path / "m.phasor", quiet=True)
    assert found.gap <= 1e-5 and "# Hooks are left out" in found.description


def test_pytorch_is_asked_for_by_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(phasor.Error, match=r"needs PyTorch: pip install 'phasor-engine\[torch\]'"):
        phasor.export(object(), tmp_path / "m.phasor")


def test_the_guides_lines(tmp_path, monkeypatch, capsys):
    """The module of the guide, exported as the guide does."""
    monkeypatch.chdir(tmp_path)
    page = (OWN.parents[2] / "docs/guide/own-model.md").read_text(encoding="utf-8")
    first, export = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)[:2]
    inside: dict = {}
    exec(first, inside)
    exec(export, inside)
    assert inside["made"].gap <= 1e-5 and (tmp_path / "mine.phasor").is_file()
    assert inside["made"].description in capsys.readouterr().out
