#!/usr/bin/env python3
"""Trains a small language model."""

import sys

from phasor.start import start

if __name__ == "__main__":
    sys.exit(start("train_decoder", "train.decoder"))
