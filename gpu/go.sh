#!/usr/bin/env bash
# usage, on a machine with a GPU, after gpu/pack.sh elsewhere:
#   gpu/go.sh check [BUILD...]      results and refusals of each build, and `tsgen run` over the libraries
#   gpu/go.sh sanitize [BUILD...]   compute-sanitizer: racecheck, synccheck, memcheck on small shapes
#   gpu/go.sh bench [ROUNDS]        the GEMM beside cuBLAS and the hand-written target
#   gpu/go.sh memory [ROUNDS]       what memory bounds: copies, RMSNorm, chains; beside device copies
#   gpu/go.sh attention [ROUNDS]    attention beside cuDNN and the hand-written target
# Each takes a few minutes. Logs go to $OUT (default .gpu/out). A wrong schedule hangs: every run has its time limit.
set -uo pipefail
cd "$(dirname "$0")/.."
source .gpu/rt/unpack_runtime.sh .gpu/rt
export PYTHONPATH=$PWD:$PYTHONPATH TSGEN_AOT=.gpu/lib NO_COLOR=1 LC_ALL=C PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
OUT=${OUT:-.gpu/out}
mkdir -p "$OUT"
status=0
builds() { [ $# -gt 0 ] && echo "$@" || (cd .gpu/lib && ls | grep -v '^target$'); }
failed() { # what timeout and the tests return, in words
  status=1
  case $1 in 124 | 137) echo "FAIL $2: no end in time (a hang?)" ;; *) echo "FAIL $2: status $1" ;; esac
}
spec_of() { # the spec that a build's name begins with
  local name=$1
  until [ -f "specs/$name.yaml" ] || [ -z "$name" ]; do case $name in *_*) name=${name%_*} ;; *) name= ;; esac; done
  echo "specs/$name.yaml"
}
library() { ls .gpu/lib/"$1"/*.so | head -1; } # of the default dtypes: the shortest name comes first

check() {
  timeout 90 python3 -m pytest -q -p no:cacheprovider -m "not dsl" tests/unit/runtime >"$OUT/unit.log" 2>&1 || failed $? "unit tests"
  tail -1 "$OUT/unit.log"
  for b in $(builds "$@"); do
    echo "== $b"
    TSGEN_BUILD=$b timeout -k 5 75 python3 -m pytest -q -s -p no:cacheprovider --tb=short --no-header tests/gpu \
      >"$OUT/$b.log" 2>&1
    code=$?
    [ $code -eq 0 ] || { grep -E '^(E  |FAILED|ERROR|.*hangs)' "$OUT/$b.log" | cut -c1-240 | head -30; failed $code "$b"; }
    grep -E '[0-9]+ (passed|failed|error)' "$OUT/$b.log" | tail -1
    grep -E '^[a-z0-9_]+( [a-z0-9]+)?: [0-9]+ shapes' "$OUT/$b.log"
    [ "$b" != gemm_f16 ] || sed -n '/^refusals:/,/^[^ r]/p' "$OUT/$b.log" | grep '^ '
  done
  echo "== tsgen run"
  for b in copy copy_tma rmsnorm pdl_chain gemm_f16 gemm_bf16_bias_gelu; do
    timeout -k 5 45 python3 -c 'from tsgen.cli import main; main()' run "$(spec_of "$b")" --aot "$(library "$b")" || failed $? "run $b"
  done
}

sanitize() {
  export PYTORCH_NO_CUDA_MEMORY_CACHING=1 # so that each tensor is an allocation of its own
  if [ -d .gpu/lib/copy ]; then # does the tool see our kernels at all?
    timeout -k 5 120 compute-sanitizer --tool memcheck --kernel-name kernel_substring=kernel_cutlass --print-limit 3 \
      python3 -m tests.gpu.once control >"$OUT/control.log" 2>&1
    if grep -q 'Invalid __global__ read' "$OUT/control.log"; then
      echo "control: memcheck sees the planted fault, $(grep -o 'at .*kernel_cutlass_[a-z_]*' "$OUT/control.log" | head -1)"
    else
      tail -5 "$OUT/control.log" | cut -c1-200
      failed 1 "control: memcheck does not see a planted fault"
    fi
  fi
  for tool in memcheck synccheck racecheck; do
    for b in $(builds "$@"); do # side by side: the sanitizer is slow on the CPU
      timeout -k 5 240 compute-sanitizer --tool "$tool" --kernel-name kernel_substring=kernel_cutlass --error-exitcode 99 \
        --print-limit 5 python3 -m tests.gpu.once "$b" >"$OUT/$tool-$b.log" 2>&1 &
      eval "job_$b=$!"
    done
    for b in $(builds "$@"); do
      job=job_$b
      wait "${!job}"
      code=$?
      printf '%-10s %-22s %s | %s\n' "$tool" "$b" "$(grep -E 'results right|: ' "$OUT/$tool-$b.log" | grep -v '^=' | tail -1)" \
        "$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$OUT/$tool-$b.log" | sed 's/=* *//' | tail -1)"
      [ $code -eq 0 ] || { grep -E '^=========' "$OUT/$tool-$b.log" | cut -c1-160 | head -12; failed $code "$tool $b"; }
    done
  done
}

