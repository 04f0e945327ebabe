"""Marian's .npz beside transformers' MarianMTModel with the same weights, and beside CTranslate2's
own conversion of the file where that package is installed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import test_tokenizer_listed as translators
import torch
import transformers
from test_tokenizer import driver  # noqa: F401

from conversions import convert_to
from marian_model import HIDDEN, LAYERS, ROWS, WIDTH, Model
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference

SOURCE, TARGET = [5, 9, 2, 22, 0], [7, 7, 3, 12, 0]


def reference(model: Model, folder) -> Reference:
    (folder / "m.npz").write_bytes(model.bytes())
    return Reference(PhasorFile(convert_to(folder / "m.npz", folder / "m.phasor")))


def log_probabilities(model: Reference) -> np.ndarray:
    """Of the target's words, the row of zeros left out."""
    encoded = model.encode(np.array(SOURCE))
    logits = model.decode(np.array([ROWS, *TARGET[:-1]]), encoded.output).logits[:, :ROWS]
    return torch.log_softmax(torch.from_numpy(np.array(logits, np.float64)), -1).numpy()


def transformers_model(model: Model) -> transformers.MarianMTModel:
    """The same weights; the row behind the words is zeros, as in OPUS-MT's conversions."""
    config = transformers.MarianConfig(
        vocab_size=ROWS + 1,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        max_position_embeddings=64,
        pad_token_id=ROWS,
        decoder_start_token_id=ROWS,
        eos_token_id=0,
        activation_function="swish",
        scale_embedding=True,
    )
    made = transformers.MarianMTModel(config).double().eval()
    state = made.state_dict()
    names = {
        "self_attn.q_proj": "self_{}q",
        "self_attn.k_proj": "self_{}k",
        "self_attn.v_proj": "self_{}v",
        "self_attn.out_proj": "self_{}o",
        "encoder_attn.q_proj": "context_{}q",
        "encoder_attn.k_proj": "context_{}k",
        "encoder_attn.v_proj": "context_{}v",
        "encoder_attn.out_proj": "context_{}o",
        "fc1": "ffn_{}1",
        "fc2": "ffn_{}2",
    }
    norms = {
        "self_attn_layer_norm": "self_Wo",
        "encoder_attn_layer_norm": "context_Wo",
        "final_layer_norm": "ffn_ffn",
    }

    def put(name: str, array: np.ndarray) -> None:
        state[name].copy_(torch.from_numpy(np.ascontiguousarray(array)))

    for stack in ("encoder", "decoder"):
        for i in range(LAYERS):
            own, theirs = f"{stack}_l{i + 1}_", f"model.{stack}.layers.{i}."
            for module, name in names.items():
                if stack == "encoder" and "encoder_attn" in module:
                    continue
                put(f"{theirs}{module}.weight", model.arrays[own + name.format("W")].T)
                put(f"{theirs}{module}.bias", model.arrays[own + name.format("b")][0])
            for module, name in norms.items():
                if stack == "encoder" and "encoder_attn" in module:
                    continue
                put(f"{theirs}{module}.weight", model.arrays[f"{own}{name}_ln_scale"][0])
                put(f"{theirs}{module}.bias", model.arrays[f"{own}{name}_ln_bias"][0])
    put("model.shared.weight", np.pad(model.arrays["Wemb"], ((0, 1), (0, 0))))
    put("final_logits_bias", np.pad(model.arrays["decoder_ff_logit_out_b"], ((0, 0), (0, 1))))
    made.load_state_dict(state)
    for module in made.modules():  # Marian's own epsilon
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    return made


def test_transformers_with_the_same_weights(tmp_path):
    model = Model()
    found = log_probabilities(reference(model, tmp_path))
    theirs = transformers_model(model)
    with torch.no_grad():
        logits = theirs(
            input_ids=torch.tensor([SOURCE]),
            decoder_input_ids=torch.tensor([[ROWS, *TARGET[:-1]]]),
        ).logits[0, :, :ROWS]
    wanted = torch.log_softmax(logits.double(), -1).numpy()
    assert np.abs(found - wanted).max() < 1e-5


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_what_ctranslate2_makes_of_the_file(before, tied, tmp_path):
    """Its epsilon is 1e-5."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    from ctranslate2.converters import MarianConverter

    model = Model(before, tied)
    found = log_probabilities(reference(model, tmp_path))
    words = ["</s>", "<unk>", *(f"w{i}" for i in range(2, ROWS))]
    vocabulary = tmp_path / "vocab.yml"
    vocabulary.write_text("".join(f"{word}: {i}\n" for i, word in enumerate(words)))
    converter = MarianConverter(str(tmp_path / "m.npz"), [str(vocabulary)] * 2)
    converter.convert(str(tmp_path / "ct2"))
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), compute_type="float32")
    source = [words[i] for i in SOURCE[:-1]]
    scores = translator.score_batch([source], [[words[i] for i in TARGET[:-1]]])[0]
    mine = [found[i, id_] for i, id_ in enumerate(TARGET)]
    assert np.abs(np.array(scores.log_probs) - mine).max() < 1e-4


# ---- A .spm with the vocabulary of OPUS-MT beside it


def vocabulary_file(pieces: list[str]) -> str:
    """As PyYAML writes such a table."""
    yaml = pytest.importorskip("yaml")
    table = {piece: id_ for id_, piece in enumerate(pieces)}
    return yaml.safe_dump(table, allow_unicode=True, sort_keys=False, width=10**9)


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_ids_of_a_zip_of_opus_mt(side, tmp_path, driver):  # noqa: F811
    """Beside MarianTokenizer with the same pieces, which has <pad> behind them: 2,000 texts."""
    some = translators.pairs()
    found: dict[str, None] = {}
    for name, column, size in (("source", 1, 2300), ("target", 0, 700)):
        lines = [pair[column] for pair in some[::9]]
        found.update(
            dict.fromkeys(translators.train(tmp_path / f"{name}.spm", lines, size, "unigram"))
        )
    kept = [piece for i, piece in enumerate(found) if i % 31]
    pieces = ["</s>", "<unk>", *kept[:400], ">>eng<<", ">>cmn_Hans<<", *kept[400:]]
    (tmp_path / "opus.spm32k-spm32k.vocab.yml").write_text(vocabulary_file(pieces))
    ids = {piece: id_ for id_, piece in enumerate([*pieces, "<pad>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    files = (str(tmp_path / name) for name in ("source.spm", "target.spm", "vocab.json"))
    tokenizer = transformers.MarianTokenizer(*files)
    model = Model()
    rng = np.random.default_rng(2)
    model.arrays["Wemb"] = rng.normal(0, 0.4, (len(pieces), WIDTH)).astype(np.float32)
    model.arrays["decoder_ff_logit_out_b"] = np.zeros((1, len(pieces)), np.float32)
    (tmp_path / "m.npz").write_bytes(model.bytes())
    given = [str(tmp_path / f"{name}.spm") for name in ("source", "target")]
    flags = ["--type", "q8", "--tokenizer", given[0], "--tokenizer", given[1]]
    file = PhasorFile(convert_to(tmp_path / "m.npz", tmp_path / "m.phasor", *flags))
    lines = [line for line in translators.texts() if "<pad>" not in line]
    assert len(lines) > 2000
    section = bytes(file.section(file.descriptor[side]["tokenizer"]))
    key = "text_target" if side == "target" else "text"
    translators.compare(driver, section, tokenizer, lines, keys=[key])
