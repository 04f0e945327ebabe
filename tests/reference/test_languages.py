"""--source-lang, --target-lang and --prompt of the program against transformers 4 and 5: the ids of
a text are its tokenizers', and outputs, greedy and of beams, those of generate() with the
language's token where each class has it. Small random models with trained tokenizers."""

from __future__ import annotations

import json
import random
import subprocess
import warnings
from pathlib import Path

import pytest
import torch
import transformers
from answers import Translator, newer_answers
from test_tokenizer_listed import train
from transformers.models.m2m_100 import tokenization_m2m_100

from phasor import convert
from phasor.format.layout import F32
from phasor.sources.find import read_source

SCORE, NEW, WIDTH, BEAMS = 1e-4, 8, 32, 3
LANGUAGES = {
    "MBart": ["ro_RO", "en_XX", "zh_CN"],
    "MBart50": ["fr_XX", "en_XX", "xh_ZA"],
    "Nllb": ["fra_Latn", "eng_Latn", "zho_Hant"],
    "M2M100": ["fr", "en", "zh"],
    "PLBart": ["java", "en_XX", "python"],
    "Marian": ["fra", "cmn_Hans"],
}

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)


def lines() -> list[str]:
    rng = random.Random(5)
    words = [
        "".join(rng.choice("aeioubdklmnrst") for _ in range(rng.randint(2, 7))) for _ in "x" * 400
    ]
    return [" ".join(rng.choice(words) for _ in range(8)) for _ in range(600)]


def tokenizer(kind: str, folder: Path) -> transformers.PreTrainedTokenizer:
    bpe = kind in ("M2M100", "Nllb")
    pieces = train(folder / "spm.model", lines(), 300, "bpe" if bpe else "unigram")
    made, spm = getattr(transformers, f"{kind}Tokenizer"), str(folder / "spm.model")
    if kind == "Marian":
        order = ["</s>", "<unk>", *pieces, *(f">>{n}<<" for n in LANGUAGES[kind]), "<pad>"]
    elif kind == "M2M100":
        order = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    else:
        return made(spm)
    (folder / "vocab.json").write_text(json.dumps({text: i for i, text in enumerate(order)}))
    names = [str(folder / "vocab.json"), spm]
    if kind == "Marian":
        return made(spm, spm, str(folder / "vocab.json"))
    known = tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    return made(*names, additional_special_tokens=[f"__{c}__" for c in known])  # as published


def model(kind: str, words: transformers.PreTrainedTokenizer) -> torch.nn.Module:
    sizes = {
        f"{stack}_{what}": n
        for stack in ("encoder", "decoder")
        for what, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 37))
    }
    own = {"Nllb": "M2M100", "MBart50": "MBart"}.get(kind, kind)
    name = "MarianMTModel" if kind == "Marian" else f"{own}ForConditionalGeneration"
    made = getattr(transformers, name)
    first = {"Marian": words.pad_token_id, "MBart": words.convert_tokens_to_ids("ro_RO")}
    first["PLBart"] = words.convert_tokens_to_ids("__java__")
    config = made.config_class(
        vocab_size=max(len(words), 8 + max(words.added_tokens_decoder)),
        d_model=WIDTH,
        max_position_embeddings=64,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        bos_token_id=words.bos_token_id if words.bos_token_id is not None else 0,
        decoder_start_token_id=first.get(kind, words.eos_token_id),
        forced_eos_token_id=None,
        **sizes,
    )
    torch.manual_seed(len(kind))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = made(config)
    with torch.no_grad():
        for name, p in out.named_parameters():
            if not p.requires_grad:  # Marian's sinusoids
                continue
            p.copy_(torch.randn_like(p) * (0.5 if p.dim() > 1 else 0.1))
            if "norm" in name and name.endswith("weight"):
                p.add_(1)
    return out.eval()


class Made(Translator):
    def __init__(self, kind: str, folder: Path) -> None:
        words = tokenizer(kind, folder)
        super().__init__(kind, words, model(kind, words))
        self.folder, self.path = folder / "source", folder / "m.phasor"
        self.model.save_pretrained(self.folder)
        self.words.save_pretrained(self.folder)
        convert_to(self.folder, self.path)


def convert_to(source: Path, path: Path) -> None:
    read, sections = read_source(source)
    convert.convert(read, path, F32, sections, None, quiet=True)


@pytest.fixture(scope="module")
def every(tmp_path_factory) -> dict[str, Made]:
    return {kind: Made(kind, tmp_path_factory.mktemp(kind)) for kind in LANGUAGES}


@pytest.fixture(scope="module", params=LANGUAGES)
def made(request, every):
    return every[request.param]


def asks(kind: str) -> list[tuple]:
    """Texts between each language and the next: the arguments of Translator.answer."""
    names = LANGUAGES[kind]
    between = [*zip(names, names[1:] + names[:1])]
    return [(t, s, to, BEAMS, NEW) for s, to in between for t in [*lines()[:3], "Über 42!"]]


