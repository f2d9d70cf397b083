#!/bin/sh
# After a removal. Only `dpkg --purge` removes the state; rpm knows no purge. The user
# stays: its number must not pass to another user who could then read what is left.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/crowsnest
fi
