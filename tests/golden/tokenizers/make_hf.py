"""Makes the files of this folder that are the tokenizers package's; needs that package (0.22.2 was
used). From the repository's root:

    python tests/golden/tokenizers/make_hf.py ids                 # the expected ids, from the
                                                                  committed tokenizer.json files
    python tests/golden/tokenizers/make_hf.py models [NAME…]    # those files and the sections, from
                                                                text.tsv; then the ids

The lines of *.ids.txt are those of make.py.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "tools")]

import make as golden  # noqa: E402

MARKS = [
    "[MASK]",
    "[CLS]a[SEP]",
    "a [MASK]. b",
    "[mask]",
    "[MASK][MASK] [MASK ]",
    "<mask>",
    " a <mask> b",
    "a<mask>b",
    "<s>a</s>",
    "it's 'quoted' don't we'll",
    "a  b   c ",
    " \n\n x\n",
    "1,234.5 x2",
    "\u0130I\u0307 \u01c5 ß",
    "중국 가각 \u1112\u1161",
    "\u037e\u0387",
    "a\u0334\u0301b",
    "Ångström E\u0301",
    "..." * 30,
    "x" * 101,
    "\ufffd\ufeff\u200b",
]


def texts() -> list[str]:
    out = list(MARKS)
    for text in [*golden.hostile(), *(s.encode() for s in golden.sentences())]:
        try:
            out.append(text.decode())
        except UnicodeDecodeError:
            pass  # the package takes text only
    return out


def train_wordpiece():
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=800, special_tokens=special, limit_alphabet=400, show_progress=False
    )
    tokenizer.train_from_iterator(golden.sentences(), trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def train_byte_bpe():
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        processors,
        trainers,
    )

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(golden.sentences(), trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def train_unigram():
    """As transformers converts XLM-RoBERTa; the map of characters is that of unigram.model."""
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

    from phasor.tokenizers.sentencepiece import read_model_proto

    charsmap = read_model_proto((HERE / "unigram.model").read_bytes())["charsmap"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(charsmap),
            normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), "\u2581"),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=700, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(golden.sentences(), trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return tokenizer


def train_composed():
    """Qwen2's normalizer and words, with words that are pieces left whole."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    from phasor.tokenizers.pre_tokenizers import QWEN2_REGEX

    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    words = [
        pre_tokenizers.Split(Regex(QWEN2_REGEX), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<|endoftext|>"],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(golden.sentences(), trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", normalized=False)])
    return tokenizer


def train_characters():
    """Llama 2's normalizer and decoder."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer.train_from_iterator(
        golden.sentences(),
        trainers.BpeTrainer(
            vocab_size=900, special_tokens=special, limit_alphabet=150, show_progress=False
        ),
    )
    tokenizer = Tokenizer.from_str(without_byte_tokens(tokenizer.to_str()))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return tokenizer


def train_merged():
    """As transformers converts NLLB; the map of characters is that of unigram.model."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    from phasor.tokenizers.sentencepiece import read_model_proto

    charsmap = read_model_proto((HERE / "unigram.model").read_bytes())["charsmap"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(charsmap),
            normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), "\u2581"),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, limit_alphabet=300, show_progress=False
    )
    tokenizer.train_from_iterator(golden.sentences(), trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=True)])
    return tokenizer


def train_pipeline():
    """Parts that no well-known model has together: accents taken off decomposed letters, quotes
    replaced, digits by themselves, BPE whose words have a prefix and a suffix."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    tokenizer = Tokenizer(
        models.BPE(
            unk_token="[UNK]",
            fuse_unk=True,
            continuing_subword_prefix="##",
            end_of_word_suffix="</w>",
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex("``|''|[\u2018-\u201f]+"), '"'),
            normalizers.Strip(),
            normalizers.NFC(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation("contiguous"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.Split(Regex("[a-z]+(?=['\"])"), "merged_with_next"),
        ]
    )
    tokenizer.decoder = decoders.Sequence([decoders.Replace("##", ""), decoders.BPEDecoder("</w>")])
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
        limit_alphabet=250,
        continuing_subword_prefix="##",
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(golden.sentences(), trainer)
    tokenizer.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("Ångström", single_word=True, normalized=True)])
    return tokenizer


def without_byte_tokens(spec: str) -> str:
    """The trainer makes added tokens of the pieces of bytes."""
    import json

    fields = json.loads(spec)
    fields["added_tokens"] = fields["added_tokens"][:3]
    fields["pre_tokenizer"] = None
    return json.dumps(fields)


TRAINERS = {
    "wordpiece": train_wordpiece,
    "bytelevel": train_byte_bpe,
    "metaspace": train_unigram,
    "composed": train_composed,
    "characters": train_characters,
    "merged": train_merged,
    "pipeline": train_pipeline,
}


def make_models() -> None:
    from phasor.sources.hugging_face.tokenizer_json import build_hf_section

    for name in sys.argv[2:] or TRAINERS:
        train = TRAINERS[name]
        path = HERE / f"{name}.json"
        path.write_text(train().to_str() + "\n", encoding="utf-8")
        (HERE / f"{name}.bin").write_bytes(build_hf_section(path)[0])


def make_ids() -> None:
    from tokenizers import Tokenizer

    for name in TRAINERS:
        tokenizer = Tokenizer.from_file(str(HERE / f"{name}.json"))
        rows = []
        for text in texts():
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            back = tokenizer.decode(ids).encode().hex()
            rows.append(f"{text.encode().hex()}\t{' '.join(map(str, ids))}\t{back}\n")
        (HERE / f"{name}.ids.txt").write_text("".join(rows), encoding="ascii")


if __name__ == "__main__":
    if sys.argv[1] == "models":
        make_models()
    make_ids()
