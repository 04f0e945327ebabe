"""The float64 reference against itself and against formulas written out: what must hold whatever
the weights are."""

import math

import numpy as np
import pytest

from phasor.format import descriptor as D
from phasor.format import file as F
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.format.writer import set_inputs
from phasor.reference import forward as reference
from phasor.reference import functions
from phasor.reference.forward import Reference
from random_models import lm, model_of

NAMES = ["tiny-post-sin", "tiny-pre-learned", "tiny-d2l", "tiny-lm"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["f32", "q8"])
def test_a_prefix_gives_the_same_rows(golden_models, name, kind):
    """Causal: what comes later changes nothing before it. For q8 too: activations are rounded row
    by row."""
    model = Reference(F.PhasorFile(golden_models / f"{name}-{kind}.phasor"))
    memory = model.encode([5, 6, 7, 3]).output if "encoder" in model.d else None
    whole = model.decode([2, 9, 11, 4, 8], memory)
    for n in (1, 3):
        part = model.decode([2, 9, 11, 4, 8][:n], memory)
        # A rounding at 1e-16 can move an activation across a border, by one step.
        assert np.allclose(
            part.logits, whole.logits[:n], rtol=0, atol=1e-12 if kind == "f32" else 0.05
        )


@pytest.mark.parametrize("name", NAMES)
def test_greedy_chooses_the_largest_logit_each_time(golden_models, name):
    model = Reference(F.PhasorFile(golden_models / f"{name}-f32.phasor"))
    source = [5, 6, 7, 3] if "encoder" in model.d else None
    made = model.greedy(source, 8)
    start = model.d["target"]["decoder_start"] if source else model.d["target"]["start"]
    logits = model.decode(
        [start, *made[:-1]], model.encode(source).output if source else None
    ).logits
    assert logits.argmax(axis=1).tolist() == made
    assert made[0] not in model.greedy(source, 1, exclude=(made[0],))


def test_float32_is_near(golden_models):
    file = F.PhasorFile(golden_models / "tiny-post-sin-f32.phasor")
    exact, single = Reference(file), Reference(file, dtype=np.float32)
    a = exact.decode([2, 5, 9], exact.encode([4, 5, 6, 3]).output).logits
    b = single.decode([2, 5, 9], single.encode([4, 5, 6, 3]).output).logits
    assert b.dtype == np.float32 and 0 < np.abs(a - b).max() < 1e-5 * np.ptp(a)


def test_rounded_activations_by_hand():
    x = np.zeros((2, 33))
    x[0, :3] = [127.0, 0.5, -1.5]
    x[0, 32] = -0.25
    x[1] = 2.0**-81
    y = functions.round_activations(x)
    scale = float(np.float32(1) / np.float32(127)) * 127
    assert y[0, :3].tolist() == [127 * scale, 0, -2 * scale]
    assert y[0, 32] == pytest.approx(-0.25, rel=1e-7) and not y[1].any()
    x[0, :3] = [32512.0, 0.5, -1.5]
    x[1] = 2.0**-73
    y = functions.round_activations(x, inputs=L.INPUTS16)
    scale = float(np.float32(1) / np.float32(32512)) * 32512
    assert y[0, :3].tolist() == [32512 * scale, 0, -2 * scale]
    assert y[0, 32] == pytest.approx(-0.25, rel=1e-7) and not y[1].any()


def test_q8_is_the_rounded_product(tmp_path):
    model = model_of(tmp_path, lm(), L.Q8)
    x = np.random.default_rng(0).normal(size=(3, 24))
    want = functions.round_activations(x) @ model.tensor(R.DECODER, 0, R.FFN_IN).T
    assert np.array_equal(model.linear(x, R.DECODER, 0, R.FFN_IN), want)
    with open(model.file.path, "r+b") as file:
        set_inputs(file, L.INPUTS16)
    wide = Reference(F.PhasorFile(model.file.path)).linear(x, R.DECODER, 0, R.FFN_IN)
    rounded = functions.round_activations(x, inputs=L.INPUTS16)
    assert np.array_equal(wide, rounded @ model.tensor(R.DECODER, 0, R.FFN_IN).T)
    exact = Reference(model.file, emulate=False)
    assert np.array_equal(
        exact.linear(x, R.DECODER, 0, R.FFN_IN), x @ model.tensor(R.DECODER, 0, R.FFN_IN).T
    )


