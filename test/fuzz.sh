#!/bin/bash
# Runs every fuzz target of a package for TIME: a duration, or a number of runs such as 1000x. `go test -fuzz` would
# vet and link the instrumented program again for each target.
#
#	fuzz.sh TIME FOLDER
set -euo pipefail
cd "$2"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go=${GO:-go}
$go test -c -vet=off -ldflags=-s -fuzz=. -o "$dir/fuzz.test" .
cache=$($go env GOCACHE)/fuzz/$($go list .)
rc=0
for target in $(grep -ho '^func Fuzz[[:alnum:]]*' ./*_test.go | sed 's/func //'); do
	out=$("$dir/fuzz.test" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$1" -test.fuzzminimizetime 100x \
		-test.fuzzcachedir "$cache" 2>&1 </dev/null) || { rc=1; out+=$'\n'"== FAILED: $target in $2"; }
	printf '== %s %s\n%s\n' "$2" "$target" "$out"
done
exit $rc
