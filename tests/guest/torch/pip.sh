#!/bin/sh
# The adapter as pip installs it from the tree: `import torch` loads it from there, and it shows a job to `ddprove exec`.
# Usage: pip.sh DDPROVE PYTHON
set -u
ddprove=$1 python=$2
scripts=$(dirname "$(realpath "$0")")
if ! "$python" -c 'import torch, setuptools' 2>/dev/null || ! "$python" -m pip --version >/dev/null 2>&1; then
    echo "SKIP: no PyTorch, setuptools and pip in $python; python3 -m venv DIR && DIR/bin/pip install torch==2.15.0" \
        "setuptools, then DDPROVE_TORCH_PYTHON=DIR/bin/python"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR="$folder" OMP_NUM_THREADS=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1
cp -r "$scripts/../../../harness/guest/torch" "$folder/source" # pip builds beside the sources
"$python" -m pip install -q --no-build-isolation --no-deps --target "$folder/there" "$folder/source" || exit 1
export PYTHONPATH="$folder/there"
cd "$folder" || exit 1
"$python" -c 'import sys, torch; sys.exit("ddprove_torch.adapter" not in sys.modules or
    not sys.modules["ddprove_torch.adapter"].__file__.startswith(sys.argv[1]))' "$folder/there/" || {
    echo "FAIL: import torch does not load the adapter from where pip has put it"
    exit 1
}
# ddprove puts a folder of its own in front: the ranks get this one alone.
"$ddprove" exec --ranks 2 -- env PYTHONPATH="$folder/there" "$python" "$scripts/broken.py" evaluated_on_rank_0 --steps 12 \
    >"$folder/out" 2>&1
code=$?
if [ "$code" -ne 1 ] || ! grep -q '^ddprove: MISMATCH.EXTRA, rank 0: ' "$folder/out"; then
    echo "FAIL: exit $code, not 1; said, instead of MISMATCH.EXTRA of rank 0:"
    cat "$folder/out"
    exit 1
fi
