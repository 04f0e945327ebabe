"""Chat templates as programs, beside jinja2 set up as transformers sets it up; what is refused,
with its line; and `phasor chat`."""

import contextlib
import json
import os
import random
import subprocess

import pytest

import chat
import chat_model
from conftest import ROOT
from conversions import convert_to
from phasor.chat.template import Refused, compile_template
from phasor.format.layout import PhasorError
from phasor.sources.hugging_face.template import find_template

CHATML = chat.TEMPLATES["chatml"].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def render():
    """The C++ interpreter."""
    if chat.driver_available():
        return chat.render
    message = "no build/chat_driver: run make tests"
    if os.environ.get("PHASOR_REQUIRED") == "1":
        pytest.fail(message)
    pytest.skip(message)


def differences(render, source, cases, variables=None, date=None):
    """The first conversation that comes out in another way, or None; and how many came out, were
    refused by the template, failed."""
    variables = chat.TOKENS if variables is None else variables
    template = chat.environment(date).from_string(source)
    section = compile_template(source, variables, date)
    seen = [0, 0, 0]
    for (messages, prompt), (status, line, text) in zip(cases, render(section, cases)):
        want, expected = chat.expected(template, messages, prompt, variables)
        seen[want] += 1
        if status != want or (status != chat.FAILED and text != expected):
            return (
                f"{messages} {prompt}: expected {want} {expected!r}, found {status} line {line} "
                f"{text!r}",
                seen,
            )
    return None, seen


# ---- Templates beside jinja2


@pytest.mark.parametrize("name", chat.TEMPLATES)
@pytest.mark.parametrize("seed", range(3))
def test_every_template_says_what_jinja_says(render, name, seed):
    source = chat.TEMPLATES[name].read_text(encoding="utf-8")
    known = compile_template(source, chat.TOKENS, chat.DATE)[4] & 1
    problem, seen = differences(
        render, source, chat.conversations(seed, 500, not known), date=chat.DATE
    )
    assert problem is None, problem
    assert seen[chat.OK] > 100


def test_without_a_date_strftime_now_is_not_there(render):
    source = chat.TEMPLATES["llama3.1"].read_text(encoding="utf-8")
    problem, _ = differences(render, source, chat.conversations(5, 300))
    assert problem is None, problem
    with pytest.raises(Refused, match=r"line 31: strftime_now\(\) is not supported"):
        compile_template(chat.TEMPLATES["smollm3"].read_text(encoding="utf-8"), chat.TOKENS)


def test_a_loop_variable_that_a_branch_sets(render):
    for items in ("[messages[0].content, 'b']", "messages"):
        source = (
            "{% for x in " + items + " %}{% if add_generation_prompt %}{% set x = 'q' %}{% endif %}"
            "{{ x if x is string else x.content }}{% endfor %}"
        )
        problem, _ = differences(render, source, chat.conversations(7, 100)[1:])
        assert problem is None, problem


def test_an_item_that_is_computed_is_computed_once(render):
    source = (
        "{% for x in [(messages[0].content if add_generation_prompt else 'n') ~ 'z', 'b'] %}"
        "{% if x == 'Helloz' %}1{% elif x == 'nz' %}2{% else %}3{% endif %}{{ x }}{% endfor %}"
    )
    problem, _ = differences(render, source, chat.conversations(8, 100)[1:])
    assert problem is None, problem


def test_other_special_tokens(render):
    for variables in ({}, {"bos_token": "<|begin|>", "eos_token": "€\n'\""}):
        for name in ("llama3", "chatml", "phi3"):
            problem, _ = differences(
                render,
                chat.TEMPLATES[name].read_text(encoding="utf-8"),
                chat.conversations(6, 200),
                variables,
            )
            assert problem is None, problem


