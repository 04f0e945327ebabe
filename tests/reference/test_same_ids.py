"""Same model, same ids, whichever file: a tokenizer in each of the files that it comes in gives the
ids that the library gives, on texts with special tokens in them and on whole chat prompts, and one
file gives what the other does.

A case of KINDS trains a small tokenizer and writes it in its forms: as transformers 4.57 saves its
fast and its slow class, as 5.x saves the same again, as a SentencePiece model alone, as GGUF in the
older and the newer spelling, as CTranslate2. Beside each form is what reads it: AutoTokenizer of
the version that wrote it, the slow class, the sentencepiece package, llama.cpp.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any, Callable, NamedTuple

import pytest
import test_fairseq as dictionaries
import tokenizers
import torch
import transformers
from answers import newer_answers
from test_tokenizer_listed import train
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers.models.m2m_100 import tokenization_m2m_100

from phasor import convert
from phasor.format.file import CHAT, PhasorFile
from sample import parameters

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)

ENGLISH = [
    "The quick brown fox jumps over the lazy dog.",
    "Once upon a time, there was a little girl named Lily.",
    "She loved to play outside in the park with her friends.",
    "It was 1999, or 2024; nobody knew 3.14159 better than she did.",
    "system user assistant tool: <b>bold</b>, and [brackets] | bars.",
    "def f(x):\n    return x + 1\n\n\nfor i in range(10):\n\tprint(i)\n",
    "Grüße aus Köln; 日本語のテキスト。 你好世界 café",
]


@functools.lru_cache
def sentences() -> list[str]:
    """What the vocabularies are trained on."""
    rng = random.Random(5)
    words = [
        "".join(rng.choice("aeioubdklmnrst") for _ in range(rng.randint(2, 7))) for _ in "x" * 300
    ]
    return ENGLISH * 8 + [" ".join(rng.choice(words) for _ in range(8)) for _ in range(500)]


PLAIN = [
    "the dog",
    "  two  spaces",
    "trailing  ",
    "tab\there\n\nand   lines \n x",
    "naïve café, 東京, 🙂👩‍🚀",
    "don't I'LL 12345",
    "▁a b▁c",
    "<s <",
]


def texts_with(special: list[str]) -> list[str]:
    """PLAIN, and each special token in all places of a text."""
    out = [*PLAIN, "".join(special), " ".join(special)]
    for token in special:
        out += [token, f"the{token}dog", f"{token}the", f"the {token} dog", f"the dog{token}"]
        out += [f"{token}\nthe", f" {token}  the", f"{token}{token}x", f"{token[:-1]} {token[1:]}"]
    return out


TALK = [
    {"role": "user", "content": "the dog"},
    {"role": "assistant", "content": "Once upon a time"},
    {"role": "user", "content": " the fox\n\nand <b>Lily</b>"},
]


class Form(NamedTuple):
    """One of the files that a tokenizer comes in."""

    source: Path  # what is converted
    theirs: Callable[[list[str]], list[list[int]]] | str  # reads it: the ids, "newer", "refused…"
    flags: list[str] = []


class Made(NamedTuple):
    forms: dict[str, Form]  # the first is what the others are compared with
    special: list[str]
    words: Any = None  # the tokenizer of the first, where it has a chat template
    # by form, why its library has other ids than the first form's
    other: dict[str, str] = {}


_OWN_STEPS = "5.x has steps of its own"


def auto(folder: Path, **how: Any) -> Callable[[list[str]], list[list[int]]]:
    made = transformers.AutoTokenizer.from_pretrained(folder, **how)
    return lambda texts: [made(text).input_ids for text in texts]


def saved(tokenizer: Any, folder: Path, net: Any = None) -> Path:
    tokenizer.save_pretrained(folder)
    if net is not None:
        shutil.copytree(net, folder, dirs_exist_ok=True)
    return folder


# ---- The models around them


def _drawn(net: torch.nn.Module, folder: Path) -> Path:
    torch.manual_seed(3)
    with torch.no_grad():
        for p in net.parameters():
            if p.requires_grad:
                p.copy_(torch.randn_like(p) * 0.4 + (0.7 if p.dim() == 1 else 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.eval().save_pretrained(folder)
    return folder


def decoder(folder: Path, rows: int, kind: str = "Llama", **more: Any) -> Path:
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2)
    config = getattr(transformers, f"{kind}Config")(
        **{
            **{"vocab_size": rows, "num_key_value_heads": 1, "max_position_embeddings": 512},
            **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None},
            **{**sizes, **more},
        }
    )
    return _drawn(getattr(transformers, f"{kind}ForCausalLM")(config), folder)


def encoder(folder: Path, rows: int, kind: str, **more: Any) -> Path:
    sizes = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=rows, max_position_embeddings=130, **sizes, **more
    )
    return _drawn(getattr(transformers, f"{kind}Model")(config), folder)


def translator(folder: Path, words: Any, kind: str, **more: Any) -> Path:
    sizes = {
        f"{stack}_{what}": n
        for stack in ("encoder", "decoder")
        for what, n in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 40))
    }
    name = "MarianMTModel" if kind == "Marian" else f"{kind}ForConditionalGeneration"
    made = getattr(transformers, name)
    config = made.config_class(
        vocab_size=max(len(words), 8 * (kind == "M2M100") + max(words.added_tokens_decoder) + 1),
        d_model=32,
        max_position_embeddings=64,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
        **{"decoder_start_token_id": words.eos_token_id, "forced_eos_token_id": None},
        **sizes,
        **more,
    )
    return _drawn(made(config), folder)


def t5(folder: Path, words: Any) -> Path:
    config = transformers.T5Config(
        vocab_size=len(words), d_model=32, d_kv=8, d_ff=40, num_layers=1, num_heads=4
    )
    config.decoder_start_token_id = 0
    return _drawn(transformers.T5ForConditionalGeneration(config), folder)


# ---- Language models of SentencePiece's BPE

_BYTES = dict(
    byte_fallback=True,
    normalization_rule_name="identity",
    remove_extra_whitespaces=False,
    split_digits=True,
)
_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ 'USER: ' + m['content'] +"
    " ' ASSISTANT:' }}{% else %}{{ m['content'] + eos_token }}{% endif %}{% endfor %}"
)
_CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_PHI3 = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '<|user|>\n' +"
    " m['content'] + '<|end|>\n<|assistant|>\n' }}{% else %}{{ m['content'] + '<|end|>\n' }}"
    "{% endif %}{% endfor %}"
)
_GEMMA = (
    "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + m['role'] + '\n' + m['content']"
    " + '<end_of_turn>\n' }}{% endfor %}{{ '<start_of_turn>model\n' }}"
)


def gguf(
    path: Path,
    tokens: list[str],
    types: list[int],
    *,
    scores: list[float] | None = None,
    merges: list[str] | None = None,
    pre: str = "default",
    ids: dict[str, int] | None = None,
    flags: dict[str, bool] | None = None,
    template: str | None = None,
    name: str = "",
    architecture: str = "llama",
) -> Path:
    """A random model with a tokenizer, as llama.cpp's converter writes it."""
    import gguf_models

    def tokenizer(writer: Any) -> None:
        writer.add_name(name or "a model")
        writer.add_tokenizer_model("llama" if scores is not None else "gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        if scores is not None:
            writer.add_token_scores(scores)
        else:
            writer.add_token_merges(merges)
        for key, value in (ids or {}).items():
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", value)
        for key, value in (flags or {}).items():
            writer.add_bool(f"tokenizer.ggml.{key}", value)
        if template is not None:
            writer.add_chat_template(template)

    case = {**gguf_models.CASES[architecture], "rows": len(tokens), "context": 512}
    gguf_models.write(path, case, tokenizer=tokenizer)
    return path


_KIND = {"normal": 1, "unknown": 2, "control": 3, "user": 4, "byte": 6}


def of_sentencepiece(
    model: Path, added: dict[str, str], spaces: bool = False
) -> tuple[list[str], list[int], list[float]]:
    """(tokens, types, scores) of a file's pieces, and of added tokens behind them. spaces: user
    defined pieces are spelled with spaces, as converters write them since July 2024."""
    import sentencepiece

    sp = sentencepiece.SentencePieceProcessor(model_file=str(model))
    data = model.read_bytes()
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(data)
    tokens = [piece.piece for piece in proto.pieces]
    types = [piece.type for piece in proto.pieces]
    scores = [sp.get_score(i) for i in range(len(sp))]
    for text, kind in added.items():
        if text in tokens:
            types[tokens.index(text)] = _KIND[kind]
            continue
        tokens.append(text)
        types.append(_KIND[kind])
        scores.append(-1000.0)
    if spaces:
        tokens = [
            t.replace("▁", " ") if kind == _KIND["user"] else t for t, kind in zip(tokens, types)
        ]
    return tokens, types, scores


def _llama2(folder: Path, legacy: bool) -> Made:
    train(folder / "tokenizer.model", sentences(), 430, "bpe", **_BYTES)
    how = dict(legacy=legacy, chat_template=_TEMPLATE)
    slow = transformers.LlamaTokenizer(str(folder / "tokenizer.model"), **how)
    net = decoder(folder / "net", 440)
    forms, special = {}, ["<s>", "</s>", "<unk>"]
    alone = folder / "alone"
    shutil.copytree(net, alone)
    shutil.copy(folder / "tokenizer.model", alone)
    said = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}
    said |= {"unk_token": "<unk>", "legacy": legacy, "chat_template": _TEMPLATE}
    (alone / "tokenizer_config.json").write_text(json.dumps(said))
    transformers.AutoTokenizer.from_pretrained(alone).save_pretrained(folder / "fast")
    shutil.copytree(net, folder / "fast", dirs_exist_ok=True)
    (folder / "fast" / "tokenizer.model").unlink(missing_ok=True)
    forms["tokenizer.json"] = Form(folder / "fast", auto(folder / "fast"))
    forms["tokenizer.model"] = Form(alone, auto(alone))
    listed = shutil.copytree(alone, folder / "listed")
    (listed / "added_tokens.json").write_text(json.dumps({"</s>": 2, "<s>": 1, "<unk>": 0}))
    forms["tokenizer.model, added_tokens.json"] = Form(listed, auto(listed))
    forms["the slow class"] = Form(saved(slow, folder / "slow", net), auto(folder / "slow"))
    forms["5.x"] = Form(folder / "fast", "newer")
    other = {"5.x": _OWN_STEPS} if legacy else {}
    edited = without_start(folder / "fast", folder / "edited")
    forms["5.x, no start"] = Form(edited, "newer")
    other["5.x, no start"] = "the template of tokenizer.json has none"
    if not legacy:  # ▁ before the first stretch alone, which GGUF has no word for
        return Made(forms, special, slow, other)
    tokens, types, scores = of_sentencepiece(folder / "tokenizer.model", {})
    ids = {"bos": 1, "eos": 2, "unknown": 0}
    for template in (None, _TEMPLATE):
        for given in (ids, {}):
            name = f"GGUF{', a template' if template else ''}{'' if given else ', no ids'}"
            path = gguf(
                folder / f"{name}.gguf", tokens, types, scores=scores, ids=given, template=template
            )
            forms[name] = Form(path, "the first")
    return Made(forms, special, slow, other)


