"""What a descriptor may say: rules that name what is wrong, and the tensors that each value asks
for."""

import pytest

from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format import tensors as R
from phasor.format.layout import PhasorError
from phasor.format.meta import decode_meta, encode_meta
from random_models import encoder, lm, model_of, translator

POOLED = {"output": D.POOLED, "pooling": D.MEAN}
CLASSES = {"output": D.CLASSES, "classes": 3}


@pytest.mark.parametrize(
    "descriptor,message",
    [
        (lm(position=D.RELATIVE_KEY), "kind0.max_distance: missing"),
        (lm(position=D.T5_BIAS), "kind0.max_distance: missing"),
        (lm(max_distance=4), "kind0.max_distance: nothing is relative"),
        (lm(position=D.ALIBI, max_distance=4), "kind0.max_distance: nothing is relative"),
        *(
            (lm(position=p, max_distance=4, score=D.ADDITIVE), "kind0.score: an additive score")
            for p in D.RELATIVE_KEYS
        ),
        (
            lm(position=D.ROTARY_HALVES),
            "kind0.rotary_width: 0, expected an even number up to the head width 6",
        ),
        (lm(position=D.ROTARY_HALVES, rotary_width=3), "kind0.rotary_width: 3"),
        (lm(position=D.ROTARY_INTERLEAVED, rotary_width=8), "kind0.rotary_width: 8"),
        (lm(rotary_width=4), "kind0.rotary_width: nothing is rotary"),
        (lm(position=10), "kind0.position: 10, expected a whole number from 0 to 9"),
        (lm(cap=-1.0), "kind0.cap: is negative"),
        (lm(norm_eps=-1e-5), "kind0.norm_eps: is negative"),
        (encoder({"embedding_norm_eps": -1e-5}), "encoder.embedding_norm_eps: is negative"),
        (encoder({"final_norm_eps": -1e-5}), "encoder.final_norm_eps: is negative"),
        (encoder(output={"head_norm_eps": -1e-5}), "output.head_norm_eps: is negative"),
        (encoder(output={"cap": -1.0}), "output.cap: is negative"),
        (lm(residual_scale=1e39), "expected a finite number of float32"),
        (lm(attention_norm=0, norm_place=D.AFTER), "kind0.attention_norm: 0"),
        (
            encoder({"width": 24, "embedding_width": 9, "position": D.INTERLEAVED}),
            "encoder.embedding_width: 9 is odd",
        ),
        (encoder({"width": 23, "position": D.HALVES}), "encoder.width: 23 is odd"),
        (
            encoder({"projection_bias": 1}),
            "encoder.projection_bias: the embedding is not projected",
        ),
        (
            encoder({"embedding_norm_place": 1}),
            "encoder.embedding_norm_place: the embedding has no norm",
        ),
        (
            encoder({"segments": 2}, side={"pair": [1], "pair_segment": 2}),
            "source.pair_segment: 2, there are 2 segments",
        ),
        (encoder(side={"own_row": 30}), "source.own_row: 30, the vocabulary has 29 ids"),
        (encoder(side={"pair": [29]}), "source: special id 29"),
        (encoder(side={"pair": [1] * 17}), "source.pair: expected 0 to 16"),
        (encoder(side={"embedding_shared": 1}), "source.embedding_shared: only the target"),
        (encoder(output={"output": D.POOLED}), "output.pooling: missing"),
        (
            encoder(output={"output": D.LOGITS, "pooling": D.MEAN}),
            "output.pooling: logits and hidden",
        ),
        (encoder(output={"pooling": D.FIRST}), "output.pooling: logits and hidden"),
        (encoder(output={"output": D.CLASSES}), "output.classes: missing"),
        (encoder(output={"classes": 2}), "output.classes: goes with classes only"),
        (encoder(output={**POOLED, "scores": D.SIGMOID}), "output.scores: goes with classes only"),
        (
            encoder(output={**CLASSES, "normalize": 1}),
            "output.normalize: goes with a pooled vector only",
        ),
        (
            encoder(output={"head_norm": D.LAYER_NORM}),
            "output.head_norm: hidden states have no head",
        ),
        (
            encoder(output={**POOLED, "head_bias": 1}),
            "output.head_bias: the head has no dense layer",
        ),
        (encoder(output={**POOLED, "bias": 1}), "output.bias: there is no matrix"),
        (encoder(output={**CLASSES, "labels": "a\x1eb\x1e"}), "output.labels: 2 names"),
        (encoder(output={**CLASSES, "labels": "a\x1eb\x1ec\x1ed"}), "output.labels: 3 names"),
        (encoder(output={"prompts": "query\x1fquery: "}), "output.prompts: expected a name"),
        (encoder(output={"prompts": "query\x1e"}), "output.prompts: expected a name"),
        (
            encoder(output={"output": D.LOGITS, "tied": D.TIED_TARGET}),
            "output.tied: there is no target side",
        ),
        (
            encoder({"embedding_width": 10}, {"output": D.LOGITS, "tied": D.TIED_SOURCE}),
            "output.tied: the source embedding has another shape",
        ),
        (
            lm({"embedding_width": 10}, {"tied": D.TIED_TARGET}),
            "output.tied: the target embedding has another shape",
        ),
        (lm(output={"tied": D.TIED_SOURCE}), "output.tied: there is no source side"),
        (
            translator(output={"tied": D.TIED_SOURCE}),
            "output.tied: the source embedding has another shape",
        ),
        *(
            (lm(output={"output": what}), "output.output: a decoder gives logits")
            for what in (D.HIDDEN, D.POOLED, D.CLASSES)
        ),
        (translator(output={"output": D.CLASSES}), "output.classes: missing"),
        (
            translator(output={**CLASSES, "pooling": D.LAST}),
            "output.pooling: a decoder gives logits",
        ),
        (lm() | {"generation": {"top_p": 1.5}}, "generation.top_p: 1.5, expected 0 to 1"),
        (lm() | {"generation": {"temperature": -1.0}}, "generation.temperature: -1.0 is negative"),
        (lm() | {"generation": {"suppressed": [1000]}}, "generation.suppressed: id 1000"),
        (lm() | {"generation": {"forced_last": 1000}}, "generation.forced_last: id 1000"),
        (lm() | {"generation": {"bad_words": [1, 1000]}}, "generation.bad_words: id 1000"),
        (lm() | {"generation": {"bad_words": [2, 3]}}, "a sequence of 2 ids, expected 1 to 1"),
        (
            encoder() | {"generation": {"top_k": 5}},
            "generation: present, an encoder generates nothing",
        ),
        *(
            (lm(output={name: 1}), f"output.{name}: a decoder gives logits")
            for name in ("pooling", "normalize", "classes", "scores")
        ),
        (lm(output={"head_bias": 1}), "output.head_bias: the head has no dense layer"),
        (lm(qkv_clip=-1.0), "kind0.qkv_clip: is negative"),
        (lm(causal=1), "kind0.causal: a decoder's layers are so by themselves"),
        (lm(qk_norm_over=D.ALL_HEADS), "kind0.qk_norm_over: there is no norm of q and k"),
        (lm(qk_norm_place=D.NORM_LAST), "kind0.qk_norm_place: 1 goes with a norm of q and k"),
        (lm(activation=D.TANH), "kind0.activation: tanh is allowed only in a head"),
        (lm(norm_place=5), "kind0.norm_place: 5, expected a whole number from 1 to 4"),
        (
            lm(parallel=D.TWO_NORMS, norm_place=D.AFTER),
            "kind0.parallel: goes with norm_place before",
        ),
        (
            lm(parallel=D.SHARED_INPUT, attention_norm=0),
            "kind0.parallel: goes with norm_place before",
        ),
        (
            lm(parallel=D.SHARED_INPUT, input_scales=1),
            "kind0.input_scales: the sub-layers of this parallel block read one input",
        ),
    ],
)
def test_what_is_refused(descriptor, message):
    with pytest.raises(PhasorError, match=message):
        encode_meta(descriptor)


