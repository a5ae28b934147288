#!/bin/sh
# How many lines of a trainer are there for ddprove: those that name its library, that state the call that is shown, and
# that use it. Comments count as nothing. Usage: instrumented.sh TRAINER.C MOST
set -u
awk -v most="$2" '
    /^ *(\/\*|\*|\/\/)/ { next }
    /struct ddprove_guest_[a-z_]+ [a-z_]+ = \{/ { is_stated = 1 }
    is_stated || tolower($0) ~ /ddprove/ || /call\.[a-z]/ { count++; print }
    /\};/ { is_stated = 0 }
    END {
        printf("%d lines of %d are for ddprove, at most %d\n", count, FNR, most)
        exit count > most || count < 10
    }' "$1"
