# shellcheck shell=sh
# Checks of what ddprove prints and how it ends, for the scripts here that source this. ddprove: its path.
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
}

# ends CODE ARGUMENT...: ddprove ends with this code; out and err are kept.
ends() {
    code=$1
    shift
    "$ddprove" "$@" >out 2>err </dev/null
    got=$?
    test "$got" -eq "$code" || fail "ddprove $*: exit $got, not $code: $(cat out err)"
}

# refused TEXT ARGUMENT...: a usage error, one line that holds TEXT, nothing on stdout.
refused() {
    text=$1
    shift
    ends 2 "$@"
    test "$(wc -l <err)" -eq 1 || fail "ddprove $*: $(wc -l <err) lines: $(cat err)"
    test ! -s out || fail "ddprove $*: prints $(head -n 1 out)"
    grep -qF -e "$text" err || fail "ddprove $*: \"$(cat err)\" does not say \"$text\""
}

# says TEXT ARGUMENT...: exit 0, and stdout holds TEXT.
says() {
    text=$1
    shift
    ends 0 "$@"
    grep -qF -e "$text" out || fail "ddprove $*: \"$(head -n 5 out)\" does not say \"$text\""
}
