"""`--emit ts`: the same kernel against NVIDIA's Task Scheduling (`cutlass.experimental.task_scheduling`).

All of the module stays as in CuTe but the kernel's tasks: each resource becomes a MemoryResource class whose work
methods hold the statements that the CuTe form has in its task branches, each schedule a `@schedule` function, and TS's
TaskManager validates and runs them. What TS cannot say is refused by name.
"""

from tsgen.lower.ts.kernel import lower_ts

__all__ = ["lower_ts"]
