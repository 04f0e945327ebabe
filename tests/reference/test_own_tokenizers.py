"""Tokenizers that people train themselves, by the recipes of the tokenizers package: its quicktour,
"BERT from scratch", the word-level one of translation courses, its ready-made classes. A directory
as transformers saves it gives the ids of AutoTokenizer for it, and the package's text for them."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import tokenizer_draws as draws
from test_tokenizer import driver  # noqa: F401
from test_tokenizer_hf import compare_decoding, golden, random_sequences
from tokenizers import (
    Tokenizer,
    decoders,
    implementations,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from exported import exported
from phasor.sources.hugging_face.around import pair_of
from phasor.sources.hugging_face.tokenizer_json import build_hf_section

transformers = pytest.importorskip("transformers")

SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = [
    "Hello, y'all! How are you?", "abc-def 123", "not known ß é", "a  b ", " lead", "",
    "[CLS] a [MASK]. b", "[mask]the", "x" * 101,
]  # fmt: skip


def trained(model: Any, trainer: Callable[..., Any], split: Any, **options: Any) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = split
    for part in ("normalizer", "decoder"):
        if part in options:
            setattr(tokenizer, part, options.pop(part))
    trained_by = trainer(special_tokens=SPECIAL, show_progress=False, **options)
    tokenizer.train_from_iterator(golden.sentences(), trained_by)
    return tokenizer


def ready(kind: Callable[..., Any], unknown: str = "<unk>", **options: Any) -> Tokenizer:
    tokenizer = kind()
    tokenizer.train_from_iterator(
        golden.sentences(),
        vocab_size=900,
        special_tokens=[unknown, *SPECIAL[1:]],
        show_progress=False,
        **options,
    )
    return tokenizer._tokenizer


N, P, D, T = normalizers, pre_tokenizers, decoders, trainers
BPE = lambda: models.BPE(unk_token="[UNK]")
WORDS = lambda: models.WordLevel(unk_token="[UNK]")
PIECES = lambda: models.WordPiece(unk_token="[UNK]")
RECIPES: dict[str, Callable[[], Tokenizer]] = {
    "BPE, Whitespace": lambda: trained(BPE(), T.BpeTrainer, P.Whitespace(), vocab_size=600),
    "WordLevel, Whitespace": lambda: trained(WORDS(), T.WordLevelTrainer, P.Whitespace()),
    "WordLevel, WhitespaceSplit": lambda: trained(WORDS(), T.WordLevelTrainer, P.WhitespaceSplit()),
    "WordPiece, Whitespace": lambda: trained(
        PIECES(),
        T.WordPieceTrainer,
        P.Whitespace(),
        normalizer=N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()]),
        decoder=D.WordPiece(),
        vocab_size=600,
    ),
    "WordPiece, BertPreTokenizer": lambda: trained(
        PIECES(),
        T.WordPieceTrainer,
        P.BertPreTokenizer(),
        normalizer=N.BertNormalizer(),
        decoder=D.WordPiece(),
        vocab_size=600,
    ),
    "Unigram, Metaspace": lambda: trained(
        models.Unigram(),
        T.UnigramTrainer,
        P.Metaspace(),
        decoder=D.Metaspace(),
        vocab_size=900,
        unk_token="[UNK]",
    ),
    "ByteLevelBPETokenizer": lambda: ready(implementations.ByteLevelBPETokenizer),
    "CharBPETokenizer": lambda: ready(implementations.CharBPETokenizer),
    "SentencePieceBPETokenizer": lambda: ready(implementations.SentencePieceBPETokenizer),
    "SentencePieceUnigramTokenizer": lambda: ready(
        implementations.SentencePieceUnigramTokenizer, unk_token="<unk>"
    ),
    "BertWordPieceTokenizer": lambda: ready(
        implementations.BertWordPieceTokenizer, unknown="[UNK]"
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_equal(driver, phasor, tmp_path, name):
    tokenizer = RECIPES[name]()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(text, tokenizer.token_to_id(text)) for text in SPECIAL[2:4]],
    )
    unknown = "[UNK]" if tokenizer.token_to_id("[UNK]") is not None else "<unk>"
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=unknown,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(tmp_path)
    section, info = build_hf_section(tmp_path)
    path, theirs = driver.section(section), transformers.AutoTokenizer.from_pretrained(tmp_path)
    texts = [*TEXTS, *golden.sentences()[:100]]
    texts += [draws.as_text(text) for text in draws.texts(1, 100)]
    for text, ids in zip(texts, driver.encode(path, [text.encode() for text in texts])):
        want = theirs(text)["input_ids"]
        assert [*info["prefix"], *ids, *info["suffix"]] == want, repr(text)
    one, other = (driver.encode(path, [text.encode()])[0] for text in TEXTS[:2])
    both = theirs(*TEXTS[:2])["input_ids"]
    assert [*info["prefix"], *one, *pair_of(info), *other, *info["suffix"]] == both
    saved = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    back = Tokenizer.from_file(str(exported(phasor, tmp_path, section, info)))
    assert [saved.encode(text).ids for text in texts] == [back.encode(text).ids for text in texts]
    assert saved.encode(*TEXTS[:2]).ids == back.encode(*TEXTS[:2]).ids
    compare_decoding(driver, saved, path, random_sequences(saved.get_vocab_size()))