def without_start(source: Path, folder: Path) -> Path:
    """A directory whose tokenizer.json puts an end behind a text, and nothing before it, and whose
    configuration says nothing of that."""
    shutil.copytree(source, folder)
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    said = json.loads((folder / "tokenizer_config.json").read_text())
    end = said["eos_token"]
    id_ = {token["content"]: token["id"] for token in content["added_tokens"]}[end]
    around = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}]
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": around,
        "pair": [*around, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {end: {"id": end, "ids": [id_], "tokens": [end]}},
    }
    path.write_text(json.dumps(content))
    for name in ("add_bos_token", "add_eos_token"):
        said.pop(name, None)
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return folder


def _added_llama(folder: Path) -> Made:
    """A fine-tuning with tokens of its own behind Llama's, ChatML's, one of them not special."""
    train(folder / "tokenizer.model", sentences(), 430, "bpe", **_BYTES)
    slow = transformers.LlamaTokenizer(
        str(folder / "tokenizer.model"), legacy=True, chat_template=_CHATML
    )
    slow.add_special_tokens({"pad_token": "<pad>", "additional_special_tokens": ["<|im_start|>"]})
    slow.add_tokens([AddedToken("<|im_end|>", special=False, normalized=False)])
    special = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"]
    net = decoder(folder / "net", len(slow) + 3)
    forms = {}
    made = transformers.LlamaTokenizerFast.from_pretrained(saved(slow, folder / "slow", net))
    saved(made, folder / "fast", net)  # whose add_prefix_space makes it of the .model again
    forms["tokenizer.json"] = Form(folder / "fast", auto(folder / "fast"))
    forms["the slow class"] = Form(folder / "slow", auto(folder / "slow"))
    older = shutil.copytree(folder / "slow", folder / "older")  # before added_tokens_decoder
    said = json.loads((older / "tokenizer_config.json").read_text())
    del said["added_tokens_decoder"]
    (older / "tokenizer_config.json").write_text(json.dumps(said))
    forms["the slow class, an older one"] = Form(older, auto(older))
    forms["5.x"] = Form(folder / "fast", "newer")
    added = {"<pad>": "control", "<|im_start|>": "control", "<|im_end|>": "user"}
    tokens, types, scores = of_sentencepiece(folder / "tokenizer.model", added)
    ids = {"bos": 1, "eos": 2, "unknown": 0}
    for template in (None, _CHATML):
        name = f"GGUF{', a template' if template else ''}"
        path = gguf(
            folder / f"{name}.gguf", tokens, types, scores=scores, ids=ids, template=template
        )
        forms[name] = Form(path, "the first")
    other = {"the slow class, an older one": "without flags a token is looked for behind ▁"}
    other["5.x"] = _OWN_STEPS
    return Made(forms, special, made, other)


