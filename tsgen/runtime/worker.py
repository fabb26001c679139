"""The process that compiles: run by path with the request as its argument, imports nothing of tsgen.

Request (JSON): module, kernel, kind (ptx, cubin, aot), choices ("default", "all" or a list of mappings), out (an
empty folder, also CUTE_DSL_DUMP_DIR). Answer: `answer.json` in that folder, see tsgen.runtime.compile.
"""

import importlib.util
import inspect
import itertools
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType


def load(path: str) -> ModuleType:
    """The generated module, from its file: the DSL reads the source of what it compiles."""
    spec = importlib.util.spec_from_file_location("tsgen_generated_" + Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def choices(module: ModuleType, wanted: str | list[dict[str, str]]) -> list[dict[str, str]]:
    """The dtype choices to compile for, the default first. A choice is a keyword of the module's `compile`, and the
    module's dict of that name in capitals has its words."""
    defaults = {n: p.default for n, p in inspect.signature(module.compile).parameters.items() if n != "options"}
    if wanted == "default":
        return [defaults]
    if wanted == "all":
        words = [list(getattr(module, n.upper(), {d: None})) for n, d in defaults.items()]
        every = [dict(zip(defaults, pick, strict=True)) for pick in itertools.product(*words)]
        return sorted(every, key=lambda c: c != defaults)
    assert not isinstance(wanted, str)
    return [{**defaults, **c} for c in wanted]


def is_default(module: ModuleType, choice: dict[str, str]) -> bool:
    parameters = inspect.signature(module.compile).parameters
    return all(parameters[n].default == c for n, c in choice.items())


def newest(out: Path, suffix: str, seen: set[Path]) -> str:
    """The one file of that suffix which the last compile wrote."""
    new = set(out.glob(f"*{suffix}")) - seen
    if len(new) != 1:
        raise RuntimeError(f"the DSL wrote {len(new)} files *{suffix} instead of 1")
    seen |= new
    return str(new.pop())


def build(request: dict) -> dict:  # type: ignore[type-arg]
    out = Path(request["out"])
    module = load(request["module"])
    results, seen = [], set(out.iterdir())
    for number, choice in enumerate(choices(module, request["choices"])):
        # TVM-FFI is for what is loaded and called: what is only read goes without it, and gives the same kernel
        function = module.compile(**choice, **({} if request["kind"] == "aot" else {"options": ""}))
        files = {}
        if request["kind"] == "aot":
            files["o"] = str(out / f"{number}.o")
            function.export_to_c(files["o"], function_name=request["kernel"])
        else:
            files[request["kind"]] = newest(out, f".{request['kind']}", seen)
        results.append({"choice": choice, "default": is_default(module, choice), "files": files})
    answer: dict[str, object] = {"results": results}
    if request["kind"] == "aot":
        from cutlass.cute import runtime

        answer["libraries"] = runtime.find_runtime_libraries(enable_tvm_ffi=True)
    return answer


def failure(e: BaseException, module: str) -> dict[str, object]:
    """The kind of a failure, its text, and the last line of the generated module that it went through."""
    lines = [f.lineno for f in traceback.extract_tb(e.__traceback__) if os.path.abspath(f.filename) == module]
    missing = e.name if isinstance(e, ModuleNotFoundError) else None
    return {"failure": type(e).__name__, "text": str(e), "line": lines[-1] if lines else None, "missing": missing}


def main() -> int:
    request = json.loads(sys.argv[1])
    try:
        answer = build(request)
    except Exception as e:
        answer = failure(e, request["module"])
    (Path(request["out"]) / "answer.json").write_text(json.dumps(answer))
    return 1 if "failure" in answer else 0


if __name__ == "__main__":
    sys.exit(main())
