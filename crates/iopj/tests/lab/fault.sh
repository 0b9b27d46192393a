#!/bin/sh
# A meter of 1 W that falsifies the polled paths of the run that started it, from a trial's pass until the end
# of its window at the latest. It then prints what it did as one number: the kind of fault, and in the last
# three digits how long it lasted, in hundredths of a second.
cd /sys/block/nvme0n1/queue
[ @SEED@ = 0 ] || RANDOM=@SEED@

# The most of a window.
hold() {
	sleep 0.$((65 + RANDOM % 20))
}

# Polling sleeps before each I/O.
sleeps() {
	echo 0 >io_poll_delay
	hold
	echo -1 >io_poll_delay
}

# The disk is not polled, but interrupts.
interrupts() {
	echo 0 >io_poll
	hold
	echo 1 >io_poll
}

# Who polls is stopped, once the window has begun.
stops() {
	sleep 0.1$((RANDOM % 10))
	now
	kill -STOP $PPID
	hold
	kill -CONT $PPID
}

# Hybrid polling does not sleep, in all but a little of a window.
spins() {
	echo -1 >io_poll_delay
	sleep 0.9$((RANDOM % 5))
	echo 0 >io_poll_delay
}

# Hundredths of a second, since the boot.
now() {
	read -r up _ </proc/uptime
	begin=$end
	end=${up%.*}${up#*.}
}

# Waits until the jobs read again: they stand still between the pass and the window.
at_window() {
	read -r still rest <../stat
	tries=100
	while read -r reads rest <../stat && [ $reads = $still ] && [ $tries -gt 0 ]; do
		tries=$((tries - 1))
		sleep 0.01
	done
}

# The next way in turn, or none: for two of five polled trials, which are of two paths.
falsify() {
	read -r delay <io_poll_delay
	if [ $delay = -1 ]; then
		polled=$((polled + 1))
		way=$((polled % 5 % 4))
	else
		hybrid=$((hybrid + 1))
		way=$((hybrid % 2 * 4))
	fi
	[ $way = 0 ] || at_window
	now
	case $way in
	1) sleeps ;;
	2) interrupts ;;
	3) stops ;;
	4) spins ;;
	0) return ;;
	esac
	now
	long=$((end - begin))
	# What is printed at once after it would take its place.
	printf '%d%03d\n' $way $((long < 999 ? long : 999))
	sleep 0.2
}

# Counters are open in a pass, one descriptor each, and closed before the window.
polled=0 hybrid=0 end=0 before=1000000 looks=0
while :; do
	set -- /proc/$PPID/fd/*
	if [ $# -ge $((before + 6)) ]; then
		most=$#
		while set -- /proc/$PPID/fd/* && [ $# -gt $((most - 6)) ]; do
			[ $# -le $most ] || most=$#
			sleep 0.01
		done
		falsify
		set -- /proc/$PPID/fd/*
	fi
	before=$#
	looks=$((looks + 1))
	[ $((looks % 4)) != 0 ] || echo 1
	sleep 0.02
done
