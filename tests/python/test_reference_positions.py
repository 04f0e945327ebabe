"""Position encodings, scores, segments, heads and pooling of the reference, each against loops over
heads, queries and keys."""

import math

import numpy as np
import pytest

from phasor import positions
from phasor import vectors as V
from phasor.format import descriptor as D
from phasor.format import file as F
from phasor.format import tensors as R
from phasor.format import writer
from phasor.format.layout import PhasorError
from phasor.reference import forward as reference
from phasor.reference import functions
from phasor.reference.forward import Reference
from random_models import encoder, lm, model_of, translator, write_random

HEADS, WIDTH, M = 4, 6, 9
POSITIONS = {
    "relative_key": {"position": D.RELATIVE_KEY, "max_distance": M},
    "relative_key_query": {"position": D.RELATIVE_KEY_QUERY, "max_distance": M},
    "three-way": {"position": D.THREE_WAY, "max_distance": M},
    "disentangled": {"position": D.DISENTANGLED, "max_distance": M},
    "clipped": {"position": D.CLIPPED, "max_distance": 2},
    "T5 bias": {"position": D.T5_BIAS, "max_distance": 3},
    "ALiBi": {"position": D.ALIBI},
    "additive": {"score": D.ADDITIVE},
    "additive T5": {"score": D.ADDITIVE, "position": D.T5_BIAS, "max_distance": 3},
    "additive ALiBi": {"score": D.ADDITIVE, "position": D.ALIBI},
    "none": {},
}


def one_score(model: Reference, kind: dict, q, k, head: int, i: int, j: int, stack: int) -> float:
    """The score of query i and key j, for vectors q and k, from the table of file-format.md."""
    position, most, scale = kind["position"], kind["max_distance"], kind["scale"]
    keys = model.tensor(stack, 0, R.RELATIVE_KEYS)
    if kind["score"] == D.ADDITIVE:
        v = model.tensor(stack, 0, R.SCORE)[head * WIDTH :][:WIDTH]
        score = sum(v[d] * math.tanh(q[d] + k[d]) for d in range(WIDTH))
    elif position == D.THREE_WAY:
        score = sum(q[d] * k[d] * keys[d, j - i + most - 1] for d in range(WIDTH))
    else:
        score = float(q @ k)
    if position in (D.RELATIVE_KEY, D.RELATIVE_KEY_QUERY):
        score += float(q @ keys[:, j - i + most - 1])
    if position == D.RELATIVE_KEY_QUERY:
        score += float(k @ keys[:, j - i + most - 1])
    if position == D.DISENTANGLED:
        own = slice(head * WIDTH, (head + 1) * WIDTH)
        score += float(q @ keys[own, j - i + most - 1])
        score += float(k @ model.tensor(stack, 0, R.RELATIVE_QUERIES)[own, j - i + most - 1])
    if position == D.CLIPPED:
        score += float(q @ keys[:, min(max(j - i, -most), most) + most])
    score *= scale
    if position == D.T5_BIAS:
        score += model.tensor(R.KINDS, 0, R.T5_BIAS)[head, min(max(j - i, -most), most) + most]
    if position == D.ALIBI:
        score -= abs(i - j) * model.tensor(R.KINDS, 0, R.ALIBI)[head]
    return score if not kind["cap"] else kind["cap"] * math.tanh(score / kind["cap"])


def sees(kind: dict, causal: bool, i: int, j: int) -> bool:
    if causal:
        return j <= i and (not kind["window"] or j > i - kind["window"])
    return not kind["window"] or abs(i - j) <= kind["window"] // 2


