#!/usr/bin/env bash
# Records docs/chat.cast and docs/chat.svg: a chat with kubectl capstan that goes on while the manager is killed, on the
# cluster of hack/cluster, whose manager is a process of this machine. hack/e2e.sh --deploy-only brings it up before.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=hack/lib.sh
source hack/lib.sh

KUBECONFIG=$(cluster kubeconfig)
cluster_type=local
export KUBECONFIG
find_kubectl
namespace=capstan-recording
work=$(mktemp -d)
finish() {
  kube delete namespace "$namespace" --ignore-not-found --wait=false >/dev/null
  rm -rf "$work"
}
trap finish EXIT

say "building kubectl-capstan and the recorder"
CGO_ENABLED=0 go build -o "$work/" ./cmd/kubectl-capstan ./hack/record
ln -s "$kubectl_bin" "$work/kubectl"
export PATH="$work:$PATH"

say "creating the Session demo"
kube create namespace "$namespace" --dry-run=client -o yaml | kube apply -f - >/dev/null
cp "$KUBECONFIG" "$work/kubeconfig"
export KUBECONFIG="$work/kubeconfig"
kube config set-context --current --namespace="$namespace" >/dev/null
kube apply -f hack/record/chat.yaml >/dev/null
kube wait --for=condition=Ready --timeout=60s --request-timeout=0 session/demo >/dev/null

# The process of the manager is the one in the control group of its container.
pod=$(kube -n capstan-system get pods -l app.kubernetes.io/component=manager -o jsonpath='{.items[0].metadata.name}')
container=$(kube -n capstan-system get pod "$pod" -o jsonpath='{.status.containerStatuses[?(@.name=="manager")].containerID}')
container=${container##*/}
[ -n "$container" ] || die "the manager does not run"
file=$(grep -ls -- "$container" /proc/[0-9]*/cgroup | head -1)
process=$(basename "$(dirname "$file")")

say "recording"
record -out docs -kill "kill -9 $process && echo '(another terminal) \$ kill -9 $process   # the manager, in mid sentence'"
say "docs/chat.cast and docs/chat.svg are written"
