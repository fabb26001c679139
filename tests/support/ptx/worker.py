"""The process behind compiler.py, run by path: compiles the modules it is given and writes their PTX as JSON."""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")


def ptx(path: str) -> str:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the DSL reads the source of what it compiles
    try:
        spec.loader.exec_module(module)
        return str(module.compile(options="").__ptx__)
    except Exception as e:
        return f"error: {type(e).__name__}: {e}"


Path(sys.argv[1]).write_text(json.dumps({p: ptx(p) for p in sys.argv[2:]}))
