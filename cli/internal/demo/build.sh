#!/bin/bash
# Runs `GO build` or `GO install` and shows meanwhile how many packages were built: on a terminal
# every second, elsewhere every seven seconds. Nothing stays if that takes less than two seconds.
#
#	build.sh WHAT PACKAGES GO {build|install} ARGUMENT...
#
# PACKAGES is about how many packages an empty cache makes it build.
set -euo pipefail
what=$1 about=$2 go=$3 verb=$4
shift 4

terminal= every=7
if [[ -t 2 && ${TERM:-dumb} != dumb ]]; then
	terminal=1 every=1
	printf 'building %s' "$what" >&2
fi

# With -v, go prints the name of each package that it builds, and says what it downloads; errors
# have a # or a colon.
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
progress() {
	local start=$SECONDS n=0 modules=0 next=2 line took text
	while :; do
		if IFS= read -r -t 1 line; then
			case $line in
			"go: downloading "*) modules=$((modules + 1)) ;;
			*) if [[ $line =~ ^[A-Za-z0-9._/-]+$ ]]; then n=$((n + 1)); else echo "$line" >>"$errors"; fi ;;
			esac
		elif (($? <= 128)); then
			break # the end
		fi
		took=$((SECONDS - start))
		((took >= next)) || continue
		next=$((took + every))
		if ((n + modules == 0)); then
			text="building $what, ${took}s"
		elif ((n == 0)); then
			text="building $what: modules downloaded: $modules, ${took}s"
		else
			text="building $what: $n of at most $((n > about ? n : about)) packages, ${took}s"
		fi
		if [[ $terminal ]]; then printf '\r\033[K%s' "$text"; else echo "$text"; fi
	done
	if [[ $terminal ]]; then printf '\r\033[K'; fi
	if ((next > 2)); then echo "building $what: ended after $((SECONDS - start))s"; fi
	cat "$errors"
}

set +e
{
	"$go" "$verb" -v "$@" 2>&1 >&3 | progress >&2
	status=${PIPESTATUS[0]}
} 3>&1
exit "$status"
