#!/usr/bin/env bash
# Prints the path of a tool that hack/tools/go.mod pins. Builds the tool if the user's cache directory does not have it.
# Usage: hack/tool.sh controller-gen|ginkgo|golangci-lint-kube-api-linter
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:?usage: hack/tool.sh NAME}

package=$(sed -n "s|^[[:space:]]*\([^[:space:]]*/$name\)\$|\1|p" "$root/hack/tools/go.mod" | head -n 1)
if [[ -z $package ]]; then
  echo "hack/tool.sh: hack/tools/go.mod has no tool $name" >&2
  exit 1
fi

# The name of the directory is a hash of the tool's sources: a changed tool is built beside the old one.
version=$({ go env GOVERSION GOOS GOARCH; cat "$root/hack/tools/go.mod" "$root/hack/tools/go.sum"; } | sha256sum | cut -c1-16)
directory=${XDG_CACHE_HOME:-${HOME:?set HOME or XDG_CACHE_HOME}/.cache}/capstan/tools/$version
mkdir -p "$directory"

if [[ ! -x $directory/$name ]]; then
  exec 9>"$directory.lock"
  flock 9
  if [[ ! -x $directory/$name ]]; then
    echo "==> building $name (once per version)" >&2
    started=$SECONDS
    go -C "$root/hack/tools" build -trimpath -buildvcs=false -o "$directory/$name.building" "$package" >&2
    mv "$directory/$name.building" "$directory/$name"
    echo "==> built $name in $((SECONDS - started)) s" >&2
  fi
fi
echo "$directory/$name"
