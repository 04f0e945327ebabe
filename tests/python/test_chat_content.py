"""A template whose output depends on the words of a message is converted with a line that says so
(tools/phasor/chat/content.py): a backdoor in a template is seen in no weight."""

import time

import pytest

from phasor.chat.content import lines_on_content
from phasor.chat.template import compile_template, section_of

LOOP = "{% for m in messages %}\n%s\n{% endfor %}"
PLAIN = {
    "ChatML": "<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>",
    "a test of the role": "{% if m.role == 'user' %}U{% endif %}{{ m.content }}",
    "only texts": "{% if m.content is string %}{{ m.content }}{% endif %}",
    "no empty text": "{% if m.content %}{{ m.content }}{% endif %}",
    "trimmed, and if empty": "{% set c = m.content.strip() %}{% if not c %}-{% endif %}{{ c }}",
    "as JSON": "{{ m.content | tojson }}",
    "joined": "{{ 'a' + m.content ~ m.role }}",
}
WORDS = {
    "a word that is in it": "{% if 'secret' in m.content %}yes{% endif %}",
    "its beginning": "{% if m.content.startswith('x') %}yes{% endif %}",
    "equal": "{{ 'yes' if m.content == 'x' else '' }}",
    "its length": "{% if m.content | length > 9 %}yes{% endif %}",
    "a part": "{{ m.content.split('</think>')[-1] }}",
    "replaced": "{{ m.content.replace('a', 'b') }}",
    "in capitals": "{{ m.content | upper }}",
    "by way of a variable": "{% set c = m.content | trim %}{% if 'x' in c %}yes{% endif %}",
    "with a second test": "{% if m.role == 'user' and 'x' in m.content %}yes{% endif %}",
}


@pytest.mark.parametrize("body", PLAIN.values(), ids=PLAIN)
def test_no_line(body):
    notes: list[str] = []
    section_of(LOOP.replace("%s", body), {}, None, notes)
    assert not any("words of a message" in note for note in notes)


@pytest.mark.parametrize("body", WORDS.values(), ids=WORDS)
def test_the_line_is_named(body):
    notes: list[str] = []
    section_of(LOOP.replace("%s", body), {}, None, notes)
    (note,) = (note for note in notes if "words of a message" in note)
    assert "(line 2)" in note


def test_what_one_message_says_of_a_later_one():
    body = (
        "{% set ns = namespace(found=false) %}{% for m in messages %}{{ m.content }}\n"
        "{% if 'x' in m.content %}{% set ns.found = true %}{% endif %}{% endfor %}\n"
        "{% if ns.found %}evil{% endif %}"
    )
    assert 2 in lines_on_content(compile_template(body, {}))


def test_time_is_bounded():
    """Each instruction is looked at a few times, whatever the template."""
    body = "".join(
        f"{{% set a{i % 60} = m.content %}}{{% if a{i % 60} == 'x' %}}y{{% endif %}}"
        for i in range(100)
    )
    section = compile_template(LOOP.replace("%s", body), {})
    start = time.process_time()
    assert lines_on_content(section)
    assert time.process_time() - start < 20
