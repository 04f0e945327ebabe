"""Phasor's Python side: checkpoints and weight files. `python -m phasor.convert`, `.verify`,
`.plot`; converter.md. architecture.md has the packages; each imports those above it.

`phasor.load` opens a weight file and runs it, `phasor.export` writes one of a live PyTorch module
(docs/guide/python.md). They are imported when they are first asked for, with numpy and the shared
library; the converter is imported by its commands, and PyTorch by `export` alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phasor.live import Exported, export
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
    "Exported",
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
    "export",
    "load",
]

_LIVE = ("Exported", "export")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _LIVE:
        from phasor import live

        return getattr(live, name)
    from phasor import runtime

    return getattr(runtime, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
