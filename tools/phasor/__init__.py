"""Phasor's Python side: checkpoints and weight files. `python -m phasor.convert`, `.verify`,
`.plot`; converter.md. architecture.md has the packages; each imports those above it.

`phasor.load` opens a weight file and runs it (docs/guide/python.md). It is imported when it is
first asked for, with numpy and the shared library; the converter is imported by its commands."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phasor.runtime import (
        Aligned,
        Error,
        Filled,
        Info,
        Label,
        Model,
        Ranked,
        Score,
        Session,
        Status,
        Step,
        TokenScore,
        load,
    )

__all__ = [
    "Aligned",
    "Error",
    "Filled",
    "Info",
    "Label",
    "Model",
    "Ranked",
    "Score",
    "Session",
    "Status",
    "Step",
    "TokenScore",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from phasor import runtime

    return getattr(runtime, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
