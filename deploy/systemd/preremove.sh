#!/bin/sh
# Before a removal: deb passes "remove", rpm 0. An upgrade leaves the daemon running.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now crowsnest.service
fi
