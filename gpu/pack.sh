#!/usr/bin/env bash
# usage: gpu/pack.sh   builds what the GPU tests run, for a machine with a GPU that has neither the DSL nor a network.
# Needs the DSL here (PYTHON: the interpreter that has it). Fills .gpu/: lib (modules and AOT libraries), rt (what they
# need at run time, for CPython 3.12). Then take the project with .gpu there and call gpu/go.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
SHARED=${SHARED:-../shared} # scripts that fetch the run-time libraries; the hand-written target of the speed table
export PYTHONPATH=$PWD

"$PYTHON" -m tests.gpu.builds .gpu/lib

mkdir -p .gpu/lib/target
install -m 644 "$SHARED"/targets/{gemm_fast,attention}_sm90a.py .gpu/lib/target/
for variant in full_fast causal_fast full_wg3 causal_wg3; do # the target behind the arguments of our module
  sed "s/\"VARIANT\"/\"$variant\"/" gpu/attention_target.py >".gpu/lib/target/attention_$variant.py"
done
"$PYTHON" - <<'EOF'
from pathlib import Path
from tsgen.runtime.compile import compile_module
target = Path(".gpu/lib/target")
for module in (target / "gemm_fast_sm90a.py", *sorted(target.glob("attention_*_*.py"))):
    for file in compile_module(module, "aot"):
        if file.suffix == ".o":
            file.unlink()
EOF

if [ ! -f .gpu/rt/unpack_runtime.sh ]; then
  "$SHARED/gpu/pack_runtime.sh" .gpu/rt
fi
if ! compgen -G '.gpu/rt/click-*.whl' >/dev/null; then # the command line's one dependency that the machine may lack
  "$PYTHON" -m pip download -q --no-deps --only-binary=:all: -d .gpu/rt 'click>=8.1'
fi
du -sh .gpu/lib .gpu/rt
kib=$(du -sk .gpu | cut -f1)
[ "$kib" -lt 61440 ] || { echo ".gpu has $kib KiB, more than 60 MiB" >&2; exit 1; }
