#!/bin/bash
# Runs every fuzz target of a package for TIME: a duration, or a number of runs such as 1000x. `go test -fuzz` would
# vet and link the program again for each target. A number of runs is for a short test without instrumentation: a few
# hundred runs learn nothing from coverage, and instrumenting all dependencies takes minutes.
#
#	fuzz.sh TIME FOLDER
set -euo pipefail
cd "$2"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go=${GO:-go}
instrument=-fuzz=.
[[ $1 == *x ]] && instrument=
$go test -c -vet=off -ldflags=-s $instrument -o "$dir/fuzz.test" .
cache=$($go env GOCACHE)/fuzz/$($go list .)
rc=0
for target in $(grep -ho '^func Fuzz[[:alnum:]]*' ./*_test.go | sed 's/func //'); do
	out=$("$dir/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$1" -test.fuzzminimizetime 100x \
		-test.fuzzcachedir "$cache" 2>&1 </dev/null) || { rc=1; out+=$'\n'"== FAILED: $target in $2"; }
	printf '== %s %s\n%s\n' "$2" "$target" "$out"
done
exit $rc
