# Functions that the scripts of this folder share: choosing a cluster, deploying Capstan, printing progress. Source this
# file; do not run it.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
began=$SECONDS

# say STEP prints one line of progress, with the seconds since the script began.
say() { printf '\033[1m[%3ds]\033[0m %s\n' "$((SECONDS - began))" "$*"; }

# die MESSAGE prints an error, which names what to do, and exits.
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# cluster VERB... runs the command of the local cluster.
cluster() { go -C "$repo/hack/cluster" run . "$@"; }

# choose_cluster sets cluster_type, and KUBECONFIG where it is known: the cluster of the user's KUBECONFIG (existing)
# comes first, then a kind cluster where kind and Docker work (kind), then the one that hack/cluster builds (local).
choose_cluster() {
  if [ -n "${KUBECONFIG:-}" ]; then
    cluster_type=existing
  elif command -v kind >/dev/null && docker info >/dev/null 2>&1; then
    cluster_type=kind
    KUBECONFIG=${XDG_CACHE_HOME:-$HOME/.cache}/capstan/kind.kubeconfig
  else
    # start_cluster sets KUBECONFIG: the path is known once the cluster runs.
    cluster_type=local
    return
  fi
  export KUBECONFIG
}

# cache is the directory that has everything the demo writes.
cache=${XDG_CACHE_HOME:-${HOME:-}/.cache}/capstan

# announce_demo prints what the demo is about to do, how long that takes, and what remains.
announce_demo() {
  local programs
  case $cluster_type in
    local)
      programs=$(cluster assets)
      say "the demo starts a Kubernetes of its own on this machine, installs Capstan there and runs a Turn"
      if [ -x "$programs/ctr" ]; then
        say "it takes about a minute; the programs of the cluster exist already"
      else
        say "it takes about 10 minutes on two cores, most of it to build the programs of the cluster, once; later about a minute"
      fi
      say "make demo-down removes the cluster. What remains is in $cache and in Go's own caches; remove these programs with: rm -r $cache"
      say "Debian packages that the cluster needs (runc, containernetworking-plugins, iproute2, mount) are installed if they are missing, and stay" ;;
    kind)
      say "the demo creates the kind cluster capstan, installs Capstan there and runs a Turn; it takes a few minutes"
      say "make demo-down deletes the cluster. What remains is in $cache, in Go's own caches, and the image of kind's node" ;;
    existing)
      say "the demo installs Capstan in the cluster of KUBECONFIG=$KUBECONFIG, and runs a Turn in namespace capstan-demo; it takes about two minutes"
      say "make demo-down removes both. What remains is in $cache, in Go's own caches, and the images in the cluster's nodes" ;;
  esac
}

# confirm_cluster [ACTION] asks before a cluster that is not the demo's own is changed. Without a terminal it refuses,
# unless DEMO_YES=1.
confirm_cluster() {
  local reply context
  [ "$cluster_type" = existing ] || return 0
  [ "${DEMO_YES:-}" != 1 ] || return 0
  find_kubectl
  context=$("$kubectl_bin" config current-context 2>/dev/null || echo "no current context")
  [ -t 0 ] || die "KUBECONFIG=$KUBECONFIG is set (context $context). Set DEMO_YES=1 to use that cluster, or unset KUBECONFIG to use one of the demo's own"
  read -r -p "About to ${1:-install Capstan in} the cluster of context $context (KUBECONFIG=$KUBECONFIG). Continue? [y/N] " reply || reply=
  case $reply in
    y | Y | yes | Yes) ;;
    *) die "nothing was changed. Unset KUBECONFIG to use a cluster of the demo's own" ;;
  esac
}

