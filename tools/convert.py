#!/usr/bin/env python3
"""Checkpoint to weight file (docs/reference/converter.md)."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("convert", "phasor.convert"))
