"""What a line of the converter says to do works: each piece of advice in its source has a wrong
input here or in messages.md whose line has it, and a person who follows it gets a file; or it names
the test that follows it."""

from __future__ import annotations

import ast
import bz2
import json
import lzma
import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import torch_legacy
import torch_zip
import translators as T
from advice import FOLLOWED, TOKENIZER, beside
from phasor import convert
from places import ROOT
from wrong_inputs import arrays, directory, gguf, put

sys.path.insert(0, str(ROOT / "tests" / "fuzz" / "python"))
import models  # noqa: E402

# A verb behind what is wrong, or words of a command.
ADVICE = re.compile(
    r"[:;(,] (?:and )?(?:give|take|save|download|unpack|call|remove|merge|say|write|add|set|use"
    r"|git lfs pull|phasor quantize)\b|torch\.save\(|TRY: "
    r"|--[a-z-]+ (?:none converts|\S+ says|\S+ adds|none\Z)"
)
BLANK = "\0"  # in an advice, for what is only known at run time
Make = Callable[[Path], None]


class Case(NamedTuple):
    """advice: a part of the line. words: of the command in the folder that make has filled. follow:
    does what the line says; the commands that must then work."""

    advice: str
    words: str
    make: Make
    follow: Callable[[Path], list[str]]


def again(*words: str) -> Callable[[Path], list[str]]:
    """Nothing changes but the command."""
    return lambda folder: list(words)


def changed(path: str, **values) -> Callable[[Path], list[str]]:
    """A JSON file with other values; None: without one."""

    def follow(folder: Path) -> list[str]:
        config = {**json.loads((folder / path).read_text()), **values}
        put(folder, {path: {name: v for name, v in config.items() if v is not None}})
        return ["model"]

    return follow


def both(*makes: Make) -> Make:
    def make(folder: Path) -> None:
        for one in makes:
            one(folder)

    return make


def torch_file(write: Callable[[Path], object]) -> Make:
    """A directory whose weights are written in another way."""

    def make(folder: Path) -> None:
        directory(weights=False)(folder)
        write(folder / "model/pytorch_model.bin")

    return make


def rewritten(name: str, data: bytes = b"x", kind: int = zipfile.ZIP_STORED) -> Make:
    """What torch.save writes, with a record more or of another kind."""

    def write(path: Path) -> None:
        torch_zip.save(path, arrays())
        with zipfile.ZipFile(path) as whole:
            held = {info.filename: whole.read(info) for info in whole.infolist()}
        start = next(iter(held)).split("/")[0]
        with zipfile.ZipFile(path, "w") as out:
            for record, content in {**held, f"{start}/{name}": data}.items():
                out.writestr(record, content, kind if record.endswith("data/0") else 0)

    return torch_file(write)


def encrypted(path: Path) -> None:
    """The flag of a record's encryption, in both of its places."""
    torch_zip.save(path, arrays())
    data = bytearray(path.read_bytes())
    for start, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(start)
        while place >= 0:
            data[place + at] |= 1
            place = data.find(start, place + 4)
    path.write_bytes(data)


def legacy(**more) -> Make:
    program = torch_zip.state_dict({"x": torch_legacy.tensor(np.zeros(2, "<f4"), "0")})
    storages = {"0": np.zeros(2, "<f4")}
    return torch_file(lambda path: torch_legacy.write(path, program, storages, **more))


def saved_again(folder: Path) -> list[str]:
    torch_zip.save(folder / "model/pytorch_model.bin", arrays())
    return ["model"]


def packed(name: str, pack: Callable[[bytes], bytes]) -> Make:
    return lambda folder: put(folder, {name: pack(gguf())})


def tar(folder: Path) -> None:
    directory()(folder)
    with tarfile.open(folder / "model.tar", "w") as out:
        out.add(folder / "model", "inside")
    for path in (folder / "model").iterdir():
        path.unlink()
    (folder / "model").rmdir()


def untar(folder: Path) -> list[str]:
    with tarfile.open(folder / "model.tar") as whole:
        whole.extractall(folder, filter="data")
    return ["inside"]


def gguf_there(folder: Path) -> list[str]:
    put(folder, {"m.gguf": gguf()})
    return ["m.gguf"]


