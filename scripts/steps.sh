# How set-up says what it does; scripts/setup.sh reads this file.

STEPS=5
TICK_S=${TICK_S:-10} # no silence is longer
worked=              # a step had something to do

say() { printf 'setup: %s\n' "$*" >&2; }
missing() { say "$1 is missing (Debian: apt-get install $2)"; exit 2; }

# begin N TEXT, done_: a step that has something to do, and its end. Beside it a line now and then says that it
# goes on; the process that prints these ends when its input does, however this script ends.
begin() {
  worked=yes step=$1 began=$SECONDS
  say "[$step/$STEPS] $2"
  exec 8> >(beat "$step" 8>&-)
}
done_() {
  exec 8>&-
  say "[$step/$STEPS] done in $((SECONDS - began)) s${1:+; next: $1}"
}
beat() {
  local status
  while true; do
    status=0
    read -r -t $TICK_S _ || status=$?
    [ $status -gt 128 ] || return 0 # the end of the input; above 128: nothing came
    say "[$1/$STEPS] at it for $((SECONDS - began)) s"
  done
}
