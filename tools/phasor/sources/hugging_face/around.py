"""What goes around a text, between two and into their segments: the template of a tokenizer.json,
or what a class of transformers has in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phasor import side_files
from phasor.errors import shown
from phasor.sources.hugging_face.added import class_of, token_text
from phasor.tokenizers.json_parts import fields, member, refuse, steps
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.vocabulary import Vocabulary
from phasor.values import words


def template_of(spec: dict[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    """The ids around a text and between two: prefix, suffix, pair, and the segment of the second
    text, which is 1 if no step says otherwise."""
    found = {"prefix": [], "suffix": [], "pair": [], "pair_segment": 1}
    for step in steps(spec.get("post_processor"), "post_processor", "processors"):
        kind = step.get("type")
        if kind == "ByteLevel":  # offsets only
            continue
        if kind == "TemplateProcessing":
            found = _read_template(
                fields(step, "post_processor", ("single", "pair", "special_tokens"))
            )
        elif kind in ("BertProcessing", "RobertaProcessing"):
            fields(step, "post_processor", ("sep", "cls", "trim_offsets", "add_prefix_space"))
            sep, cls = (
                _token_id(member(step, name, "post_processor"), name) for name in ("sep", "cls")
            )
            bert = kind == "BertProcessing"
            found = {
                "prefix": [cls],
                "suffix": [sep],
                "pair": [sep] if bert else [sep, sep],
                "pair_segment": int(bert),
            }
        else:
            refuse(f"post_processor {kind}")
    for id_ in [*found["prefix"], *found["suffix"], *(found["pair"] or [])]:
        if id_ not in vocabulary.texts:
            raise TokenizerError(f"post_processor: the id {id_} is not in the vocabulary")
    return {"other_segments": False, **found}


_MOST_AROUND = 64  # ids around a text


def _token_id(pair: list[Any], name: str) -> int:
    """The id of [text, id]."""
    if len(pair) != 2 or type(pair[1]) is not int:
        raise TokenizerError(f"post_processor.{name}: {shown(pair)}, expected a text and an id")
    return pair[1]


def _template_item(item: Any, tokens: dict[str, Any]) -> tuple[str | None, list[int], int]:
    """(a sequence's name or None, a special token's ids, the segment)."""
    kind, value = (
        next(iter(item.items())) if isinstance(item, dict) and len(item) == 1 else ("", None)
    )
    name, segment = (
        value.get(field) if isinstance(value, dict) else None for field in ("id", "type_id")
    )
    if (
        kind not in ("SpecialToken", "Sequence")
        or not isinstance(name, str)
        or type(segment) is not int
        or not 0 <= segment < 1 << 16
    ):
        raise TokenizerError(
            f"post_processor: {shown(item)}, expected a Sequence or a SpecialToken with id and "
            "type_id"
        )
    if kind == "Sequence":
        return name, [], segment
    ids = tokens[name].get("ids") if isinstance(tokens.get(name), dict) else None
    if not isinstance(ids, list) or not all(type(id_) is int for id_ in ids):
        raise TokenizerError(f"post_processor.special_tokens: {shown(name)} has no list of ids")
    return None, ids, segment


def _read_template(step: dict[str, Any]) -> dict[str, Any]:
    def items(name: str) -> list[tuple[str | None, list[int], int]]:
        given = member(step, name, "post_processor")
        if len(given) > _MOST_AROUND:
            raise TokenizerError(
                f"post_processor.{name}: {len(given)} parts, expected at most {_MOST_AROUND}"
            )
        return [
            _template_item(item, member(step, "special_tokens", "post_processor")) for item in given
        ]

    def parts(name: str, sequences: str) -> list[tuple[list[int], set[int]]]:
        """The ids before, between and behind the sequences, each with the segments that occur in it
        and in the text before it."""
        out: list[tuple[list[int], set[int]]] = [([], set())]
        met = ""
        for sequence, ids, segment in items(name):
            if sequence is not None:
                met += sequence
                out.append(([], {segment}))
            else:
                out[-1][0].extend(ids)
                out[-1][1].add(segment)
        if met != sequences:
            refuse(f"post_processor.{name} with the texts {met or 'none'}")
        return out

    single = parts("single", "A")
    (prefix, _), (suffix, _) = single
    (before, first), (between, middle), (behind, second) = parts("pair", "AB")
    segments = set().union(first, middle, *(segments for _, segments in single))
    around = before == prefix and behind == suffix
    return {
        "prefix": prefix,
        "suffix": suffix,
        "pair": between if around else None,
        "pair_segment": max(second),
        "other_segments": segments != {0} or len(second) != 1,
    }


def pair_of(info: dict[str, Any]) -> list[int]:
    """The ids between two texts. TokenizerError where others are around them than around one."""
    if info["pair"] is None:
        refuse("post_processor with other ids around a pair than around a text")
    result: list[int] = info["pair"]
    return result


def check_segments(info: dict[str, Any], segments: int) -> list[str]:
    """Refuses a template whose special tokens have segments of their own, for a model that has
    such: the engine gives a special token the segment of the text that it is at. Returns notes."""
    if info["other_segments"] and segments > 0:
        refuse("post_processor with such type ids")
    newer = info["untyped_by_version"] and info["pair_segment"] and segments > 1
    return [
        "transformers 5 gives both texts of a pair segment 0, 4.57 gives the second one"
        f" {info['pair_segment']}, as here; model_input_names in tokenizer_config.json settles it"
    ] * bool(newer)


def check_cut(info: dict[str, Any]) -> None:
    """Refuses texts that lose their beginning, for a model that cuts them."""
    if info["cut"] != "right":
        raise TokenizerError(
            f"{info['cut_by']}: {shown(info['cut'])} is not supported: too long a text is cut at"
            f" its end ({side_files.ignoring(Path(info['cut_by'].split(':')[0]), info['cut_key'])}"
            " if yours are never too long)"
        )


# Classes of transformers whose models get no token types, from 4.57 on and from 5 on. Where
# nothing names the class, the model type does.
_UNTYPED = words("""
    Bart Barthez Bartpho BertGeneration BigBird BioGpt Blenderbot Bloom ByT5 CLIP Camembert Clvp
    CodeGen CodeLlama Cohere CpmAnt DPRReader Dia DistilBert Esm FSMT FastSpeech2Conformer GPT2
    GPTNeoX GPTNeoXJapanese GPTSw3 Gemma LED LayoutLMv3 LayoutXLM Llama Longformer Luke M2M100 MBart
    MBart50 MLuke MPNet MT5 Marian Mvp MyT5 Nllb Nougat OpenAIGPT PLBart Pegasus Perceiver
    ProphetNet Qwen2 Reformer Roberta SeamlessM4T Siglip Speech2Text SpeechT5 T5 Udop Vits Wav2Vec2
    Wav2Vec2CTC Wav2Vec2PhonemeCTC Whisper XGLM XLMRoberta TokenizersBackend SentencePieceBackend
    PythonBackend Esmc Lasr Qwen3_5 Siglip2 Tipsv2 VideoPrism