def link(folder: Path) -> None:
    (folder / "model").mkdir()
    os.symlink("../blobs/0af1", folder / "model/blob")


def without_link(folder: Path) -> list[str]:
    (folder / "model/blob").unlink()
    return beside(folder)


def family(kind: str, name: str, **more) -> Make:
    """A small directory of a family; with two classes where it is one of classes."""

    def make(folder: Path) -> None:
        made = models.directory(kind, name)
        put(folder, {"model/config.json": {**made.config, **more}})
        head = {"score.weight": np.ones((2, 16), np.float32)} if "Classif" in name else {}
        save_file({**made.arrays(), **head}, folder / "model/model.safetensors")

    return make


def without(*names: str) -> Make:
    def change(folder: Path) -> None:
        changed("model/config.json", **dict.fromkeys(names))(folder)

    return change


def translator(kind: str, **more) -> Make:
    def make(folder: Path) -> None:
        T.write(folder / "model", kind, **more)

    return make


def adapter(*names: str) -> Make:
    """One whose training took a vocabulary of three rows more, and kept these matrices."""

    def make(folder: Path) -> None:
        rows = np.random.default_rng(9).normal(size=(32, 8)).astype(np.float32)
        config = {
            "peft_type": "LORA",
            "r": 2,
            "lora_alpha": 4,
            "task_type": "CAUSAL_LM",
            "bias": "none",
            "target_modules": ["q_proj"],
            "inference_mode": True,
            "modules_to_save": [name.split(".")[-1] for name in names],
        }
        start, q = "base_model.model.", "base_model.model.model.layers.0.self_attn.q_proj"
        kept = {f"{start}{name}.weight": rows for name in names}
        kept |= {f"{q}.lora_A.weight": rows[:2], f"{q}.lora_B.weight": rows[:8, :2].copy()}
        put(folder, {"lora/adapter_config.json": config})
        save_file(kept, folder / "lora/adapter_model.safetensors")

    return make


EMBEDDING, HEAD = "model.embed_tokens", "lm_head"


def both_kept(folder: Path) -> list[str]:
    adapter(EMBEDDING, HEAD)(folder)
    return ["model --lora lora"]


# ---- A model of one's own

ENCODER = 'preset = "torch-transformer"\nstack = "encoder"\nheads = 2\nposition = "sinusoidal"\n'
ENCODER += 'embedding_scale = "one"\n'


