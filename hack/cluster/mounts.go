package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// mount is one line of the kernel's mount table.
type mount struct{ target, kind string }

var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func readMounts() ([]mount, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mount table: %w", err)
	}
	return parseMounts(string(content)), nil
}

// parseMounts reads the format of /proc/self/mountinfo: the fifth field is the mount point, the file system's type
// follows " - ".
func parseMounts(table string) []mount {
	var mounts []mount
	for line := range strings.Lines(table) {
		before, after, found := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 5 || len(rest) == 0 {
			continue
		}
		mounts = append(mounts, mount{target: mountEscapes.Replace(fields[4]), kind: rest[0]})
	}
	return mounts
}

// mounts are the mount points inside the cluster's state directory, the innermost and latest first.
func (c *cluster) mounts() []string {
	all, _ := readMounts()
	var targets []string
	for _, m := range all {
		if strings.HasPrefix(m.target, c.dir+"/") {
			targets = append(targets, m.target)
		}
	}
	slices.Reverse(targets)
	return targets
}

// removeMounts unmounts the remaining mounts of the kubelet and containerd. A detached mount is out of reach, even if a
// process still has a file of it open.
func (c *cluster) removeMounts() error {
	var failures []error
	for _, target := range c.mounts() {
		if err := unmount(target); err != nil {
			failures = append(failures, fmt.Errorf("unmounting %s: %w", target, err))
		}
	}
	return errors.Join(failures...)
}