@pytest.fixture(scope="module")
def newer(every, tmp_path_factory) -> dict[str, tuple[Path, list[dict]]]:
    """Of each kind the directory that the newer version saves, and its answers."""
    out = tmp_path_factory.mktemp("newer")
    jobs = [
        {"kind": kind, "folder": str(m.folder), "again": str(out / kind), "asks": asks(kind)}
        for kind, m in every.items()
    ]
    answers = newer_answers(out, jobs)
    return {kind: (out / kind, one) for kind, one in zip(every, answers)}


def asked(*argv: object, text: str = "") -> str:
    done = subprocess.run(list(map(str, argv)), input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def flags(made: Made, source: str | None, target: str | None) -> list[str]:
    out = ["--source-lang", source] if source and made.kind != "Marian" else []
    return out + (["--target-lang", target] if target else [])


def test_ids_are_the_tokenizers(made, phasor):
    texts = [*lines()[:20], "a", " two  spaces ", "Über 42!"]
    names: list[str | None] = [None, *LANGUAGES[made.kind]]
    for name in names[1:] if made.kind != "Marian" else names:
        other = name if made.kind == "Marian" else None
        argv = [phasor, "tokenize", made.path, "--print-ids", *flags(made, name, other)]
        got = asked(*argv, text="".join(f"{t}\n" for t in texts)).splitlines()
        want = [made.ids(t, name, other) for t in texts]
        assert [list(map(int, row.split(","))) for row in got] == want, name


def same_outputs(phasor: Path, path: Path, made: Made, answers: list[dict]) -> set[tuple]:
    """The outputs of the program are those answered to asks(): the greedy ones."""
    for (text, source, target, beams, new), want in zip(asks(made.kind), answers):
        how = flags(made, source, target)
        got = asked(phasor, "tokenize", path, "--print-ids", *how, text=text + "\n")
        assert [int(i) for i in got.split(",")] == want["ids"]
        argv = [phasor, "run", path, text, "--json", "--quiet", "-n", new, *how]
        assert json.loads(asked(*argv))["ids"] == want["greedy"]
        found = json.loads(asked(*argv, "--beam", beams, "--n-best", beams))["outputs"]
        assert [o["ids"] for o in found] == want["rows"]
        assert all(abs(o["score"] - s) < SCORE for o, s in zip(found, want["scores"], strict=True))
    return {tuple(want["greedy"]) for want in answers}


def test_outputs_are_those_of_generate(made, phasor):
    answers = [made.answer(*one) for one in asks(made.kind)]
    seen = same_outputs(phasor, made.path, made, answers)
    assert len(seen) > len(LANGUAGES[made.kind])  # the language and the text make a difference


@pytest.mark.parametrize("of", ["older", "newer"])
def test_outputs_are_those_of_the_newer_version(of, made, newer, tmp_path, phasor):
    """Of the older version's directory, and of the same saved again by the newer, which has a
    tokenizer.json where its class has no files of its own."""
    folder, answers = newer[made.kind]
    path = made.path if of == "older" else tmp_path / "m.phasor"
    if of == "newer":
        convert_to(folder, path)
    same_outputs(phasor, path, made, answers)


def test_a_target_is_scored_in_its_language(made, phasor):
    """Behind the language, which is certain."""
    source, target = LANGUAGES[made.kind][:2]
    text, said = lines()[:2]
    words = [*made.words(said, add_special_tokens=False).input_ids, made.words.eos_token_id]
    start, name = made.model.config.decoder_start_token_id, made.id_of(target)
    begin = {"Marian": [start], "MBart": [name], "PLBart": [name]}.get(made.kind, [start, name])
    with torch.no_grad():
        logits = made.model(
            input_ids=torch.tensor([made.ids(text, source, target)]),
            decoder_input_ids=torch.tensor([[*begin, *words[:-1]]]),
        ).logits[0, len(begin) - 1 :]
    want = logits.double().log_softmax(-1)[range(len(words)), words].sum()
    argv = [phasor, "score", made.path, text, "--target", said, "--json", "--quiet"]
    ours = json.loads(asked(*argv, *flags(made, source, target)))
    assert ours["tokens"] == len(words)
    assert abs(ours["log_probability"] - want) < 1e-4 * abs(want)


def test_lines_side_by_side_have_the_language_too(made, phasor):
    names, texts = LANGUAGES[made.kind], lines()[:6]
    argv = [phasor, "run", made.path, "--print-ids", "--quiet", "-n", NEW]
    argv += flags(made, names[0], names[1])
    text = "".join(f"{t}\n" for t in texts)
    assert asked(*argv, "--batch", 4, text=text) == asked(*argv, text=text)
    beams = ["--beam", 2]
    assert asked(*argv, *beams, "--batch", 3, text=text) == asked(*argv, *beams, text=text)


def test_it_is_what_the_converter_puts_into_the_file(made, tmp_path, phasor):
    names = LANGUAGES[made.kind]
    source = "" if made.kind == "Marian" else names[0]
    read, sections = read_source(made.folder, source_lang=source, target_lang=names[1])
    convert.convert(read, tmp_path / "m.phasor", F32, sections, None, quiet=True)
    argv = ["--print-ids", "--quiet", "-n", NEW]
    text = "".join(f"{t}\n" for t in lines()[:5])
    ours = asked(phasor, "run", made.path, *argv, *flags(made, names[0], names[1]), text=text)
    assert ours == asked(phasor, "run", tmp_path / "m.phasor", *argv, text=text)
    # and a file with one takes another
    back = flags(made, names[1], names[0])
    theirs = asked(phasor, "run", made.path, *argv, *back, text=text)
    assert asked(phasor, "run", tmp_path / "m.phasor", *argv, *back, text=text) == theirs != ours


def test_an_unknown_language_lists_those_there_are(made, phasor):
    for flag in ("--source-lang", "--target-lang"):
        done = subprocess.run(
            [phasor, "run", made.path, "a", flag, "xx"], capture_output=True, text=True
        )
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert f"{flag} xx: is none of the model's languages: " in done.stderr
        assert all(f" {name}" in done.stderr for name in LANGUAGES[made.kind])
        assert len(done.stderr) < 4000


def test_a_source_language_that_marian_knows_itself(made, phasor):
    argv = [phasor, "run", made.path, "a", "--source-lang", LANGUAGES[made.kind][0], "-n", "1"]
    done = subprocess.run(argv, capture_output=True, text=True)
    known = "knows its source's language by itself" in done.stderr
    assert (done.returncode, known) == ((1, True) if made.kind == "Marian" else (0, False))


# ---- Prefixes of tasks

TASKS = {
    "summarization": {"prefix": "summarize: ", "num_beams": 4},
    "translation_en_to_de": {"prefix": "translate English to German: "},
    "none": {"max_length": 3},
}


@pytest.fixture(scope="module")
def t5(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    train(folder / "spm.model", [*lines(), "summarize: English German"], 200, "unigram", **ids)
    words = transformers.T5Tokenizer(str(folder / "spm.model"), extra_ids=2)
    config = transformers.T5Config(
        vocab_size=len(words),
        d_model=WIDTH,
        d_kv=8,
        d_ff=37,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        task_specific_params=TASKS,
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder / "source")
    words.save_pretrained(folder / "source")
    read, sections = read_source(folder / "source")
    convert.convert(read, folder / "m.phasor", F32, sections, None, quiet=True)
    return folder / "m.phasor", words


@pytest.mark.parametrize("name", ["summarization", "translation_en_to_de", None])
def test_a_prefix_goes_before_each_text(name, t5, phasor):
    path, words = t5
    texts, prefix = lines()[:10], TASKS[name]["prefix"] if name else "ask me: "
    how = ["--prompt", name] if name else ["--prompt-text", prefix]
    given = "".join(f"{t}\n" for t in texts)
    got = asked(phasor, "tokenize", path, "--print-ids", *how, text=given).splitlines()
    want = [words(prefix + t).input_ids for t in texts]
    assert [list(map(int, row.split(","))) for row in got] == want
    argv = [phasor, "run", path, "--print-ids", "--quiet", "-n", NEW]
    with_prefix = "".join(f"{prefix}{t}\n" for t in texts)
    assert asked(*argv, *how, text=given) == asked(*argv, text=with_prefix)
    assert asked(*argv, *how, "--batch", 3, text=given) == asked(*argv, text=with_prefix)


def test_a_line_of_any_length_has_room_for_the_prefix(t5, phasor):
    path, _ = t5
    long = "a" * 4096 + "\n" + "b\n"
    argv = [phasor, "tokenize", path, "--print-ids", "--prompt-text", "x" * 9000]
    assert len(asked(*argv, text=long).splitlines()) == 2


@pytest.mark.parametrize(
    "argv, line",
    [
        (["--prompt", "none"], "--prompt none: expected one of summarization, translation_en_to"),
        (["--prompt", "a", "--prompt-text", "b"], "expected either --prompt or --prompt-text"),
        (["--source-lang", "en"], "--source-lang en: the model's tokenizer has no languages"),
    ],
    ids=["unknown", "both", "no languages"],
)
def test_what_cannot_be(argv, line, t5, phasor):
    done = subprocess.run([phasor, "run", t5[0], "a", *argv], capture_output=True, text=True)
    assert done.returncode in (1, 2) and line in done.stderr and done.stderr.count("\n") == 1


def test_flags_of_an_encoder_decoder_alone(phasor, tmp_path):
    done = subprocess.run(
        [phasor, "run", decoder_alone(tmp_path), "--ids", "1", "--source-lang", "en"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "--source-lang: for an encoder-decoder" in done.stderr


def decoder_alone(folder: Path) -> Path:
    """A model without a source."""
    config = transformers.GPT2Config(
        vocab_size=29,
        n_positions=16,
        n_embd=16,
        n_layer=1,
        n_head=2,
        eos_token_id=1,
        bos_token_id=1,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder / "g")
    read, _ = read_source(folder / "g")
    convert.convert(read, folder / "g.phasor", F32, {}, None, quiet=True)
    return folder / "g.phasor"