def _gemma(folder: Path) -> Made:
    runs = ["▁▁", "▁▁▁", "▁▁▁▁", "\n\n", "\t", "<start_of_turn>", "<end_of_turn>"]
    ids = dict(pad_id=0, eos_id=1, bos_id=2, unk_id=3)
    pieces = dict(pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>", unk_piece="<unk>")
    train(
        folder / "tokenizer.model",
        sentences(),
        440,
        "bpe",
        **{**_BYTES, **ids, **pieces, "add_dummy_prefix": False, "user_defined_symbols": runs},
    )
    how = dict(chat_template=_GEMMA)
    slow = transformers.GemmaTokenizer(str(folder / "tokenizer.model"), **how)
    own = dict(bos_token_id=2, eos_token_id=1, pad_token_id=0, head_dim=16)
    net = decoder(folder / "net", 448, "Gemma", **own)
    special = ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"]
    alone = folder / "alone"
    shutil.copytree(net, alone)
    shutil.copy(folder / "tokenizer.model", alone)
    said = {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>"}
    said |= {"unk_token": "<unk>", "pad_token": "<pad>", "chat_template": _GEMMA}
    (alone / "tokenizer_config.json").write_text(json.dumps(said))
    fast = transformers.AutoTokenizer.from_pretrained(alone)
    saved(fast, folder / "fast", net)
    (folder / "fast" / "tokenizer.model").unlink(missing_ok=True)
    forms = {
        "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
        "tokenizer.model": Form(alone, auto(alone)),
        "the slow class": Form(saved(slow, folder / "slow", net), auto(folder / "slow")),
        "5.x": Form(folder / "fast", "newer"),
    }
    for spaces in (False, True):
        for template in (None, _GEMMA):
            control = dict.fromkeys(("<start_of_turn>", "<end_of_turn>"), "control")
            tokens, types, scores = of_sentencepiece(folder / "tokenizer.model", control, spaces)
            name = f"GGUF, {'spaces' if spaces else 'U+2581'}{', a template' if template else ''}"
            path = gguf(
                folder / f"{name}.gguf",
                tokens,
                types,
                scores=scores,
                ids={"bos": 2, "eos": 1, "unknown": 3, "padding": 0},
                flags={"add_space_prefix": False},
                template=template,
            )
            forms[name] = Form(path, "the first")
    return Made(forms, special, fast)


def _phi3(folder: Path) -> Made:
    train(folder / "tokenizer.model", sentences(), 430, "bpe", **_BYTES)
    names = ["<|endoftext|>", "<|assistant|>", "<|placeholder1|>", "<|system|>", "<|end|>"]
    names.append("<|user|>")
    strips = dict(normalized=False, special=True)
    how = dict(legacy=True, chat_template=_PHI3, pad_token="<|endoftext|>")
    how["eos_token"] = AddedToken("<|endoftext|>", **strips)
    slow = transformers.LlamaTokenizer(str(folder / "tokenizer.model"), **how)
    for name in names[1:]:
        slow.add_tokens([AddedToken(name, rstrip=True, **strips)], special_tokens=True)
    slow.add_tokens([AddedToken("</s>", rstrip=True, normalized=False, special=False)])
    net = decoder(folder / "net", len(slow) + 2, "Phi3", num_key_value_heads=2)
    forms = {}
    saved(slow, folder / "slow", net)
    fast = transformers.LlamaTokenizerFast.from_pretrained(folder / "slow")
    saved(fast, folder / "fast", net)
    forms["tokenizer.json"] = Form(folder / "fast", auto(folder / "fast"))
    forms["the slow class"] = Form(folder / "slow", auto(folder / "slow"))
    forms["5.x"] = Form(folder / "fast", "newer")
    added = dict.fromkeys(names, "control") | {"</s>": "user"}
    tokens, types, scores = of_sentencepiece(folder / "tokenizer.model", added)
    ids = {"bos": 1, "eos": tokens.index("<|endoftext|>"), "unknown": 0}
    for template in (None, _PHI3):
        for name, architecture in (("Phi 3.5 Mini", "phi3"), ("Phi-3-Mini", "llama")):
            form = f"GGUF of {name}{', a template' if template else ''}"
            path = gguf(
                folder / f"{form}.gguf",
                tokens,
                types,
                scores=scores,
                ids=ids,
                template=template,
                name=name,
                architecture=architecture,
            )
            forms[form] = Form(path, "the first")
    return Made(forms, ["<s>", "</s>", *names], fast)


# ---- Language models of byte-level BPE

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def byte_level(steps: Any, special: list[str], **options: Any) -> Tokenizer:
    made = Tokenizer(models.BPE(**options))
    made.pre_tokenizer, made.decoder = steps, decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(sentences(), trainer)
    made.add_special_tokens(special)
    return made


def _split(regex: str) -> Any:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(regex), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def of_bytes(made: Tokenizer, kinds: dict[str, str]) -> tuple[list[str], list[int], list[str]]:
    """(tokens, types, merges)."""
    spec = json.loads(made.to_str())
    order = sorted(made.get_vocab(), key=made.get_vocab().__getitem__)
    merges = [m if isinstance(m, str) else " ".join(m) for m in spec["model"]["merges"]]
    return order, [_KIND[kinds.get(text, "normal")] for text in order], merges


def _gpt2(folder: Path) -> Made:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), special[:1])
    made.add_tokens([AddedToken(text, normalized=False) for text in special[1:]])
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    made.save(str(folder / "tokenizer.json"))
    fast = transformers.GPT2TokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    fast.chat_template = _CHATML
    sizes = dict(n_embd=32, n_layer=1, n_head=2, n_positions=512, vocab_size=len(fast))
    end = fast.eos_token_id
    config = transformers.GPT2Config(**sizes, bos_token_id=end, eos_token_id=end)
    net = _drawn(transformers.GPT2LMHeadModel(config), folder / "net")
    saved(fast, folder / "fast", net)
    slow = transformers.GPT2Tokenizer.from_pretrained(folder / "fast")
    saved(slow, folder / "slow", net)
    (folder / "slow" / "tokenizer.json").unlink(missing_ok=True)
    for name in ("vocab.json", "merges.txt", "added_tokens.json"):
        (folder / "fast" / name).unlink(missing_ok=True)
    kinds = {special[0]: "control", special[1]: "user", special[2]: "user"}
    tokens, types, merges = of_bytes(made, kinds)
    ids = {"bos": end, "eos": end}
    return Made(
        {
            "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
            "vocab.json, merges.txt": Form(folder / "slow", auto(folder / "slow")),
            "5.x": Form(folder / "fast", "newer"),
            **{
                f"GGUF{', a template' if template else ''}": Form(
                    gguf(
                        folder / f"{bool(template)}.gguf",
                        tokens,
                        types,
                        merges=merges,
                        pre="gpt-2",
                        ids=ids,
                        template=template,
                    ),
                    "the first",
                )
                for template in (None, _CHATML)
            },
        },
        special,
        fast,
    )


