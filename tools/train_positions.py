#!/usr/bin/env python3
"""Trains models of every position encoding."""

import sys

from train.positions import main

if __name__ == "__main__":
    sys.exit(main())
