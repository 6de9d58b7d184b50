#!/bin/sh
# examples_test.sh — the programs in examples/ run with the documented output.
set -u
failed=0
check() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then
        echo "ok - $1"
    else
        printf 'not ok - %s\n# expected: %s\n# got: %s\n' "$1" "$2" "$3"
        failed=1
    fi
}
run() { program=$1; shift; timeout 60 "$MINIRAY_TEST_BUILD/examples/$program" "$@" 2>&1 | sed 's/process [0-9]*/process N/g'; }

check "tasks: a tree of futures, and a failure" "the sum of the first 16 squares is 1240
as it should be: task 'divide' in worker process N: 1 cannot be divided by zero" "$(run tasks)"

check "actors: state, names, and a failure" "70 left
40 left
10 left
task 'shop' in worker process N: method 'pay' in worker process N: only 10 are left" "$(run actors)"

# The progress of workers at each report depends on the machine: the numbers only grow.
numbers=$(run parameter_server)
check "parameter_server: five looks at ten parameters" 5 "$(printf '%s\n' "$numbers" | grep -cE '^([0-9]+ ){9}[0-9]+$')"
check "parameter_server: they only grow" "$numbers" "$(printf '%s\n' "$numbers" | sort -s -n -k1,1)"
check "parameter_server: those of the other server too" "$numbers" "$(printf '%s\n' "$numbers" | sort -s -n -k10,10)"

digits=$(run train "$MINIRAY_TEST_SOURCE/data/digits.txt")
check "train: thirty epochs" 30 "$(printf '%s\n' "$digits" | grep -c '^epoch')"
check "train: it reads at least 95 % of the digits" yes \
    "$(printf '%s\n' "$digits" | awk '/^test accuracy/ { print ($3 >= 95 ? "yes" : "no") }')"
check "train: the same numbers again" "$digits" "$(run train "$MINIRAY_TEST_SOURCE/data/digits.txt")"
check "train: images that are not there" "there are no images in nowhere.txt: ./train data/digits.txt" \
    "$(run train nowhere.txt | sed 's/.*: there/there/' | head -1)"

ratings=$(run ps_factors)
check "ps_factors: seven looks, with a server killed on the way" 7 "$(printf '%s\n' "$ratings" | grep -c '^step')"
check "ps_factors: it learns" yes "$(printf '%s\n' "$ratings" | awk '/^step 120/ { print ($NF <= 0.2 ? "yes" : "no") }')"
check "ps_factors: the same numbers again" "$ratings" "$(run ps_factors)"

check "ps_server: an optimizer and a handler of its own" "after 3 pushes of 1: 6
server 0 has applied 3 updates" "$(run ps_server)"
exit $failed