def _package(
    folder: Path, made: Tokenizer, kind: str, pre: str, begin: str, special: list, **flags: bool
) -> Made:
    """A tokenizer.json of byte-level BPE, without files beside it. flags: of GGUF."""
    made.save(str(folder / "tokenizer.json"))
    own = getattr(transformers, kind)
    fast = own(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|im_end|>")
    if begin:
        fast.bos_token = begin
    fast.chat_template = _CHATML
    end = fast.eos_token_id
    start = fast.convert_tokens_to_ids(begin) if begin else None
    net = decoder(folder / "net", len(fast) + 8, bos_token_id=start, eos_token_id=end)
    saved(fast, folder / "fast", net)
    kinds = dict.fromkeys(special, "control")
    tokens, types, merges = of_bytes(made, kinds)
    ids = {"bos": start, "eos": end} if begin else {"eos": end}
    forms = {
        "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
        "5.x": Form(folder / "fast", "newer"),
    }
    for template in (None, _CHATML):
        name = f"GGUF{', a template' if template else ''}"
        path = gguf(
            folder / f"{name}.gguf",
            tokens,
            types,
            merges=merges,
            pre=pre,
            ids=ids,
            flags=flags,
            template=template,
        )
        forms[name] = Form(path, "the first")
    return Made(forms, special, fast)


def _llama3(folder: Path) -> Made:
    special = ["<|begin_of_text|>", "<|im_start|>", "<|im_end|>"]
    made = byte_level(_split(_LLAMA3), special, ignore_merges=True)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{special[0]} $A",
        pair=f"{special[0]} $A {special[0]} $B:1",
        special_tokens=[(special[0], made.token_to_id(special[0]))],
    )
    return _package(folder, made, "PreTrainedTokenizerFast", "llama-bpe", special[0], special)


