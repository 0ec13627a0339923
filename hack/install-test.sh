#!/usr/bin/env bash
# Installs releases on a real cluster: images and charts from a registry on this machine, upgrades, a rollback, an
# uninstall, with Turns running; and the archives of the plugin. Brings the cluster up if it does not run.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: hack/install-test.sh [options]

  --name NAME    the local cluster of hack/cluster to use (default: default); brought up if it does not run
  --turns N      the number of Turns that run during each change (default: 6)
  --before REF   the commit of the version that is upgraded (default: the commit before)
  --exhaustive   50 Turns, images for amd64 and arm64, the archives for all machines, and README's commands
  --down         take the local cluster down afterwards
USAGE
}

name=default down=no limit=25m tests="TestArchives|TestInstall"
while [ $# -gt 0 ]; do
  case "$1" in
    --name) name=$2; shift 2 ;;
    --turns) export INSTALL_TURNS=$2; shift 2 ;;
    --before) export INSTALL_BEFORE=$2; shift 2 ;;
    --exhaustive)
      export INSTALL_TURNS=${INSTALL_TURNS:-50} INSTALL_PLATFORMS=${INSTALL_PLATFORMS:-linux/amd64,linux/arm64}
      export INSTALL_PROGRAMS=linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
      tests+="|TestTheCommandsOfReadme" limit=60m
      shift ;;
    --down) down=yes; shift ;;
    --help|-h) usage; exit 0 ;;
    *) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
cd "$(dirname "$0")/.."
cluster() { go -C hack/cluster run . --name "$name" "$@"; }

work=$(mktemp -d)
finish() {
  code=$?
  rm -rf "$work"
  if [ "$down" = yes ]; then cluster down || code=1; fi
  exit "$code"
}
trap finish EXIT

cluster status >/dev/null 2>&1 || cluster up
cluster images toolbox --out "$work" --load
KUBECONFIG=$(cluster kubeconfig)
E2E_KUBECTL=$(cluster assets)/kubectl
export KUBECONFIG E2E_KUBECTL
# -v: progress is printed while the test runs.
CGO_ENABLED=0 go -C hack/release test -tags e2e -count=1 -v -timeout "$limit" \
  -run "^($tests)\$" .
