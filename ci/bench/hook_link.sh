#!/bin/sh
# What compression by a communication hook is worth over a link: bench_hook's part over TCP, in a network namespace of
# its own whose loopback passes so many bits a second (tc-tbf(8)), for each rate. Needs root, ip and tc; without them 77.
# Usage: hook_link.sh BUILD [RATE...]; default: 1gbit 10gbit
set -eu
build=$1
shift
[ $# -gt 0 ] || set -- 1gbit 10gbit
name=ddprove-link-$$
if ! ip netns add "$name" 2>/dev/null; then
    echo "no network namespace can be made here: hook_link.sh needs root and iproute2"
    exit 77
fi
trap 'ip netns del "$name"' EXIT
ip -n "$name" link set lo up
for rate in "$@"; do
    # The bucket of tokens holds what passes in a millisecond or two, so that bursts do not hide the rate.
    if ! ip netns exec "$name" tc qdisc replace dev lo root tbf rate "$rate" burst 256kb latency 200ms; then
        echo "tc cannot limit the rate here"
        exit 77
    fi
    ip netns exec "$name" "$build/bin/bench_hook" --ranks 2 | sed -n "s/^tcp/tcp $rate/p"
done