def _qwen2(folder: Path) -> Made:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    made = byte_level(_split(_QWEN2), special)
    made.normalizer = tokenizers.normalizers.NFC()
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    out = _package(folder, made, "Qwen2TokenizerFast", "qwen2", "", special)
    slow = shutil.copytree(folder / "fast", folder / "slow")
    (slow / "tokenizer.json").unlink()
    made.model.save(str(slow))
    forms = {**out.forms, "vocab.json, merges.txt": Form(slow, "refused: may split texts")}
    return out._replace(forms=forms)


def _cohere(folder: Path) -> Made:
    special = ["<PAD>", "<UNK>", "<BOS_TOKEN>", "<|im_start|>", "<|im_end|>"]
    digits = pre_tokenizers.Digits(individual_digits=True)
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made = byte_level(pre_tokenizers.Sequence([digits, level]), special)
    made.normalizer = tokenizers.normalizers.NFC()
    start = dict(add_bos_token=True)  # as llama.cpp's converter says it
    out = _package(folder, made, "CohereTokenizerFast", "command-r", special[2], special, **start)
    forms = dict(out.forms)
    edited = without_start(folder / "fast", folder / "edited")
    forms["5.x, no start"] = Form(edited, "newer")
    other = {"5.x, no start": "the template of tokenizer.json has none"}
    return out._replace(forms=forms, other=other)


# ---- Encoders


def _bert(folder: Path) -> Made:
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = tokenizers.BertWordPieceTokenizer()
    made.train_from_iterator(sentences(), vocab_size=500, special_tokens=marks, show_progress=False)
    made.save_model(str(folder))
    net = encoder(folder / "net", 520, "Bert", pad_token_id=0)
    slow = transformers.BertTokenizer(str(folder / "vocab.txt"))
    slow.add_special_tokens({"additional_special_tokens": ["[NEW]"]})
    saved(slow, folder / "slow", net)
    fast = transformers.BertTokenizerFast.from_pretrained(folder / "slow")
    saved(fast, folder / "fast", net)
    (folder / "fast" / "vocab.txt").unlink()
    return Made(
        {
            "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
            "vocab.txt": Form(folder / "slow", auto(folder / "slow")),
            "5.x": Form(folder / "fast", "newer"),
        },
        [*marks, "[NEW]"],
    )


def _roberta(folder: Path) -> Made:
    marks = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(sentences(), vocab_size=600, special_tokens=marks, show_progress=False)
    made.save_model(str(folder))
    files = (str(folder / name) for name in ("vocab.json", "merges.txt"))
    slow = transformers.RobertaTokenizer(*files)
    slow.add_special_tokens({"additional_special_tokens": ["<new>"]})
    net = encoder(folder / "net", 620, "Roberta", pad_token_id=1)
    saved(slow, folder / "slow", net)
    fast = transformers.RobertaTokenizerFast.from_pretrained(folder / "slow")
    saved(fast, folder / "fast", net)
    for name in ("vocab.json", "merges.txt"):
        (folder / "fast" / name).unlink()
    return Made(
        {
            "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
            "vocab.json, merges.txt": Form(folder / "slow", auto(folder / "slow")),
            "5.x": Form(folder / "fast", "newer"),
        },
        [*marks, "<new>"],
    )


def _xlm_roberta(folder: Path) -> Made:
    train(folder / "sentencepiece.bpe.model", sentences(), 500, "unigram")
    slow = transformers.XLMRobertaTokenizer(str(folder / "sentencepiece.bpe.model"))
    slow.add_special_tokens({"additional_special_tokens": ["<new>"]})
    net = encoder(folder / "net", len(slow) + 3, "XLMRoberta", pad_token_id=1)
    saved(slow, folder / "slow", net)
    fast = transformers.XLMRobertaTokenizerFast.from_pretrained(folder / "slow")
    saved(fast, folder / "fast", net)
    (folder / "fast" / "sentencepiece.bpe.model").unlink(missing_ok=True)
    return Made(
        {
            "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
            "sentencepiece.bpe.model": Form(folder / "slow", auto(folder / "slow")),
            "5.x": Form(folder / "fast", "newer"),
        },
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<new>"],
    )


