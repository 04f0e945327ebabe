"""GGUF's architectures: what llama.cpp computes for each, of which the metadata has the sizes
(decoder.py). A key under the architecture's prefix that nobody asked for stops the conversion with
its name, and so does a tensor without a use."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from phasor import side_files
from phasor.errors import PhasorError, printable, shown
from phasor.families import nearest
from phasor.families.model import single
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.format.convolution import MOST_TAPS
from phasor.sources.gguf.container import GGUF
from phasor.sources.gguf.decoder import Architecture, Decoder, GGUFModel


def read(path: Path, i2s_blocks: int | None = None) -> GGUFModel:
    """The model of a GGUF file. i2s_blocks: as GGUF has it. PhasorError names the file
    and the key, tensor or architecture that is not supported."""
    file = GGUF(path, i2s_blocks or 128)
    name = file.metadata.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise PhasorError(
            f"{path}: general.architecture: {shown(name)} is not supported, "
            + nearest.some(name, ARCHITECTURES)
        )
    theirs = (f"{name}.", "tokenizer.")  # checked where they are read
    general = {k: v for k, v in file.metadata.items() if not k.startswith(theirs)}
    side_files.check(path, general, side_files.GGUF)
    model = Decoder(file, name, ARCHITECTURES[name]).build()
    if i2s_blocks is None and any(tensor.type.tail for tensor in file.tensors.values()):
        raise PhasorError(
            f"{path}: I2_S: the file does not say in which order its columns lie."
            " TRY: --i2s-blocks 128 if it was written on x86, as published files are, or 64 on ARM"
        )
    if sampling := [k for k in general if k.startswith("general.sampling.")]:
        model.notes.append(f"{printable(', '.join(sampling), 500)}: recommended, and not kept")
    return model


# ---- What is each architecture's own


def _gemma(d: Decoder) -> None:
    d.stack["embedding_scale"] = single(math.sqrt(d.width))


def _gemma2(d: Decoder) -> None:
    """Two norms around each sub-layer, caps, and a window in every other layer."""
    _gemma(d)
    d.kind["norm_place"] = D.BOTH
    d.kind["cap"] = d.keys.single("attn_logit_softcapping", 50.0)
    d.output["cap"] = d.keys.single("final_logit_softcapping", 30.0)
    if d.count == 46:  # the model of 27 billion weights divides by the width of an input's share
        d.kind["scale"] = single((d.width / d.heads) ** -0.5)
    window = d.keys.whole("attention.sliding_window")
    for own, sees in zip(d.per_layer, d.windows(2)):
        own.update({"window": window} if sees else {})


def _gemma3(d: Decoder) -> None:
    """Five layers with a window and frequencies of their own, then one that sees all."""
    _gemma(d)
    d.kind["norm_place"] = D.BOTH
    d.output["cap"] = d.keys.single("final_logit_softcapping", 0.0)
    if d.count == 62:
        d.kind["scale"] = single((d.width / d.heads) ** -0.5)
    window = d.keys.whole("attention.sliding_window")
    base = d.keys.number("rope.freq_base_swa", 1, 10000.0)
    near = d.frequencies(base, d.kind["rotary_width"], scaled=False)
    for own, sees in zip(d.per_layer, d.windows(6)):
        own.update({"window": window, "tables": {R.ROTARY: near}} if sees else {})


def _gemma4(d: Decoder) -> None:
    """Per-layer embeddings, layers that use the keys and values of earlier ones, heads of two
    widths; a block without v has that of k."""
    _gemma(d)
    k = d.keys
    near: dict[str, Any] = {}
    d.kind.update(norm_place=D.BOTH, scale=1.0)
    d.kind["layer_scale"] = int(d.has("layer_output_scale.weight"))
    d.output["cap"] = k.single("final_logit_softcapping", 30.0)
    near["window"] = k.whole("attention.sliding_window")
    near["head_width"] = k.whole("attention.key_length_swa", high=4096)
    values = k.get("attention.value_length_swa", near["head_width"])
    if values != near["head_width"]:
        what = f"{shown(values)}, and attention.key_length_swa is {near['head_width']}"
        raise k.error("attention.value_length_swa", what)
    near["rotary_width"] = k.whole(
        "rope.dimension_count_swa", 2, near["head_width"], near["head_width"]
    )
    base = k.number("rope.freq_base_swa", 1, 10000.0)
    near["tables"] = {R.ROTARY: d.frequencies(base, near["rotary_width"], scaled=False)}
    sees, borrowed = d.windows(6), k.whole("attention.shared_kv_layers", 0, d.count - 1, 0)
    own = d.count - borrowed
    last = {window: i + 1 for i, window in enumerate(sees[:own])}
    if borrowed and (last.get(True), last.get(False)) != (own - 1, own):
        raise k.error(
            "attention.shared_kv_layers",
            f"{borrowed}: the two layers before them must be one with a window and one without",
        )
    for i, (layer, window) in enumerate(zip(d.per_layer, sees)):
        layer.update(near if window else {})
        layer.update({"hidden": d.hidden[i]} if d.hidden else {})
        layer.update({"kv_heads": d.kv_heads[i]} if d.kv_heads else {})
        names = [f"blk.{i}.{part}.weight" for part in ("attn_k", "attn_v", "attn_k_norm")]
        if i >= own:
            layer.pop("separate_v", None)
            layer["keys_of"] = last[window]
            d.unread |= dict.fromkeys(names, "keys and values that llama.cpp does not use")
            continue
        layer["value_norm"] = 1
        d.values_of_keys |= {i} if names[1] not in d.file else set()
    d.names.update(
        {
            R.PER_LAYER_GATE: "inp_gate",
            R.PER_LAYER_OUT: "proj",
            R.PER_LAYER_AFTER: "post_norm",
            R.LAYER_SCALE: "layer_output_scale",
        }
    )
    width = k.whole("embedding_length_per_layer_input", 0, D.MAX_WIDTH, 0)
    if width:  # the factor of the sum of two parts is in the norm of one, the scale of the other
        d.factors[R.PER_LAYER_NORM] = 2**-0.5
        d.stack.update(
            per_layer_width=width,
            per_layer_scale=single((width / 2) ** 0.5),
            per_layer_norm=D.RMS_NORM,
            per_layer_norm_eps=single(d.stack["final_norm_eps"] * d.width),
        )


def _gpt2(d: Decoder) -> None:
    d.stack["position"] = D.LEARNED


def _gptneox(d: Decoder) -> None:
    d.kind["parallel"] = D.TWO_NORMS * d.keys.flag("use_parallel_residual", True)


def _falcon(d: Decoder) -> None:
    if d.has("attn_norm_2.weight"):
        d.kind["parallel"] = D.TWO_NORMS
        d.names.update({R.ATTENTION_BEFORE: "attn_norm_2", R.FFN_BEFORE: "attn_norm"})


def _bloom(d: Decoder) -> None:
    d.alibi()
    d.stack.update(
        max_positions=0, embedding_norm=D.LAYER_NORM, embedding_norm_eps=d.kind["norm_eps"]
    )  # its context_length is no limit


def _mpt(d: Decoder) -> None:
    d.alibi(d.keys.number("attention.max_alibi_bias", default=0.0))
    if d.heads & d.heads - 1:
        raise d.keys.error(
            "attention.head_count",
            f"{d.heads}: slopes of a number of heads that is no power of two are not supported",
        )
    d.kind["qkv_clip"] = d.keys.single("attention.clamp_kqv", 0.0)


def _stablelm(d: Decoder) -> None:
    d.keys.get("use_parallel_residual")  # the tensors say it
    if not d.has("ffn_norm.weight"):
        d.kind["parallel"] = D.SHARED_INPUT
    if d.kind["qk_norm"]:
        d.kind["qk_norm_over"] = D.OWN_HEAD


def _olmo(d: Decoder) -> None:
    d.bare_norms = True
    d.kind["qkv_clip"] = d.keys.single("attention.clamp_kqv", 0.0)


def _olmo2(d: Decoder) -> None:
    d.kind.update(norm_place=D.SUBLAYER, qk_norm_over=D.ALL_HEADS)


def _command_r(d: Decoder) -> None:
    d.output["scale"] = d.keys.single("logit_scale", 1.0)
    if d.kind["qk_norm"]:
        d.kind["qk_norm_over"] = D.OWN_HEAD


def _granite(d: Decoder) -> None:
    """Scales of the embedding, of what sub-layers add, of the scores, and what the logits are
    divided by; 0 is none."""
    k = d.keys
    d.stack["embedding_scale"] = k.single("embedding_scale", 0.0) or 1.0
    d.kind["residual_scale"] = k.single("residual_scale", 0.0) or 1.0
    d.kind["scale"] = k.single("attention.scale", 0.0) or d.kind["scale"]
    d.output["scale"] = single(1 / (k.number("logit_scale") or 1.0))


def _lfm2(d: Decoder) -> None:
    """Short convolutions in the blocks that have no heads of keys, norms of q and k in the
    others."""
    if d.keys.get("attention.sliding_window"):
        raise d.keys.error("attention.sliding_window", "is not supported for this architecture")
    d.convolutions(d.keys.whole("shortconv.l_cache", 1, MOST_TAPS))


def _smollm3(d: Decoder) -> None:
    """Every fourth layer has no positions."""
    for own in d.per_layer[3::4]:
        own.update(position=0, rotary_width=0)


def _bitnet(d: Decoder) -> None:
    d.kind["inner_norms"] = D.NORM_OF_OUT | D.NORM_OF_DOWN
    d.names.update({R.ATTENTION_INNER: "attn_sub_norm", R.FFN_INNER: "ffn_sub_norm"})


# llama.cpp has the approximation of GELU by tanh in all of them; gptneox, falcon and mpt were
# trained with the exact one.
_LAYER = {"norm": D.LAYER_NORM, "gated": False}
ARCHITECTURES = {
    "llama": Architecture(position=D.ROTARY_INTERLEAVED),
    "qwen2": Architecture(),
    "qwen3": Architecture(),
    "gemma": Architecture(activation=D.GELU_TANH, adapt=_gemma),
    "gemma2": Architecture(activation=D.GELU_TANH, adapt=_gemma2),
    "gemma3": Architecture(activation=D.GELU_TANH, adapt=_gemma3),
    "gemma4": Architecture(activation=D.GELU_TANH, adapt=_gemma4, differ=True),
    "phi2": Architecture(**_LAYER, activation=D.GELU_TANH, parallel=D.SHARED_INPUT),
    "phi3": Architecture(),
    "gpt2": Architecture(**_LAYER, position=0, activation=D.GELU_TANH, adapt=_gpt2),
    "gptneox": Architecture(**_LAYER, activation=D.GELU_ERF, adapt=_gptneox),
    "falcon": Architecture(**_LAYER, activation=D.GELU_ERF, parallel=D.SHARED_INPUT, adapt=_falcon),
    "bloom": Architecture(**_LAYER, position=0, activation=D.GELU_TANH, adapt=_bloom),
    "mpt": Architecture(**_LAYER, position=0, activation=D.GELU_ERF, adapt=_mpt),
    "stablelm": Architecture(norm=D.LAYER_NORM, adapt=_stablelm),
    "olmo": Architecture(norm=D.LAYER_NORM, position=D.ROTARY_INTERLEAVED, adapt=_olmo),
    "olmo2": Architecture(adapt=_olmo2),
    "command-r": Architecture(
        norm=D.LAYER_NORM, position=D.ROTARY_INTERLEAVED, parallel=D.SHARED_INPUT, adapt=_command_r
    ),
    "starcoder2": Architecture(**_LAYER, activation=D.GELU_TANH),
    "granite": Architecture(position=D.ROTARY_INTERLEAVED, adapt=_granite),
    "lfm2": Architecture(adapt=_lfm2, final_norm="token_embd_norm", mixed=True),
    "smollm3": Architecture(position=D.ROTARY_INTERLEAVED, adapt=_smollm3),
    "internlm2": Architecture(position=D.ROTARY_INTERLEAVED),
    "exaone": Architecture(),
    "bitnet": Architecture(adapt=_bitnet),
    "bitnet-b1.58": Architecture(activation=D.RELU2, adapt=_bitnet),
    "bitnet-25": Architecture(activation=D.RELU2, adapt=_bitnet),
}
