"""Directories of an EncoderDecoderModel, and of its decoder alone: what the converter takes from
them and what it refuses, without the library that saves them (test_families_translators.py and
test_states.py of tests/reference compare with it)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import translators as T
from conversions import contents, convert_to, refused
from phasor.errors import Problems
from phasor.format import descriptor as D
from phasor.format.file import PhasorFile
from phasor.format.layout import PhasorError
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from places import told

BERT = T.joined_configuration()["encoder"]
_TIED = "tie_encoder_decoder"
DECODER = T.joined_configuration()["decoder"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "ab", "##a", "##b"]
FILES = {
    "vocab.txt": "\n".join(WORDS).encode(),
    "tokenizer_config.json": json.dumps({"tokenizer_class": "BertTokenizer"}).encode(),
}


def converted(folder: Path, *flags: str) -> Path:
    return convert_to(folder, folder.with_suffix(".phasor"), *flags)


def test_it_converts_and_replays_its_vectors(tmp_path, phasor):
    path = converted(T.write_joined(tmp_path / "m"), "--phasor", str(phasor))
    told(phasor, "verify", path)
    d = PhasorFile(path).descriptor
    assert d["target"]["decoder_start"] == 3 and d["output"]["head_norm"]
    assert [kind["cross"] for kind in d["kinds"]] == [0, 1]


@pytest.mark.parametrize("kind", ["q8", "q4"])
def test_a_type_of_weights_replays_its_vectors(kind, tmp_path, phasor):
    folder = T.write_joined(tmp_path / "m")
    path = converted(folder, "--type", kind, "--phasor", str(phasor))
    told(phasor, "verify", path)


def test_a_tensor_too_few_or_too_many_is_refused(tmp_path):
    folder, whole = T.write_joined(tmp_path / "m"), T.joined_tensors()
    for name in whole:
        save_file({k: v for k, v in whole.items() if k != name}, folder / "model.safetensors")
        with pytest.raises(PhasorError, match="missing"):
            model, _ = read_source(folder)
            raise Problems(model.problems())
    save_file({**whole, "more": np.zeros(3, "<f4")}, folder / "model.safetensors")
    model, _ = read_source(folder)
    assert model.problems() == ["left over: more (3) has no use in this model"]


def test_a_projection_between_widths_is_in_the_keys_and_values(tmp_path):
    folder, wide, whole = T.write_joined(tmp_path / "m"), 2 * T.WIDTH, T.joined_tensors()
    plain = Reference(PhasorFile(converted(folder)))
    rng = np.random.default_rng(7)
    bridge = rng.normal(0, 0.3, (T.WIDTH, wide)).astype("<f4")
    offset = rng.normal(0, 0.3, T.WIDTH).astype("<f4")
    shapes = {
        name: tuple(wide if n == T.WIDTH else n for n in value.shape)
        for name, value in whole.items()
        if name.startswith("encoder.")
    }
    shapes["encoder.embeddings.position_embeddings.weight"] = (T.POSITIONS, wide)
    more = {n: rng.normal("Norm.w" in n, 0.3, s).astype("<f4") for n, s in shapes.items()}
    names = {"enc_to_dec_proj.weight": bridge, "enc_to_dec_proj.bias": offset}
    T.write_joined(folder, encoder={**BERT, "hidden_size": wide})
    save_file({**whole, **more, **names}, folder / "model.safetensors")
    bridged = Reference(PhasorFile(converted(folder)))
    ids, target = [5, 9, 4], [3, 7, 8]
    memory = bridged.encode(ids).output
    ours = bridged.decode(target, memory).logits
    theirs = plain.decode(target, memory @ bridge.T + offset).logits
    assert np.abs(ours - theirs).max() < 1e-5 * np.ptp(theirs)
    for name, line in ("weight", "missing"), ("bias", "missing"):
        left = {
            k: v for k, v in {**whole, **more, **names}.items() if not k.endswith("proj." + name)
        }
        save_file(left, folder / "model.safetensors")
        with pytest.raises(PhasorError, match=f"{line}: enc_to_dec_proj.{name}"):
            read_source(folder)
    save_file(
        {**whole, **more, **names, "enc_to_dec_proj.bias": bridge}, folder / "model.safetensors"
    )
    with pytest.raises(PhasorError, match="misshapen: enc_to_dec_proj.bias"):
        read_source(folder)


@pytest.mark.parametrize("kept", ["encoder", "decoder", "both", "mixed"])
def test_one_stack_for_both(kept, tmp_path):
    """The file is that of two stacks with the same weights, whichever names are there."""
    pair, whole = ("encoder.", "decoder.bert."), T.joined_tensors()
    own = {n.removeprefix(pair[0]): t for n, t in whole.items() if n.startswith(pair[0])}
    whole |= {pair[1] + name: tensor for name, tensor in own.items()}
    folder = T.write_joined(tmp_path / "m")
    save_file(whole, folder / "model.safetensors")
    want = contents(converted(folder))
    T.write_joined(folder, tie_encoder_decoder=True, decoder={**DECODER, _TIED: True})
    for i, name in enumerate(sorted(own)):
        if kept != "both":
            del whole[pair[i % 2 if kept == "mixed" else kept == "encoder"] + name]
    save_file(whole, folder / "model.safetensors")
    assert contents(converted(folder)) == want
    if kept == "both":
        whole["encoder.embeddings.LayerNorm.weight"] = np.zeros(T.WIDTH, "<f4")
        line = "decoder.bert.embeddings.LayerNorm.weight differs from encoder.embeddings.Layer"
    else:
        whole = {n: t for n, t in whole.items() if not n.endswith("layer.1.output.dense.weight")}
        line = "missing: .*encoder.layer.1.output.dense.weight"
    save_file(whole, folder / "model.safetensors")
    with pytest.raises(PhasorError, match=line):
        model, _ = read_source(folder)
        raise Problems(model.problems())


def test_one_stack_without_cross_attention_is_refused(tmp_path):
    folder = T.write_joined(tmp_path / "m", tie_encoder_decoder=True)
    shared = {n: t for n, t in T.joined_tensors().items() if not n.startswith("decoder.bert.e")}
    save_file(shared, folder / "model.safetensors")
    model, _ = read_source(folder)
    assert all("crossattention" in line for line in model.problems()) and model.problems()


@pytest.mark.parametrize(
    "more, line",
    [
        ({"encoder": None}, "encoder: missing, the configuration of the encoder"),
        ({"decoder": [1]}, "decoder: [1], expected a table"),
        ({"encoder": {}}, "encoder.model_type: None, expected the name of a family"),
        (
            {"encoder": {**BERT, "model_type": "vit"}},
            "encoder.model_type: 'vit' is not supported here",
        ),
        ({"decoder": {**DECODER, "model_type": "llama"}}, "is not supported with cross-attention"),
        (
            {"decoder": {**DECODER, "is_decoder": False}},
            "decoder.is_decoder: False is not supported",
        ),
        (
            {"decoder": {**DECODER, "add_cross_attention": False}},
            "decoder.add_cross_attention: False is not supported",
        ),
        ({"encoder": {**BERT, "is_decoder": True}}, "encoder.is_decoder: True is not supported"),
        (
            {"tie_encoder_decoder": True, "encoder": {**BERT, "model_type": "roberta"}},
            "tie_encoder_decoder: true is not supported of 'roberta' and 'bert'",
        ),
        ({"tie_encoder_decoder": "yes"}, "tie_encoder_decoder: 'yes', expected"),
        (  # whose code adds the table of positions too
            {
                "encoder": {
                    **BERT,
                    "model_type": "bert-generation",
                    "position_embedding_type": "relative_key",
                }
            },
            "encoder.position_embedding_type: 'relative_key' is not supported",
        ),
        (
            {_TIED: True, **dict.fromkeys(("encoder", "decoder"), {**BERT, "model_type": "gpt2"})},
            "encoder.model_type: 'gpt2' is not supported here",
        ),
        (
            {"decoder": {**DECODER, "position_embedding_type": "relative_key"}},
            "decoder.position_embedding_type: 'relative_key' is not supported",
        ),
        ({"decoder": {**DECODER, "something_new": 3}}, "decoder.something_new: not known"),
        ({"something_new": 3}, "something_new: not known for EncoderDecoderModel"),
        ({"decoder_start_token_id": None}, "decoder_start_token_id: is missing"),
        ({"decoder": {**DECODER, "num_attention_heads": 3}}, "decoder.num_attention_heads: 3 does"),
        ({"architectures": ["EncoderDecoder"]}, "expected EncoderDecoderModel"),
        (
            {"decoder": {**DECODER, "model_type": "roberta"}, "decoder_start_token_id": 1},
            "1 is the pad too, which roberta gives no position",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_another_configuration_is_refused(more, line, tmp_path, capsys):
    folder = T.write_joined(tmp_path / "m", **more)
    if more.get("decoder_start_token_id") == 1:  # its names begin with roberta
        held = load_file(folder / "model.safetensors")
        new = {name.replace("r.bert.", "r.roberta."): t for name, t in held.items()}
        save_file(new, folder / "model.safetensors")
    assert line in refused(folder, tmp_path / "o", capsys)


def test_an_adapter_is_refused(tmp_path, capsys):
    folder = T.write_joined(tmp_path / "m")
    line = refused(folder, tmp_path / "o", capsys, "--lora", folder)
    assert "--lora: EncoderDecoderModel with an adapter" in line


def test_one_tokenizer_is_that_of_both_sides(tmp_path, phasor):
    path = converted(T.write_joined(tmp_path / "m", FILES), "--phasor", str(phasor))
    d = PhasorFile(path).descriptor
    assert d["source"]["tokenizer"] == d["target"]["tokenizer"] == 3
    argv = [phasor, "tokenize", path, "--print-ids"]
    done = told(*argv, stdin="ab a\n")
    assert done == "2,7,5,3\n"


def test_a_decoder_of_another_vocabulary_gives_ids(tmp_path):
    d = PhasorFile(converted(two_vocabularies(tmp_path, FILES))).descriptor
    assert (d["source"]["tokenizer"], d["target"]["tokenizer"]) == (3, 0)


BPE = {
    "model": {
        **{"type": "BPE", "dropout": None, "unk_token": None, "ignore_merges": False},
        **{"continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False},
        **{"byte_fallback": False, "merges": [["x", "y"]]},
        "vocab": {"<|endoftext|>": 0, "x": 1, "y": 2, "xy": 3, "Ġ": 4},
    },
    **dict.fromkeys(("version", "truncation", "padding", "normalizer", "post_processor")),
    "added_tokens": [],
    "pre_tokenizer": {
        **{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    },
    "decoder": {
        **{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    },
}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def two_vocabularies(tmp_path: Path, files: dict[str, bytes] | None = None) -> Path:
    folder = T.write_joined(tmp_path / "m", files, decoder={**DECODER, "vocab_size": 23})
    held = load_file(folder / "model.safetensors")
    for name in ("bert.embeddings.word_embeddings.weight", "cls.predictions.bias"):
        held[f"decoder.{name}"] = held[f"decoder.{name}"][:23].copy()
    save_file(held, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("form", ["folder", "vocab.txt"])
def test_a_tokenizer_for_each_side(form, tmp_path, phasor):
    folder = two_vocabularies(tmp_path)
    source = put(tmp_path / "source", FILES)
    target = put(tmp_path / "target", {"tokenizer.json": json.dumps(BPE).encode()})
    first, second = source / ("" if form == "folder" else form), target / "tokenizer.json"
    path = converted(folder, "--tokenizer", str(first), "--tokenizer", str(second))
    d = PhasorFile(path).descriptor
    assert (d["source"]["tokenizer"], d["target"]["tokenizer"]) == (3, 4)
    assert (d["source"]["prefix"], d["source"]["suffix"], d["source"]["mask"]) == ([2], [3], 4)
    assert (d["target"]["prefix"], d["target"]["suffix"], d["target"]["mask"]) == ([], [], None)
    argv = [phasor, "tokenize", path, "--print-ids"]
    done = subprocess.run(argv, input="ab a\n", capture_output=True, text=True, check=True)
    assert done.stdout == "2,7,5,3\n"
    others = ",".join(str(id_) for id_ in range(23) if id_ != 4)
    argv = [phasor, "run", path, "--quiet", "--json", "-n", "4", "--suppress", others, "a"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["text"] == "    "  # what is left of the target's pieces


def test_lists_of_words_and_ids_go_with_it(tmp_path):
    folder = two_vocabularies(tmp_path)
    words = (
        put(tmp_path / "w", {"w.json": json.dumps(["a", "model", "c", "d"]).encode()}) / "w.json"
    )
    for given, numbers in (
        ([words, "none"], (3, 0)),
        (["none", words], (0, 4)),
        ([words, words], (3, 3)),
        (["none"], (0, 0)),
    ):
        flags = [flag for one in given for flag in ("--tokenizer", str(one))]
        d = PhasorFile(converted(folder, *flags)).descriptor
        assert (d["source"]["tokenizer"], d["target"]["tokenizer"]) == numbers


def test_one_given_for_one_vocabulary(tmp_path):
    given = put(tmp_path / "t", FILES)
    path = converted(T.write_joined(tmp_path / "m"), "--tokenizer", str(given))
    d = PhasorFile(path).descriptor
    assert d["source"]["tokenizer"] == d["target"]["tokenizer"] == 3
    assert d["source"]["prefix"] == [2]
    path = converted(T.write_alone(tmp_path / "a"), "--tokenizer", str(given))
    d = PhasorFile(path).descriptor
    assert (d["source"]["tokenizer"], d["target"]["tokenizer"]) == (0, 4)


def test_what_does_not_go_with_a_tokenizer_given(tmp_path, capsys):
    folder, given = two_vocabularies(tmp_path), put(tmp_path / "t", FILES)
    one, both = ["--tokenizer", given], ["--tokenizer", given] * 2

    def refusal(*flags: object) -> str:
        return refused(folder, tmp_path / "o", capsys, *flags)

    assert "give one for the source, then one for the target" in refusal(*one)
    assert "3 files, the model has 2 sides" in refusal(*one, *both)
    assert "no/x: there is no such file" in refusal(*one, "--tokenizer", "no/x")
    said = refusal(*both, "--target-lang", "de")
    assert "--target-lang: the tokenizer has no languages" in said
    said = refusal(*one, "--tokenizer", "none", "--source-lang", "de")
    assert "--source-lang: " in said and "one tokenizer.json or directory for both" in said
    words = put(tmp_path / "w", {"w.txt": b"a\nb"}) / "w.txt"
    said = refusal(*["--tokenizer", words] * 2, "--source-lang", "de")
    assert "--source-lang: " in said and "one tokenizer.json or directory for both" in said
    empty = put(tmp_path / "empty", {})
    assert f"{empty}: the directory has no tokenizer (--tokenizer none" in refusal(
        *one, "--tokenizer", empty
    )
    spm = put(tmp_path / "x", {"sentencepiece.bpe.model": b""}) / "sentencepiece.bpe.model"
    assert "give its directory" in refusal(*one, "--tokenizer", spm)
    many = put(tmp_path / "many", {"vocab.txt": "\n".join([*WORDS, *"cdefghijklmno"]).encode()})
    path = put(many, {"tokenizer_config.json": FILES["tokenizer_config.json"]})
    assert read_source(folder, [path, path])  # 23 pieces
    said = FILES["vocab.txt"] + "\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no\np".encode()
    put(many, {"vocab.txt": said})
    assert f"{many}: has 24 pieces, the target embedding has 23 rows" in refusal(
        *["--tokenizer", many] * 2
    )
    alone = T.write_alone(tmp_path / "a")
    assert "2 files, the model has 1 side" in refused(alone, tmp_path / "o", capsys, *both)


def test_a_directory_says_which_flag_to_give(tmp_path, capsys):
    folder = two_vocabularies(tmp_path, FILES)
    model, _ = read_source(folder)
    assert any("the output is ids: --tokenizer with" in note for note in model.notes)
    model, _ = read_source(T.write_joined(tmp_path / "one", FILES))
    assert not any("--tokenizer" in note for note in model.notes)
    for name in FILES:
        (folder / name).unlink()
    put(folder / "encoder", FILES), put(folder / "decoder", {"tokenizer.json": b"{}"})
    said = refused(folder, tmp_path / "o", capsys)
    assert "no tokenizer is there, but in decoder, encoder: give those, --tokenizer S" in said


def test_a_folder_beside_the_model_that_cannot_be_looked_into(tmp_path, monkeypatch):
    folder, stat = T.write_joined(tmp_path / "m"), os.stat
    (folder / "lost+found").mkdir()

    def refuses(path, **more):
        if "lost+found/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", refuses)
    model, sections = read_source(folder)
    assert sections == {} and model.problems() == []


def test_the_tokenizer_of_the_decoder_is_not_the_sources(tmp_path, capsys):
    said = json.dumps({"tokenizer_class": "RobertaTokenizer"}).encode()
    files = {"tokenizer.json": json.dumps(BPE).encode(), "tokenizer_config.json": said}
    folder = T.write_joined(tmp_path / "m", files, decoder={**DECODER, "model_type": "roberta"})
    held = load_file(folder / "model.safetensors")
    names = {"cls.predictions.transform.": "lm_head.", "bert.": "roberta.", "cls.predictions.": ""}
    new = {}
    for name, tensor in held.items():
        for old, to in names.items() if name.startswith("decoder.") else ():
            name = name.replace(f"decoder.{old}", f"decoder.{to}")
        new[name.replace("lm_head.LayerNorm", "lm_head.layer_norm")] = tensor
    new["decoder.lm_head.bias"] = new.pop("decoder.bias")
    save_file(new, folder / "model.safetensors")
    line = "RobertaTokenizer is that of the decoder: give --tokenizer with the encoder's"
    assert line in refused(folder, tmp_path / "o", capsys)


# ---- A decoder alone


def test_a_decoder_alone_takes_states(tmp_path, phasor):
    path = converted(T.write_alone(tmp_path / "m", FILES), "--phasor", str(phasor))
    told(phasor, "verify", path)
    model, _ = read_source(tmp_path / "m")
    assert any("--embeddings FILE.npy" in note for note in model.notes)
    d = PhasorFile(path).descriptor
    assert (d["source"]["tokenizer"], d["target"]["tokenizer"]) == (0, 4)
    assert d["target"]["embedding_shared"] and d["encoder"]["layers"] == [0, 0]
    assert [kind["cross"] for kind in d["kinds"]] == [0, 1]
    assert d["target"]["decoder_start"] == 3 and not d["source"]["suffix"]
    states = np.random.default_rng(3).normal(0, 1, (5, T.WIDTH)).astype("<f4")
    np.save(tmp_path / "s.npy", states)
    argv = [phasor, "run", path, "--quiet", "-n", "6", "--embeddings", tmp_path / "s.npy"]
    ids = told(*argv, "--print-ids")
    model = Reference(PhasorFile(path))
    want = [3]
    while len(want) < 7 and want[-1] != 2 or len(want) == 1:
        want.append(int(model.decode(want, states.astype("<f8")).logits[-1].argmax()))
    assert [int(i) for i in ids.split(",")] == want[1:]
    assert subprocess.run(argv, capture_output=True, check=True).stdout.strip()  # text


def test_a_source_of_a_decoder_alone_is_no_text(tmp_path, phasor):
    path = converted(T.write_alone(tmp_path / "m", FILES))
    for more in ["ab"], ["ab", "--beam", "2"]:
        done = subprocess.run([phasor, "run", path, *more], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert "the model has no tokenizer for this side: give ids" in done.stderr


@pytest.mark.parametrize(
    "flags",
    [["--lora", "."], ["--rope-context", "4"], ["--target-lang", "en"]],
    ids=lambda flags: flags[0],
)
def test_a_flag_that_a_decoder_alone_has_not(flags, tmp_path, capsys):
    folder = T.write_alone(tmp_path / "m", FILES)
    assert flags[0] in refused(folder, tmp_path / "o", capsys, *flags)


@pytest.mark.parametrize(
    "more, line",
    [
        ({"is_decoder": False}, "is_decoder: False is not supported"),
        ({"bos_token_id": None}, "decoder_start_token_id: is missing, and so is bos_token_id"),
        ({"something_new": 3}, "something_new: not known"),
        *(
            (
                {"position_embedding_type": "relative_key", "add_cross_attention": crosses},
                "position_embedding_type: 'relative_key' is not supported, expected 'absolute'",
            )
            for crosses in (True, False)
        ),
        ({"architectures": ["BertModel"]}, "is_decoder: True is not supported"),
    ],
)
def test_what_is_no_decoder_alone(more, line, tmp_path):
    folder = T.write_alone(tmp_path / "m", **more)
    with pytest.raises(PhasorError, match=line):
        read_source(folder)


def test_without_cross_attention_it_is_a_language_model(tmp_path, capsys):
    folder, whole = T.write_alone(tmp_path / "m", add_cross_attention=False), T.alone_tensors()
    model, _ = read_source(folder)
    assert "left over" in str(Problems(model.problems()))
    own = {name: value for name, value in whole.items() if "crossattention" not in name}
    save_file(own, folder / "model.safetensors")
    model, _ = read_source(folder)
    assert model.descriptor["model"]["stack"] == D.DECODER and not model.problems()
    assert not any(kind["cross"] for kind in model.descriptor["kinds"])
    assert "--lora" in refused(folder, tmp_path / "o", capsys, "--lora", ".")


def test_a_decoder_alone_lacks_a_tensor(tmp_path):
    folder, whole = T.write_alone(tmp_path / "m"), T.alone_tensors()
    for name in whole:
        save_file({k: v for k, v in whole.items() if k != name}, folder / "model.safetensors")
        with pytest.raises(PhasorError, match="missing"):
            model, _ = read_source(folder)
            raise Problems(model.problems())
