# One run of eight trials on the host, during which the connection and the agent break in turn. `far` runs a
# command on the target host.
# Messages of the kernel would stand amid lines.
dmesg -n 1
far "dmesg -n 1"

cat >/tmp/breaks.toml <<END
name = "breaks"
paths = "io_uring/syscall/interrupt"
replicates = 8
meters = "none"
[fabric]
target_host = "/dev/iopj.agent"
device = "/dev/nvme0n1"
address = "10.1.0.1"
transport = "tcp"
keep_alive_tmo = 2
ctrl_loss_tmo = 4
[[workload]]
iodepth = 4
runtime = "6s"
END

# The reads over the connection that there is.
reads() {
	set -- $(cat /sys/class/nvme/nvme*/nvme*n1/stat 2>/dev/null)
	echo ${1:-0}
}

# Waits until the run's first connection is gone, if it is there, and until the trial has done more I/Os than
# the control run before it, which is no part of it.
at_work() {
	tries=600
	while [ $(reads) -ge 100 ] && [ $tries -gt 0 ]; do tries=$((tries - 1)); sleep 0.1; done
	while [ $(reads) -lt 300 ] && [ $tries -gt 0 ]; do tries=$((tries - 1)); sleep 0.1; done
}

iopj run /tmp/breaks.toml --allow hosts --store /tmp/breaks.iopj 2>&1 >/dev/null | while IFS= read -r line; do
	echo "$line"
	case "$line" in
	1/8*) at_work; ifconfig $nic down; sleep 6; ifconfig $nic up ;;
	2/8*)
		at_work
		# Not before this command's own connection has ended.
		far "(sleep 1; ifconfig $nic down; sleep 20; ifconfig $nic up) >/dev/null 2>&1 </dev/null &"
		;;
	4/8*) at_work; far 'for pid in $(pidof iopj); do grep -q agent /proc/$pid/cmdline && kill -9 $pid; done' ;;
	6/8*) at_work; far 'rm /sys/kernel/config/nvmet/ports/*/subsystems/*' ;;
	7/8*) at_work; far "cd /sys/kernel/config/nvmet/hosts/*; echo $OTHER_KEY >dhchap_key" ;;
	esac
done
echo "authenticated trials: $(iopj export --json /tmp/breaks.iopj | grep -c '"authenticated": "true"')"
echo "authenticated connections: $(dmesg | grep -c 'qid 0: authenticated with')"
echo "there: [$(far left)]"
