#!/usr/bin/env python3
"""The forward pass in float64."""

import sys

from phasor.reference.forward import main

if __name__ == "__main__":
    sys.exit(main())