def attention_by_loops(model: Reference, h: np.ndarray, stack: int) -> np.ndarray:
    """(T, D) for h (T, D); two query heads share a key head where kv_heads is 2."""
    kind, count = model.d["kinds"][0], len(h)
    kv = kind["kv_heads"]
    q, k, v = np.split(
        h @ model.tensor(stack, 0, R.QKV).T, [HEADS * WIDTH, (HEADS + kv) * WIDTH], axis=1
    )
    out = np.zeros((count, HEADS * WIDTH))
    for head in range(HEADS):
        shared = slice(head * kv // HEADS * WIDTH, head * kv // HEADS * WIDTH + WIDTH)
        for i in range(count):
            seen = [j for j in range(count) if sees(kind, stack == R.DECODER, i, j)]
            scores = [
                one_score(
                    model, kind, q[i, head * WIDTH :][:WIDTH], k[j, shared], head, i, j, stack
                )
                for j in seen
            ]
            e = np.exp(np.array(scores) - max(scores))
            for weight, j in zip(e / e.sum(), seen):
                value = v[j, shared]
                if kind["position"] == D.CLIPPED:
                    value = (
                        value
                        + model.tensor(stack, 0, R.RELATIVE_VALUES)[min(max(j - i, -2), 2) + 2]
                    )
                out[i, head * WIDTH :][:WIDTH] += weight * value
    return out @ model.tensor(stack, 0, R.ATTENTION_OUT).T


@pytest.mark.parametrize(
    "more",
    [{}, {"window": 3, "kv_heads": 2, "cap": 1.5}],
    ids=["plain", "window, shared keys, cap"],
)
@pytest.mark.parametrize("stack", [R.ENCODER, R.DECODER], ids=["encoder", "decoder"])
@pytest.mark.parametrize("name", POSITIONS)
def test_self_attention_written_out(tmp_path, name, stack, more):
    model = model_of(tmp_path, (encoder if stack == R.ENCODER else lm)(**POSITIONS[name], **more))
    h = np.random.default_rng(1).normal(size=(8, 24))
    got = model.self_attention(h, model.d["kinds"][0], 0, stack, 0)
    assert np.allclose(got, attention_by_loops(model, h, stack), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in POSITIONS if name not in ("none", "additive")])
def test_positions_count(tmp_path, name):
    """In one layer without positions the order of the other tokens changes nothing for the last;
    with them it does."""
    plain, model = (
        model_of(tmp_path, lm({"layers": [0, 0]})),
        model_of(tmp_path, lm({"layers": [0, 0]}, **POSITIONS[name])),
    )
    assert np.allclose(plain.decode([5, 6, 7]).logits[-1], plain.decode([6, 5, 7]).logits[-1])
    assert not np.allclose(model.decode([5, 6, 7]).logits[-1], model.decode([6, 5, 7]).logits[-1])


@pytest.mark.parametrize("score", [D.DOT, D.ADDITIVE])
def test_cross_attention_written_out(tmp_path, score):
    model = model_of(
        tmp_path,
        translator(
            cross={
                "cross_score": score,
                "cross_heads": 2,
                "cross_kv_heads": 1,
                "cross_head_width": 5,
                "cross_scale": 0.7,
            },
            position=D.CLIPPED,
            max_distance=2,
        ),
    )
    rng = np.random.default_rng(2)
    h, memory = rng.normal(size=(3, 24)), rng.normal(size=(5, 24))
    q = h @ model.tensor(R.DECODER, 0, R.CROSS_Q).T
    k, v = np.split(memory @ model.tensor(R.DECODER, 0, R.CROSS_KV).T, 2, axis=1)
    out = np.zeros((3, 10))
    for head in range(2):
        for i in range(3):
            own = q[i, head * 5 :][:5]
            scores = [
                own @ k[j]
                if score == D.DOT
                else model.tensor(R.DECODER, 0, R.CROSS_SCORE)[head * 5 :][:5] @ np.tanh(own + k[j])
                for j in range(5)
            ]
            out[i, head * 5 :][:5] = (
                functions.softmax(np.array(scores) * np.float64(np.float32(0.7))) @ v
            )
    want = out @ model.tensor(R.DECODER, 0, R.CROSS_OUT).T
    assert np.allclose(model.cross_attention(h, memory, model.d["kinds"][1], 0), want, rtol=1e-11)
    assert np.isfinite(model.decode([1, 2], model.encode([3, 4, 5]).output).logits).all()


