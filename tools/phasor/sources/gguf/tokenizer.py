"""The tokenizer that a GGUF file carries in its metadata, and the ids that go around a text."""

from __future__ import annotations

from typing import Any, Mapping

from phasor import side_files
from phasor.errors import PhasorError, shown
from phasor.families.fields import Fields
from phasor.sources.gguf.container import GGUF
from phasor.tokenizers import pieces as gguf
from phasor.tokenizers.section import CONTROL, UNKNOWN, USER_DEFINED, TokenizerError
from phasor.values import is_whole, words

PREFIX = "tokenizer.ggml."
_NONE = (None, "no_vocab", "none")
_PIECES = ("llama", "gemma4")  # SentencePiece's
_USUAL = {
    "bos_token_id": (1, CONTROL),
    "eos_token_id": (2, CONTROL),
    "unknown_token_id": (0, UNKNOWN),
}
_PHI3, _PHI3_PLAIN = ("phi-3", "phi3"), {"<s>", "<|endoftext|>"}
# Pre-tokenizers whose texts begin with the start token where the file does not say it.
_BEGIN = words("llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 tekken")


def usual_id(values: Mapping[str, Any], name: str) -> int | None:
    """What llama.cpp takes for an id of a SentencePiece vocabulary that the file does not say.
    values: the metadata under tokenizer.ggml."""
    if values.get("model") != "llama" or name not in _USUAL:
        return None
    usual, kind = _USUAL[name]
    types = values.get("token_type")
    return usual if isinstance(types, list) and types[usual : usual + 1] == [kind] else None


class Vocabulary(Fields):
    """What the metadata say of tokens. PhasorError names the file and the key."""

    def __init__(self, file: GGUF, rows: int) -> None:
        super().__init__(file.path, file.under(PREFIX), PREFIX)
        self.file, self.rows = file, rows

    def refuse(self, name: str, what: str) -> PhasorError:
        """Of what a file without a tokenizer does not need."""
        return PhasorError(f"{self.error(name, what)} (--tokenizer none converts without)")

    def id(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is not None and not is_whole(value, 0, self.rows - 1):
            raise self.expected(name, value, f"an id below {self.rows}")
        return usual_id(self.values, name) if value is None else value

    def _begins(self) -> bool:
        """Whether a text begins with the start token."""
        usual = self.model in _PIECES or self.text("pre") in _BEGIN
        return self.flag("add_bos_token", usual)

    def items(self, name: str, kinds: type | tuple[Any, ...], default: Any = None) -> Any:
        value = self.values.get(name, default)
        if not isinstance(value, list) or not all(
            isinstance(v, kinds) and not isinstance(v, bool) for v in value
        ):
            raise self.refuse(
                name, "is missing" if value is None else "expected an array of another kind"
            )
        return value

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self.values.get(name, default)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "expected text")
        return value

    @property
    def model(self) -> str | None:
        return self.text("model")

    def ids(self) -> dict[str, Any]:
        """The fields of the descriptor's side."""
        first, last, unknown, pad = (
            self.id(name)
            for name in ("bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id")
        )
        ends = [self.id(name) for name in ("eos_token_id", "eot_token_id", "eom_token_id")]
        out = {
            "start": first,
            "unknown": unknown,
            "pad": pad,
            "end": list(dict.fromkeys(end for end in ends if end is not None)),
            "prefix": [first] if first is not None and self._begins() else [],
            "suffix": [last] if self.flag("add_eos_token", False) and last is not None else [],
        }
        return {name: value for name, value in out.items() if value is not None}

    def section(self) -> bytes | None:
        """The tokenizer's section; None where the file has none."""
        if self.model in _NONE:
            return None
        theirs = self.file.under("tokenizer.")
        try:
            side_files.check(
                self.path, {f"tokenizer.{k}": v for k, v in theirs.items()}, side_files.GGUF
            )
        except PhasorError as error:
            raise PhasorError(f"{error} (--tokenizer none converts without)") from error
        tokens = self.items("tokens", str)
        if len(tokens) > self.rows:
            raise self.refuse("tokens", f"{len(tokens)} pieces, the embedding has {self.rows} rows")
        try:
            if self.model == "gpt2":
                return self._bpe(tokens)
            if self.model in _PIECES:
                return self._sentencepiece(tokens)
        except TokenizerError as error:
            raise self.refuse("tokens", str(error)) from error
        expected = ", ".join(("gpt2", *_PIECES))
        raise self.refuse("model", f"{shown(self.model)} is not supported, expected {expected}")

    def _types(self, tokens: list[str]) -> list[int]:
        types = self.items("token_type", int, [1] * len(tokens))
        if len(types) != len(tokens):
            raise self.refuse("token_type", f"{len(types)} values for {len(tokens)} pieces")
        result: list[int] = types
        return result

    def _bpe(self, tokens: list[str]) -> bytes:
        pre = self.text("pre", "default")
        if pre not in gguf.PRE_TOKENIZERS:
            raise self.refuse(
                "pre",
                f"{shown(pre)} is not supported, expected {', '.join(sorted(gguf.PRE_TOKENIZERS))}",
            )
        if self.flag("add_space_prefix", False):
            raise self.refuse("add_space_prefix", "True is not supported for gpt2")
        return gguf.build_bpe_section(
            tokens, self.items("merges", str), pre=pre, types=self._types(tokens)
        )

    def _sentencepiece(self, tokens: list[str]) -> bytes:
        merged = self.model == "gemma4"  # by merges that the file has
        scores = [0.0] * len(tokens) if merged else self.items("scores", (int, float))
        if self.id("bos_token_id") is None and self._begins():
            raise self.refuse("bos_token_id", "is missing, and piece 1 is no control piece")
        types = self._types(tokens)
        return gguf.build_sentencepiece_like(
            tokens,
            scores,
            types,
            add_space_prefix=self.flag("add_space_prefix", not merged),
            strips=self._stripping(tokens, types),
            merges=self.items("merges", str) if merged else None,
            unknown_id=self.id("unknown_token_id") if merged else None,
        )

    def _stripping(self, tokens: list[str], types: list[int]) -> set[str]:
        """Tokens that take the white space behind them, which only Phi-3's tokenizer.json says:
        there and in llama.cpp, which knows the model by its name, all but three of its own."""
        name = self.file.metadata.get("general.name")
        named = isinstance(name, str) and any(own in name.lower() for own in _PHI3)
        if not named and self.file.metadata.get("general.architecture") != "phi3":
            return set()
        own = (CONTROL, USER_DEFINED)
        return {text for text, kind in zip(tokens, types) if kind in own} - _PHI3_PLAIN
