"""Run by path with a generated Blackwell module: traces its kernel and says how MMA operands and copies are laid out.

Prints JSON: of each operand the layout of the field as TMA writes it and as the MMA reads it, of each copy between
tensor memory and registers the coordinates (row, column) of a thread's registers, relative to the thread's row.
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")


def layout(x):
    return [nested(x.shape), nested(x.stride)]


def nested(x):
    if isinstance(x, tuple):
        return [nested(y) for y in x]
    return x if isinstance(x, int) else str(x)


spec = importlib.util.spec_from_file_location("traced", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["traced"] = module
spec.loader.exec_module(module)
found = {"operands": [], "copies": []}
made = module.mma_operand
copy = module.tcgen05.make_tmem_copy


def mma_operand(field, atom, shape, stages, order):
    view = made(field, atom, shape, stages, order)
    found["operands"].append([str(atom).rpartition(".")[2], layout(field.layout), layout(view.layout)])
    return view


def make_tmem_copy(atom, tensor):
    tiled = copy(atom, tensor)
    rows, columns = (module.cute.size(tensor, mode=[i]) for i in range(2))
    identity = module.cute.make_identity_tensor((rows, columns))
    part = tiled.get_slice(module.cute.arch.thread_idx()[0])
    side = part.partition_D if "Ld" in type(atom.op).__name__ else part.partition_S
    found["copies"].append([rows, columns, str(side(identity).layout)])
    return tiled


module.mma_operand = mma_operand
module.tcgen05.make_tmem_copy = make_tmem_copy
module.compile(options="")
Path(sys.argv[2]).write_text(json.dumps(found))
