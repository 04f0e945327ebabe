#!/usr/bin/env python3
"""Moments of the activations, for --moments."""

import sys

from phasor.moments import main

if __name__ == "__main__":
    sys.exit(main())
