#!/usr/bin/env python3
"""Trains the translator."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("train_translation", "train.translation"))
