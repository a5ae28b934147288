#!/bin/sh
# A trace that cannot be written is lost evidence: the run is INCONCLUSIVE (exit code 4), never a PASS, and `check` finds
# nothing to judge. Usage: unwritten.sh DDPROVE SCENARIO FOLDER
set -eu
ddprove=$1
scenario=$2
folder=$3
id=$(sed -n 's/^id: *//p' "$scenario")
status=0

for driver in sim proc; do
    for file in trace.txt trace.rank1.txt; do
        out="$folder/$driver.$file"
        rm -rf "$out"
        mkdir -p "$out/$id/$driver/$file" # a folder where the file should go
        code=0
        said=$("$ddprove" run "$scenario" --driver "$driver" --out "$out" 2>&1) || code=$?
        if [ "$code" -ne 4 ]; then
            echo "$driver, $file: exit code $code instead of 4: $said"
            status=1
        fi
        if ! echo "$said" | grep -q "the trace was not written: .*$file"; then
            echo "$driver, $file: does not say what was not written: $said"
            status=1
        fi
        if ! grep -q '"outcome": "INCONCLUSIVE"' "$out/$id/$driver/verdict.json"; then
            echo "$driver, $file: verdict.json is not INCONCLUSIVE"
            status=1
        fi
    done
    # What was written of the record is no whole one, and a run without a verdict beside one that passed is none left out.
    "$ddprove" run "$scenario" --driver "$driver" --out "$folder/$driver.beside" >/dev/null 2>&1 || true
    beside="$folder/$driver.beside/unjudged/$driver"
    mkdir -p "$beside"
    cp "$folder/$driver.beside/$id/$driver/plan.yaml" "$beside"
    for record in "$driver.trace.txt/$id/$driver" "$driver.trace.rank1.txt/$id/$driver" "$driver.beside"; do
        code=0
        "$ddprove" check "$folder/$record" >/dev/null 2>&1 || code=$?
        if [ "$code" -eq 0 ]; then
            echo "$record: check passed without a trace"
            status=1
        fi
    done
    rm -r "$folder/$driver.beside"
done
exit $status
