#!/usr/bin/env bash
# Regenerates every generated file, and fails if one of them was stale, or if git has build output.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generated=(api/v1alpha1/zz_generated.deepcopy.go api/applyconfiguration config/crd/bases config/rbac/role.yaml config/argocd/argocd-cm.yaml dist charts/capstan docs/conformance.md docs/flags.md docs/cli.md)
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
for path in "${generated[@]}"; do
  mkdir -p "$before/$(dirname "$path")"
  if [[ -e $path ]]; then
    cp -r "$path" "$before/$path"
  fi
done

hack/generate.sh all

stale=0
for path in "${generated[@]}"; do
  if ! diff -ruN "$before/$path" "$path"; then
    stale=1
  fi
done
# Generated files that were never added to git would be missing in every other clone.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  # A binary that go build left in the work tree would be in every clone for good.
  binaries=$(git ls-files -z | LC_ALL=C xargs -0 grep -laP '\A\x7fELF' || true)
  if [[ -n $binaries ]]; then
    echo "build output in git: $binaries" >&2
    stale=1
  fi
  untracked=$(git ls-files --others --exclude-standard -- "${generated[@]}")
  if [[ -n $untracked && -n ${CI:-} ]]; then
    echo "not in git: $untracked" >&2
    stale=1
  fi
fi
if ((stale)); then
  echo >&2
  echo "Generated files were stale: see the differences above. They are up to date now; commit them with your change." >&2
  exit 1
fi
echo "==> generated files are up to date"
