"""Directories of encoder-decoders: what the converter takes from them and what it refuses, their
tokenizers and languages, without the library that saves them (tests/reference compares with it)."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import translators as T
from conversions import convert_to, problems, refused
from phasor import convert
from phasor.errors import Problems
from phasor.families.encoder_decoders import FAMILIES
from phasor.families.stack import STACKS
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.file import PhasorFile
from phasor.format.layout import PhasorError
from phasor.reference.forward import Reference
from phasor.sources.find import read_source
from phasor.sources.hugging_face import around, tokenizer_json
from phasor.tokenizers.section import read_section
from places import told
from texts import write_json


def converted(folder: Path, *flags: str) -> Path:
    return convert_to(folder, folder.with_suffix(".phasor"), *flags)


APART = ("t5gemma", "fsmt")  # whose sides have embeddings of their own


@pytest.mark.parametrize("kind", [kind for f in FAMILIES for kind in f.types])
def test_every_family_converts_and_replays_its_vectors(kind, tmp_path, phasor):
    path = converted(T.write(tmp_path / "m", kind), "--phasor", str(phasor))
    told(phasor, "verify", path)
    d = PhasorFile(path).descriptor
    shared = int(kind not in APART)
    assert (d["target"]["embedding_shared"], d["target"]["decoder_start"]) == (shared, 3)


@pytest.mark.parametrize("kind", [kind for f in FAMILIES for kind in f.types])
def test_a_tensor_too_few_or_too_many_is_refused(kind, tmp_path):
    folder, whole = T.write(tmp_path / "m", kind), T.tensors(kind)
    for name in whole:
        if name != "final_logits_bias":  # old files have none
            save_file({k: v for k, v in whole.items() if k != name}, folder / "model.safetensors")
            with pytest.raises(PhasorError):
                model, _ = read_source(folder)
                raise Problems(model.problems())
    save_file({**whole, "more": np.zeros(3, "<f4")}, folder / "model.safetensors")
    model, _ = read_source(folder)
    assert model.problems() == ["left over: more (3) has no use in this model"]


# ---- The encoder alone


@pytest.mark.parametrize("kind", ["t5", "mt5", "umt5"])
def test_an_encoder_alone_is_that_of_the_whole_model(kind, tmp_path, phasor):
    """Of a whole checkpoint, what the class of the encoder has: hidden states are the whole
    model's, and the decoder is noted."""
    whole = PhasorFile(converted(T.write(tmp_path / "whole", kind)))
    name = H_ENCODERS[kind]
    folder = T.write(tmp_path / "m", kind, architectures=[name])
    model, _ = read_source(folder)
    assert any("decoder.final_layer_norm.weight" in note for note in model.notes)
    path = converted(folder, "--phasor", str(phasor))
    ids = [5, 9, 3, 17, 2]
    ours = Reference(PhasorFile(path)).encode(ids).output
    assert np.array_equal(ours, Reference(whole).encode(ids).output)
    assert len(PhasorFile(path).descriptor["kinds"]) == (2 if kind == "umt5" else 1)


H_ENCODERS = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}