@pytest.mark.parametrize("kind", (L.Q8R, L.Q8RH))
def test_q8r_is_the_product_of_whole_rounded_rows(kind, tmp_path):
    """Of the rotated rows and weights with q8rh: what is summed are integers."""
    model = model_of(tmp_path, lm(), kind)
    x = np.random.default_rng(0).normal(size=(3, 24))
    given = L.rotate_inputs(x) if kind == L.Q8RH else x
    scale = np.abs(given).max(axis=1, keepdims=True) * float(np.float32(1) / np.float32(127))
    q = np.rint(given * (127 / np.abs(given).max(axis=1, keepdims=True)))
    stored = model.file.quantized(R.DECODER << 24 | R.FFN_IN)
    want = (q @ stored.values[:, :24].T) * scale * stored.scales.astype(np.float64).T
    assert np.allclose(model.linear(x, R.DECODER, 0, R.FFN_IN), want, rtol=1e-12, atol=1e-14)
    exact = Reference(model.file, emulate=False).linear(x, R.DECODER, 0, R.FFN_IN)
    assert 0 < np.abs(want - exact).max() < 0.03 * np.abs(exact).max()


def test_attention_written_out(tmp_path):
    """Loops over heads and positions, with two query heads for each key head, a cap, and the causal
    mask."""
    model = model_of(tmp_path, lm(kv_heads=2, cap=1.5, attention_biases=D.ATTENTION_BIASES))
    h = np.random.default_rng(1).normal(size=(5, 24))
    q, k, v = np.split(
        h @ model.tensor(R.DECODER, 0, R.QKV).T + model.tensor(R.DECODER, 0, R.QKV + 1),
        [24, 36],
        axis=1,
    )
    out = np.zeros((5, 24))
    for head in range(4):
        for t in range(5):
            scores = [
                1.5
                * math.tanh(
                    0.4000000059604645
                    * float(q[t, head * 6 :][:6] @ k[s, head // 2 * 6 :][:6])
                    / 1.5
                )
                for s in range(t + 1)
            ]
            e = np.exp(np.array(scores) - max(scores))
            out[t, head * 6 :][:6] = e / e.sum() @ v[: t + 1, head // 2 * 6 : head // 2 * 6 + 6]
    want = out @ model.tensor(R.DECODER, 0, R.ATTENTION_OUT).T + model.tensor(
        R.DECODER, 0, R.ATTENTION_OUT + 1
    )
    assert np.allclose(
        model.self_attention(h, model.d["kinds"][0], 0, R.DECODER, 0), want, rtol=1e-12
    )


@pytest.mark.parametrize("halves", [False, True])
def test_rotary_depends_on_the_distance_only(halves):
    rng = np.random.default_rng(2)
    q, k, inv = rng.normal(size=(1, 1, 8)), rng.normal(size=(1, 1, 8)), np.array([1.0, 0.1, 0.01])

    def score(a, b):
        return float(
            (
                functions.rotate(q, inv, np.array([a]), halves)
                * functions.rotate(k, inv, np.array([b]), halves)
            ).sum()
        )

    assert score(5, 2) == pytest.approx(score(105, 102), rel=1e-12)
    assert abs(score(5, 2) - score(5, 3)) > 1e-6
    assert np.array_equal(functions.rotate(q, inv, np.array([9]), halves)[..., 6:], q[..., 6:])


def test_rotary_in_a_model_and_a_window(tmp_path):
    model = model_of(tmp_path, lm(position=D.ROTARY_HALVES, rotary_width=4, window=2))
    a = model.decode([1, 5, 6, 7]).logits
    b = model.decode([9, 5, 6, 7]).logits
    # Two layers with a window of two: position 3 sees position 1 at the most.
    assert np.allclose(a[3], b[3], rtol=1e-12) and not np.allclose(a[1], b[1])


def test_activations_and_norms():
    x = np.linspace(-9, 9, 1001)
    assert np.allclose(
        functions.ACTIVATIONS[D.GELU_ERF](x), functions.ACTIVATIONS[D.GELU_TANH](x), atol=5e-4
    )
    assert np.allclose(functions.ACTIVATIONS[D.SILU](x), x / (1 + np.exp(-x)))
    assert np.array_equal(functions.ACTIVATIONS[D.RELU](x), np.where(x > 0, x, 0))
    y = functions.layer_norm(x[None], np.float64(1), None, 0.0)
    assert abs(y.mean()) < 1e-12 and y.std() == pytest.approx(1)
    assert (functions.rms_norm(x[None], np.float64(1), None, 0.0) ** 2).mean() == pytest.approx(1)


def test_softmax_without_keys_is_zero():
    assert not functions.softmax(np.full((2, 3), -np.inf)).any()
    assert functions.softmax(np.array([[0.0, -np.inf, 0.0]])).tolist() == [[0.5, 0, 0.5]]


def test_sinusoids():
    inv = np.array([1.0, 0.5])
    table = functions.sinusoid(inv, np.arange(3), D.INTERLEAVED)
    assert np.allclose(table[2], [math.sin(2), math.cos(2), math.sin(1), math.cos(1)])
    assert np.allclose(
        functions.sinusoid(inv, np.arange(3), D.HALVES)[2],
        [math.sin(2), math.sin(1), math.cos(2), math.cos(1)],
    )


@pytest.mark.parametrize(
    "kind",
    [
        {"norm": D.RMS_NORM},
        {"norm_place": D.BOTH},
        {"norm_place": D.AFTER},
        {"gated": 1, "activation": D.SILU},
        {"parallel": 1},
        {"qk_norm": D.RMS_NORM},
        {"residual_scale": 0.5},
        {"ffn_biases": D.FFN_BIASES, "activation": D.GELU_TANH},
    ],
)
def test_every_plain_axis_runs_and_counts(tmp_path, kind):
    model = model_of(tmp_path, lm(**kind))
    plain = model_of(tmp_path, lm())
    a, b = model.decode([1, 5, 6]), plain.decode([1, 5, 6])
    assert np.isfinite(a.logits).all() and not np.allclose(a.logits, b.logits)
    assert len(a.residuals) == 2


def test_output_scale_and_cap(tmp_path):
    plain = model_of(tmp_path, lm()).decode([1, 5]).logits
    scaled = model_of(tmp_path, lm(output={"scale": 0.5, "cap": 2.0})).decode([1, 5]).logits
    assert np.allclose(scaled, 2 * np.tanh(plain * 0.5 / 2))


def test_shared_sets_of_weights(tmp_path):
    model = model_of(tmp_path, lm({"layers": [0, 0, 0, 0]}))
    trace = model.decode([1, 5])
    assert np.allclose(model.block(trace.residuals[0], None, 0, R.DECODER, 0), trace.residuals[1])


@pytest.mark.parametrize(
    "kind,message", [({"score_order": 1}, "score_order: 1, expected a whole number from 0 to 0")]
)
def test_refusals(tmp_path, kind, message):
    with pytest.raises(PhasorError, match=message):
        model_of(tmp_path, lm(**kind))


def test_bad_ids(golden_models):
    model = Reference(F.PhasorFile(golden_models / "tiny-pre-learned-f32.phasor"))
    for ids in ([], [53], [-1], [1] * 49):
        with pytest.raises(PhasorError):
            model.encode(ids)
    with pytest.raises(PhasorError, match="needs a source"):
        model.decode([2])
    with pytest.raises(PhasorError, match="nothing to encode"):
        Reference(F.PhasorFile(golden_models / "tiny-lm-f32.phasor")).encode([1])


def test_command_line(golden_models, capsys):
    path = str(golden_models / "tiny-post-sin-f32.phasor")
    assert reference.main([path, "--source-ids", "5,6,7,3", "--target-ids", "2,5"]) == 0
    assert capsys.readouterr().out.count("best") == 2
    assert reference.main([path, "--source-ids", "5,6,7,3", "--greedy", "4"]) == 0
    assert len(capsys.readouterr().out.strip().split(",")) <= 4
    assert reference.main([path, "--source-ids", "500"]) == 1
    assert "expected at least one" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        reference.main([path, "--source-ids", "a"])
    assert stop.value.code == 2
