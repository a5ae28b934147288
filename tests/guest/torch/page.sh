#!/bin/sh
# What the page of the adapter shows is what happens. PyTorch is not loaded down again: a virtual environment that the page
# makes finds that of PYTHON, so that pip has nothing to do there.
# Usage: page.sh BIN PYTHON
set -u
bin=$1 python=$2
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../../..")
if ! "$python" -c 'import torch, numpy, setuptools, venv' 2>/dev/null || ! "$python" -m pip --version >/dev/null 2>&1; then
    echo "SKIP: no PyTorch, numpy, setuptools and pip in $python; python3 -m venv DIR && DIR/bin/pip install torch==2.15.0" \
        "numpy setuptools, then DDPROVE_TORCH_PYTHON=DIR/bin/python"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/tmp" "$folder/root" "$folder/root/harness" "$folder/root/harness/guest"
export TMPDIR="$folder/tmp" OMP_NUM_THREADS=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1
# python3: PYTHON, whose virtual environments have its packages, pip among them.
packages=$("$python" -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
cat >"$folder/bin/python3" <<END
#!/bin/sh
[ "\$1 \$2" = "-m venv" ] || exec "$python" "\$@"
"$python" -m venv --without-pip "\$3" && echo "$packages" >"\$(echo "\$3"/lib/python3*/site-packages)/of_python.pth" &&
    printf '#!/bin/sh\nexec "%s/bin/python" -m pip "\$@"\n' "\$(realpath "\$3")" >"\$3/bin/pip" && chmod +x "\$3/bin/pip"
END
chmod +x "$folder/bin/python3"
# pip builds beside the sources: in a copy.
for name in "$root"/*; do
    [ "${name##*/}" = harness ] || ln -s "$name" "$folder/root/"
done
cp -r "$here/../../../harness/guest/torch" "$folder/root/harness/guest/torch"
PATH="$folder/bin:$PATH" "$python" "$here/../../doc/check_session.py" "$root/harness/guest/torch/README.md" \
    "$folder/root" "$bin"
