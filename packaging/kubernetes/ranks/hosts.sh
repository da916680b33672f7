#!/bin/sh
# Print the pods that answer, one HOST:RANKS per line. `ascpipe run --hosts-script` runs this before each start.
number=0
while [ "$number" -lt "$WORKERS" ]; do
  host=ascpipe-worker-$number.ascpipe-workers
  if timeout 5 ssh -o BatchMode=yes -o ConnectTimeout=3 "$host" true </dev/null >/dev/null 2>&1; then
    echo "$host:$RANKS_PER_WORKER"
  fi
  number=$((number + 1))
done
