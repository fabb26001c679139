"""What ptxas made of a kernel: registers, spills and instruction counts of a cubin, by cuobjdump and nvdisasm.

Both come as pip packages (nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm) or with the CUDA toolkit; neither needs a GPU.
"""

from __future__ import annotations

import re
import shutil
import site
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tsgen.runtime.errors import CannotRun

_USAGE = re.compile(r"Function (\S+):\s*\n?\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);")
_HEX = re.compile(r"0x([0-9a-f]+)\s*$")


@dataclass(frozen=True, slots=True)
class Sass:
    """One kernel of a cubin. `opcodes` counts full mnemonics (`HGMMA.64x256x16.F32`), see `count`."""

    function: str
    registers: int  # per thread at launch, before setmaxnreg
    stack: int  # bytes per thread
    shared: int  # static, bytes
    local: int  # bytes per thread
    setmaxnreg: tuple[int, ...]  # the budgets of the USETMAXREG instructions, in order
    opcodes: Mapping[str, int]

    def count(self, mnemonic: str) -> int:
        """Instructions whose mnemonic is this one, or this one with more modifiers: `WARPGROUP.DEPBAR`."""
        return sum(n for op, n in self.opcodes.items() if op == mnemonic or op.startswith(mnemonic + "."))

    @property
    def spills(self) -> int:
        """Loads and stores of local memory."""
        return self.count("LDL") + self.count("STL")


def inspect_cubin(cubin: Path) -> list[Sass]:
    """The kernels of a cubin, in the file's order. Raises CannotRun without the tools or for another kind of file."""
    usage = {m[0]: [int(n) for n in m[1:]] for m in _USAGE.findall(_output("cuobjdump", "-res-usage", cubin))}
    code = _output("nvdisasm", "-c", cubin)
    return [_sass(name, usage[name], body) for name, body in _functions(code) if name in usage]


def _sass(name: str, usage: list[int], body: str) -> Sass:
    registers, stack, shared, local = usage
    opcodes: Counter[str] = Counter()
    budgets = []
    for op, operands in _INSTRUCTION.findall(body):
        opcodes[op] += 1
        if op.startswith("USETMAXREG") and (found := _HEX.search(operands)):
            budgets.append(int(found.group(1), 16))
    return Sass(name, registers, stack, shared, local, tuple(budgets), opcodes)


def _functions(code: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^//-+ \.text\.", code, flags=re.MULTILINE)[1:]:
        found = re.search(r"^\.text\.(\S+):", part, re.MULTILINE)
        if found:
            yield found.group(1), part


def find_tool(name: str) -> Path:
    """cuobjdump or nvdisasm: from the wheels beside this Python, else from PATH. Raises CannotRun."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    for folder in sorted(folders):
        wheels = sorted(Path(folder, "nvidia").glob(f"*/bin/{name}"))
        if wheels:
            return wheels[-1]
    on_path = shutil.which(name)
    if on_path is None:
        raise CannotRun(f"{name} is not installed", f"pip install nvidia-cuda-{name}")
    return Path(on_path)


def _output(tool: str, flag: str, cubin: Path) -> str:
    done = subprocess.run([find_tool(tool), flag, str(cubin)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(f"{tool} {flag} {cubin}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