bench() {
  shapes=()
  for s in 2048,2048,2048 4096,4096,4096 512,8192,8192 8192,1024,8192 16384,4096,4096 8192,8192,8192; do
    IFS=, read -r m n k <<<"$s"
    shapes+=(--shape "M=$m,N=$n,K=$k")
  done
  nvidia-smi --query-gpu=name,power.limit,clocks.sm --format=csv,noheader
  timeout -k 5 280 python3 -c 'from tsgen.cli import main; main()' bench specs/gemm.yaml --aot "$(library gemm_f16)" \
    --against torch --against .gpu/lib/target/gemm_fast_sm90a.so --rounds "${1:-12}" "${shapes[@]}" || failed $? bench
}

memory() {
  nvidia-smi --query-gpu=name,power.limit,clocks.sm,clocks.mem --format=csv,noheader
  timed() { # BUILD, then what `tsgen bench` is told
    echo "== $1"
    timeout -k 5 90 python3 -c 'from tsgen.cli import main; main()' bench "$(spec_of "$1")" --aot "$(library "$1")" \
      --rounds "$rounds" "${@:2}" || failed $? "bench $1"
  }
  rounds=${1:-12}
  timed copy --against copy --shape N=134217728 --shape N=16777216
  timed copy_tma --against copy --shape M=16384,N=8192 --shape M=2048,N=8192
  timed rmsnorm --against copy --against torch --shape R=32768
  timed rmsnorm_n16384 --against copy --against torch --shape R=8192
  timed rmsnorm_n65536 --against copy --against torch --shape R=4096
  timed pdl_chain --against "$(library pdl_chain_serial)" --shape N=262144 --shape N=1048576 --shape N=4194304 --shape N=16777216
}

attention() {
  nvidia-smi --query-gpu=name,power.limit,clocks.sm --format=csv,noheader
  rounds=${1:-12}
  timed_attention() { # VARIANT TARGET, then B,S,H of each row
    local variant=$1 target=$2 rows=() row b s h
    shift 2
    for row in "$@"; do
      IFS=, read -r b s h <<<"$row"
      rows+=(--shape "B=$b,Sq=$s,Sk=$s,Hq=$h,Hk=$h")
    done
    timeout -k 5 140 python3 -c 'from tsgen.cli import main; main()' bench specs/attention.yaml --variant "$variant" \
      --aot "$(library "attention_$variant")" --against torch --against ".gpu/lib/target/attention_$target.so" \
      --rounds "$rounds" "${rows[@]}" || failed $? "bench attention $variant"
  }
  timed_attention full full_fast 2,8192,16 4,4096,16 1,16384,16
  timed_attention causal causal_fast 2,8192,16 4,4096,16
  timed_attention full_64 full_wg3 2,8192,32
  timed_attention causal_64 causal_wg3 2,8192,32
}

verb=${1:-}
case $verb in
  check | sanitize | bench | memory | attention) shift; "$verb" "$@" ;;
  *) sed -n '2,8p' "$0"; exit 2 ;;
esac
[ $status -eq 0 ] && echo "all well"
exit $status
