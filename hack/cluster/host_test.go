package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMountTableIsRead(t *testing.T) {
	table := `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 22 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
40 22 0:30 / /home/a\040b/rootfs rw,relatime shared:5 master:2 - overlay overlay rw,lowerdir=/x
a line of another shape
`
	want := []mount{{"/", "ext4"}, {"/sys/fs/cgroup/memory", "cgroup"}, {"/home/a b/rootfs", "overlay"}}
	if got := parseMounts(table); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOnlyResultsOfTheOwnNetworkAreUsed(t *testing.T) {
	ours, theirs := strings.Repeat("a", 64), strings.Repeat("b", 64)
	all := []string{
		"capstan-e2e-" + ours + "-eth0",
		"cni-loopback-" + ours + "-lo",
		"capstan-e2e-two-" + theirs + "-eth0",
		"cni-loopback-" + theirs + "-lo",
		"podman-" + theirs + "-eth0",
		"capstan-e2e-notes",
	}
	if got, want := ownResults(all, "capstan-e2e"), all[:2]; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTailIsTheEndOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("1\n2\n3\n4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[int]string{2: "3\n4", 4: "1\n2\n3\n4", 10: "1\n2\n3\n4"} {
		if got := string(tail(path, lines)); got != want {
			t.Errorf("%d lines are %q, want %q", lines, got, want)
		}
	}
	if got := string(tail(path+"-none", 3)); got != "(no log)" {
		t.Errorf("no log is %q", got)
	}
}

func TestImagesAreSelectedByName(t *testing.T) {
	all, err := selectImages(nil)
	if err != nil || len(all) != len(projectImages) {
		t.Errorf("all are %v, %v", all, err)
	}
	one, err := selectImages([]string{"launcher"})
	if err != nil || len(one) != 1 || one[0].tag != "capstan.dev/launcher:dev" || one[0].path != "/ko-app/launcher" {
		t.Errorf("the launcher is %v, %v", one, err)
	}
	if _, err := selectImages(
		[]string{"none"},
	); err == nil ||
		!strings.Contains(err.Error(), "manager, launcher, toolbox") {
		t.Errorf("an unknown one: %v", err)
	}
}
