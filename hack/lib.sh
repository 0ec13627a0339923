# Shared by the scripts of this folder: which cluster they work on, and how they say what they do. Source it; do not run
# it.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
began=$SECONDS

# say STEP: one line of progress, with the seconds since the script began.
say() { printf '\033[1m[%3ds]\033[0m %s\n' "$((SECONDS - began))" "$*"; }

# die MESSAGE: end with an error that says what to do.
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# cluster VERB...: the development cluster's own command.
cluster() { go -C "$repo/hack/cluster" run . "$@"; }

# choose_cluster sets kind_of_cluster (given, kind or own), KUBECONFIG and kubectl. KUBECONFIG given by the user wins;
# then a kind that can run; then the cluster that this repository builds itself.
choose_cluster() {
  if [ -n "${KUBECONFIG:-}" ]; then
    kind_of_cluster=given
  elif command -v kind >/dev/null && docker info >/dev/null 2>&1; then
    kind_of_cluster=kind
    KUBECONFIG=${XDG_CACHE_HOME:-$HOME/.cache}/capstan/kind.kubeconfig
  else
    # Where its kubeconfig is, the cluster says once it runs.
    kind_of_cluster=own
    return
  fi
  export KUBECONFIG
}

# start_cluster brings the chosen cluster up, and sets kubectl.
start_cluster() {
  case $kind_of_cluster in
    given) say "using the cluster of KUBECONFIG=$KUBECONFIG" ;;
    kind)
      kind get clusters 2>/dev/null | grep -qx capstan || { say "creating the kind cluster capstan"; mkdir -p "$(dirname "$KUBECONFIG")"; kind create cluster --name capstan --kubeconfig "$KUBECONFIG"; }
      kind export kubeconfig --name capstan --kubeconfig "$KUBECONFIG" >/dev/null 2>&1 ;;
    own)
      say "starting a single-node Kubernetes (the first time builds it from source: about 8 minutes on two cores)"
      cluster up
      KUBECONFIG=$(cluster kubeconfig)
      export KUBECONFIG ;;
  esac
  find_kubectl
}

# find_kubectl prefers the kubectl that was built with the cluster.
find_kubectl() {
  local built
  if [ "$kind_of_cluster" = own ]; then
    built=$(cluster assets)/kubectl
    [ -x "$built" ] && kubectl_bin=$built
  fi
  [ -n "${kubectl_bin:-}" ] || kubectl_bin=$(command -v kubectl) || die "kubectl is not installed; install it, or unset KUBECONFIG to use the repository's own cluster"
}

# kube ARGS...: kubectl that never hangs on a dead cluster.
kube() { "$kubectl_bin" --request-timeout=30s "$@"; }

# load_images builds the project's images and puts them where the cluster finds them.
load_images() {
  local out=${XDG_CACHE_HOME:-$HOME/.cache}/capstan/images tarball
  say "building the images"
  if [ "$kind_of_cluster" = own ]; then
    cluster images --repo-root "$repo" --out "$out" --load
    return
  fi
  cluster images --repo-root "$repo" --out "$out"
  for tarball in "$out"/*.tar; do
    if [ "$kind_of_cluster" = kind ]; then
      kind load image-archive --name capstan "$tarball"
    elif [ -n "${LOAD_IMAGE:-}" ]; then
      $LOAD_IMAGE "$tarball"
    else
      say "  $tarball: make sure that the cluster has it, or set LOAD_IMAGE to a command that loads a tarball"
    fi
  done
}

# deploy installs Capstan as users do, and waits until the new manager leads.
deploy() {
  local before
  say "installing Capstan: kubectl apply --server-side -k config/default"
  before=$(kube -n capstan-system get deployment capstan-manager --ignore-not-found -o name)
  kube apply --server-side --force-conflicts -k "$repo/config/default" | sed 's/^/        /'
  # The images' tag never changes, so that a manager that was there before runs the old one until it is told.
  [ -z "$before" ] || kube -n capstan-system rollout restart deployment/capstan-manager >/dev/null
  kube -n capstan-system rollout status deployment/capstan-manager --timeout=180s --request-timeout=0 | sed 's/^/        /' || explain_rollout
}

# explain_rollout ends with what keeps the manager from starting.
explain_rollout() {
  local why
  why=$(kube -n capstan-system get pods -o jsonpath='{range .items[*].status.containerStatuses[*]}{.state.waiting.reason}{" "}{.state.waiting.message}{"\n"}{end}' || true)
  printf '%s\n' "$why" | sed '/^ *$/d; s/^/        /' >&2
  case $why in
    *ImagePull* | *ErrImage*) die "the cluster does not have Capstan's images: set LOAD_IMAGE to a command that loads a tarball into it, such as LOAD_IMAGE='k3s ctr images import'" ;;
    *) die "the manager did not start within 180 s: look at kubectl -n capstan-system describe pods" ;;
  esac
}
