#!/usr/bin/env python3
"""The forward pass in float64."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("reference", "phasor.reference.forward"))
