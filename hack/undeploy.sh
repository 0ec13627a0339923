#!/usr/bin/env bash
# Removes Capstan from a cluster without interrupting a Turn: running Turns end first; then the manager, its other
# objects and, last, the CustomResourceDefinitions are deleted. It can be run again after a failure, and on a partial
# installation.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: hack/undeploy.sh [options]

  --wait SECONDS       how long to wait for running Turns to end, queued ones included, and then for the resources of
                       leases to be cleaned up (default: 60)
  --cancel             then cancel the Turns that have not ended; without it, nothing is removed while a Turn runs
  --force              delete running Turns without waiting for them, and abandon the resources of leases
  --definitions-only   remove only the CustomResourceDefinitions, and with them every object of their kinds

The variable KUBECTL names the kubectl to use, KUBECONFIG the cluster.
USAGE
}

patience=60 cancel=no force=no all=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --wait) patience=${2%s}; shift 2 ;;
    --cancel) cancel=yes; shift ;;
    --force) force=yes; shift ;;
    --definitions-only) all=no; shift ;;
    --help|-h) usage; exit 0 ;;
    *) echo "unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
done
case $patience in ''|*[!0-9]*) echo "--wait takes a number of seconds" >&2; exit 2 ;; esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
namespace=capstan-system
kubectl=${KUBECTL:-kubectl}

