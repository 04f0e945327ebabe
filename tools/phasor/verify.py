"""The same input through PyTorch, the float64 reference and phasor; the largest difference, layer
by layer.

    verify.py MODEL.phasor --checkpoint model.pt --describe model.toml
              [--source-ids 5,6,7,3] [--target-ids 2,8,9] [--phasor build/phasor]
    verify.py MODEL.phasor --checkpoint model.pt --describe model.toml --sentences test.zh

The second form compares greedy output, a sentence a line.

Each difference is a share of that layer's largest value (of the logits' range for logits).
"reference − PyTorch" is in float64 with the file's weights against the checkpoint's, so for f32 it
is what converting did, and for q8 the quantization; "phasor − reference" is arithmetic. Without a
phasor program its columns are left out. Exit 0 when all is within bounds, 1 when not, 2 for a wrong
command line. Needs torch.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from phasor import scratch
from phasor import vectors as V
from phasor.arguments import Parser
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.checkpoints.tensors import Checkpoint
from phasor.entry import front_door
from phasor.errors import PhasorError
from phasor.families import names as N
from phasor.files import described_beside, open_regular, read_text
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format.file import VECTORS, PhasorFile
from phasor.program import find_phasor, ids_text, printed_ids, run
from phasor.reference.forward import Reference, parse_ids
from phasor.sources.state_dict import model as state_dict
from phasor.sources.state_dict.description import KEYS, Description, Named, read_description
from phasor.sources.state_dict.tensors import has_layer, of_layer

F32_BOUND = 1e-4  # of the logits' range (issue: "What it must show")
CONVERSION_BOUND = 1e-6  # f32: the file's scales and epsilons are f32


class Run(NamedTuple):
    """What one engine computed: residuals (layers, positions, D) of each stack, and logits (T,
    V)."""

    encoder: np.ndarray
    decoder: np.ndarray
    logits: np.ndarray


class Row(NamedTuple):
    """One line of the table."""

    name: str
    values: list[float | None]


# ---- The three engines


def torch_names(description: Description, checkpoint: Checkpoint) -> dict[str, str]:
    """From the module's parameter names (the preset's) to the checkpoint's, for what the
    description's [names] change."""
    table, out = N.PRESETS[description.preset](description.stack), {}
    for part, named in description.names.items():
        pattern = named.tensors[0]
        if part.endswith(".sinusoid"):
            continue
        if part not in table or named != Named((pattern,)):
            raise PhasorError(
                f"names.{part}: verify cannot give this part to the preset's PyTorch module"
            )
        for layer in range(1024 if has_layer(pattern) else 1):
            ours, theirs = (of_layer(text, layer) for text in (table[part], pattern))
            if theirs not in checkpoint and N.bias_name(theirs) not in checkpoint:
                break
            out[ours], out[N.bias_name(ours)] = theirs, N.bias_name(theirs)
    return out


def refuse_positions(description: Description, d: dict[str, Any]) -> None:
    """PhasorError for position encodings that the converter reads and the PyTorch modules here do
    not have."""
    for stack, s in description.stacks.items():
        for key in ("relative_order", "relative_values", "rotary_base", "alibi_slopes"):
            value = KEYS[key][1]
            if s[key] != value:
                raise PhasorError(
                    f"{stack}: {key} {s[key]!r}: the PyTorch modules here have {value!r} only"
                )
        if s["two_sided"] != (stack == "encoder"):
            raise PhasorError(
                f"{stack}: two_sided: the PyTorch modules here have two sides in the encoder and "
                "one in the decoder"
            )
        named = {f"{stack}.alibi_slopes", f"{stack}.inv_freq"} & set(description.names)
        if named or len({kind for kind, _ in D.layers_of(d[stack])}) > 1:
            raise PhasorError(f"{stack}: tables of each layer: the PyTorch modules here share them")


def buckets_of(description: Description, checkpoint: Checkpoint) -> int:
    """The rows of a T5 bias; any number where there is none."""
    table = N.PRESETS[description.preset](description.stack)
    table |= {part: named.tensors[0] for part, named in description.names.items()}
    found = [of_layer(table[f"{stack}.position_bias"], 0) for stack in description.stacks]
    return next((checkpoint.shape(name)[0] for name in found if name in checkpoint), 32)