@pytest.mark.parametrize(
    "descriptor",
    [
        encoder(
            {"segments": 2, "embedding_width": 10, "projection_bias": 1},
            {"output": D.LOGITS, "tied": D.TIED_SOURCE, "head_width": 10, "bias": 1},
            {"pair": [3, 4], "pair_segment": 1},
            score=D.ADDITIVE,
            position=D.T5_BIAS,
            max_distance=5,
            window=5,
        ),
        encoder(
            output={
                **CLASSES,
                "scores": D.PLAIN,
                "labels": "a\x1ebé\x1ec\x1e",
                "head_activation": D.TANH,
                "head_width": 7,
                "head_bias": 1,
                "head_norm": D.RMS_NORM,
                "head_norm_eps": 0.5,
            }
        ),
        encoder(
            output={**POOLED, "normalize": 1, "prompts": "query\x1fquery: \x1epassage\x1f\x1e"}
        ),
        translator(cross={"cross_score": D.ADDITIVE}, attention_norm=0)
        | {"generation": {"sample": 1, "temperature": 0.5, "suppressed": [3, 9], "max_new": 7}},
    ],
)
def test_meta_says_it_again(descriptor):
    data = encode_meta(descriptor)
    again = decode_meta(data)
    assert encode_meta(again) == data
    whole, first = D.with_defaults(again), D.with_defaults(descriptor)
    for scope in ("source", "encoder"):
        assert whole[scope] == first[scope]
    assert whole.get("generation") == first.get("generation")
    outputs = [dict(d["output"]) for d in (whole, first)]
    assert len({tuple(o.pop("skipped")) for o in outputs}) == 1
    assert outputs[0] == pytest.approx(outputs[1])
    assert [k["score"] for k in whole["kinds"]] == [k["score"] for k in first["kinds"]]