@pytest.mark.parametrize(
    "name,stack,message",
    [
        ("relative_key", "decoder", "10 ids, the model allows 9"),
        ("three-way", "encoder", "10 ids, the model allows 9"),
    ],
)
def test_a_table_of_distances_ends(tmp_path, name, stack, message):
    model = model_of(tmp_path, (encoder if stack == "encoder" else lm)(**POSITIONS[name]))
    run = model.encode if stack == "encoder" else model.decode
    assert len(run([1] * 9).output) == 9
    with pytest.raises(PhasorError, match=message):
        run([1] * 10)


def test_greedy_stops_where_the_table_ends(tmp_path):
    model = model_of(tmp_path, lm(position=D.THREE_WAY, max_distance=4))
    assert len(model.greedy(None, 20, [1, 5])) <= 3


@pytest.mark.parametrize(
    "positions,rows,message",
    [
        (
            [5, 9, 7],
            0,
            "9 follows 5; positions count the tokens one by one, they are not token ids",
        ),
        ([3, 3], 0, "3 follows 3"),
        ([-1, 0], 0, "-1 is negative"),
        ([0, 1, 2, 3], 3, "3 is past the table of 3 positions"),
        ([0.0, 1.0], 0, "expected whole numbers in one row, got float64"),
        ([[0, 1]], 0, "expected whole numbers in one row"),
    ],
)
def test_what_is_no_position(positions, rows, message):
    with pytest.raises(PhasorError, match=message):
        functions.check_positions(np.array(positions), rows)
    if rows == 0:
        with pytest.raises(PhasorError, match=message):
            functions.sinusoid(np.ones(2), np.array(positions), D.HALVES)
        with pytest.raises(PhasorError, match=message):
            functions.rotate(
                np.ones((len(positions), 1, 4)), np.ones(2), np.array(positions), False
            )
    else:
        with pytest.raises(PhasorError, match=message):
            functions.learned(np.ones((rows, 2)), np.array(positions))


def test_frequencies():
    assert positions.inverse_frequencies(4).tolist() == [1.0, 0.01]
    for width in (5, 0, -2):
        with pytest.raises(PhasorError, match=f"width {width}: sine and cosine need an even width"):
            positions.inverse_frequencies(width)


def test_input_of_bert_and_albert(tmp_path):
    descriptor = encoder(
        {
            "segments": 3,
            "embedding_width": 10,
            "projection_bias": 1,
            "position": D.LEARNED,
            "max_positions": 8,
            "embedding_scale": 0.5,
            "embedding_norm": D.LAYER_NORM,
            "embedding_norm_eps": 1e-5,
        }
    )
    model = model_of(tmp_path, descriptor)
    ids, segments = [5, 6, 28], [0, 2, 1]
    x = (
        0.5 * model.tensor(R.SOURCE, 0, R.EMBEDDING)[ids]
        + model.tensor(R.SOURCE, 0, R.SEGMENTS)[segments]
        + model.tensor(R.SOURCE, 0, R.POSITIONS)[:3]
    )
    centered = x - x.mean(axis=1, keepdims=True)
    x = centered / np.sqrt(
        x.var(axis=1, keepdims=True) + np.float64(np.float32(1e-5))
    ) * model.tensor(R.SOURCE, 0, R.EMBEDDING_NORM) + model.tensor(
        R.SOURCE, 0, R.EMBEDDING_NORM + 1
    )
    want = x @ model.tensor(R.SOURCE, 0, R.PROJECTION).T + model.tensor(
        R.SOURCE, 0, R.PROJECTION + 1
    )
    assert np.allclose(model.encode(ids, segments).embedding, want, rtol=1e-12)
    assert np.array_equal(model.encode(ids).embedding, model.encode(ids, [0, 0, 0]).embedding)


