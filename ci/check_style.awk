# One source file after another: length, function length, banned words and calls. Exits 1 on any.
# "allow(NAME)" in a comment on the same line permits one call, with its reason beside it.

function complain(number, text) {
    printf "%s:%d: %s\n", FILENAME, number, text
    bad = 1
}

function end_file() {
    if (last_file != "" && last_number > 500) {
        printf "%s:%d: more than 500 lines\n", last_file, last_number
        bad = 1
    }
}

FNR == 1 {
    end_file()
    last_file = FILENAME
    start = 0
}

{
    last_number = FNR
    if ($0 ~ /(^|[^A-Za-z0-9_])(TODO|FIXME|XXX|HACK)([^A-Za-z0-9_]|$)/ || $0 ~ /DISABLED_/) {
        complain(FNR, "unfinished work is not committed")
    }
    if ($0 ~ /^[ \t]*\/\/.*(assert|ASSERT|CT_CHECK|CT_REQUIRE|EXPECT_)[A-Z_0-9]*\(/) {
        complain(FNR, "a check that is commented out")
    }
    code = $0
    sub(/\/\/.*/, "", code)
    gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
    gsub(/\/\*[^*]*\*\//, "", code)
    banned = "(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|rand|srand|time|sleep|usleep|system|pidfd_open)"
    if (code !~ /^ \*/ && match(code, "(^|[^A-Za-z0-9_.>])" banned "[ ]*\\(")) {
        call = substr(code, RSTART, RLENGTH)
        gsub(/[^a-z_]/, "", call)
        if (index($0, "allow(" call ")") == 0) {
            complain(FNR, call "() is not used here")
        }
    }
    # Linux braces: a function's braces stand alone in column 1.
    if ($0 == "{") {
        start = FNR
    }
    if ($0 == "}" && start > 0) {
        if (FNR - start - 1 > 70) {
            complain(start, "a function of " (FNR - start - 1) " lines; 70 is the limit")
        }
        start = 0
    }
}

END {
    end_file()
    if (NR == 0) {
        print "check_style: no lines read" > "/dev/stderr"
        bad = 1
    }
    exit bad
}
