"""Conversations beside transformers itself: the texts of its own renderer, the ids of
apply_chat_template, and the answers to them."""

import datetime
import json
import subprocess

import pytest
import transformers.utils.chat_template_utils as theirs

import chat
import chat_model
from conversions import convert_to
from phasor.chat.template import compile_template
from phasor.sources.hugging_face.template import find_template
from texts import ids_text

CHATS = ("chatml", "llama2", "llama3.1", "mistral-v3", "qwen3", "gemma3", "zephyr", "deepseek-r1")


@pytest.fixture(autouse=True)
def the_day(monkeypatch):
    """transformers asks the clock."""

    class Day(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.combine(chat.DATE, datetime.time())

    monkeypatch.setattr(theirs, "datetime", Day)


@pytest.mark.parametrize("name", chat.TEMPLATES)
def test_texts_are_those_of_transformers(name):
    if not chat.driver_available():
        pytest.skip("no build/chat_driver: run make tests")
    source = chat.TEMPLATES[name].read_text(encoding="utf-8")
    section = compile_template(source, chat.TOKENS, chat.DATE)
    seen = 0
    cases = chat.conversations(11, 400, not section[4] & 1)
    for (messages, prompt), (status, _, text) in zip(cases, chat.render(section, cases)):
        try:
            (expected,), _ = theirs.render_jinja_template(
                [messages], chat_template=source, add_generation_prompt=prompt, **chat.TOKENS
            )
        except Exception as error:  # a TemplateError of the template, or what jinja2 raises
            assert status in (chat.RAISED, chat.FAILED) and (
                status == chat.FAILED or text == error.message
            ), f"{messages} {prompt}: {error}"
            continue
        assert (status, text) == (chat.OK, expected), f"{messages} {prompt}"
        seen += 1
    assert seen > 80


@pytest.mark.parametrize("name", CHATS)
def test_ids_and_answers(phasor, tmp_path, name):
    """Each turn: the ids of transformers for the conversation so far, and for them the answer that
    `phasor run` gives from an empty cache."""
    from transformers import PreTrainedTokenizerFast

    source = chat_model.write(tmp_path / "source", chat.TEMPLATES[name].read_text(encoding="utf-8"))
    tokenizer = PreTrainedTokenizerFast.from_pretrained(source)
    model = tmp_path / "m.phasor"

    convert_to(source, model, "--chat-date", chat.DATE.isoformat())
    lines = ["Hello there", "What is a <|im_end|> token? ", "ünïcödé 😀 </s> [INST]"]
    system = ["--system", "Be brief."]
    done = subprocess.run(
        [phasor, "chat", model, "--json", "--quiet", "-n", "9", *system],
        input="".join(line + "\n" for line in lines).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    messages = [{"role": "system", "content": "Be brief."}]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    for line, answer in zip(lines, answers):
        messages.append({"role": "user", "content": line})
        ids = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True)
        assert answer["input_tokens"] == len(ids)
        run = subprocess.run(
            [
                phasor,
                "run",
                model,
                "--ids",
                ids_text(ids),
                "--print-ids",
                "-n",
                "9",
                "--quiet",
                "--end",
                ids_text(ends(tokenizer)),
            ],
            stdout=subprocess.PIPE,
            timeout=120,
        )
        assert answer["ids"] == [int(i) for i in run.stdout.decode().strip().split(",")]
        messages.append({"role": "assistant", "content": answer["text"]})


def ends(tokenizer):
    """Tokens behind an answer in the templates of this test."""
    return [tokenizer.convert_tokens_to_ids(t) for t in ("</s>", "<|im_end|>")]


def test_a_directory_as_transformers_reads_it(tmp_path):
    from transformers import PreTrainedTokenizerFast

    source = chat_model.write(tmp_path / "source", "config's")
    (source / "chat_template.jinja").write_text(
        "{{ bos_token ~ eos_token ~ pad_token ~ unk_token }} file's"
    )
    tokenizer = PreTrainedTokenizerFast.from_pretrained(source)
    template, variables = find_template(source)
    assert template == tokenizer.chat_template
    assert variables == {k: v for k, v in tokenizer.special_tokens_map.items()}
