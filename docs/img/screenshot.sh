#!/usr/bin/env bash
# Takes docs/img/alerts.png: the pages of a daemon that replays the recorded incidents.
# Needs Chromium (apt-get install chromium) and the programs of `make run`.
set -euo pipefail
cd "$(dirname "$0")/../.."
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "no Chromium in PATH: apt-get install chromium" >&2; exit 1; }
url=http://127.0.0.1:9797
bin/crowsnest demo --web.listen-address "${url#http://}" &
demo=$!
trap 'kill $demo 2>/dev/null; wait $demo 2>/dev/null || true' EXIT
for _ in $(seq 300); do # the recorded alerts fire within about a minute
  kill -0 $demo
  [ "$(bin/crowsnest get alerts --url $url -o json 2>/dev/null | grep -oE '"state": ?"firing"' | wc -l)" -ge 8 ] && break
  sleep 1
done
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,1000 \
  --screenshot=docs/img/alerts.png "$url/" 2>/dev/null
