"""Tokenizers composed at random from every part of the `tokenizers` package, and texts for them.

Each draw takes up to four normalizers, up to four pre-tokenizers, a model that is trained here on a
small mixed corpus, added tokens, a post-processor, a decoder and a truncation; every kind of part
and every value of an option is as likely as its like. Only decoders lean to those that go with the
model. Nothing here knows the converter: tokenizer_fuzz.py compares.

Training may break ties in another order in another run, so a composition that matters is kept as
its tokenizer.json.
"""

from __future__ import annotations

import codecs
import functools
import io
import json
import random
from typing import Any, Callable, Sequence

import sentencepiece
from test_tokenizer_hf import golden
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

Random = random.Random
BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
SCHEMES = ("always", "first", "never")
SPACE = "\u2581"

# ---- The corpus

LINES = """
Über den Straßen der Größe nach: Äpfel, Öl, Übermut und süße Grüße.
Die Donaudampfschifffahrtsgesellschaft hat 1234,56 € verloren!
Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter.
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío, ¿verdad?
Příliš žluťoučký kůň úpěl ďábelské ódy; ţară, İstanbul'da ışık.
Съешь же ещё этих мягких французских булок, да выпей чаю.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία σας.
吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。
コンピューターとインターネット、ﾊﾝｶｸｶﾅも東京タワー３３３メートル。
今天天气很好，我们去公园散步吧。２０２４年１２月３日（星期二）
السلام عليكم ورحمة الله وبركاته، كيف حالك اليوم؟ ١٢٣٤
الْعَرَبِيَّةُ لُغَةٌ جَمِيلَةٌ ﷺ ﻻ
नमस्ते दुनिया, आप कैसे हैं? मैं ठीक हूँ। १२३
हिन्दी की क़िताबें ज़्यादा पढ़ें
안녕하세요 세계, 오늘 날씨가 좋네요. 대한민국 서울특별시
사람들은 책을 읽고 음악을 듣는다
สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง
Xin chào thế giới, tiếng Việt có nhiều dấu: ằ ẵ ệ ộ ữ.
😀 😂🤣 I ❤️ you 👍🏽👍🏿 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇯🇵 1️⃣
def main(argc: int, *argv: str) -> None:
    if argc != 3 and x[i] <= y_max: return foo(bar, "baz") # TODO: fix
for (int i = 0; i < 100; ++i) { sum += a[i] * b[i]; }  /* loop */
SELECT name, COUNT(*) FROM users WHERE id >= 42 GROUP BY name;
https://www.example.com/path?query=1&lang=en#top me@example.org
camelCaseName snake_case_name CONSTANT_NAME kebab-case-name HTTPServer2
The quick brown fox jumps over the lazy dog. THE QUICK BROWN FOX!
It's what they've said: we'll see, I'd go, you're "right", don't 'quote'.
In 1999 there were 1,000,000 users; in 2024, 12345678901 of them (3.14159).
a b  c   d    e\tf\tg  trailing
ﬁrst ﬂoor oﬃce ½ ¼ x² H₂O ™ ℃ Ⅷ ①②③ ﷼ ㎏ ㍿
e\u0301 a\u0308 o\u0302\u0301 n\u0303 Z\u0351\u036b\u0343 \u1112\u1161\u11ab\u1100\u1173\u11af
"""
SEPARATE = " -_.,;:!?/|'\"()[]{}#\t\n\u3000\u2581\u200b"


@functools.lru_cache
def corpus() -> tuple[str, ...]:
    own = [line.replace("\\t", "\t") for line in LINES.strip("\n").split("\n")]
    return (*(own * 3), *golden.sentences())


# ---- Normalizers

RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
REPLACED: list[str | Regex] = [
    *(" ", "``", "''", "\n", "a", "ß", "e\u0301", "…", "the", SPACE),
    *map(Regex, (
        r" {2,}", r"\s+", r"[^\S\n]+", r"\p{Mn}", r"\d", r"[\x00-\x1f]", r"(?i)straße", r"[“”„\"]",
        r"^\s+|\s+$", r"\p{Han}", r"'(?=s)", r"[^\w\s]", r"(?:ab|a)+", r"\r\n?", r"x*",
    )),
]  # fmt: skip
PUT = ("", " ", SPACE, "-", "é", "xy")


@functools.lru_cache
def charsmap(rule: str) -> bytes:
    """The map of characters of a model that sentencepiece trains."""
    from sentencepiece import sentencepiece_model_pb2

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()),
        model_writer=out,
        vocab_size=1500,
        normalization_rule_name=rule,
        num_threads=1,
        minloglevel=2,
    )
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def flip(rng: Random) -> bool:
    return rng.random() < 0.5


N = normalizers
NORMALIZERS: dict[str, Callable[[Random], Any]] = {
    **{
        name: lambda rng, kind=getattr(N, name): kind()
        for name in "NFC NFD NFKC NFKD Lowercase StripAccents Nmt ByteLevel".split()
    },
    "Strip": lambda rng: N.Strip(left=flip(rng), right=flip(rng)),
    "Replace": lambda rng: N.Replace(rng.choice(REPLACED), rng.choice(PUT)),
    "Prepend": lambda rng: N.Prepend(rng.choice((SPACE, " ", "ab", "\u0301"))),
    "BertNormalizer": lambda rng: N.BertNormalizer(
        clean_text=flip(rng),
        handle_chinese_chars=flip(rng),
        strip_accents=rng.choice((None, True, False)),
        lowercase=flip(rng),
    ),
    "Precompiled": lambda rng: N.Precompiled(charsmap(rng.choice(RULES))),
}

# ---- Pre-tokenizers

PATTERNS: list[str] = [
    # GPT-2, GPT-4 and Llama 3, GPT-4o, Qwen 2, CLIP, BLOOM
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    # DeepSeek's three
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    # words, numbers, white space, marks
    r"\w+|[^\w\s]+",
    r"\s+",
    r"\S+",
    r"[0-9][0-9][0-9]",
    r"\d",
    r"(?=(\d{3})+(?!\d))",
    r"[A-Z]?[a-z]+|[A-Z]+|\d+|.",
    r"(?<=[a-z])(?=[A-Z])",
    r" ?\p{L}+|\P{L}+",
    r"\p{P}",
    r"\p{Han}|\p{Hiragana}|\p{Katakana}",
    r"[\u4e00-\u9fff]",
    r"\r\n|\r|\n",
    r"\b",
    r"https?://\S+|[\w.]+@[\w.]+|\w+",
    r"\S+\s*",
    r"[^\S\n]+|\n+",
    r"[+\-*/=<>]|\d+(?:\.\d+)?",
    r"(?<!\w)'|'(?!\w)",
    r"\p{Emoji_Presentation}|\p{Extended_Pictographic}",
    r"[가-힣]+|[^가-힣]+",
]
TEXTS = [" ", SPACE, "-", "\n", "the", ".", "</w>", "e\u0301", "  ", "的"]

P = pre_tokenizers
SPLITS: list[str | Regex] = [*map(Regex, PATTERNS), *TEXTS]
PRE_TOKENIZERS: dict[str, Callable[[Random], Any]] = {
    **{
        name: lambda rng, kind=getattr(P, name): kind()
        for name in "Whitespace WhitespaceSplit BertPreTokenizer UnicodeScripts".split()
    },
    "Punctuation": lambda rng: P.Punctuation(rng.choice(BEHAVIORS)),
    "Digits": lambda rng: P.Digits(flip(rng)),
    "CharDelimiterSplit": lambda rng: P.CharDelimiterSplit(rng.choice(" -_|,.e的" + SPACE)),
    "FixedLength": lambda rng: P.FixedLength(rng.randint(1, 12)),
    "Metaspace": lambda rng: P.Metaspace(
        rng.choice(SPACE * 3 + "_#"), rng.choice(SCHEMES), flip(rng)
    ),
    "ByteLevel": lambda rng: P.ByteLevel(
        add_prefix_space=flip(rng), trim_offsets=flip(rng), use_regex=flip(rng)
    ),
    "Split": lambda rng: P.Split(rng.choice(SPLITS), rng.choice(BEHAVIORS), flip(rng)),
}


