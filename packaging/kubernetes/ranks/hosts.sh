#!/bin/sh
# Print the pods that answer, one HOST:RANKS per line, ordered by number. `ascpipe run --hosts-script` runs this before
# each start. All pods are asked at the same time, so that each lost pod does not add its timeout.
number=0
while [ "$number" -lt "$WORKERS" ]; do
  host=ascpipe-worker-$number.ascpipe-workers
  (timeout 5 ssh -o BatchMode=yes -o ConnectTimeout=3 "$host" true </dev/null >/dev/null 2>&1 &&
    echo "$number $host:$RANKS_PER_WORKER") &
  number=$((number + 1))
done | sort -n | cut -d ' ' -f 2
