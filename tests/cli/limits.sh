#!/bin/sh
# What the machine does not allow is said before a job starts, and is never a hang of the job.
# Usage: limits.sh DDPROVE SCENARIO OUT
set -u
ddprove=$1
scenario=$2
failures=0
rm -rf "$3"
mkdir -p "$3" && cd "$3" || exit 1

# is_error TEXT: what `shown` holds, with exit code `got`, is an ERROR that says TEXT.
is_error() {
    if test "$got" -ne 3 || ! grep -q "why: .*$1" shown; then
        failures=$((failures + 1))
        echo "FAIL exit $got, nothing says \"$1\": $(cat shown)"
    fi
}

for files in 16 32 64; do
    (ulimit -n $files && exec "$ddprove" run "$scenario" --driver proc --out o) >shown 2>&1
    got=$?
    is_error "may open $files files, a job of 4 ranks needs 92; raise the limit (ulimit -n)"
done
# A soft limit is raised.
(ulimit -S -n 32 && exec "$ddprove" run "$scenario" --driver proc --out o) >shown 2>&1 || {
    failures=$((failures + 1))
    echo "FAIL a soft limit is not raised: $(cat shown)"
}
for kilobytes in 100000 300000; do
    (ulimit -v $kilobytes && exec "$ddprove" run "$scenario" --driver proc --out o) >shown 2>&1
    got=$?
    is_error 'MiB of address space.*raise the limit (ulimit -v)'
done
(ulimit -v 100000 && exec "$ddprove" run "$scenario" --driver sim --out o) >shown 2>&1
got=$?
is_error 'OpenBLAS needs 128 MiB of address space'
if unshare -rn true 2>/dev/null; then
    unshare -rn "$ddprove" run "$scenario" --driver proc --out o >shown 2>&1
    got=$?
    is_error 'no connection over loopback: .*bring it up'
else
    echo "no network namespace can be made here: loopback is not tried"
fi

echo "$failures failures"
test "$failures" -eq 0
