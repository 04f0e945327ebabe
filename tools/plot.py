#!/usr/bin/env python3
"""Pictures of a model."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("plot", "phasor.plot"))
