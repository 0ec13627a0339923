package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// down stops a cluster and removes everything of it but the binary cache. With purge it removes that too.
func down(ctx context.Context, progress io.Writer, name string, purge bool) error {
	unlock, err := lockClusters(progress)
	if err != nil {
		return err
	}
	defer unlock()

	c, err := loadCluster(name)
	switch {
	case errors.Is(err, errNoCluster):
		fmt.Fprintf(progress, "cluster %s is not running\n", name)
	case err != nil:
		return err
	default:
		if err := c.remove(ctx, progress); err != nil {
			return err
		}
		fmt.Fprintf(
			progress,
			"cluster %s is gone: no process, mount, network interface, control group or file of it is left\n",
			name,
		)
	}
	if !purge {
		return nil
	}
	return purgeBinaries(progress)
}

func purgeBinaries(progress io.Writer) error {
	others, err := listClusters()
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("the binary cache stays: cluster %s runs from it", others[0].Name)
	}
	dir, err := binariesRoot()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the binary cache: %w", err)
	}
	fmt.Fprintf(progress, "the binary cache %s is gone\n", dir)
	return nil
}

// remove ends the cluster's processes and reverts their and up's changes of the host. It does not need any of them to
// work: it can follow a crash, and an earlier remove that was interrupted.
func (c *cluster) remove(ctx context.Context, progress io.Writer) error {
	fmt.Fprintf(progress, "stopping cluster %s\n", c.Name)
	shims := c.stopDaemons()
	// Containers go after the kubelet and containerd, which would restart or tidy them; their shims go last, because a
	// shim that loses its container tries to report it.
	killAll(c.podProcesses())
	killAll(shims)
	killAll(c.strays())

	failures := []error{
		c.removeMounts(),
		c.removeNetwork(ctx),
		retry(c.removeCgroups),
		c.removeHostFiles(),
	}
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("taking down cluster %s: %w", c.Name, err)
	}
	if err := c.leftovers(); err != nil {
		return err
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("removing the state of cluster %s: %w", c.Name, err)
	}
	return nil
}

// stopDaemons ends the daemons, and returns the shims that containerd leaves.
func (c *cluster) stopDaemons() (shims []process) {
	names := c.daemons()
	slices.Reverse(names)
	var daemons []process
	for _, d := range names {
		if p, err := readPidFile(c.pidFile(d.name)); err == nil {
			daemons = append(daemons, p)
		}
	}
	for _, p := range c.strays() {
		if !slices.Contains(daemons, p) {
			shims = append(shims, p)
		}
	}
	stopAll(daemons, 3*time.Second)
	return shims
}

// retry gives the kernel the moment it needs to clear a control group whose last process has ended.
func retry(action func() error) error {
	var err error
	for range 50 {
		if err = action(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// leftovers names the parts that should be gone and are not.
func (c *cluster) leftovers() error {
	var left []string
	for _, p := range append(c.strays(), c.podProcesses()...) {
		left = append(left, fmt.Sprintf("process %d", p.pid))
	}
	for _, target := range c.mounts() {
		left = append(left, "mount "+target)
	}
	for _, link := range c.links() {
		left = append(left, "network interface "+link)
	}
	for _, dir := range c.cgroupDirs() {
		left = append(left, "control group "+dir)
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("cluster %s has left: %s", c.Name, strings.Join(left, ", "))
}
