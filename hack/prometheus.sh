#!/usr/bin/env bash
# Prints the directory of the programs prometheus and promtool: that of PATH, or one into which Debian's package is
# unpacked. The package is not installed, because that starts a server on port 9090.
set -euo pipefail

if found=$(command -v promtool) && command -v prometheus >/dev/null; then
  dirname "$found"
  exit 0
fi
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
  echo "hack/prometheus.sh: this is not Debian: install Prometheus, so that prometheus and promtool are on PATH" >&2
  exit 1
}

cache=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/capstan
mkdir -p "$cache"
exec 9>"$cache/prometheus.lock"
flock 9
if [[ ! -x $cache/prometheus/usr/bin/promtool ]]; then
  echo "==> unpacking Debian's prometheus (once)" >&2
  unpacking=$(mktemp -d -p "$cache")
  trap 'rm -rf "$unpacking"' EXIT
  cd "$unpacking"
  # A machine that has just been made knows no packages.
  apt-get download -qq prometheus >&2 || { apt-get update -qq >&2 && apt-get download -qq prometheus >&2; }
  dpkg-deb --extract prometheus_*.deb unpacked
  rm -rf "$cache/prometheus"
  mv unpacked "$cache/prometheus"
fi
echo "$cache/prometheus/usr/bin"
