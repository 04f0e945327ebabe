"""A small Llama with random weights, a byte-level tokenizer with ChatML's tokens, and a chat
template, as a Hugging Face directory."""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from conftest import ROOT

WIDTH, HIDDEN, HEADS, LAYERS, POSITIONS = 32, 48, 2, 2, 1024
SPECIAL = ("<|im_start|>", "<|im_end|>", "[INST]", "[/INST]")


def write(folder: Path, template: str | None, **more) -> Path:
    """`more` goes into generation_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = json.loads(
        (ROOT / "tests/golden/tokenizers/bytelevel.json").read_text(encoding="utf-8")
    )
    rows = 1 + max(
        [*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])]
    )
    for token in SPECIAL:
        tokenizer["added_tokens"].append(
            {**tokenizer["added_tokens"][0], "id": rows, "content": token}
        )
        rows += 1
    tokenizer["pre_tokenizer"]["add_prefix_space"] = False
    tokenizer["post_processor"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "__type": "AddedToken"},
        "pad_token": "<pad>",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(config | ({"chat_template": template} if template is not None else {}))
    )
    (folder / "config.json").write_text(
        json.dumps(
            {
                "architectures": ["LlamaForCausalLM"],
                "model_type": "llama",
                "vocab_size": rows,
                "hidden_size": WIDTH,
                "num_attention_heads": HEADS,
                "num_key_value_heads": 1,
                "num_hidden_layers": LAYERS,
                "intermediate_size": HIDDEN,
                "max_position_embeddings": POSITIONS,
                "hidden_act": "silu",
                "rms_norm_eps": 1e-6,
                "tie_word_embeddings": True,
                "bos_token_id": 0,
                "eos_token_id": 2,
                "torch_dtype": "float32",
            }
        )
    )
    if more:
        (folder / "generation_config.json").write_text(json.dumps(more))
    elif (folder / "generation_config.json").exists():
        (folder / "generation_config.json").unlink()
    rng = np.random.default_rng(7)
    shapes = {"model.embed_tokens.weight": (rows, WIDTH), "model.norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        for name, shape in (
            ("self_attn.q_proj", (WIDTH, WIDTH)),
            ("self_attn.k_proj", (WIDTH // HEADS, WIDTH)),
            ("self_attn.v_proj", (WIDTH // HEADS, WIDTH)),
            ("self_attn.o_proj", (WIDTH, WIDTH)),
            ("mlp.gate_proj", (HIDDEN, WIDTH)),
            ("mlp.up_proj", (HIDDEN, WIDTH)),
            ("mlp.down_proj", (WIDTH, HIDDEN)),
            ("input_layernorm", (WIDTH,)),
            ("post_attention_layernorm", (WIDTH,)),
        ):
            shapes[f"model.layers.{i}.{name}.weight"] = shape
    save_file(
        {n: rng.normal(0, 0.5, size=s).astype(np.float32) for n, s in shapes.items()},
        folder / "model.safetensors",
    )
    return folder


def convert_it(folder: Path, output: Path, template: str | None, *flags: str, **more) -> Path:
    from phasor import convert

    source = write(folder, template, **more)
    assert convert.main([str(source), "-o", str(output), "--quiet", *flags]) == 0
    shutil.rmtree(source)
    return output
