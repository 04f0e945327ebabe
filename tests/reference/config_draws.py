"""Random configurations over every key of a family's class, made, saved and run by whichever
transformers is first on the path.

    config_draws.py BASES.json OUT FIRST COUNT

BASES.json: {family: [[class, configuration], …]}. For each family COUNT models from number FIRST on
are drawn; OUT/FAMILY-NUMBER/ has what is saved, `outputs.npz` (`f32_N`, `f64_N`: what the model
gives for the first N ids, in float32 and in double) and OUT/FAMILY-NUMBER.json the draw: class,
changed keys, and why it was not made where the library does not take it. config_fuzz.py runs this.
"""

from __future__ import annotations

import copy
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from save_newer import draw as draw_weights
from save_newer import float32_is_double, restore, run_text
from transformers.activations import ACT2FN

LENGTHS = (20, 6)
_MOST_WEIGHTS = 20_000_000
# Not drawn: what the saved files are called and stored as, and the sizes, which are drawn together.
_NOT_DRAWN = set(
    """
    transformers_version model_type architectures _name_or_path torch_dtype dtype vocab_size
    _attn_implementation _attn_implementation_internal attn_implementation return_dict torchscript
    pruned_heads _experts_implementation _experts_implementation_internal
    """.split()
)
_ALSO = ("rope_scaling", "rope_parameters", "tie_word_embeddings")  # fields of all classes
_WIDTHS = ("hidden_size", "d_model", "n_embd")
_HEADS = (
    *("num_attention_heads", "n_head", "n_heads", "num_heads"),
    *("encoder_attention_heads", "decoder_attention_heads"),
)
_LAYERS = (
    *("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    *("decoder_layers", "num_decoder_layers"),
)
_INNER = ("intermediate_size", "ffn_dim", "d_ff", "n_inner", "encoder_ffn_dim", "decoder_ffn_dim")
_TEXTS = {
    "position_embedding_type": ("absolute", "relative_key", "relative_key_query"),
    "feed_forward_proj": ("relu", "gelu", "gated-gelu", "gated-silu", "gated-relu"),
    "summary_activation": ("tanh", None),
    "classifier_pooling": ("cls", "mean"),
    "norm_type": ("layer_norm", "rms_norm", "low_precision_layernorm"),
}
_OF_PICTURES = ("hidden_size",)  # sizes that other parts have too
_LIST_KINDS = ("full_attention", "sliding_attention")


def scaling(rng: random.Random, pairs: int) -> dict[str, Any] | None:
    """A rope_scaling; pairs: rotary frequencies of a head."""
    kind = rng.choice(("linear", "dynamic", "yarn", "longrope", "llama3", "default", None))
    out: dict[str, Any] = {"rope_type": kind, "factor": rng.choice((1.0, 2.0, 4.0, 8.0))}
    trained = {"original_max_position_embeddings": rng.choice((8, 16, 24, 32))}
    if kind == "yarn":
        more = {"beta_fast": 16, "beta_slow": 2, "attention_factor": 0.8, "mscale": 1.5}
        more |= {"mscale_all_dim": 0.7, "truncate": False}
        out |= trained if rng.random() < 0.7 else {}
        out |= {name: more[name] for name in more if rng.random() < 0.25}
    elif kind == "longrope":
        out |= {
            "short_factor": [1.0 + 0.1 * i for i in range(pairs)],
            "long_factor": [1.5 + 0.5 * i for i in range(pairs)],
            **trained,
        }
    elif kind == "llama3":
        out |= {"low_freq_factor": 1.0, "high_freq_factor": rng.choice((2.0, 4.0)), **trained}
    elif kind == "default":
        del out["factor"]
    return None if kind is None else out


def number(rng: random.Random, name: str, default: Any) -> Any:
    if name in ("temperature", "top_k", "top_p", "typical_p"):  # only with do_sample
        return default
    if "dropout" in name or name.endswith(("_drop", "_pdrop", "layerdrop")):
        return rng.choice((0.0, 0.1))
    if "eps" in name:
        return rng.choice((1e-12, 1e-6, 1e-5, 1e-3, 0.1))
    if "theta" in name or name.endswith(("_base", "base_freq")):
        return rng.choice((10.0, 500.0, 10000.0, 1e6))
    if "window" in name or name == "local_attention":
        return rng.choice((None, 1, 2, 4, 9, 100))
    if "position" in name or name in ("max_seq_len", "n_ctx"):
        return rng.choice((24, 32, 50, 96))
    if name.endswith("_token_id"):
        return rng.choice((None, 0, 1, 2, 3, 50))
    if isinstance(default, float):
        return rng.choice((0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 7.0, default * 2))
    return rng.choice((0, 1, 2, 3, 4, 7, default + 1))


def value(
    rng: random.Random, name: str, default: Any, config: dict[str, Any], whole: Any = ()
) -> Any:
    """Another value of a field, of the kind that its name and its default say; whole: all fields of
    the class."""
    layers = next((config[n] for n in _LAYERS if config.get(n)), 2)
    if name in ("rope_scaling", "rope_parameters"):
        found = scaling(rng, rng.choice((2, 4, 5, 8)))
        if name == "rope_parameters" and found is not None:
            found["rope_theta"] = rng.choice((10.0, 10000.0))
            if rng.random() < 0.3:
                found["partial_rotary_factor"] = rng.choice((0.25, 0.5, 1.0))
        return found
    if name in _TEXTS:
        return rng.choice(_TEXTS[name])
    if name == "layer_types":
        kinds = ("full_attention", "conv") if "conv_L_cache" in whole else _LIST_KINDS
        return [rng.choice(kinds) for _ in range(layers)]
    if name == "full_attn_idxs":
        return rng.choice((None, sorted(rng.sample(range(layers), rng.randint(0, layers)))))
    if "act" in name.split("_") or "activation" in name or default in ("gelu", "relu", "silu"):
        return rng.choice(sorted(ACT2FN))
    if isinstance(default, bool):
        return not config.get(name, default)
    if isinstance(default, (int, float)):
        return number(rng, name, default)
    if isinstance(default, list):
        if name == "attention_types":
            return [[[rng.choice(("global", "local"))], layers]]
        return [rng.choice((0, 1, 2)) for _ in range(layers)]
    if isinstance(default, dict) and default:
        inner = rng.choice(sorted(default, key=str))
        return {**default, inner: value(rng, str(inner), default[inner], config)}
    if isinstance(default, str):
        return rng.choice((default, "other"))
    if "window" in name or name.endswith("_token_id"):
        return number(rng, name, 1)
    return rng.choice((None, True, False, 1, 2, 0.5, 4.0))


def sizes(rng: random.Random, config: dict[str, Any]) -> list[str]:
    """Odd widths, heads and layers, in place of those of the base that it names; which are others
    now."""
    before = copy.deepcopy(config)
    heads = rng.choice((1, 2, 3, 4, 6))
    width = heads * rng.choice((4, 6, 8, 10, 16))
    for name in (n for n in config if config[n] is not None):
        if name in _WIDTHS:
            config[name] = width
        elif name in _HEADS:
            config[name] = heads
        elif name in _LAYERS:
            config[name] = rng.choice((1, 2, 3, 4))
        elif name in _INNER:
            config[name] = rng.choice((1, 17, 48, 53))
        elif name == "num_key_value_heads":
            config[name] = rng.choice([n for n in range(1, heads + 1) if heads % n == 0])
        elif name == "head_dim":
            config[name] = rng.choice((4, 6, 10, 16))
        elif name in ("embedding_size", "word_embed_proj_dim"):
            config[name] = rng.choice((width, 20))
    return [name for name in config if config[name] != before[name]]


def drawn(family: str, number_: int, bases: list) -> tuple[str, dict[str, Any], list[str]]:
    """(class, configuration, keys that were changed)."""
    rng = random.Random(f"{family} {number_}")
    model, base = rng.choice(bases)
    config = copy.deepcopy(base)
    whole = getattr(transformers, model).config_class

    def defaults(table: str) -> dict[str, Any]:
        """Of the configuration that a table inside is."""
        return type(getattr(whole(**copy.deepcopy(config)), table))().to_dict()

    if "text_config" in config:  # of a model with pictures: of its language model
        text = config["text_config"]
        changed = changed_keys(rng, text, defaults("text_config"), _OF_PICTURES)
        fit_sections(text)
        return model, config, changed
    if "encoder" not in config:
        changed = changed_keys(rng, config, whole().to_dict())
        if model.startswith("FSMT"):  # with a cache, its forward pass masks no later token
            config["use_cache"] = False
        return model, config, changed
    changed = []  # of a model of two models: of one of them, or of both
    of_halves = {half: defaults(half) for half in ("encoder", "decoder")}
    for half in rng.choice((["encoder"], ["decoder"], ["encoder", "decoder"])):
        inside, whole_half = config[half], of_halves[half]
        if "text_config" in inside:  # beside pictures: of its encoder of texts
            inside, whole_half = inside["text_config"], whole_half["text_config"]
        changed += changed_keys(rng, inside, whole_half)
    if "text_config" in config["encoder"]:
        fit_halves(config["encoder"]["text_config"], config["decoder"], half)
    return model, config, changed


def fit_halves(encoder: dict[str, Any], decoder: dict[str, Any], half: str) -> None:
    """Gives two halves of one width that of the half that was drawn last, with its heads, which
    must divide it; and lists of layers their lengths."""
    last, other = (encoder, decoder) if half == "encoder" else (decoder, encoder)
    if last["hidden_size"] != other["hidden_size"]:
        for name in ("hidden_size", "num_attention_heads", "num_key_value_heads"):
            other[name] = last[name]
    for one in (encoder, decoder):
        width, types, layers = one["hidden_size"], one["layer_types"], one["num_hidden_layers"]
        if not one["num_attention_heads"] or width % one["num_attention_heads"]:
            one["num_attention_heads"] = one["num_key_value_heads"] = 1
        if types and layers:
            one["layer_types"] = [types[i % len(types)] for i in range(layers)]


def fit_sections(text: dict[str, Any]) -> None:
    """Makes the sections of M-RoPE those of a drawn head's width."""
    table = text.get("rope_scaling")
    if isinstance(table, dict) and "mrope_section" in table:
        width = text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]
        third = width // 2 // 3
        table["mrope_section"] = [width // 2 - 2 * third, third, third]


def changed_keys(
    rng: random.Random,
    config: dict[str, Any],
    defaults: dict[str, Any],
    fixed: tuple[str, ...] = (),
) -> list[str]:
    """Changes a configuration but for what is fixed; the keys."""
    changed = []
    if rng.random() < 0.6:
        kept = {name: config[name] for name in fixed if name in config}
        changed += [name for name in sizes(rng, config) if name not in kept]
        config |= kept
    shared = transformers.PretrainedConfig().to_dict()
    own = sorted(key for key in defaults if key not in shared and key not in _NOT_DRAWN)
    own += [key for key in _ALSO if key in defaults]
    others = sorted(key for key in shared if key not in _NOT_DRAWN and key not in _ALSO)
    keys = rng.sample(own, min(len(own), rng.choice((0, 1, 1, 2, 2, 3, 4, 6))))
    keys += rng.sample(others, rng.choice((0, 0, 0, 1, 1, 2)) if keys else 1)
    for key in keys:
        config[key] = value(rng, key, defaults[key], config, defaults)
        changed.append(key)
    return changed


def halves(config: Any) -> list[Any]:
    """The configurations of the models that an EncoderDecoderModel is made of."""
    return [getattr(config, half) for half in ("encoder", "decoder") if hasattr(config, half)]


def ids_of(config: Any, count: int) -> list[int]:
    """Ids without the padding: some classes give it no position."""
    pads = [getattr(one, "pad_token_id", None) for one in (config, *halves(config))]
    rng = np.random.default_rng(7)
    some = rng.integers(4, 60, count).tolist()
    return [next(i for i in (id_, id_ - 1, id_ - 2, id_ - 3) if i not in pads) for id_ in some]


def run(model: torch.nn.Module, ids: list[int]) -> np.ndarray:
    more = (
        {"decoder_input_ids": torch.tensor([ids[::-1]])} if model.config.is_encoder_decoder else {}
    )
    with torch.no_grad():
        return run_text(model, torch.tensor([ids]), **more)[0].double().numpy()


def refuse_giants(kind: type, built: Any) -> None:
    """ValueError for a model of more weights than are drawn here: several sizes near their defaults
    at once make billions. Counted on a device without memory."""
    counted = copy.deepcopy(built)
    if getattr(counted, "hidden_act", None) == "xielu":  # whose code reads numbers from tensors
        counted.hidden_act = "relu"
    with torch.device("meta"):
        count = sum(p.numel() for p in kind(counted).parameters())
    if count > _MOST_WEIGHTS:
        raise ValueError(f"{count} weights, at most {_MOST_WEIGHTS} are made here")


def make(model: str, config: dict[str, Any], folder: Path, seed: int) -> list[int]:
    kind = getattr(transformers, model)
    how = "sdpa" if "Falcon" in model else "eager"
    built = kind.config_class(**copy.deepcopy(config), attn_implementation=how)
    for half in halves(built):
        half._attn_implementation = how
    refuse_giants(kind, built)
    made = kind(built).float().eval()
    tables = {n: p.detach().clone() for n, p in made.named_parameters() if not p.requires_grad}
    draw_weights(made)
    for name, table in tables.items():  # sines, which are nobody's weights
        made.get_parameter(name).data.copy_(table)
    made.save_pretrained(folder)
    restore(folder, config)
    outputs = {}
    for count in LENGTHS:
        ids = ids_of(made.config, count)
        outputs[f"ids_{count}"] = np.array(ids)
        outputs[f"f32_{count}"] = run(made, ids)
    double = made.double()
    for count in LENGTHS:
        try:
            outputs[f"f64_{count}"] = run(double, ids_of(made.config, count))
        except RuntimeError:  # a class that mixes both
            with float32_is_double():
                outputs[f"f64_{count}"] = run(double, ids_of(made.config, count))
    np.savez(folder / "outputs.npz", **outputs)


def main(bases: Path, out: Path, first: int, count: int) -> None:
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for family, of_family in json.loads(bases.read_text()).items():
        for n in range(first, first + count):
            told: dict[str, Any] = {"family": family, "number": n, "why": ""}
            try:
                model, config, changed = drawn(family, n, of_family)
                told |= {"model": model, "config": config, "changed": changed}
                make(model, config, out / f"{family}-{n}", n)
            except Exception as error:  # whatever a library says of a configuration
                told["why"] = f"{type(error).__name__}: {error}"[:300]
            (out / f"{family}-{n}.json").write_text(json.dumps(told, default=str))
    print(transformers.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
