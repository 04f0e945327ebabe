#!/usr/bin/env python3
"""Trains the translator."""

import sys

from phasor.entry import before_the_door

before_the_door()

from train.translation import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
