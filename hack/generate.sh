#!/usr/bin/env bash
# Generates code and manifests from the API types and from the markers of the controllers. Writes only the files that
# change.
# Usage: hack/generate.sh objects|manifests|dist|docs|all
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

what=${1:-all}
generator=$(hack/tool.sh controller-gen)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# replace SOURCE TARGET
replace() {
  if ! cmp -s "$1" "$2"; then
    echo "    $2"
    cp "$1" "$2"
  fi
}

objects() {
  echo "==> generating deep copies"
  "$generator" object paths=./api/v1alpha1 output:object:dir="$out"
  replace "$out/zz_generated.deepcopy.go" api/v1alpha1/zz_generated.deepcopy.go
}

# This generator can write only into the working tree.
applyconfigurations() {
  echo "==> generating apply configurations"
  local directory=api/applyconfiguration file
  mkdir -p "$directory"
  mv "$directory" "$out/applyconfiguration"
  "$generator" applyconfiguration paths=./api/v1alpha1
  find "$directory" -type f | while read -r file; do
    if cmp -s "$file" "$out/${file#api/}"; then
      cp -p "$out/${file#api/}" "$file"
    else
      echo "    $file"
    fi
  done
  find "$out/applyconfiguration" -type f | while read -r file; do
    if [[ ! -e api/${file#"$out/"} ]]; then
      echo "    removed api/${file#"$out/"}"
    fi
  done
}

manifests() {
  echo "==> generating CustomResourceDefinitions and the manager's role"
  mkdir "$out/bases" "$out/rbac"
  "$generator" crd:maxDescLen=1000 paths=./api/v1alpha1 output:crd:dir="$out/bases"
  "$generator" rbac:roleName=manager-role paths=./internal/controller/... output:rbac:dir="$out/rbac"
  local file
  for file in config/crd/bases/*.yaml; do
    if [[ ! -e $out/bases/${file##*/} ]]; then
      echo "    removed $file"
      rm "$file"
    fi
  done
  for file in "$out"/bases/*.yaml; do
    replace "$file" "config/crd/bases/${file##*/}"
  done
  replace "$out/rbac/role.yaml" config/rbac/role.yaml
}

dist() {
  echo "==> generating dist, the chart and the health checks of Argo CD"
  go -C hack/dist run . -root ../..
}

docs() {
  echo "==> generating the list of the tests of each rule"
  CGO_ENABLED=0 go run ./hack/conformance
  echo "==> generating the table of the manager's flags"
  CGO_ENABLED=0 go test ./cmd/manager -count=1 -run '^TestThePageOfFlags$' -args -update >"$out/flags" || {
    cat "$out/flags" >&2
    return 1
  }
  echo "==> generating the reference of kubectl capstan"
  CGO_ENABLED=0 go run ./hack/clireference
}

case $what in
  objects)
    objects
    applyconfigurations
    ;;
  manifests) manifests ;;
  dist) dist ;;
  docs) docs ;;
  all)
    objects
    applyconfigurations
    manifests
    dist
    docs
    ;;
  *)
    echo "usage: hack/generate.sh objects|manifests|dist|docs|all" >&2
    exit 2
    ;;
esac