LISTS = [
    "{% for m in messages | selectattr('role', 'equalto', 'user') %}{{ loop.index }}{{ m.content }}"
    "{% if loop.first %}first{% endif %},{% endfor %}",
    "{% for m in messages | rejectattr('role', 'equalto', 'system') | selectattr('content') %}"
    "{{ loop.index0 % 2 }}{{ m.role }}{{ m.content }}{% endfor %}",
    "{% for m in messages | rejectattr('role', 'equalto', 'tool') | selectattr('tool_calls', "
    "'undefined') %}{{ loop.index0 }}{{ m.role }}{% endfor %}",
    "{% for m in messages | selectattr('tool_calls', 'defined') %}{{ m.role }}{% endfor %}ok",
    "{% for m in messages | selectattr('role', 'in', ['user', 'assistant']) %}{{ m.role }}"
    "{% endfor %}",
    "{% set u = messages | selectattr('role', 'equalto', 'user') | list %}{{ u | length }} "
    "{{ u | count }}{% if u %}{% endif %}{{ (u | last).content if u | length else 'none' }}"
    "{{ u[-1].content if u | length > 1 else '' }}{{ u[0].content if u | length > 2 else '' }}",
    "{% set u = messages | selectattr('role', 'equalto', 'user') | list %}{% for m in messages %}"
    "{% if m.role == 'user' and m == u[-1] %}last: {% endif %}{{ m.content }}{% endfor %}",
    "{{ (messages | selectattr('role', 'equalto', 'user') | first).content if messages else '' }}",
    "{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.content }}"
    "{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}",
    "{% for m in messages[1:] if m.content %}{% for n in messages if n.role == m.role %}"
    "{{ loop.index }}{% endfor %}{{ loop.index }}{{ m.role }}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages if m.role == 'user' %}"
    "{% set ns.n = ns.n + 1 %}{% if ns.n == 2 %}{% continue %}{% endif %}{{ loop.index }}"
    "{% endfor %}"
    "{{ ns.n }}",
    "{% set d = {3: 'c', 1: 'a', 2: 'B'} %}{% for k, v in d | dictsort %}{{ k }}{{ v }}{% endfor %}"
    "{% for k, v in d.items() %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}"
    "{% for k, v in d | dictsort(by='value') %}{{ k }}{% endfor %}"
    "{% for k, v in d | dictsort(true, 'value', true) %}{{ k }}{% endfor %}"
    "{% for k, v in d | items if k > 1 %}{{ v }}{{ loop.length }}{% endfor %}"
    "{% for k in d.keys() %}{{ k }}{% endfor %}{{ d.values() | list | join('+') }}"
    "{% for k in d %}{{ k }}{% endfor %}{{ (d | dictsort)[0][1] }}",
]


@pytest.mark.parametrize("source", LISTS)
def test_filters_of_lists_and_loops_with_a_condition(render, source):
    """selectattr, rejectattr, dictsort, items, and `for … if`."""
    known = compile_template(source, chat.TOKENS)[4] & 1
    problem, seen = differences(render, source, chat.conversations(12, 300, not known))
    assert problem is None, problem
    assert seen[chat.OK] > 200


@pytest.mark.parametrize(
    "source, message",
    [
        ("{% for m in messages if m.content %}{{ loop.last }}{% endfor %}", "loop.length"),
        ("{% for m in messages if loop.index %}{% endfor %}", "loop in the condition of a loop"),
        ("{% for m in messages if m.content %}{% else %}x{% endfor %}", "else of a loop"),
        ("{% set u = messages | selectattr('role') %}{{ u | length }}", "a list that is no list"),
        ("{% if messages | selectattr('content') | length %}{% endif %}", "the filter length here"),
        ("{{ messages | selectattr('items') | list | length }}", ".items is"),
        ("{{ {1: 2}.items()[0] }}", "an index here"),
        ("{% for a, b in messages %}{% endfor %}", "a loop over messages with several names"),
        ("{% for a, b in [[1, 2], [3]] %}{% endfor %}", "a loop with several names over this"),
        ("{{ messages | selectattr('content', 'lt', 3) | list | length }}", "selectattr"),
    ],
)
def test_what_these_lists_cannot_say_is_refused(source, message):
    with pytest.raises(Refused, match=message):
        compile_template(source, chat.TOKENS)


def grow(rng, depth=0):
    """An expression of texts and numbers, from the operations of the subset."""
    leaves = (
        "message.content",
        "message['role']",
        "messages[0].content",
        "'a b\\n'",
        "''",
        "x",
        "bos_token",
        "messages[-1]['content']",
        "loop.index | string",
        "ns.t",
    )
    if depth > 2 or rng.random() < 0.3:
        return rng.choice(leaves)
    a, b = grow(rng, depth + 1), grow(rng, depth + 1)
    return rng.choice(
        (
            f"({a} + {b})",
            f"({a} ~ {b})",
            f"({a} if {test(rng, depth + 1)} else {b})",
            f"({a}).strip()",
            f"({a}) | trim",
            f"({a}).split('a')[-1]",
            f"({a}).split('\\n')[0]",
            f"({a}).lstrip('\\n ')",
            f"({a}).rstrip()",
            f"({a}).replace('a', 'bc')",
            f"(({a}).replace({b}, '') if {b} else 'z')",
            f"({a} or {b})",
            f"({a} and {b})",
            f"({a}) | tojson",
            f"(({a}) | length | string)",
            f"({a} | default({b}))",
            f"(y | default({a}))",
            f"(({a}).split()[0] | default('none'))",
            f"({a} ~ {rng.randrange(-3, 9)} ~ none ~ true)",
            f"m({a})",
            f"m({a}, b={b})",
        )
    )