def several(
    rng: Random, of: dict[str, Callable[[Random], Any]], most: int
) -> tuple[list[str], list]:
    names = rng.choices(list(of), k=rng.randint(0, most))
    return names, [of[name](rng) for name in names]


def of_several(made: list, sequence: Callable[[list], Any]) -> Any:
    return None if not made else made[0] if len(made) == 1 else sequence(made)


# ---- Models. Each is made and trained by itself; what training leaves out is put in afterwards.

NAMES = (
    ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"),
    ("<unk>", "<pad>", "<s>", "</s>", "<mask>"),
)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def common(rng: Random, special: Sequence[str], least: int = 300) -> dict[str, Any]:
    size = least + rng.choice((0, 200, 600))
    return dict(vocab_size=size, special_tokens=list(special), show_progress=False)


def given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def bpe(rng: Random, special: Sequence[str], alphabet: list[str]) -> tuple[Any, Any]:
    around = given(
        continuing_subword_prefix=rng.choice((None, None, "##", "@@")),
        end_of_word_suffix=rng.choice((None, None, "</w>", "_")),
    )
    unknown = given(unk_token=rng.choice((special[0], special[0], None)))
    flags = {name: flip(rng) for name in ("fuse_unk", "byte_fallback", "ignore_merges")}
    model = models.BPE(**unknown, **flags, **around)
    limits = given(limit_alphabet=rng.choice((None, 100)), max_token_length=rng.choice((None, 6)))
    trainer = trainers.BpeTrainer(
        **common(rng, special),
        min_frequency=rng.choice((0, 2)),
        initial_alphabet=alphabet,
        **limits,
        **around,
    )
    return model, trainer


def wordpiece(rng: Random, special: Sequence[str], alphabet: list[str]) -> tuple[Any, Any]:
    prefix = rng.choice(("##", "##", "@@", ""))
    model = models.WordPiece(
        unk_token=special[0],
        max_input_chars_per_word=rng.choice((100, 100, 10, 3)),
        continuing_subword_prefix=prefix,
    )
    trainer = trainers.WordPieceTrainer(
        **common(rng, special),
        **given(limit_alphabet=rng.choice((None, 100))),
        initial_alphabet=alphabet,
        continuing_subword_prefix=prefix,
    )
    return model, trainer


def wordlevel(rng: Random, special: Sequence[str], alphabet: list[str]) -> tuple[Any, Any]:
    trainer = trainers.WordLevelTrainer(**common(rng, special), min_frequency=rng.choice((0, 2)))
    return models.WordLevel(unk_token=special[0]), trainer


def unigram(rng: Random, special: Sequence[str], alphabet: list[str]) -> tuple[Any, Any]:
    trainer = trainers.UnigramTrainer(
        **common(rng, special, 1200),
        unk_token=special[0],
        initial_alphabet=alphabet,
        max_piece_length=rng.choice((16, 4)),
    )
    return models.Unigram(), trainer


MODELS = {"BPE": bpe, "WordPiece": wordpiece, "WordLevel": wordlevel, "Unigram": unigram}


def with_bytes(rng: Random, tokenizer: Tokenizer) -> Tokenizer:
    """With the bytes' tokens in the vocabulary, as Llama and T5 have them; seldom not all."""
    spec = json.loads(tokenizer.to_str())
    model, tokens = spec["model"], list(BYTES)
    if model["type"] == "Unigram":
        model["byte_fallback"] = flip(rng)
        spent = {piece for piece, _ in model["vocab"]}
    else:
        spent = set(model["vocab"])
    if not model.get("byte_fallback"):
        return tokenizer
    if rng.random() < 0.1:
        tokens = rng.sample(tokens, 200)
    for token in tokens:
        if token in spent:
            continue
        if model["type"] == "Unigram":
            model["vocab"].append([token, 0.0])
        else:
            model["vocab"][token] = len(model["vocab"])
    return Tokenizer.from_str(json.dumps(spec))


