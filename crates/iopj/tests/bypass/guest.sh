# What the scripts of these guests share.

# address N: the PCI address of the Nth drive in the machine's list; the kernel's driver has it.
address() {
	number=$1
	[ "$number" -gt 0 ] || number=
	folder=$(dirname "$(grep -lx "iopjlab$number *" /sys/class/nvme/nvme*/serial)")
	basename "$(readlink -f "$folder/device")"
}

# usable: how many drives the kernel's driver has that can be opened. Their nodes come earlier.
usable() {
	count=0
	for drive in /dev/nvme*n1; do
		{ true <"$drive"; } 2>/dev/null && count=$((count + 1))
	done
	echo $count
}

# drives N: waits until the kernel's driver has so many drives.
drives() {
	tries=600
	until [ "$(usable)" -eq "$1" ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || { echo "the drives did not appear"; exit 97; }
		sleep 0.1
	done
}

# node ADDRESS: the block device of the drive's namespace.
node() {
	set -- /sys/bus/pci/devices/"$1"/nvme/nvme*/nvme*n1
	echo "/dev/${1##*/}"
}

# driver ADDRESS: the driver that has the drive.
driver() {
	basename "$(readlink "/sys/bus/pci/devices/$1/driver")"
}

# under_way NAME ADDRESS: waits until the second of an attempt's two trials drives the drive.
under_way() {
	until grep -q '^2/2' "/out/$1.messages" 2>/dev/null; do sleep 0.1; done
	until [ "$(driver "$2")" = vfio-pci ]; do sleep 0.1; done
	# Who opens it lets it reach memory (bit 2 of PCI's command register).
	until [ $(($(od -An -tu1 -j4 -N1 "/sys/bus/pci/devices/$2/config") & 4)) -ne 0 ]; do sleep 0.1; done
	sleep 1.5
}

# attempt NAME ADDRESS ARGUMENTS...: a run of a study or a matrix on the drive, which it may take from its
# driver. It prints its messages on the console. It leaves under NAME: the messages, its exit status, the
# drive's driver and block device afterwards, and its trials.
attempt() {
	name=$1
	address=$2
	shift 2
	target=$(node "$address")
	case $1 in *.toml) ;; *) set -- --meters none --ramp-time 0s "$@" ;; esac
	echo "attempt $name"
	{
		cd /tmp
		iopj run --target "$target" --take-device "$address" --store "$name.iopj" "$@" \
			2>&1 >/dev/null
		echo $? >"/out/$name.status"
	} | tee "/out/$name.messages"
	driver "$address" >"/out/$name.driver"
	[ -b "$target" ]
	echo $? >"/out/$name.node"
	cp "/tmp/$name.iopj"* /out/ 2>/dev/null
}

