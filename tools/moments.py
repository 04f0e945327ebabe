#!/usr/bin/env python3
"""Moments of the activations, for --moments."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("moments", "phasor.moments"))
