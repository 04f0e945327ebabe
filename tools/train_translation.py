#!/usr/bin/env python3
"""Trains the translator."""

import sys

from train.translation import main

if __name__ == "__main__":
    sys.exit(main())
