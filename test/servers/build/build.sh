#!/usr/bin/env bash
# Provides the programs that tests need: builds servers once, into
# $XDG_CACHE_HOME/crowsnest/bin or ~/.cache/crowsnest/bin, and installs packages where
# root can. Arguments are names; without any it provides all. The module files beside
# this script determine the versions; a program is built again when they change.
#
# Cold, on two cores: Loki 5 to 20 minutes, kube-apiserver 4 to 18, helm 2 to 6, the
# others less than one; about 3 GB of modules and 5 GB of build cache.
set -euo pipefail
cd "$(dirname "$0")"
names=("$@")
bin=${XDG_CACHE_HOME:-$HOME/.cache}/crowsnest/bin
mkdir -p "$bin"
exec 9>"$bin/.build.lock"
if command -v flock >/dev/null && ! flock -n 9; then
  echo "another build into $bin is under way, waiting for it" >&2
  flock 9
fi

wanted() { [ ${#names[@]} = 0 ] || [[ " ${names[*]} " = *" $1 "* ]]; }

# build NAME MODULE PACKAGE [LDFLAGS]: a program is renamed into place.
build() {
  local made
  made="$(cksum <"$2/go.sum") ${4:-}"
  if ! wanted "$1" || { [ -x "$bin/$1" ] && [ "$(cat "$bin/.$1.made" 2>/dev/null)" = "$made" ]; }; then return; fi
  echo "$1: building (once) into $bin" >&2
  CGO_ENABLED=0 GOFLAGS= ${GO:-go} -C "$2" build -mod=readonly -trimpath -buildvcs=false -ldflags "-s -w ${4:-}" -o "$bin/.$1.new" "$3"
  mv "$bin/.$1.new" "$bin/$1"
  echo "$made" >"$bin/.$1.made"
}
build helm           helm           helm.sh/helm/v3/cmd/helm
build kustomize      helm           sigs.k8s.io/kustomize/kustomize/v5
build podsecurity    helm           ./podsecurity
build alertmanager   alertmanager   github.com/prometheus/alertmanager/cmd/alertmanager
build amtool         alertmanager   github.com/prometheus/alertmanager/cmd/amtool
build etcd           etcd           go.etcd.io/etcd/server/v3
build registry       registry       github.com/distribution/distribution/v3/cmd/registry
build otel-collector collector      .
build loki           loki           github.com/grafana/loki/v3/cmd/loki
build victoria-logs  victorialogs   github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs
# Clients compare the version of the API server with what they need.
kube=$(sed -n 's/^\tk8s.io\/kubernetes v\([0-9.]*\).*/\1/p' kube-apiserver/go.mod)
IFS=. read -r major minor _ <<<"$kube"
version=k8s.io/component-base/version
kube="-X $version.gitVersion=v$kube -X $version.gitMajor=$major -X $version.gitMinor=$minor"
build kube-apiserver kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$kube"
build kubectl        kube-apiserver k8s.io/kubernetes/cmd/kubectl "$kube"

# axe-core checks whether pages are accessible. It is a file of JavaScript for tests.
axe=4.14.1
axe_sum=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
if wanted axe && [ "$(cat "$bin/.axe.made" 2>/dev/null)" != "$axe" ]; then
  if command -v npm >/dev/null; then
    echo "axe-core: fetching into $bin" >&2
    work=$(mktemp -d)
    (cd "$work" && npm pack --silent "axe-core@$axe" >/dev/null && tar xzf "axe-core-$axe.tgz" package/axe.min.js)
    echo "$axe_sum  $work/package/axe.min.js" | sha256sum --check --quiet
    mv "$work/package/axe.min.js" "$bin/axe.min.js"
    rm -rf "$work"
    echo "$axe" >"$bin/.axe.made"
  else
    echo "npm: not in PATH; install it (Debian: apt-get install npm), or the tests that need axe-core do not run" >&2
  fi
fi

# package COMMAND PACKAGE: it is installed below, or the message says what to do.
missing=()
package() {
  if ! wanted "$1" || command -v "$1" >/dev/null; then return; fi
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then missing+=("$2"); return; fi
  echo "$1: not in PATH; install it (Debian: apt-get install $2), or the tests that need it do not run" >&2
}
# Prometheus cannot be built from its module, which lacks its web pages.
package prometheus      prometheus
package promtool        prometheus
# The pages are tested in a real browser.
package chromium        chromium
# The packages of a release are installed in a copy of the machine.
package rpm             rpm
package setpriv         util-linux
package systemd-analyze systemd
package unshare         util-linux
if [ ${#missing[@]} != 0 ]; then
  echo "installing Debian's ${missing[*]}" >&2
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" >/dev/null
fi
