package version

import (
	"os"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestInfoPrefersLinkedValues(t *testing.T) {
	recorded := &debug.BuildInfo{
		GoVersion: "go1.26.0",
		Main:      debug.Module{Version: "v0.0.0-20261123000000-0123456789ab"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123"},
			{Key: "vcs.time", Value: "2026-11-23T00:00:00Z"},
		},
	}
	for name, test := range map[string]struct {
		linked Info
		build  *debug.BuildInfo
		want   Info
	}{
		"all linked": {
			Info{Version: "v1.2.3", Commit: "abcd", Date: "2026-11-22T00:00:00Z"},
			recorded,
			Info{"v1.2.3", "abcd", "2026-11-22T00:00:00Z", "go1.26.0"},
		},
		"nothing linked": {
			Info{},
			recorded,
			Info{"v0.0.0-20261123000000-0123456789ab", "0123", "2026-11-23T00:00:00Z", "go1.26.0"},
		},
		"nothing linked, no version control": {
			Info{},
			&debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "(devel)"}},
			Info{"devel", "unknown", "unknown", "go1.26.0"},
		},
		"nothing recorded": {Info{}, &debug.BuildInfo{}, Info{"unknown", "unknown", "unknown", "unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.linked.completedBy(test.build); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestGetNamesTheCompiler(t *testing.T) {
	if got := Get().Go; got != runtime.Version() {
		t.Errorf("got %q, want %q", got, runtime.Version())
	}
}

func TestForms(t *testing.T) {
	info := Info{"v1.2.3", "abcd", "2026-11-22T00:00:00Z", "go1.26.0"}
	if got, want := info.String(), "v1.2.3 (commit abcd of 2026-11-22T00:00:00Z, go1.26.0)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := info.UserAgent("capstan-manager"), "capstan-manager/v1.2.3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestBuildsStampVariablesThatExist compares the linker flags of the builds with the variables of this package: the
// linker ignores a flag for a variable that does not exist.
func TestBuildsStampVariablesThatExist(t *testing.T) {
	variables := map[string]*string{"version": &version, "commit": &commit, "date": &date}
	here := reflect.TypeFor[Info]().PkgPath()
	const path = "../../hack/version.sh"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`-X (\S+)\.(\w+)=`).FindAllStringSubmatch(
		strings.ReplaceAll(string(text), "$package", here), -1)
	for _, flag := range flags {
		if flag[1] != here || variables[flag[2]] == nil {
			t.Errorf("%s sets %s.%s, which does not exist", path, flag[1], flag[2])
		}
	}
	if len(flags) != len(variables) || !strings.Contains(string(text), here) {
		t.Errorf("%s sets %d variables of %s, want %d", path, len(flags), here, len(variables))
	}
}
