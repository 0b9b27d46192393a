#!/bin/sh
# Prolog of Slurm for iopj's jobs, as root on the node, before a job begins (slurm.conf: Prolog=).
#
# Settings of a host can be changed by root alone, and a job runs as its user. So this script gives the node
# the settings that the administrator allows, for jobs whose comment is iopj (slurmd tells a prolog no job's
# name), and epilog.sh puts the old values back.
# The list is /etc/iopj/slurm-settings: one file below /sys and its value a line, such as
#
#     block/nvme0n1/queue/scheduler none
#
# A node on which a setting cannot be made, or on which an earlier one could not be put back, refuses the job:
# Slurm drains the node and queues the job again.
set -eu

list=${IOPJ_SLURM_SETTINGS:-/etc/iopj/slurm-settings}
kept=${IOPJ_SLURM_STATE:-/run/iopj-slurm}
sys=${IOPJ_SLURM_SYS:-/sys}

[ "${SLURM_JOB_COMMENT:-}" = iopj ] || exit 0

iopj restore >&2
if [ -s "$kept/old" ]; then
    echo "iopj: settings of an earlier job are not put back: see $kept/old, then remove it" >&2
    exit 1
fi
[ -r "$list" ] || exit 0
mkdir -p "$kept"
while read -r file value || [ -n "$file" ]; do
    case $file in
    '' | '#'*) continue ;;
    /* | *..*)
        echo "iopj: $list names $file: write a file below $sys, without .. in it" >&2
        exit 1
        ;;
    esac
    # A list of choices shows the current one in brackets.
    old=$(sed 's/.*\[\(.*\)\].*/\1/' "$sys/$file")
    # The old value is on the disk before the new one is set; the last change is the first to be put back.
    { echo "$file $old"; cat "$kept/old" 2>/dev/null || :; } >"$kept/new"
    sync "$kept/new"
    mv "$kept/new" "$kept/old"
    echo "$value" >"$sys/$file"
done <"$list"