def test(rng, depth=0):
    a, b = grow(rng, depth + 1), grow(rng, depth + 1)
    choices = [
        f"{a} == {b}",
        f"{a} != {b}",
        f"{a} in {b}",
        f"{a} not in {b}",
        f"({a}).startswith({b})",
        f"({a}).endswith({b})",
        f"{a} < {b}",
        f"({a}) | length > {rng.randrange(40)}",
        "loop.first",
        "loop.last",
        f"loop.index0 % {rng.randrange(1, 4)} == 0",
        "add_generation_prompt",
        "y is defined",
        "x is string",
        "message.name is none",
        "tools",
        f"message.role in ['user', {a}]",
        "messages | length > 2",
        "ns.n > 1",
        "messages[loop.index0 - 1].role == 'user'",
    ]
    if depth < 2:
        choices += [
            f"({test(rng, depth + 1)} and {test(rng, depth + 1)})",
            f"({test(rng, depth + 1)} or {test(rng, depth + 1)})",
            f"not ({test(rng, depth + 1)})",
        ]
    return rng.choice(choices)


test.__test__ = False


def template(rng):
    """A whole template: sets, namespaces, branches and loops around such expressions."""

    def statements(depth):
        out = ""
        for _ in range(rng.randrange(1, 4)):
            out += rng.choice(
                (
                    lambda: f"{{{{ {grow(rng)} }}}}",
                    lambda: f"{{%- set x = {grow(rng)} %}}",
                    lambda: f"{{% set ns.t = {grow(rng)} %}}",
                    lambda: "{% set ns.n = ns.n + 1 %}",
                    lambda: (
                        f"{{% if {test(rng)} %}}{statements(depth + 1) if depth < 2 else 'A'}{{% "
                        f"elif {test(rng)} %}} B\n{{% else %}}{{{{ x }}}}{{%- endif %}}"
                    ),
                    lambda: f"{{{{ m({grow(rng)}, {grow(rng)}) }}}}",
                    lambda: (
                        f"{{% set x %}}{{{{ {grow(rng)} }}}}-{{% if {test(rng)} %}}y{{% endif "
                        f"%}}{{% endset %}}"
                    ),
                    lambda: "text\n  ",
                    lambda: (
                        f"{{% if {test(rng)} "
                        f"%}}{rng.choice(('{% continue %}', '{% break %}', '{% set y = 1 %}'))}{{% "
                        f"endif %}}"
                    ),
                    lambda: (
                        "{%- for other in messages[1:] %}{{ loop.index }}{{ other.role }}{% if "
                        "other == message %}{% set x = 'same' %}={% endif %}{% else %}empty{% "
                        "endfor %}"
                    ),
                )
            )()
            if depth == 0 and rng.random() < 0.1:
                out += "{% if x %}{{ raise_exception('no: ' + x) }}{% endif %}"
        return out

    start = (
        f"{{% set x = {rng.choice(('bos_token', 'messages[0].role', repr('x ')))} %}}{{% set ns = "
        f"namespace(n=0, t='') %}}"
    )
    body = statements(0)
    inside = rng.sample(
        (
            "{{ a }}",
            "{% if a == b %}same{% elif a %}{{ b ~ a | trim }}{% else %}{{ ns.t }}{% endif %}",
            "{% set a = b + a.strip() %}",
            "{% for n in messages %}{{ n.role[0:0] if false else loop.index }}{% endfor %}",
            "{% set x = a | length %}{{ x }}",
            "text{{ x }}",
            "{% set b %}({{ a }}){% endset %}{{ b }}",
        ),
        rng.randrange(0, 4),
    )
    start += f"{{% macro m(a, b='d') %}}{''.join(inside)}{{% endmacro %}}"
    loop = rng.choice(
        (
            "messages",
            "messages[::-1]",
            "messages[1:]",
            "messages[:-1]",
            "messages[-3:]",
            "messages[::2]",
        )
    )
    return (
        f"{start}{{%- for message in {loop} "
        f"-%}}\n{body}{'' if 'continue' in body or 'break' in body else '{% else %}none'}{{% "
        f"endfor %}}{{{{ x ~ ns.t ~ ns.n }}}}"
    )


