#!/usr/bin/env bash
# Runs one step of `make test`, and in the end says how long each took, how much
# of that the processor worked for it, and what failed:
#   tools/step.sh run STEP    make STEP; what it prints is kept in bin/test
#   tools/step.sh second-try  tries again, one after the other, the few tests that failed beside others
#   tools/step.sh summary
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

run() { # step
    local rc=0 began=$SECONDS used
    make --no-print-directory STEP=1 "$1" 2>&1 | tee "bin/test/$1.log" || rc=1
    times >"bin/test/$1.times" # the second line is of processes that ended; a subshell would have none
    used=$(awk -F'[ms ]+' 'NR == 2 {print int($1 * 60 + $2 + $3 * 60 + $4)}' "bin/test/$1.times")
    printf '%7d s %7d s of processor  %-14s %s\n' $((SECONDS - began)) "$used" "$1" "$( ((rc)) && echo FAILED || echo ok)" |
        tee "bin/test/$1.step"
    return $rc
}

# A test that fails beside others and passes alone must not hide that the rest is
# fine. It is not forgotten either: the summary names it.
second-try() {
    local step package pattern passed
    for step in e2e unit; do
        grep -qs FAILED "bin/test/$step.step" || continue
        bin/testreport -again "bin/test/$step.json" >"bin/test/$step.again"
        [[ -s bin/test/$step.again ]] || continue
        passed=1
        while read -r package pattern; do
            printf '\nonce more, alone: %s %s\n' "$package" "$pattern"
            make --no-print-directory STEP=1 ONLY="-run '${pattern//\$/\$\$}' $package" "$step" </dev/null || passed=0
            cat "bin/test/$step.second.json" >>"bin/test/$step.tried.json"
        done <"bin/test/$step.again"
        mv "bin/test/$step.tried.json" "bin/test/$step.second.json"
        ((passed)) && sed -i 's/FAILED/ok at the second try/' "bin/test/$step.step"
    done
    if grep -qs FAILED bin/test/console-test.step; then
        printf '\nonce more, alone: console-test\n'
        cp bin/test/console-test.log bin/test/console-test.first.log
        make --no-print-directory STEP=1 console-test 2>&1 | tee bin/test/console-test.log &&
            sed -i 's/FAILED/ok at the second try: unsteady, mend it (bin\/test\/console-test.first.log)/' bin/test/console-test.step
    fi
}

summary() {
    local rc=0 step name
    echo
    echo "the steps, some side by side:"
    cat bin/test/*.step
    bin/testreport bin/test/*.json || rc=1
    for step in $(grep -l FAILED bin/test/*.step); do
        name=$(basename "$step" .step)
        rc=1
        # What failed in Go tests was told above; what kept them from running was not.
        [[ -s bin/test/$name.json ]] && ! bin/testreport "bin/test/$name.json" >/dev/null && continue
        printf '\nmake %s failed; the end of bin/test/%s.log:\n' "$name" "$name"
        tail -40 "bin/test/$name.log"
    done
    return $rc
}

"$@"
