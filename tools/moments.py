#!/usr/bin/env python3
"""Moments of the activations, for --moments."""

import sys

from phasor.entry import before_the_door

before_the_door()

from phasor.moments import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
