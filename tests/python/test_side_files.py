"""The files beside a model's weights are closed lists: a key that is not in side_files.toml, or has
a value that changes something, is refused by name, and --ignore-key leaves it out."""

import re
from pathlib import Path

import numpy as np
import pytest
import test_convert_decoders
import test_convert_hf
import test_gguf
from safetensors.numpy import save_file

import ctranslate2_model
from conversions import convert_to
from phasor import convert, side_files
from phasor.errors import PhasorError
from phasor.files import read_value
from phasor.format.file import CHAT, SOURCE_TOKENIZER, TARGET_TOKENIZER, PhasorFile
from phasor.ignored import Ignored, ignoring, recorded
from phasor.reference.forward import Reference
from phasor.sources.hugging_face.around import check_segments, template_of
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.sources.sentence_transformers import modules
from phasor.tokenizers.vocabulary import Vocabulary
from places import ROOT, told
from texts import write_json

STRANGE = "zz_strange_key"
KINDS = {"Pooling": "1_Pooling", "Dense": "2_Dense", "LayerNorm": "3_LayerNorm"}
KINDS |= {"Dropout": "4_Dropout", "Normalize": "5_Normalize"}


pytestmark = pytest.mark.usefixtures("no_program")


# ---- The table


@pytest.mark.parametrize("name", side_files.table())
def test_a_key_has_one_reason(name):
    keys = [key for group in side_files.table()[name].groups for key in group.keys]
    assert len(keys) == len(set(keys)), [key for key in keys if keys.count(key) > 1]


def sample(key: str) -> str:
    return key.replace("*", "some")


def nested(key: str, value, flat: bool):
    """A file with the key alone."""
    for part in [sample(key)] if flat else reversed(sample(key).split(".")):
        value = {part: value}
    return value


@pytest.mark.parametrize("name", side_files.table())
def test_each_value_of_the_table_is_taken_and_others_are_refused(name):
    path, flat = Path("of") / name, name == side_files.GGUF
    for group in side_files.table()[name].groups:
        for key in group.keys:
            where = nested(key, "anything", flat)
            if group.rule.kind != "refused":
                side_files.check(path, where)
                continue
            with pytest.raises(PhasorError, match=f"^{path}: {re.escape(sample(key))}: 'anything'"):
                side_files.check(path, where)
            for value in (*group.rule.values, None):
                side_files.check(path, nested(key, value, flat))


@pytest.mark.parametrize("name", side_files.table())
def test_a_key_that_is_not_in_the_table_is_named_with_the_way_out(name):
    with pytest.raises(PhasorError) as error:
        side_files.check(Path("of") / name, {STRANGE: [1, 2]})
    assert str(error.value).startswith(f"of/{name}: {STRANGE} ([1, 2]): not known, and might")
    assert f"--ignore-key {name}:{STRANGE} reads the file without it" in str(error.value)
    many = {f"{STRANGE}{i}": i for i in range(30)}
    with pytest.raises(PhasorError, match="and 22 more: not known"):
        side_files.check(Path("of") / name, many)


# ---- Every file, in a directory that is converted


