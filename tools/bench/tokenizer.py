"""Lines of a text to ids and back, beside the package that the tokenizer was trained with: one line
at a time, one thread, in turns. A row of tools/bench.

Each kind has the parts of a published family and a vocabulary of 6,000, trained on the first half
of --corpus; the lines are those of the other half, several times. A figure is lines a second of the
processor, of `phasor tokenize`, printing included, and of a Python that calls the package, line by
line; the same command with one line is taken off. Both give the same ids, which is checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

from bench.common import OURS, Results, convert, cost
from phasor.files import write_text
from phasor.tokenizers.pre_tokenizers import LLAMA3_REGEX

_PIECES, _TIMES = 6000, 4
_PACKAGE, _SENTENCEPIECE = "tokenizers", "SentencePiece"
# argv: the tokenizer, encode or decode or print. Standard input: lines, or lists of ids.
_LOOP = """
import sys
{load}
lines = sys.stdin.buffer.read().decode().splitlines()
if sys.argv[2] == "decode":
    lines = [[int(i) for i in line.split(",")] for line in lines]
for line in lines:
    done = {encode} if sys.argv[2] != "decode" else {decode}
    if sys.argv[2] == "print":
        print(",".join(map(str, done)))
"""
_CODE = {
    _PACKAGE: _LOOP.format(
        load="from tokenizers import Tokenizer\nt = Tokenizer.from_file(sys.argv[1])",
        encode="t.encode(line).ids",
        decode="t.decode(line)",
    ),
    _SENTENCEPIECE: _LOOP.format(
        load="from sentencepiece import SentencePieceProcessor\n"
        "t = SentencePieceProcessor(model_file=sys.argv[1])",
        encode="t.encode(line, add_bos=True)",  # as Llama's tokenizer does
        decode="t.decode(line)",
    ),
}


def _bytes(split: str | None) -> Callable[[Path, Path], Path]:
    """Byte-level BPE: GPT-2's, or with a pattern of its own."""

    def train(text: Path, folder: Path) -> Path:
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split is None)
        cuts = [] if split is None else [pre_tokenizers.Split(Regex(split), "isolated")]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cuts, alone])
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tokenizer.train(
            [str(text)],
            trainers.BpeTrainer(vocab_size=_PIECES, initial_alphabet=alphabet, show_progress=False),
        )
        tokenizer.save(str(folder / "tokenizer.json"))
        return folder / "tokenizer.json"

    return train


def _words(text: Path, folder: Path) -> Path:
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer()
    tokenizer.train([str(text)], vocab_size=_PIECES, show_progress=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def _unigram(text: Path, folder: Path) -> Path:
    from tokenizers import SentencePieceUnigramTokenizer

    tokenizer = SentencePieceUnigramTokenizer()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train(
        [str(text)],
        vocab_size=_PIECES,
        show_progress=False,
        special_tokens=special,
        unk_token="<unk>",
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def _pieces(**options: Any) -> Callable[[Path, Path], Path]:
    def train(text: Path, folder: Path) -> Path:
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            input=str(text),
            model_prefix=str(folder / "tokenizer"),
            vocab_size=_PIECES,
            minloglevel=2,
            **options,
        )
        return folder / "tokenizer.model"

    return train


_GEMMA = {"byte_fallback": True, "split_digits": True, "remove_extra_whitespaces": False}
KINDS: dict[str, tuple[str, Callable[[Path, Path], Path]]] = {
    "GPT-2": (_PACKAGE, _bytes(None)),
    "Llama 3": (_PACKAGE, _bytes(LLAMA3_REGEX)),
    "BERT": (_PACKAGE, _words),
    "T5": (_PACKAGE, _unigram),
    "Gemma": (
        _SENTENCEPIECE,
        _pieces(model_type="bpe", normalization_rule_name="identity", **_GEMMA),
    ),
}


def _model(tokenizer: Path, folder: Path) -> Path:
    """A weight file around the tokenizer: a Llama of width 8."""
    import numpy as np
    from safetensors.numpy import save_file

    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": _PIECES,
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 1,
        "intermediate_size": 8,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "transformers_version": "4.57.0",
    }
    at, square = "model.layers.0.", (8, 8)
    names = [f"self_attn.{c}_proj" for c in "qkvo"] + [f"mlp.{c}_proj" for c in ("gate", "up")]
    shapes = {"model.embed_tokens": (_PIECES, 8), "model.norm": (8,)}
    shapes |= {at + name: square for name in [*names, "mlp.down_proj"]}
    shapes |= {at + name: (8,) for name in ("input_layernorm", "post_attention_layernorm")}
    (folder / "llama").mkdir()
    write_text(folder / "llama/config.json", json.dumps(config))
    rng = np.random.default_rng(1)
    arrays = {f"{n}.weight": rng.normal(0, 0.3, s).astype("f4") for n, s in shapes.items()}
    save_file(arrays, folder / "llama/model.safetensors")
    output = folder / "m.phasor"
    convert(folder / "llama", output, "f32", tokenizer=str(tokenizer))
    return output


def _output(*words: object, given: Path) -> bytes:
    with given.open("rb") as source:
        return subprocess.run(
            list(map(str, words)), stdin=source, stdout=subprocess.PIPE, check=True
        ).stdout


def row_tokenizer(args: Any, results: Results) -> None:
    if args.corpus is None:
        sys.exit("bench: tokenizer: name a text with --corpus FILE")
    lines = [line for line in args.corpus.read_text("utf-8").splitlines() if line.strip()]
    half, program = len(lines) // 2, Path(args.build) / "phasor"
    for kind, (peer, train) in KINDS.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            inputs = {}
            for what, some in (("train", lines[:half]), ("encode", lines[half:])):
                inputs[what] = folder / f"{what}.txt"
                write_text(inputs[what], "".join(f"{line}\n" for line in some))
            tokenizer = train(inputs["train"], folder)
            model = _model(tokenizer, folder)
            ours = (program, "tokenize", model, "--print-ids")
            theirs = (sys.executable, "-c", _CODE[peer], tokenizer)
            wanted = _output(*theirs, "print", given=inputs["encode"])
            if _output(*ours, given=inputs["encode"]) != wanted:
                sys.exit(f"bench: tokenizer: {kind}: {peer} gives other ids")
            inputs["decode"] = folder / "decode.txt"
            write_text(inputs["decode"], wanted.decode())
            for what in ("encode", "decode"):
                once = inputs[what].read_text("utf-8")
                whole, first = folder / "whole.txt", folder / "first.txt"
                write_text(whole, once * _TIMES)
                write_text(first, once.split("\n")[0] + "\n")
                more = ("--decode", "--ids", "-") if what == "decode" else ("--print-ids",)
                commands = {OURS: (*ours[:3], *more), peer: (*theirs, what)}
                rates: dict[str, list[float]] = {engine: [] for engine in commands}
                for _ in range(args.runs):
                    for engine, words in commands.items():
                        start = cost(*words, given=first).seconds
                        seconds = cost(*words, given=whole).seconds - start
                        rates[engine].append(once.count("\n") * _TIMES / seconds)
                for engine, found in rates.items():
                    results.add(what, engine, found, "lines/s", type=kind, threads=1)


ROWS = {"tokenizer": row_tokenizer}
