"""The GPU of this machine, through torch."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from tsgen.model.targets import TARGETS
from tsgen.runtime.errors import NEEDS_TORCH, CannotRun


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that can run a target's code."""

    name: str  # "NVIDIA H200"
    sms: int  # multiprocessors


def find_device(target: str) -> Device:
    """The current GPU, if it runs the target. Raises CannotRun: no torch, no GPU, another compute capability."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise CannotRun("running a kernel needs PyTorch, which this Python does not have", NEEDS_TORCH) from None
    except OSError as e:  # a library that torch needs
        raise CannotRun(f"PyTorch cannot be loaded: {e}", NEEDS_TORCH) from None
    if not torch.cuda.is_available():
        raise CannotRun(
            "no GPU: running a kernel needs one of compute capability "
            f"{_dotted(TARGETS[target].capability)} and a driver that PyTorch {torch.__version__} works with",
            "`tsgen check` and `tsgen build --compile` need none",
        )
    have, want = torch.cuda.get_device_capability(), TARGETS[target].capability
    name = torch.cuda.get_device_name()
    if tuple(have) != want:
        raise CannotRun(
            f"{target} code needs a GPU of compute capability {_dotted(want)}; {name} has {_dotted(tuple(have))}",
            "choose another target of the spec with --target",
        )
    return Device(name, torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def _dotted(capability: tuple[int, ...]) -> str:
    return ".".join(str(n) for n in capability)