def test_texts_are_as_long_as_the_engine_reads():
    longest = encoder(output={**POOLED})
    longest["model"] = {**longest["model"], "name": "é" * (D.MAX_VALUE // 2)}
    meta = encode_meta(longest)
    assert decode_meta(meta)["model"]["name"] == longest["model"]["name"]
    longest["model"]["name"] += "x"
    with pytest.raises(PhasorError, match="model.name: expected at most 262,144 bytes of text"):
        encode_meta(longest)


def test_strings_of_the_output():
    whole = D.with_defaults(
        encoder(
            output={
                **CLASSES,
                "labels": "no\x1eyes\x1e\x1e",
                "prompts": "query\x1fquery: \x1epassage\x1f\x1e",
            }
        )
    )["output"]
    assert D.labels_of(whole) == ["no", "yes", ""]
    assert D.prompts_of(whole) == [("query", "query: "), ("passage", "")]
    empty = D.with_defaults(encoder())["output"]
    assert D.labels_of(empty) == [] and D.prompts_of(empty) == []


def test_longest_sequence():
    def longest(name, descriptor):
        return D.longest(D.with_defaults(descriptor), name)

    assert longest("decoder", lm()) == 0 and longest("decoder", lm({"max_positions": 9})) == 9
    assert longest("decoder", lm({"max_positions": 9}, position=D.THREE_WAY, max_distance=7)) == 7
    assert (
        longest("decoder", lm({"max_positions": 9}, position=D.RELATIVE_KEY, max_distance=70)) == 9
    )
    assert longest("encoder", encoder(position=D.CLIPPED, max_distance=7)) == 0


def shapes(descriptor: dict, stack: int, role: int) -> tuple[int, int, int] | None:
    """(layout, rows, cols) of the first tensor of that stack and role."""
    return next(
        (
            (s.layout, s.rows, s.cols)
            for s in R.slots(D.with_defaults(descriptor))
            if (s.stack, s.role) == (stack, role)
        ),
        None,
    )


@pytest.mark.parametrize(
    "position,entries",
    [(D.RELATIVE_KEY, 9), (D.RELATIVE_KEY_QUERY, 9), (D.THREE_WAY, 9), (D.CLIPPED, 11)],
)
def test_tables_of_relative_keys(position, entries):
    descriptor = lm(position=position, max_distance=5)
    assert shapes(descriptor, R.DECODER, R.RELATIVE_KEYS) == (L.ROWS, 6, entries)
    assert shapes(descriptor, R.DECODER, R.RELATIVE_VALUES) == (
        (L.ROWS, entries, 6) if position == D.CLIPPED else None
    )


def test_tables_of_each_head():
    descriptor = lm(position=D.DISENTANGLED, max_distance=5)
    for role in (R.RELATIVE_KEYS, R.RELATIVE_QUERIES):
        assert shapes(descriptor, R.DECODER, role) == (L.ROWS, 24, 9)
    other = lm(position=D.RELATIVE_KEY_QUERY, max_distance=5)
    assert shapes(other, R.DECODER, R.RELATIVE_QUERIES) is None


def test_tables_of_a_kind_and_scores():
    assert shapes(lm(position=D.T5_BIAS, max_distance=5), R.KINDS, R.T5_BIAS) == (L.ROWS, 4, 11)
    assert shapes(lm(position=D.ALIBI), R.KINDS, R.ALIBI) == (L.VECTOR, 4, 1)
    both = translator(
        cross={"cross_score": D.ADDITIVE, "cross_heads": 2, "cross_head_width": 5}, score=D.ADDITIVE
    )
    assert shapes(both, R.ENCODER, R.SCORE) == (L.VECTOR, 24, 1)
    assert (
        shapes(both, R.DECODER, R.CROSS_SCORE) == (L.VECTOR, 10, 1)
        and shapes(both, R.ENCODER, R.CROSS_SCORE) is None
    )


def test_input_of_another_width():
    descriptor = encoder(
        {
            "segments": 2,
            "embedding_width": 10,
            "projection_bias": 1,
            "position": D.LEARNED,
            "max_positions": 8,
            "embedding_norm": D.LAYER_NORM,
        },
        {
            "output": D.LOGITS,
            "tied": D.TIED_SOURCE,
            "head_width": 10,
            "head_bias": 1,
            "head_norm": D.LAYER_NORM,
            "bias": 1,
        },
    )
    assert shapes(descriptor, R.SOURCE, R.EMBEDDING) == (L.PANEL16, 29, 10)
    assert shapes(descriptor, R.SOURCE, R.POSITIONS) == (L.ROWS, 8, 10) and shapes(
        descriptor, R.SOURCE, R.SEGMENTS
    ) == (L.ROWS, 2, 10)
    assert shapes(descriptor, R.SOURCE, R.EMBEDDING_NORM + 1) == (L.VECTOR, 10, 1)
    assert shapes(descriptor, R.SOURCE, R.PROJECTION) == (L.PANEL16, 24, 10) and shapes(
        descriptor, R.SOURCE, R.PROJECTION + 1
    ) == (L.VECTOR, 24, 1)
    assert shapes(descriptor, R.OUTPUT, R.OUTPUT_WEIGHT) is None and shapes(
        descriptor, R.OUTPUT, R.OUTPUT_WEIGHT + 1
    ) == (L.VECTOR, 29, 1)
    assert shapes(descriptor, R.OUTPUT, R.HEAD) == (L.PANEL16, 10, 24) and shapes(
        descriptor, R.OUTPUT, R.HEAD_NORM
    ) == (L.VECTOR, 10, 1)


def test_output_matrices():
    assert shapes(encoder(output={"output": D.LOGITS}), R.OUTPUT, R.OUTPUT_WEIGHT) == (
        L.PANEL16,
        29,
        24,
    )
    assert shapes(
        encoder(output={**CLASSES, "head_width": 5, "bias": 1}), R.OUTPUT, R.CLASSIFIER
    ) == (L.PANEL16, 3, 5)
    assert shapes(encoder(output={**CLASSES, "bias": 1}), R.OUTPUT, R.CLASSIFIER + 1) == (
        L.VECTOR,
        3,
        1,
    )
    assert shapes(encoder(output={**POOLED, "head_norm": D.LAYER_NORM}), R.OUTPUT, R.HEAD_NORM) == (
        L.VECTOR,
        24,
        1,
    )
    assert not [s for s in R.slots(D.with_defaults(encoder(output=POOLED))) if s.stack == R.OUTPUT]


def test_a_block_without_its_first_norm():
    assert shapes(lm(attention_norm=0), R.DECODER, R.ATTENTION_BEFORE) is None
    assert shapes(lm(attention_norm=0), R.DECODER, R.FFN_BEFORE) == (L.VECTOR, 24, 1)


def test_every_tensor_has_a_name_and_its_place(tmp_path):
    """Keys ascend (the file refuses others), and no name is a number."""
    for descriptor in (
        encoder(
            {"segments": 2, "embedding_width": 10, "projection_bias": 1},
            {**CLASSES, "head_width": 5, "head_bias": 1, "head_norm": 1, "bias": 1},
            position=D.CLIPPED,
            max_distance=3,
            qk_norm=D.LAYER_NORM,
        ),
        translator(
            cross={"cross_score": D.ADDITIVE}, score=D.ADDITIVE, position=D.T5_BIAS, max_distance=3
        ),
        lm(position=D.ALIBI),
    ):
        slots = R.slots(D.with_defaults(descriptor))
        assert [s.key for s in slots] == sorted({s.key for s in slots})
        assert not [s.name for s in slots if "role" in s.name or "?" in s.name]
        model_of(tmp_path, descriptor).file.check()
    assert (
        R.tensor_name(R.OUTPUT << 24 | R.OUTPUT_WEIGHT) == "output weight"
        and R.tensor_name(R.OUTPUT << 24 | R.HEAD_NORM + 1) == "output head norm bias"
    )
    assert R.tensor_name(R.ENCODER << 24 | R.RELATIVE_VALUES) == "encoder 0 relative values"
