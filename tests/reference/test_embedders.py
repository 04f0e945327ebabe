"""Decoders that give vectors, beside transformers: the last token's hidden state, a dense layer,
division by the length. Where sentence-transformers is installed, beside it too, texts and all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers

from phasor import convert
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.layout import F32
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import told
from texts import ids_text, write_json

TOLERANCE = 1e-5
VOCABULARY, WIDTH, LONGEST = 71, 24, 40
CUT = 30  # max_seq_length: ids that a text is cut to
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": LONGEST,
}
_GEMMA3 = {**_SIZES, "head_dim": 8, "sliding_window": 12, "query_pre_attn_scalar": 9}
_GEMMA3["layer_types"] = ["sliding_attention", "full_attention", "sliding_attention"]
# Class: its configuration, the modules behind it, whether its names have the causal model's trunk.
CASES = {
    "Qwen3": ({**_SIZES, "head_dim": 10}, {}, True),
    "Qwen2": (_SIZES, {"dense": 14}, False),
    "Mistral": ({**_SIZES, "sliding_window": 7}, {}, False),
    "Gemma": ({**_SIZES, "head_dim": 8}, {"dense": 9, "pooling": "mean_tokens"}, True),
    "Gemma3": (_GEMMA3, {"dense": 9, "pooling": "mean_tokens"}, False),
    "Gemma3, in both directions": (
        {**_GEMMA3, "use_bidirectional_attention": True},
        {"denses": (40, 19), "pooling": "mean_tokens"},
        False,
    ),
    "Gemma3, in both directions, a narrow window": (
        {**_GEMMA3, "use_bidirectional_attention": True, "sliding_window": 5},
        {"denses": (17,), "normalize": False},
        False,
    ),
    "GPT2": (
        {
            "vocab_size": VOCABULARY,
            "n_embd": WIDTH,
            "n_layer": 2,
            "n_head": 3,
            "n_positions": LONGEST,
        },
        {"normalize": False},
        False,
    ),
}
EOS = 3


def drawn(model: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p) * 0.3 + (p.dim() == 1))
    return model


class Embedder:
    """A random model with its modules, as sentence-transformers saves it."""

    def __init__(self, name: str, folder: Path) -> None:
        torch.manual_seed(len(name))
        config, self.modules, causal = CASES[name]
        self.causal, name = "both" not in name, name.split(",")[0]
        kind = getattr(
            transformers, f"{name}LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
        )
        bare = getattr(transformers, "Gemma3TextModel" if name == "Gemma3" else f"{name}Model")
        whole = kind(kind.config_class(**config))
        drawn(whole).save_pretrained(folder)
        if not causal:
            drawn(bare.from_pretrained(folder)).save_pretrained(folder)
        self.model, self.folder = bare.from_pretrained(folder).eval(), folder
        self.dense = torch.nn.Linear(WIDTH, self.modules.get("dense", 1))
        widths = (WIDTH, *self.modules.get("denses", ()))  # without biases and activations
        self.denses = [torch.nn.Linear(*pair, bias=False) for pair in zip(widths, widths[1:])]
        self._write_modules()
        self._write_tokenizer()

    def _write_modules(self) -> None:
        from safetensors.torch import save_file

        kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
        if "dense" in self.modules:
            kinds.append(("Dense", "2_Dense"))
            weights = {f"linear.{n}": p.detach() for n, p in self.dense.named_parameters()}
            config = {
                "in_features": WIDTH,
                "out_features": self.modules["dense"],
                "bias": True,
                "activation_function": "torch.nn.modules.activation.Tanh",
            }
            self._put("2_Dense/config.json", config)
            save_file(weights, self.folder / "2_Dense" / "model.safetensors")
        for i, dense in enumerate(self.denses, 2):
            kinds.append(("Dense", f"{i}_Dense"))
            config = {"in_features": dense.in_features, "out_features": dense.out_features}
            config |= {"bias": False, "activation_function": "torch.nn.modules.linear.Identity"}
            self._put(f"{i}_Dense/config.json", config)
            weights = {"linear.weight": dense.weight.detach()}
            save_file(weights, self.folder / f"{i}_Dense" / "model.safetensors")
        if self.modules.get("normalize", True):
            kinds.append(("Normalize", f"{len(kinds)}_Normalize"))
        self._put(
            "modules.json",
            [
                {
                    "idx": i,
                    "name": str(i),
                    "path": path,
                    "type": f"sentence_transformers.models.{kind}",
                }
                for i, (kind, path) in enumerate(kinds)
            ],
        )
        mode = self.modules.get("pooling", "lasttoken")
        modes = {f"pooling_mode_{m}": m == mode for m in ("cls_token", "mean_tokens", "lasttoken")}
        self._put(
            "1_Pooling/config.json",
            {"word_embedding_dimension": WIDTH, **modes, "include_prompt": True},
        )
        self._put(
            "config_sentence_transformers.json",
            {"prompts": {"query": "find c: ", "document": ""}, "default_prompt_name": None},
        )

        self._put("sentence_bert_config.json", {"max_seq_length": CUT, "do_lower_case": False})

    def _write_tokenizer(self) -> None:
        """Bytes, and an end token that the post-processor appends."""
        letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())[: VOCABULARY - 4]
        vocabulary = {letter: i + 4 for i, letter in enumerate(letters)}
        vocabulary |= {"<unk>": 0, "<pad>": 1, "<s>": 2, "</s>": EOS}
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = tokenizers.decoders.ByteLevel()
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", EOS)]
        )
        fast = transformers.PreTrainedTokenizerFast(
            tokenizer_object=made,
            eos_token="</s>",
            pad_token="<pad>",
            padding_side="left",
            model_input_names=["input_ids", "attention_mask"],  # no segments, as GPT-2's
        )
        fast.save_pretrained(self.folder)

    def _put(self, name: str, value: object) -> None:
        (self.folder / name).parent.mkdir(exist_ok=True)
        write_json(self.folder / name, value)

    def vector(self, ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            hidden = self.model(torch.tensor([ids])).last_hidden_state[0]
            mean = self.modules.get("pooling") == "mean_tokens"
            x = hidden.mean(0) if mean else hidden[-1]
            for dense in self.denses:
                x = dense(x)
            if "dense" in self.modules:
                x = torch.tanh(self.dense(x))
            if self.modules.get("normalize", True):
                x = torch.nn.functional.normalize(x, dim=0)
        return x.numpy()


@pytest.fixture(scope="module", params=CASES)
def embedder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedder")
    (folder / "source").mkdir()
    made = Embedder(request.param, folder / "source")
    model, sections = read_source(folder / "source")
    made.path = folder / "m.phasor"
    convert.convert(model, made.path, F32, sections, None, quiet=True)
    return made


def relative(a: np.ndarray, b: np.ndarray) -> float:
    assert a.shape == b.shape
    return float(np.abs(a - b).max() / np.abs(b).max())


def texts() -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [rng.integers(4, VOCABULARY, n).tolist() for n in (1, 2, 16, 17, LONGEST)]


def test_the_file_says_what_it_is(embedder):
    file = PhasorFile(embedder.path)
    d = file.descriptor
    assert d["model"]["stack"] == D.ENCODER and d["source"]["suffix"] == [EOS]
    assert all(kind["causal"] == embedder.causal for kind in d["kinds"])
    assert d["output"]["output"] == D.POOLED
    assert d["source"]["longest_text"] == CUT
    assert d["output"]["prompts"].startswith("\x1f\x1e") and "find c: " in d["output"]["prompts"]


def test_the_vectors(embedder, phasor, tmp_path):
    """The reference's and the program's; several lines go through it side by side."""
    reference = Reference(PhasorFile(embedder.path))
    for ids in texts():
        theirs = embedder.vector(ids)
        ours = reference.output(reference.encode(np.array(ids)))
        assert relative(ours.reshape(theirs.shape), theirs) < TOLERANCE
        words = ["embed", embedder.path, "--ids", ids_text(ids), "--quiet", "--npy"]
        told(phasor, *words, tmp_path / "v.npy")
        assert relative(np.load(tmp_path / "v.npy").reshape(theirs.shape), theirs) < TOLERANCE


LINES = ["c", "cab de", "a longer bit 12", "c"]


def by_program(
    phasor: Path, embedder: Embedder, folder: Path, *more: str, lines: list[str] = LINES
) -> np.ndarray:
    words = ["embed", embedder.path, "--npy", folder / "l.npy", "--quiet", *more]
    text = "".join(f"{line}\n" for line in lines)
    told(phasor, *words, stdin=text)
    return np.load(folder / "l.npy")


def test_lines_get_the_prompt_and_the_end_token(embedder, phasor, tmp_path):
    own = transformers.AutoTokenizer.from_pretrained(embedder.folder)
    for prompt in "", "find c: ":
        more = ("--prompt", "query") if prompt else ()
        ours = by_program(phasor, embedder, tmp_path, *more)
        for line, vector in zip(LINES, ours):
            ids = own(prompt + line)["input_ids"]
            assert ids[-1] == EOS
            assert relative(vector, embedder.vector(ids)) < TOLERANCE


def test_beside_sentence_transformers(embedder, phasor, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    model = library.SentenceTransformer(str(embedder.folder), device="cpu")
    long = ["abc " * 20, "c", "a bcd efg " * 9]
    theirs = model.encode(long, batch_size=1)
    for a, b in zip(by_program(phasor, embedder, tmp_path, "--truncate", lines=long), theirs):
        assert relative(a, b) < TOLERANCE
    for name in (None, "query"):
        # One line at a time: what is padded on the left has other learned positions (GPT-2).
        theirs = model.encode(LINES, prompt_name=name, batch_size=1)
        ours = by_program(phasor, embedder, tmp_path, *(("--prompt", name) if name else ()))
        for a, b in zip(ours, theirs, strict=True):
            assert relative(a, b) < TOLERANCE
