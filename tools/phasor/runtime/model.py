"""A model: texts in, texts, ids and vectors out, with the bits of the program."""

from __future__ import annotations

import ctypes
import os

from phasor.runtime import _interface as c
from phasor.runtime.conversations import Conversations
from phasor.runtime.library import Error, check, new
from phasor.runtime.probabilities import Probabilities
from phasor.runtime.session import Session
from phasor.runtime.spans import Spans
from phasor.runtime.threads import interruptible
from phasor.runtime.weights import Weights


def load(path: str | os.PathLike[str], threads: int = 1, isa: str | None = None) -> Model:
    """Opens a weight file. The file is mapped, not copied: do not change it while it is open.

    threads: texts of a list that are computed at the same time, each in memory of its own; results
    do not depend on it. isa: the instruction-set level,
    default: the fastest of this machine. The structure of the file is checked; `verify` checks the
    weights.

    Raises Error if the file cannot be read, is damaged or is not a .phasor file.
    """
    if not 1 <= threads <= 256:
        raise Error(f"threads={threads}: expected 1 to 256")
    return Model(Weights(path, isa), threads)


class Model(Conversations, Probabilities, Spans):
    """An open weight file. Any number of threads can use one model: each has its own memory.

    `with` closes it. Sessions that are still open keep the file.
    """

    # ---- checks

    def verify(self) -> int:
        """Reads the whole file, checks it, and computes its test vectors. Returns their number.

        Raises Error if the file is damaged or a test vector gives a different result.
        """
        weights, error = self._weights, new(c.Error)
        check(weights.library.phasor_model_check(weights.model, ctypes.byref(error)), error,
              weights.path)  # fmt: skip
        vectors = []
        for index in range(self.info.vectors):
            vectors.append(new(c.Vector))
            weights.library.phasor_vector_get(weights.model, index, ctypes.byref(vectors[-1]))
        source = max([v.source_count for v in vectors], default=1)
        target = max([v.target_count for v in vectors], default=1)
        session = Session(weights, weights.limits(source or 1, target or 1))

        def call() -> None:
            for index in range(len(vectors)):
                session.run("phasor_vector_run", index, ctypes.byref(new(c.VectorResult)))

        interruptible(lambda stop: session.use(call, stop))
        return len(vectors)
