#!/bin/sh
# The guest's first process. Lines that begin with "lab:" are for the host.
export PATH=/bin:/sbin HOME=/root LD_LIBRARY_PATH=@LIBRARIES@

# Off, once the console has printed its last words: stty waits for them.
off() {
	stty -F /dev/console sane
	poweroff -f
}

fail() {
	echo "@FAILED@ $1: $2"
	off
	exit 1
}

load() {
	cause=$(insmod "$@" 2>&1) || fail modules "$cause"
}

mount -t proc proc /proc || fail mounts "no proc"
mount -t sysfs sysfs /sys || fail mounts "no sysfs"
mount -t devtmpfs devtmpfs /dev || fail mounts "no devtmpfs"
mkdir -p /dev/shm /dev/pts
for folder in /tmp /run /dev/shm; do
	mount -t tmpfs tmpfs $folder || fail mounts "no tmpfs on $folder"
done
chmod 1777 /tmp /dev/shm
[ ! -d /lab/late ] || cp -a /lab/late/. / || fail programs "the guest's memory is full"
# Not every kernel has these.
mount -t devpts devpts /dev/pts 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null

@INSMODS@

mount -t configfs configfs /sys/kernel/config 2>/dev/null
echo 0 >/proc/sys/kernel/kptr_restrict
ifconfig lo 127.0.0.1 up 2>/dev/null

# QEMU tells their driver the ports' names after it is loaded.
port=
tries=300
while [ $tries -gt 0 ]; do
	for folder in /sys/class/virtio-ports/*; do
		[ "$(cat "$folder/name" 2>/dev/null)" = @OUT_PORT@ ] && port=/dev/${folder##*/}
	done
	[ ! -c "$port" ] || break
	tries=$((tries - 1))
	sleep 0.1
done
[ -c "$port" ] || fail channel "the guest has no port @OUT_PORT@"

read -r uptime _ </proc/uptime
echo "@UP@ $uptime"
/bin/sh /lab/run </dev/null
echo $? >/@EXIT_MEMBER@ || fail exit "the guest's memory is full"
tar -c -f "$port" -C / @EXIT_MEMBER@ @OUT_FOLDER@ || fail archive "tar could not hand out /@OUT_FOLDER@"
off
