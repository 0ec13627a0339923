#!/usr/bin/env bash
# The demo: brings up a Kubernetes cluster, deploys the manager, runs one Turn, whose tools run in containers, and ends
# with a chat. Exits with 0 only if both Turns succeeded. DEMO_YES=1 answers the question whether it may use the cluster of KUBECONFIG.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "$0")/lib.sh"

namespace=capstan-demo
session=trip
turn=trip-1

# Prints the progress of a Turn while it runs: one line for each change.
progress='{{with .status}}  {{.phase}}{{if .iteration}}, model call {{.iteration}}{{end}}{{range .toolCalls}}
      {{.id}} {{.name}}: {{.state}}{{if .preview}} - {{.preview}}{{end}}{{end}}{{end}}
'

watch_turn() { "$kubectl_bin" -n "$namespace" get turn "$turn" --watch --output=go-template="$progress" & watcher=$!; }

finish() {
  [ -z "${watcher:-}" ] || kill "$watcher" 2>/dev/null || true
}
trap finish EXIT

choose_cluster
announce_demo
confirm_cluster
start_cluster
load_images
deploy

say "creating the namespace $namespace, with the Pod Security Standard restricted"
kube create namespace "$namespace" --dry-run=client -o yaml | kube apply -f - >/dev/null
kube label namespace "$namespace" pod-security.kubernetes.io/enforce=restricted --overwrite >/dev/null
kube -n "$namespace" delete --ignore-not-found -f "$repo/config/samples/answer" -f "$repo/config/samples/turn.yaml" -f "$repo/config/samples/session.yaml" >/dev/null

say "applying config/samples: a Model, five Tools, a Harness, an Agent, a Session and a Turn"
kube -n "$namespace" apply --server-side -k "$repo/config/samples" | sed 's/^/        /'
say "the user message: $(kube -n "$namespace" get turn "$turn" -o jsonpath='{.spec.input}')"
watch_turn

kube -n "$namespace" wait --for=condition=WaitingForToolResults "turn/$turn" --timeout=120s --request-timeout=0 >/dev/null
say "the Turn waits for a client result; no pod runs and nothing is written meanwhile. Applying config/samples/answer:"
kube -n "$namespace" apply --server-side -f "$repo/config/samples/answer" | sed 's/^/        /'
kube -n "$namespace" wait --for=condition=Finished "turn/$turn" --timeout=120s --request-timeout=0 >/dev/null
finish

succeeded=$(kube -n "$namespace" get turn "$turn" -o jsonpath='{.status.conditions[?(@.type=="Succeeded")].status}')
if [ "$succeeded" != True ]; then
  kube -n "$namespace" get turn "$turn" -o yaml
  die "the Turn did not succeed; its status is above. Read the manager's log with: kubectl -n capstan-system logs deployment/capstan-manager"
fi
say "the response:"
printf '\n%s\n\n' "$(kube -n "$namespace" get turn "$turn" -o jsonpath='{.status.output}')"
kube -n "$namespace" get turns,sessions,models,tools

say "building kubectl-capstan, the plugin of kubectl"
build_plugin
kube -n "$namespace" apply --server-side -f "$repo/hack/demo/chat.yaml" | sed 's/^/        /'
chat "$namespace" chat "Hello! What is this chat?"
turn=$(kube -n "$namespace" get turns --sort-by=.metadata.creationTimestamp -o jsonpath='{.items[-1:].metadata.name}')
kube -n "$namespace" wait --for=condition=Succeeded "turn/$turn" --timeout=60s --request-timeout=0 >/dev/null

cat <<TEXT

Next steps:
  export KUBECONFIG=$KUBECONFIG
  alias kubectl=$kubectl_bin
  export PATH=$plugin_folder:\$PATH
  kubectl capstan -n $namespace chat chat                 # talk yourself; Ctrl-D ends the chat
  kubectl capstan -n $namespace log $session                  # the conversation about the trip
  kubectl -n $namespace get turn trip-1 -o yaml          # the plan, the calls, the conditions
  kubectl -n $namespace get journalentries              # the journal, with one entry for each closed step
  kubectl -n $namespace get jobs,pods                   # the tool containers
  kubectl explain turn.spec
  make demo-down                                        # removes what the demo created
TEXT
