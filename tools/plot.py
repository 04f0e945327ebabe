#!/usr/bin/env python3
"""Pictures of a model."""

import sys

from phasor.plot import main

if __name__ == "__main__":
    sys.exit(main())
