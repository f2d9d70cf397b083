#!/usr/bin/env bash
# Builds the servers of the end-to-end tests once, into the given folder
# (default: $XDG_CACHE_HOME/crowsnest/bin or ~/.cache/crowsnest/bin). Existing
# programs are kept; remove one to build it again. The module files beside this
# script determine the versions.
#
# Cold, on two cores: Loki 5 to 20 minutes, kube-apiserver 4 to 18, the others
# less than one; about 3 GB of modules and 5 GB of build cache.
set -euo pipefail
cd "$(dirname "$0")"
bin=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/crowsnest/bin}
mkdir -p "$bin"
exec 9>"$bin/.build.lock"
if command -v flock >/dev/null && ! flock -n 9; then
  echo "another build into $bin is under way, waiting for it" >&2
  flock 9
fi

# build NAME MODULE PACKAGE: a program is renamed into place.
build() {
  if [ -x "$bin/$1" ]; then echo "$1: there already" >&2; return; fi
  echo "$1: building (once) into $bin" >&2
  CGO_ENABLED=0 GOFLAGS= ${GO:-go} -C "$2" build -mod=readonly -trimpath -buildvcs=false -ldflags '-s -w' -o "$bin/.$1.new" "$3"
  mv "$bin/.$1.new" "$bin/$1"
}
build alertmanager   alertmanager   github.com/prometheus/alertmanager/cmd/alertmanager
build etcd           etcd           go.etcd.io/etcd/server/v3
build loki           loki           github.com/grafana/loki/v3/cmd/loki
build kube-apiserver kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
build kubectl        kube-apiserver k8s.io/kubernetes/cmd/kubectl

# Prometheus cannot be built from its module, which lacks its web pages.
if ! { command -v prometheus && command -v promtool; } >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "prometheus: installing Debian's" >&2
    apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends prometheus >/dev/null
  else
    echo "prometheus: not in PATH; install prometheus and promtool (apt-get install prometheus), or the tests that need them do not run" >&2
  fi
fi