# ---- Added tokens, what goes around, decoders

CONTENTS = [
    "<|end|>", "<extra_id_0>", "[MASK2]", "ing", "the", " the ", "THE", "中", "名前", "É",
    "e\u0301", "ﬁ", "İ", "ß", "  ", "\n", "\t\t", "a b", SPACE, SPACE + "a", "##a", "Ġa", ".",
    "...", "1", "12", "123", "<|", "|>", "😀", "👍🏽", "\u0301", "가", "\u1100", "x" * 30, "<unk>x",
    "don't", "\u2028", "नमस्ते", " ", "foo_bar", "_", "</w>", "Straße", "AB", "ab", "A", "\u200d",
]  # fmt: skip


def added(rng: Random, tokenizer: Tokenizer) -> None:
    for content in rng.sample(CONTENTS, rng.choice((0, 0, 1, 2, 4, 6))):
        flags = {name: flip(rng) for name in ("single_word", "lstrip", "rstrip", "normalized")}
        tokenizer.add_tokens([AddedToken(content, special=flip(rng), **flags)])


TEMPLATES = (
    ("{c} $A {s}", "{c} $A {s} $B:1 {s}:1"),
    ("{c} $A {s}", "{c} $A {s} {s} $B {s}"),
    ("$A {s}", "$A {s} $B {s}"),
    ("{c} $A", "{c} $A {c} $B"),
    ("$A", "$A $B:1"),
    ("{c} {c} $A {s} {s}", "{c} {c} $A {s} $B {s} {s}"),
    ("{c} $A {s}", "$A {s} $B"),
    ("{c}:1 $A {s}:2", "{c}:1 $A {s} $B:1 {s}:2"),
    ("{c} $A {s}", "{c} $A {s}:1 $B:1 {s}:1"),
    ("$A:1 {s}:1", "$A:1 {s}:1 $B:0 {s}:0"),
)


def template(rng: Random, cls: tuple[str, int], sep: tuple[str, int]) -> Any:
    single, pair = (form.format(c=cls[0], s=sep[0]) for form in rng.choice(TEMPLATES))
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=[cls, sep])


def trimmed(rng: Random) -> Any:
    return processors.ByteLevel(trim_offsets=flip(rng))


PROCESSORS: dict[str, Callable[..., Any]] = {
    "none": lambda rng, cls, sep: None,
    "TemplateProcessing": template,
    "BertProcessing": lambda rng, cls, sep: processors.BertProcessing(sep, cls),
    "RobertaProcessing": lambda rng, cls, sep: processors.RobertaProcessing(
        sep, cls, trim_offsets=flip(rng), add_prefix_space=flip(rng)
    ),
    "ByteLevel": lambda rng, cls, sep: trimmed(rng),
    "Sequence": lambda rng, cls, sep: processors.Sequence([trimmed(rng), template(rng, cls, sep)]),
}

D = decoders
DECODERS: dict[str, Callable[[Random], Any]] = {
    "Replace": lambda rng: D.Replace(
        rng.choice((SPACE, "_", "Ġ", "##", Regex(r"\s+"), Regex("[aeiou]"))),
        rng.choice((" ", "", "-")),
    ),
    "Strip": lambda rng: D.Strip(rng.choice(" _a"), rng.randint(0, 2), rng.randint(0, 2)),
    "Fuse": lambda rng: D.Fuse(),
    "ByteFallback": lambda rng: D.ByteFallback(),
    "ByteLevel": lambda rng: D.ByteLevel(),
    "Metaspace": lambda rng: D.Metaspace(
        rng.choice(SPACE * 2 + "_"), rng.choice(SCHEMES), flip(rng)
    ),
    "WordPiece": lambda rng: D.WordPiece(rng.choice(("##", "@@")), flip(rng)),
    "BPEDecoder": lambda rng: D.BPEDecoder(rng.choice(("</w>", "_"))),
    "CTC": lambda rng: D.CTC(rng.choice(("<pad>", "[PAD]")), rng.choice("|_ "), flip(rng)),
}