@pytest.mark.long
def test_random_templates(render):
    """Some need what the subset refuses (an index into what a split may not have, say); those that
    compile give what jinja2 gives."""
    compiled = 0
    for seed in range(400):
        rng = random.Random(seed)
        source = template(rng)
        try:
            compile_template(source, chat.TOKENS)
        except Refused:
            continue
        compiled += 1
        problem, _ = differences(render, source, chat.conversations(seed, 25))
        assert problem is None, f"{source}\n{problem}"
    assert compiled > 300


# ---- What is refused


@pytest.mark.parametrize(
    "source, message",
    [
        (
            "{{ bos_token }}\n\n{{ messages | map(attribute='role') | join(',') }}",
            "line 3: the filter map is not supported",
        ),
        (
            "{% for m in messages %}\n{% for c in m.content %}{% endfor %}{% endfor %}",
            "line 2: a loop over text is not supported",
        ),
        ("{{ messages[0].content[0] }}", "line 1: an index into text is not supported"),
        ("{{ messages[0].content[1:] }}", "line 1: a slice of text is not supported"),
        (
            "{% for m in messages %}{{ m.content.find('x') }}{% endfor %}",
            r"line 1: \.find\(\) is not supported",
        ),
        (
            "{% for m in messages %}{{ m.content | indent }}{% endfor %}",
            "line 1: the filter indent is not supported",
        ),
        ("{{ 1.5 * (messages | length) }}", "line 1: "),
        ("{% include 'x' %}", "line 1: include is not supported"),
        (
            "{% set x %}{% set y = 1 %}{% endset %}{{ x }}",
            "line 1: a set block that sets others is not supported",
        ),
        ("a\n{{ strftime_now('%Y') }}", r"line 2: strftime_now\(\) is not supported"),
        ("{{ today() }}", r"line 1: today\(\) is not supported"),
        ("a\nb {% if %}", "line 2: "),
        (
            "{{ messages | tojson }}",
            "line 1: the filter tojson of a whole message is not supported",
        ),
        (
            "{% for a in messages %}{% for b in messages %}\n{% for c in messages %}{% endfor "
            "%}{% endfor %}{% endfor %}",
            "line 2: more than 2 loops over messages in one another",
        ),
        ("{% for k, v in messages %}{% endfor %}", "line 1: a loop over messages"),
        ("{{ [messages[0].role, 'x'] }}", "line 1: a list as a value"),
        (
            "{% for p in messages[0].content.split('a') %}{{ p }}{% endfor %}",
            r"line 1: a loop over split\(\) is not supported",
        ),
        (
            "{% if 'a' in messages[0].content.split() %}{% endif %}",
            r"line 1: split\(\) without an index is not supported",
        ),
        (
            "{% if messages[0].content.split() == ['a'] %}{% endif %}",
            "line 1: a comparison of lists is not supported",
        ),
        (
            "{% macro f(x) %}\n{{ f(x) }}{% endmacro %}{{ f('a') }}",
            "line 2: the macro f, which calls itself is not supported",
        ),
        (
            "{% macro f(x) %}{{ x }}{% endmacro %}\n{{ f(1, 2) }}",
            r"line 2: f\(\) with these arguments is not supported",
        ),
        (
            "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{% endcall %}",
            "line 1: a call block is not supported",
        ),
        (
            "{% for m in messages %}{% continue %}{% else %}x{% endfor %}",
            "line 1: else of a loop with break or continue is not supported",
        ),
    ],
)
def test_what_is_not_in_the_subset_is_refused_with_its_line(source, message):
    with pytest.raises(Refused, match="^chat template, " + message):
        compile_template(source, chat.TOKENS)


@pytest.mark.parametrize(
    "source",
    [
        "{% if tools %}{{ tools | map('x') }}{% endif %}ok",
        "{% macro f() %}{{ messages | map('x') }}{% endmacro %}{% if documents is not none %}{{ "
        "f() }}{% endif %}ok",
        "{% set y = messages | selectattr('role') %}ok",
        "{% for m in messages %}{% if m.content is not string %}{{ m.content[0].text }}{% endif "
        "%}{% endfor %}ok",
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function | items }}{% endfor %}{% "
        "endfor %}ok",
    ],
)
def test_what_cannot_be_reached_does_not_matter(render, source):
    assert render(compile_template(source, {}), [([{"role": "user", "content": "a"}], True)]) == [
        (chat.OK, 0, "ok")
    ]


