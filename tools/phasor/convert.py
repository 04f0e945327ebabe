"""Turns a checkpoint into a `.phasor` file. Needs numpy only.

    convert.py SOURCE -o model.phasor
               [--type TYPE] [--output-type TYPE]
               [--describe FILE.toml] [--tokenizer FILE|none|bytes]… [--expect FILE.npz]

SOURCE is one of

    a Hugging Face directory     config.json, weights, tokenizer: it says everything itself
    a PyTorch state_dict         .pt, .pth, .bin (no code in it is run), or safetensors; what its
                                 weights cannot say stands in a small TOML beside it (SOURCE with
                                 .toml, or --describe; docs/reference/description-keys.md)
    a file of llama2.c           which lacks only its tokenizer
    a GGUF file

The file gets test vectors from the float64 reference, and the hashes of phasor's own logits where a
phasor program is found. It is written whole or not at all. Exit: 0 done, 1 the model or the data is
bad, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Sequence

import phasor.threads  # noqa: F401  before NumPy
from phasor import tensor_report
from phasor import vectors as V
from phasor.arguments import Parser
from phasor.auto_type import AUTO
from phasor.chat import template as chat_template
from phasor.conversion import AUTO_INPUTS, INPUTS, INPUTS_HELP, ROTATED, convert, report
from phasor.drafts import explain
from phasor.entry import front_door, say
from phasor.errors import PhasorError, Problems, named
from phasor.families.model import Model
from phasor.files import check_output, described_beside, noting_maps, read_text
from phasor.format import descriptor as D
from phasor.format import layout as L
from phasor.format.file import CHAT
from phasor.ignored import ignoring, recorded
from phasor.program import find_phasor
from phasor.sources.find import OPTIONS, SOURCES, source_of
from phasor.sources.interface import Asked, Source
from phasor.sources.tokenizer_files import NONE

_TYPES = tuple(L.TYPES[kind] for kind in L.ROUNDED)


def note(text: str) -> None:
    say("convert", text)


def chat_section(
    source: Source, model: Model, path: Path, chat: Path | None, date: str | None
) -> dict[int, bytes]:
    """The chat program of a decoder: of the template given, or of the source's own; `none` is none.
    A template of the source's own that is not in the subset is left out with a line."""
    if chat == NONE or model.descriptor["model"]["stack"] != D.DECODER:
        return {}
    try:
        template, variables = source.template(model.chat_source or path, model.checkpoint)
        template = template if chat is None else read_text(chat)
        if template is None:
            return {}
        return {CHAT: chat_template.section_of(template, variables, date, model.notes)}
    except chat_template.Refused as error:
        if chat is not None:
            raise PhasorError(f"{chat}: {error} (--chat none converts without)") from error
        note(f"{path}: {error}: the model is converted without a chat program")
        return {}


