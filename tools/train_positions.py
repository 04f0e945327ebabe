#!/usr/bin/env python3
"""Trains models of every position encoding."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("train_positions", "train.positions"))