@pytest.mark.parametrize("segments", [[0, 1, 3], [0, 1], [-1, 0, 0]])
def test_bad_segments(tmp_path, segments):
    with pytest.raises(PhasorError, match="segments: expected 3 values from 0 to 2"):
        model_of(tmp_path, encoder({"segments": 3})).encode([1, 2, 3], segments)
    with pytest.raises(PhasorError, match="from 0 to 0"):
        model_of(tmp_path, encoder()).encode([1, 2, 3], [0, 0, 1])


def test_segments_of_a_decoder(tmp_path):
    model = model_of(tmp_path, lm({"segments": 2}))
    assert not np.allclose(
        model.decode([1, 5], segments=[0, 1]).logits, model.decode([1, 5]).logits
    )


HEAD = {
    "head_width": 10,
    "head_bias": 1,
    "head_activation": D.TANH,
    "head_norm": D.LAYER_NORM,
    "head_norm_eps": 1e-6,
}


@pytest.mark.parametrize(
    "pooling,rows",
    [(D.MEAN, lambda y: y.mean(axis=0)), (D.FIRST, lambda y: y[0]), (D.LAST, lambda y: y[-1])],
)
@pytest.mark.parametrize("normalize", [0, 1])
def test_pooled_vectors(tmp_path, pooling, rows, normalize):
    model = model_of(
        tmp_path, encoder(output={"output": D.POOLED, "pooling": pooling, "normalize": normalize})
    )
    trace = model.encode([3, 4, 5])
    want = rows(trace.output)
    want = want / np.linalg.norm(want) if normalize else want
    assert model.output(trace).shape == (1, 24) and np.allclose(
        model.output(trace)[0], want, rtol=1e-12
    )


def head_by_hand(model: Reference, rows: np.ndarray) -> np.ndarray:
    rows = np.tanh(
        rows @ model.tensor(R.OUTPUT, 0, R.HEAD).T + model.tensor(R.OUTPUT, 0, R.HEAD + 1)
    )
    return functions.layer_norm(
        rows,
        model.tensor(R.OUTPUT, 0, R.HEAD_NORM),
        model.tensor(R.OUTPUT, 0, R.HEAD_NORM + 1),
        float(np.float32(1e-6)),
    )


def test_masked_language_model(tmp_path):
    model = model_of(
        tmp_path,
        encoder(
            {"embedding_width": 10}, {"output": D.LOGITS, "tied": D.TIED_SOURCE, "bias": 1, **HEAD}
        ),
    )
    trace = model.encode([3, 4, 5])
    want = head_by_hand(model, trace.output) @ model.tensor(
        R.SOURCE, 0, R.EMBEDDING
    ).T + model.tensor(R.OUTPUT, 0, R.OUTPUT_WEIGHT + 1)
    assert model.output(trace).shape == (3, 29) and np.allclose(
        model.output(trace), want, rtol=1e-12
    )
    own = model_of(tmp_path, encoder(output={"output": D.LOGITS, "scale": 0.5, "cap": 3.0}))
    trace = own.encode([3])
    want = 3 * np.tanh(0.5 * (trace.output @ own.tensor(R.OUTPUT, 0, R.OUTPUT_WEIGHT).T) / 3)
    assert np.allclose(own.output(trace), want, rtol=1e-12)


@pytest.mark.parametrize("pooling", [0, D.FIRST])
def test_classes(tmp_path, pooling):
    model = model_of(
        tmp_path,
        encoder(output={"output": D.CLASSES, "classes": 5, "pooling": pooling, "bias": 1, **HEAD}),
    )
    trace = model.encode([3, 4, 5])
    rows = head_by_hand(model, trace.output[:1] if pooling else trace.output)
    want = rows @ model.tensor(R.OUTPUT, 0, R.CLASSIFIER).T + model.tensor(
        R.OUTPUT, 0, R.CLASSIFIER + 1
    )
    assert model.output(trace).shape == (1 if pooling else 3, 5) and np.allclose(
        model.output(trace), want, rtol=1e-12
    )


