"""Tests of tools/train_translation.py: the split, teacher forcing, the masks, resuming,
learning."""

from __future__ import annotations

import dataclasses
import json

import pytest

torch = pytest.importorskip("torch", reason="the reference environment is not installed")
pytest.importorskip("sentencepiece", reason="the reference environment is not installed")
pytest.importorskip("sacrebleu", reason="the reference environment is not installed")
hypothesis = pytest.importorskip("hypothesis", reason="the reference environment is not installed")
st = hypothesis.strategies

from train import split  # noqa: E402
from train import translation as tt
from train import translation_data as data  # noqa: E402
from train.translation_model import ByteDropout, sinusoids

TINY = tt.Recipe(
    seed=7,
    valid_pairs=10,
    test_pairs=20,
    source_vocab=60,
    target_vocab=60,
    d_model=32,
    heads=2,
    ffn=64,
    encoder_layers=1,
    decoder_layers=1,
    max_length=64,
    dropout=0.1,
    batch_tokens=200,
    epochs=4,
    warmup_steps=10,
    peak_lr=5e-3,
    average=2,
    bf16=False,
)


def copy_corpus(count: int = 150):
    """Pairs whose target repeats the source, in letters that survive every normalization."""
    words = ["ba", "ce", "di", "fo", "gu", "ka", "le", "mi"]
    rows = [" ".join(words[(i // 8**k) % 8] for k in range(3)) for i in range(count)]
    return [tt.Pair(row, row) for row in rows]


@pytest.fixture(scope="module")
def segmenters():
    """Small SentencePiece models of the copy corpus."""
    rows = [pair.source for pair in copy_corpus()]
    return tt.Segmenters(tt.train_segmenter(rows, 40, 1.0), tt.train_segmenter(rows, 40, 1.0))


@pytest.fixture(autouse=True)
def one_thread():
    """The same arithmetic wherever the tests run."""
    torch.set_num_threads(1)


def tiny_model(recipe=TINY, vocab: int = 40):
    torch.manual_seed(recipe.seed)
    return tt.Translator(vocab, vocab, recipe)


# ---- split

sentence = st.text(alphabet="abcABC .!我你。", min_size=1, max_size=4).filter(str.strip)


@hypothesis.given(
    st.lists(st.builds(tt.Pair, sentence, sentence), min_size=1, max_size=120), st.integers(0, 5)
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_split_is_clean_and_whole(pairs, seed):
    pairs = list(dict.fromkeys(pairs))
    split = tt.split_pairs(pairs, dataclasses.replace(TINY, seed=seed))
    tt.check_split(split)
    assert sorted(map(str, split.train + split.valid + split.test)) == sorted(map(str, pairs))


def test_sentences_joined_by_a_chain_stay_together():
    pairs = [tt.Pair("甲", "a"), tt.Pair("甲！", "B."), tt.Pair("乙", "b"), tt.Pair("丙", "c")]
    groups = sorted(len(group) for group in split.components(pairs))
    assert groups == [1, 3]


def test_the_two_languages_are_separate_nodes():
    assert len(split.components([tt.Pair("OK", "Fine."), tt.Pair("好", "OK")])) == 2


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_leak_on_either_side_is_found(side):
    leak = {"source": tt.Pair("我 来了！", "x"), "target": tt.Pair("乙", "i came")}[side]
    split = tt.Split([leak], [], [tt.Pair("我来了。", "I came.")])
    with pytest.raises(tt.UserError, match=f"1 {side} sentences in both of train/test"):
        tt.check_split(split)


def test_the_showcase_sentence_is_kept_out_of_training():
    pair = tt.Pair("我有一只猫", "I've got a cat.")
    with pytest.raises(tt.UserError, match="in training"):
        tt.check_split(tt.Split([pair], [], []))
    many = (
        [tt.Pair(f"句{i}", f"s{i}") for i in range(200)]
        + [pair]
        + [tt.Pair("我有一只猫。", f"v{i}") for i in range(40)]
    )
    assert pair in tt.split_pairs(many, TINY).test


def test_shared_corpus_splits_clean():
    if not tt.DEFAULT_DATA.exists():
        pytest.skip(f"no corpus at {tt.DEFAULT_DATA}")
    pairs = tt.read_pairs(tt.DEFAULT_DATA)
    counts = tt.check_split(tt.split_pairs(pairs, tt.Recipe()))
    assert counts["test_pairs"] >= 1000 and counts["valid_pairs"] >= 500
    assert sum(counts[f"{name}_pairs"] for name in ("train", "valid", "test")) == len(pairs)
    assert counts["showcase_target_in_train"] == 0


def test_reading_skips_the_mark_blank_lines_and_repeats(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_bytes("\ufeffHi.\t嗨。\tcredit\r\nHi.\t嗨。\tother\n\nHi.\t你好。\tx\n".encode())
    assert tt.read_pairs(path) == [tt.Pair("嗨。", "Hi."), tt.Pair("你好。", "Hi.")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a\tb\nalone\n", ":2: expected"),
        (b"a\t \n", ":1: expected"),
        (b"\n", "no sentence pairs"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, content, message):
    path = tmp_path / "pairs.txt"
    if content is not None:
        path.write_bytes(content)
    assert tt.main(["check-split", "--data", str(path)]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


# ---- teacher forcing


def test_target_is_shifted_by_one():
    batch = data.make_batch([[10, 11], [12]], [[20, 21, 22], [23]])
    assert batch.source.tolist() == [[10, 11, tt.EOS], [12, tt.EOS, tt.PAD]]
    assert batch.target_in.tolist() == [[tt.BOS, 20, 21, 22], [tt.BOS, 23, tt.PAD, tt.PAD]]
    assert batch.target_out.tolist() == [[20, 21, 22, tt.EOS], [23, tt.EOS, tt.PAD, tt.PAD]]


def test_batches_hold_every_pair_once_within_the_budget():
    rng = tt.np.random.default_rng(0)
    lengths = [(int(a), int(b)) for a, b in rng.integers(1, 30, size=(500, 2))]
    plans = data.plan_batches(lengths, 200, rng)
    assert sorted(i for plan in plans for i in plan) == list(range(500))
    assert all(len(plan) * max(max(lengths[i]) for i in plan) <= 200 for plan in plans)


def test_loss_ignores_padding():
    model = tiny_model().eval()
    short = data.make_batch([[5, 6]], [[7, 8]])
    both = data.make_batch([[5, 6], [9, 10, 11, 12]], [[7, 8], [13, 14, 15, 16, 17]])
    other = data.make_batch([[9, 10, 11, 12]], [[13, 14, 15, 16, 17]])
    parts = 3 * tt.batch_loss(model, short, 0.1) + 6 * tt.batch_loss(model, other, 0.1)
    torch.testing.assert_close(tt.batch_loss(model, both, 0.1), parts / 9)


def test_label_smoothing_is_a_mixture_with_the_uniform_distribution():
    model = tiny_model().eval()
    batch = data.make_batch([[5, 6]], [[7, 8]])
    logs = model(batch.source, batch.target_in).log_softmax(-1)[0]
    plain = -logs.gather(1, batch.target_out[0][:, None]).mean()
    torch.testing.assert_close(tt.batch_loss(model, batch, 0.1), 0.9 * plain - 0.1 * logs.mean())


# ---- masks


@pytest.mark.parametrize("norm_first", [True, False])
def test_source_padding_does_not_change_the_result(norm_first):
    model = tiny_model(dataclasses.replace(TINY, norm_first=norm_first)).eval()
    target = torch.tensor([[tt.BOS, 7, 8]])
    alone = model(torch.tensor([[5, 6, tt.EOS]]), target)
    padded = model(torch.tensor([[5, 6, tt.EOS, tt.PAD, tt.PAD, tt.PAD]]), target)
    torch.testing.assert_close(alone, padded)


def test_a_position_does_not_see_those_after_it():
    model = tiny_model().eval()
    source = torch.tensor([[5, 6, tt.EOS]])
    first = model(source, torch.tensor([[tt.BOS, 7, 8, 9]]))
    second = model(source, torch.tensor([[tt.BOS, 7, 20, 21]]))
    torch.testing.assert_close(first[:, :2], second[:, :2])
    assert not torch.allclose(first[:, 2:], second[:, 2:])


def test_positions_are_the_papers():
    table = sinusoids(8, 6)
    assert table[0].tolist() == [0, 1, 0, 1, 0, 1]
    angle = 3 / 10000 ** (2 / 6)
    torch.testing.assert_close(
        table[3, 2:4], torch.tensor([tt.math.sin(angle), tt.math.cos(angle)])
    )


def test_dropout_keeps_the_mean_and_is_off_in_evaluation():
    torch.manual_seed(0)
    dropout = ByteDropout(0.3)
    x = torch.ones(1003, 101)
    dropped = dropout(x)
    assert abs(dropped.mean().item() - 1) < 0.02
    assert abs((dropped == 0).float().mean().item() - 0.3) < 0.02
    assert dropout.eval()(x) is x


def test_names_are_those_of_torch():
    names = set(tiny_model().state_dict())
    assert {
        "src_embedding.weight",
        "tgt_embedding.weight",
        "encoder.layers.0.self_attn.in_proj_weight",
        "decoder.layers.0.multihead_attn.out_proj.bias",
        "decoder.layers.0.norm3.weight",
        "encoder.norm.weight",
        "decoder.norm.bias",
    } <= names
    assert "positions" not in names


# ---- training


def test_sampling_depends_on_the_seed_alone(segmenters):
    rows = [pair.source for pair in copy_corpus()]
    first = data.sample_segments(segmenters.source_bytes, rows, 0.1, 0.5, 3)
    assert first == data.sample_segments(segmenters.source_bytes, rows, 0.1, 0.5, 3)
    assert first != data.sample_segments(segmenters.source_bytes, rows, 0.1, 0.5, 4)
    assert [segmenters.source.decode(row) for row in first] == rows


def test_schedule_warms_up_and_ends_at_zero():
    recipe = dataclasses.replace(TINY, warmup_steps=10, peak_lr=1.0)
    assert [tt.learning_rate(recipe, step, 0.0) for step in (0, 4, 9, 50)] == [0.1, 0.5, 1.0, 1.0]
    assert tt.learning_rate(recipe, 50, 0.5) == pytest.approx(0.5)
    assert tt.learning_rate(recipe, 50, 1.0) == pytest.approx(0.0)


def test_a_resumed_run_gives_the_same_losses_and_weights(tmp_path, segmenters):
    pairs = copy_corpus()
    straight = tt.Run.start(TINY, segmenters)
    losses = [straight.train_epoch(pairs, quiet=True) for _ in range(4)]
    first = tt.Run.start(TINY, segmenters)
    for _ in range(2):
        first.train_epoch(pairs, quiet=True)
    first.save(tmp_path / "epoch-002.pt")
    torch.manual_seed(99)  # whatever else drew numbers in between
    second = tt.Run.start(TINY, segmenters)
    second.load(tmp_path / "epoch-002.pt")
    assert [second.train_epoch(pairs, quiet=True) for _ in range(2)] == losses[2:]
    for name, weight in straight.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name
    assert list(tmp_path.iterdir()) == [tmp_path / "epoch-002.pt"]


def test_a_copy_task_is_learned(segmenters):
    recipe = dataclasses.replace(
        TINY, epochs=80, dropout=0.0, activation_dropout=0.0, sample_share=0.0, label_smoothing=0.0
    )
    run = tt.Run.start(recipe, segmenters)
    pairs = copy_corpus()
    losses = [tt.np.mean(run.train_epoch(pairs, quiet=True)) for _ in range(recipe.epochs)]
    assert losses[-1] < 0.1 * losses[0]
    rows = [pair.source for pair in pairs[:40]]
    outputs = tt.greedy(run.model, segmenters, rows, recipe)
    assert sum(a == b for a, b in zip(outputs, rows, strict=True)) >= 30


def test_greedy_does_not_depend_on_the_batch(segmenters):
    model = tiny_model(vocab=segmenters.source.get_piece_size())
    rows = [pair.source for pair in copy_corpus()[:9]] + ["ba", "ce di fo gu ka le mi"]
    together = tt.greedy(model, segmenters, rows, TINY)
    assert together == [tt.greedy(model, segmenters, [row], TINY)[0] for row in rows]


def test_average_is_the_mean():
    states = [{"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([3.0, 6.0])}]
    assert tt.average_states(states)["w"].tolist() == [2.0, 4.0]


def test_scores_read_single_and_multiple_references():
    pairs = [
        tt.Pair("甲", "one two three four five"),
        tt.Pair("甲", "a b c d e"),
        tt.Pair("乙", "six seven eight nine ten"),
    ]
    outputs = ["a b c d e", "a b c d e", "six seven eight nine ten"]
    scores = tt.score_pairs(pairs, outputs)
    assert scores["multi_reference"] == {"sentences": 2, "bleu": 100.0, "chrf": 100.0}
    assert scores["single_reference"]["sentences"] == 3 and scores["single_reference"]["bleu"] < 80


def test_the_commands_work_together(tmp_path, capsys):
    corpus = tmp_path / "pairs.txt"
    corpus.write_text(
        "".join(f"{pair.target}\t{pair.source}\tcredit\n" for pair in copy_corpus()),
        encoding="utf-8",
    )
    options = ["--data", str(corpus), "--out", str(tmp_path / "run"), "--threads", "1"]
    recipe = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in dataclasses.asdict(TINY).items()
        if not isinstance(value, bool)
    ]
    assert tt.main(["train", *options, *recipe, "--no-bf16", "--epochs=2"]) == 0
    assert tt.main(["train", *options, "--epochs=3"]) == 0
    assert "resumed after epoch 2" in capsys.readouterr().out
    assert tt.main(["train", *options, "--d-model=64"]) == 1
    assert "begun with d_model 32" in capsys.readouterr().err
    to = tmp_path / "final"
    assert tt.main(["export", *options, "--to", str(to)]) == 0
    assert sorted(path.name for path in to.iterdir()) == sorted(
        [
            "zh-en.pt",
            "zh-en.json",
            "zh.model",
            "en.model",
            "test.zh",
            "test.en",
            "test.hyp",
            "scores.json",
            "samples.txt",
        ]
    )
    scores = json.loads((to / "scores.json").read_text(encoding="utf-8"))
    assert scores["averaged_epochs"] == [2, 3] and scores["recipe"]["d_model"] == 32
    model, parts, kept = tt.load_translator(to)
    lines = (to / "test.zh").read_text(encoding="utf-8").splitlines()
    assert "\n".join(tt.greedy(model, parts, lines, kept)) + "\n" == (to / "test.hyp").read_text(
        encoding="utf-8"
    )


def test_a_damaged_checkpoint_is_one_line(tmp_path, capsys):
    if not tt.DEFAULT_DATA.exists():
        pytest.skip(f"no corpus at {tt.DEFAULT_DATA}")
    (tmp_path / "epoch-001.pt").write_bytes(b"not a checkpoint")
    assert tt.main(["train", "--out", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "cannot read checkpoint" in error and error.count("\n") == 1
