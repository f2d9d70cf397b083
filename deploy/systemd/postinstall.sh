#!/bin/sh
# After an installation or upgrade: deb passes "configure" and the old version, rpm
# the number of installed versions. It starts nothing that was not running.
set -e
case "$1" in
configure | 1 | 2) ;;
*) exit 0 ;;
esac
if ! getent passwd crowsnest >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/crowsnest --no-create-home --shell /usr/sbin/nologin crowsnest
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart crowsnest.service
fi
if [ ! -e /etc/crowsnest/crowsnest.yml ]; then
	echo "crowsnest: write /etc/crowsnest/crowsnest.yml (examples: /usr/share/doc/crowsnest/examples)," >&2
	echo "crowsnest: check it with 'crowsnest check config', then 'systemctl enable --now crowsnest'." >&2
fi
