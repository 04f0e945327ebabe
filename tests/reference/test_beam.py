"""Beam search beside transformers' generate(num_beams=…): the same outputs, all of them, and the
same scores.

Small random Marian and BART models, with their weights put into a .phasor file here; Llama and
GPT-2 through the converter; and two published checkpoints, a BART that spells sounds and a GPT-2
(skipped where they are not). For several numbers of beams, length penalties and ways to stop, with
ends that come.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
)

from conversions import convert_to
from phasor.format import descriptor as D
from phasor.format import tensors as R
from places import DATA, told
from random_models import write_random
from sample import part
from texts import ids_text, read_json

SCORE = 1e-5
OPTIONS = [
    dict(num_beams=b, length_penalty=p, early_stopping=e, max_new_tokens=n)
    for b, p, e, n in (
        (2, 1.0, False, 20),
        (3, 0.0, True, 14),
        (4, 1.0, True, 20),
        (5, 2.0, False, 9),
        (4, 0.6, "never", 20),
        (6, -0.5, False, 12),
        (4, 1.5, "never", 10),
    )
]
NAMES = {False: "no", True: "yes", "never": "never"}
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)  # models of this size only wait for a second one


def described(model) -> dict:
    """The descriptor of a Marian or BART model."""
    c, bart = model.config, model.config.model_type == "bart"
    width = c.d_model

    def kind(heads: int, hidden: int, **more) -> dict:
        return {
            "norm": D.LAYER_NORM,
            "norm_place": D.AFTER,
            "norm_eps": 1e-5,
            "heads": heads,
            "head_width": width // heads,
            "scale": (width // heads) ** -0.5,
            "attention_biases": D.ATTENTION_BIASES,
            "hidden": hidden,
            "activation": {"gelu": D.GELU_ERF, "swish": D.SILU, "relu": D.RELU}[
                c.activation_function
            ],
            "ffn_biases": D.FFN_BIASES,
            **more,
        }

    stack = {
        "width": width,
        "position": D.LEARNED if bart else D.HALVES,
        "max_positions": c.max_position_embeddings,
        "embedding_scale": width**0.5 if c.scale_embedding else 1.0,
    }
    if bart:
        stack |= {"embedding_norm": D.LAYER_NORM, "embedding_norm_eps": 1e-5}
    target = {
        "vocabulary": c.vocab_size,
        "embedding_shared": 1,
        "decoder_start": c.decoder_start_token_id,
        "end": [c.eos_token_id],
    }
    return {
        "model": {"stack": D.ENCODER_DECODER},
        "source": {"vocabulary": c.vocab_size},
        "target": target,
        "encoder": {**stack, "layers": [v for i in range(c.encoder_layers) for v in (0, i)]},
        "decoder": {**stack, "layers": [v for i in range(c.decoder_layers) for v in (1, i)]},
        "kinds": [
            kind(c.encoder_attention_heads, c.encoder_ffn_dim),
            kind(
                c.decoder_attention_heads,
                c.decoder_ffn_dim,
                cross=1,
                cross_biases=D.ATTENTION_BIASES,
            ),
        ],
        "output": {"output": D.LOGITS, "tied": D.TIED_SOURCE, "bias": 1},
    }


_LAYER = {
    R.QKV: ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    R.ATTENTION_OUT: ("self_attn.out_proj",),
    R.ATTENTION_AFTER: ("self_attn_layer_norm",),
    R.CROSS_Q: ("encoder_attn.q_proj",),
    R.CROSS_KV: ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    R.CROSS_OUT: ("encoder_attn.out_proj",),
    R.CROSS_AFTER: ("encoder_attn_layer_norm",),
    R.FFN_IN: ("fc1",),
    R.FFN_OUT: ("fc2",),
    R.FFN_AFTER: ("final_layer_norm",),
}


def weights_of(model):
    state, bart = (
        {name: t.detach().numpy() for name, t in model.state_dict().items()},
        model.config.model_type == "bart",
    )

    def weights(slot: R.Slot) -> np.ndarray:
        stack = "encoder" if slot.stack in (R.SOURCE, R.ENCODER) else "decoder"
        if slot.stack == R.OUTPUT:
            return state["final_logits_bias"][0]
        if slot.stack in (R.SOURCE, R.TARGET):
            if slot.role == R.SINUSOID:
                return 10000.0 ** (-np.arange(0, model.config.d_model, 2) / model.config.d_model)
            name = {
                R.EMBEDDING: "model.shared.weight",
                R.POSITIONS: f"model.{stack}.embed_positions.weight",
                R.EMBEDDING_NORM: f"model.{stack}.layernorm_embedding.weight",
                R.EMBEDDING_NORM + 1: f"model.{stack}.layernorm_embedding.bias",
            }[slot.role]
            return (
                state[name][2:] if bart and slot.role == R.POSITIONS else state[name]
            )  # BART's rows begin with two that are not used
        what = "bias" if slot.role & 1 else "weight"
        return np.concatenate(
            [
                state[f"model.{stack}.layers.{slot.set}.{part}.{what}"]
                for part in _LAYER[slot.role & ~1]
            ]
        )

    return weights


def spread_out(model, end: int, how_often: float):
    """Weights large enough that continuations differ, and an end that comes now and then."""
    torch.manual_seed(5)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.copy_(torch.randn_like(p) * p.shape[-1] ** -0.5)
            else:
                p.add_(torch.randn_like(p) * 0.1)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias) * 0.5)
            model.final_logits_bias[0, end] = how_often
    return model.eval()


def seq2seq(name: str):
    common = dict(
        vocab_size=53,
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=36,
        decoder_ffn_dim=36,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
        max_position_embeddings=64,
        pad_token_id=1,
        eos_token_id=2,
        bos_token_id=0,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    if name == "marian":
        model = MarianMTModel(
            MarianConfig(
                **common, activation_function="swish", scale_embedding=True, decoder_vocab_size=53
            )
        )
        sinusoids = [
            stack.embed_positions.weight.clone()
            for stack in (model.model.encoder, model.model.decoder)
        ]
    else:
        model = BartForConditionalGeneration(BartConfig(**common, activation_function="gelu"))
    spread_out(model, 2, 3.5)
    if name == "marian":
        for stack, table in zip((model.model.encoder, model.model.decoder), sinusoids):
            stack.embed_positions.weight.data = table
    return model


def decoder(name: str, vocabulary: int = 61):
    if name == "llama":
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=42,
                intermediate_size=53,
                num_hidden_layers=2,
                num_attention_heads=6,
                num_key_value_heads=2,
                head_dim=10,
                max_position_embeddings=96,
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=[2, 7, 11, 19, 23, 31, 40, 55],
            )
        )
    else:
        model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=61,
                n_embd=42,
                n_layer=2,
                n_head=3,
                n_positions=96,
                bos_token_id=1,
                eos_token_id=[2, 7, 11, 19, 23, 31, 40, 55],
                pad_token_id=0,
            )
        )
    return spread_out(model, 2, 0)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    made = {}

    def get(name: str):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            if name in ("marian", "bart"):
                model = seq2seq(name)
                write_random(folder / "m.phasor", described(model), weights=weights_of(model))
            else:
                model = decoder(name)
                model.save_pretrained(folder / "source")
                convert_to(folder / "source", folder / "m.phasor")
            made[name] = model, folder / "m.phasor"
        return made[name]

    return get


def theirs(model, ids: list[int], options: dict) -> tuple[list[float], list[list[int]]]:
    batch = torch.tensor([ids])
    with torch.no_grad():
        out = model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            num_return_sequences=options["num_beams"],
            return_dict_in_generate=True,
            output_scores=True,
            do_sample=False,
            **options,
        )
    start = 1 if model.config.is_encoder_decoder else len(ids)
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    rows = [row[start:] for row in out.sequences.tolist()]
    cut = [
        next((i + 1 for i, x in enumerate(row) if x in ends), options["max_new_tokens"])
        for row in rows
    ]
    return out.sequences_scores.tolist(), [row[:n] for row, n in zip(rows, cut)]


def ours(
    phasor, path: Path, lists: list[list[int]], options: dict, *more: object
) -> list[tuple[list[float], list[list[int]]]]:
    flags = [
        "--beam",
        options["num_beams"],
        "--n-best",
        options["num_beams"],
        f"--length-penalty={options['length_penalty']}",
        "--early-stopping",
        NAMES[options["early_stopping"]],
        "-n",
        options["max_new_tokens"],
        *more,
    ]
    done = told(
        phasor,
        "run",
        path,
        "--ids",
        "-",
        "--json",
        "--quiet",
        *flags,
        stdin="".join(ids_text(ids) + "\n" for ids in lists),
        timeout=300,
    )
    lines = [json.loads(line)["outputs"] for line in done.splitlines()]
    return [([o["score"] for o in line], [o["ids"] for o in line]) for line in lines]


def cuts(model, ids: list[int], options: dict) -> float:
    """How near transformers' search comes to another: the least difference of two scores of which
    one is kept, as a beam or as an output, and the other is not."""
    gaps, plain, n = [], model._get_top_k_continuations, options["num_beams"]
    ends = torch.tensor(model.generation_config.eos_token_id).flatten()

    def look(**state):
        found = plain(**state)
        scores, rows = found[0][0], found[1][0]
        goes_on = scores[~torch.isin(rows[:, state["cur_len"]], ends)]
        gaps.extend(float(s[n - 1] - s[n]) for s in (scores, goes_on) if len(s) > n)
        return found

    model._get_top_k_continuations = look
    try:
        theirs(model, ids, options)
    finally:
        del model._get_top_k_continuations
    return min(gap for gap in gaps if gap == gap)


def compare(model, path: Path, lists: list[list[int]], options: dict, phasor, *more: object) -> int:
    """Outputs with an end token. Two whose scores are nearer than SCORE may change places, at the
    end or on the way where one of them is dropped, so that one list may differ, or one in a
    hundred."""
    different, ended = 0, 0
    for ids, (scores, rows) in zip(lists, ours(phasor, path, lists, options, *more)):
        want_scores, want = theirs(model, ids, options)
        if rows != want:
            near = min(abs(a - b) for a, b in zip(want_scores, want_scores[1:])) < SCORE
            cut = near or cuts(model, ids, options) < SCORE
            assert cut, (ids, options, list(zip(want_scores, want)), list(zip(scores, rows)))
            print("a tie:", ids, want_scores, scores)
            different += 1
            if not near:
                continue  # what follows the cut is another search
        assert np.abs(np.subtract(scores, want_scores)).max() < SCORE * max(
            1, np.abs(want_scores).max() / 4
        ), (ids, options, scores, want_scores)
        ended += sum(len(row) < options["max_new_tokens"] for row in want)
    assert different <= max(1, len(lists) / 100)
    return ended


def some(vocabulary: int, count: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, vocabulary, rng.integers(1, 12)).tolist() for _ in range(count)]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("name", ["marian", "bart", "llama", "gpt2"])
def test_outputs_and_scores_are_transformers(phasor, models, name, options):
    model, path = models(name)
    ended = compare(model, path, some(53, 15, 1), options, phasor)
    assert ended > 5 or options["length_penalty"] > 1  # long outputs are better then


@pytest.mark.parametrize("name", ["marian", "llama"])
def test_bans_are_transformers(phasor, models, name):
    model, path = models(name)
    options = OPTIONS[0] | dict(
        no_repeat_ngram_size=2, suppress_tokens=[5, 6, 30, 31], min_new_tokens=6
    )
    compare(
        model,
        path,
        some(53, 15, 2),
        options,
        phasor,
        "--no-repeat-ngram",
        2,
        "--suppress",
        "5,6,30,31",
        "--min-new",
        6,
    )


# What transformers calls an option, a value of it, and the flags that ask for the same.
RULES = {
    "repetition": (dict(repetition_penalty=1.7), ["--repeat-penalty", 1.7]),
    "repetition below one": (dict(repetition_penalty=0.6), ["--repeat-penalty", 0.6]),
    "n-grams": (dict(no_repeat_ngram_size=2), ["--no-repeat-ngram", 2]),
    "no token twice": (dict(no_repeat_ngram_size=1), ["--no-repeat-ngram", 1]),
    "n-grams of the source": (
        dict(encoder_no_repeat_ngram_size=2),
        ["--source-no-repeat-ngram", 2],
    ),
    "tokens of the source": (
        dict(encoder_no_repeat_ngram_size=1),
        ["--source-no-repeat-ngram", 1],
    ),
    "fewest": (dict(min_new_tokens=5), ["--min-new", 5]),
    "suppressed": (dict(suppress_tokens=[5, 6, 30, 31]), ["--suppress", "5,6,30,31"]),
    "bad words": (dict(bad_words_ids=None), []),  # chosen from what comes without the rule
    "last": (dict(forced_eos_token_id=2), ["--forced-last", 2]),
    "one that is no end last": (dict(forced_eos_token_id=9), ["--forced-last", 9]),
    "renormalized": (dict(renormalize_logits=True), ["--renormalize", "yes"]),
}
BESIDE = {"renormalized": ["repetition", "suppressed"]}  # without which it changes nothing


def with_rules(
    names: list[str], model, path: Path, lists: list[list[int]], options: dict, phasor
) -> tuple[dict, list]:
    more, flags = {}, []
    for name in names:
        given, asked = RULES[name]
        if name == "bad words":  # what stands often, so that it matters
            seen: dict[tuple[int, ...], int] = {}
            for _, rows in ours(phasor, path, lists, options):
                for row in rows:
                    for n in (1, 2, 3):
                        for i in range(len(row) - n):
                            seen[tuple(row[i : i + n])] = seen.get(tuple(row[i : i + n]), 0) + 1
            often = sorted(seen, key=lambda w: (-seen[w], w))
            words = [w for n in (1, 2, 3) for w in [w for w in often if len(w) == n][:4:3]]
            given = dict(bad_words_ids=[list(w) for w in words])
            asked = [x for w in words for x in ("--bad-words", ids_text(w))]
        more |= given
        flags += asked
    return more, flags


def drawn_rules(rng: np.random.Generator) -> list[str]:
    names = [n for n in RULES if rng.random() < 0.4]
    pairs = (
        ("repetition", "repetition below one"),
        ("n-grams", "no token twice"),
        ("n-grams of the source", "tokens of the source"),
        ("last", "one that is no end last"),
    )
    return [n for n in names if not any(n == b and a in names for a, b in pairs)]


SWEEP = int(os.environ.get("SWEEP", 0))  # make test-beams: so many draws of rules together


@pytest.mark.parametrize("name", ["marian", "llama"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_transformers(phasor, models, rule, name):
    model, path = models(name)
    options = OPTIONS[0 if rule == "fewest" else 6] | dict(max_new_tokens=14)  # long outputs
    lists = some(53, 12, 2)
    _, without = with_rules(BESIDE.get(rule, []), model, path, lists, options, phasor)
    more, flags = with_rules([*BESIDE.get(rule, []), rule], model, path, lists, options, phasor)
    compare(model, path, lists, options | more, phasor, *flags)
    changed = ours(phasor, path, lists, options, *flags)
    assert changed != ours(phasor, path, lists, options, *without), "the rule changes nothing here"


@pytest.mark.parametrize("name", ["marian", "bart", "llama", "gpt2"])
def test_rules_together_are_transformers(phasor, models, name):
    model, path = models(name)
    rng = np.random.default_rng(["marian", "bart", "llama", "gpt2"].index(name))
    for _ in range(SWEEP or 3):
        names, options = drawn_rules(rng), OPTIONS[rng.integers(len(OPTIONS))]
        lists = some(53, 100 if SWEEP else 6, int(rng.integers(1 << 30)))
        more, flags = with_rules(names, model, path, lists, options, phasor)
        compare(model, path, lists, options | more, phasor, *flags)


def test_stop_strings_are_transformers(phasor, tmp_path):
    """A tokenizer of bytes: strings of two and three characters end beams at differing lengths."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<pad>", "<s>", "</s>", *alphabet]
    inner = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    model = decoder("llama", len(words))
    letters = [words.index(c) for c in "abcdefghĠ"]
    with torch.no_grad():  # few letters, so that the strings come
        model.lm_head.weight.mul_(0.5)
        model.lm_head.weight[letters] *= 6
    model.save_pretrained(tmp_path / "source")
    tokenizer.save_pretrained(tmp_path / "source")
    path = tmp_path / "m.phasor"
    convert_to(tmp_path / "source", path)
    rng = np.random.default_rng(9)
    lists = [rng.choice(letters, rng.integers(1, 9)).tolist() for _ in range(12)]
    # The ids of an output that is full end where theirs do: no end token cuts them.
    stops = ["ab", "c", "e d", "hg"]
    flags = [x for stop in stops for x in ("--stop", stop)]
    stopped = 0
    for options in (OPTIONS[0], OPTIONS[2], OPTIONS[6]):
        for ids, (scores, rows) in zip(lists, ours(phasor, path, lists, options, *flags)):
            more = dict(stop_strings=stops, tokenizer=tokenizer)
            want_scores, want = theirs(model, ids, options | more)
            cut = []
            for row in want:
                text = [tokenizer.decode(row[: i + 1]) for i in range(len(row))]
                ends = [i + 1 for i, t in enumerate(text) if any(s in t for s in stops)]
                cut.append(row[: ends[0]] if ends else row)
                stopped += bool(ends)
            assert rows == cut, (ids, list(zip(want_scores, cut)), list(zip(scores, rows)))
            assert np.abs(np.subtract(scores, want_scores)).max() < SCORE
    assert stopped > 25


