#!/usr/bin/env python3
"""The forward pass in float64."""

import sys

from phasor.entry import before_the_door

before_the_door()

from phasor.reference.forward import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
