"""SentencePiece models whose pieces a class of transformers numbers in its own way, without a list
beside them: Pegasus's spiece.model, and the sentencepiece.bpe.model of mBART, mBART-50, NLLB and
PLBart.
The section is one with a list of ids (listed.py). Needs numpy only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from phasor.errors import PhasorError, named, shown
from phasor.files import has_file, read_bytes, read_json
from phasor.tokenizers.listed import (
    Listed,
    content,
    listed_section,
    plain_tokens,
    put_special,
    special_tokens,
    token,
)
from phasor.tokenizers.section import CONTROL, UNKNOWN, TokenizerError
from phasor.tokenizers.sentencepiece import read_model_proto
from phasor.values import words

_KINDS = {CONTROL: "a control", UNKNOWN: "the unknown"}


class _Pieces:
    """A model's pieces by its own numbers, and the special tokens that a directory names."""

    def __init__(
        self, path: Path, config: Mapping[str, Any], usual: Mapping[str, str], first: list[int]
    ) -> None:
        """first: the types that the first pieces must have."""
        if config.get("sp_model_kwargs"):
            raise TokenizerError(
                f"sp_model_kwargs: {shown(config['sp_model_kwargs'])}, expected nothing"
            )
        self.path = path
        try:
            proto = read_model_proto(read_bytes(path))
            self.texts = [text.decode() for text, _, _ in proto["pieces"]]
            for i, kind in enumerate(first):
                if i >= len(self.texts) or proto["pieces"][i][2] != kind:
                    raise TokenizerError(f"piece {i} is not {_KINDS[kind]} piece, as its class has")
        except UnicodeDecodeError as error:
            raise PhasorError(f"{path}: a piece is not UTF-8") from error
        except PhasorError as error:
            raise named(path, error) from error
        strips = proto["remove_extra"] and bool(proto["charsmap"])
        self.special = special_tokens(config, usual, strips)
        self.plain = plain_tokens(config, usual)
        self.unknown = next(iter(self.special))

    def section(self, pieces: int, offset: int, own: dict[str, int]) -> tuple[bytes, Listed]:
        """pieces: the first that has an id, which is its number and `offset`; own: the ids of what
        the class gives itself, all of them special."""
        texts = {i + offset: self.texts[i] for i in range(pieces, len(self.texts))}
        for text, id_ in own.items():
            texts.setdefault(id_, text)
        ids = {text: id_ for id_, text in texts.items()} | own
        special = put_special(texts, ids, self.special) | own
        listed = Listed(texts, ids, special, ids[self.unknown], self.plain - own.keys())
        return listed_section(self.path, listed), listed


# ---- Pegasus

_PEGASUS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>", "mask": "<mask_2>"}
_OFFSET = 103


def pegasus_section(folder: Path, config: Mapping[str, Any]) -> tuple[bytes, Listed]:
    """The section of spiece.model: the padding and the end, two masks and <unk_2> … <unk_102>, and
    from 105 on the pieces behind the model's own first two."""
    if config.get("offset") not in (None, _OFFSET):
        raise TokenizerError(
            f"offset: {shown(config['offset'])} is not supported, expected {_OFFSET}"
        )
    said = folder / "tokenizer_config.json"
    if has_file(said) and read_json(said).get("mask_token_sent", "") is None:
        raise TokenizerError("mask_token_sent: null is not supported, expected a text")
    made = _Pieces(folder / "spiece.model", config, _PEGASUS, [CONTROL, CONTROL])
    pad, end, mask = (token(config, name, _PEGASUS[name], True) for name in ("pad", "eos", "mask"))
    sentence = content("mask_token_sent", config.get("mask_token_sent", "<mask_1>"), True)
    first = [pad, end, sentence, mask, *(f"<unk_{i}>" for i in range(2, _OFFSET))]
    if len(set(first)) != len(first):
        raise TokenizerError("two of its special tokens are one")
    return made.section(2, _OFFSET, {text: i for i, text in enumerate(first)})


# ---- mBART, mBART-50, NLLB-200 and PLBart, which have fairseq's first ids

_FAIRSEQ = {
    **{"unk": "<unk>", "bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>"},
    **{"pad": "<pad>", "mask": "<mask>"},
}
_FIRST = ("<s>", "<pad>", "</s>", "<unk>")
# The languages behind the pieces, in the order of their ids.
_MBART = words("""
    ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV
    my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN
""")
_MBART50 = words("""
    af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX
    sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
""")
_PLBART = {"base": words("__java__ __python__ __en_XX__")}
_PLBART["multi"] = (*_PLBART["base"], *words("__javascript__ __php__ __ruby__ __go__"))
_BEHIND = {"MBart": _MBART, "MBart50": (*_MBART, *_MBART50)}
_MOST_BEHIND = 4096


def plbart_codes(config: Mapping[str, Any]) -> str:
    """Which of PLBart's lists of languages a directory has."""
    codes = config.get("language_codes") or "base"
    if not isinstance(codes, str) or codes not in _PLBART:
        raise TokenizerError(f"language_codes: {shown(codes)}, expected base or multi")
    return codes


def fairseq_section(
    folder: Path, config: Mapping[str, Any], kind: str, rows: int | None = None
) -> tuple[bytes, Listed]:
    """The section of sentencepiece.bpe.model: fairseq's four first ids, the pieces from the model's
    third on, one higher, and behind them the languages and the mask. kind: the class, MBart,
    MBart50, PLBart, or Nllb, whose languages have the ids that added_tokens_decoder gives them.
    rows: of the embedding. That of a PLBart of seven languages may end before the mask, which is
    then the unknown token, as transformers 5 has it."""
    if config.get("legacy_behaviour"):
        raise TokenizerError("legacy_behaviour: True is not supported, expected False")
    made = _Pieces(
        folder / "sentencepiece.bpe.model", config, _FAIRSEQ, [UNKNOWN, CONTROL, CONTROL]
    )
    own, behind = {text: i for i, text in enumerate(_FIRST)}, len(made.texts) + 1
    if kind == "PLBart" or kind in _BEHIND:
        codes = _BEHIND[kind] if kind in _BEHIND else _PLBART[plbart_codes(config)]
        own |= {text: behind + i for i, text in enumerate(codes)}
        own["<mask>"] = last = behind + len(codes)
        if codes is _PLBART["multi"] and last == rows:
            own["<mask>"] = own["<unk>"]
            if made.special.get("<mask>") == last:
                made.special["<mask>"] = None
    else:
        more = {text: id_ for text, id_ in made.special.items() if text not in own}
        without = next((text for text, id_ in more.items() if id_ is None), None)
        if without is not None:
            raise TokenizerError(
                f"added_tokens_decoder: {shown(without)} has no id; save the tokenizer again"
                " (AutoTokenizer.from_pretrained(…).save_pretrained(…))"
            )
        if len(more) > _MOST_BEHIND or sorted(more.values()) != [
            *range(behind, behind + len(more))
        ]:
            raise TokenizerError(
                f"added_tokens_decoder: the ids of {len(more)} special tokens, expected those from"
                f" {behind} on"
            )
        own |= more
    return made.section(3, 1, own)
