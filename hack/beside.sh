#!/usr/bin/env bash
# Runs two commands at the same time, for example a build beside tests that mostly wait. If one fails, the other one is
# stopped, and this fails. Prints at the end what the one in the background printed.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: hack/beside.sh [--nice N] COMMAND-IN-THE-BACKGROUND COMMAND

  --nice N    by how much the priority of the background command is lower (default: 19)
USAGE
}

niceness=19
while [ $# -gt 0 ]; do
  case "$1" in
    --nice) niceness=$2; shift 2 ;;
    --help|-h) usage; exit 0 ;;
    *) break ;;
  esac
done
if [ $# -ne 2 ]; then
  usage >&2
  exit 2
fi

log=$(mktemp)
idly=(nice -n "$niceness")
if command -v ionice >/dev/null; then idly+=(ionice -c 3); fi
# Each has a process group of its own, so that it can be stopped as a whole.
set -m
"${idly[@]}" bash -euo pipefail -c "$1" >"$log" 2>&1 &
background=$!
echo "==> in the background: $1"
bash -euo pipefail -c "$2" &
foreground=$!
set +m
finish() {
  kill -- -"$background" -"$foreground" 2>/dev/null || true
  wait
  rm -f "$log"
}
trap finish EXIT
trap 'kill -INT -- -"$foreground"; wait "$foreground" || true; exit 130' INT

code=0
wait -n -p first "$background" "$foreground" || code=$?
second=$background
if [ "$first" = "$background" ]; then second=$foreground; fi
if [ "$code" = 0 ]; then wait "$second" || code=$?; fi
echo "==> output of the background: $1"
cat "$log"
exit "$code"
