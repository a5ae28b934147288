#!/bin/sh
# Formatting of every tracked C source; "ci/format.sh fix" rewrites instead of complaining.
set -eu
mode="--dry-run -Werror"
if [ "${1:-check}" = fix ]; then
    mode="-i"
fi
# shellcheck disable=SC2086 # mode is two words on purpose
git ls-files -z -- '*.c' '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 "${CLANG_FORMAT:-clang-format}" $mode