def _albert(folder: Path) -> Made:
    ids = dict(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>", unk_piece="<unk>")
    train(
        folder / "spiece.model",
        sentences(),
        500,
        "unigram",
        **ids,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
    )
    slow = transformers.AlbertTokenizer(str(folder / "spiece.model"))
    net = encoder(folder / "net", 520, "Albert", embedding_size=16, pad_token_id=0)
    saved(slow, folder / "slow", net)
    fast = transformers.AlbertTokenizerFast.from_pretrained(folder / "slow")
    saved(fast, folder / "fast", net)
    (folder / "fast" / "spiece.model").unlink(missing_ok=True)
    return Made(
        {
            "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
            "spiece.model": Form(folder / "slow", "refused: not a tokenizer that is supported"),
        },
        ["[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>"],
    )


def _bertweet(folder: Path) -> Made:
    merges = dictionaries.learned(sentences()[:300], 300)
    dictionaries.write(folder / "files", merges, sentences())
    files = (str(folder / "files" / name) for name in ("vocab.txt", "bpe.codes"))
    slow = transformers.BertweetTokenizer(*files)
    net = encoder(folder / "net", len(slow) + 2, "Roberta", pad_token_id=1)
    saved(slow, folder / "slow", net)
    return Made(
        # (5.x saves bpe.codes without the counts, and reads other merges of it)
        {"vocab.txt, bpe.codes": Form(folder / "slow", auto(folder / "slow"))},
        ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    )


# ---- Translators


def fast_forms(folder: Path, kind: str, net: Path, file: str) -> dict[str, Form]:
    """The tokenizer.json of a fast class, and what 5.x saves of it."""
    own = getattr(transformers, f"{kind}TokenizerFast")
    saved(own.from_pretrained(folder / "slow"), folder / "fast", net)
    (folder / "fast" / file).unlink(missing_ok=True)
    said = json.loads((folder / "fast" / "tokenizer_config.json").read_text())
    said.pop("add_prefix_space", None)  # of T5's class, which makes it of the file again
    (folder / "fast" / "tokenizer_config.json").write_text(json.dumps(said))
    return {
        "tokenizer.json": Form(folder / "fast", auto(folder / "fast")),
        "5.x": Form(folder / "fast", "newer"),
    }


_T5_IDS = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def ctranslate2(folder: Path, source: Path, tokenizer: Path, files: list[str]) -> dict[str, Form]:
    """A directory of CTranslate2 made from one of Hugging Face's, with the original beside it, and
    with the files alone that its converter copies."""
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(source), copy_files=files).convert(str(folder))
    asked = ["--tokenizer", str(tokenizer)]
    forms = {"CTranslate2, --tokenizer of the original": Form(folder, "the first", asked)}
    alone = [flag for name in files for flag in ("--tokenizer", str(folder / name))]
    forms["CTranslate2, its own files"] = Form(folder, "refused: --tokenizer", alone)
    return forms


def _t5(folder: Path) -> Made:
    train(folder / "spiece.model", sentences(), 400, "unigram", **_T5_IDS)
    slow = transformers.T5Tokenizer(str(folder / "spiece.model"), extra_ids=10)
    slow.add_tokens([AddedToken("<ORG>", special=True)], special_tokens=True)
    slow.add_tokens(["<new>"])
    net = t5(folder / "net", slow)
    saved(slow, folder / "slow", net)
    older = shutil.copytree(folder / "slow", folder / "older")
    said = json.loads((older / "tokenizer_config.json").read_text())
    del said["added_tokens_decoder"]
    (older / "tokenizer_config.json").write_text(json.dumps(said))
    use = dict(use_fast=False)
    return Made(  # no </s> at a text's end: the fast class adds another, the slow one does not
        {
            "spiece.model": Form(folder / "slow", auto(folder / "slow", **use)),
            "spiece.model, added_tokens.json": Form(older, auto(older, **use)),
            **fast_forms(folder, "T5", net, "spiece.model"),
        },
        ["<pad>", "<unk>", "<extra_id_0>", "<extra_id_9>", "<ORG>", "<new>"],
        other={"tokenizer.json": "the fast class keeps a space before a token like <new>"},
    )


def _pegasus(folder: Path) -> Made:
    train(folder / "spiece.model", sentences(), 400, "unigram", **_T5_IDS)
    slow = transformers.PegasusTokenizer(str(folder / "spiece.model"))
    more = dict(normalize_before=True, normalize_embedding=False, add_final_layer_norm=True)
    net = translator(folder / "net", slow, "Pegasus", **more)
    saved(slow, folder / "slow", net)
    use = dict(use_fast=False)
    return Made(
        {
            "spiece.model": Form(folder / "slow", auto(folder / "slow", **use)),
            **fast_forms(folder, "Pegasus", net, "spiece.model"),
            **ctranslate2(folder / "ct2", folder / "slow", folder / "slow", ["spiece.model"]),
        },
        ["</s>", "<pad>", "<mask_1>", "<mask_2>", "<unk_7>"],
        other={"5.x": _OWN_STEPS},
    )


