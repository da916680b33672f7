#!/bin/sh
# Print the nodes of the job that answer, one HOST:RANKS per line. `ascpipe run --hosts-script` runs this before each
# start.
for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  if timeout 5 ssh -o BatchMode=yes -o ConnectTimeout=3 "$host" true </dev/null >/dev/null 2>&1; then
    echo "$host:$RANKS_PER_NODE"
  fi
done
