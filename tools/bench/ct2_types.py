"""CTranslate2's types of a translator, for bench.quality: the weights of the f32 file, given to it
as translator.py does, and its own greedy search."""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Sequence

from bench.peers import token
from bench.translator import export_peer, never_chosen
from phasor.format.file import PhasorFile

TYPES = ("float32", "float16", "bfloat16", "int16", "int8")
_LENGTH = 256  # most tokens of an output


def outputs(
    model: Path, sources: Sequence[Sequence[int]], threads: int, folder: Path
) -> Iterator[tuple[str, Path, list[list[int]]]]:
    """(type, file of weights, ids of each output); a file is there until the next is asked for."""
    import ctranslate2

    file = PhasorFile(model)
    lines = [[token(i) for i in ids] for ids in sources]
    never = [[token(i)] for i in never_chosen(file.descriptor)]
    for kind in TYPES:
        export_peer(folder, kind, file)
        engine = ctranslate2.Translator(
            str(folder / "translator"), compute_type="default", intra_threads=threads
        )
        results = engine.translate_batch(
            lines,
            beam_size=1,
            max_decoding_length=_LENGTH,
            max_input_length=0,
            suppress_sequences=never,
            max_batch_size=32,
        )
        ids = [[int(t[1:]) for t in result.hypotheses[0]] for result in results]
        yield kind, folder / "translator" / "model.bin", ids