say() { printf '==> %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
# kube runs kubectl with a timeout, because a cluster may not respond.
kube() { "$kubectl" --request-timeout=30s "$@"; }
# kube_waiting runs a command that has a timeout of its own, which may be longer than that of one request.
kube_waiting() { "$kubectl" --request-timeout=0 "$@"; }
# served reports whether a kind is defined. It exits if the definition cannot be read, because an error does
# not mean that the kind is absent.
served() {
  local found
  found=$(kube get "customresourcedefinitions/$1.capstan.dev" --ignore-not-found -o name) ||
    die "reading the definition of $1 failed; run this again"
  [ -n "$found" ]
}

# active lists the Sessions in which a Turn runs: namespace, Session, Turn. The write that releases a Turn names the
# next queued one, so a Session with queued Turns never appears to be idle.
active() {
  served sessions || return 0
  kube get sessions.capstan.dev --all-namespaces -o go-template='{{range .items}}{{$meta := .metadata}}{{with .status}}{{with .activeTurn}}{{$meta.namespace}} {{$meta.name}} {{.name}}{{"\n"}}{{end}}{{end}}{{end}}'
}

# unfinished lists the Turns that have not ended: namespace, name.
unfinished() {
  served turns || return 0
  kube get turns.capstan.dev --all-namespaces -o go-template='{{range .items}}{{$ended := false}}{{with .status}}{{range .conditions}}{{if and (eq .type "Finished") (eq .status "True")}}{{$ended = true}}{{end}}{{end}}{{end}}{{if not $ended}}{{.metadata.namespace}} {{.metadata.name}}{{"\n"}}{{end}}{{end}}'
}

# drain SECONDS waits until no Session has a running Turn, at most that long after the first successful list. It lists
# again after an error.
drain() {
  local deadline=$((SECONDS + $1)) looked=no left space session turn
  while true; do
    if ! left=$(active); then
      ((SECONDS < deadline)) || return 1
      sleep 1
      continue
    fi
    [ -n "$left" ] || return 0
    if [ "$looked" = no ]; then
      looked=yes deadline=$((SECONDS + $1))
    fi
    read -r space session turn <<<"$left"
    if ((SECONDS >= deadline)); then
      return 1
    fi
    say "running Turns: $(wc -l <<<"$left"); waiting $((deadline - SECONDS)) s at most, first for $turn in namespace $space"
    # An error is ignored: the Session may have been deleted, and the loop lists again.
    kube_waiting -n "$space" wait "sessions.capstan.dev/$session" --for=jsonpath='{.status.phase}'=Idle --timeout="$((deadline - SECONDS))s" >/dev/null 2>&1 || true
  done
}

# cancel_all cancels every Turn that has not ended, queued Turns too, so that none of them starts.
cancel_all() {
  local space turn
  while read -r space turn; do
    [ -n "$turn" ] || continue
    say "cancelling Turn $turn in namespace $space"
    kube -n "$space" patch "turns.capstan.dev/$turn" --type=merge --patch '{"spec":{"desiredState":"Cancelled"}}' >/dev/null || true
  done <<<"$(unfinished)"
}

# available prints how many pods of the manager are available; nothing if none is.
available() {
  kube -n "$namespace" get deployment/capstan-manager --ignore-not-found -o jsonpath='{.status.availableReplicas}'
}

# settle waits for the running Turns to end, or cancels them. It exits if some still run.
settle() {
  local left running
  left=$(active)
  if [ -z "$left" ]; then
    say "no Turn runs"
    return
  fi
  if [ "$force" = yes ]; then
    say "running Turns: $(wc -l <<<"$left"); deleting them without waiting (--force)"
    return
  fi
  running=$(available)
  if [ -z "$running" ]; then
    printf '%s\n' "$left" >&2
    die "Turns run in these Sessions (namespace, Session, Turn), and the manager, which would end them, is not available. Start the manager, or use --force to delete them without waiting"
  fi
  if drain "$patience"; then
    return
  fi
  if [ "$cancel" = yes ]; then
    cancel_all
    drain 60 && return
  fi
  active >&2
  die "Turns still run in these Sessions (namespace, Session, Turn); nothing was removed. Wait longer with --wait, cancel them with --cancel, or delete them without waiting with --force"
}

# announce prints the numbers of objects that are about to be deleted.
announce() {
  local kind count found=
  for kind in sessions turns toolresults journalentries records harnesses agents models tools leasedresources; do
    if served "$kind"; then
      count=$(kube get "$kind.capstan.dev" --all-namespaces -o name | wc -l)
      found="$found $((count)) $kind,"
    fi
  done
  if [ -n "$found" ]; then
    say "deleting, in all namespaces:${found%,}"
  else
    say "the cluster has no CustomResourceDefinition of Capstan"
  fi
}

# remove_sessions deletes the Sessions while the manager still runs and can remove their finalizers.
remove_sessions() {
  if served sessions && [ "$force" = no ]; then
    say "deleting the Sessions"
    kube_waiting delete sessions.capstan.dev --all --all-namespaces --timeout=120s >/dev/null ||
      die "some Sessions still exist after two minutes: see their metadata.finalizers and the manager's log, then run this again"
  fi
}

# release_sessions removes the finalizer of Sessions with hooks at their end, if no manager runs that would do it. The
# hooks do not run then.
release_sessions() {
  local running left space session place
  running=$(available)
  if [ -n "$running" ] || ! served sessions; then
    return 0
  fi
  left=$(kube get sessions.capstan.dev --all-namespaces -o go-template='{{range .items}}{{$meta := .metadata}}{{range $place, $name := $meta.finalizers}}{{if eq $name "capstan.dev/session-end"}}{{$meta.namespace}} {{$meta.name}} {{$place}}{{"\n"}}{{end}}{{end}}{{end}}')
  while read -r space session place; do
    [ -n "$session" ] || continue
    say "no manager runs: releasing Session $session in namespace $space without the hooks at its end"
    kube -n "$space" patch "sessions.capstan.dev/$session" --type=json --patch '[
      {"op": "test", "path": "/metadata/finalizers/'"$place"'", "value": "capstan.dev/session-end"},
      {"op": "remove", "path": "/metadata/finalizers/'"$place"'"}]' >/dev/null
  done <<<"$left"
}

