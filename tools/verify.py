#!/usr/bin/env python3
"""A weight file against its checkpoint."""

import sys

from phasor.entry import before_the_door

before_the_door()

from phasor.verify import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
