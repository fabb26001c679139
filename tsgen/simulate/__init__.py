"""Executes a spec on the CPU: warps, asynchronous engines, barriers and poisoned memory, under many schedules.

A second opinion beside the verifier's: it shares the model and what is derived with it, and no code of its machine.
NumPy is needed here; nothing but `tsgen simulate` imports it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy comes: on tiles its threads cost more than they do
