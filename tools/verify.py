#!/usr/bin/env python3
"""A weight file against its checkpoint."""

import sys

from phasor.verify import main

if __name__ == "__main__":
    sys.exit(main())
