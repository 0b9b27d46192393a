#!/bin/sh
# Epilog of Slurm for iopj's jobs, as root on the node, after a job's end of any kind (slurm.conf: Epilog=).
#
# Puts back what prolog.sh changed, and what a run that was killed left changed; where nothing is left, other
# jobs are none of its business. If something stays, it says so and fails: Slurm drains the node.
set -u

kept=${IOPJ_SLURM_STATE:-/run/iopj-slurm}
sys=${IOPJ_SLURM_SYS:-/sys}
failed=0

[ -f "$kept/old" ] || ls /run/iopj/journal-* >/dev/null 2>&1 || exit 0
iopj restore >&2 || failed=1
if [ -f "$kept/old" ]; then
    while read -r file old; do
        echo "$old" >"$sys/$file" || failed=1
    done <"$kept/old"
    [ "$failed" -ne 0 ] || rm -f "$kept/old"
fi
exit "$failed"
