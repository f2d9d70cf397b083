#!/bin/sh
# The life of a package on a machine with systemd, in the copy that boot.sh makes:
# installed, started, upgraded, removed, purged. /in has 1.deb and 2.deb, or 1.rpm and
# 2.rpm: versions 0.1.0 and 0.2.0.
set -eu

fail() {
	echo "FAIL: $*" >&2
	journalctl --no-pager --quiet --lines 50 --unit crowsnest >&2
	exit 1
}

if [ -e /in/1.deb ]; then
	kind=deb
	add() { dpkg -i "/in/$1.deb"; }
	remove() { dpkg -r crowsnest; }
else
	kind=rpm
	# Debian's rpm knows no package of Debian.
	add() { rpm -U --force-debian --nodeps "/in/$1.rpm"; }
	remove() { rpm -e --force-debian --nodeps crowsnest; }
fi
unit=/usr/lib/systemd/system/crowsnest.service
state=/var/lib/crowsnest

is() {
	got=$(systemctl "is-$1" crowsnest || true)
	[ "$got" = "$2" ] || fail "$3: the service is $got, not $2"
}
version() { crowsnest version | head -n 1 | cut -d ' ' -f 3; }
pid() { systemctl show --property MainPID --value crowsnest; }

# The state and the start of the alert, once it fires.
alert() {
	tries=0
	until crowsnest get alerts alertname=LeaseLost -o json > /alerts 2>&1 && grep -q firing /alerts; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || fail "no alert fires: $(cat /alerts)"
		sleep 0.1
	done
	grep -o '"activeAt": *"[^"]*"' /alerts
}

rm -rf $state /etc/crowsnest /var/log/pods # of this machine, which has another use

echo "== install"
add 1 > /out 2>&1 || fail "$(cat /out)"
grep -q 'write /etc/crowsnest/crowsnest.yml' /out || fail "no hint about the configuration: $(cat /out)"
[ "$(version)" = 0.1.0 ] || fail "the version is $(version)"
is enabled disabled install
is active inactive install
[ ! -e $state ] && [ ! -e /etc/crowsnest/crowsnest.yml ] || fail "the package brings state or a configuration"
systemctl start crowsnest
is active inactive "start without a configuration"
crowsnest check config /usr/share/doc/crowsnest/examples/crowsnest.yml > /out 2>&1 || fail "the example is refused: $(cat /out)"

echo "== unit"
systemd-analyze verify $unit > /out 2>&1 || fail "the unit is refused: $(cat /out)"
if grep crowsnest /out; then fail "the unit has warnings"; fi
systemd-analyze security --offline=true --no-pager --threshold=20 $unit > /out 2>&1 || fail "$(cat /out)"
tail -n 1 /out

echo "== completions"
bash -c '. /usr/share/bash-completion/completions/crowsnest && complete -p crowsnest' > /dev/null || fail "bash refuses the completions"

echo "== start"
mkdir -p /etc/crowsnest/rules
cat > /etc/crowsnest/crowsnest.yml <<'END'
rules: {shipped: false, paths: [rules]}
sources: {kubelet: {}}
sinks: {stdout: {format: json}}
END
cat > /etc/crowsnest/rules/lease.yaml <<'END'
pack: {name: lease}
rules:
- {alert: LeaseLost, from: '{container="manager"}', match: leaderelection lost, by: [namespace, pod], severity: info}
END
echo CROWSNEST_LOG_LEVEL=debug >> /etc/default/crowsnest
# As container runtimes write them.
logs=/var/log/pods/team-a_a-0_0a1b2c3d-0000-4000-8000-000000000000/manager
(umask 027 && mkdir -p $logs && echo "$(date -u +%Y-%m-%dT%H:%M:%S.000000000Z) stderr F E0101 leaderelection lost" > $logs/0.log)
systemctl enable --now crowsnest > /out 2>&1 || fail "$(cat /out)"
begun=$(alert)
is enabled enabled start
first=$(pid)
for line in "Uid:.*$(id -u crowsnest)" 'CapEff:.0000000000000000' 'CapBnd:.0000000000000000' 'NoNewPrivs:.1' 'Seccomp:.2'; do
	grep -q "^$line" "/proc/$first/status" || fail "the process has no $line: $(cat "/proc/$first/status")"
done
[ "$(stat -c '%U %a' $state)" = 'crowsnest 750' ] || fail "the state belongs to $(stat -c '%U %a' $state)"
systemctl reload crowsnest
is active active reload

echo "== upgrade"
rm $logs/0.log # the new version knows the alert from the state only
add 2 > /out 2>&1 || fail "$(cat /out)"
[ "$(version)" = 0.2.0 ] || fail "the version is $(version)"
is active active upgrade
is enabled enabled upgrade
[ "$(pid)" != "$first" ] || fail "the old version still runs"
grep -q '^CROWSNEST_LOG_LEVEL=debug' /etc/default/crowsnest || fail "the upgrade replaced /etc/default/crowsnest"
[ "$(alert)" = "$begun" ] || fail "the alert began at $(alert), not at $begun"

echo "== remove"
remove > /out 2>&1 || fail "$(cat /out)"
if pgrep -x crowsnest; then fail "the daemon still runs"; fi
[ ! -e /usr/bin/crowsnest ] && [ ! -e $unit ] || fail "files are left"
[ -s $state/state ] || fail "the state was removed"
[ -s /etc/crowsnest/crowsnest.yml ] || fail "the configuration was removed"

if [ $kind = deb ]; then
	echo "== purge"
	dpkg -P crowsnest > /out 2>&1 || fail "$(cat /out)"
	[ ! -e $state ] && [ ! -e /etc/default/crowsnest ] || fail "the purge left state or /etc/default/crowsnest"
	[ -s /etc/crowsnest/crowsnest.yml ] || fail "the purge removed what the administrator wrote"
fi
echo "== done"
