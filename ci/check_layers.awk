# Checks #include "..." lines against ci/layers.txt (DESIGN: layers). Run from the root:
#   git ls-files '*.c' '*.h' '*.cc' '*.cu' '*.def' | awk -f ci/check_layers.awk
# Prints file:line for every include that its folder may not use; exits 1 if there is any.

BEGIN {
    while ((getline line < "ci/layers.txt") > 0) {
        sub(/#.*/, "", line)
        colon = index(line, ":")
        if (colon > 0) {
            folder = substr(line, 1, colon - 1)
            allowed[folder] = substr(line, colon + 1)
            folder_count++
        }
    }
    if (folder_count == 0) {
        print "ci/layers.txt: no rules" > "/dev/stderr"
        bad = 1
        exit 1
    }
}

# The longest listed folder that holds the path, or "".
function layer_of(path,    best, folder) {
    best = ""
    for (folder in allowed) {
        if (index(path, folder "/") == 1 && length(folder) > length(best)) {
            best = folder
        }
    }
    return best
}

function may_include(layer, target,    parts, count, i) {
    if (layer_of(target) == layer) {
        return 1
    }
    count = split(allowed[layer], parts, " ")
    for (i = 1; i <= count; i++) {
        if (parts[i] == "*" || index(target, parts[i]) == 1) {
            return 1
        }
    }
    return 0
}

function complain(file, number, text) {
    printf "%s:%d: %s\n", file, number, text
    bad = 1
}

{
    file = $0
    file_count++
    layer = layer_of(file)
    if (layer == "") {
        complain(file, 1, "no layer in ci/layers.txt holds this file")
        next
    }
    number = 0
    while ((getline line < file) > 0) {
        number++
        if (line !~ /^[ \t]*#[ \t]*include[ \t]*"/) {
            continue
        }
        sub(/^[^"]*"/, "", line)
        sub(/".*/, "", line)
        if (index(line, "/") == 0 || line ~ /(^|\/)\.\.?\//) {
            complain(file, number, "includes start at the root: \"" line "\"")
        } else if (!may_include(layer, line)) {
            complain(file, number, layer " may not include \"" line "\"")
        }
    }
    close(file)
}

END {
    if (file_count == 0 && !bad) {
        print "check_layers: no files given" > "/dev/stderr"
        bad = 1
    }
    exit bad
}
