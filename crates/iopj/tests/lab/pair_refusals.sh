# Runs on the host that are refused or are on targets that exist, each under its name. `far` runs a command on
# the target host.
# Messages of the kernel would stand amid lines.
dmesg -n 1
far "dmesg -n 1"
study() {
	cat >/tmp/$1.toml <<END
name = "$1"
paths = "io_uring/syscall/interrupt"
replicates = 1
meters = "none"
[fabric]
target_host = "/dev/iopj.agent"
device = "/dev/nvme0n1"
address = "${ADDRESS:-10.1.0.1}"
transport = "${TRANSPORT:-tcp}"
$2
[[workload]]
iodepth = 4
ios = 100
$3
END
}

go() {
	study=$1
	shift
	iopj run /tmp/$study.toml --allow hosts --store /tmp/$study.iopj "$@" >/dev/null 2>/tmp/said </dev/null
	echo "$study: exit $?"
	tr '\r\033' '\n\n' </tmp/said | sed "s/^/$study: /"
}

# What a trial's record says: these keys of JSON.
kept() {
	iopj export --json /tmp/$1.iopj | tr -d '\n' | grep -oE "\"($2)\": *(\[[^]]*\]|[^,}]*)" |
		tr -s ' ' | sed "s/ *$//; s/^/$1: /"
}

# A target as an array would be: two subsystems on a file in memory, one for every host and one for none.
far 'cd /sys/kernel/config/nvmet
dd if=/dev/zero of=/tmp/array.img bs=1M count=16 2>/dev/null
mkdir ports/1
echo tcp >ports/1/addr_trtype
echo ipv4 >ports/1/addr_adrfam
echo 10.1.0.1 >ports/1/addr_traddr
echo 4421 >ports/1/addr_trsvcid
for name in array closed; do
	subsystem=subsystems/nqn.2020-01.org.example:$name
	mkdir $subsystem $subsystem/namespaces/1
	echo /tmp/array.img >$subsystem/namespaces/1/device_path
	echo 1 >$subsystem/namespaces/1/buffered_io
	echo 1 >$subsystem/namespaces/1/enable
	[ $name = closed ] || echo 1 >$subsystem/attr_allow_any_host
	ln -s $PWD/$subsystem ports/1/subsystems/
done'
tree='cd /sys/kernel/config/nvmet
find . | sort | while read -r file; do echo "$file $(cat $file 2>/dev/null)"; done | md5sum
md5sum </tmp/array.img'
array='port = 4421
nqn = "nqn.2020-01.org.example:array"'
before=$(far "$tree")

study cached "$array"
go cached
kept cached 'verdict|verdict_reasons'
study alone "$array"
sed -i '/^target_host/d; /^device/d' /tmp/alone.toml
go alone
kept alone 'reads|authenticated'
study closed "$array"
sed -i '/^target_host/d; /^device/d; s/example:array/example:closed/' /tmp/closed.toml
go closed
echo transport=tcp,traddr=10.1.0.1,trsvcid=4421,nqn=nqn.2020-01.org.example:array >/dev/nvme-fabrics
rm /tmp/alone.iopj
go alone
echo 1 >/sys/class/nvme/nvme0/delete_controller
[ "$before" = "$(far "$tree")" ] && echo "the array is as it was"

study taken 'port = 99'
go taken
ADDRESS=10.1.0.3 study address
go address
TRANSPORT=rdma study rdma
go rdma
study writes '' 'rw = "randwrite"'
go writes --destroy-data /dev/iopj.agent:/dev/nvme1n1
go writes --destroy-data /dev/iopj.agent:/dev/nvme0n1
kept writes 'verdict|writes|write_sectors'

# Every line to the agent comes late, and the card looks for packets each 20 ms alone.
echo 100 >/sys/class/net/$nic/napi_defer_hard_irqs
echo 20000000 >/sys/class/net/$nic/gro_flush_timeout
far 'touch /tmp/slow; kill -9 $(pidof iopj)'
study slow
go slow
kept slow 'verdict|clock_uncertainty_ns'
echo 0 >/sys/class/net/$nic/napi_defer_hard_irqs
echo 0 >/sys/class/net/$nic/gro_flush_timeout

far 'rm /tmp/slow /sys/kernel/config/nvmet/ports/1/subsystems/*
cd /sys/kernel/config/nvmet
rmdir ports/1 subsystems/*/namespaces/1 subsystems/*
rmmod nvmet_tcp
kill -9 $(pidof iopj)'
study module
go module
echo "there: [$(far left)]"
