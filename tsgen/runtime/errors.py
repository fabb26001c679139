"""What stops compiling or running for reasons outside the spec."""

from __future__ import annotations


class CannotRun(Exception):
    """The machine or the request does not allow it: no DSL, no GPU, a shape without all dims. Exit status 2."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        return self.message if self.help is None else f"{self.message}\n  = help: {self.help}"


NEEDS_DSL = "install the DSL for your CUDA, in the folder of tsgen: pip install -e '.[cu13]' (or '.[cu12]')"
NEEDS_NUMPY = "pip install numpy, or in the folder of tsgen: pip install -e '.[simulate]'"
NEEDS_TORCH = "install PyTorch built for the CUDA of this machine's driver"
