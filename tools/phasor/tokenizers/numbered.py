"""SentencePiece models whose pieces a class of transformers numbers in its own way, without a list
beside them: Pegasus's spiece.model, and the sentencepiece.bpe.model of mBART, mBART-50 and NLLB.
The section is one with a list of ids (listed.py). Needs numpy only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from phasor.errors import named, shown
from phasor.files import read_bytes, read_json
from phasor.format.layout import PhasorError
from phasor.tokenizers.listed import Listed, content, listed_section, special_tokens, token
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
        self.unknown = next(iter(self.special))

    def section(self, pieces: int, offset: int, own: dict[str, int]) -> tuple[bytes, Listed]:
        """pieces: the first that has an id, which is its number and `offset`; own: the ids of what
        the class gives itself, all of them special."""
        texts = {i + offset: self.texts[i] for i in range(pieces, len(self.texts))}
        texts |= {id_: text for text, id_ in own.items()}
        ids = {text: id_ for id_, text in texts.items()} | own
        for text, id_ in self.special.items():
            if text not in ids or id_ not in (None, ids[text]):
                what = "is not there" if text not in ids else f"has the id {id_}, here {ids[text]}"
                raise TokenizerError(f"the special token {shown(text)} {what}")
        special = {text: ids[text] for text in (*self.special, *own)}
        listed = Listed(texts, ids, special, ids[self.unknown])
        return listed_section(self.path, listed), listed


# ---- Pegasus

_PEGASUS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>", "mask": "<mask_2>"}
_OFFSET = 103


def pegasus_section(folder: Path, config: Mapping[str, Any]) -> tuple[bytes, Listed]:
    """The section of spiece.model: the padding and the end, two masks and <unk_2> … <unk_102>, and
    from 105 on the pieces behind the model's own first two."""
    if config.get("offset") not in (None, _OFFSET):
        raise TokenizerError(f"offset: {shown(config['offset'])} is not built, expected {_OFFSET}")
    said = folder / "tokenizer_config.json"
    if said.is_file() and read_json(said).get("mask_token_sent", "") is None:
        raise TokenizerError("mask_token_sent: null is not built, expected a text")
    made = _Pieces(folder / "spiece.model", config, _PEGASUS, [CONTROL, CONTROL])
    pad, end, mask = (token(config, name, _PEGASUS[name], True) for name in ("pad", "eos", "mask"))
    sentence = content("mask_token_sent", config.get("mask_token_sent", "<mask_1>"), True)
    first = [pad, end, sentence, mask, *(f"<unk_{i}>" for i in range(2, _OFFSET))]
    if len(set(first)) != len(first):
        raise TokenizerError("two of its special tokens are one")
    return made.section(2, _OFFSET, {text: i for i, text in enumerate(first)})


# ---- mBART, mBART-50 and NLLB-200, which have fairseq's first ids

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
_BEHIND = {"MBart": (*_MBART, "<mask>"), "MBart50": (*_MBART, *_MBART50, "<mask>")}
_MOST_BEHIND = 4096


def fairseq_section(folder: Path, config: Mapping[str, Any], kind: str) -> tuple[bytes, Listed]:
    """The section of sentencepiece.bpe.model: fairseq's four first ids, the pieces from the model's
    third on, one higher, and behind them the languages and the mask. kind: the class, MBart,
    MBart50 or Nllb, whose languages have the ids that added_tokens_decoder gives them."""
    if config.get("legacy_behaviour"):
        raise TokenizerError("legacy_behaviour: True is not built, expected False")
    made = _Pieces(
        folder / "sentencepiece.bpe.model", config, _FAIRSEQ, [UNKNOWN, CONTROL, CONTROL]
    )
    own, rows = {text: i for i, text in enumerate(_FIRST)}, len(made.texts) + 1
    if kind in _BEHIND:
        own |= {text: rows + i for i, text in enumerate(_BEHIND[kind])}
    else:
        more = {text: id_ for text, id_ in made.special.items() if text not in own}
        without = next((text for text, id_ in more.items() if id_ is None), None)
        if without is not None:
            raise TokenizerError(
                f"added_tokens_decoder: {shown(without)} has no id; save the tokenizer again"
                " (AutoTokenizer.from_pretrained(…).save_pretrained(…))"
            )
        if len(more) > _MOST_BEHIND or sorted(more.values()) != [*range(rows, rows + len(more))]:
            raise TokenizerError(
                f"added_tokens_decoder: the ids of {len(more)} special tokens, expected those from"
                f" {rows} on"
            )
        own |= more
    return made.section(3, 1, own)
