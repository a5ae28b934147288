#!/usr/bin/env bash
# ci/gpu on the stand-ins: its search for libraries, what it counts, what it refuses. Nothing here is
# a result of a GPU, and the script must say so itself.
# Usage: gpu_script.sh SCRIPT DDPROVE UNIT_DEVICE BENCH CUBLAS NCCL
set -u
script=$1 unit=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DDPROVE_CUBLAS=$5 DDPROVE_NCCL=$6 GPU_DIR=$work/gpu
# A few cases of the contract, and figures of next to no work: the script is what is tested.
export GTEST_FILTER='device.*copy*:device.*zero*:device_cuda.query_tells' GPU_BENCH_SECONDS=0.2 GPU_BENCH_KI=1
status=0
fail() { echo "FAILED: $*" >&2; status=1; }

# run WANTED_STATUS ARGUMENT...: the script's output goes to $work/out.
run() {
    local wanted=$1 got
    shift
    "$script" "$@" >"$work/out" 2>&1
    got=$?
    if ((got != wanted)); then
        fail "ci/gpu $* ended with $got, not $wanted"
        tail -n 30 "$work/out" >&2
    fi
}
expect() { grep -q -- "$1" "${2:-$work/out}" || fail "no line with \"$1\" in ${2:-the output}: $(cat "${2:-$work/out}")"; }

mkdir -p "$GPU_DIR/bin" "$GPU_DIR/lib"
ln -s "$2" "$GPU_DIR/bin/ddprove"
ln -s "$unit" "$GPU_DIR/bin/unit_device_cuda"
ln -s "$4" "$GPU_DIR/bin/bench_gpu"
echo rehearsal >"$GPU_DIR/commit"

# --- the search: newest major, whole cuBLAS only, no stubs, a wheel before a toolkit ---------------
tree() {
    local file
    rm -rf "$work/root"
    for file in "$@"; do
        mkdir -p "$work/root/$(dirname "$file")"
        : >"$work/root/$file"
    done
}
# searched CUBLAS NCCL: what has to be found; "-" is nothing.
searched() {
    (unset DDPROVE_CUBLAS DDPROVE_NCCL VIRTUAL_ENV
     GPU_SEARCH_ROOT=$work/root "$script" libraries) >"$work/out" 2>&1
    if [[ $1 == - ]]; then expect '^cuBLAS: none found'; else expect "^cuBLAS: $work/root/$1\$"; fi
    if [[ $2 == - ]]; then expect '^NCCL: none found'; else expect "^NCCL: $work/root/$2\$"; fi
}
wheels=opt/torch/.venv/lib/python3.12/site-packages/nvidia
toolkit=usr/local/cuda-13.0/targets/x86_64-linux/lib
tree
mkdir -p "$work/root"
searched - -
tree $wheels/cu13/lib/libcublas.so.13 $wheels/cu13/lib/libcublasLt.so.13 $wheels/nccl/lib/libnccl.so.2
searched $wheels/cu13/lib/libcublas.so.13 $wheels/nccl/lib/libnccl.so.2
tree $wheels/cublas/lib/libcublas.so.12 $wheels/cublas/lib/libcublasLt.so.12 \
    $toolkit/libcublas.so.13 $toolkit/libcublas.so.13.0.2 $toolkit/libcublasLt.so.13
searched $toolkit/libcublas.so.13 -
tree $wheels/cu13/lib/libcublas.so.13 $wheels/cublas/lib/libcublas.so.12 \
    $wheels/cublas/lib/libcublasLt.so.12 $toolkit/stubs/libcublas.so.13 $toolkit/stubs/libcublasLt.so.13
searched $wheels/cublas/lib/libcublas.so.12 -
tree usr/local/cuda-11/lib64/libcublas.so.11 usr/local/cuda-11/lib64/libcublasLt.so.11 \
    usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9 usr/lib/x86_64-linux-gnu/libnccl.so.2
searched - usr/lib/x86_64-linux-gnu/libnccl.so.2

# --- refusals --------------------------------------------------------------------------------------
before=$(ls "$(dirname "$script")/gpu-results")
run 2 run
expect 'a rehearsal is no result'
run 2 run --to "$(dirname "$script")/gpu-results/../gpu-results/x"
[[ $(ls "$(dirname "$script")/gpu-results") == "$before" ]] || fail "a rehearsal was written to ci/gpu-results"
run 2 run --minutes soon
expect 'needs a number'
GPU_DIR=$work/nowhere run 2 run
expect 'run ci/gpu build first'
DDP_STANDIN_CARDS=0 run 77 run --to "$work/none"
expect 'no card'
[[ ! -e $work/none ]] || fail "without a card a file was written"

