#!/usr/bin/env bash
# Runs every fuzz target of the repository for a short time, one after another.
# Usage: hack/fuzz.sh [TIME EACH]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

each=${1:-10s}
found=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r package; do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //' | sort -u); do
    echo "==> fuzzing $target in $package for $each"
    if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$each" "./$package" 2>&1 | tee "$log"; then
      # go test also fails if the time ends while it tries an input. A real failure names the file of the input.
      if grep -q 'Failing input written' "$log" || ! grep -q '^ *context deadline exceeded' "$log"; then
        exit 1
      fi
      echo "    the time is over; no failing input"
    fi
    found=$((found + 1))
  done
done < <(grep -rlE --include='*_test.go' '^func Fuzz' api capstantest cmd internal hack/toolbox test | xargs -r -n1 dirname | sort -u)
echo "==> $found fuzz targets, no failing input"
