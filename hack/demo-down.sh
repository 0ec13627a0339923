#!/usr/bin/env bash
# Removes the objects of the demo: the whole cluster when it is the demo's own, and only our objects in a cluster that
# was there before.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "$0")/lib.sh"

choose_cluster
case $kind_of_cluster in
  own) say "stopping the cluster"; cluster down ;;
  kind) say "deleting the kind cluster"; kind delete cluster --name capstan --kubeconfig "$KUBECONFIG"; rm -f "$KUBECONFIG" ;;
  given)
    find_kubectl
    say "deleting the demo's namespace, then Capstan"
    kube delete namespace capstan-demo --ignore-not-found --timeout=120s --request-timeout=0
    kube delete --ignore-not-found --timeout=120s --request-timeout=0 -k "$repo/config/default" ;;
esac
rm -rf "${XDG_CACHE_HOME:-$HOME/.cache}/capstan/images"
say "done"
