"""What a line of the program says to do works: each piece of advice in src/cli has a case here,
whose command gets the line and whose other commands do what it says; or it names the test that
follows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from test_cli import LANGUAGE, ROOT, TRANSLATOR, bad, good
from test_encode import HIDDEN, MASKED, SENTENCE

import random_models as M
from phasor.format import layout as L

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ADVICE = re.compile(
    r"TRY: |[:;,(] (?:give|choose|copy|hf|git|tools/convert|then|take|use|say|set)\b|; --|\(--[a-z]"
    r"|^--[a-z]+ \w.*(?:apart|cuts|forgets|scores)|(?<!,) needs --|goes with --|is for phasor"
    r"|expected (?:either|one of -|--|fewer)|: expected one of |says which|phasor rank"
    r"|convert it again|did you mean|phasor (?:%s )?--help|gets it"
)
SHIPPED = ROOT / "models" / "zh-en-small.phasor"
LONG = "我有一只猫。" * 3
WINDOW = ["--context", "4"]


class Case(NamedTuple):
    """The line of `phasor wrong`, and commands that must work."""

    advice: str
    status: int
    wrong: list
    right: list[list]


def case(advice: str, wrong: list, *right: list, status: int = 1) -> Case:
    return Case(advice, status, wrong, list(right))


def usage(advice: str, wrong: list, *right: list) -> Case:
    return case(advice, wrong, *right, status=2)


RUN, IDS = ["run", TRANSLATOR, "source5"], ["run", LANGUAGE, "--ids", "5,6,7"]
CASES = [
    case(
        "%s: %u tokens, expected fewer than the context of %u",
        ["bench", LANGUAGE, "--ids", "1,2,3,4", "--context", "4", "--reps", "1"],
        ["bench", LANGUAGE, "--ids", "1,2,3,4", "--context", "6", "-n", "1", "--reps", "1"],
    ),
    case(
        "is no classifier: its vectors are for phasor rank --late, and classify --logits",
        ["classify", "late", "word1"],
        ["rank", "late", "--late", "word1", "word2"],
        ["classify", "late", "word1", "--logits", "logits.npy"],
    ),
    case(
        "ranks by late interaction: phasor rank --late",
        ["rank", "late", "word1", "word2"],
        ["rank", "late", "--late", "word1", "word2"],
    ),
    case(
        "--top: goes with --sparse",
        ["embed", "masked", "--ids", "5,6", "--top", "3", "--pooling", "mean"],
        ["embed", "masked", "--ids", "5,6", "--top", "3", "--sparse"],
    ),
    case(
        "says nothing of pooling: choose one with --pooling mean, first, last or max, or --sparse",
        ["embed", MASKED, "--ids", "5,6"],
        *(["embed", MASKED, "--ids", "5,6", "--pooling", p] for p in ("mean", "first", "last")),
        ["embed", MASKED, "--ids", "5,6", "--pooling", "max"],
        ["embed", "masked", "--ids", "5,6", "--sparse"],
    ),
    case(
        "says nothing of pooling: choose one with --pooling mean, first, last or max",
        ["embed", HIDDEN, "--ids", "5,6"],
        *(
            ["embed", HIDDEN, "--ids", "5,6", "--pooling", p]
            for p in ("mean", "first", "last", "max")
        ),
    ),
    case(
        "--normalize: expected either --normalize or --no-normalize, not both",
        ["embed", SENTENCE, "--ids", "5", "--normalize", "--no-normalize"],
        ["embed", SENTENCE, "--ids", "5", "--normalize"],
        ["embed", SENTENCE, "--ids", "5", "--no-normalize"],
    ),
    case(
        "has no mask token: --mask ID says which one it is",
        ["fill", "unmasked", "--ids", "5,4,6"],
        ["fill", "unmasked", "--ids", "5,4,6", "--mask", "4"],
    ),
    usage(
        "quantize: expected --bytes or --type, one of ",
        ["quantize", LANGUAGE, "q.phasor"],
        ["quantize", LANGUAGE, "b.phasor", "--bytes", "1M"],
        *(
            ["quantize", LANGUAGE, f"{t}.phasor", "--type", t]
            for t in (L.TYPES[kind] for kind in L.ROUNDED)
        ),
    ),
    case(
        "--ram %s: a session and the smallest file of this model take %s bytes. TRY: a smaller "
        "--context, or --flash",
        ["quantize", LANGUAGE, "q.phasor", "--ram", "99K"],
        ["quantize", LANGUAGE, "q.phasor", "--ram", "99K", *WINDOW, "--chunk", "1"],
        ["quantize", LANGUAGE, "q.phasor", "--ram", "99K", "--flash", "99K", "--context", "16"],
    ),
    case(
        "--ram %s: a session of this model takes %s bytes. TRY: phasor inspect %s with the same "
        "flags, which says what saves memory",
        ["quantize", LANGUAGE, "q.phasor", "--ram", "16K", "--flash", "1M"],
        ["quantize", LANGUAGE, "q.phasor", "--ram", "64K", "--flash", "1M", *WINDOW],
    ),
    case(
        "--tokens-per-second %.6g: the fastest file of this size makes %.1f here. TRY: --threads, "
        "or fewer tokens a second",
        ["quantize", LANGUAGE, "q.phasor", "--tokens-per-second", "1e9"],
        ["quantize", LANGUAGE, "q.phasor", "--tokens-per-second", "1", "--threads", "2"],
    ),
    usage(
        "%s: needs --ram",
        ["quantize", LANGUAGE, "q.phasor", "--bytes", "1M", *WINDOW],
        ["quantize", LANGUAGE, "q.phasor", "--bytes", "1M", "--ram", "1M", *WINDOW],
    ),
    usage(
        "%s: needs --type",
        ["quantize", LANGUAGE, "q.phasor", "--inputs", "16", "--output-type", "q8"],
        ["quantize", LANGUAGE, "q.phasor", *("--inputs 16 --output-type q8 --type q4".split())],
    ),
    usage(
        "--text: needs --bytes, or another limit",
        ["quantize", LANGUAGE, "q.phasor", "--type", "q8", "--text", "t.txt"],
        ["quantize", LANGUAGE, "q.phasor", "--type", "q8"],
    ),
    case(
        "%s: has matrices of %s, and %s rounds none twice. TRY: the model in f32, as the "
        "converter's --type f32 makes it",
        ["quantize", LANGUAGE.with_name("tiny-lm-q8.phasor"), "q.phasor", "--bytes", "1M"],
        ["quantize", LANGUAGE, "q.phasor", "--bytes", "1M"],
    ),
    case(
        "%s: has no test vectors to measure with. TRY: --text FILE",
        ["quantize", "words", "q.phasor", "--bytes", "1M"],
        ["quantize", "words", "q.phasor", "--bytes", "1M", "--text", "text.txt"],
    ),
    case(
        "%s: has no tokenizer for %s. TRY: without --text",
        ["quantize", LANGUAGE, "q.phasor", "--bytes", "1M", "--text", "text.txt"],
        ["quantize", LANGUAGE, "q.phasor", "--bytes", "1M"],
    ),
    usage(
        "--prefix: expected either --prefix or --prefix-ids, not both",
        [*RUN, "--prefix", "target5", "--prefix-ids", "5"],
        [*RUN, "--prefix", "target5"],
        [*RUN, "--prefix-ids", "5"],
    ),
    case(
        "%zu tokens, expected at least one window of %zu (--context)",
        ["score", LANGUAGE, "--ids", "5,6,7", "--blocks", "--context", "9"],
        ["score", LANGUAGE, "--ids", "5,6,7", "--blocks", "--context", "2"],
    ),
    case(
        "--stride scores a longer text in windows",
        ["score", LANGUAGE, "--ids", "5,6,7,8,9,10", *WINDOW],
        ["score", LANGUAGE, "--ids", "5,6,7,8,9,10", *WINDOW, "--stride", "2"],
        ["score", LANGUAGE, "--ids", "5,6,7,8,9,10", "--context", "6"],
    ),
    usage(
        "score: expected one of --target and --target-ids, the model is an encoder-decoder",
        ["score", TRANSLATOR, "source5"],
        ["score", TRANSLATOR, "source5", "--target", "target5"],
        ["score", TRANSLATOR, "source5", "--target-ids", "5"],
    ),
    usage(
        "--stride, --blocks: expected one of them",
        ["score", LANGUAGE, "--ids", "5,6,7,8,9", *WINDOW, "--stride", "2", "--blocks"],
        ["score", LANGUAGE, "--ids", "5,6,7,8,9", *WINDOW, "--stride", "2"],
        ["score", LANGUAGE, "--ids", "5,6,7,8,9", *WINDOW, "--blocks"],
    ),
    usage(
        "--stride %: expected at most the window, %u (--context)",
        ["score", LANGUAGE, "--ids", "5,6,7,8,9", *WINDOW, "--stride", "5"],
        ["score", LANGUAGE, "--ids", "5,6,7,8,9", *WINDOW, "--stride", "4"],
        ["score", LANGUAGE, "--ids", "5,6,7,8,9", "--context", "5", "--stride", "5"],
    ),
    usage(
        "--ids: expected --decode with it",
        ["tokenize", TRANSLATOR, "--ids", "5"],
        ["tokenize", TRANSLATOR, "--ids", "5", "--decode"],
    ),
    usage(
        "--prompt: expected either --prompt or --prompt-text, not both",
        ["embed", SENTENCE, "a", "--prompt", "x", "--prompt-text", "y"],
        ["embed", "words", "a", "--pooling", "mean", "--prompt-text", "y"],
    ),
    case(
        "--truncate cuts",
        ["embed", "words", "word1 word2 word3", "--pooling", "mean", "--source", "4"],
        ["embed", "words", "word1 word2 word3", "--pooling", "mean", "--source", "4", "--truncate"],
        ["embed", "words", "word1 word2 word3", "--pooling", "mean", "--source", "5"],
    ),
    usage(
        "--align-heads: needs --align",
        [*RUN, "--align-heads", "0:0"],
        [*RUN, "--align-heads", "0:0", "--align"],
    ),
    usage(
        "--align: words need a tokenizer for source and target, the model has none; expected "
        "--align=pieces",
        ["run", "bare", "--ids", "5", "--align"],
        ["run", "bare", "--ids", "5", "--align=pieces"],
    ),
    usage("%s: needs --beam", [*RUN, "--n-best", "2"], [*RUN, "--n-best", "2", "--beam", "2"]),
    usage(
        "--groups: needs --diversity",
        [*RUN, "--beam", "4", "--groups", "2"],
        [*RUN, "--beam", "4", "--groups", "2", "--diversity", "0.5"],
    ),
    usage(
        "--diversity: needs --groups",
        [*RUN, "--beam", "4", "--diversity", "0.5"],
        [*RUN, "--beam", "4", "--diversity", "0.5", "--groups", "2"],
    ),
    usage(
        "--groups %u: expected a divisor of --beam, %u",
        [*RUN, "--beam", "4", "--groups", "3", "--diversity", "1"],
        [*RUN, "--beam", "4", "--groups", "4", "--diversity", "1"],
    ),
    case(
        "--split sentences takes it apart",
        ["run", SHIPPED, LONG, "--source", "12"],
        ["run", SHIPPED, LONG, "--source", "12", "--split", "sentences"],
        ["run", SHIPPED, LONG, "--source", "40"],
    ),
    case(
        "--keep 0 forgets what is oldest",
        [*IDS, "--context", "2"],
        [*IDS, "--context", "2", "--keep", "0", "-n", "1"],
        [*IDS, "--context", "4", "-n", "1"],
    ),
    case(
        "%s: %s (--context)",
        [*IDS, "--context", "3", "-n", "1", "--save-state", "state"],
        [*IDS, "--context", "4", "-n", "1", "--save-state", "state"],
    ),
    usage("expected a command (phasor --help lists them)", [], ["--help"]),
    usage("%s: unknown command%s (phasor --help lists them)", ["rnu", "m"], ["--help"]),
    usage(
        "%s: not a flag of %s (phasor %s --help lists them)",
        ["score", LANGUAGE, "--beam", "2"],
        ["score", "--help"],
    ),
    usage(
        "%s: unknown flag%s (phasor %s --help lists them)",
        ["run", LANGUAGE, "--zzzzzz"],
        ["run", "--help"],
    ),
    usage("%s: expected a model file (phasor %s --help)", ["run"], ["run", "--help"]),
    usage(
        "answer: expected a question (phasor answer --help)",
        ["answer", "spans"],
        ["answer", "--help"],
        ["answer", "spans", "word1", "word2"],
    ),
    usage(
        "rank: expected a query (phasor rank --help)",
        ["rank", "ranker"],
        ["rank", "--help"],
        ["rank", "ranker", "word1", "word2"],
    ),
    usage(
        "--ids: expected either ids or text, not both",
        ["run", TRANSLATOR, "source5", "--ids", "5"],
        ["run", TRANSLATOR, "source5"],
        ["run", TRANSLATOR, "--ids", "5"],
    ),
]
ELSEWHERE = {  # advice: the test that follows it
    "%zu bytes, there is room for %u (--context)": "test_chat.py",
    "%s: goes with --labels": "reference/test_zero_shot.py",
    "%s: needs --shortlist": "test_shortlist.py",
    "%s: reads vectors and no text. TRY: --embeddings FILE": "test_embeddings.py",
    "%s: moments of other inputs: the norms, biases and input scales of the model that gave them "
    "are not those of %s. TRY: tools/moments.py with %s": "test_moments.py",
    "%s: --export: the file does not have what a tokenizer.json needs beside the vocabulary: the "
    "tokenizer was none that the tokenizers package can read, or the file was converted before "
    "there was --export (convert it again)": "test_export.py",
    "; copy or convert it again": "test_shell.py",
    "%s: %s. TRY: convert it again": "test_record.py",
    "; this model is for phasor ": "test_shell.py",
    ": the file has no language around a text, and does not say where one goes: give --source-lang "
    "to tools/convert.py": "test_convert_translators.py",
    ": expected one of ": "test_encode.py",
    "; --cache ": "test_shell.py",
    "; --context asks for more room": "test_shell.py",
    "--stop %s: %s is a special token, and no text; --end %u ends there": "test_chat.py",
    "the model has no tokenizer for this side: give ids": "test_convert_joined.py",
    ", did you mean ": "test_shell.py",
    "no such file, and nothing is downloaded: hf download ": "test_shell.py",
    ", then tools/convert.py ": "test_shell.py",
    "; it has config.json: ": "test_shell.py",
    "; tools/convert.py makes one of the directory of a checkpoint": "test_shell.py",
    "tools/convert.py makes a .phasor file of it (docs/guide/convert.md)": "test_shell.py",
    "give tools/convert.py the directory that it is in": "test_shell.py",
    "give tools/convert.py the checkpoint that it was made from": "test_shell.py",
    "give tools/convert.py the directory of a checkpoint": "test_shell.py",
    "git lfs pull gets it": "test_shell.py",
}


def advice() -> set[str]:
    """Every string of src/cli that says what to do. Help ends with a full stop."""
    found = set()
    for path in sorted((ROOT / "src" / "cli").rglob("*")):
        if path.suffix not in (".cpp", ".h"):
            continue
        text = re.sub(r"^\s*//[^\n]*|  //[^\n]*", "", path.read_text(), flags=re.M)
        text = re.sub(r'"\s*(?:PRIu64\s*)?"', "", text)
        found |= {one for one in LITERAL.findall(text) if ADVICE.search(one)}
    return {one for one in found if not re.match(r"[A-Z]\w* .*\.$", one)}


def test_every_advice_of_the_program_is_followed():
    known = {one.advice for one in CASES} | set(ELSEWHERE)
    assert advice() - known == set()
    for name in ELSEWHERE.values():
        folder = ROOT / "tests" / ("" if "/" in name else "python")
        assert (folder / name).is_file(), name


NAMES = ("late", "spans", "ranker", "words", "bare", "unmasked", "masked")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    """Files for the names in the cases."""
    folder = tmp_path_factory.mktemp("models")
    made = {name: folder / f"{name}.phasor" for name in NAMES}
    M.write_late(made["late"])
    M.write_spans(made["spans"])
    M.write_ranker(made["ranker"])
    M.write_ranker(made["words"], output=M.D.HIDDEN, classes=0, pooling=0, scores=0)
    M.write_random(made["bare"], M.translator())
    unmasked = M.encoder(output={"output": M.D.LOGITS})
    M.write_random(made["unmasked"], unmasked)
    M.write_random(made["masked"], unmasked)
    return made


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.advice[:40].strip())
def test_the_advice_works(one, made, tmp_path):
    words = [made.get(word, word) for word in one.wrong]
    (tmp_path / "text.txt").write_text("word1 word2\n")
    said = bad(one.status, *words, cwd=tmp_path)
    form = "(?:.*)".join(map(re.escape, re.split(r"%(?:zu|[su]|\.\d[fg]|)", one.advice)))
    assert re.search(form, said), said
    for right in one.right:
        good(*(made.get(word, word) for word in right), cwd=tmp_path)