def torch_module(description: Description, path: Path) -> Any:
    """The preset's module with the checkpoint's weights, in float32. PhasorError when they do not
    fit it."""
    try:
        import torch

        from phasor.reference import torch_models
    except ImportError as error:
        raise PhasorError(f"PyTorch is needed: {error}") from error
    checkpoint = open_checkpoint(path, description.key, description.beside)
    model = state_dict.read(checkpoint, description)
    problems = model.problems()
    if problems:
        raise PhasorError(f"{path}: {problems[0]}")
    checkpoint, d = model.checkpoint, model.descriptor
    if d["model"]["stack"] != D.ENCODER_DECODER:
        raise PhasorError("only encoder-decoders are compared here")
    refuse_positions(description, d)
    try:
        module = torch_models.build(d, description.preset, buckets_of(description, checkpoint))
    except ValueError as error:
        raise PhasorError(str(error)) from error
    names = torch_names(description, checkpoint)
    state = {
        name: torch.from_numpy(checkpoint.load(names.get(name, name)).astype(np.float32))
        for name in module.state_dict()
        if names.get(name, name) in checkpoint
    }
    missing = set(module.state_dict()) - set(state)
    shared = {
        "tgt_embedding.weight": "src_embedding.weight",
        "decoder.tok_embedding.weight": "encoder.tok_embedding.weight",
        "decoder.embedding.weight": "encoder.embedding.weight",
    }
    for name in sorted(missing):
        if not d["target"]["embedding_shared"] or shared.get(name) not in state:
            raise PhasorError(f"{path}: {name} is not there for the PyTorch module")
        state[name] = state[shared[name]]
    module.load_state_dict(state)
    return module


def run_torch(module: Any, source: Sequence[int], target: Sequence[int]) -> Run:
    import torch

    with torch.no_grad():
        logits = module(torch.tensor([list(source)]), torch.tensor([list(target)]))[0].numpy()
    encoder, decoder = (torch.cat(module.seen[name]).numpy() for name in ("encoder", "decoder"))
    return Run(encoder, decoder, logits)


def run_reference(model: Reference, source: Sequence[int], target: Sequence[int]) -> Run:
    encoded = model.encode(source)
    decoded = model.decode(target, encoded.output)
    return Run(np.stack(encoded.residuals), np.stack(decoded.residuals), model.output(decoded))


def _array(path: Path) -> np.ndarray:
    with open_regular(path) as file:
        result: np.ndarray = np.load(file)
        return result


def run_phasor(program: Path, path: Path, source: Sequence[int], target: Sequence[int]) -> Run:
    """Teacher forcing: the target after its start token is the forced output."""
    count = len(target)
    arguments = ["--ids", ids_text(source), "-n", count, "--print-ids", "--quiet"]
    if count > 1:
        arguments += ["--prefix-ids", ids_text(target[1:])]
    with scratch.file() as first, scratch.file() as second, scratch.file() as third:
        arguments += ["--logits", first, "--hidden", second, "--hidden-decoder", third]
        run(program, "run", path, *arguments)
        logits, encoder, decoder = map(_array, (first, second, third))
    if logits.shape[0] < count:
        raise PhasorError(f"{program} gave logits of {logits.shape[0]} positions, expected {count}")
    return Run(encoder[1:-1], decoder[1:-1, :count], logits[:count])


# ---- Comparing


def difference(a: np.ndarray, b: np.ndarray, logits: bool = False) -> float:
    """The largest |a − b|: as a share of the position's range of logits, or of the layer's largest
    value."""
    gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
    if logits:
        return float((gap.max(axis=1) / np.maximum(np.ptp(b, axis=1), 1e-30)).max())
    return float(gap.max() / max(float(np.abs(b).max()), 1e-30))


