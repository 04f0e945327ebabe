#!/usr/bin/env python3
"""Pictures of a model."""

import sys

from phasor.entry import before_the_door

before_the_door()

from phasor.plot import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
