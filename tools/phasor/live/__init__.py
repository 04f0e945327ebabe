"""A live PyTorch module as a source: what it computes is read from the calls that it makes, and
proved against its own outputs (`phasor.export`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Sequence

from phasor.live.asked import Exported, asked
from phasor.runtime.library import Error

__all__ = ["Exported", "export"]


def export(
    module: Any,
    output: os.PathLike[str] | str,
    *,
    example: Any = None,
    tokenizer: Any = None,
    type: str | None = None,
    output_type: str | None = None,
    start: int | None = None,
    end: int | Sequence[int] | None = None,
    pad: int | None = None,
    labels: Sequence[str] | None = None,
    task: str | None = None,
    save_description: os.PathLike[str] | str | None = None,
    quiet: bool = False,
) -> Exported:
    """Writes a live `torch.nn.Module` to a weight file, proved against the module's own outputs.

    module: as it is; it is copied, and left as it was. A model of transformers or of
    sentence-transformers, or a pipeline, is read by its family, and needs no example. example: what
    it is called with: ids (B, T), vectors (B, T, E), a tuple of a source and a target, or a dict of
    named arguments. tokenizer: a file, or a tokenizer of transformers or tokenizers; a list of two
    for two sides. type, output_type: of the matrices, as `convert.py --type`. start, end, pad: ids.
    labels: a name for each class. task: "values" for numbers in place of classes, "multi-label".
    save_description: where the description that was found is written too.

    Raises Error, with nothing written, where the module is not one that can be described, where an
    argument that no call says is missing, or where nothing agrees with the module to 1e-5.
    """
    from phasor.errors import PhasorError

    try:
        said = {"start": start, "end": end, "pad": pad, "labels": labels, "task": task}
        what = asked(example, tokenizer, (type, output_type), said, save_description, quiet)
        try:
            import torch
        except ImportError as error:
            raise PhasorError(
                "phasor.export needs PyTorch: pip install 'phasor-engine[torch]'"
            ) from error
        from phasor.live import library

        family = library.known(module, tokenizer)
        if family is not None:
            return library.exported(family, Path(output), what)
        if not isinstance(module, torch.nn.Module):
            raise PhasorError(f"module: a {module.__class__.__name__}, expected a torch.nn.Module")
        from phasor.live.exporting import exported

        return exported(module, Path(output), what)
    except Error:
        raise
    except PhasorError as error:
        raise Error(str(error)) from error