def table(pairs: list[tuple[Run, Run] | None]) -> list[Row]:
    """A row for each layer and the logits, a column for each pair; None stays empty."""
    first = next(pair for pair in pairs if pair is not None)[0]

    def row(name: str, part: Callable[[Run], np.ndarray], logits: bool = False) -> Row:
        return Row(
            name,
            [
                None if pair is None else difference(part(pair[0]), part(pair[1]), logits)
                for pair in pairs
            ],
        )

    rows = [
        row(f"{name} layer {i}", lambda run: getattr(run, name)[i])
        for name in ("encoder", "decoder")
        for i in range(len(getattr(first, name)))
    ]
    return [*rows, row("logits (of the range)", lambda run: run.logits, True)]


def show(title: str, columns: list[str], rows: list[Row]) -> None:
    """The table: with rich where there is one, else plain text."""
    cells = [[row.name, *("—" if v is None else f"{v:.2e}" for v in row.values)] for row in rows]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(title)
        for line in [["", *columns], *cells]:
            print("".join(f"{text:<24}" for text in line).rstrip())
        return
    out = Table(title=title)
    out.add_column("")
    for column in columns:
        out.add_column(column, justify="right")
    for line in cells:
        out.add_row(*line)
    Console(width=None if sys.stdout.isatty() else 110).print(out)


def inputs_of(file: PhasorFile, args: argparse.Namespace) -> list[tuple[list[int], list[int]]]:
    """The ids of the command line, or those of the file's own test vectors."""
    d = file.descriptor
    if args.source_ids is not None:
        return [(args.source_ids, args.target_ids or [d["target"]["decoder_start"]])]
    if file.section(VECTORS):
        found = [
            (v.source.tolist(), v.target.tolist()) for v in V.read(file.section(VECTORS), d).vectors
        ]
    else:
        found = [(list(i.source), list(i.target)) for i in V.choose_inputs(d)]
    ends = set(d["target"]["end"])
    return [
        (source, [target[0], *(i for i in target[1:] if i not in ends)]) for source, target in found
    ]  # a forced end id would stop phasor


def engines(args: argparse.Namespace) -> tuple[Any, ...]:
    """The description, the file, PyTorch's module, the reference, and the program or None."""
    file = PhasorFile(args.model)
    toml = args.describe or described_beside(args.checkpoint)
    description = read_description(toml, partial(open_checkpoint, args.checkpoint))
    module = torch_module(description, args.checkpoint)
    program = None if args.no_phasor else find_phasor(args.phasor)
    return description, file, module, Reference(file), program


def compare(args: argparse.Namespace) -> bool:
    """Prints a table for each input; whether all is within bounds."""
    description, file, module, exact, program = engines(args)
    file.check()
    q8 = any(e.type == L.Q8 for e in file.entries.values())
    if program is None:
        print("verify: no phasor program: its columns are left out", file=sys.stderr)
    columns = ["reference − PyTorch (float64)", "phasor − reference", "phasor − PyTorch (float32)"]
    good = True
    for source, target in inputs_of(file, args):
        single = run_torch(module.float(), source, target)
        double = run_torch(module.double(), source, target)
        ours = run_reference(exact, source, target)
        engine = run_phasor(program, args.model.absolute(), source, target) if program else None
        with_engine = [(engine, ours), (engine, single)] if engine else [None, None]
        rows = table([(ours, double), *with_engine])
        show(f"{len(source)} source and {len(target)} target ids", columns, rows)
        last = rows[-1].values
        if not q8:
            good &= last[0] <= CONVERSION_BOUND and all(
                v is None or v <= F32_BOUND for v in last[1:]
            )
        elif engine and file.section(VECTORS):
            good &= last[1] <= V.read(file.section(VECTORS), file.descriptor).tolerance
        checked = engine or ours
        changed = int((checked.logits.argmax(axis=1) != double.logits.argmax(axis=1)).sum())
        print(
            f"{'phasor' if engine else 'the reference'} and PyTorch choose another best token at "
            f"{changed} of {len(target)} positions"
        )
    return bool(good)


# ---- Greedy output of whole sentences


