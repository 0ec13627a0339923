package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroupRoots are the mount points of the control group hierarchies that containers are put in, and whether they are of
// version 2.
func cgroupRoots() (roots []string, unified bool, err error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, false, err
	}
	var v2 []string
	for _, m := range mounts {
		switch m.kind {
		case "cgroup":
			roots = append(roots, m.target)
		case "cgroup2":
			v2 = append(v2, m.target)
		}
	}
	if len(roots) > 0 {
		return roots, false, nil
	}
	if len(v2) == 0 {
		return nil, false, errors.New("no control group hierarchy is mounted")
	}
	return v2[:1], true, nil
}

// createCgroups makes the parent of all pods' control groups, which the kubelet wants to exist.
func (c *cluster) createCgroups() error {
	roots, unified, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, root := range roots {
		if unified {
			for _, controller := range []string{"cpuset", "cpu", "io", "memory", "hugetlb", "pids"} {
				// A kernel may lack one; the kubelet complains about those it needs.
				_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
			}
		}
		group := filepath.Join(root, c.fullName())
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("making a control group: %w", err)
		}
		if unified {
			continue
		}
		if err := inheritCpuset(root, group); err != nil {
			return err
		}
	}
	return nil
}

// inheritCpuset gives a new group of the cpuset hierarchy the CPUs and memory of its parent: in version 1 it starts
// with none, and nothing can run in it. In other hierarchies it does nothing.
func inheritCpuset(parent, group string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(group, file), value, 0o644)
		}
		if err != nil {
			return fmt.Errorf("inheriting %s: %w", file, err)
		}
	}
	return nil
}

// cgroupDirs are the cluster's control groups in every hierarchy, children before parents.
func (c *cluster) cgroupDirs() []string {
	var dirs []string
	mounts, _ := readMounts()
	for _, m := range mounts {
		if m.kind != "cgroup" && m.kind != "cgroup2" {
			continue
		}
		_ = filepath.WalkDir(filepath.Join(m.target, c.fullName()), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	slices.Reverse(dirs)
	return dirs
}

// podProcesses are the processes in the cluster's control groups: the containers'.
func (c *cluster) podProcesses() []process {
	var found []process
	for _, dir := range c.cgroupDirs() {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil || pid == 0 {
				continue
			}
			p, running := findProcess(pid)
			if running && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

func (c *cluster) removeCgroups() error {
	var failures []error
	for _, dir := range c.cgroupDirs() {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, fmt.Errorf("removing a control group: %w", err))
		}
	}
	return errors.Join(failures...)
}