def check_report(args: argparse.Namespace) -> None:
    """PhasorError where --report cannot be written, or is another file of this conversion."""
    if args.report is None or args.report == tensor_report.PRINTED:
        return
    if args.report.resolve() == args.output.resolve():
        raise PhasorError(f"--report {args.report}: is the output too: give it another name")
    check_output(args.report, *_inputs(args))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description="Converts a checkpoint to a .phasor file.")

    def add(flag: str, text: str, **more: Any) -> None:
        parser.add_argument(flag, help=text, **more)

    kinds = f"What to convert: {', '.join(source.what for source in SOURCES)}."
    add("source", kinds, type=Path, metavar="SOURCE")
    explain.add(parser)
    add(
        "--type",
        "Type of the matrices; norms, biases and tables stay f32. Default: f32; for a GGUF file, "
        f"the type that keeps each matrix exactly. {AUTO}: measure q8r and q8rh, with and without "
        "--smooth, and take the most accurate.",
        choices=(*_TYPES, AUTO),
    )
    add("--output-type", "Type of embeddings and output matrix. Default: --type.", choices=_TYPES)
    add("--inputs", INPUTS_HELP, choices=(*INPUTS, AUTO_INPUTS))
    add(
        "--tokenizer",
        "Tokenizer file. Give one for both sides, or one for the source and then one for the "
        "target. none: no tokenizer. bytes or bytes+N: each byte is an id, starting at 0 or N.",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
    )
    for option in OPTIONS:
        more = {"type": option.type, "default": option.default, "metavar": option.metavar}
        add(option.flag, option.help, **more)
    add(
        "--chat",
        "Chat template (Jinja) of a decoder. none: no template. Default: that of the source.",
        type=Path,
        metavar="FILE",
    )
    text = "Date that the chat template uses as today. Default: none."
    add("--chat-date", text, metavar="YYYY-MM-DD")
    add(
        "--ignore-key",
        "Ignore KEY in FILE (docs/reference/side-files.md). The weight file records this.",
        action="append",
        default=[],
        metavar="FILE:KEY",
    )
    add(
        "--phasor",
        "Program that records the hashes of the test vectors. Default: build/phasor, if it exists.",
        type=Path,
        metavar="PATH",
    )
    add(
        "--smooth",
        "Quantized types: scale the input channels of layers before rounding. Default: yes for "
        "encoders, else no.",
        action=argparse.BooleanOptionalAction,
        default=None,
    )
    for flag, metavar, text in (
        ("--types-of", "FILE.phasor", "Instead of --type: the types of this file's matrices."),
        ("--calibration", "FILE", f"{AUTO}: text to measure with. Default: random ids."),
        (
            "--moments",
            "FILE.npy",
            "Importance of each input of the matrices, from tools/moments.py, --full or not.",
        ),
        (
            "--expect",
            "FILE.npz",
            "Ids and outputs of your own model. They become the test vectors of the file.",
        ),
        (
            "--report",
            "FILE",
            "Write one line for each tensor: its use, mean, range, NaN values. -: standard output.",
        ),
    ):
        add(flag, text, type=Path, metavar=metavar)
    proof = "Test vectors to compute. short: without the longest. none: no vectors. Default: full."
    add("--proof", proof, choices=V.PROOFS, default=V.FULL)
    parser.add_argument("--quiet", action="store_true")
    args = parser.parse_args(argv)
    explain.check(parser, args)
    given = {option.flag for option in OPTIONS if getattr(args, option.name) != option.default}
    for option in OPTIONS:
        if option.beside and option.flag in given and option.beside not in given:
            both = ", ".join(sorted((option.flag, option.beside)))
            parser.error(f"{both}: expected both or neither")
    if args.types_of is not None and (args.type or args.output_type):
        parser.error("--types-of: goes without --type and --output-type")
    if args.type == AUTO and (args.smooth is not None or args.moments is not None):
        parser.error(f"--smooth, --no-smooth, --moments: go without {AUTO}, which chooses")
    if args.type == AUTO and args.inputs == ROTATED and not args.output_type:
        parser.error(f"--inputs rotated: goes without {AUTO}, whose q8rh is rotated by itself")
    if args.expect is not None and args.proof != V.FULL:
        parser.error("--proof: goes without --expect, whose outputs are the proof")
    if args.type != AUTO and args.calibration is not None:
        parser.error(f"--calibration: goes with --type {AUTO}")
    return args


def _inputs(args: argparse.Namespace) -> list[Path]:
    """The files that the command line names, and the description that may be beside the source."""
    paths = {name: value for name, value in vars(args).items() if isinstance(value, Path)}
    given = [value for name, value in paths.items() if name not in ("output", "report")]
    return [*given, *args.tokenizer, described_beside(args.source)]


def with_file(error: PhasorError, args: argparse.Namespace) -> PhasorError:
    """The error with the source's name, where it names no file and no flag yet."""
    names = [args.output, args.report, *_inputs(args), "--"]
    known = any(str(name) in str(error) for name in names if name is not None)
    return error if known else named(args.source, error)


@front_door("convert")
def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    if args.explain:
        return explain.draft(args, _inputs(args))
    check_output(args.output, *_inputs(args))
    check_report(args)
    try:
        asked = Asked(args.source, args.tokenizer, args.output, vars(args))
        with ignoring(args.ignore_key) as ignored, noting_maps() as read:
            source = source_of(asked)
            model, sections = source.read(asked)
            sections |= chat_section(source, model, args.source, args.chat, args.chat_date)
            model.descriptor["model"]["converter"] += recorded(ignored)
        tensor_report.write(model, args.report)
        phasor = find_phasor(args.phasor)
        rounding = convert(
            model,
            args.output,
            L.type_code(args.type) if args.type not in (None, AUTO) else None,
            sections,
            phasor,
            quiet=args.quiet,
            smooth=args.smooth,
            output_kind=L.type_code(args.output_type) if args.output_type else None,
            types_of=args.types_of,
            moments=args.moments,
            auto=args.type == AUTO,
            calibration=args.calibration,
            expect=args.expect,
            proof=args.proof,
            bits=args.inputs,
            origin=read,
        )
    except Problems:
        raise
    except PhasorError as error:
        raise with_file(error, args) from error
    if not args.quiet:
        for line in model.notes:
            note(line)
        if phasor is None and args.proof != V.NONE:
            note("no phasor program was found: the test vectors have no hashes of its logits")
        report(args.output, rounding)
        if source.proof and args.expect is None and args.proof != V.NONE:
            note(source.proof)
    return 0


if __name__ == "__main__":
    sys.exit(main())
