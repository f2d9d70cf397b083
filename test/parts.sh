#!/bin/bash
# Runs targets of make one after another, up to the first that fails. It says which part runs and how
# many there are, and how long the part has run whenever it printed nothing for QUIET seconds.
#
#	parts.sh QUIET TARGET...
set -uo pipefail
quiet=$1
shift

show() {
	local start=$SECONDS line held=
	while :; do
		if IFS= read -r -t "$quiet" line; then
			printf '%s%s\n' "$held" "$line"
			held=
		elif (($? > 128)); then
			held+=$line # the start of a line whose end is not there yet
			echo "   $1 is running, $((SECONDS - start))s"
		else
			[ -z "$held$line" ] || printf '%s\n' "$held$line"
			return
		fi
	done
}

n=0
for part; do
	n=$((n + 1))
	started=$SECONDS
	echo "== part $n of $#: $part"
	if ! "${MAKE:-make}" --no-print-directory "$part" 2>&1 | show "$part"; then
		echo "== FAILED: part $n of $#, $part, after $((SECONDS - started))s; what failed is above. To run only this part: make $part"
		exit 1
	fi
	echo "== passed: part $n of $#, $part, after $((SECONDS - started))s"
done
echo "== all $# parts passed after ${SECONDS}s"
