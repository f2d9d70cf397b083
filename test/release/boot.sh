#!/bin/sh
# Boots systemd in a copy of this machine and runs FOLDER/script.sh there, as root: in
# namespaces of its own, on an overlay of the root file system that disappears with
# them. The script finds FOLDER as /in; /in/out is its output. CGROUP is an empty control
# group of the hierarchy that systemd uses. Everything ends with this process.
# Usage: boot.sh FOLDER CGROUP
set -eu
in=$1

if [ "$2" != inside ]; then
	echo $$ > "$2/cgroup.procs"
	exec unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child sh -eu "$0" "$in" inside
fi

lab=$in/lab
mkdir "$lab"
mount -t tmpfs tmpfs "$lab"
mkdir "$lab/upper" "$lab/work" "$lab/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$lab/upper,workdir=$lab/work" "$lab/root"
cd "$lab/root"
mkdir in
mount --bind "$in" in
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t sysfs -o ro sysfs sys
if [ -e /sys/fs/cgroup/systemd/cgroup.procs ]; then
	mount -t tmpfs tmpfs sys/fs/cgroup
	mkdir sys/fs/cgroup/systemd
	mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
else
	mount -t cgroup2 cgroup2 sys/fs/cgroup
fi

# Nothing of this machine starts but the journal and the script, whose exit code is
# that of systemd. Images of containers omit manuals and documents from packages.
rm -rf etc/fstab etc/dpkg/dpkg.cfg.d/* etc/systemd/system/*.wants usr/lib/systemd/system/*.wants
mkdir usr/lib/systemd/system/sysinit.target.wants
ln -s ../systemd-journald.service usr/lib/systemd/system/sysinit.target.wants
cat > etc/systemd/system/script.service <<'END'
[Unit]
SuccessAction=exit-force
FailureAction=exit-force

[Service]
Type=oneshot
Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/bin/sh -eu /in/script.sh
StandardOutput=file:/in/out
StandardError=inherit
END
exec chroot . env -i container=test /lib/systemd/systemd --system --unit=script.service --show-status=no
