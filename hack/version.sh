#!/usr/bin/env bash
# Prints the linker flags that stamp a build with its version, for internal/version. They follow from the commit alone,
# so that a build can be reproduced. Without git, or outside of a repository, it prints nothing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Without safe.directory, git refuses a checkout that belongs to another user.
repository() { git -c safe.directory="$root" -C "$root" "$@" 2>/dev/null; }

command -v git >/dev/null || exit 0
commit=$(repository rev-parse HEAD) || exit 0
date=$(TZ=UTC repository show --no-patch --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD)
# describe compares contents, not times: a file with a new time alone does not make the tree dirty.
version=$(repository describe --tags --match 'v*' --always --abbrev=12 --dirty)
[[ $version == v* ]] || version=v0.0.0-dev.$version
package=github.com/capstan-dev/capstan/internal/version
echo "-X $package.version=$version -X $package.commit=$commit -X $package.date=$date"