def test_hidden_states_and_a_zero_vector(tmp_path):
    model = model_of(tmp_path, encoder())
    trace = model.encode([3, 4])
    assert np.array_equal(model.output(trace), trace.output)
    model = model_of(
        tmp_path, encoder(output={"output": D.POOLED, "pooling": D.MEAN, "normalize": 1})
    )
    assert not model.output(reference.Trace(output=np.zeros((2, 24)))).any()


def test_vectors_of_what_float32_computes_badly(tmp_path, monkeypatch):
    """Exact weights are refused. Of rounded ones a step of an activation can be as much: their
    proof begins with a tolerance of such a step, and measures where the program breaks it."""
    descriptor = encoder(output={})
    inputs = V.choose_inputs(D.with_defaults(descriptor))
    file = write_random(tmp_path / "m.phasor", descriptor)
    monkeypatch.setattr(V, "_differences", lambda *_: 0.1)
    with pytest.raises(PhasorError, match="float32 computes this model wrong by 0.1 of a row's"):
        V.build(file, inputs)
    section = V.read(V.build_stored(file, inputs, V.AUTHOR)[0], file.descriptor)
    assert section.tolerance == 8 * V.STEP
    assert V.moved_by_rounding(file, inputs) == 0.1


@pytest.mark.parametrize(
    "output,rows",
    [
        ({}, [1, 11, 64]),
        ({"output": D.LOGITS}, [1, 11, 64]),
        ({"output": D.CLASSES, "classes": 5}, [1, 11, 64]),
        ({"output": D.CLASSES, "classes": 1, "pooling": D.FIRST}, [1, 1, 1]),
        ({"output": D.POOLED, "pooling": D.MEAN}, [1, 1, 1]),
    ],
)
def test_vectors_of_encoders(tmp_path, output, rows):
    descriptor = encoder(output=output, side={"suffix": [8]})
    full = D.with_defaults(descriptor)
    inputs = V.choose_inputs(full)
    assert inputs[1].source[-1] == 8
    file = write_random(
        tmp_path / "m.phasor", descriptor, extra={F.VECTORS: bytes(V.section_bytes(full, inputs))}
    )
    content = V.build(file, inputs)
    with open(file.path, "r+b") as out:
        writer.replace_section(out, F.VECTORS, content)
    file = F.PhasorFile(file.path)
    file.check()
    section, model = V.read(file.section(F.VECTORS), file.descriptor), Reference(file)
    assert 0 < section.tolerance < 1e-3 and [len(v.logits) for v in section.vectors] == rows
    for vector in section.vectors:
        want = model.output(model.encode(vector.source))
        assert np.array_equal(want[:, vector.logit_ids].astype(np.float32), vector.logits)
        assert np.array_equal(want.argmax(axis=1), vector.argmax) and np.allclose(
            np.ptp(want, axis=1), vector.range
        )


def test_vectors_end_where_the_table_of_distances_ends():
    full = D.with_defaults(encoder(position=D.RELATIVE_KEY, max_distance=5))
    assert [len(given.source) for given in V.choose_inputs(full)] == [1, 5, 5]


def test_command_line_of_an_encoder(tmp_path, capsys):
    path = str(
        write_random(
            tmp_path / "m.phasor", encoder({"segments": 2}, {"output": D.CLASSES, "classes": 5})
        ).path
    )
    assert reference.main([path, "--source-ids", "5,6,7", "--segments", "0,0,1"]) == 0
    assert capsys.readouterr().out.count("best") == 3
    assert reference.main([path]) == 1 and "needs --source-ids" in capsys.readouterr().err