def test_a_vector_of_a_directory_that_names_the_whole_class(tmp_path, phasor):
    """sentence-transformers takes the encoder, whatever class the weights were saved from."""
    folder = T.write(tmp_path / "m", "t5")
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense")]
    rows = [
        {"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, at) in enumerate(kinds)
    ]
    write_json(folder / "modules.json", rows)
    said = {"1_Pooling": {"pooling_mode_mean_tokens": True}}
    said["2_Dense"] = {
        "in_features": 16,
        "out_features": 6,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    for name, config in said.items():
        (folder / name).mkdir()
        write_json(folder / name / "config.json", config)
    dense = np.random.default_rng(4).normal(0, 0.3, (6, 16)).astype("<f4")
    save_file({"linear.weight": dense}, folder / "2_Dense" / "model.safetensors")
    path = converted(folder, "--phasor", str(phasor))
    reference = Reference(PhasorFile(path))
    trace = reference.encode([5, 9, 3, 2])
    want = dense.astype(np.float64) @ trace.output.mean(axis=0)
    assert np.allclose(reference.output(trace), want, rtol=1e-12, atol=1e-12)
    assert subprocess.run([phasor, "verify", path], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    "more, line",
    [
        (
            {"relative_attention_num_buckets": 7},
            "7 buckets up to max_distance 12: expected an even",
        ),
        ({"relative_attention_num_buckets": 9}, "encoder.block.0"),
        ({"relative_attention_max_distance": 2}, "8 buckets up to max_distance 2"),
        ({"relative_attention_max_distance": 1 << 23}, "the tables would have more than"),
        (
            {"feed_forward_proj": "gated-gelu"},
            "missing: encoder.block.0.layer.1.DenseReluDense.wi_",
        ),
        ({"feed_forward_proj": "gated"}, "feed_forward_proj: 'gated' is not supported"),
        ({"dense_act_fn": "silu"}, "dense_act_fn: 'silu' is not supported, expected 'relu'"),
        ({"is_gated_act": True}, "is_gated_act: True is not supported"),
        ({"architectures": ["T5ForTokenClassification"]}, "expected T5ForConditionalGeneration"),
    ],
)
def test_an_encoder_alone_that_cannot_be(more, line, tmp_path, capsys):
    folder = T.write(tmp_path / "m", "t5", **{"architectures": ["T5EncoderModel"], **more})
    if more.get("relative_attention_num_buckets") == 7:
        tensors = T.tensors("t5")
        for name in tensors:
            if "relative_attention_bias" in name:
                tensors[name] = tensors[name][:7]
        save_file(tensors, folder / "model.safetensors")
    assert line in problems(folder, tmp_path / "o", capsys)


@pytest.mark.parametrize("kind", ["t5", "umt5", "bart", "marian"])
def test_weights_that_both_stacks_would_share_are_refused_by_their_key(kind, tmp_path, capsys):
    """tie_encoder_decoder has the library take one stack's weights for both, whatever the file
    has."""
    folder = T.write(tmp_path / "m", kind, tie_encoder_decoder=True)
    line = "tie_encoder_decoder: True is not supported, expected False"
    assert line in refused(folder, tmp_path / "o", capsys)


def test_sinusoids_of_an_odd_width_are_refused_by_its_key(tmp_path, capsys):
    heads = {f"{stack}_attention_heads": 3 for stack in STACKS}
    folder = T.write(tmp_path / "m", "marian", d_model=15, **heads)
    line = refused(folder, tmp_path / "o", capsys)
    assert "d_model: 15, expected an even number" in line


@pytest.mark.parametrize("pad", [0, 1, 5])
def test_positions_of_m2m100_begin_behind_the_padding(pad, tmp_path):
    """Position i is row pad + 1 + i of fairseq's sinusoids: sines, then cosines."""
    file = PhasorFile(converted(T.write(tmp_path / "m", "m2m_100", pad_token_id=pad)))
    table = file.weights(R.SOURCE << 24 | R.POSITIONS)
    half = table.shape[1] // 2
    rates = 10000.0 ** (-np.arange(half) / (half - 1))
    angles = (np.arange(len(table))[:, None] + pad + 1) * rates
    assert np.allclose(table, np.hstack([np.sin(angles), np.cos(angles)]), atol=2e-6)


def test_fsmts_output_is_its_embedding_before_transformers_5(tmp_path):
    """From then on it is what the file has."""
    own = np.full((T.ROWS - 3, T.WIDTH), 0.25, "<f4")
    name = "model.decoder.output_projection.weight"
    folder = T.write(tmp_path / "m", "fsmt", transformers_version="5.2.0")
    save_file({**T.tensors("fsmt"), name: own}, folder / "model.safetensors")
    file = PhasorFile(converted(folder))
    assert file.descriptor["output"]["tied"] == D.TIED_OWN
    assert (file.weights(R.OUTPUT << 24 | R.OUTPUT_WEIGHT) == 0.25).all()
    alike = {**T.tensors("fsmt"), name: T.tensors("fsmt")["model.decoder.embed_tokens.weight"]}
    save_file(alike, folder / "model.safetensors")
    assert PhasorFile(converted(folder)).descriptor["output"]["tied"] == D.TIED_TARGET
    T.write(tmp_path / "m", "fsmt")
    save_file({**T.tensors("fsmt"), name: own}, folder / "model.safetensors")
    with pytest.raises(PhasorError, match=f"{name} differs from model.decoder.embed_tokens.weight"):
        read_source(folder)


def test_fsmts_tokenizer_is_refused_with_what_to_do(tmp_path, capsys):
    words = {f"vocab-{side}.json": b'{"a": 0}' for side in ("src", "tgt")}
    files = {**words, "merges.txt": b"#version: 0.2\n", "tokenizer_config.json": b"{}"}
    folder = T.write(tmp_path / "m", "fsmt", files)
    line = refused(folder, tmp_path / "o", capsys)
    assert "FSMTTokenizer" in line and "--tokenizer none" in line
    file = PhasorFile(converted(folder, "--tokenizer", "none"))
    assert not file.descriptor["source"].get("tokenizer")


def marian(tmp_path: Path, files: dict[str, bytes] | None = None, **more: object) -> Path:
    files = T.marian_files() if files is None else files
    return T.write(tmp_path / "m", "marian", files, **{**T.MARIAN_IDS, **more})


def tokens(phasor: Path, path: Path, text: str) -> list[int]:
    done = told(phasor, "tokenize", path, "--print-ids", stdin=text + "\n")
    return [int(i) for i in done.split(",")]


def test_a_pair_of_models_and_their_list(tmp_path, phasor):
    """What the source's model gives by the list's ids; a piece that the list does not have is
    unknown, one that only the target's model has is found where it is the whole of a stretch."""
    path = converted(marian(tmp_path))
    ids = json.loads(T.marian_files()["vocab.json"])
    assert tokens(phasor, path, "ab a") == [ids["▁ab"], ids["▁a"], 0]
    assert tokens(phasor, path, "alostb") == [ids["▁a"], 1, ids["b"], 0]
    assert tokens(phasor, path, "aéa") == [ids["▁a"], ids["é"], ids["a"], 0]
    assert tokens(phasor, path, "aééa") == [ids["▁a"], 1, ids["a"], 0]
    assert tokens(phasor, path, "a<pad>b") == [ids["▁a"], 2, ids["▁"], ids["b"], 0]
    assert tokens(phasor, path, ">>eng<<ab") == [3, ids["▁ab"], 0]
    assert tokens(phasor, path, ">>fra<<ab") == [1, ids["▁ab"], 0]
    d = PhasorFile(path).descriptor
    assert d["source"]["suffix"] == [0] and d["target"]["end"] == [0]
    assert (d["source"]["tokenizer"], d["target"]["tokenizer"]) == (3, 4)
    text = ",".join(str(ids[piece]) for piece in ("▁x", "é", "▁ab", "c"))
    done = subprocess.run(
        [phasor, "tokenize", path, "--decode", "--ids", f"{text},0,2"], capture_output=True
    )
    assert done.stdout.decode() == "xé abc\n"


def test_models_that_are_alike_are_stored_once(tmp_path):
    files = T.marian_files()
    path = converted(marian(tmp_path, {**files, "target.spm": files["source.spm"]}))
    file = PhasorFile(path)
    assert file.descriptor["target"]["tokenizer"] == 3 and 4 not in file.sections


def test_languages(tmp_path, phasor):
    path = converted(marian(tmp_path), "--target-lang", "cmn_Hans")
    assert PhasorFile(path).descriptor["source"]["prefix"] == [4]
    assert tokens(phasor, path, "ab")[0] == 4


@pytest.mark.parametrize(
    "languages, line",
    [
        (("", "fra"), "--target-lang: 'fra' is none of its languages: cmn_Hans eng"),
        (("eng", ""), "--source-lang: the model knows its source's language by itself"),
    ],
)
def test_languages_that_are_not_there(languages, line, tmp_path):
    with pytest.raises(PhasorError, match=line):
        read_source(marian(tmp_path), source_lang=languages[0], target_lang=languages[1])


def test_languages_of_the_program(tmp_path, phasor):
    """Of a file without one, and of one with another."""
    for folder, flags in (("plain", []), ("other", ["--target-lang", "eng"])):
        path = converted(marian(tmp_path / folder), *flags)
        for name, id_ in (("cmn_Hans", 4), ("eng", 3)):
            argv = [phasor, "tokenize", path, "--print-ids", "--target-lang", name]
            done = subprocess.run(argv, input="ab\n", capture_output=True, text=True, check=True)
            assert done.stdout.split(",")[0] == str(id_)
            assert done.stdout.count(",") == len(tokens(phasor, path, "ab")) - bool(flags)
        for how, line in (
            (["--target-lang", "fra"], "--target-lang fra: is none of the model's languages: cmn"),
            (["--source-lang", "eng"], "knows its source's language by itself"),
            (["--target-lang", "eng", "--ids", "1"], "--target-lang: does not go with --ids"),
            (["--prompt", "a"], "--prompt a: the file has no prompts"),
        ):
            done = subprocess.run([phasor, "run", path, *how], capture_output=True, text=True)
            assert done.returncode in (1, 2) and line in done.stderr, done.stderr


@pytest.mark.parametrize("more", [[], ["--beam", "2"], ["--batch", "3"]], ids=["", "beam", "batch"])
def test_bad_lines_and_those_around_them(more, tmp_path, phasor):
    """An empty line, bytes that are no UTF-8, a text that is too long: a line each, and the others
    are translated as alone."""
    path = converted(marian(tmp_path))
    argv = [phasor, "run", path, "--print-ids", "--quiet", "-n", "5", "--source", "6", *more]
    argv += ["--target-lang", "eng"]
    alone = subprocess.run(argv, input=b"ab\n", capture_output=True, check=True).stdout
    lines = [b"ab", b"", b"a\xffb", b"  ", b"c" * 40, b"ab"]
    done = subprocess.run(argv, input=b"\n".join(lines) + b"\n", capture_output=True)
    assert done.returncode == 1 and alone != b"\n"
    assert done.stdout == alone + 4 * b"\n" + alone
    said = done.stderr.decode().splitlines()
    assert len(said) == 2
    assert "line 3: invalid UTF-8 at byte 1" in said[0]
    assert "line 5: " in said[1] and "there is room for 6 (--source" in said[1]


@pytest.mark.parametrize(
    "names, around", [(("ro_RO", "en_XX"), [2, 8]), (("", "ro_RO"), [2, 7])], ids=["both", "target"]
)
def test_mbarts_languages_of_the_program(names, around, tmp_path, phasor):
    """They give what the converter's give, greedily and side by side."""
    files = package_files("MBartTokenizer")
    flags = [f"--{side}-lang={n}" for side, n in zip(("source", "target"), names) if n]
    plain = converted(T.write(tmp_path / "plain", "mbart", files))
    fixed = converted(T.write(tmp_path / "fixed", "mbart", files), *flags)
    argv = ["--print-ids", "--quiet", "-n", "6"]
    for more in [], ["--batch", "2"], ["--beam", "2"], ["--align"]:
        ours, theirs = (
            told(phasor, "run", path, *argv, *more, *own, stdin="ab a\nab\n")
            for path, own in ((plain, flags), (fixed, []))
        )
        assert ours == theirs
    assert tokens(phasor, fixed, "ab a")[-2:] == around


def test_prefixes_of_tasks_are_prompts(tmp_path, phasor):
    tasks = {"sum": {"prefix": "a: ", "num_beams": 3}, "other": {"max_length": 3}, "none": 4}
    more = {**T.T5_IDS, "task_specific_params": tasks}
    path = converted(T.write(tmp_path / "m", "t5", T.t5_files(), **more))
    assert PhasorFile(path).descriptor["output"]["prompts"] == "sum\x1fa: \x1e"
    argv = [phasor, "tokenize", path, "--print-ids", "--prompt", "sum"]
    done = told(*argv, stdin="ab\n")
    assert [int(i) for i in done.split(",")] == tokens(phasor, path, "a: ab")
    for wrong in {"a": {"prefix": "x\n"}}, {"a\x1f": {"prefix": "x"}}, {"a": {"prefix": 3}}, [1]:
        folder = T.write(tmp_path / "m", "t5", **{**more, "task_specific_params": wrong})
        with pytest.raises(PhasorError, match="task_specific_params"):
            read_source(folder)


def test_a_flag_of_languages_goes_with_a_translator(tmp_path, capsys):
    folder = T.write(tmp_path / "m", "marian", **T.MARIAN_IDS)
    (folder / "x.pt").write_bytes(b"")
    done = convert.main([str(folder / "x.pt"), "-o", str(tmp_path / "o"), "--target-lang", "a"])
    line = "--target-lang: goes with a directory of CTranslate2 or a Hugging Face directory"
    assert done == 1 and line in capsys.readouterr().err


# Files of a tokenizer, each with one thing wrong, and what the line says.
def _listed(change) -> bytes:
    ids = json.loads(T.marian_files()["vocab.json"])
    return json.dumps(change(ids)).encode()


HOSTILE = {
    "no source.spm": ({"source.spm": None}, "source.spm: "),
    "no target.spm": ({"target.spm": None}, "target.spm: "),
    "neither model": ({"source.spm": None, "target.spm": None}, "source.spm: "),
    "no list": ({"vocab.json": None}, "vocab.json"),
    "one model alone": ({"source.spm": None, "vocab.json": None}, ": cannot be read"),
    "what is said of it alone": (
        {"source.spm": None, "target.spm": None, "vocab.json": None},
        ": cannot be read",
    ),
    "a list of texts": ({"vocab.json": b'["a"]'}, "vocab.json: "),
    "two texts of one id": (
        {"vocab.json": _listed(lambda ids: {**ids, "more": 3})},
        "have the same id 3",
    ),
    "an id that is no number": (
        {"vocab.json": _listed(lambda ids: {**ids, "more": "3"})},
        "'more' has the id '3'",
    ),
    "an id far away": ({"vocab.json": _listed(lambda ids: {**ids, "more": 1 << 23})}, "'more'"),
    "no end": (
        {"vocab.json": _listed(lambda ids: {k: v for k, v in ids.items() if k != "</s>"})},
        "the special token '</s>' is not there",
    ),
    "more ids than rows": (
        {"vocab.json": _listed(lambda ids: {**ids, **{f"m{i}": 30 + i for i in range(9)}})},
        "the source embedding has 24 rows",
    ),
    "cut off": ({"target.spm": T.marian_files()["target.spm"][:-3]}, "target.spm: "),
    "sampling": (T.marian_files(sp_model_kwargs={"enable_sampling": True}), "sp_model_kwargs"),
    "a token that takes white space": (
        T.marian_files(unk_token={"content": "<unk>", "lstrip": True}),
        "lstrip is not supported",
    ),
    "a token that is no text": (T.marian_files(eos_token=5), "eos_token: 5, expected a text"),
    "another end": (T.marian_files(eos_token="<pad>"), "eos_token_id of the configuration is"),
    "an added token of another id": (
        T.marian_files(added_tokens_decoder={"7": {"content": "<pad>"}}),
        "'<pad>' has the id 7 elsewhere, here 2",
    ),
    "an added token whose id is none": (
        T.marian_files(added_tokens_decoder={"-1": {"content": "new"}}),
        "added_tokens_decoder: '-1', expected an id",
    ),
    "no list of the target's own": (T.marian_files(separate_vocabs=True), "target_vocab.json"),
    "a model of words": ({"source.spm": T.proto(T.CONTROLS, 3)}, "model type word"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tokenizer_with_one_thing_wrong(name, tmp_path, capsys):
    files, line = HOSTILE[name]
    whole = {k: v for k, v in {**T.marian_files(), **files}.items() if v is not None}
    folder = marian(tmp_path, whole)
    assert convert.main([str(folder), "-o", str(tmp_path / "o.phasor"), "--quiet"]) == 1
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1, said
    assert not (tmp_path / "o.phasor").exists()
    assert converted(folder, "--tokenizer", "none").is_file()


def test_a_section_with_a_list_reads_back(tmp_path):
    path = converted(marian(tmp_path))
    file = PhasorFile(path)
    section = read_section(file.section(3))
    ids = json.loads(T.marian_files()["vocab.json"])
    texts = [text.decode() for text, _, _ in section["pieces"][: len(ids)]]
    assert texts == list(ids) and section["extra"] == 1
    assert section["pieces"][-1][0] == b"lost"


# ---- One tokenizer for both sides

UNIGRAM = [["<s>", 0], ["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["▁", -3], ["▁a", -1], ["b", -2]]


def package_files(kind: str) -> dict[str, bytes]:
    """A tokenizer.json of mBART's form, with two languages."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "en_XX", "ro_RO"]
    ids = [*range(4), 7, 8]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    words = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    spec = {
        "added_tokens": [
            {"id": i, "content": name, "special": True, **flags} for i, name in zip(ids, names)
        ],
        "pre_tokenizer": words,
        "decoder": words,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}},
                {"SpecialToken": {"id": "en_XX", "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}},
                {"SpecialToken": {"id": "en_XX", "type_id": 0}},
            ],
            "special_tokens": {
                "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]},
                "en_XX": {"id": "en_XX", "ids": [7], "tokens": ["en_XX"]},
            },
        },
        "model": {"type": "Unigram", "unk_id": 3, "vocab": UNIGRAM},
    }
    config = {"tokenizer_class": kind, "eos_token": "</s>", "pad_token": "<pad>"}
    return {
        "tokenizer.json": json.dumps(spec).encode(),
        "tokenizer_config.json": json.dumps(config).encode(),
    }


@pytest.mark.parametrize(
    "kind, languages, around, first",
    [
        ("MBartTokenizer", ("", ""), ([], [2, 7]), (3, None)),
        ("MBartTokenizer", ("ro_RO", "en_XX"), ([], [2, 8]), (7, None)),
        ("MBart50TokenizerFast", ("ro_RO", "en_XX"), ([8], [2]), (3, 7)),
        ("NllbTokenizer", ("", "ro_RO"), ([], [2, 7]), (3, 8)),
    ],
)
def test_one_tokenizer_with_languages(kind, languages, around, first, tmp_path, phasor):
    folder = T.write(tmp_path / "m", "mbart", package_files(kind))
    flags = [f"--{side}-lang={name}" for side, name in zip(("source", "target"), languages) if name]
    path = converted(folder, *flags)
    d = PhasorFile(path).descriptor
    assert (d["source"]["prefix"], d["source"]["suffix"]) == around
    assert (d["target"]["decoder_start"], d["target"]["forced_first"]) == first
    assert d["source"]["tokenizer"] == d["target"]["tokenizer"] == 3
    before, behind = around
    assert tokens(phasor, path, "ab a") == [*before, 5, 6, 5, *behind]


def test_a_template_without_a_language(tmp_path, phasor):
    """The program does not guess where one goes: the converter knows the tokenizer's class."""
    files = package_files("NllbTokenizer")
    spec = json.loads(files["tokenizer.json"])
    for form in ("single", "pair"):
        del spec["post_processor"][form][-1]
    del spec["post_processor"]["special_tokens"]["en_XX"]
    files["tokenizer.json"] = json.dumps(spec).encode()
    folder = T.write(tmp_path / "m", "mbart", files)
    argv = [phasor, "run", converted(folder), "ab", "--quiet"]
    for flag in ("--source-lang", "--target-lang"):
        done = subprocess.run([*argv, flag, "ro_RO"], capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.endswith(
            f"{flag}: the file has no language around a text, and does not say where one goes: "
            "give --source-lang to tools/convert.py\n"
        ), done.stderr
    argv[2] = converted(folder, "--source-lang", "en_XX")
    assert tokens(phasor, argv[2], "ab")[::3] == [7, 2]
    for flag in ("--source-lang", "--target-lang"):
        done = subprocess.run([*argv, flag, "ro_RO"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "kind, languages, line",
    [
        ("MBartTokenizer", ("fr_XX", ""), "--source-lang: 'fr_XX' is none of its languages"),
        ("BartTokenizer", ("", "en_XX"), "tokenizer_class: 'BartTokenizer' has no languages"),
    ],
)
def test_languages_of_one_tokenizer_that_are_not_there(kind, languages, line, tmp_path):
    folder = T.write(tmp_path / "m", "mbart", package_files(kind))
    with pytest.raises(PhasorError, match=line):
        read_source(folder, source_lang=languages[0], target_lang=languages[1])


def m2m_files(**config: object) -> dict[str, bytes]:
    texts = ["<s>", "<pad>", "</s>", "<unk>", *T.SOURCE_PIECES]
    pieces = [*T.CONTROLS, *((t, -5.0 - i / 100, 1) for i, t in enumerate(T.SOURCE_PIECES))]
    said = {
        "tokenizer_class": "M2M100Tokenizer",
        "additional_special_tokens": ["__de__", "__en__"],
        **config,
    }
    return {
        "vocab.json": json.dumps({text: i for i, text in enumerate(texts)}).encode(),
        "sentencepiece.bpe.model": T.proto(pieces),
        "tokenizer_config.json": json.dumps(said).encode(),
    }


def test_languages_behind_a_list(tmp_path, phasor):
    folder = T.write(tmp_path / "m", "m2m_100", m2m_files())
    path = converted(folder, "--source-lang", "de", "--target-lang", "en")
    d = PhasorFile(path).descriptor
    assert d["source"]["prefix"] == [12] and d["target"]["forced_first"] == 13
    assert tokens(phasor, path, "ab")[::2] == [12, 2]
    assert PhasorFile(converted(folder)).descriptor["source"]["prefix"] == [13]  # English


@pytest.mark.parametrize(
    "config, line",
    [
        ({"additional_special_tokens": "__en__"}, "additional_special_tokens: '__en__', expected"),
        ({"additional_special_tokens": []}, "the tokenizer has no languages"),
        ({"added_tokens_decoder": {"12": {"content": "__en__"}}}, "'__en__' has the id 12"),
        ({"src_lang": 5}, "src_lang: 5, expected a text"),
        ({"sp_model_kwargs": {"nbest_size": 3}}, "sp_model_kwargs"),
    ],
)
def test_a_list_of_languages_with_one_thing_wrong(config, line, tmp_path):
    folder = T.write(tmp_path / "m", "m2m_100", m2m_files(**config))
    with pytest.raises(PhasorError, match=line):
        read_source(folder)


def test_a_file_of_t5_with_sentinels_behind_it(tmp_path, phasor):
    path = converted(T.write(tmp_path / "m", "t5", T.t5_files(), **T.T5_IDS))
    d = PhasorFile(path).descriptor
    assert (d["source"]["suffix"], d["source"]["unknown"], d["target"]["end"]) == ([1], 2, [1])
    assert d["source"]["tokenizer"] == d["target"]["tokenizer"] == 3
    ids = {text: 3 + i for i, text in enumerate(T.SOURCE_PIECES)}
    assert tokens(phasor, path, "ab<extra_id_0><extra_id_1>b") == [
        *(ids["▁ab"], 12, 11, ids["▁"], ids["b"]),
        1,
    ]


@pytest.mark.parametrize(
    "config, line",
    [
        ({"legacy": False}, "legacy: False is not supported, expected True"),
        ({"add_prefix_space": False}, "add_prefix_space: False is not supported"),
        ({"sp_model_kwargs": {"nbest_size": 3}}, "sp_model_kwargs"),
        ({"extra_ids": -1}, "extra_ids: -1, expected a whole number from 0 to 4096"),
        ({"extra_ids": "2"}, "extra_ids: '2', expected"),
        ({"extra_ids": 14}, "has 25 pieces, the source embedding has 24 rows"),
        ({"eos_token": "<pad>"}, "eos_token: id 0, and eos_token_id of the configuration is"),
        ({"pad_token": "<none>"}, "the special token '<none>' is not there"),
        ({"added_tokens_decoder": {"4": {"content": "</s>"}}}, "'</s>' has the id 4, here 1"),
        # the model of this test has no map that makes white space one
        ({"pad_token": {"content": "<pad>", "lstrip": True}}, "lstrip is not supported"),
        ({"pad_token": {"content": "<pad>", "single_word": True}}, "single_word is not supported"),
    ],
)
def test_a_file_of_t5_with_one_thing_wrong(config, line, tmp_path):
    folder = T.write(tmp_path / "m", "t5", T.t5_files(**config), **T.T5_IDS)
    with pytest.raises(PhasorError, match=re.escape(line)):
        read_source(folder)


PEGASUS_ROWS = 115


def test_a_file_of_pegasus_with_masks_in_front(tmp_path, phasor):
    folder = T.write(
        tmp_path / "m", "pegasus", T.pegasus_files(), **{**T.T5_IDS, "vocab_size": PEGASUS_ROWS}
    )
    path = converted(folder)
    d = PhasorFile(path).descriptor
    assert (d["source"]["suffix"], d["source"]["unknown"], d["target"]["end"]) == ([1], 105, [1])
    ids = {text: 106 + i for i, text in enumerate(T.SOURCE_PIECES)}
    assert tokens(phasor, path, "ab<mask_1><mask_2><unk_2><unk_102>b") == [
        *(ids["▁ab"], 2, 3, 4, 104, ids["▁"], ids["b"]),
        1,
    ]


@pytest.mark.parametrize(
    "config, line",
    [
        ({"offset": 0}, "offset: 0 is not supported, expected 103"),
        ({"mask_token_sent": None}, "mask_token_sent: null is not supported"),
        ({"mask_token_sent": 7}, "mask_token_sent: 7, expected a text"),
        ({"mask_token_sent": "<unk_2>"}, "two of its special tokens are one"),
        ({"sp_model_kwargs": {"nbest_size": 3}}, "sp_model_kwargs"),
        ({"additional_special_tokens": ["<new>"]}, "the special token '<new>' is not there"),
        ({"added_tokens_decoder": {"4": {"content": "<mask_1>"}}}, "'<mask_1>' has the id 4"),
        ({"unk_token": "<none>"}, "the special token '<none>' is not there"),
    ],
)
def test_a_file_of_pegasus_with_one_thing_wrong(config, line, tmp_path):
    folder = T.write(
        *(tmp_path / "m", "pegasus", T.pegasus_files(**config)),
        **{**T.T5_IDS, "vocab_size": PEGASUS_ROWS},
    )
    with pytest.raises(PhasorError, match=re.escape(line)):
        read_source(folder)


@pytest.mark.parametrize(
    "kind, languages, around, first, mask",
    [
        ("MBart", ("", ""), ([], [2, 15]), (3, None), 37),
        ("MBart", ("ro_RO", "zh_CN"), ([], [2, 31]), (36, None), 37),
        ("MBart50", ("gl_ES", "sl_SI"), ([62], [2]), (3, 63), 64),
        ("Nllb", ("", "fra_Latn"), ([12], [2]), (3, 13), 14),
    ],
)
def test_numbers_of_fairseq_with_languages(kind, languages, around, first, mask, tmp_path, phasor):
    folder = T.write(tmp_path / "m", "mbart", T.fairseq_files(kind), vocab_size=65)
    flags = [f"--{side}-lang={name}" for side, name in zip(("source", "target"), languages) if name]
    path = converted(folder, *flags)
    d = PhasorFile(path).descriptor
    assert (d["source"]["prefix"], d["source"]["suffix"]) == around
    assert (d["target"]["decoder_start"], d["target"]["forced_first"]) == first
    ids = {text: 4 + i for i, text in enumerate(T.SOURCE_PIECES)}
    want = [ids["▁ab"], mask, ids["▁"], ids["b"]]
    assert tokens(phasor, path, "ab<mask>b") == [*around[0], *want, *around[1]]


@pytest.mark.parametrize(
    "config, languages, suffix, start",
    [
        ({}, ("", ""), [2], 3),
        ({"src_lang": "java"}, ("", ""), [2, 12], 3),
        ({"src_lang": "__python__", "language_codes": "base"}, ("", "java"), [2, 13], 12),
        ({"language_codes": "multi"}, ("", ""), [2, 14], 3),
        ({"language_codes": "multi"}, ("go", "en_XX"), [2, 18], 14),
        ({"tokenizer_class": None}, ("en_XX", ""), [2, 14], 3),
    ],
)
def test_numbers_of_plbart(config, languages, suffix, start, tmp_path, phasor):
    folder = T.write(tmp_path / "m", "plbart", T.fairseq_files("PLBart", **config), vocab_size=20)
    flags = [f"--{side}-lang={name}" for side, name in zip(("source", "target"), languages) if name]
    path = converted(folder, *flags)
    d = PhasorFile(path).descriptor
    assert (d["source"]["prefix"], d["source"]["suffix"]) == ([], suffix)
    assert (d["target"]["decoder_start"], d["target"]["forced_first"]) == (start, None)
    ids = {text: 4 + i for i, text in enumerate(T.SOURCE_PIECES)}
    mask = 19 if config.get("language_codes") == "multi" else 15
    assert tokens(phasor, path, "ab<mask>b") == [ids["▁ab"], mask, ids["▁"], ids["b"], *suffix]
    argv = [phasor, "tokenize", path, "--print-ids", "ab", "--source-lang", "python"]
    done = told(*argv)
    assert [int(i) for i in done.split(",")] == [ids["▁ab"], 2, 13]


@pytest.mark.parametrize("added", [{}, {"19": {"content": "<mask>"}}])
def test_a_mask_of_plbart_without_a_row(added, tmp_path, phasor):
    """It is the unknown token, of seven languages; of three the model is refused."""
    files = T.fairseq_files("PLBart", language_codes="multi", added_tokens_decoder=added)
    path = converted(T.write(tmp_path / "m", "plbart", files, vocab_size=19))
    ids = {text: 4 + i for i, text in enumerate(T.SOURCE_PIECES)}
    assert tokens(phasor, path, "ab<mask>b") == [ids["▁ab"], 3, ids["▁"], ids["b"], 2, 14]
    folder = T.write(tmp_path / "b", "plbart", T.fairseq_files("PLBart"), vocab_size=15)
    with pytest.raises(PhasorError, match="has 16 pieces, the source embedding has 15 rows"):
        read_source(folder)


@pytest.mark.parametrize(
    "kind, config, line",
    [
        (
            "PLBart",
            {"language_codes": "all"},
            "language_codes: 'all', expected base or multi",
        ),
        ("PLBart", {"language_codes": ["base"]}, "language_codes: ['base'], expected base"),
        ("PLBart", {"src_lang": "go"}, "'go' is none of its languages: en_XX java python"),
        ("PLBart", {"mask_token": "[M]"}, "the special token '[M]' is not there"),
        ("PLBart", {"added_tokens_decoder": {"12": {"content": "<mask>"}}}, "has the id 12"),
        ("MBart", {"sp_model_kwargs": {"nbest_size": 3}}, "sp_model_kwargs"),
        ("MBart", {"src_lang": "xx_XX"}, "'xx_XX' is none of its languages"),
        ("MBart", {"src_lang": 5}, "src_lang: 5, expected a text"),
        ("MBart", {"additional_special_tokens": ["<new>"]}, "'<new>' is not there"),
        (
            "MBart50",
            {"added_tokens_decoder": {"12": {"content": "cs_CZ"}}},
            "'cs_CZ' has the id 12, here 13",
        ),
        ("Nllb", {"legacy_behaviour": True}, "legacy_behaviour: True is not supported"),
        ("Nllb", {"added_tokens_decoder": {}}, "added_tokens_decoder: '<mask>' has no id"),
        (
            "Nllb",
            {"added_tokens_decoder": {"13": {"content": "<mask>"}}},
            "the ids of 1 special tokens, expected those from 12 on",
        ),
    ],
)
def test_numbers_of_fairseq_with_one_thing_wrong(kind, config, line, tmp_path):
    folder = T.write(tmp_path / "m", "mbart", T.fairseq_files(kind, **config), vocab_size=65)
    with pytest.raises(PhasorError, match=re.escape(line)):
        read_source(folder)


@pytest.mark.parametrize("kind, name", [("Pegasus", "spiece"), ("MBart", "sentencepiece.bpe")])
def test_a_model_that_a_class_cannot_number(kind, name, tmp_path, capsys):
    files = T.pegasus_files() if kind == "Pegasus" else T.fairseq_files(kind)
    wrong = [("a", -1.0, 1), *T.CONTROLS]
    ids = {**T.T5_IDS, "vocab_size": PEGASUS_ROWS}
    for content, line in (
        (T.proto(wrong), "piece 0 is not"),
        (b"\xff", f"{name}.model: "),
        (T.proto([(b"\xff".decode("latin-1"), 0.0, 1)]), "piece 0 is not"),
    ):
        folder = T.write(tmp_path / "m", kind.lower(), {**files, f"{name}.model": content}, **ids)
        assert convert.main([str(folder), "-o", str(tmp_path / "o"), "--quiet"]) == 1
        said = capsys.readouterr().err
        assert line in said and f"{name}.model" in said and said.count("\n") == 1, said


def test_languages_that_t5_has_not(tmp_path):
    folder = T.write(tmp_path / "m", "t5", T.t5_files(), **T.T5_IDS)
    with pytest.raises(PhasorError, match="--target-lang: the tokenizer has no languages"):
        read_source(folder, source_lang="", target_lang="de")


@pytest.mark.parametrize(
    "family, kind",
    [("t5", "T5Tokenizer"), ("bart", "BartTokenizer"), ("m2m_100", "M2M100Tokenizer")],
)
def test_a_tokenizer_without_its_files(family, kind, tmp_path, capsys):
    said = json.dumps({"tokenizer_class": kind}).encode()
    ids = T.T5_IDS if family == "t5" else {}
    folder = T.write(tmp_path / "m", family, {"tokenizer_config.json": said}, **ids)
    flags = [str(folder), "-o", str(tmp_path / "o.phasor"), "--quiet"]
    assert convert.main(flags) == 1
    line = capsys.readouterr().err
    assert f"tokenizer_class: {kind}, and none of its files is there" in line
    assert line.count("\n") == 1 and not (tmp_path / "o.phasor").exists()
    assert convert.main([*flags, "--tokenizer", "none"]) == 0


@pytest.mark.parametrize(
    "files, kind",
    [
        (("spiece.model",), "T5Tokenizer"),
        (("source.spm", "target.spm"), "MarianTokenizer"),
        (("sentencepiece.bpe.model",), "BartphoTokenizer"),
    ],
)
def test_files_that_only_a_class_can_read(files, kind, tmp_path):
    said = json.dumps({"tokenizer_class": kind}).encode()
    content = {**dict.fromkeys(files, b"{}"), "tokenizer_config.json": said}
    folder = T.write(tmp_path / "m", "bart", content)
    with pytest.raises(PhasorError, match="save it as tokenizer.json"):
        read_source(folder)


BLENDERBOT_WORDS = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", "a", "b", "Ġa", *"cdefghijklmnopqr"]


def blenderbot_files(**config: object) -> dict[str, bytes]:
    """As they are published: no class is named, and the mask is no word of the vocabulary."""
    words = {text: i for i, text in enumerate(BLENDERBOT_WORDS)}
    return {
        "vocab.json": json.dumps(words).encode(),
        "merges.txt": "#version: 0.2\nĠ a\n".encode(),
        "tokenizer_config.json": json.dumps({"add_prefix_space": True, **config}).encode(),
    }


@pytest.mark.parametrize(
    "config", [{}, {"tokenizer_class": "BlenderbotTokenizer", "mask_token": "<mask>"}]
)
def test_blenderbots_files(config, tmp_path, phasor):
    """A space before a text and its end behind it; the mask, which has no row, is left out."""
    assert len(BLENDERBOT_WORDS) == T.ROWS
    path = converted(T.write(tmp_path / "m", "blenderbot", blenderbot_files(**config)))
    assert tokens(phasor, path, "ab a") == [7, 6, 7, 2]
    assert tokens(phasor, path, "b</s>b") == [4, 6, 2, 4, 6, 2]
    d = PhasorFile(path).descriptor
    assert (d["source"]["prefix"], d["source"]["suffix"], d["source"]["mask"]) == ([], [2], None)
    section, info = tokenizer_json.build_hf_section(tmp_path / "m")
    assert info["mask"] == T.ROWS  # of an embedding with a row for it
    assert section != tokenizer_json.build_hf_section(tmp_path / "m", rows=T.ROWS)[0]


def test_a_pair_that_has_other_ids_around_it(tmp_path):
    """It matters only where two texts may be read."""
    _, info = tokenizer_json.build_hf_section(
        T.write(tmp_path / "m", "blenderbot", blenderbot_files())
    )
    assert info["pair"] is None
    with pytest.raises(PhasorError, match="other ids around a pair than around a text"):
        around.pair_of(info)


def test_the_small_blenderbots_files(tmp_path, phasor):
    """Words of lower case; nothing stands around a text."""
    path = converted(T.write(tmp_path / "m", "blenderbot-small", T.small_blenderbot_files()))
    assert tokens(phasor, path, "AB aa.'b!") == [7, 4, 5, 8, 9, 6, 10]
    assert tokens(phasor, path, "B__end__Ac") == [6, 2, 4, 11]
    d = PhasorFile(path).descriptor
    assert (d["source"]["prefix"], d["source"]["suffix"], d["source"]["unknown"]) == ([], [], 3)
    places = [d[stack]["embedding_norm_place"] for stack in STACKS]
    assert (
        places == [0, 1] and d["encoder"]["embedding_norm"] == d["decoder"]["embedding_norm"] == 1
    )


@pytest.mark.parametrize(
    "files, line",
    [
        (
            T.small_blenderbot_files(T.SMALL_WORDS[:3]),
            "vocab.json: the unk token '__unk__' is not in the vocab",
        ),
        (
            T.small_blenderbot_files(unk_token="<unk>"),
            "vocab.json: the unk token '<unk>' is not in the vocab",
        ),
        (
            T.small_blenderbot_files(merges="a b</w>\n"),
            "merges.txt: line 1: 'a b</w>', expected #version: 0.2",
        ),
        (T.small_blenderbot_files(merges=""), "merges.txt: line 1: '', expected #version: 0.2"),
        (
            T.small_blenderbot_files(merges="#version: 0.2\na b 3\n"),
            "line 2: 'a b 3', expected two parts",
        ),
        (
            T.small_blenderbot_files(merges="#version: 0.2\na </w>\n"),
            "expected </w> at the end of the right",
        ),
        (
            T.small_blenderbot_files(merges="#version: 0.2\n__unk __</w>\n"),
            "makes the special token '__unk__ '",
        ),
        (
            T.small_blenderbot_files([*T.SMALL_WORDS, "@@"]),
            "the token '@@' is there before, or has no text",
        ),
        (
            T.small_blenderbot_files([*T.SMALL_WORDS, "a @@", "a "][:-1]),
            "the token 'a @@' is there before",
        ),
        (
            T.small_blenderbot_files(sep_token="ab"),
            "the added token 'ab', which is not plain, special, of 3",
        ),
        (
            T.small_blenderbot_files(split_special_tokens=True),
            "split_special_tokens: True is not supported",
        ),
        (
            T.small_blenderbot_files(sep_token={"content": "<sep>", "lstrip": True}),
            "the added token '<sep>', which is not plain",
        ),
        (
            T.small_blenderbot_files(
                added_tokens_decoder={"23": {"content": "<new>", "special": False}}
            ),
            "the added token '<new>', which is not plain",
        ),
        (
            T.small_blenderbot_files(
                added_tokens_decoder={"5": {"content": "__end__", "special": True}}
            ),
            "__end__",
        ),
        (
            {**T.small_blenderbot_files(), "tokenizer.json": b"{}"},
            "tokenizer.json of BlenderbotSmallTokenizer",
        ),
        ({**T.small_blenderbot_files(), "vocab.json": b"[]"}, "vocab.json"),
        ({**T.small_blenderbot_files(), "vocab.json": b'{"__unk__": -1}'}, "has the id -1"),
    ],
)
def test_the_small_blenderbots_files_with_one_thing_wrong(files, line, tmp_path):
    folder = T.write(tmp_path / "m", "blenderbot-small", files)
    with pytest.raises(PhasorError, match=line) as error:
        read_source(folder)
    assert "\n" not in str(error.value)


# ---- What is recommended for generation


def test_what_is_recommended_is_kept(tmp_path):
    said = {
        "num_beams": 6,
        "length_penalty": 0.5,
        "early_stopping": True,
        "bad_words_ids": [[2], [0], [4, 5]],
        "no_repeat_ngram_size": 3,
        "forced_bos_token_id": 4,
        "decoder_start_token_id": 5,
        "forced_eos_token_id": 0,
        "encoder_no_repeat_ngram_size": 4,
        "min_length": 6,
        "min_new_tokens": 3,
        "renormalize_logits": True,
    }
    files = {"generation_config.json": json.dumps(said).encode()}
    model, _ = read_source(marian(tmp_path, files))
    g, target = model.descriptor["generation"], model.descriptor["target"]
    assert (g["beams"], g["length_penalty"], g["early_stopping"]) == (6, 0.5, 1)
    assert g["suppressed"] == [2] and g["no_repeat_ngram"] == 3  # the end is never forbidden
    assert (target["decoder_start"], target["forced_first"]) == (5, 4)
    assert g["bad_words"] == [2, 4, 5] and g["forced_last"] == 0
    assert (g["source_no_repeat_ngram"], g["min_new"]) == (4, 5)  # the start is no new token
    assert g["renormalize"] == 1
    assert not any("not kept" in n for n in model.notes)


def noted(folder: Path) -> tuple[dict, str]:
    """What the file has of it, and the note of what it has not."""
    model, _ = read_source(folder)
    return model.descriptor.get("generation", {}), "; ".join(
        n for n in model.notes if "not kept" in n
    )


def test_the_greatest_length_is_kept_and_the_rest_is_noted(tmp_path, phasor):
    said = {"max_length": 6, "num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}
    said |= {"num_return_sequences": 4, "forced_eos_token_id": 0, "forced_bos_token_id": 5}
    folder = marian(tmp_path, {"generation_config.json": json.dumps(said).encode()})
    kept, note = noted(folder)
    assert kept["max_new"] == 5  # the start is no new token
    assert note.endswith(
        ": num_return_sequences, num_beam_groups, diversity_penalty: recommended, and not kept "
        "in the file"
    )
    path = converted(folder)
    for flags, most in (([], 5), (["-n", "9"], 9), (["--beam", "2"], 5)):
        done = subprocess.run(
            [phasor, "run", path, "--ids", "5,6,0", "--min-new", "20"]
            + ["--print-ids", "--quiet", *flags],
            capture_output=True,
            text=True,
        )
        ids = done.stdout.strip().split(",")
        assert len(ids) == most and ids.index("0") == most - 1, (ids, done.stderr)
    said["max_new_tokens"] = 8  # counts more
    write_json(folder / "generation_config.json", said)
    assert noted(folder)[0]["max_new"] == 8


def test_one_token_is_the_last_and_not_the_first(tmp_path, phasor):
    """As transformers' processors have it, the one of the end behind the other."""
    said = {"forced_bos_token_id": 4, "forced_eos_token_id": 0}
    path = converted(marian(tmp_path, {"generation_config.json": json.dumps(said).encode()}))
    argv = [phasor, "run", path, "--ids", "5,6,0", "--min-new", "9", "--print-ids", "--quiet"]
    for flags in ([], ["--beam", "1"], ["--beam", "3"], ["--beam", "2", "--batch", "2"]):
        for most, ids in (("1", ["0"]), ("2", ["4", "0"])):
            done = subprocess.run([*argv, "-n", most, *flags], capture_output=True, text=True)
            assert done.stdout.strip().split(",") == ids, done.stderr


def test_a_prefix_stands_behind_the_first_token(tmp_path, phasor):
    """A text does; ids are all that the output begins with."""
    said = {"forced_bos_token_id": 4, "forced_eos_token_id": 0}
    own = {"generation_config.json": json.dumps(said).encode()}
    path = converted(marian(tmp_path, {**T.marian_files(), **own}))
    x, y = (json.loads(T.marian_files()["vocab.json"])[piece] for piece in ("▁x", "y"))
    argv = [phasor, "run", path, "--ids", "5,6,0", "-n", "5", "--print-ids", "--quiet"]
    for more in ([], ["--beam", "2"], ["--batch", "2"]):
        for flags, ids in (
            (["--prefix", "xy"], [4, x, y]),
            (["--prefix-ids", f"{x},{y}"], [x, y]),
            (["--prefix", ""], [4]),
        ):
            done = subprocess.run([*argv, *more, *flags], capture_output=True, text=True)
            made = [int(i) for i in done.stdout.split(",")]
            assert made[: len(ids)] == ids and (len(made) == 5 or made[-1] == 0), done.stderr


def test_a_target_is_scored_behind_the_first_token(tmp_path, phasor):
    """A text's probability is that of its tokens behind the forced one."""
    said = {"forced_bos_token_id": 4}
    own = {"generation_config.json": json.dumps(said).encode()}
    path = converted(marian(tmp_path, {**T.marian_files(), **own}))
    x, y = (json.loads(T.marian_files()["vocab.json"])[piece] for piece in ("▁x", "y"))

    def score(*flags: str) -> tuple[float, int]:
        argv = [phasor, "score", path, "ab", "--json", *flags]
        done = told(*argv)
        said = json.loads(done)
        return said["log_probability"], said["tokens"]

    text, tokens_ = score("--target", "xy")
    whole, all_ = score("--target-ids", f"4,{x},{y},0")
    first, _ = score("--target-ids", "4")
    without, _ = score("--target-ids", f"{x},{y},0")
    assert (tokens_, all_) == (3, 4) and abs(text - (whole - first)) < 1e-6
    assert abs(text - without) > 1e-3
    assert score("--target", "") == (pytest.approx(score("--target-ids", "4,0")[0] - first), 1)


def test_several_ends_and_last_tokens(tmp_path, phasor):
    """The tokenizer's end goes behind a text, and others end an output too; of several last tokens
    the lowest is kept, and a note says so."""
    said = {"eos_token_id": [0, 7], "forced_eos_token_id": [7, 0, 99]}
    own = {"generation_config.json": json.dumps(said).encode()}
    folder = marian(tmp_path, {**T.marian_files(), **own})
    model, _ = read_source(folder)
    assert model.descriptor["target"]["end"] == [0, 7]
    assert model.descriptor["generation"]["forced_last"] == 0
    assert [n for n in model.notes if n.startswith("forced_eos_token_id")] == [
        "forced_eos_token_id: [7, 0, 99]: not all in the vocabulary of 24",
        "forced_eos_token_id: of 2 ids the file has the lowest, 0",
    ]
    path = converted(folder)
    assert tokens(phasor, path, "ab")[-1] == 0
    write_json(folder / "generation_config.json", {"eos_token_id": [7, 0]})
    with pytest.raises(PhasorError, match="eos_token: id 0, and eos_token_id of the configuration"):
        read_source(folder)


def test_a_config_without_a_generation_config_recommends(tmp_path):
    folder = marian(tmp_path, {}, num_beams=4, bad_words_ids=[[2]])
    g = read_source(folder)[0].descriptor["generation"]
    assert g["beams"] == 4 and g["suppressed"] == [2]


@pytest.mark.parametrize(
    "said, line",
    [
        ({"length_penalty": 5}, "length_penalty: 5, expected a number from -4 to 4"),
        ({"early_stopping": "often"}, "early_stopping: 'often', expected true, false or never"),
        ({"renormalize_logits": 1}, "renormalize_logits: 1, expected true or false"),
        ({"max_length": 1}, "max_length: 1, expected a whole number from 2 to"),
        ({"num_beams": 257}, "num_beams: 257, expected a whole number from 1 to 256"),
        ({"bad_words_ids": [2]}, "bad_words_ids: [2], expected lists of token ids"),
        ({"bad_words_ids": [[]]}, "bad_words_ids: "),
        ({"decoder_start_token_id": 99}, "decoder_start_token_id: is missing"),
    ],
)
def test_what_cannot_be_recommended(said, line, tmp_path):
    files = {"generation_config.json": json.dumps(said).encode()}
    with pytest.raises(PhasorError, match="generation_config.json") as error:
        read_source(marian(tmp_path, files))
    assert line in str(error.value)


def test_a_forbidden_token_is_not_chosen(tmp_path, phasor):
    """An encoder-decoder's file recommends it, so nobody has to ask."""
    folder = marian(tmp_path, {}, bad_words_ids=[[i] for i in range(24) if i not in (7, 9)])
    path = converted(folder)
    for flags in ([], ["--beam", "2"]):
        done = subprocess.run(
            [phasor, "run", path, "--ids", "5,6,0", "-n", "6", "--print-ids", "--quiet", *flags],
            capture_output=True,
            text=True,
        )
        assert set(done.stdout.strip().split(",")) <= {"7", "9", "0"}, done.stderr


# ---- --tokenizer with another numbering


@pytest.mark.parametrize("kind", ["marian", "mbart", "pegasus", "plbart"])
@pytest.mark.parametrize("name", ["source.spm", "sentencepiece.bpe.model"])
def test_a_sentencepiece_model_of_a_class_that_numbers_its_pieces(kind, name, tmp_path, capsys):
    """The ids of the model alone are not those of the embedding's rows."""
    folder = T.write(tmp_path / "m", kind)
    (tmp_path / name).write_bytes(T.marian_files()["source.spm"])
    words = [str(folder), "-o", str(tmp_path / "o.phasor"), "--tokenizer", str(tmp_path / name)]
    assert convert.main([*words, "--quiet"]) == 1
    says = "its pieces have other ids in a model of this type"
    if name == "sentencepiece.bpe.model":
        says = "the ids are not those of the file alone: give its directory"
    assert says in capsys.readouterr().err
    assert not (tmp_path / "o.phasor").exists()


@pytest.mark.parametrize(
    "ids, says",
    [
        ({"bos_token_id": 0}, "source vocabulary: the model begins with id 0, which is the piece"),
        ({"decoder_start_token_id": 0}, "target vocabulary: the model begins with id 0, which is"),
        ({"eos_token_id": 5}, "ends with id 5, which is the piece 'b'"),
        ({}, ""),
    ],
)
def test_a_sentencepiece_model_with_pieces_where_the_model_begins(ids, says, tmp_path, capsys):
    folder = T.write(
        tmp_path / "m", "m2m_100", **{"bos_token_id": 1, "decoder_start_token_id": 2, **ids}
    )
    (tmp_path / "s.model").write_bytes(T.marian_files()["source.spm"])
    words = [str(folder), "-o", str(tmp_path / "o.phasor"), "--quiet", "--tokenizer"]
    assert convert.main([*words, str(tmp_path / "s.model")]) == (1 if says else 0)
    assert says in capsys.readouterr().err
