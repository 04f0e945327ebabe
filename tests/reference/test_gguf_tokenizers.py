"""Tokenizers in GGUF files beside llama.cpp: a SentencePiece vocabulary, and which texts begin and
end with which ids."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cyllama")
gguf = pytest.importorskip("gguf")
sentencepiece = pytest.importorskip("sentencepiece")

import gguf_models  # noqa: E402
from conversions import convert_to
from llama_cpp import LlamaCpp  # noqa: E402
from phasor.sources.gguf.architectures import read  # noqa: E402
from phasor.tokenizers import pieces as tokenizers_gguf  # noqa: E402
from phasor.tokenizers.merges import scored_merges  # noqa: E402
from phasor.tokenizers.models.char_bpe import BYTE_PIECES  # noqa: E402
from places import told

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Once upon a time, there was a little girl named Lily.",
    "She loved to play outside in the park with her friends.",
    "One day, they found a big red ball, and they played with it all day long.",
    "It was 1999, or 2024; nobody knew 3.14159 better than she did.",
] * 4
TEXTS = [
    *SENTENCES[:5],
    "",
    " ",
    "  two  spaces",
    " leading",
    "trailing ",
    "naïve café, 東京, 🙂👩‍🚀",
    "don't",
    "tab\there",
    "<s>control</s>",
]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> sentencepiece.SentencePieceProcessor:
    """A BPE vocabulary with bytes, without normalization, as Llama's."""
    prefix = tmp_path_factory.mktemp("pieces") / "small"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_prefix=str(prefix),
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_file=f"{prefix}.model")


def write(
    path: Path,
    sp: sentencepiece.SentencePieceProcessor,
    template: str | None = None,
    ids: bool = True,
    **flags: bool,
) -> None:
    """A small model with the vocabulary, written as llama.cpp's converter writes it. ids: it says
    which pieces begin and end a text."""

    def tokenizer(writer: gguf.GGUFWriter) -> None:
        kinds = [
            6 if sp.is_byte(i) else 3 if sp.is_control(i) else 2 if sp.is_unknown(i) else 1
            for i in range(len(sp))
        ]
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([sp.id_to_piece(i) for i in range(len(sp))])
        writer.add_token_scores([sp.get_score(i) for i in range(len(sp))])
        writer.add_token_types(kinds)
        if ids:
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(2)
            writer.add_unk_token_id(0)
        if template is not None:
            writer.add_chat_template(template)
        for name, value in flags.items():
            writer.add_bool(f"tokenizer.ggml.{name}", value)

    gguf_models.write(path, {**gguf_models.CASES["llama"], "rows": len(sp)}, tokenizer=tokenizer)


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"add_space_prefix": False},
        {"add_bos_token": False, "add_eos_token": True},
        {"ids": False},
    ],
    ids=str,
)
def test_a_sentencepiece_vocabulary_gives_llama_cpps_ids(
    tmp_path: Path, phasor: Path, pieces: sentencepiece.SentencePieceProcessor, flags: dict
) -> None:
    write(tmp_path / "model.gguf", pieces, **flags)
    convert_to(tmp_path / "model.gguf", tmp_path / "model.phasor")
    model = LlamaCpp(tmp_path / "model.gguf")
    for text in TEXTS:
        done = told(phasor, "tokenize", tmp_path / "model.phasor", "--print-ids", text, timeout=60)
        want = list(model.vocabulary.tokenize(text, True, True))
        assert [int(id_) for id_ in done.strip().split(",") if id_] == want, text


def test_gemma_4s_merges_give_llama_cpps_ids(
    tmp_path: Path, phasor: Path, pieces: sentencepiece.SentencePieceProcessor
) -> None:
    """The file has merges in place of scores; runs of new lines are pieces, and none is unknown."""
    scores = {
        pieces.id_to_piece(i): pieces.get_score(i)
        for i in range(len(pieces))
        if not (pieces.is_byte(i) or pieces.is_control(i) or pieces.is_unknown(i))
    }
    lines = ["\n", "\n\n", "\n\n\n"]
    texts = [pieces.id_to_piece(i) for i in range(len(pieces))]
    merges = [f"{left} {right}" for left, right in scored_merges(scores, dict.fromkeys(scores, 0))]
    merges += ["\n \n", "\n\n \n", "\n \n\n"]
    kinds = [6 if t in BYTE_PIECES else 1 if t in scores else 3 for t in texts]
    texts, kinds = [*texts, *lines, "<turn>"], [*kinds, 1, 1, 1, 4]

    def tokenizer(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gemma4")
        writer.add_token_list(texts)
        writer.add_token_scores([0.0] * len(texts))
        writer.add_token_types(kinds)
        writer.add_token_merges(merges)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(False)

    case = {**gguf_models.CASES["gemma4, keys as values"], "rows": len(texts)}
    path, output = tmp_path / "model.gguf", tmp_path / "model.phasor"
    gguf_models.write(path, case, tokenizer=tokenizer)
    convert_to(path, output)
    model = LlamaCpp(path)
    more = ["a\nb", "the\n\ncat", "\n\n\n\n the", "One day,\n  they", "<turn>the</s>", "a<turn>\n"]
    for text in [*TEXTS, *more]:
        done = told(phasor, "tokenize", output, "--print-ids", text, timeout=60)
        want = list(model.vocabulary.tokenize(text, True, True))
        assert [int(id_) for id_ in done.strip().split(",") if id_] == want, text


def test_with_a_chat_template_control_pieces_are_found_in_the_text(
    tmp_path: Path, phasor: Path, pieces: sentencepiece.SentencePieceProcessor
) -> None:
    write(
        tmp_path / "model.gguf",
        pieces,
        "{% for message in messages %}{{ message.content + eos_token }}{% endfor %}",
    )
    convert_to(tmp_path / "model.gguf", tmp_path / "model.phasor")
    model = LlamaCpp(tmp_path / "model.gguf")
    for text in [*TEXTS, "a cat</s>", "</s><s>the", "a</s> the cat<s>", "<s", "</s> "]:
        done = told(phasor, "tokenize", tmp_path / "model.phasor", "--print-ids", text, timeout=60)
        assert [int(id_) for id_ in done.strip().split(",") if id_] == list(
            model.vocabulary.tokenize(text, True, True)
        ), text


@pytest.mark.parametrize("pre", sorted(tokenizers_gguf.PRE_TOKENIZERS))
def test_texts_begin_with_the_start_token_where_llama_cpps_do(tmp_path: Path, pre: str) -> None:
    def tokenizer(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list([chr(33 + i) for i in range(93)] + ['!"', "<a>", "<b>"])
        writer.add_token_types([1] * 94 + [3, 3])
        writer.add_token_merges(['! "'])
        writer.add_bos_token_id(94)
        writer.add_eos_token_id(95)

    gguf_models.write(tmp_path / "model.gguf", gguf_models.CASES["llama"], tokenizer=tokenizer)
    try:
        vocabulary = LlamaCpp(tmp_path / "model.gguf").vocabulary
    except Exception as error:  # cyllama's, for a name that this llama.cpp does not know
        pytest.skip(f"this llama.cpp has no {pre}: {str(error)[:40]}")
    side = read(tmp_path / "model.gguf").descriptor["target"]
    assert (side["prefix"], side["suffix"]) == (
        [94] * vocabulary.get_add_bos(),
        [95] * vocabulary.get_add_eos(),
    )
