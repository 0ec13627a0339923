// Package version identifies the build of a program.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
)

// The linker sets these: hack/version.sh prints the flags. A program that was built without them falls back to what the
// go command has recorded.
var version, commit, date string

// unknown is a value that the build has not recorded.
const unknown = "unknown"

// Info describes a build.
type Info struct {
	// Version is a release such as v0.1.0, or describes the commit.
	Version string
	// Commit is the full hash of the commit.
	Commit string
	// Date of the commit in RFC 3339, not of the build, so that a build can be reproduced.
	Date string
	// Go is the version of the compiler.
	Go string
}

// Get returns the build of this program.
func Get() Info {
	linked := Info{Version: version, Commit: commit, Date: date}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return linked.completedBy(build)
}

// completedBy fills in the fields that the linker has not set.
func (i Info) completedBy(build *debug.BuildInfo) Info {
	settings := map[string]string{}
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	recorded := build.Main.Version
	if recorded == "(devel)" {
		recorded = "devel"
	}
	return Info{
		Version: cmp.Or(i.Version, recorded, unknown),
		Commit:  cmp.Or(i.Commit, settings["vcs.revision"], unknown),
		Date:    cmp.Or(i.Date, settings["vcs.time"], unknown),
		Go:      cmp.Or(build.GoVersion, unknown),
	}
}

// String describes the build in one line.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s of %s, %s)", i.Version, i.Commit, i.Date, i.Go)
}

// UserAgent returns the User-Agent of a program's requests.
func (i Info) UserAgent(program string) string {
	return program + "/" + i.Version
}