def tokenizer(**more) -> dict:
    """A small tokenizer.json of BERT's kind."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##d"]
    ids = {word: i for i, word in enumerate(words)}
    around = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in words[2:4]}
    token, text = (
        lambda name, segment: {"SpecialToken": {"id": name, "type_id": segment}},
        lambda name, segment: {"Sequence": {"id": name, "type_id": segment}},
    )
    single = [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": word, **flags, "special": True} for i, word in enumerate(words[:5])
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": False,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, text("B", 1), token("[SEP]", 1)],
            "special_tokens": around,
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
        **more,
    }


SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
}


def encoder(path: Path) -> test_convert_hf.Directory:
    """A sentence encoder with every file that one may have."""
    made = test_convert_hf.Directory(path)
    test_convert_hf.sentence(made)
    width = test_convert_hf.WIDTH
    kinds = ["Transformer", *KINDS]
    made.more |= {
        "modules.json": [
            {"idx": i, "name": str(i), "path": KINDS.get(kind, ""), "type": f"of.models.{kind}"}
            for i, kind in enumerate(kinds)
        ],
        "2_Dense/config.json": {"in_features": width, "out_features": width},
        "3_LayerNorm/config.json": {"dimension": width},
        "4_Dropout/config.json": {"dropout": 0.1},
        "config_sentence_transformers.json": {"__version__": {"pytorch": "2"}},
        "tokenizer.json": tokenizer(
            truncation={"max_length": 5, "stride": 0, "strategy": "LongestFirst"},
            padding={"strategy": {"Fixed": 9}, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        ),
        "tokenizer_config.json": dict(SETTINGS),
        "special_tokens_map.json": {"unk_token": "[UNK]"},
        "preprocessor_config.json": {"do_resize": True},
    }
    return made


def written(made) -> Path:
    """Its directory, with the weights of the modules."""
    source, width = made.write(), test_convert_hf.WIDTH
    rng = np.random.default_rng(7)
    for name, shape in (("2_Dense/model", (width, width)), ("3_LayerNorm/model", (width,))):
        start = "linear" if "Dense" in name else "norm"
        arrays = {f"{start}.weight": rng.normal(size=shape), f"{start}.bias": np.ones(width)}
        path = source / f"{name}.safetensors"
        path.parent.mkdir(exist_ok=True)
        save_file({k: v.astype(np.float32) for k, v in arrays.items()}, path)
    return source


def late(path: Path) -> test_convert_hf.Directory:
    """Stanford's ColBERT, with what its code says of itself."""
    made = test_convert_hf.Directory(path)
    made.arrays = {n: value for n, value in made.arrays.items() if n.startswith("bert.")}
    made.arrays["linear.weight"] = np.ones((7, test_convert_hf.WIDTH), np.float32)
    made.config["architectures"] = ["HF_ColBERT"]
    made.more = {"tokenizer.json": tokenizer(), "tokenizer_config.json": dict(SETTINGS)}
    made.more["artifact.metadata"] = {
        **{"query_maxlen": 8, "doc_maxlen": 9, "query_token_id": "a", "doc_token_id": "b"},
        **{"dim": 7, "similarity": "cosine", "lr": 1e-5, "meta": {"version": "colbert-v0.4"}},
    }
    return made


def decoder(path: Path) -> test_convert_decoders.Directory:
    made = test_convert_decoders.Directory(path)
    made.more = {
        "generation_config.json": {"do_sample": True},
        "chat_template.json": {"chat_template": "{{ messages[0].content }}"},
    }
    return made


FILES = [
    "tokenizer_config.json",
    "special_tokens_map.json",
    *(f"tokenizer.json {part}" for part in "model normalizer pre_tokenizer decoder".split()),
    *(f"tokenizer.json {part}" for part in "post_processor truncation padding".split()),
    "tokenizer.json added_tokens",
    "tokenizer.json",
    "sentence_bert_config.json",
    "modules.json",
    *(f"{KINDS[kind]}/config.json" for kind in ("Pooling", "Dense", "LayerNorm", "Dropout")),
    "config_sentence_transformers.json",
    "preprocessor_config.json",
    "generation_config.json",
    "chat_template.json",
    "adapter_config.json",
    "artifact.metadata",
    "config.json of CTranslate2",
]


@pytest.fixture()
def source(request, tmp_path):
    """(the directory, flags, the file) for a name of FILES."""
    name = request.param.split()[0]
    if "CTranslate2" in request.param:
        folder, flags = ctranslate2_model.Model().write(tmp_path / "m", config={}), []
    elif name == "artifact.metadata":
        folder, flags = late(tmp_path).write(), []
    elif name in ("generation_config.json", "chat_template.json", "adapter_config.json"):
        folder, flags = decoder(tmp_path).write(), []
    else:
        folder, flags = written(encoder(tmp_path)), []
    path = folder / name
    if name == "adapter_config.json":
        adapter = test_convert_decoders.Adapter(tmp_path).write()
        flags, path = ["--lora", str(adapter)], adapter / name
    return folder, flags, path


