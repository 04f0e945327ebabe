"""`phasor run --shortlist` beside CTranslate2's `use_vmap`, from one file, on the weights of the
shipped translator: the same outputs, and the same scores."""

from __future__ import annotations

import json

import numpy as np
import pytest

ctranslate2 = pytest.importorskip("ctranslate2", reason="tools/requirements-reference.txt has it")

from bench.peers import token  # noqa: E402
from bench.translator import export_peer  # noqa: E402
from phasor.format import layout as L  # noqa: E402
from phasor.format.file import SOURCE_TOKENIZER, TARGET_TOKENIZER, PhasorFile
from phasor.format.writer import write_model
from phasor.tokenizers.models.word_list import build_wordlist_section  # noqa: E402
from places import ROOT, told

MODEL = ROOT / "models" / "zh-en.phasor"
SCORE = 1e-4
MOST = 30


@pytest.fixture(scope="module")
def given(tmp_path_factory, phasor):
    """(file, CTranslate2's translator, vmap, sources)"""
    folder, f = tmp_path_factory.mktemp("shortlist"), PhasorFile(MODEL)
    sizes = [f.descriptor[side]["vocabulary"] for side in ("source", "target")]
    words = [[token(i) for i in range(n)] for n in sizes]
    sections = {
        kind: build_wordlist_section(list_, 1, (0, 2, 3))
        for kind, list_ in zip((SOURCE_TOKENIZER, TARGET_TOKENIZER), words)
    }
    own = folder / "m.phasor"
    with open(own, "wb") as out:
        write_model(out, f.meta, lambda slot: f.weights(slot.key), L.F32, sections)
    export_peer(folder, "float32", PhasorFile(own))
    texts = (ROOT / "tools" / "bench" / "sentences.txt").read_text()
    texts = "".join(f"{line}\n" for line in texts.splitlines()[:24])
    done = told(phasor, "tokenize", MODEL, "--print-ids", stdin=texts)
    sources = [[int(x) for x in line.split(",")] for line in done.splitlines()]
    rng = np.random.default_rng(3)
    rules = {(): rng.choice(np.arange(4, 400), 90, replace=False)}
    for source in sources:  # words, and n-grams of two and three
        for n, share in ((1, 1.0), (2, 0.4), (3, 0.2)):
            for i in range(len(source) - n + 1):
                if rng.random() < share:
                    rules[tuple(source[i : i + n])] = rng.choice(np.arange(4, sizes[1]), 30)
    vmap = folder / "translator" / "vmap.txt"
    vmap.write_text(
        "".join(
            " ".join(token(i) for i in key) + "\t" + " ".join(token(int(i)) for i in values) + "\n"
            for key, values in rules.items()
        )
    )
    translator = ctranslate2.Translator(
        str(folder / "translator"), compute_type="float32", intra_threads=1
    )
    return own, translator, vmap, sources


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("listed", [True, False])
def test_outputs_and_scores_are_ctranslate2s(phasor, given, beams, listed):
    own, translator, vmap, sources = given
    flags = ["--beam", beams, "--length-penalty", "0", "--early-stopping", "yes", "-n", MOST]
    flags += ["--shortlist", vmap] if listed else []
    done = told(
        phasor,
        "run",
        own,
        "--ids",
        "-",
        "--json",
        "--quiet",
        *flags,
        stdin="".join(",".join(map(str, ids)) + "\n" for ids in sources),
    )
    ours = [json.loads(line)["outputs"][0] for line in done.splitlines()]
    seen, different = set(), 0
    for source, one in zip(sources, ours):
        result = translator.translate_batch(  # alone: theirs has one list for a whole batch
            [[token(i) for i in source]],
            beam_size=beams,
            length_penalty=0,
            max_decoding_length=MOST,
            min_decoding_length=0,
            return_scores=True,
            use_vmap=listed,
        )[0]
        want = [int(t[1:]) for t in result.hypotheses[0]]
        got = one["ids"][:-1] if one["ids"][-1] == 3 else one["ids"]
        if got != want:
            different += 1
            print(source, got, want, one["log_probability"], result.scores[0])
        else:
            assert abs(one["log_probability"] - result.scores[0]) < SCORE * max(1, len(want) / 4)
        seen |= set(got)
    assert different <= len(sources) // 20
    assert len(seen) > 40
