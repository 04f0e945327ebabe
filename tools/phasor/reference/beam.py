"""Beam search in float64, written as it is defined: every continuation of every beam, put in order.
numpy only; for tests and for reading.

    beam.py MODEL --source-ids 1,2,3 --beam 4 [-n 20] [--length-penalty 1.0] [--early-stopping
    no|yes|never]
    beam.py MODEL --target-ids 5,6,7 --beam 4           a decoder: its prompt

Prints the outputs, best first: score, log-probability, ids. The rules are those of
phasor_beam_search (include/phasor.h), which are transformers'.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from phasor.arguments import Parser
from phasor.entry import front_door
from phasor.format.file import PhasorFile
from phasor.reference.forward import Reference, parse_ids, start_token
from phasor.reference.functions import Array

EARLY = ("no", "yes", "never")


class Output(NamedTuple):
    score: float
    log_probability: float
    ids: tuple[int, ...]


def log_softmax(x: Array) -> Array:
    x = np.asarray(x, dtype=np.float64)
    x = x - x.max()
    result: Array = x - np.log(np.exp(x).sum())
    return result


def beam_search(
    logits: Callable[[tuple[int, ...]], Array],
    ends: Sequence[int],
    beams: int,
    most: int,
    length_penalty: float = 1.0,
    early_stopping: str = "no",
) -> list[Output]:
    """The outputs, best first. logits(ids): of what follows the new tokens `ids`, (vocabulary,).
    most: tokens of an output at most."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    done: list[Output] = []
    for made in range(1, most + 1):
        candidates = []
        for beam, (score, ids) in enumerate(live):
            candidates += [
                (score + p, beam, i, ids + (i,))
                for i, p in enumerate(log_softmax(logits(ids)))
                if p > -np.inf
            ]
        candidates.sort(key=lambda c: (-c[0], c[1], c[2]))
        done += [
            Output(score / made**length_penalty, score, ids)
            for score, _, i, ids in candidates[:beams]
            if i in ends or made == most
        ]
        done = sorted(done, key=lambda o: -o.score)[:beams]
        live = [(score, ids) for score, _, i, ids in candidates if i not in ends][:beams]
        if not live or made == most:
            break
        reach = most if early_stopping == "never" and length_penalty > 0 else made
        if len(done) == beams and (
            early_stopping == "yes" or live[0][0] / reach**length_penalty <= done[-1].score
        ):
            break
    return done


def search_model(
    reference: Any,
    source: Sequence[int],
    prompt: Sequence[int],
    beams: int,
    most: int,
    **options: Any,
) -> list[Output]:
    """With a model: reference.Reference. An empty prompt is the start token."""
    target = reference.d["target"]
    start = tuple(prompt) or (start_token(target),)
    memory = reference.encode(source).output if "encoder" in reference.d else None

    def logits(ids: tuple[int, ...]) -> Array:
        result: Array = reference.decode(list(start + ids), memory).logits[-1]
        return result

    return beam_search(logits, target["end"], beams, most, **options)


@front_door("beam")
def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    for side in ("source", "target"):
        parser.add_argument(f"--{side}-ids", type=parse_ids, default=[])
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("-n", type=int, default=20)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    parser.add_argument("--early-stopping", choices=EARLY, default="no")
    args = parser.parse_args()
    for one in search_model(
        Reference(PhasorFile(args.model)),
        args.source_ids,
        args.target_ids,
        args.beam,
        args.n,
        length_penalty=args.length_penalty,
        early_stopping=args.early_stopping,
    ):
        print(f"{one.score:.6f}\t{one.log_probability:.6f}\t" + ",".join(map(str, one.ids)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