def test_other_roles_are_given_up_only_where_it_must_be(render):
    source = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ m.content | indent }}{% else %}{{ "
        "m.content }}{% endif %}{% endfor %}"
    )
    section = compile_template(source, {})
    assert section[4] == 1
    assert render(
        section,
        [([{"role": "user", "content": "a"}], True), ([{"role": "tool", "content": "a"}], True)],
    ) == [(chat.OK, 0, "a"), (chat.FAILED, 0, "a role that is not system, user or assistant")]
    assert compile_template(CHATML, {})[4] == 0


def test_letters_beyond_ascii_are_refused_and_not_changed(render):
    section = compile_template("\n{{ messages[0].content | upper }}", {})
    assert render(section, [([{"role": "user", "content": "straße"}], True)]) == [
        (chat.FAILED, 2, "upper and lower case of letters beyond ASCII")
    ]


def test_a_template_that_keeps_growing_ends(render):
    """Texts that double: ended at the budget of steps, with the line."""
    source = (
        "{% set ns = namespace(t='0123456789') %}\n{% for m in messages %}{% set ns.t = ns.t + "
        "ns.t %}{% endfor %}{{ ns.t }}"
    )
    messages = [{"role": "user", "content": ""}] * 64
    assert render(compile_template(source, {}), [(messages, True)]) == [
        (chat.FAILED, 2, "more than 256 steps for each byte of the program and of the messages")
    ]


def test_what_no_variable_holds_is_given_back(render):
    source = (
        "{% for m in messages %}{% set t = m.content + 'x' %}{% set u = t + 'y' %}{% set t = "
        "u.replace('y', 'zz') %}{{ t | length }} {% endfor %}"
    )
    messages = [
        {"role": "user", "content": "a" * 20000}
    ] * 200  # each round puts 60 kB together; the driver gives 8 times the messages' bytes once
    ((status, _, text),) = render(compile_template(source, {}), [(messages, True)])
    assert status == chat.OK and text == "20003 " * 200


def test_the_stored_program_is_still_what_the_compiler_makes():
    """tests/golden/chat.bin, which is in a golden model too: written by the compiler from a
    template of this repository."""
    source = chat.TEMPLATES["qwen3"].read_text(encoding="utf-8")
    assert compile_template(source, chat.TOKENS) == (ROOT / "tests/golden/chat.bin").read_bytes()


# ---- Where templates are


def folder(path, config=None, **files):
    path.mkdir(exist_ok=True)
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return path


def test_templates_and_tokens_of_a_directory(tmp_path):
    assert find_template(folder(tmp_path / "none")) == (None, {})
    base = folder(tmp_path / "base", {"bos_token": "<s>"})
    assert find_template(base) == (None, {"bos_token": "<s>"})
    tokens = {
        "bos_token": {"content": "<s>", "lstrip": False},
        "eos_token": "</s>",
        "unk_token": None,
        "additional_special_tokens": ["a", {"content": "b"}],
    }
    found = "t", {"bos_token": "<s>", "eos_token": "</s>", "additional_special_tokens": ["a", "b"]}
    assert find_template(folder(tmp_path / "one", {"chat_template": "t", **tokens})) == found
    named = [{"name": "tool_use", "template": "u"}, {"name": "default", "template": "t"}]
    assert find_template(folder(tmp_path / "named", {"chat_template": named, **tokens})) == found
    assert (
        find_template(
            folder(tmp_path / "file", {"chat_template": "old", **tokens}, chat_template__jinja="t")
        )
        == found
    )
    assert (
        find_template(
            folder(tmp_path / "json", tokens, chat_template__json='{"chat_template": "t"}')
        )
        == found
    )
    with pytest.raises(PhasorError, match="tool_use; there is none called default"):
        find_template(folder(tmp_path / "other", {"chat_template": named[:1]}))


def test_conversion(tmp_path, capsys):
    from phasor import convert

    source = chat_model.write(tmp_path / "source", "line\n{{ messages | map('x') }}")
    convert_to(source, tmp_path / "m.phasor")
    line = "chat template, line 2: the filter map is not supported"
    without = "the model is converted without a chat program"
    assert capsys.readouterr().err == f"convert: {source}: {line}: {without}\n"
    none, file = tmp_path / "none.phasor", tmp_path / "file.phasor"
    convert_to(source, none, "--chat", "none")
    assert capsys.readouterr().err == ""
    assert none.read_bytes() == (tmp_path / "m.phasor").read_bytes()
    given = tmp_path / "given.jinja"
    given.write_text("line\n{{ messages | map('x') }}")
    assert convert.main([str(source), "-o", str(file), "--quiet", "--chat", str(given)]) == 1
    assert capsys.readouterr().err == f"convert: {given}: {line} (--chat none converts without)\n"
    assert not file.exists()
    (tmp_path / "t.jinja").write_text(CHATML)
    convert_to(source, tmp_path / "n.phasor", "--chat", tmp_path / "t.jinja")
    from phasor.format.file import CHAT, PhasorFile

    assert CHAT not in PhasorFile(tmp_path / "m.phasor").sections
    assert PhasorFile(tmp_path / "n.phasor").section(CHAT) == compile_template(CHATML, chat.TOKENS)
    assert (
        convert.main(
            [
                str(source),
                "-o",
                str(tmp_path / "m.phasor"),
                "--quiet",
                "--chat",
                str(tmp_path / "t.jinja"),
                "--chat-date",
                "today",
            ]
        )
        == 1
    )
    assert "expected a day" in capsys.readouterr().err
    # A template that lacks the day alone is told the flag, with which it converts.
    day, line = tmp_path / "day.jinja", "(--chat-date YYYY-MM-DD says which day it is)"
    day.write_text("{{ strftime_now('%d %b %Y') }}{{ messages[0].content }}")
    given = [str(source), "-o", str(tmp_path / "d.phasor"), "--quiet", "--chat", str(day)]
    assert convert.main(given) == 1 and line in capsys.readouterr().err
    assert convert.main([*given, "--chat-date", "2025-01-31"]) == 0
    capsys.readouterr()
    day.write_text("{{ strftime_now('%d') }}{{ messages | tojson }}")
    assert convert.main(given) == 1 and "--chat-date" not in capsys.readouterr().err


# ---- The program


def talk(program, model, lines, *flags):
    done = subprocess.run(
        [program, "chat", model, *flags],
        input="".join(line + "\n" for line in lines).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=120,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("chat")
    return chat_model.convert_it(path / "source", path / "m.phasor", CHATML)


@pytest.fixture(scope="module")
def llama2(tmp_path_factory):
    path = tmp_path_factory.mktemp("llama2")
    return chat_model.convert_it(
        path / "source", path / "m.phasor", chat.TEMPLATES["llama2"].read_text(encoding="utf-8")
    )


def test_a_conversation(phasor, model):
    """Prompts are the template's text of the answers so far; only what is new is computed; the
    answers are those of a fresh start."""
    lines = ["Hello there", "", "What's a <|im_end|> token?", "ünïcödé 😀"]
    code, out, err = talk(
        phasor,
        model,
        lines,
        "--json",
        "-n",
        "12",
        "--quiet",
        "--print-prompt",
        "--system",
        "Be brief.",
    )
    assert code == 0
    answers = [json.loads(line) for line in out.splitlines()]
    assert [a["line"] for a in answers] == [1, 3, 4] and [a["messages"] for a in answers] == [
        3,
        5,
        7,
    ]
    template, messages, prompts = (
        chat.environment().from_string(CHATML),
        [{"role": "system", "content": "Be brief."}],
        "",
    )
    for line, answer in zip([line for line in lines if line], answers):
        messages.append({"role": "user", "content": line})
        prompts += template.render(messages=messages, add_generation_prompt=True) + "\n"
        messages.append({"role": "assistant", "content": answer["text"]})
        assert answer["finish"] == "length" and answer["tokens"] == 12
    assert err == prompts
    assert answers[0]["reused"] == 0 and all(
        b["reused"] >= a["input_tokens"] - 2 for a, b in zip(answers, answers[1:])
    )
    # Plain: each answer, a line, an empty line.
    code, out, _ = talk(phasor, model, lines, "-n", "12", "--quiet", "--system", "Be brief.")
    assert code == 0 and out == "".join(a["text"] + "\n\n" for a in answers)


def test_reset_and_quit(phasor, model):
    code, out, _ = talk(
        phasor, model, ["Hello", "/reset", "Hello", "/quit", "never"], "-n", "6", "--quiet"
    )
    first, second = out.split("\n\n")[:2]
    assert code == 0 and first == second and out == f"{first}\n\n{second}\n\n"


def test_draws(phasor, model, tmp_path):
    flags = ("-n", "8", "--quiet", "--temperature", "2")
    one, two, three = (
        talk(phasor, model, ["a", "b"], *flags, "--seed", seed)[1] for seed in ("1", "1", "2")
    )
    assert one == two != three
    drawn = chat_model.convert_it(
        tmp_path / "source",
        tmp_path / "m.phasor",
        CHATML,
        do_sample=True,
        temperature=1.9,
        top_k=40,
    )
    greedy = talk(phasor, model, ["a", "b"], "-n", "8", "--quiet")[1]
    recommended = [
        talk(phasor, drawn, ["a", "b"], "-n", "8", "--quiet", "--seed", str(seed))[1]
        for seed in range(3)
    ]
    assert len(set(recommended)) > 1
    for flag in (("--greedy",), ("--temperature", "0")):
        assert talk(phasor, drawn, ["a", "b"], "-n", "8", "--quiet", *flag)[1] == greedy
    code, _, err = talk(phasor, drawn, ["a"], "--greedy", "--top-k", "3")
    assert code == 2 and err == "phasor: --greedy: expected without flags that draw\n"


def test_a_full_context_loses_its_oldest(phasor, model):
    lines = [f"message number {i} of many" for i in range(8)]
    code, out, err = talk(
        phasor,
        model,
        lines,
        "-n",
        "10",
        "--context",
        "120",
        "--json",
        "--system",
        "Stay.",
        "--print-prompt",
        "--quiet",
    )
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and len(answers) == 8
    assert "phasor: the context of 120 tokens is full: the oldest exchange is dropped\n" in err
    assert all(a["input_tokens"] + 10 <= 120 for a in answers) and answers[-1]["messages"] < 17
    assert (
        err.count("<|im_start|>system\nStay.<|im_end|>\n") == 8
        and lines[0] not in err.split("Stay.")[-1]
    )
    code, out, err = talk(
        phasor, model, ["short", "long " * 200, "short"], "-n", "5", "--context", "120", "--quiet"
    )
    assert (
        code == 1
        and err.startswith("phasor: standard input, line 2: ")
        and err.endswith("there is room for 120 (--context)\n")
    )
    first, empty, last, end = out.split("\n\n")
    assert first and last and (empty, end) == ("", "")


def test_a_template_that_says_no(phasor, llama2):
    """Llama 2's wants turns: with a system message too. What it refuses is a line, and the
    conversation goes on."""
    code, out, err = talk(
        phasor,
        llama2,
        ["Hello", "again"],
        "-n",
        "5",
        "--system",
        "Be brief.",
        "--print-prompt",
        "--quiet",
    )
    assert code == 0 and err.startswith(
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHello [/INST]\n<s>[INST] <<SYS>>"
    )
    assert len(out.split("\n\n")) == 3


def test_the_token_behind_an_answer_ends_it(phasor, tmp_path):
    """Where the template writes a token of its own behind an answer, the answer ends there, though
    the model's end is another one. Every other token is forbidden."""
    finish = {}
    for name in ("chatml", "falcon"):
        path = chat_model.convert_it(
            tmp_path / name / "source",
            tmp_path / name / "m.phasor",
            chat.TEMPLATES[name].read_text(encoding="utf-8"),
        )
        ids = (
            subprocess.run(
                [phasor, "tokenize", path, "--print-ids", "<|im_end|>"],
                stdout=subprocess.PIPE,
                check=True,
            )
            .stdout.decode()
            .strip()
        )
        others = ",".join(str(i) for i in range(int(ids) + 3) if str(i) != ids)
        answer = json.loads(
            talk(phasor, path, ["Hello"], "-n", "3", "--json", "--quiet", "--suppress", others)[1]
        )
        assert set(answer["ids"]) == {int(ids)} and answer["text"] == ""
        finish[name] = answer["finish"], answer["tokens"]
    assert finish == {"chatml": ("end", 1), "falcon": ("length", 3)}


def test_an_added_token_behind_an_answer_ends_it(phasor, tmp_path):
    """One that is not special has a text, which is not the answer's; text before a token ends the
    answer by itself, since the token's own is no text."""
    source = chat_model.write(tmp_path / "s", chat.TEMPLATES["chatml"].read_text(encoding="utf-8"))
    path = source / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for token in content["added_tokens"]:
        token["special"] &= token["content"] != "<|im_end|>"
        ids = [t["id"] for t in content["added_tokens"] if t["content"] == "<|im_end|>"]
    path.write_text(json.dumps(content), encoding="utf-8")
    convert_to(source, tmp_path / "m.phasor")
    others = ",".join(str(i) for i in range(ids[0] + 3) if i != ids[0])
    flags = ["-n", "3", "--json", "--quiet", "--suppress", others]
    answer = json.loads(talk(phasor, tmp_path / "m.phasor", ["Hello"], *flags)[1])
    assert (answer["ids"], answer["text"], answer["finish"]) == (ids, "", "end")
    template = "{% for m in messages %}{{ m.content }}##<|im_end|>{% endfor %}"
    path = chat_model.convert_it(tmp_path / "t", tmp_path / "t.phasor", template)
    row = subprocess.run([phasor, "tokenize", path, "--print-ids", "##"], capture_output=True)
    sharp = row.stdout.decode().strip().split(",")
    others = ",".join(str(i) for i in range(ids[0] + 3) if str(i) not in sharp)
    flags = ["-n", "9", "--json", "--quiet", "--suppress", others]
    answer = json.loads(talk(phasor, path, ["Hello"], *flags)[1])
    assert (answer["text"], answer["finish"]) == ("", "stop string")


def test_a_stop_string_that_is_a_special_token(phasor, tmp_path):
    """Its text is never in an output: the token ends it, with beams too."""
    path = chat_model.convert_it(tmp_path / "s", tmp_path / "m.phasor", "{{ messages }}")
    ids = subprocess.run(
        [phasor, "tokenize", path, "--print-ids", "<|im_end|>"], capture_output=True, check=True
    )
    end = int(ids.stdout.decode())
    others = ",".join(str(i) for i in range(end + 3) if i != end)
    for flags in ([], ["--beam", "2"], ["--batch", "2"]):
        run = [phasor, "run", path, "--suppress", others, "-n", "5", "--json", "--quiet", *flags]
        for more, count in ([], 5), (["--stop", "<|im_end|>"], 1):
            done = subprocess.run([*run, *more], input=b"Hello\n", capture_output=True, check=True)
            line = json.loads(done.stdout)
            assert len(line.get("outputs", [line])[0]["ids"]) == count, (flags, more)
    done = subprocess.run([*run, "--stop", "<|im_end|>\n", "x"], capture_output=True)
    assert done.returncode == 1 and f"<|im_end|> is a special token, and no text; --end {end}" in (
        done.stderr.decode()
    )


def test_text_behind_an_answer_ends_it(phasor, tmp_path):
    """Where it writes text there, the answer ends before that text: the model does not go on with
    the next message."""
    path = chat_model.convert_it(
        tmp_path / "source",
        tmp_path / "m.phasor",
        "{% for m in messages %}{{ m.content }}##\n{% endfor %}",
    )
    ids = (
        subprocess.run(
            [phasor, "tokenize", path, "--print-ids", "##a"], stdout=subprocess.PIPE, check=True
        )
        .stdout.decode()
        .strip()
        .split(",")
    )
    others = ",".join(str(i) for i in range(905) if str(i) not in ids)
    answers = [
        json.loads(
            talk(
                phasor,
                path,
                ["Hello"],
                "-n",
                "60",
                "--json",
                "--quiet",
                "--suppress",
                others,
                "--temperature",
                "30",
                "--seed",
                str(seed),
            )[1]
        )
        for seed in range(8)
    ]
    assert all(
        a["finish"] == "stop string" and "##" not in a["text"] and a["ids"][-1] == int(ids[0])
        for a in answers
    )
    assert any(a["text"] for a in answers)


def test_a_terminal_is_asked(phasor, model):
    pty = pytest.importorskip("pty")
    outer, inner = pty.openpty()
    process = subprocess.Popen(
        [phasor, "chat", model, "-n", "2", "--quiet"],
        stdin=inner,
        stdout=inner,
        stderr=subprocess.PIPE,
    )
    os.close(inner)
    os.write(outer, b"/quit\n")
    assert process.wait(timeout=60) == 0 and process.stderr.read() == b""
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal that nobody has open
        while more := os.read(outer, 100):
            shown += more
    os.close(outer)
    assert b"> " in shown


def test_invalid_lines(phasor, model):
    done = subprocess.run(
        [phasor, "chat", model, "-n", "3", "--quiet"],
        input=b"a\n\xff\xfe\nb\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert (
        done.returncode == 1
        and done.stderr == b"phasor: standard input, line 2: invalid UTF-8 at byte 0\n"
        and done.stdout.count(b"\n\n") >= 3
    )


def test_models_that_do_not_chat(phasor, golden_models, tmp_path):
    lm = golden_models / "tiny-lm-f32.phasor"
    assert talk(phasor, lm, ["a"]) == (
        1,
        "",
        f"phasor: {lm}: has no chat template, expected a file that was converted with one; "
        "this model is for phasor run, score\n",
    )
    encoder = golden_models / "tiny-bert-f32.phasor"
    assert talk(phasor, encoder, ["a"]) == (
        1,
        "",
        f"phasor: {encoder}: is not a decoder, expected a language model; "
        "this model is for phasor embed, fill\n",
    )
    assert talk(phasor, lm, ["a"], "--beam", "2")[0] == 2
    assert talk(phasor, lm, ["a"], "text")[0] == 2
