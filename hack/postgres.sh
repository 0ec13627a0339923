#!/usr/bin/env bash
# Makes sure that this machine has the programs of a PostgreSQL server, which the tests of the backend postgres start. On
# Debian it installs the package as root, without the server that the package would start; elsewhere it names what is
# missing.
set -euo pipefail

complete() {
  local dir=$1 program
  for program in postgres initdb pg_basebackup pg_dump pg_restore; do
    [[ -x $dir/$program ]] || return 1
  done
}

found=$(command -v postgres || true)
for dir in ${found:+"$(dirname "$(readlink -f "$found")")"} /usr/lib/postgresql/*/bin; do
  if complete "$dir"; then exit 0; fi
done
if ! command -v apt-get >/dev/null; then
  echo "hack/postgres.sh: install a PostgreSQL server, so that its programs are on PATH" >&2
  exit 1
fi
if [[ $EUID -ne 0 ]]; then
  echo "hack/postgres.sh: missing: a PostgreSQL server; run this as root, or install Debian's package postgresql" >&2
  exit 1
fi
echo "==> installing Debian's postgresql (once)" >&2
export DEBIAN_FRONTEND=noninteractive
{
  apt-get update -qq
  apt-get install --yes -qq --no-install-recommends postgresql-common
  # A file of the package: the server that it would create is not needed.
  sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
  apt-get install --yes -qq --no-install-recommends postgresql
} >&2
