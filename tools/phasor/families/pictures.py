"""Models with pictures. The part for text is converted, and the parts for pictures are left out.
The part for text is one of the decoders, or the text encoder of a pair (CLIP, SigLIP).

config.json has the configuration of the part for text as text_config, and the names of its tensors
begin with a prefix. Fields and tensors for pictures are listed, none is guessed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from phasor.checkpoints.tensors import Checkpoint
from phasor.errors import PhasorError, shown
from phasor.families import decoders, encoders, nearest
from phasor.families.family import Family
from phasor.families.hf_config import NEWER, Config
from phasor.format import descriptor as D
from phasor.values import table, words

_TEXT, _TIED = "text_config", "tie_word_embeddings"
_WHY = "of pictures, which are left out"
_CLASSIFIES = "ForSequenceClassification"
# What stands beside a language model's configuration: of one that generates, and of one with
# classes, whose padding is its own.
_IDS = words("bos_token_id eos_token_id pad_token_id")
_LABELS = words("id2label label2id num_labels problem_type")
# Fields of pictures that published language models of them have.
_BESIDE = words("neftune_noise_alpha perceiver_config pixel_shuffle_factor qk_layer_norms")
_BESIDE += words("use_resampler vision_config vision_start_token_id vision_end_token_id")
_BESIDE += words("vision_token_id image_token_id video_token_id")


class Pictured(NamedTuple):
    """Models of one type."""

    classes: tuple[str, ...]
    text: str  # the type of a language model whose configuration does not say it
    names: Mapping[str, str]  # how the language model's names begin, and how the decoder's do
    left_out: tuple[str, ...]  # how the names of the other tensors begin
    harmless: tuple[str, ...]  # fields beside the language model's
    tied: bool = False  # tie_word_embeddings of transformers 5 where nothing says it
    flat: bool = False  # the first versions have the language model's fields beside the others
    alone: str = ""  # of a pair of encoders: the class that gives the same vector of a text
    beside: tuple[str, ...] = ()  # fields of this encoder that stand beside its configuration
    caps: bool = False  # the class computes the language model's cap of logits
    within: tuple[str, ...] = (_TEXT,)  # tables of this configuration: the first that is not null

    @property
    def families(self) -> Sequence[Family]:
        """Those that the part for text may be of."""
        kin = [family for family in encoders.FAMILIES if self.text in family.types]
        return kin if self.alone else decoders.FAMILIES


class Part(NamedTuple):
    """The language model of a directory."""

    values: dict[str, Any]  # its config.json, if it were one by itself
    prefix: str  # of the names of these fields
    of: Pictured
    note: str

    def within(self, checkpoint: Checkpoint) -> Checkpoint:
        """The tensors under the names of the decoder."""
        return checkpoint.renamed(dict(self.of.names))

    def part_ends(self, checkpoint: Checkpoint) -> None:
        """Transformers 5 ties no two matrices that differ, whatever the configuration says."""
        ends = "lm_head.weight", "model.embed_tokens.weight"
        newer = (Config(Path(), self.values).version or 0) >= NEWER
        if newer and all(name in checkpoint for name in ends) and not checkpoint.same(*ends):
            self.values[_TIED] = False

    def check_logits(self, where: Path, output: Mapping[str, Any]) -> None:
        """PhasorError for logits of a language model that are more than a product with a matrix:
        those of these classes are no more."""
        plain = (output["cap"] == 0 or self.of.caps) and output["scale"] == 1
        if output["output"] == D.LOGITS and not plain:
            said = [n for n in self.values if "logit" in n and not n.startswith("attn")]
            name = ", ".join(said) or "model_type: its cap or factor of logits"
            raise PhasorError(
                f"{where}: {self.prefix}{name}: not computed by a class with pictures; set it to"
                " what does nothing, or convert the language model by itself"
            )

    @property
    def ignore(self) -> dict[str, str]:
        """Patterns of the tensors that have no use, with the reason."""
        return {start + "*": _WHY for start in self.of.left_out}


_LLAVA_NAMES = table("""
    language_model.model.    model.
    language_model.lm_head.  lm_head.
    language_model.score.    score.
    model.language_model.    model.
""")
_LLAVA_LEFT_OUT = words("""
    vision_tower. model.vision_tower. multi_modal_projector. model.multi_modal_projector.
""")
_LLAVA_FIELDS = words("""
    ignore_index image_token_index image_token_id image_seq_length projector_hidden_act
    vision_feature_layer vision_feature_select_strategy multimodal_projector_bias vocab_size
    initializer_range
""")


def _llava(name: str, text: str, fields: str = "", more: str = "", **how: Any) -> Pictured:
    """LLaVA's names. more: classes beside the one that gives logits."""
    classes = (f"{name}ForConditionalGeneration", *words(more))
    harmless = _LLAVA_FIELDS + words(fields)
    return Pictured(classes, text, _LLAVA_NAMES, _LLAVA_LEFT_OUT, harmless, **how)


def _qwen(name: str, text: str, flat: bool) -> Pictured:
    return Pictured(
        (f"{name}ForConditionalGeneration",),
        text,
        {"model.language_model.": "model."},
        words("visual. model.visual."),
        words("image_token_id video_token_id vision_start_token_id vision_end_token_id"),
        flat=flat,
    )


def _idefics(name: str) -> Pictured:
    return Pictured(
        (f"{name}ForConditionalGeneration",),
        "llama",
        {"model.text_model.": "model."},
        words("model.vision_model. model.connector."),
        words("image_token_id scale_factor vocab_size _pad_token_id"),
    )


