"""Chat templates that would keep a compiler busy, or fill its memory, or its stack."""

_CONTENT = "{{ messages[0].content }}"


def _macros(count, calls=2):
    """Each calls the one before `calls` times."""
    out = "{% macro m0() %}x" + _CONTENT + "{% endmacro %}"
    for i in range(1, count):
        out += "{%% macro m%d() %%}" % i + "{{ m%d() }}" % (i - 1) * calls + "{% endmacro %}"
    return out + "{{ m%d() }}" % (count - 1)


def _loops(count, items, inside=_CONTENT):
    names = [f"a{i}" for i in range(count)]
    return (
        "".join("{%% for %s in %s %%}" % (name, items) for name in names)
        + inside
        + "{% endfor %}" * count
    )


def _nested(opening, inside, closing, count):
    return opening * count + inside + closing * count


_LOOP = "{% for m in messages %}", "{% endfor %}"

BOMBS = {
    # Numbers.
    "power": "{{ 9**9**9 }}",
    "long number": "{{ " + "9" * 100_000 + " }}",
    "hexadecimal number": "{{ 0x" + "f" * 100_000 + " }}",
    "number with a point": "{{ 1." + "1" * 100_000 + "e5 }}",
    "underscores": "{{ " + "1_" * 100_000 + "1 }}",
    "foreign digits": "{{ \u0663.\u0663 }}",
    "growing number": "{% set a = 9 %}" + "{% set a = a * a %}" * 60 + "{{ a }}",
    # Texts.
    "repetition": "{{ 'a' * 10**10 }}",
    "repetition of a text": "{{ 'a' * 100000000000 }}",
    "repetition in range": "{{ 'a' * 2147483647 }}",
    "doubling text": "{% set a = 'aaaaaaaaaa' * 1000 %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "doubling by +": "{% set a = 'a' %}" + "{% set a = a + a %}" * 60 + "{{ a }}",
    "doubling by replace": "{% set a = 'a' * 1000 %}"
    + "{% set a = a.replace('a', a) %}" * 10
    + "{{ a }}",
    "replace nothing": "{% set a = 'a' * 200000 %}{{ a.replace('', a) }}",
    "doubling by join": "{% set a = 'a' * 1000 %}" + "{% set a = a | join(a) %}" * 10 + "{{ a }}",
    "split": "{% set a = ' a' * 100000 %}" + "{% set b = a.split() %}" * 900 + "{{ b }}",
    "searches": "{% set a = 'a' * 100000 %}" + "{% set b = (a ~ 'b') in a %}" * 900 + "{{ b }}",
    "long texts written": "{% set a = 'a' * 200000 %}" + "{{ a }}" * 4000,
    "many texts": "".join("{{ messages[0].content ~ 'text %d' }}" % i for i in range(1500)),
    "format": "{{ '%0999999999d' % 1 }}",
    "format of a text": "{{ '%s' % 'a' }}",
    "center": "{{ 'a'|center(9999999999) }}",
    "indent of tojson": "{{ [[1]] | tojson(indent=100000000) }}",
    "widths of the day": "{{ strftime_now('%0999999999d') }}",
    "surrogate": "{{ '\\ud800' }}",
    "titles": "{% set a = 'a-' * 100000 %}" + "{{ a | title | length }}" * 500,
    # Lists.
    "range": "{{ range(10**12)|list|length }}",
    "range of numbers": "{{ range(2147483647)|list|length }}",
    "wide range": "{{ range(-2147483647, 2147483647) | length }}",
    "doubling list": "{% set a = [1] %}" + "{% set a = [a, a] %}" * 60 + "{{ a | tojson }}",
    "list in a list": "{% set a = [1] %}" + "{% set a = [a] %}" * 1000 + "{{ a | tojson }}",
    "doubling sum": "{% set a = [1] %}" + "{% set a = a + a %}" * 60 + "{{ a | length }}",
    "long list": "{% set a = [" + "1," * 7000 + "] %}{{ a | length }}",
    "long dict": "{% set a = {"
    + ",".join(f"'k{i}': 1" for i in range(3500))
    + "} %}{{ a | length }}",
    "lists compared": "{% set a = [" + "'aaaa'," * 3900 + "] %}" + "{{ a == a }}" * 1500,
    "tuples": "{{ m.startswith((" + "'a'," * 7000 + ")) }}",
    "list of contents": "{% if 'a' in [" + "messages[0].content," * 1800 + "] %}{% endif %}",
    # Repeated work.
    "macros": _macros(40),
    "macros in values": "".join(
        "{%% macro m%d(x) %%}{{ x }}{{ x }}{%% endmacro %%}" % i for i in range(30)
    )
    + "{{ "
    + "".join(f"m{i}(" for i in range(20))
    + "messages[0].content"
    + ")" * 20
    + " }}",
    "macros of many calls": _macros(12, 12),
    "macros one deep": _macros(400, 1),
    "loops": _loops(6, "range(1000)"),
    "loops of 64": _loops(12, "range(64)"),
    "loops of 2": _loops(18, "[1, 2]"),
    "doubling items": "".join(
        "{%% for a%d in [a%d ~ a%d] %%}" % (i + 1, i, i) for i in range(18)
    ).replace("a0", "messages[0].content")
    + "{{ a18 }}"
    + "{% endfor %}" * 18,
    "empty loops with much inside": _loops(
        3,
        "range(64)",
        "{% for x in [] %}" + "{{ x }}{% if x %}{% set y = x %}{% endif %}" * 800 + "{% endfor %}",
    ),
    "loops of many names": _loops(
        3,
        "range(64)",
        "".join("{%% if false %%}{%% set n%d = 1 %%}{%% endif %%}" % i for i in range(1000)),
    ),
    "messages three deep": _nested(_LOOP[0], _CONTENT, _LOOP[1], 3),
    "doubling content": _LOOP[0]
    + "{% set x = m.content %}"
    + "{% if x %}{% set x = x ~ x %}{% else %}{% set x = 'a' ~ x %}{% endif %}" * 26
    + "{{ x }}"
    + _LOOP[1],
    "values that do not settle": "{% set ns = namespace("
    + ", ".join(f"a{i}=0" for i in range(200))
    + ") %}"
    + _LOOP[0]
    + _LOOP[0].replace("m ", "n ")
    + "".join("{%% set ns.a%d = ns.a%d %%}" % (i + 1, i) for i in range(199))
    + "{% set ns.a0 = m.content %}"
    + _LOOP[1]
    + _LOOP[1]
    + "{{ ns.a199 }}",
    "variables that feed each other": "{% set a0 = messages[0].content %}"
    + "".join("{%% set a%d = a%d ~ 'x' %%}" % (i + 1, i) for i in range(1400)),
    "branches and variables": "".join(
        "{%% set a%d = messages[0].content %%}" % i for i in range(500)
    )
    + "{% if messages[0].content %}{% set b = 1 %}{% endif %}" * 500,
    "branches": "{% if messages[0].content %}a{% else %}b{% endif %}" * 900,
    "jumps in a row": "{% if messages %}{% else %}{% endif %}" * 1300,
    "elif": "{% if messages[0].content == 'a' %}"
    + "{% elif messages[0].content == 'b' %}b" * 1200
    + "{% endif %}",
    "namespaces": "".join(
        "{%% set n%d = namespace(a=1) %%}{%% set n%d.b = 2 %%}" % (i, i) for i in range(500)
    )
    + "{{ n7.b }}",
    # Depth.
    "brackets": "{{ " + _nested("(", "1", ")", 50_000) + " }}",
    "lists": "{{ " + _nested("[", "1", "]", 10_000) + " }}",
    "dicts": "{{ " + _nested("{1:", "1", "}", 10_000) + " }}",
    "calls": "{{ " + _nested("f(", "1", ")", 10_000) + " }}",
    "indexes": "{{ x" + _nested("[x", "", "]", 10_000) + " }}",
    "not": "{{ " + "not " * 30_000 + "1 }}",
    "signs": "{{ " + "-" * 30_000 + "1 }}",
    "sum": "{{ " + "m.content + " * 8000 + "'' }}",
    "filters": "{{ 'a'" + " | trim" * 15_000 + " }}",
    "fields": "{{ messages" + ".a" * 15_000 + " }}",
    "calls in a row": "{{ messages" + "()" * 15_000 + " }}",
    "or": "{{ " + "messages or " * 15_000 + "1 }}",
    "conditions": "{{ " + "1 if messages else " * 8000 + "2 }}",
    "powers": "{{ 1" + "**1" * 15_000 + " }}",
    "brackets in sums": "{{ "
    + "".join("'a' + " * 60 + "(" for _ in range(18))
    + "'a'"
    + ")" * 18
    + " }}",
    "tests": "{{ " + _nested("(", "1", " is defined)", 3000) + " }}",
    "blocks": _nested("{% if messages %}", "x", "{% endif %}", 10_000),
    "block texts": _nested("{% set x %}", "x", "{% endset %}", 8000),
    "withs": _nested("{% with %}", "x", "{% endwith %}", 8000),
    "macros in one another": _nested("{% macro m() %}", "x", "{% endmacro %}", 5000),
    "generations": _nested("{% generation %}", "x", "{% endgeneration %}", 5000),
    "filter blocks": _nested("{% filter trim %}", "x", "{% endfilter %}", 5000),
    "call blocks": _nested("{% call f() %}", "x", "{% endcall %}", 5000),
    "only openings": "{% if messages %}" * 15_000,
    # Size.
    "much text": "a" * 5_000_000,
    "many tokens": "{{ x }}" * 36_000,
    "many lines": "\n" * 260_000,
    "many comments": "{# #}" * 5000,
    "comment without an end": "{#" * 130_000,
    "openings": "{{" * 130_000,
    "raw without an end": "{% raw %}" + "{% " * 80_000,
    "spaces": "{% raw" + " " * 250_000,
    "strips": "a {%- if 1 -%} {%- endif -%} " * 1200,
    "quotes": "{{ '" + "\\'" * 130_000 + " }}",
    "long name": "{{ " + "a" * 250_000 + " }}",
    "wide letters": "{{ '" + "\U0001d54f" * 250_000 + "' | length }}",
    "combining": "{{ a" + "\u0301" * 250_000 + " }}",
    "growing letters": "{% set a = '\u0390' * 200000 %}{{ a.upper() | length }}",
}
