#!/usr/bin/env python3
"""Checkpoint to weight file (docs/convert.md)."""

import os
import sys

from phasor.start import start

# Its products are small, and NumPy's other threads would wait for them by spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if __name__ == "__main__":
    sys.exit(start("convert", "phasor.convert"))