""")
_UNTYPED_NEWER = words("""
    PreTrained Albert BertJapanese Bertweet BlenderbotSmall Cpm CTRL Flaubert Funnel Herbert Mgpstr
    Parakeet Phobert RemBert RoCBert RoFormer Splinter XLM XLNet
""")


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def token_types(config: dict[str, Any]) -> dict[str, bool]:
    """Whether a model gets token types, and whether it depends on the version of transformers."""
    names = config.get("model_input_names")
    if names is not None and not (isinstance(names, list) and all(type(n) is str for n in names)):
        raise TokenizerError(
            f"tokenizer_config.json: model_input_names: {shown(names)}, expected a list of texts"
        )
    if names is not None:
        return {"typed": "token_type_ids" in names, "untyped_by_version": False}
    kind = config.get("tokenizer_class") or config.get("model_type") or ""
    kind = _plain(class_of(kind))
    newer = kind in map(_plain, _UNTYPED_NEWER)
    saved = "backend" in config  # by version 5
    typed = kind not in map(_plain, _UNTYPED) and not (newer and saved)
    return {"typed": typed, "untyped_by_version": newer and not saved}


def cut_of(config: dict[str, Any], spec: dict[str, Any]) -> dict[str, str]:
    """The side at which too long a text is cut, and what says so."""
    truncation = spec.get("truncation")
    direction = truncation.get("direction") if isinstance(truncation, dict) else None
    for where, key, value in (
        ("tokenizer_config.json", "truncation_side", config.get("truncation_side")),
        ("tokenizer.json", "truncation.direction", direction),
    ):
        if value is not None:
            if value not in ("left", "right", "Left", "Right"):
                raise TokenizerError(f"{where}: {key}: {shown(value)}, expected left or right")
            return {"cut": value.lower(), "cut_by": f"{where}: {key}", "cut_key": key}
    return {"cut": "right"}


# Classes of transformers that put the template together from add_bos_token and add_eos_token, with
# these values where nothing is said.
_TEMPLATE_CLASSES = {
    "Llama": (True, False),
    "CodeLlama": (True, False),
    "Gemma": (True, False),
    "Cohere": (True, False),
    "GPTNeoX": (False, False),
}


def class_template(config: dict[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    """What the class of the tokenizer puts in the template's place; nothing for other classes."""
    name = class_of(config.get("tokenizer_class"))
    flags = [config.get(f"add_{token}_token") for token in ("bos", "eos")]
    newer = "backend" in config  # saved by transformers 5, whose file counts where neither is said
    if name not in _TEMPLATE_CLASSES or (newer and flags == [None, None]):
        return {}
    around = []
    usual_flags = (False, False) if newer else _TEMPLATE_CLASSES[name]
    for token, said, usual in zip(("bos", "eos"), flags, usual_flags):
        content = token_text(config, token) or {
            "Llama": {"bos": "<s>", "eos": "</s>"},
            "CodeLlama": {"bos": "<s>", "eos": "</s>"},
            "Gemma": {"bos": "<bos>", "eos": "<eos>"},
        }.get(name, {}).get(token)
        wanted, id_ = usual if said is None else said, vocabulary.id(content)
        if wanted and id_ is None:
            raise TokenizerError(
                f"tokenizer_config.json: add_{token}_token, but {token}_token {content!r} is not "
                "in the vocabulary"
            )
        around.append([id_] if wanted else [])
    prefix, suffix = around
    return {"prefix": prefix, "suffix": suffix, "pair": [*suffix, *prefix], "pair_segment": 1}
