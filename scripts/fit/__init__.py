"""Scripts that fit the constants of the code to recorded data."""

import os

# Before numpy is imported: with another count of threads BLAS adds in another order, and the last digits differ.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