# remove_leases deletes the LeasedResources while the manager still runs and can clean up what they are about.
remove_leases() {
  if served leasedresources && [ "$force" = no ]; then
    say "deleting the LeasedResources, whose resources are cleaned up"
    kube_waiting delete leasedresources.capstan.dev --all --all-namespaces --timeout="$((patience + 1))s" >/dev/null ||
      die "some resources are not cleaned up: see kubectl get leasedresources --all-namespaces. Wait longer" \
        "with --wait, set their spec.desiredState to Abandoned, or abandon all with --force"
  fi
}

# release_leases abandons what is not cleaned up, and removes the finalizer of its LeasedResource: no manager runs that
# would do it. An error is ignored, because the LeasedResource may be gone: one that stays holds the definition, and
# is reported by that.
release_leases() {
  local left space name place
  served leasedresources || return 0
  left=$(kube get leasedresources.capstan.dev --all-namespaces -o go-template='{{range .items}}{{$meta := .metadata}}{{range $place, $name := $meta.finalizers}}{{if eq $name "capstan.dev/lease-cleanup"}}{{$meta.namespace}} {{$meta.name}} {{$place}}{{"\n"}}{{end}}{{end}}{{end}}')
  while read -r space name place; do
    [ -n "$name" ] || continue
    say "no manager runs: abandoning the resource of LeasedResource $name in namespace $space"
    kube -n "$space" patch "leasedresources.capstan.dev/$name" --type=merge \
      --patch '{"spec":{"desiredState":"Abandoned"}}' >/dev/null || true
    kube -n "$space" patch "leasedresources.capstan.dev/$name" --type=json --patch '[
      {"op": "test", "path": "/metadata/finalizers/'"$place"'", "value": "capstan.dev/lease-cleanup"},
      {"op": "remove", "path": "/metadata/finalizers/'"$place"'"}]' >/dev/null || true
  done <<<"$left"
}

# stop_manager scales the manager to zero and waits until its pods are deleted.
stop_manager() {
  if [ -n "$(kube -n "$namespace" get deployment/capstan-manager --ignore-not-found -o name)" ]; then
    say "stopping the manager"
    kube -n "$namespace" scale deployment/capstan-manager --replicas=0 >/dev/null
    kube_waiting -n "$namespace" wait pods --for=delete --selector app.kubernetes.io/name=capstan,app.kubernetes.io/component=manager --timeout=120s >/dev/null
  fi
}

# remove_installation deletes the objects of config/default, except the CustomResourceDefinitions.
remove_installation() {
  say "deleting the manager's namespace, its ServiceAccount and the roles"
  kube kustomize "$root/config/default" | awk '
    function flush() { if (doc != "" && !definition) printf "%s---\n", doc; doc = ""; definition = 0 }
    /^---$/ { flush(); next }
    /^kind: CustomResourceDefinition$/ { definition = 1 }
    { doc = doc $0 "\n" }
    END { flush() }' | kube_waiting delete --ignore-not-found --timeout=120s -f - | sed 's/^/    /'
}

# remove_managed_objects deletes the objects without an owner that the manager created in users' namespaces: the
# ServiceAccount of tool pods and the NetworkPolicy of tools without network. Objects of users lack the label, and stay.
remove_managed_objects() {
  local object
  for object in serviceaccounts/capstan-tool networkpolicies.networking.k8s.io/capstan-network-none; do
    say "deleting each ${object#*/} that the manager created"
    kube_waiting delete "${object%/*}" --all-namespaces --selector app.kubernetes.io/managed-by=capstan \
      --field-selector "metadata.name=${object#*/}" --timeout=120s | sed 's/^/    /'
  done
}

remove_definitions() {
  say "deleting the CustomResourceDefinitions, and with them every object of their kinds"
  kube_waiting delete --ignore-not-found --timeout=120s -k "$root/config/crd" | sed 's/^/    /'
}

announce
settle
release_sessions
if [ "$all" = yes ]; then
  remove_sessions
  remove_leases
  stop_manager
  release_sessions
  release_leases
  remove_managed_objects
  remove_installation
fi
if [ "$all" = no ] && [ -z "$(available)" ]; then
  release_leases
fi
remove_definitions
say "done"
