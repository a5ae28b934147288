# Lines "FROM TO SYMBOL" of ci/call_arrows.sh against ci/layers.txt: a folder calls only folders that it may
# include from. Prints each arrow that is not allowed; exits 1 if there is any.
BEGIN {
    while ((getline line < "ci/layers.txt") > 0) {
        sub(/#.*/, "", line)
        colon = index(line, ":")
        if (colon > 0) {
            allowed[substr(line, 1, colon - 1)] = substr(line, colon + 1)
        }
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

# Some prefix that `layer` may include lies in, or holds, the folder.
function may_call(layer, folder,    parts, count, i) {
    count = split(allowed[layer], parts, " ")
    for (i = 1; i <= count; i++) {
        if (parts[i] == "*" || index(parts[i], folder "/") == 1 || index(folder "/", parts[i]) == 1) {
            return 1
        }
    }
    return 0
}

{
    arrow_count++
    from = layer_of($1)
    to = layer_of($2)
    if (from != to && !may_call(from, to)) {
        printf "%s calls %s of %s: %s may not use %s\n", $1, $3, $2, from, to
        bad = 1
    }
}

END {
    if (arrow_count == 0) {
        print "no calls between sources: is there a build?" > "/dev/stderr"
        bad = 1
    }
    exit bad
}
