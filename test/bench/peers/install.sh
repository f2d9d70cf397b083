#!/bin/sh
# Installs the peers of `make bench-peers` on Debian-like systems. Peers that
# cannot be installed are skipped.
set -eu
missing=
for p in mtail:mtail sec:sec rg:ripgrep gcc:gcc; do
	command -v "${p%%:*}" >/dev/null || missing="$missing ${p#*:}"
done
if ! [ -e /usr/include/hs/hs.h ]; then
	missing="$missing libhyperscan-dev libc6-dev"
fi
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
	echo "not installed, left out:$missing" >&2
	exit 0
fi
sudo=
[ "$(id -u)" -eq 0 ] || sudo=sudo
$sudo apt-get update -qq >&2 || true
for p in $missing; do
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$p" >&2 || echo "not installed, left out: $p" >&2
done
