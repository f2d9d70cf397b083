#!/usr/bin/env bash
# Writes krew's manifest of a release to standard output:
#
#   manifest.sh 1.2.3 dist/checksums.txt
#
# It fails if the checksum of an archive is missing.
set -euo pipefail
awk -v version="${1#v}" '
  NR == FNR { sums[$2] = $1; next }
  { gsub(/VERSION/, version) }
  $1 == "uri:" { n = split($2, part, "/"); archive = part[n] }
  $1 == "sha256:" {
    if (!(archive in sums)) { print "there is no checksum of " archive > "/dev/stderr"; exit 1 }
    sub(/SHA256/, sums[archive])
  }
  { print }
' "$2" "$(dirname "$0")/crowsnest.yaml"
