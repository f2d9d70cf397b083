#!/bin/bash
# Installs a Go program as `GO install PACKAGE` does. On a terminal it shows meanwhile how
# many packages were built, how fast, and about how long it still takes.
#
#	build.sh GO PACKAGE@VERSION
set -euo pipefail
go=$1 program=$2

if [[ ! -t 2 || ${TERM:-dumb} == dumb ]]; then
	exec "$go" install "$program"
fi

# With -v, go prints the name of each package that it builds; errors have a # or a colon.
about=695 # packages of Alertmanager 0.31, with those of the standard library
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
status=0
"$go" install -v "$program" 2> >(
	start=$SECONDS n=0
	while :; do
		if IFS= read -r -t 1 line; then
			if [[ $line =~ ^[a-z0-9./_-]+$ ]]; then n=$((n + 1)); else echo "$line" >>"$errors"; fi
		elif (($? <= 128)); then
			break # the end
		fi
		took=$((SECONDS - start))
		((took >= 2)) || continue
		left=""
		if ((n >= 20 && n < about)); then left=", about $(((about - n) * took / n)) s left"; fi
		printf "\r\033[K%d packages built, %d a minute%s" "$n" "$((60 * n / took))" "$left" >&2
	done
	printf '\r\033[K' >&2
	cat "$errors" >&2
) || status=$?
wait
exit "$status"