def _bart(folder: Path) -> Made:
    made = _roberta(folder)
    for name in ("fast", "slow"):
        for file in ("model.safetensors", "config.json"):
            (folder / name / file).unlink()
    slow = transformers.BartTokenizer(*(str(folder / f) for f in ("vocab.json", "merges.txt")))
    slow.add_special_tokens({"additional_special_tokens": ["<new>"]})
    shutil.rmtree(folder / "net")
    more = dict(normalize_before=False, normalize_embedding=True)
    net = translator(folder / "net", slow, "Bart", **more)
    saved(slow, folder / "slow", net)
    fast = transformers.BartTokenizerFast.from_pretrained(folder / "slow")
    saved(fast, folder / "fast", net)
    for name in ("vocab.json", "merges.txt"):
        (folder / "fast" / name).unlink()
    copied = ["vocab.json", "merges.txt"]
    theirs = ctranslate2(folder / "ct2", folder / "slow", folder / "slow", copied)
    return made._replace(forms={**made.forms, **theirs})


def _fairseq(kind: str, folder: Path) -> Made:
    """mBART, mBART-50 and NLLB."""
    name = "sentencepiece.bpe.model"
    train(folder / name, sentences(), 400, "bpe" if kind == "Nllb" else "unigram")
    slow = getattr(transformers, f"{kind}Tokenizer")(str(folder / name))
    more = [*slow.additional_special_tokens, "sa_IN"]
    slow.add_special_tokens({"additional_special_tokens": more})
    own = {"MBart50": "MBart", "Nllb": "M2M100"}.get(kind, kind)
    how = dict(normalize_before=True, normalize_embedding=True) if own == "MBart" else {}
    net = translator(folder / "net", slow, own, **how)
    saved(slow, folder / "slow", net)
    use = dict(use_fast=False)
    forms = {"the slow class": Form(folder / "slow", auto(folder / "slow", **use))}
    forms |= fast_forms(folder, kind, net, name)
    if kind == "Nllb":  # mBART's has no decoder_start_token there, and is refused by it
        forms |= ctranslate2(folder / "ct2", folder / "slow", folder / "slow", [name])
        asked = ["--tokenizer", str(folder / "fast" / "tokenizer.json")]
        forms["CTranslate2, tokenizer.json"] = Form(folder / "ct2", "the first", asked)
    first = {"MBart": "en_XX", "MBart50": "en_XX", "Nllb": "eng_Latn"}[kind]
    special = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", first, "sa_IN"]
    return Made(forms, special, other={} if kind == "MBart" else {"5.x": _OWN_STEPS})


def _m2m100(folder: Path) -> Made:
    pieces = train(folder / "spm.model", sentences(), 400, "bpe")
    order = ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    (folder / "vocab.json").write_text(json.dumps({text: i for i, text in enumerate(order)}))
    known = tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    slow = transformers.M2M100Tokenizer(
        str(folder / "vocab.json"),
        str(folder / "spm.model"),
        additional_special_tokens=[f"__{code}__" for code in known],
    )
    net = translator(folder / "net", slow, "M2M100")
    saved(slow, folder / "slow", net)
    name = "sentencepiece.bpe.model"
    return Made(
        {
            "vocab.json": Form(folder / "slow", auto(folder / "slow")),
            "5.x": Form(folder / "slow", "newer"),
            **ctranslate2(folder / "ct2", folder / "slow", folder / "slow", [name]),
        },
        ["<s>", "</s>", "<pad>", "<unk>", "__en__", "__fr__"],
    )