def sensible(rng: Random, model: Any, names: set[str]) -> list:
    """What people put beside such a model."""
    if getattr(model, "byte_fallback", False):
        return [D.Replace(SPACE, " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]
    if "ByteLevel" in names:
        return [D.ByteLevel()]
    if "Metaspace" in names:
        return [D.Metaspace()]
    if isinstance(model, models.WordPiece):
        return [D.WordPiece(model.continuing_subword_prefix, flip(rng))]
    suffix = getattr(model, "end_of_word_suffix", None)
    return [D.BPEDecoder(suffix)] if suffix else []


def decoder(rng: Random, tokenizer: Tokenizer, names: set[str]) -> Any:
    chosen = sensible(rng, tokenizer.model, names) if flip(rng) else several(rng, DECODERS, 3)[1]
    return of_several(chosen, D.Sequence)


def truncate(rng: Random, tokenizer: Tokenizer) -> None:
    tokenizer.enable_truncation(
        rng.choice((8, 16, 64, 512)),
        stride=rng.choice((0, 2)),
        strategy=rng.choice(("longest_first", "only_first")),
        direction=rng.choice(("right", "left")),
    )


# ---- A tokenizer


def draw(seed: int) -> Tokenizer:
    """The tokenizer of a number. Raises what the package raises if it does not take the parts."""
    rng = Random(f"a tokenizer {seed}")
    special = rng.choice(NAMES)
    before, made = several(rng, NORMALIZERS, 4)
    normalizer = of_several(made, N.Sequence)
    splits, made = several(rng, PRE_TOKENIZERS, 4)
    pre_tokenizer = of_several(made, P.Sequence)
    names = {*before, *splits}
    alphabet = sorted(P.ByteLevel.alphabet()) if "ByteLevel" in names and rng.random() < 0.9 else []
    model, trainer = MODELS[rng.choice(list(MODELS))](rng, special, alphabet)
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    lines = rng.sample(corpus(), len(corpus()) * 2 // 3)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer = with_bytes(rng, tokenizer)
    added(rng, tokenizer)
    cls, sep = ((name, tokenizer.token_to_id(name)) for name in special[2:4])
    processor = PROCESSORS[rng.choice(list(PROCESSORS))](rng, cls, sep)
    if processor:
        tokenizer.post_processor = processor
    after = decoder(rng, tokenizer, names)
    if after:
        tokenizer.decoder = after
    if rng.random() < 0.25:
        truncate(rng, tokenizer)
    return tokenizer


# ---- Texts

EMOJI = (
    "😀", "❤", "❤️", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🧑🏿‍🚀", "🇩🇪", "1️⃣", "\u200d", "\ufe0f",
    "\U0001f3fb", "🏴\U000e0067\U000e0062\U000e007f",
)  # fmt: skip
SPACES = [
    *" \t\n\r\v\f\x1c\x1f\x85\xa0\u1680\u180e\u2003\u200b\u2028\u2029\u202f\u3000\ufeff", "\r\n",
]  # fmt: skip
MARKS = [*map(chr, range(0x300, 0x350)), *"\u0591\u064b\u0651\u093c\u094d\u0e31\u20dd\u3099\u302a"]
JAMO = [*"\u1100\u1112\u1161\u1175\u11a8\u11c2\uac00\uac01\ud7a3\u3131"]
ASIDE = [
    *"\0\x01\x7f\xad\u061c\u202e\ufffc\ufffd\uffff\U0010ffff`$^~",
    *"\ufdfa\u0130ẞſ\u212aςΣǅ\u0344\u0958\u2126\ufb03", "ﾊﾟ", "\u1e9b\u0323",
]  # fmt: skip
BROKEN = [
    b"\xff", b"\xfe", b"\xc0\x80", b"\x80", b"\xbf", b"\xf5", b"\xc3", b"\xe4\xb8",
    b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\xaf",
]  # fmt: skip
POOLS = (EMOJI, SPACES, MARKS, JAMO, ASIDE, CONTENTS, [c for names in NAMES for c in names])
AROUND = [*"abeist AE1290.,'-_", "the", "ing", " the", " ", " ", "中", "é", "名", "가", "न", "ع"]
MEGABYTE, EVERY = 1 << 20, 40  # a text of a megabyte for one seed in EVERY


def plane(rng: Random) -> str:
    first = rng.randrange(17) << 16
    codes = (first | rng.randrange(1 << 16) for _ in range(rng.randint(1, 16)))
    return "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)


def lines(rng: Random) -> str:
    out = SEPARATE[rng.randrange(len(SEPARATE))].join(rng.choices(corpus(), k=rng.randint(1, 2)))
    start = rng.randrange(len(out)) if rng.random() < 0.3 else 0
    changed = rng.choice((str, str, str.upper, str.lower, str.title, str.swapcase))
    return changed(out[start : start + rng.choice((5, 20, 200))])


def mixed(rng: Random) -> str:
    pools = rng.sample(POOLS, 2)
    parts = (
        rng.choice(AROUND if rng.random() < 0.5 else rng.choice(pools))
        for _ in range(rng.randint(1, 20))
    )
    return "".join(parts)


def inside(rng: Random) -> str:
    """A line with added tokens in it."""
    line = lines(rng)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(line))
        mark = rng.choice(rng.choice(POOLS[-2:]))
        line = line[:at] + rng.choice(("", " ", "  ")) + mark + rng.choice(("", " ")) + line[at:]
    return line


def run(rng: Random) -> str:
    pool = rng.choice((AROUND, *POOLS))
    return rng.choice(pool) * rng.choice((2, 3, 12, 101, 300)) + rng.choice(AROUND)


def broken(rng: Random) -> bytes:
    parts = [rng.choice(BROKEN) if flip(rng) else mixed(rng).encode()[:12] for _ in range(6)]
    return b"".join(parts)


def texts(seed: int, count: int) -> list[bytes]:
    """COUNT texts, the first of them empty; for some numbers one more, of a megabyte."""
    rng = Random(f"texts {seed}")
    kinds = (lines, lines, mixed, mixed, inside, inside, plane, run, broken)
    made = (rng.choice(kinds)(rng) for _ in range(count - 1))
    out = [b"", *(text if isinstance(text, bytes) else text.encode() for text in made)]
    if seed % EVERY == 0:
        line = " ".join(rng.sample(corpus(), len(corpus()))).encode()
        out.append((line * (MEGABYTE // len(line) + 1))[:MEGABYTE])
    return out


codecs.register_error("each byte", lambda e: ("\ufffd" * (e.end - e.start), e.end))


def as_text(text: bytes) -> str:
    """With each byte that is no UTF-8 as U+FFFD: the package takes text only."""
    return text.decode("utf-8", "each byte")


def sequences(seed: int, tokenizer: Tokenizer, count: int) -> list[list[int]]:
    """Ids that no text gives: any, few in many repeats, the first ones."""
    rng = Random(f"ids {seed}")
    ids = sorted(set(tokenizer.get_vocab().values()))
    out: list[list[int]] = [[]]
    while len(out) < count:
        few = rng.choice((ids, ids[:300], ids[-40:], rng.sample(ids, min(4, len(ids)))))
        out.append(rng.choices(few, k=rng.randint(1, 16)))
    return out