def _pair(name: str, text: str, alone: str, harmless: str = "", **how: Any) -> Pictured:
    """Two encoders, of texts and of pictures, whose vectors are compared."""
    left_out = words("vision_model. visual_projection. logit_scale logit_bias")
    beside = words(f"initializer_factor {harmless}")
    return Pictured((f"{name}Model",), text, {}, left_out, beside, alone=alone, **how)


MODELS = {
    "clip": _pair(
        "CLIP",
        "clip_text_model",
        "CLIPTextModelWithProjection",
        "logit_scale_init_value vision_config_dict",
        beside=("projection_dim",),
        within=(f"{_TEXT}_dict", _TEXT),
    ),
    "siglip": _pair("Siglip", "siglip_text_model", "SiglipTextModel"),
    "gemma3": _llava(
        "Gemma3",
        "gemma3_text",
        "boi_token_index eoi_token_index mm_tokens_per_image",
        f"Gemma3{_CLASSIFIES}",
        tied=True,
    ),
    "gemma4": Pictured(
        ("Gemma4ForConditionalGeneration",),
        "gemma4_text",
        {"model.language_model.": "model."},
        words("model.vision_tower. model.embed_vision. model.audio_tower. model.embed_audio."),
        words("""
            audio_config boi_token_id eoi_token_id image_token_id video_token_id boa_token_id
            eoa_token_id eoa_token_index audio_token_id vision_soft_tokens_per_image
        """),
        tied=True,
        caps=True,
    ),
    "internvl": _llava("InternVL", "qwen2", "downsample_ratio", tied=True),
    "llava": _llava("Llava", "llama"),
    "mistral3": _llava("Mistral3", "mistral", "spatial_merge_size", tied=True),
    "qwen2_vl": _qwen("Qwen2VL", "qwen2_vl_text", True),
    "qwen2_5_vl": _qwen("Qwen2_5_VL", "qwen2_5_vl_text", True),
    "qwen3_vl": _qwen("Qwen3VL", "qwen3_vl_text", False),
    "idefics3": _idefics("Idefics3"),
    "smolvlm": _idefics("SmolVLM"),
}

# What their language models do otherwise than the decoder by itself.
_OTHERWISE = {"paligemma": "its prompt is read in both directions"}


def text_part(where: Path, values: dict[str, Any]) -> Part | None:
    """The language model of a configuration; None: it is of no such model. PhasorError names the
    field that is not known, or what is missing."""
    kind, whole = str(values.get("model_type")), Config(where, values)
    if kind in _OTHERWISE:
        what = f"{shown(kind)} is not supported: {_OTHERWISE[kind]}"
        like = [name for name, other in MODELS.items() if not other.alone]
        raise whole.error("model_type", f"{what}; {nearest.some(kind, like)}")
    of = MODELS.get(kind)
    if of is None:
        return None
    within = next((n for n in of.within if whole.values.get(n) is not None), _TEXT)
    inside, whole.asked = whole.table(within), {*whole.asked, *of.within, *of.beside}
    whole.asked.add("vision_config")
    if inside is None and not of.flat:
        raise whole.error(_TEXT, "missing, the configuration of the language model")
    classes = whole.get("architectures")
    if classes is None and inside is not None and of.flat:  # where transformers 4.57 puts it
        classes = inside.get("architectures")
    if not isinstance(classes, list) or len(classes) != 1 or classes[0] not in of.classes:
        raise whole.error(
            "architectures",
            f"{shown(classes)} is not supported, {nearest.some(classes, of.classes)}",
        )
    beside = _BESIDE + of.harmless * (inside is None)
    text = {n: v for n, v in (inside or whole).values.items() if n not in beside}
    if inside is None:
        text["model_type"] = of.text
    else:
        inside.finished = True  # what it has is asked for as the decoder's
        whole.finish(of.harmless)
        _inherit(whole, of, text, _beside(of, classes[0]))
    kind = text.setdefault("model_type", of.text)
    family = next((f for f in of.families if kind in f.types), None)
    if family is None:
        raise whole.error(f"{within}.model_type", f"{shown(kind)} is not supported")
    for name in of.beside:  # count whatever the table has
        text[name] = whole.whole(name, default=family.defaults[name])
    for name in _IDS:  # transformers 4 leaves those out of a table that are the defaults
        text.setdefault(name, family.defaults.get(name))
    text["architectures"] = [of.alone or _class(classes[0], family.classes)]
    part = "text encoder" if of.alone else "language model"
    note = f"{classes[0]}: the file has its {part}; pictures are left out"
    return Part(text, f"{within}." if inside else "", of, note)


def _class(name: str, classes: tuple[str, ...]) -> str:
    """The decoder's class that is like one with pictures: it gives logits, or what the end of its
    name says."""
    return next(
        (c for c in classes[1:] if name.endswith("For" + c.rpartition("For")[2])), classes[0]
    )


def _beside(of: Pictured, name: str) -> tuple[str, ...]:
    """The fields of the part for text that stand beside its configuration, if they are there."""
    return () if of.alone else _LABELS if name.endswith(_CLASSIFIES) else _IDS


def _inherit(whole: Config, of: Pictured, text: dict[str, Any], names: tuple[str, ...]) -> None:
    """What of the language model stands beside its configuration. Whose tie_word_embeddings counts
    is another's from transformers 5 on."""
    text["transformers_version"] = whole.values.get("transformers_version")
    for name in names:
        if whole.values.get(name) is not None:
            text[name] = whole.values[name]
    newer, tied = (whole.version or 0) >= NEWER, whole.get(_TIED)
    tied = of.tied if newer and tied is None else tied
    if tied is not None and (newer or text.get(_TIED) is None):
        text[_TIED] = tied