def _marian(folder: Path) -> Made:
    pieces = train(folder / "source.spm", sentences(), 400, "unigram")
    shutil.copy(folder / "source.spm", folder / "target.spm")
    order = ["</s>", "<unk>", *pieces, ">>fra<<", ">>cmn_Hans<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({text: i for i, text in enumerate(order)}))
    files = ("source.spm", "target.spm", "vocab.json")
    slow = transformers.MarianTokenizer(*(str(folder / name) for name in files))
    net = translator(folder / "net", slow, "Marian", decoder_vocab_size=len(slow), bos_token_id=0)
    saved(slow, folder / "slow", net)
    return Made(
        {
            "source.spm, vocab.json": Form(folder / "slow", auto(folder / "slow")),
            "5.x": Form(folder / "slow", "newer"),
            **ctranslate2(
                folder / "ct2", folder / "slow", folder / "slow", ["source.spm", "target.spm"]
            ),
        },
        ["</s>", "<unk>", ">>fra<<", ">>cmn_Hans<<"],
    )


KINDS: dict[str, Callable[[Path], Made]] = {
    "Llama 2": functools.partial(_llama2, legacy=True),
    "Llama 2, not legacy": functools.partial(_llama2, legacy=False),
    "a fine-tuned Llama": _added_llama,
    "Gemma": _gemma,
    "Phi-3": _phi3,
    "GPT-2": _gpt2,
    "Llama 3": _llama3,
    "Qwen2": _qwen2,
    "Command-R": _cohere,
    "BERT": _bert,
    "RoBERTa": _roberta,
    "XLM-RoBERTa": _xlm_roberta,
    "ALBERT": _albert,
    "BERTweet": _bertweet,
    "T5": _t5,
    "Pegasus": _pegasus,
    "BART": _bart,
    "mBART": functools.partial(_fairseq, "MBart"),
    "mBART-50": functools.partial(_fairseq, "MBart50"),
    "NLLB": functools.partial(_fairseq, "Nllb"),
    "M2M100": _m2m100,
    "MarianMT": _marian,
}


# ---- What is compared


def asked(made: Made) -> list[str]:
    out = texts_with(made.special)
    if made.words is not None:
        out.append(made.words.apply_chat_template(TALK, tokenize=False, add_generation_prompt=True))
    return out


@pytest.fixture(scope="module")
def every(request, tmp_path_factory) -> dict[str, tuple[Made, dict[str, Form]]]:
    """By kind: what was made, and its forms, those of the newer version with what it answers."""
    jobs, out = [], {}
    root = tmp_path_factory.mktemp("forms")
    for kind in dict.fromkeys(parameters(request, "kind")):
        folder = root / kind
        folder.mkdir()
        try:
            out[kind] = KINDS[kind](folder)
        except Exception as error:
            out[kind] = error
            continue
        for name, form in out[kind].forms.items():
            if form.theirs == "newer":
                again = folder / f"newer {len(jobs)}"
                shutil.copytree(folder / "net", again)
                job = {"kind": "ids", "folder": str(form.source), "again": str(again)}
                jobs.append((kind, name, {**job, "asks": asked(out[kind]), "whole": True}))
    answers = newer_answers(root, [job for *_, job in jobs]) if jobs else []
    for (kind, name, job), ids in zip(jobs, answers, strict=True):
        form = Form(Path(job["again"]), lambda texts, ids=ids: ids)
        out[kind] = out[kind]._replace(forms={**out[kind].forms, name: form})
    return out


def ours(phasor: Path, model: Path, texts: list[str]) -> list[list[int]]:
    out = []
    for text in texts:
        done = subprocess.run(
            [phasor, "tokenize", model, "--print-ids", "--", text], capture_output=True, text=True
        )
        assert done.returncode == 0, (text, done.stderr)
        out.append([int(id_) for id_ in done.stdout.strip().split(",") if id_])
    return out


@pytest.mark.parametrize("kind", KINDS)
def test_the_ids_are_the_same(kind, every, phasor, tmp_path, capsys):
    made, wrong = every[kind], []
    if isinstance(made, Exception):
        raise made
    texts = asked(made)
    first = None
    for name, form in made.forms.items():
        out = tmp_path / "m.phasor"
        flags = ["-o", str(out), "--type", "f32", "--quiet", *form.flags]
        status = convert.main([str(form.source), *flags])
        said = capsys.readouterr().err
        if isinstance(form.theirs, str) and form.theirs.startswith("refused: "):
            if status == 0 or form.theirs.removeprefix("refused: ") not in said:
                wrong.append((name, "is not refused as expected", said))
            continue
        if status != 0:
            wrong.append((name, said))
            continue
        want = first if form.theirs == "the first" else form.theirs(texts)
        first = want if first is None else first
        found = ours(phasor, out, texts)
        rows = [(t, a, b) for t, a, b in zip(texts, found, want, strict=True) if a != b]
        if rows:
            wrong.append((name, f"{len(rows)} of {len(texts)} texts have other ids", rows[:2]))
        if (want == first) == (name in made.other):
            pairs = [p for p in zip(texts, want, first, strict=True) if p[1] != p[2]]
            wrong.append((name, "its library has other ids", pairs[:2]))
        if made.words is not None and name not in made.other and not wrong:
            _check_chat(phasor, out, made.words, name)
            _check_end(phasor, out, made.words, name)
    assert not wrong, "\n".join(map(str, wrong))


def _check_chat(phasor: Path, model: Path, words: Any, form: str) -> None:
    """The prompts of a conversation have as many tokens as the library's."""
    done = subprocess.run(
        [phasor, "chat", model, "--json", "--quiet", "-n", "2", "--greedy"],
        input="the dog\n the fox\n",
        capture_output=True,
        text=True,
    )
    if "has no chat template" in done.stderr:
        return
    assert done.returncode == 0, (form, done.stderr)
    talk: list[dict[str, str]] = []
    for question, line in zip(("the dog", " the fox"), map(json.loads, done.stdout.splitlines())):
        talk.append({"role": "user", "content": question})
        want = words.apply_chat_template(talk, add_generation_prompt=True)
        assert line["input_tokens"] == len(want), (form, talk)
        talk.append({"role": "assistant", "content": line["text"]})


def _check_end(phasor: Path, model: Path, words: Any, form: str) -> None:
    """The token behind an answer, which is special or only added, ends it, and as a stop string an
    output."""
    said = words.apply_chat_template(TALK[:2], tokenize=False)
    behind = said.split(TALK[1]["content"])[1]
    added = words.added_tokens_decoder.items()
    end, token = next(row for row in added if behind.startswith(row[1].content))
    file = PhasorFile(model)
    others = (id_ for id_ in range(file.descriptor["target"]["vocabulary"]) if id_ != end)
    flags = [model, "--json", "--quiet", "-n", "3", "--suppress", ",".join(map(str, others))]
    stop = ["--stop", token.content]
    for command, *more in [["run", *stop]] + [["chat"]] * bool(file.section(CHAT)):
        run = [phasor, command, *flags, *more]
        done = subprocess.run(run, input="the dog\n", capture_output=True, text=True)
        assert done.returncode == 0, (form, done.stderr)
        line = json.loads(done.stdout)
        assert (line["ids"], line["text"]) == ([end], ""), (form, command, line)
        assert line["finish"] != "length", (form, command, line)