def test_a_bart_that_spells_sounds(phasor, tmp_path):
    folder = DATA / "bart-g2p"
    if not folder.is_dir():
        pytest.skip(f"the model is not here: {folder}")
    from safetensors.torch import load_file

    config = read_json(folder / "us_bart_config.json")
    letters = config["grapheme_chars"]
    model = BartForConditionalGeneration(
        BartConfig(
            **{k: v for k, v in config.items() if k != "forced_eos_token_id"},
            forced_eos_token_id=None,
        )
    )
    missing, unexpected = model.load_state_dict(
        load_file(folder / "us_bart.safetensors"), strict=False
    )
    assert not unexpected and all(
        "embed_tokens" in name or "lm_head" in name for name in missing
    ), (missing, unexpected)
    model.tie_weights()
    model.eval()
    model.generation_config.forced_eos_token_id = None
    write_random(tmp_path / "m.phasor", described(model), weights=weights_of(model))
    words = [
        w
        for w in read_json(folder / "us_gold.json")
        if w.isalpha() and all(c in letters for c in w)
    ]
    lists = [
        [1, *(letters.index(c) for c in words[i]), 2]
        for i in np.random.default_rng(3).choice(len(words), 100, replace=False)
    ]
    lists = part(lists)
    for options in part((OPTIONS[0], OPTIONS[2], OPTIONS[4])):
        outputs = compare(
            model, tmp_path / "m.phasor", lists, options | dict(max_new_tokens=40), phasor
        )
        assert outputs > len(lists)


def test_a_published_gpt2(phasor, tmp_path):
    folder = DATA / "gpt2-capp"
    if not folder.is_dir():
        pytest.skip(f"the model is not here: {folder}")
    convert_to(folder, tmp_path / "m.phasor")
    model = GPT2LMHeadModel.from_pretrained(folder).eval()
    model.generation_config = transformers.GenerationConfig(eos_token_id=51, pad_token_id=52)
    words = read_json(folder / "token_mappings.json")["token2id"]
    kinds = [
        [i for word, i in words.items() if word.startswith(part)]
        for part in (
            "geometry_",
            "holes_",
            "external_threads_",
            "surface_finish_",
            "tolerance_",
            "batch_size_",
        )
    ]
    rng = np.random.default_rng(4)
    lists = [[*(int(rng.choice(kind)) for kind in kinds), words["<SOS>"]] for _ in range(60)]
    for options in part((OPTIONS[0], OPTIONS[2], OPTIONS[4])):
        compare(model, tmp_path / "m.phasor", part(lists), options, phasor)