# start_cluster brings the chosen cluster up, and sets KUBECONFIG and kubectl_bin.
start_cluster() {
  case $cluster_type in
    existing) say "using the cluster of KUBECONFIG=$KUBECONFIG" ;;
    kind)
      kind get clusters 2>/dev/null | grep -qx capstan || { say "creating the kind cluster capstan"; mkdir -p "$(dirname "$KUBECONFIG")"; kind create cluster --name capstan --kubeconfig "$KUBECONFIG"; }
      kind export kubeconfig --name capstan --kubeconfig "$KUBECONFIG" >/dev/null 2>&1 ;;
    local)
      say "starting a single-node Kubernetes"
      cluster up
      KUBECONFIG=$(cluster kubeconfig)
      export KUBECONFIG ;;
  esac
  find_kubectl
}

# find_kubectl sets kubectl_bin. It prefers the kubectl that was built with the cluster.
find_kubectl() {
  local built
  if [ "$cluster_type" = local ]; then
    built=$(cluster assets)/kubectl
    [ -x "$built" ] && kubectl_bin=$built
  fi
  [ -n "${kubectl_bin:-}" ] || kubectl_bin=$(command -v kubectl) || die "kubectl is not installed; install it, or unset KUBECONFIG to use the repository's own cluster"
}

# kube ARGS... runs kubectl with a timeout, because a cluster may not respond.
kube() { "$kubectl_bin" --request-timeout=30s "$@"; }

# build_plugin builds kubectl-capstan into plugin_folder, in the cache.
build_plugin() {
  plugin_folder=$cache/bin
  CGO_ENABLED=0 go build -C "$repo" -o "$plugin_folder/kubectl-capstan" ./cmd/kubectl-capstan
}

# chat NAMESPACE SESSION MESSAGE sends a message with kubectl capstan chat, and shows the words of the response as they
# come.
chat() {
  say "\$ kubectl capstan -n $1 chat $2"
  PATH=$plugin_folder:$PATH "$kubectl_bin" capstan -n "$1" chat "$2" <<<"$3"
}

# load_images builds the images and loads them into the cluster, all but those of tests alone.
load_images() {
  local names=(manager launcher toolbox) out=${XDG_CACHE_HOME:-$HOME/.cache}/capstan/images tarball
  say "building the images"
  if [ "$cluster_type" = local ]; then
    cluster images "${names[@]}" --repo-root "$repo" --out "$out" --load
    return
  fi
  cluster images "${names[@]}" --repo-root "$repo" --out "$out"
  for tarball in "${names[@]/%/.tar}"; do
    tarball=$out/$tarball
    if [ "$cluster_type" = kind ]; then
      kind load image-archive --name capstan "$tarball"
    elif [ -n "${LOAD_IMAGE:-}" ]; then
      $LOAD_IMAGE "$tarball"
    else
      say "  $tarball: load it into the cluster yourself, or set LOAD_IMAGE to a command that does"
    fi
  done
}

# deploy installs Capstan as users do, and waits until the new manager is available.
deploy() {
  local before
  say "installing Capstan: kubectl apply --server-side -k config/default"
  before=$(kube -n capstan-system get deployment capstan-manager --ignore-not-found -o name)
  kube apply --server-side --force-conflicts -k "$repo/config/default" | sed 's/^/        /'
  # The tag of the images never changes, so a manager that ran before must be restarted to run the new image.
  [ -z "$before" ] || kube -n capstan-system rollout restart deployment/capstan-manager >/dev/null
  kube -n capstan-system rollout status deployment/capstan-manager --timeout=180s --request-timeout=0 | sed 's/^/        /' || explain_rollout
}

# explain_rollout exits with the reason why the manager does not start.
explain_rollout() {
  local why
  why=$(kube -n capstan-system get pods -o jsonpath='{range .items[*].status.containerStatuses[*]}{.state.waiting.reason}{" "}{.state.waiting.message}{"\n"}{end}' || true)
  printf '%s\n' "$why" | sed '/^ *$/d; s/^/        /' >&2
  case $why in
    *ImagePull* | *ErrImage*) die "the cluster does not have Capstan's images: set LOAD_IMAGE to a command that loads a tarball into it, such as LOAD_IMAGE='k3s ctr images import'" ;;
    *) die "the manager did not start within 180 s: look at kubectl -n capstan-system describe pods" ;;
  esac
}
