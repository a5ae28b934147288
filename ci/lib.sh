# shellcheck shell=bash disable=SC2034
# Shared by ci/run, ci/test and ci/deep: the root, configuring and building, stages and their count.
# Sourced, not run. Needs bash.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export LC_ALL=C CTEST_OUTPUT_ON_FAILURE=1
jobs=$(nproc 2>/dev/null || echo 2)
logs=build/ci-logs
mkdir -p "$logs"

# Builds with the same flags (release, bare) share what ccache keeps; then debuggers find the sources of
# whichever was compiled first, which are the same. A launcher that was chosen already stays.
if [[ -z ${CMAKE_C_COMPILER_LAUNCHER+set} ]] && command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CCACHE_NOHASHDIR=1
fi

# configure PRESET [CMAKE ARGUMENTS]: the preset, also with a CMake too old to read the file. CI_WERROR:
# compiler warnings are errors.
configure() {
    local preset=$1
    shift
    if [[ -n ${CI_WERROR:-} ]]; then
        set -- -DDDPROVE_WERROR=ON "$@"
    fi
    if [[ $preset == coverage ]]; then # its objects name the folder that they count into
        set -- -DCMAKE_C_COMPILER_LAUNCHER= "$@"
    fi
    if cmake --list-presets >/dev/null 2>&1; then
        cmake --preset "$preset" "$@"
    else
        local -a args
        mapfile -t args < <(python3 ci/preset_args.py "$preset")
        cmake -S . "${args[@]}" "$@"
    fi
}

# build_preset PRESET [TARGET...]: configure it and build all of it, or some targets.
build_preset() {
    local preset=$1 folder=build
    shift
    if [[ $preset != release ]]; then
        folder=build/$preset
    fi
    configure "$preset" && cmake --build "$folder" -j "$jobs" ${1:+--target "$@"}
}

passed=0 failed=0 skipped=0

# What a log counts: the sums of ctest's and ddprove's own summaries, or nothing.
count_log() {
    awk '
        /tests passed, [0-9]+ tests? failed out of [0-9]+/ {
            match($0, /[0-9]+ tests? failed/); bad = substr($0, RSTART) + 0
            match($0, /out of [0-9]+/); total = substr($0, RSTART + 7) + 0
            failed += bad; passed += total - bad
        }
        /\*\*\*Skipped/ { skipped++; passed-- }
        /^[0-9]+ passed, [0-9]+ failed/ {
            passed += $1; failed += $3
            for (i = 5; i < NF; i++) {
                if ($(i + 1) ~ /^skipped/) { skipped += $i }
            }
        }
        END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# What a log of a failure says of it: of ctest's, the output of each test that failed (its first and
# last lines) and their names; else the log's last lines.
log_end() {
    grep -q '^The following tests FAILED:' "$1" || { tail -n 40 "$1" && return; }
    awk '
        /^ *[0-9]+\/[0-9]+ Test +#[0-9]+:/ {
            is_shown = /\*\*\*(Failed|Timeout|Exception|Not Run)/
            name = $0; count = 0
            if (is_shown) { print }
            next
        }
        /tests passed, [0-9]+ tests? failed/ { is_shown = 0 }
        /^ *Start +[0-9]+:/ { is_shown = 0 }
        is_shown && ++count <= 60 { print }
        is_shown && count == 61 { print "..." }
        /^The following tests FAILED:/ { is_list = 1 }
        is_list && !/\(Skipped\)/ { print }' "$1" | head -n 400
}

# stage NAME COMMAND...: run it with its output in a log, print one line: how long it took by the clock, and of processors.
# Exit 77 is a skip, whose reason is the last line of the log.
stage() {
    local name=$1 log=$logs/$1.log start=$SECONDS status p f s took
    local TIMEFORMAT='%U %S'
    shift
    { time "$@" >"$log" 2>&1 </dev/null; } 2>"$log.time"
    status=$?
    took=$(awk -v wall=$((SECONDS - start)) '{ printf "%4ds %4.0fs of cores", wall, $1 + $2 }' "$log.time")
    read -r p f s < <(count_log "$log")
    if ((status == 77)); then
        skipped=$((skipped + 1))
        printf '%-16s skip %s  %s\n' "$name" "$took" "$(tail -n 1 "$log")"
        return 0
    fi
    if ((status != 0 && f == 0)); then
        f=1
    elif ((status == 0 && p + s == 0)); then
        p=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if ((status == 0 && f == 0)); then
        printf '%-16s ok   %s  %d passed%s\n' "$name" "$took" "$p" \
            "$( ((s > 0)) && echo ", $s skipped")"
        return 0
    fi
    printf '%-16s FAIL %s  %d passed, %d failed; %s ends:\n' "$name" "$took" "$p" \
        "$f" "$log"
    log_end "$log" | sed 's/^/    /'
    return 1
}

# The last line of a job; its status is the job's.
summary() {
    echo "$passed passed, $failed failed$( ((skipped > 0)) && echo ", $skipped skipped")"
    ((failed == 0))
}