# --- a bundle that would not start everywhere -------------------------------------------------------
# link FILE VERSION LIBRARY [OPTION...]: a program that needs an interface of that version.
link() {
    local file=$1 version=$2 library=$3
    shift 3
    mkdir -p "$work/link"
    echo 'void needed(void) {}' >"$work/link/library.c"
    echo 'void needed(void); void _start(void) { needed(); }' >"$work/link/program.c"
    echo "$version { needed; };" >"$work/link/versions"
    "${CC:-cc}" -shared -fPIC -nostdlib -Wl,-soname,"$library" -Wl,--version-script="$work/link/versions" \
        -o "$work/link/library.so" "$work/link/library.c" &&
        "${CC:-cc}" -nostdlib -o "$file" "$work/link/program.c" "$work/link/library.so" "$@" ||
        fail "no program that needs $version of $library"
}
bundle=$work/bundle
mkdir -p "$bundle/bin" "$bundle/lib"
# checked STATUS: of a bundle with one more program, which is then taken out.
checked() {
    GPU_DIR=$bundle run "$1" check
    rm "$bundle/bin/one"
}
link "$bundle/lib/libours.so.1" GLIBC_2.4 libc.so.6
link "$bundle/bin/two" GLIBC_2.34 libc.so.6 -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib'
link "$bundle/bin/one" OURS_99 libours.so.1
checked 0
for newer in GLIBC_2.35 GLIBC_2.34.1 GLIBC_3.0 GLIBC_PRIVATE GLIBC_ABI_DT_RELR; do
    link "$bundle/bin/one" $newer libc.so.6
    checked 1
    expect "^ci/gpu: $bundle/bin/one needs $newer (at hand"
done
link "$bundle/bin/one" GLIBCXX_3.4.30 libstdc++.so.6
checked 1
expect 'bin/one needs GLIBCXX_3.4.30 '
link "$bundle/bin/one" FYAML_1 libfyaml.so.0
checked 1
expect 'bin/one needs libfyaml.so.0 '
link "$bundle/bin/one" GLIBC_2.4 libc.so.6 -Wl,-rpath,'$ORIGIN/../lib:'
checked 1
expect 'bin/one needs libraries in "$ORIGIN/../lib:" '
echo '#!/bin/sh' >"$bundle/bin/one"
checked 1
expect 'no dynamic ELF file'
# What the loader says of too old a system is no lack of a card.
mkdir -p "$work/old/bin"
printf '#!/bin/sh\necho "ddprove: version GLIBC_2.34 not found" >&2; exit 1\n' >"$work/old/bin/ddprove"
chmod +x "$work/old/bin/ddprove"
GPU_DIR=$work/old run 1 run
expect 'does not start here (1): ddprove: version GLIBC_2.34 not found'
expect 'no older than GLIBC_'
printf '#!/bin/sh\necho "GPUs   yes  1 x card, driver 13.0"; echo "BLAS no"; exit 1\n' >"$work/old/bin/ddprove"
GPU_DIR=$work/old run 1 run
expect 'there is a card, but ddprove is not ready'
expect '^BLAS no'

# --- a run -----------------------------------------------------------------------------------------
export GPU_PARTS='@(contact/lazy|conformance|one_gpu/device/trap|one_gpu/device/unused|memcheck)'
run 0 run --minutes 1 --to "$work/good"
file=$(tail -n 1 "$work/out")
[[ $file == "$work"/good/*-stand-in-not-a-GPU*.txt ]] || fail "the file is called $file"
expect '^REHEARSAL: stand-in, not a GPU' "$file"
expect '^commit: rehearsal' "$file"
for part in contact/lazy conformance one_gpu/device/trap one_gpu/device/unused; do
    expect "^$part: ok, [0-9]* s\$" "$file"
done
expect '^memcheck: \(ok\|skipped: compute-sanitizer is not installed\)' "$file"
expect '^    PASS  *proc device.trap' "$file"
expect ' passed, 0 failed, ' "$file"

# --- cards that CTest lends are those that the ranks see -------------------------------------------
mkdir "$work/ctest"
lend() { # NAME GROUPS
    printf 'add_test(%s "%s" run "%s" --driver proc -j 1 --set job.ranks=2 --ranks-per-gpu 1 --out "%s")\n' \
        "$1" "$GPU_DIR/bin/ddprove" "$(dirname "$script")/../scenarios/device/unchecked.yaml" "$work/ctest/$1"
    printf 'set_tests_properties(%s PROPERTIES RESOURCE_GROUPS "%s" SKIP_RETURN_CODE 77)\n' "$1" "$2"
}
{ lend one gpus:1; lend two 2,gpus:1; } >"$work/ctest/CTestTestfile.cmake"
export DDP_STANDIN_CARDS=3 CUDA_VISIBLE_DEVICES=1,2
"$GPU_DIR/bin/ddprove" list resources >"$work/ctest/cards.json"
(cd "$work/ctest" && ctest --resource-spec-file cards.json -V) >"$work/out" 2>&1
expect 'id": "1", "slots": 1}\]' "$work/ctest/cards.json"
expect '2 ranks at 1 a card need 2 cards, there are 1'
expect ' one .*Skipped'
expect ' two .*Passed'
unset DDP_STANDIN_CARDS CUDA_VISIBLE_DEVICES

# --- what fails, and what is skipped although there is a card, is seen -----------------------------
GPU_PARTS='@(conformance|bench)'
rm "$GPU_DIR/bin/unit_device_cuda" "$GPU_DIR/bin/bench_gpu"
printf '#!/bin/sh\necho "[  SKIPPED ] device.copies"\n' >"$GPU_DIR/bin/unit_device_cuda"
printf '#!/bin/sh\necho figures; exit 3\n' >"$GPU_DIR/bin/bench_gpu"
chmod +x "$GPU_DIR"/bin/*
run 1 run --to "$work/bad"
expect '^conformance: FAILED with 1,'
expect '^bench: FAILED with 3,'
expect '^0 passed, 2 failed, 0 skipped$'
exit $status
