"""NumPy's threads in a conversion: imported before NumPy. The products of test vectors are small,
and OpenBLAS's other threads wait for them by spinning: on a busy machine that is most of the time
of a conversion. A value that the user has set stays. Standard library only."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