def own(toml: str, nested: bool = False) -> Make:
    """An encoder of torch.nn with its description, m.toml."""

    def make(folder: Path) -> None:
        rng, q = np.random.default_rng(4), "encoder.layers.0."
        shapes = {
            "src_embedding.weight": (20, 8),
            f"{q}self_attn.in_proj_weight": (24, 8),
            f"{q}self_attn.in_proj_bias": (24,),
            f"{q}self_attn.out_proj.weight": (8, 8),
            f"{q}self_attn.out_proj.bias": (8,),
            f"{q}linear1.weight": (12, 8),
            f"{q}linear1.bias": (12,),
            f"{q}linear2.weight": (8, 12),
            f"{q}linear2.bias": (8,),
        }
        norms = (f"{q}norm1", f"{q}norm2", "encoder.norm")
        shapes |= {f"{norm}.{w}": (8,) for norm in norms for w in ("weight", "bias")}
        held = {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
        if nested:
            flat = torch_zip.state_dict(
                {n: torch_zip.tensor(a, str(i)) for i, (n, a) in enumerate(held.items())}
            )[2:-1]
            more = torch_zip.state_dict({"w": torch_zip.tensor(held[f"{q}linear1.bias"], "6")})
            entries = torch_zip.text("model") + flat + torch_zip.text("critic") + more[2:-1]
            storages = {str(i): a.tobytes() for i, a in enumerate(held.values())}
            torch_zip.write_zip(folder / "m.pt", b"\x80\x02}(" + entries + b"u.", storages)
        else:
            torch_zip.save(folder / "m.pt", held)
        if toml:
            put(folder, {"m.toml": toml.encode()})

    return make


def described(toml: str, name: str = "m.toml", *words: str) -> Callable[[Path], list[str]]:
    def follow(folder: Path) -> list[str]:
        put(folder, {name: toml.encode()})
        return list(words) or ["m.pt"]

    return follow


def expected_arrays(folder: Path, **more: np.ndarray) -> None:
    """Of the encoder above: its own hidden states, by the converter's reference."""
    from phasor.reference.forward import Reference
    from phasor.sources.find import read_source

    model, _ = read_source(folder / "m.pt", describe=folder / "m.toml")
    ids = np.array([[1, 5, 7]])
    put_file = {"ids": ids, "last_hidden_state": hidden(model, ids[0], Reference)[None], **more}
    np.savez(folder / "e.npz", **put_file)


def hidden(model, ids, reference) -> np.ndarray:
    from phasor import vectors as V
    from phasor.format.meta import as_stored

    file = V.ExactWeights(as_stored(model.descriptor), model.weights)
    return reference(file).encode(ids).output


# ---- Tokenizers

WORDPIECES = {
    "vocab.txt": "\n".join("[PAD] [UNK] [CLS] [SEP] [MASK] a b ab ##a ##b".split()).encode(),
    "tokenizer_config.json": {"tokenizer_class": "BertTokenizer"},
}


def joined(folder: Path, *tokenizers: str, rows: int | None = None) -> None:
    """An encoder and a decoder, of fewer rows than the encoder where that is said."""
    decoder = T.joined_configuration()["decoder"]
    T.write_joined(folder / "model", decoder={**decoder, "vocab_size": rows or T.ROWS})
    held = load_file(folder / "model/model.safetensors")
    for name in ("decoder.bert.embeddings.word_embeddings.weight", "decoder.cls.predictions.bias"):
        held[name] = held[name][:rows].copy()
    save_file(held, folder / "model/model.safetensors")
    put(folder, {to + name: data for to in tokenizers for name, data in WORDPIECES.items()})


def mbart(folder: Path, kind: str, **config) -> None:
    T.write(folder / "model", "mbart", vocab_size=65)
    put(folder, {f"t/{name}": data for name, data in T.fairseq_files(kind, **config).items()})


def with_an_id(folder: Path) -> list[str]:
    """As the library writes it: its list has the token."""
    config = json.loads((folder / "t/tokenizer_config.json").read_text())
    config["added_tokens_decoder"]["15"] = {"content": "zul_Latn"}
    put(folder, {"t/tokenizer_config.json": config})
    return ["model --tokenizer t"]


def mapped(folder: Path) -> None:
    """A BPE model of SentencePiece whose texts go through a map (normalizer_spec, field 2)."""
    pieces = [*T.CONTROLS, *((text, -float(i), 1) for i, text in enumerate("▁ab"))]
    put(folder / "model", {"tokenizer.model": T.proto(pieces, 2) + b"\x1a\x03\x12\x01x"})


ONE_SIDE = "TRY: the array ids alone"
NO_CHAT = "{{ x.__class__ }}"
CASES = {
    "a report that is the output": Case(
        "is the output too: give it another name",
        "model --report out.phasor",
        directory(),
        again("model --report r.txt"),
    ),
    "an output that is the input": Case(
        "itself: give the output another name",
        "m.gguf -o m.gguf",
        lambda folder: put(folder, {"m.gguf": gguf()}),
        again("m.gguf"),
    ),
    "an output that is a file of the input": Case(
        ": give the output another name",
        "model -o model/config.json",
        directory(),
        again("model"),
    ),
    "inputs of no quantized matrix": Case(
        "no matrix is quantized; give",
        "model --inputs 16",
        directory(),
        again("model --inputs 16 --type q8"),
    ),
    "rotated inputs of whole rows": Case(
        "no matrix has a scale for each group; give",
        "model --inputs rotated --type q8r",
        directory(),
        again("model --inputs rotated --type q4"),
    ),
    "a program of TorchScript": Case(
        "a program, not weights); save its state_dict",
        "model",
        rewritten("constants.pkl"),
        saved_again,
    ),
    "a compressed record": Case(
        ": save it without compression",
        "model",
        rewritten("version", kind=zipfile.ZIP_DEFLATED),
        saved_again,
    ),
    "an encrypted record": Case(
        ": save it without a password",
        "model",
        torch_file(encrypted),
        saved_again,
    ),
    "another protocol": Case(": save it again", "model", legacy(protocol=1002), saved_again),
    "a big machine's file": Case(
        ": save it on a little-endian machine",
        "model",
        rewritten("byteorder", data=b"big"),
        saved_again,
    ),
    "xz": Case(
        "packed by xz: unpack it, and give what is in it",
        "m.gguf.xz",
        packed("m.gguf.xz", lzma.compress),
        lambda folder: (
            put(folder, {"m.gguf": lzma.decompress((folder / "m.gguf.xz").read_bytes())})
            or ["m.gguf"]
        ),
    ),
    "bzip2": Case(
        "packed by bzip2: unpack it, and give what is in it",
        "m.gguf.bz2",
        packed("m.gguf.bz2", bz2.compress),
        lambda folder: (
            put(folder, {"m.gguf": bz2.decompress((folder / "m.gguf.bz2").read_bytes())})
            or ["m.gguf"]
        ),
    ),
    # No module of Python's own unpacks these: the start of their files is enough for the line.
    **{
        name: Case(
            f"packed by {name}: unpack it, and give what is in it",
            "m.packed",
            packed("m.packed", lambda data, start=start: start + data),
            gguf_there,
        )
        for name, start in {
            "zstd": b"\x28\xb5\x2f\xfd",
            "7z": b"7z\xbc\xaf\x27\x1c",
            "rar": b"Rar!\x1a\x07",
        }.items()
    },
    "tar": Case("is packed by tar: unpack it, and give what is in it", "model.tar", tar, untar),
    "a link to nothing": Case(
        ", a link to what is not there: download it again", "model", link, without_link
    ),
    "a template that is not supported": Case(
        " (--chat none converts without)",
        "model --chat c.jinja",
        both(directory(), lambda folder: put(folder, {"c.jinja": NO_CHAT.encode()})),
        again("model --chat none"),
    ),
    "an adapter of another vocabulary": Case(
        " lacks one. TRY: save it with both (modules_to_save), or merge it in PEFT",
        "model --lora lora",
        both(directory({"tie_word_embeddings": False}), adapter(EMBEDDING)),
        both_kept,
    ),
    "code of its own beside a head": Case(
        " remove this field if the library's class gives the same",
        "model",
        family("llama", "LlamaForSequenceClassification", auto_map={"AutoModel": "m.Own"}),
        changed("model/config.json", auto_map=None),
    ),
    "a default that changed": Case(
        "and transformers_version does not say which; add it",
        "model",
        both(family("cohere", "CohereForCausalLM"), without("transformers_version", "rope_theta")),
        changed("model/config.json", rope_theta=10000.0),
    ),
    "positions that are read from a version on": Case(
        "; say transformers_version",
        "model",
        both(
            family("modernbert-decoder", "ModernBertDecoderForCausalLM", local_rope_theta=500.0),
            without("transformers_version"),
        ),
        changed("model/config.json", transformers_version="5.0.0"),
    ),
    "a first token that BART's versions read as they like": Case(
        "which versions of transformers read as they like; say ",
        "model",
        translator("bart", force_bos_token_to_be_generated=True, bos_token_id=None),
        changed("model/config.json", force_bos_token_to_be_generated=None, forced_bos_token_id=3),
    ),
    "logits with a cap inside a class with pictures": Case(
        "; set it to what does nothing, or convert the language model by itself",
        "model",
        lambda folder: pictures(folder, final_logit_softcapping=30.0),
        lambda folder: pictures(folder) or ["model"],
    ),
    "a CLIP of sentence-transformers": Case(
        "is a whole model: give its folder, ",
        "model",
        lambda folder: clip(folder),
        again("model/0_CLIPModel"),
    ),
    "a preset with options that leave no tensor": Case(
        "; give --expect FILE.npz, what your model gives for some inputs",
        "m.pt",
        lambda folder: unseen(folder),
        again("m.pt --expect e.npz"),
    ),
    "two models in one file": Case(
        "say which are the model's, [checkpoint] key",
        "m.pt",
        own(ENCODER, nested=True),
        described(ENCODER + '[checkpoint]\nkey = "model"\n'),
    ),
    "weights of one's own": Case(
        ": there is no description; write one (docs/reference/description-keys.md has the keys) or"
        " give --describe",
        "m.pt",
        own(""),
        lambda folder: (
            described(ENCODER)(folder)
            + described(ENCODER, "d.toml", "m.pt --describe d.toml")(folder)
        ),
    ),
    "a tokenizer elsewhere": Case(
        " (--tokenizer takes any file)",
        "m.pt",
        both(
            own(ENCODER + '[source]\ntokenizer = "../w.txt"\n'),
            lambda folder: put(folder, {"w.txt": "\n".join(f"w{i}" for i in range(20)).encode()}),
        ),
        described(ENCODER, "m.toml", "m.pt --tokenizer w.txt"),
    ),
    "a head of hidden states": Case(
        ' head, head_norm and output_bias; say output = "source-embedding" for logits',
        "m.pt",
        own(ENCODER + '[names]\noutput_bias = "b"\n'),
        described(ENCODER + 'output = "source-embedding"\n'),
    ),
    "names without a layer": Case(
        "; say how many layers there are",
        "m.pt",
        own(ENCODER + '[names]\n"encoder.ffn_in" = "encoder.layers.0.linear1.weight"\n'),
        described(
            ENCODER + 'layers = 1\n[names]\n"encoder.ffn_in" = "encoder.layers.0.linear1.weight"\n'
        ),
    ),
    "tokenizers in folders of the model": Case(
        ": give those, --tokenizer SOURCE --tokenizer TARGET, or one for both sides",
        "model",
        lambda folder: joined(folder, "model/encoder/", "model/decoder/"),
        again(
            "model --tokenizer model/encoder --tokenizer model/decoder",
            "model --tokenizer model/encoder",
        ),
    ),
    "one tokenizer for two vocabularies": Case(
        " give one for the source, then one for the target (none: without)",
        "model --tokenizer a",
        lambda folder: joined(folder, "a/", "b/", rows=23),
        again("model --tokenizer a --tokenizer b", "model --tokenizer a --tokenizer none"),
    ),
    "a part of a class's tokenizer": Case(
        "the ids are not those of the file alone: give its directory",
        "model --tokenizer t/sentencepiece.bpe.model",
        lambda folder: mbart(folder, "MBart"),
        again("model --tokenizer t"),
    ),
    "a special token without an id": Case(
        "has no id; save the tokenizer again (AutoTokenizer",
        "model --tokenizer t",
        lambda folder: mbart(folder, "Nllb", additional_special_tokens=["zul_Latn"]),
        with_an_id,
    ),
    "a map of characters that the fast class drops": Case(
        "save the one that is meant as tokenizer.json",
        "model",
        both(directory(), mapped),
        lambda folder: put(folder, {"model/tokenizer.json": TOKENIZER}) or ["model"],
    ),
    "a target of one side": Case(
        ONE_SIDE,
        "m.pt --expect e.npz",
        both(own(ENCODER), lambda folder: expected_arrays(folder, target=np.array([[1]]))),
        lambda folder: expected_arrays(folder) or ["m.pt --expect e.npz"],
    ),
}


def clip(folder: Path) -> None:
    made = models.directory("clip_text_model", "CLIPTextModelWithProjection", projection_dim=8)
    text = {n: v for n, v in made.config.items() if n not in ("architectures", "projection_dim")}
    config = {"model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 8}
    module = {"idx": 0, "name": "0", "path": "0_CLIPModel"}
    put(
        folder,
        {
            "model/modules.json": [{**module, "type": "sentence_transformers.models.CLIPModel"}],
            "model/0_CLIPModel/config.json": {**config, "text_config": text, "vision_config": {}},
        },
    )
    save_file(made.arrays(), folder / "model/0_CLIPModel/model.safetensors")


def unseen(folder: Path) -> None:
    for suffix, name in ((".pt", "m.pt"), (".npz", "e.npz")):
        made = ROOT / f"tests/golden/presets/x-transformers-decoder{suffix}"
        (folder / name).write_bytes(made.read_bytes())
    (folder / "m.toml").write_text('preset = "x-transformers"\nheads = 2\n')


def pictures(folder: Path, **more) -> None:
    made = models.directory("gemma2", "Gemma2ForCausalLM", final_logit_softcapping=None)
    text = {n: v for n, v in made.config.items() if n != "architectures"}
    config = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "transformers_version": "4.57.6",
        "text_config": {**text, **more},
    }
    put(folder, {"model/config.json": config})
    held = {f"model.language_model.{name}": a for name, a in made.arrays().items()}
    save_file(held, folder / "model/model.safetensors")


def ran(command: str, capsys) -> tuple[int, str]:
    words = command.split()
    out = [] if "-o" in words else ["-o", "out.phasor"]
    status = convert.main([*words, *out, "--quiet"])
    return status, capsys.readouterr().err


@pytest.mark.parametrize("name", CASES)
def test_what_it_says_works(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("phasor.program.ROOT", tmp_path / "elsewhere")
    case = CASES[name]
    case.make(tmp_path)
    status, said = ran(case.words, capsys)
    assert status == 1 and case.advice in said and said.count("\n") == 1, said
    for command in case.follow(tmp_path):
        status, said = ran(command, capsys)
        assert status == 0, said
        (tmp_path / "out.phasor").unlink()


def test_a_template_without_its_package(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("phasor.chat.syntax.jinja2", None)
    directory(files={"chat_template.jinja": b"{{ messages }}", "tokenizer.json": TOKENIZER})(
        tmp_path
    )
    status, said = ran("model", capsys)
    assert status == 1 and "jinja2 (pip install jinja2), or --chat none" in said
    assert ran("model --chat none", capsys)[0] == 0


def test_a_model_without_a_tokenizer_says_which_flag_adds_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    directory()(tmp_path)
    put(tmp_path, {"t/tokenizer.json": TOKENIZER})
    assert convert.main(["model", "-o", "m.phasor"]) == 0
    assert "and no text (--tokenizer FILE adds one)" in capsys.readouterr().err
    assert convert.main(["model", "-o", "m.phasor", "--tokenizer", "t"]) == 0
    assert "no text" not in capsys.readouterr().err


# ---- None is left out

LIVE = "reference/test_live_export.py::test_what_a_refusal_says_works"
PADDED = "reference/test_live_export.py::test_a_refusal_of_padding_says_what_to_give"
MASKED = "reference/test_live_export.py::test_a_mask_of_some_rows_says_what_to_give"
LIBRARY = "python/test_runtime.py::test_a_missing_library_says_what_to_do"
SERVER = "reference/test_serve.py::test_a_translator_takes_its_prompt_as_the_source"
SERVED = "reference/test_serve.py::test_vectors_are_those_of_the_model"
ORIGINAL = "python/test_ctranslate2.py::test_the_tokenizer_of_the_original"
# What is no refusal: a note of a conversion, or an error of a caller in Python, whose own tests
# follow it; by the part of the source's text that is advice.
_MOMENTS = "python/test_moments.py::test_moments_are_of_the_inputs_that_matrices_read"
ELSEWHERE = {
    "gather them again with tools/moments.py, or --no-smooth": _MOMENTS,
    "TRY: tools/moments.py with the file that --type f32 writes": _MOMENTS,
    "not rounded again for rotated inputs": "python/test_rotated_inputs.py::test_what_is_refused",
    "TRY: without --smooth": (
        "python/test_smoothing.py::test_what_was_rounded_is_not_rounded_again"
    ),
    "a smaller file, which is rounded": (
        "python/test_gguf.py::"
        "test_the_type_that_is_advised_where_matrices_grow_makes_a_smaller_file"
    ),
    "llama-quantize --allow-requantize": "python/test_gguf.py::test_what_is_wrong_is_one_line",
    "reach: give a longer one": (
        "reference/test_live_layers.py::test_an_example_that_is_too_short_says_what_to_give"
    ),
    "TRY: a longer example, in which it shows": (
        "reference/test_live_layers.py::test_a_window_is_longer_than_the_example"
    ),
    "TRY: the model that merge_and_unload() gives": (
        "reference/test_live_export.py::test_an_adapter_beside_the_weights_is_refused"
    ),
    "a .phasor file already": "python/test_messages.py::test_the_advice_for_a_phasor_file_works",
    "(--tokenizer FILE adds one)": (
        "python/test_advice.py::test_a_model_without_a_tokenizer_says_which_flag_adds_one"
    ),
    "(--chat-date YYYY-MM-DD": "reference/test_way_out.py::test_a_template_that_asks_for_the_day",
    ": call \0 before you save": "reference/test_wrapped.py::test_factors_that_are_not_built",
    "tensor.contiguous()": "reference/test_wrapped.py::test_complex_and_expanded_buffers",
    "TRY: an adapter whose target_modules": "reference/test_lora_peft.py::test_what_is_refused",
    "TRY: a description by hand": (
        "reference/test_own_descriptions.py::test_a_description_is_proved"
    ),
    "TRY: classify_tokens, or tag": "python/test_runtime.py::test_classes_of_tokens",
    "or --chat none": "python/test_advice.py::test_a_template_without_its_package",
    "give an example without padding": MASKED,
    "TRY: a module that ends in its output matrix": LIVE,
    "TRY: a module around it": LIVE,
    "say which id pads": PADDED,
    "TRY: the module it was made of": LIVE,
    "TRY: put the computed value in its place": LIVE,
    "TRY: torch.nn.utils.remove_": LIVE,
    "TRY: a module that gives its logits": LIVE,
    "TRY: a module whose calls are the same": LIVE,
    "the shared library is missing": LIBRARY,
    "not the shared library of this package": LIBRARY,
    "others can reach it. TRY: --key-file FILE": SERVER,
    "TRY: --port": SERVER,
    "TRY: a file that phasor quantize made": ("python/test_convert.py::test_types_of_another_file"),
    "TRY: --i2s-blocks": "python/test_gguf_i2.py::test_the_order_must_be_said",
    "gives text: use /v1/completions": SERVED,
    "gives vectors: use /v1/embeddings": SERVED,
    ", that of this model": ORIGINAL,
    ", that of the model that it was made from": ORIGINAL,
    "is that of the decoder": (
        "python/test_convert_joined.py::test_the_tokenizer_of_the_decoder_is_not_the_sources"
    ),
    "say max_positions": "python/test_convert.py::test_positions_looked_up_by_token_ids",
    "say [rename]": (
        "python/test_convert.py::test_a_transformer_inside_of_a_class_takes_three_attempts"
    ),
    "write it as vocab.txt": (
        "python/test_descriptions.py::test_a_wordpiece_vocabulary_is_no_list_of_words"
    ),
    "the name of its encoding": "python/test_tiktoken.py::test_a_file_of_tiktoken",
}


def gathered() -> dict[str, str]:
    """The advice in the converter's source, with the place of each; BLANK for what is put in."""
    out = {}
    for path in sorted((ROOT / "tools/phasor").rglob("*.py")):
        tree = ast.parse(path.read_text())
        skipped = set()
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
                first = node.body[0] if node.body else None
                skipped |= {first.value} if isinstance(first, ast.Expr) else set()
            elif isinstance(node, ast.JoinedStr):
                skipped |= set(node.values)
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                skipped |= set(ast.walk(node))
        for node in ast.walk(tree):
            if node in skipped:
                continue
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else BLANK for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = re.sub(r"\{[a-z_]*\}", BLANK, node.value)
            else:
                continue
            if " " in text and ADVICE.search(text) and not text[0].isupper():
                out[text] = f"{path.relative_to(ROOT)}:{node.lineno}"
    return out


def pattern(text: str) -> re.Pattern:
    return re.compile(".*?".join(map(re.escape, text.split(BLANK))), re.S)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_no_advice_is_left_out():
    page = (ROOT / "docs/reference/messages.md").read_text()
    lines = [line for line in page.splitlines() if line[2:].split(" | ")[0] in FOLLOWED]
    left = {}
    for text, place in gathered().items():
        found = pattern(text)
        here = any(found.search(line) for line in lines)
        here = here or any(case.advice in text for case in CASES.values())
        if not here and not any(part in text for part in ELSEWHERE):
            left[place] = text
    assert not left, "\n".join(f"{place}: {text}" for place, text in left.items())


def test_what_is_followed_elsewhere_is():
    said = list(gathered())
    for part, test in ELSEWHERE.items():
        path, name = test.split("::")
        assert any(part in text for text in said), part
        assert name in functions(ROOT / "tests" / path), test
