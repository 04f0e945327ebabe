#!/usr/bin/env python3
"""Checkpoint to weight file (docs/convert.md)."""

import sys

from phasor.convert import main

if __name__ == "__main__":
    sys.exit(main())
