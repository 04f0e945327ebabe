"""Draws what a model does with positions, and where it looks: runs phasor and plots the arrays that
it writes. Needs matplotlib.

    plot.py columns MODEL -o OUT.png          some columns of what is added to the embedding,
                                              against the position
    plot.py table MODEL -o OUT.png            all of it, as a map
    plot.py distance MODEL -o OUT.png         the scores of the first layer against the distance, a
                                              line a head
    plot.py attention MODEL TEXT -o OUT.png   the weights of each layer and head for a sentence;
                                              --mean: of an encoder-decoder, source × output, the
                                              mean of all heads

`columns` and `table` run one token at every position: what `phasor run --hidden` then has before
the first block, less the token's own embedding, is the encoding. `distance` also runs one token at
every position: q and k are the same everywhere before the position enters, so the logarithm of the
weights (`phasor run --attention`) against that of the query's own is the score against the score at
distance 0.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Sequence

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import font_manager  # noqa: E402
from matplotlib import pyplot as plt

from phasor import scratch  # noqa: E402
from phasor.arguments import Parser  # noqa: E402
from phasor.entry import front_door, say  # noqa: E402
from phasor.errors import PhasorError
from phasor.files import check_output, open_regular, parse_json, replacing  # noqa: E402
from phasor.format import descriptor as D  # noqa: E402
from phasor.format import tensors as R  # noqa: E402
from phasor.format.file import PhasorFile  # noqa: E402
from phasor.program import ids_text, need_phasor, printed_ids, run  # noqa: E402

SMALLEST = 1e-30  # a weight below it has no logarithm worth drawing


# ---- What phasor says


def array(
    program: Path, model: Path, flag: str, given: Sequence[str], most: int
) -> tuple[np.ndarray, str]:
    """(what `phasor run` writes with this flag, its standard output)"""
    with scratch.file() as file:
        arguments = (*given, "-n", most, "--print-ids", "--quiet", flag, file)
        text = run(program, "run", model, *arguments)
        with open_regular(file) as stream:
            return np.load(stream), text


def repeated(token: int, count: int) -> list[str]:
    return ["--ids", ids_text([token] * count)]


def first_stack(file: PhasorFile) -> tuple[str, str, int]:
    """(stack, side, stack of its input's tensors) of what `--hidden` shows: the encoder, or a lone
    decoder."""
    return (
        ("encoder", "source", R.SOURCE)
        if "encoder" in file.descriptor
        else ("decoder", "target", R.TARGET)
    )


def length_of(file: PhasorFile, wanted: int) -> int:
    most = D.longest(file.descriptor, first_stack(file)[0])
    return min(wanted, most) if most else wanted


def added(program: Path, model: Path, token: int, count: int) -> np.ndarray:
    """(T, D): what the model adds to the embedding at each position."""
    file = PhasorFile(model)
    stack, _, tensors = first_stack(file)
    s = file.descriptor[stack]
    if s["embedding_norm"] or s["embedding_width"] != s["width"]:
        raise PhasorError(
            f"{model}: the embedding is normed or projected after the position is added: the "
            "position alone does not show"
        )
    hidden, _ = array(program, model, "--hidden", repeated(token, length_of(file, count)), 1)
    own = file.weights(tensors << 24 | R.EMBEDDING)[token] * s["embedding_scale"]
    result: np.ndarray = hidden[0][: length_of(file, count)] - own
    return result


def scores_by_distance(program: Path, model: Path, token: int, count: int) -> np.ndarray:
    """(H, T): the score of the last query of the first layer at distance 0, 1, 2, … back, less that
    at distance 0; NaN where the weight vanishes."""
    file = PhasorFile(model)
    if file.descriptor["model"]["stack"] != D.DECODER:
        raise PhasorError(
            f"{model}: expected a decoder: self-attention of other stacks is not written by "
            "--attention"
        )
    weights, _ = array(program, model, "--attention", repeated(token, length_of(file, count)), 1)
    last = weights[0, :, -1, ::-1].astype(np.float64)  # (H, T), the query's own key first
    return np.log(np.where(last > SMALLEST, last, np.nan)) - np.log(last[:, :1])


def sentence(
    program: Path, model: Path, text: str, most: int
) -> tuple[np.ndarray, list[str], list[str]]:
    """(layers, heads, positions, keys), names of the positions, names of the keys."""
    file = PhasorFile(model)
    weights, out = array(program, model, "--attention", [text], most)
    read = [
        line.split("\t", 1)[1]
        for line in run(program, "tokenize", model, text).splitlines()
        if "\t" in line
    ]
    ids = printed_ids(out)
    made = run(program, "tokenize", model, "--decode", *ids).splitlines() if ids else []
    if file.descriptor["model"]["stack"] == D.DECODER:
        names = (read + made)[: weights.shape[2]]
        return weights, names, names
    return weights, ["start", *made][: weights.shape[2]], read[: weights.shape[3]]


def mean_sentence(
    program: Path, model: Path, text: str, most: int
) -> tuple[np.ndarray, list[str], list[str]]:
    """(output, source): the mean of all heads of cross-attention where each token was chosen; the
    pieces of the output, those of the source."""
    if PhasorFile(model).descriptor["model"]["stack"] != D.ENCODER_DECODER:
        raise PhasorError(f"{model}: --mean: expected an encoder-decoder")
    weights, _ = array(program, model, "--attention", [text], most)
    said = run(
        program, "run", model, text, "-n", most, "--align=pieces", "--json", "--quiet"
    ).splitlines()
    names = parse_json(said[0].encode())["alignment"]
    return weights.mean(axis=(0, 1)), names["target"], names["source"]


# ---- Pictures


def choose_fonts() -> None:
    """The usual font, and behind it one for Chinese, Japanese and Korean where the machine has
    one."""
    found = sorted(
        {
            font.name
            for font in font_manager.fontManager.ttflist
            if any(part in font.name for part in ("CJK", "WenQuanYi", "Droid Sans Fallback"))
        }
    )
    matplotlib.rcParams["font.family"] = ["DejaVu Sans", *found[:1]]


def save(figure: plt.Figure, output: Path) -> None:
    """Written the same each time: no date and no random names in it. A letter that no font has is
    named once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with matplotlib.rc_context({"svg.hashsalt": "phasor"}):
            with replacing(output) as file:
                figure.savefig(
                    file,
                    format=output.suffix[1:],
                    dpi=90,
                    metadata={"Software": None}
                    if output.suffix == ".png"
                    else {"Date": None, "Creator": None},
                )
    plt.close(figure)
    for message in dict.fromkeys(str(w.message).split(" (")[0] for w in caught):
        say("plot", message)
        break


def one_plot(x: str, y: str, title: str) -> tuple[plt.Figure, plt.Axes]:
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    axes.set(xlabel=x, ylabel=y, title=title)
    return figure, axes


def draw_columns(table: np.ndarray, columns: Sequence[int], title: str) -> plt.Figure:
    figure, axes = one_plot("position", "added to the embedding", title)
    for column in columns:
        axes.plot(table[:, column], label=f"column {column}")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    return figure


def draw_table(table: np.ndarray, title: str) -> plt.Figure:
    figure, axes = one_plot("position", "column", title)
    most = np.abs(table).max()
    image = axes.imshow(
        table.T, aspect="auto", cmap="RdBu", vmin=-most, vmax=most, interpolation="nearest"
    )
    figure.colorbar(image)
    return figure


def draw_distance(scores: np.ndarray, title: str) -> plt.Figure:
    figure, axes = one_plot("distance back to the key", "score, 0 at distance 0", title)
    for head, line in enumerate(scores):
        axes.plot(line, label=f"head {head}", linewidth=1)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize="small")
    return figure


