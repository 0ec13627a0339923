#!/usr/bin/env bash
# Removes the objects of the demo: the whole cluster if the demo created it, else only the demo's namespace and Capstan.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "$0")/lib.sh"

choose_cluster
confirm_cluster "remove Capstan and every conversation from"
case $cluster_type in
  local) say "stopping the cluster"; cluster down ;;
  kind) say "deleting the kind cluster"; kind delete cluster --name capstan --kubeconfig "$KUBECONFIG"; rm -f "$KUBECONFIG" ;;
  existing)
    find_kubectl
    say "deleting the namespace of the demo, then Capstan"
    kube delete namespace capstan-demo --ignore-not-found --timeout=120s --request-timeout=0
    kube delete --ignore-not-found --timeout=120s --request-timeout=0 -k "$repo/config/default" ;;
esac
rm -rf "${XDG_CACHE_HOME:-$HOME/.cache}/capstan/images"
say "done"
