#!/usr/bin/env python3
"""Checkpoint to weight file (docs/convert.md)."""

import sys

from phasor.entry import before_the_door

before_the_door()

from phasor.convert import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
