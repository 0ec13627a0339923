#!/usr/bin/env bash
# Runs the end-to-end suite: brings a cluster up, builds and loads the images, deploys config/default, runs test/e2e.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: hack/e2e.sh [options] [-- options of ginkgo]

  --name NAME          the local cluster of hack/cluster to use (default: default); brought up if it does not run
  --kubeconfig FILE    use this cluster instead of a local one; its nodes must have the images capstan.dev/*:dev
  --procs N            the number of specs that run at the same time (default: 3)
  --focus REGEXP       run only the specs whose name matches
  --part PART          run only the specs that run side by side (shared), or those that run one at a time (alone)
  --load               run only the specs under load, one at a time (takes many minutes; the machine should be idle)
  --no-deploy          run the specs only; change neither the cluster nor the images nor the manager
  --deploy-only        deploy the manager, and run no specs
  --down               take the local cluster down afterwards

The script ignores the variable KUBECONFIG, because the suite restarts and kills the manager of its cluster.
USAGE
}

name=default kubeconfig="" procs=3 focus="" part="" deploy=yes run=yes down=no limit=20m
labels='!load'
while [ $# -gt 0 ]; do
  case "$1" in
    --name) name=$2; shift 2 ;;
    --kubeconfig) kubeconfig=$2; shift 2 ;;
    --procs) procs=$2; shift 2 ;;
    --focus) focus=$2; shift 2 ;;
    --part) part=$2; shift 2 ;;
    --load) labels=load procs=1 limit=3h; shift ;;
    --no-deploy) deploy=no; shift ;;
    --deploy-only) run=no; shift ;;
    --down) down=yes; shift ;;
    --help|-h) usage; exit 0 ;;
    --) shift; break ;;
    *) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done

case "$part" in
  "") ;;
  shared) labels+=' && !alone' ;;
  alone) labels+=' && alone' procs=1 ;;
  *) echo "unknown part $part" >&2; usage >&2; exit 2 ;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
if [ -n "$kubeconfig" ] && [ "$down" = yes ]; then
  echo "--down takes down a local cluster; it cannot be combined with --kubeconfig" >&2
  exit 2
fi

# progress prints the name of a step, with the seconds since the start.
progress() { printf '==> [%3ds] %s\n' "$SECONDS" "$*"; }
cluster() { go -C hack/cluster run . --name "$name" "$@"; }

work=$(mktemp -d)
finish() {
  code=$?
  rm -rf "$work"
  if [ "$down" = yes ]; then
    progress "taking the cluster $name down"
    cluster down || code=1
  fi
  exit "$code"
}
trap finish EXIT

kubectl=kubectl
if [ -z "$kubeconfig" ]; then
  if ! cluster status >/dev/null 2>&1; then
    progress "bringing the cluster $name up"
    cluster up
  fi
  kubeconfig=$(cluster kubeconfig)
  kubectl=$(cluster assets)/kubectl
  load=--load
else
  kubeconfig=$(realpath "$kubeconfig")
  load=
fi
export KUBECONFIG="$kubeconfig" E2E_KUBECTL="$kubectl" E2E_REPOSITORY="$root"
k() { "$kubectl" --request-timeout=120s "$@"; }
progress "cluster: $(k config view --minify -o jsonpath='{.clusters[0].cluster.server}')"

if [ "$deploy" = yes ]; then
  progress "building the images${load:+ and loading them}"
  cluster images --out "$work" ${load:+"$load"}
  progress "applying config/default"
  k apply --server-side --force-conflicts -k config/default
  k wait --for=condition=Established --timeout=60s -f config/crd/bases
  # The tag of the image never changes. The digest in an annotation restarts the manager if the image has changed.
  image=$(sha256sum "$work/manager.tar" | cut -c1-16)
  k -n capstan-system patch deployment capstan-manager --patch \
    "{\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"capstan.dev/e2e-image\":\"$image\"}}}}}"
  progress "waiting for the manager"
  k -n capstan-system rollout status deployment/capstan-manager --timeout=120s
fi
[ "$run" = yes ] || exit 0

leftovers=$(k get namespaces -l app.kubernetes.io/part-of=capstan-e2e -o name)
if [ -n "$leftovers" ]; then
  progress "deleting the namespaces of an earlier run"
  # shellcheck disable=SC2086 # one argument a line
  k delete --wait=true --ignore-not-found $leftovers
fi

progress "building kubectl capstan and the suite"
CGO_ENABLED=0 go build -o "$work/kubectl-capstan" ./cmd/kubectl-capstan
export E2E_CLI="$work/kubectl-capstan"
ginkgo=$(go -C hack/tools tool -n ginkgo)
# Without cgo, as the images and the other suites: the build cache has their shared packages already.
CGO_ENABLED=0 "$ginkgo" build --tags=e2e -o "$work/e2e.test" ./test/e2e
colour=
[ -t 1 ] || colour=--no-color
progress "running the specs, $procs at a time"
"$ginkgo" run --procs="$procs" -v --timeout="$limit" --label-filter="$labels" --poll-progress-after=100s --output-interceptor-mode=none \
  $colour ${focus:+--focus="$focus"} "$@" "$work/e2e.test"
progress "done"