def draw_attention(weights: np.ndarray, rows: list[str], columns: list[str]) -> plt.Figure:
    layers, heads, positions, keys = weights.shape
    size = (max(2.2, 0.16 * keys + 0.8), max(2.0, 0.16 * positions + 0.8))
    figure, axes = plt.subplots(
        layers,
        heads,
        figsize=(size[0] * heads, size[1] * layers),
        squeeze=False,
        layout="constrained",
    )
    for layer in range(layers):
        for head in range(heads):
            plot = axes[layer, head]
            plot.imshow(
                weights[layer, head],
                cmap="Greys",
                vmin=0,
                vmax=1,
                aspect="auto",
                interpolation="nearest",
            )
            plot.set_title(f"layer {layer}, head {head}", fontsize=8)
            plot.set_xticks(
                range(keys),
                columns if layer == layers - 1 else [""] * keys,
                rotation=90,
                fontsize=6,
            )
            plot.set_yticks(range(positions), rows if head == 0 else [""] * positions, fontsize=6)
    return figure


def draw_mean(weights: np.ndarray, rows: list[str], columns: list[str]) -> plt.Figure:
    """(output, source) as one map, the source below."""
    size = (0.7 * len(columns) + 1.1, 0.3 * len(rows) + 0.8)
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    axes.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    return figure


# ---- Command line


def numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers such as 0,1,8") from error


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("columns", "table", "distance", "attention"):
        command = commands.add_parser(name)
        command.add_argument("model", type=Path)
        command.add_argument(
            "-o", "--output", type=Path, required=True, help="Write this .png or .svg file."
        )
        command.add_argument("--phasor", type=Path, help="Program to run. Default: build/phasor.")
        command.add_argument("--title", help="Title. Default: the name of the model.")
        if name == "attention":
            command.add_argument("text")
            command.add_argument(
                "-n", type=int, default=1, metavar="N", help="New tokens. Default: 1."
            )
            command.add_argument(
                "--mean", action="store_true", help="Draw one map, the mean of all heads."
            )
        else:
            command.add_argument(
                "--token", type=int, default=5, help="Id at every position. Default: 5."
            )
            command.add_argument(
                "--length", type=int, default=64, help="Number of positions. Default: 64."
            )
        if name == "columns":
            command.add_argument(
                "--columns", type=numbers, default=[0, 1, 8, 9, 24, 25], help="0,1,8,9,24,25"
            )
    return parser


def draw(options: argparse.Namespace) -> plt.Figure:
    """The picture that the command line asks for."""
    program = need_phasor(options.phasor)
    title = (
        options.title or PhasorFile(options.model).descriptor["model"]["name"] or options.model.name
    )
    if options.command == "attention" and options.mean:
        return draw_mean(*mean_sentence(program, options.model, options.text, options.n))
    if options.command == "attention":
        return draw_attention(*sentence(program, options.model, options.text, options.n))
    if options.command == "distance":
        return draw_distance(
            scores_by_distance(program, options.model, options.token, options.length), title
        )
    table = added(program, options.model, options.token, options.length)
    if options.command == "table":
        return draw_table(table, title)
    wrong = [column for column in options.columns if not 0 <= column < table.shape[1]]
    if wrong:
        raise PhasorError(f"--columns: {wrong[0]}, the model's width is {table.shape[1]}")
    return draw_columns(table, options.columns, title)


@front_door("plot")
def main(argv: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    choose_fonts()
    if options.output.suffix not in (".png", ".svg"):
        raise PhasorError(f"{options.output}: expected a name that ends in .png or .svg")
    check_output(options.output, options.model)
    save(draw(options), options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