@pytest.mark.parametrize("source, place", [(name, name) for name in FILES], indirect=["source"])
def test_a_random_key_is_refused_and_ignored_by_its_flag(source, place, tmp_path, capsys):
    folder, flags, path = source
    output = tmp_path / "m.phasor"

    def run(*more):
        status = convert.main([str(folder), "-o", str(output), "--quiet", *flags, *more])
        return status, capsys.readouterr().err

    assert run() == (0, "")
    before = output.read_bytes()
    whole = read_value(path)
    part = place.partition("tokenizer.json ")[2]
    inside = whole[part] if part else whole
    inside = inside[0] if isinstance(inside, list) else inside
    inside[STRANGE] = 3
    write_json(path, whole)
    output.unlink()
    status, said = run()
    assert status == 1 and not output.exists() and len(said.splitlines()) == 1
    assert str(path.name) in said and STRANGE in said, said
    key = f"{part}.{STRANGE}" if part else STRANGE
    file = str(path.relative_to(folder)) if folder in path.parents else path.name
    assert run("--ignore-key", f"{file}:{key}") == (0, "")
    written_by = PhasorFile(output).descriptor["model"]["converter"]
    assert written_by == f"tools/convert.py --ignore-key {file}:{key}"
    inside.pop(STRANGE)
    write_json(path, whole)
    assert run() == (0, "") and output.read_bytes() == before


@pytest.mark.parametrize(
    "change, says",
    [
        ({"similarity": "l2"}, "similarity: 'l2' is not supported"),
        ({"interaction": "flipr"}, "interaction: 'flipr' is not supported"),
        ({"pool_factor": 2}, "pool_factor: 2 is not supported"),
        ({"dim": 8}, "dim: 8, and linear.weight has 7 rows"),
        ({"dim": "7"}, "dim: '7', expected a whole number"),
    ],
)
def test_what_colbert_says_and_is_not_built(change, says, tmp_path, capsys):
    made = late(tmp_path)
    made.more["artifact.metadata"] |= change
    assert made.run() == 1 and not made.output.exists()
    said = capsys.readouterr().err
    assert f"artifact.metadata: {says}" in said and len(said.splitlines()) == 1, said


def test_a_key_of_gguf(tmp_path, capsys):
    path, output = tmp_path / "small.gguf", tmp_path / "m.phasor"
    for key in (f"general__{STRANGE}", STRANGE, f"tokenizer__ggml__{STRANGE}"):
        name = key.replace("__", ".")
        path.write_bytes(test_gguf.changed(**{key: (test_gguf.U32, 3)}))
        words = [str(path), "-o", str(output), "--quiet"]
        if not name.startswith("tokenizer"):
            assert convert.main(words) == 1
            assert f"small.gguf: {name} (3): not known" in capsys.readouterr().err
        assert convert.main([*words, "--ignore-key", f"small.gguf:{name}"]) == 0
        assert name in PhasorFile(output).descriptor["model"]["converter"]


# ---- --ignore-key


