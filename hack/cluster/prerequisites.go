package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// prerequisite is something that a node needs and that does not come from Go modules.
type prerequisite struct {
	what string
	// debian is the package that has it.
	debian string
	exists func() bool
}

func prerequisites() []prerequisite {
	return []prerequisite{
		{what: "runc", debian: "runc", exists: func() bool { return onPath("runc") }},
		{
			what: "the CNI plugins bridge, host-local and loopback", debian: "containernetworking-plugins",
			exists: func() bool { return cniPlugins() != "" },
		},
		{what: "ip", debian: "iproute2", exists: func() bool { return onPath("ip") }},
		{what: "mount", debian: "mount", exists: func() bool { return onPath("mount") }},
	}
}

// onPath looks in the directories of daemons, whatever the user's PATH is.
func onPath(name string) bool {
	return slices.ContainsFunc(filepath.SplitList(systemPath), func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode()&0o111 != 0
	})
}

// cniPlugins is the directory that has the plugins the pods' network needs, or "".
func cniPlugins() string {
	for _, dir := range []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"} {
		complete := true
		for _, plugin := range []string{"bridge", "host-local", "loopback"} {
			if _, err := os.Stat(filepath.Join(dir, plugin)); err != nil {
				complete = false
			}
		}
		if complete {
			return dir
		}
	}
	return ""
}

// prepareHost ensures that a node can run here: it installs missing packages on Debian, and lists them elsewhere.
func prepareHost(ctx context.Context, progress io.Writer) error {
	if runtime.GOOS != "linux" {
		return errors.New("a cluster needs Linux; `build --only envtest` works here too")
	}
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root: it mounts, makes network interfaces and control groups; " +
			"`build --only envtest` needs nothing of the kind")
	}
	if content, err := os.ReadFile("/proc/filesystems"); err == nil && !strings.Contains(string(content), "\toverlay\n") {
		// It may be a module that is not loaded yet.
		if err := exec.CommandContext(ctx, "modprobe", "overlay").Run(); err != nil {
			return errors.New("the kernel has no overlay file system, which containerd needs")
		}
	}
	what, packages := missingPrerequisites()
	if len(packages) == 0 {
		return nil
	}
	missing := strings.Join(what, ", ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("missing: %s; install them and try again (Debian calls the packages %s)",
			missing, strings.Join(packages, " "))
	}
	fmt.Fprintf(progress, "missing: %s; installing %s\n", missing, strings.Join(packages, " "))
	if err := aptInstall(ctx, progress, packages); err != nil {
		return err
	}
	if what, _ := missingPrerequisites(); len(what) > 0 {
		return fmt.Errorf("still missing after the installation: %s", strings.Join(what, ", "))
	}
	return nil
}

func missingPrerequisites() (what, packages []string) {
	for _, p := range prerequisites() {
		if !p.exists() {
			what, packages = append(what, p.what), append(packages, p.debian)
		}
	}
	return what, packages
}

func aptInstall(ctx context.Context, progress io.Writer, packages []string) error {
	for _, args := range [][]string{
		{"update"},
		append([]string{"install", "--yes", "--no-install-recommends"}, packages...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = progress, progress
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}
