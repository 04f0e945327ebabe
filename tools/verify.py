#!/usr/bin/env python3
"""A weight file against its checkpoint."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("verify", "phasor.verify"))
