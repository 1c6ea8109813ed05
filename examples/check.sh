#!/bin/sh
# check.sh PROGRAM - runs an example and compares what it prints with what its reader is promised.
set -eu
program=$1
fail() {
    echo "$program: $1" >&2
    exit 1
}

case $(basename "$program") in
hello_table)
    output=$("$program" | sort)
    expected=$(printf 'worker 0: 2\nworker 1: 2')
    [ "$output" = "$expected" ] || fail "printed: $output"
    ;;
lr)
    directory=$(mktemp -d)
    trap 'rm -rf "$directory"' EXIT
    # 4000 examples with 20 of 1000 features; the weight of feature k is sin(7 k), plus some noise.
    awk 'BEGIN {
        srand(1)
        for (i = 0; i < 4000; i++) {
            line = ""; score = 2 * (rand() - 0.5)
            for (k = 0; k < 20; k++) {
                key = 50 * k + int(50 * rand()); line = line " " key ":1"; score += sin(7 * key)
            }
            print (score > 0 ? "+1" : "-1") line
        }
    }' > "$directory/data"
    "$program" "$directory/data" > "$directory/output"
    [ "$(wc -l < "$directory/output")" -eq 11 ] || fail "did not print 11 lines"
    tail -1 "$directory/output" | awk -F '[:, ]+' '
        { good = $1 == "pass" && $2 == 10 && $4 < 0.25 && $6 > 0.92 }
        END { exit !good }' || fail "ended with: $(tail -1 "$directory/output")"
    "$program" < "$directory/data" > "$directory/output" || fail "cannot read standard input"
    if "$program" "$directory/missing" 2> "$directory/error"; then
        fail "did not mind a missing file"
    fi
    grep -q missing "$directory/error" || fail "did not name the missing file"
    ;;
priority.so) # what it does: src/policy/priority/priority_test.c
    nm -D "$program" | grep -q ' [DR] rbt_priority$' || fail "does not show rbt_priority"
    if nm -D "$program" | grep -q ' U rbt_'; then
        fail "needs to be linked with the library"
    fi
    ;;
filter.so) # what it does: src/policy/filter/filter_test.c
    nm -D "$program" | grep -q ' [DR] rbt_filter$' || fail "does not show rbt_filter"
    if nm -D "$program" | grep -q ' U rbt_'; then
        fail "needs to be linked with the library"
    fi
    ;;
rule.so) # what it does: src/policy/rule/plugin_test.c
    nm -D "$program" | grep -q ' [DR] rbt_rule$' || fail "does not show rbt_rule"
    if nm -D "$program" | grep -q ' U rbt_'; then
        fail "needs to be linked with the library"
    fi
    ;;
serve) # with a cluster: test/integration/test_shared.py
    if "$program" weights 7 10 2> /dev/null; then
        fail "did not mind that there is no cluster"
    fi
    ;;
what_if)
    output=$("$program")
    expected=$(printf '%s\n' \
        'bsp     1.98 s, of which a worker computes 0.65 s' \
        'ssp:1   1.15 s, of which a worker computes 0.65 s' \
        'ssp:3   0.84 s, of which a worker computes 0.65 s' \
        'ssp:7   0.75 s, of which a worker computes 0.65 s' \
        'asp     0.75 s, of which a worker computes 0.65 s')
    [ "$output" = "$expected" ] || fail "printed: $output"
    ;;
*)
    fail "no check is known for this example"
    ;;
esac