def sentence_ids(description: Description, d: dict[str, Any], path: Path) -> list[list[int]]:
    """The source ids of each line by the sentencepiece package, with the prefix and suffix of the
    model."""
    try:
        import sentencepiece
    except ImportError as error:
        raise PhasorError(f"the sentencepiece package is needed: {error}") from error
    name = description.sides["source"]["tokenizer"]
    if not name.endswith(".model"):
        raise PhasorError(
            "--sentences needs a description whose source tokenizer is a SentencePiece .model"
        )
    pieces = sentencepiece.SentencePieceProcessor(str(description.path.parent / name))
    lines = read_text(path).splitlines()
    return [
        [*d["source"]["prefix"], *pieces.encode(line), *d["source"]["suffix"]] for line in lines
    ]


def phasor_greedy(
    program: Path, path: Path, sources: list[list[int]], most: int
) -> list[list[int]]:
    """`phasor run --ids -`: a list of ids a line in, a list a line out."""
    given = "".join(ids_text(ids) + "\n" for ids in sources)
    arguments = ("--ids", "-", "--print-ids", "-n", most, "--quiet")
    lines = run(program, "run", path, *arguments, text=given, limit=3600).splitlines()
    if len(lines) != len(sources):
        raise PhasorError(f"{program} gave {len(lines)} of {len(sources)} lines")
    return [printed_ids(line) for line in lines]


def first_difference(ours: list[int], theirs: list[int], ends: set[int]) -> int | None:
    """Where two outputs part; an end id may be printed or not."""
    strip = [ids[:-1] if ids and ids[-1] in ends else ids for ids in (ours, theirs)]
    if strip[0] == strip[1]:
        return None
    return next((i for i, (a, b) in enumerate(zip(*strip)) if a != b), min(map(len, strip)))


def compare_sentences(args: argparse.Namespace) -> bool:
    """Greedy output of phasor (without it: the reference) and of PyTorch's plain loop for each
    line; a difference counts only where the two candidates are further apart than 1e-4 of the range
    in double (rule 1.17)."""
    description, file, module, exact, program = engines(args)
    sources = sentence_ids(description, file.descriptor, args.sentences)
    ends = set(file.descriptor["target"]["end"])
    ours = (
        phasor_greedy(program, args.model.absolute(), sources, args.most)
        if program
        else [exact.greedy(ids, args.most) for ids in sources]
    )
    same = ties = 0
    for number, (source, mine) in enumerate(zip(sources, ours), 1):
        theirs = module.greedy(source, args.most)
        at = first_difference(mine, theirs, ends)
        if at is None:
            same += 1
            continue
        row = exact.decode(
            [file.descriptor["target"]["decoder_start"], *theirs[:at]], exact.encode(source).output
        ).logits[-1]
        pair = [ids[at] if at < len(ids) else min(ends) for ids in (mine, theirs)]
        gap = abs(row[pair[0]] - row[pair[1]]) / np.ptp(row)
        ties += gap <= F32_BOUND
        print(
            f"line {number}: token {at} is {pair[0]}, PyTorch has {pair[1]}; they are {gap:.2e} of "
            "the range apart"
        )
    print(
        f"{same} of {len(sources)} lines have the same tokens, {ties} differ between equals, "
        f"{len(sources) - same - ties} differ"
    )
    return same + ties == len(sources)


@front_door("verify")
def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(
        description="Compares PyTorch, the float64 reference and Phasor on the same input."
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument(
        "--describe",
        type=Path,
        help="Description of the model. Default: the name of the checkpoint with .toml.",
    )
    parser.add_argument("--source-ids", type=parse_ids)
    parser.add_argument(
        "--target-ids", type=parse_ids, help="Input of the decoder, beginning with its start token."
    )
    parser.add_argument(
        "--phasor", type=Path, help="Program to compare. Default: build/phasor, if it exists."
    )
    parser.add_argument("--no-phasor", action="store_true")
    parser.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="Compare the greedy output of each line instead.",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=100,
        metavar="N",
        help="With --sentences: at most N tokens. Default: 100.",
    )
    args = parser.parse_args(argv)
    if (compare_sentences if args.sentences else compare)(args):
        return 0
    raise PhasorError("the differences are larger than they may be")


if __name__ == "__main__":
    sys.exit(main())
