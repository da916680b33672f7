#!/bin/sh
# Print the nodes of the job that answer, one HOST:RANKS per line, in the order of scontrol. `ascpipe run
# --hosts-script` runs this before each start. All nodes are asked at the same time, so that each lost node does not add
# its timeout.
number=0
for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  (timeout 5 ssh -o BatchMode=yes -o ConnectTimeout=3 "$host" true </dev/null >/dev/null 2>&1 &&
    echo "$number $host:$RANKS_PER_NODE") &
  number=$((number + 1))
done | sort -n | cut -d ' ' -f 2
