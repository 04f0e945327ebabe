"""The phasor program runs the test vectors of a file that is being made: it must agree with them,
and they get the hashes of its logits. numpy only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO, Callable, NamedTuple, Sequence

from phasor import scratch
from phasor.errors import PhasorError
from phasor.format.file import VECTORS, PhasorFile
from phasor.format.layout import F32, F64
from phasor.format.writer import replace_section
from phasor.program import ProgramFailed, run
from phasor.runs import Input, Ran, Step, steps_of
from phasor.vectors import (
    MOST_IN_FLOAT32,
    build_stored,
    measured_tolerance,
    moved_by_rounding,
    read,
    tolerance_of,
    with_hashes,
    with_tolerance,
)

_ANY_DIFFERENCE = 1e9  # a tolerance under which every vector runs to its end


# (what is counted, how many of it): called for each one.
Counting = Callable[[str, int], Step]


class Replay(NamedTuple):
    """What `phasor verify` says of a file's vectors."""

    vectors: list[dict[str, Any]]
    numerics: int
    divergence: float | None  # from the source's outputs, where the file has them

    @property
    def hashes(self) -> list[int]:
        return [int(vector["hash"], 16) for vector in self.vectors]

    def worst(self, name: str) -> float:
        result: float = max(vector[name] for vector in self.vectors)
        return result


class Disagrees(PhasorError):
    """The program gives something else than a test vector."""


def replay(program: Path, path: Path, count: int) -> Replay:
    """Disagrees where a vector does; PhasorError for all else that goes wrong."""
    failed = None
    with scratch.folder() as folder:
        try:
            printed = run(program, "verify", "--json", path, limit=1800, folder=folder)
        except ProgramFailed as error:
            failed, printed = error, error.printed
    try:
        result = json.loads(printed)
        found = Replay(result["vectors"], int(result["numerics"]), result.get("divergence"))
        if len(found.hashes) != count:
            raise ValueError
        differs = failed and any(vector["status"] != "ok" for vector in found.vectors)
    except (ValueError, KeyError, TypeError) as error:
        raise failed or PhasorError(
            f"{program} verify --json printed something else than {count} vectors with a hash"
        ) from error
    if failed:
        raise Disagrees(str(failed)) if differs else failed
    return found


def _agreed(
    stream: BinaryIO,
    section: bytes,
    inputs: Sequence[Input],
    phasor: Path,
    runs: Sequence[Ran] | None = None,
) -> tuple[bytes, Replay]:
    """The program's run of these vectors. Where it does not agree, a model whose values cancel is
    told from a wrong program by what rounding can do to it: that is the tolerance then. runs: of
    the reference in float64, where they are there."""
    path = Path(stream.name).absolute()
    replace_section(stream, VECTORS, section)
    try:
        return section, replay(phasor, path, len(inputs))
    except Disagrees:
        file = PhasorFile(path)
        moved = 8 * min(moved_by_rounding(file, inputs, runs), MOST_IN_FLOAT32)
        if moved <= read(section, file.descriptor).tolerance:
            raise
    section = with_tolerance(section, moved)
    replace_section(stream, VECTORS, section)
    return section, replay(phasor, path, len(inputs))


def finished(
    stream: BinaryIO,
    section: bytes,
    inputs: Sequence[Input],
    phasor: Path | None,
    counting: Counting = lambda _, __: lambda: None,
) -> tuple[bytes, dict[str, Any]]:
    """The test vectors with the tolerance of the file's types, and with hashes where there is a
    phasor program; and what that measured for the file's record. `section` is that of the exact
    weights."""
    file, path = PhasorFile(stream.name), Path(stream.name).absolute()
    exact = all(entry.type in (F32, F64) for entry in file.entries.values())
    step = counting("layers of the stored test vectors", steps_of(file.descriptor))
    if phasor is None:
        if exact:
            return section, {}
        return with_tolerance(section, measured_tolerance(section, file, inputs, step)), {}
    if exact:
        section, found = _agreed(stream, section, inputs, phasor)
    else:
        # The program must agree with float64 on the weights as they are stored; then it says how
        # far these are from the exact ones.
        usual = read(section, file.descriptor)
        stored, runs = build_stored(file, inputs, usual.author, step)
        _agreed(stream, stored, inputs, phasor, runs)
        replace_section(stream, VECTORS, with_tolerance(section, _ANY_DIFFERENCE))
        found = replay(phasor, path, len(inputs))
        worst = map(found.worst, ("worst_logit", "worst_residual", "worst_lead"))
        section = with_tolerance(section, tolerance_of(usual.tolerance, *worst))
    section = with_hashes(section, file.descriptor, found.hashes, found.numerics)
    if found.divergence is None:
        return section, {}
    return section, {"divergence": found.divergence, "numerics": found.numerics}