@pytest.mark.parametrize(
    "key, before, after",
    [
        ("a", {"a": 1, "b": 2}, {"b": 2}),
        ("a.b", {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
        ("a.b", {"a.b": 1, "a": {"b": 3}}, {"a": {"b": 3}}),
        ("a.b.c", {"a.b": {"c": 1}}, {"a.b": {}}),
        ("a", [{"a": 1}, {"b": 2}], [{}, {"b": 2}]),
        ("a.b", {"a": [{"b": 1}, 3]}, {"a": [{}, 3]}),
    ],
)
def test_what_a_key_is(key, before, after):
    one = Ignored(f"x.json:{key}")
    one.drop(before)
    assert before == after and one.met


@pytest.mark.parametrize("text", ["", "a", ":a", "a:", "a:b\n", "a:" + "b" * 2000, "a:\udc80"])
def test_a_flag_that_is_none(text):
    with pytest.raises(PhasorError, match="^--ignore-key .*: expected FILE:KEY"):
        Ignored(text)


def test_a_key_that_no_file_has_is_an_error(tmp_path, capsys):
    made = decoder(tmp_path)
    flag = "generation_config.json:topk"
    assert made.run("--ignore-key", flag) == 1 and not made.output.exists()
    assert f"--ignore-key {flag}: no file that was read has this key" in capsys.readouterr().err
    assert made.run(*["--ignore-key=a:b", "--ignore-key=c:d"] * 40) == 1
    capsys.readouterr()
    with ignoring([f"a:{i}" for i in range(64)]) as given:
        assert len(given) == 64
    with pytest.raises(PhasorError, match="given 65 times, expected at most 64"):
        with ignoring([f"a:{i}" for i in range(65)]):
            pass


def test_a_file_is_named_by_the_end_of_its_path(tmp_path):
    for folder in ("1_Pooling", "2_Dense"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text('{"a": 1, "b": 2}')
    with ignoring(["2_Dense/config.json:a"]) as given:
        assert read_value(tmp_path / "1_Pooling/config.json") == {"a": 1, "b": 2}
        assert read_value(tmp_path / "2_Dense/config.json") == {"b": 2}
    assert recorded(given) == " --ignore-key 2_Dense/config.json:a"
    assert read_value(tmp_path / "2_Dense/config.json") == {"a": 1, "b": 2}


def test_the_program_prints_what_was_ignored(tmp_path):
    program = ROOT / "build/phasor"
    if not program.is_file():
        pytest.skip(f"{program} is missing: run make")
    made = decoder(tmp_path)
    made.more["generation_config.json"][STRANGE] = 1
    flag = f"--ignore-key=generation_config.json:{STRANGE}"
    assert made.run(flag) == 0
    words = [program, "inspect", made.output]
    said = told(*words)
    assert f"converter = tools/convert.py --ignore-key generation_config.json:{STRANGE}" in said


# ---- Values that matter


def info(folder: Path, config: dict, **more) -> dict:
    folder.mkdir(exist_ok=True)
    write_json(folder / "tokenizer.json", tokenizer(**more))
    write_json(folder / "tokenizer_config.json", {**SETTINGS, **config})
    return build_hf_section(folder)[1]


@pytest.mark.parametrize(
    "config, segment",
    [
        ({}, 1),
        ({"model_input_names": ["input_ids", "attention_mask"]}, 0),
        ({"model_input_names": ["input_ids", "token_type_ids"]}, 1),
        ({"tokenizer_class": "DistilBertTokenizer", "do_lower_case": False}, 0),
        ({"tokenizer_class": "BertTokenizerFast", "do_lower_case": False}, 1),
        ({"tokenizer_class": "BigBirdTokenizerFast"}, 0),
        ({"tokenizer_class": "TokenizersBackend", "backend": "tokenizers"}, 0),
        ({"tokenizer_class": "FunnelTokenizer", "do_lower_case": False}, 1),
        ({"tokenizer_class": "FunnelTokenizer", "do_lower_case": False, "backend": "x"}, 0),
    ],
)
def test_the_segment_of_a_pairs_second_text(tmp_path, config, segment):
    assert info(tmp_path, config)["pair_segment"] == segment


# (single, pair) → the segment of a second text; None: special tokens have segments of their own,
# or the first text has another than 0.
TEMPLATES = {
    ("c0 A0 s0", "c0 A0 s0 B1 s1"): 1,
    ("c0 A0 s0", "c0 A0 s0 B0 s0"): 0,
    ("A0", "A0 B3"): 3,
    ("c0 A0", "c0 A0 c1 B1"): None,
    ("c0 A0 s0", "c0 A0 s1 B1 s1"): None,
    ("c0 A0 s0", "c0 A0 s0 B1 s0"): None,
    ("c1 A0 s0", "c0 A0 s0 B1 s1"): None,
    ("c0 A0 s2", "c0 A0 s0 B1 s1"): None,
    ("A1", "A0 B1"): None,
    ("A0", "A1 B0"): None,
}


def template(items: str) -> list[dict]:
    names = {"c": "[CLS]", "s": "[SEP]"}
    return [
        {"SpecialToken" if name in names else "Sequence": dict(id=names.get(name, name), type_id=n)}
        for name, n in ((item[0], int(item[1])) for item in items.split())
    ]


@pytest.mark.parametrize("kind", ["WordPiece", "BPE"])
@pytest.mark.parametrize("forms", TEMPLATES)
def test_the_segments_of_a_template(forms, kind):
    tokens = {name: {"id": name, "ids": [0], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    single, pair = map(template, forms)
    step = dict(type="TemplateProcessing", single=single, pair=pair, special_tokens=tokens)
    spec = {"post_processor": step, "model": {"type": kind}}
    found = template_of(spec, Vocabulary({"[CLS]": 0}, []))
    assert found["other_segments"] == (TEMPLATES[forms] is None)
    said = {**found, "untyped_by_version": False}
    assert check_segments(said, 0) == []
    if TEMPLATES[forms] is None:
        with pytest.raises(PhasorError, match="such type ids"):
            check_segments(said, 1)
    else:
        assert found["pair_segment"] == TEMPLATES[forms]
        assert check_segments(said, 2) == []


@pytest.mark.parametrize("step", [None, {"type": "ByteLevel"}])
def test_the_second_segment_without_a_template(tmp_path, step):
    assert info(tmp_path, {}, post_processor=step)["pair_segment"] == 1


def test_token_types_that_depend_on_the_version_are_noted(tmp_path, capsys):
    made = test_convert_hf.Directory(tmp_path)
    made.classes(2)
    made.more = {"tokenizer.json": tokenizer(), "tokenizer_config.json": dict(SETTINGS)}
    flags = [str(made.write()), "-o", str(made.output)]
    assert convert.main(flags) == 0
    assert "transformers 5 gives both texts of a pair segment 0" in capsys.readouterr().err
    made.more["tokenizer_config.json"]["model_input_names"] = ["input_ids", "token_type_ids"]
    made.write()
    assert convert.main(flags) == 0 and "segment 0" not in capsys.readouterr().err
    with pytest.raises(PhasorError, match="model_input_names: 'x', expected a list of texts"):
        info(tmp_path / "t", {"model_input_names": "x"})


@pytest.mark.parametrize(
    "config, more, name",
    [
        ({"truncation_side": "left"}, {}, "tokenizer_config.json: truncation_side"),
        ({}, {"truncation": {"direction": "Left"}}, "tokenizer.json: truncation.direction"),
    ],
)
def test_an_encoders_texts_that_lose_their_beginning(tmp_path, capsys, config, more, name):
    made = test_convert_hf.Directory(tmp_path)
    made.more = {"tokenizer.json": tokenizer(**more)}
    made.more["tokenizer_config.json"] = {**SETTINGS, **config}
    assert made.run() == 1
    said = capsys.readouterr().err
    assert f"{name}: 'left' is not supported: too long a text is cut at its end" in said
    flag = re.search("--ignore-key [^ ]*", said)[0].split()
    assert made.run(*flag) == 0
    # What is said in tokenizer_config.json counts more.
    made.more["tokenizer_config.json"]["truncation_side"] = "right"
    assert made.run() == 0
    made.more["tokenizer_config.json"]["truncation_side"] = "middle"
    assert made.run() == 1 and "'middle', expected left or right" in capsys.readouterr().err


def test_a_decoders_prompt_is_never_cut(tmp_path):
    made = test_convert_decoders.Directory(tmp_path)
    made.more = {"tokenizer.json": tokenizer()}
    made.more["tokenizer_config.json"] = {**SETTINGS, "truncation_side": "left"}
    assert made.run() == 0


@pytest.mark.parametrize("lowers", [False, True])
def test_lower_case_of_sentence_transformers(tmp_path, lowers):
    """sentence-transformers puts a step in front where no step makes lower case."""
    made = encoder(tmp_path)
    made.more["tokenizer.json"]["normalizer"]["lowercase"] = lowers
    output = [str(written(made)), "-o", str(made.output), "--quiet"]
    sections = []
    for said in (False, True):
        made.more["sentence_bert_config.json"]["do_lower_case"] = said
        written(made)
        assert convert.main(output) == 0
        sections.append(PhasorFile(made.output).section(SOURCE_TOKENIZER))
    assert (sections[0] == sections[1]) == lowers


def test_several_dense_modules_are_one(tmp_path, capsys):
    """Their product, where nothing but the last has an activation."""
    made, width = encoder(tmp_path), test_convert_hf.WIDTH
    for kind in ("LayerNorm", "Dropout"):
        del made.more[f"{KINDS[kind]}/config.json"]
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense")]
    kinds += [("Dense", "3_Dense"), ("Dense", "4_Dense")]
    made.more["modules.json"] = [
        {"idx": i, "name": "", "path": path, "type": kind} for i, (kind, path) in enumerate(kinds)
    ]
    sizes = [width, 30, 7, 5]
    rng = np.random.default_rng(5)
    x = wanted = rng.normal(size=(width,))
    source = made.write()
    for i, (_, path) in enumerate(kinds[2:]):
        biased = i != 1
        last = "activation.Tanh" if i == 2 else "linear.Identity"
        made.more[f"{path}/config.json"] = {
            "in_features": sizes[i],
            "out_features": sizes[i + 1],
            "bias": biased,
            "activation_function": f"torch.nn.modules.{last}",
        }
        arrays = {"linear.weight": rng.normal(size=(sizes[i + 1], sizes[i])).astype(np.float32)}
        if biased:
            arrays["linear.bias"] = rng.normal(size=sizes[i + 1]).astype(np.float32)
        (source / path).mkdir(exist_ok=True)
        save_file(arrays, source / path / "model.safetensors")
        wanted = arrays["linear.weight"].astype(np.float64) @ wanted + arrays.get("linear.bias", 0)
    made.write()
    found = modules.read(source)
    name = found.head["dense"]
    matrix, bias = (found.tensors[f"{name}.{part}"].load() for part in ("weight", "bias"))
    assert matrix.shape == (5, width) and found.head["activation"] and found.head["dense_bias"]
    assert np.abs(matrix @ x + bias - wanted).max() < 1e-5 * np.abs(wanted).max()
    assert made.run() == 0
    d = PhasorFile(made.output).descriptor
    assert d["output"]["head_width"] == 5 and d["output"]["head_bias"] == 1
    made.more["3_Dense/config.json"]["activation_function"] = "torch.nn.modules.activation.Tanh"
    assert made.run() == 1
    refused = capsys.readouterr().err
    assert "activation_function: between two Dense modules is not supported" in refused
    made.more["3_Dense/config.json"]["activation_function"] = "torch.nn.Identity"
    save_file({"linear.weight": np.ones((7, 4), np.float32)}, source / "3_Dense/model.safetensors")
    assert made.run() == 1 and "the sizes do not fit" in capsys.readouterr().err


@pytest.mark.parametrize("kept", [4, test_convert_hf.WIDTH, 99])
@pytest.mark.parametrize("dense", [False, True])
def test_vectors_that_are_cut(tmp_path, kept, dense):
    made, width = encoder(tmp_path), test_convert_hf.WIDTH
    kinds = ["Transformer", "Pooling", *["Dense"] * dense]
    made.more["modules.json"] = made.more["modules.json"][: len(kinds)]
    source = written(made)
    ids, vectors = [5, 6, 7, 3], []
    for more in ({}, {"truncate_dim": kept}):
        made.more["config_sentence_transformers.json"] = more
        written(made)
        convert_to(source, made.output)
        model = Reference(PhasorFile(made.output))
        vectors.append(model.output(model.encode(ids))[0])
    assert vectors[0].shape == (width,)
    assert np.abs(vectors[1] - vectors[0][:kept]).max() < 1e-6
    assert vectors[1].shape == (min(kept, width),)


def test_a_cut_behind_a_division_is_refused(tmp_path, capsys):
    made = encoder(tmp_path)
    made.more["config_sentence_transformers.json"] = {"truncate_dim": 4}
    words = [str(written(made)), "-o", str(made.output), "--quiet"]
    assert convert.main(words) == 1
    said = capsys.readouterr().err
    assert "truncate_dim: 4 values of a vector that LayerNorm or Normalize made" in said
    flag = re.search("--ignore-key [^ ]*", said)[0].split()
    assert convert.main([*words, *flag]) == 0


@pytest.mark.parametrize("name", ["bert", "roberta", "xlm-roberta"])
def test_older_names_of_the_encoders_file(tmp_path, name):
    made = encoder(tmp_path)
    del made.more["sentence_bert_config.json"]
    made.more[f"sentence_{name}_config.json"] = {"max_seq_length": 6}
    convert_to(written(made), made.output)
    assert PhasorFile(made.output).descriptor["source"]["longest_text"] == 6


@pytest.mark.parametrize(
    "config, line",
    [
        ({"image_token": "<image>"}, "image_token: '<image>' is not an added token"),
        ({"image_token": {"content": "<image>"}}, "image_token: '<image>' is not an added"),
        ({"model_specific_special_tokens": {"a": "<a>"}}, "a: '<a>' is not an added token"),
        ({"image_token": "[MASK]"}, ""),
        ({"tokenizer_class": "AlbertTokenizer", "do_lower_case": True}, "has no Lowercase"),
        ({"tokenizer_class": "AlbertTokenizer", "keep_accents": False}, "has no StripAccents"),
        ({"tokenizer_class": "AlbertTokenizer", "do_lower_case": False}, ""),
        ({"tokenizer_class": "DebertaV2Tokenizer", "split_by_punct": True}, "has no Punctuation"),
        ({"tokenizer_class": "XLMRobertaTokenizer", "do_lower_case": True}, ""),
        ({"auto_map": {"AutoTokenizer": ["x.Y", None]}}, "code of the directory's own"),
        ({"fix_mistral_regex": True}, "another pre-tokenizer"),
    ],
)
def test_settings_of_a_tokenizer(tmp_path, config, line):
    if not line:
        info(tmp_path, config)
        return
    with pytest.raises(PhasorError, match=line):
        info(tmp_path, config)


# ---- An adapter's own files

TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}"


def test_an_adapters_own_tokenizer_and_template(tmp_path, capsys):
    made = test_convert_decoders.Directory(tmp_path)
    made.more = {"tokenizer.json": tokenizer(), "tokenizer_config.json": dict(SETTINGS)}
    adapter = test_convert_decoders.Adapter(tmp_path).write()
    words = [str(made.write()), "-o", str(made.output), "--lora", str(adapter)]
    assert convert.main(words) == 0 and "the adapter's" not in capsys.readouterr().err
    plain = {kind: data for kind, data in sections(made.output).items()}
    write_json(adapter / "tokenizer_config.json", {"chat_template": TEMPLATE})
    assert convert.main(words) == 0
    said = capsys.readouterr().err
    assert f"the chat template is the adapter's, of {adapter}" in said
    assert "the tokenizer is the adapter's" not in said
    own = tokenizer()
    own["normalizer"]["lowercase"] = True
    write_json(adapter / "tokenizer.json", own)
    write_json(adapter / "tokenizer_config.json", {**SETTINGS, "chat_template": TEMPLATE})
    assert convert.main(words) == 0
    assert f"the tokenizer is the adapter's, of {adapter}" in capsys.readouterr().err
    theirs = sections(made.output)
    assert set(theirs) == {*plain, CHAT}
    assert theirs[TARGET_TOKENIZER] != plain[TARGET_TOKENIZER]
    theirs = ["--chat", "none", "--tokenizer", f"{made.path}/tokenizer.json"]
    assert convert.main([*words, *theirs]) == 0
    assert sections(made.output) == plain


def sections(path: Path) -> dict[int, bytes]:
    file = PhasorFile(path)
    kinds = (TARGET_TOKENIZER, CHAT)
    return {kind: bytes(file.section(kind)) for kind in kinds if kind in file.sections}
