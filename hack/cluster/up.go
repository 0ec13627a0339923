package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// up starts a cluster and waits until its node is Ready. A cluster that runs is left alone; one that runs in part is
// removed and started afresh.
func up(ctx context.Context, progress io.Writer, name string, portBase int) error {
	if err := validateName(name); err != nil {
		return err
	}
	if _, err := moduleDir(); err != nil {
		return err
	}
	if err := prepareHost(ctx, progress); err != nil {
		return err
	}
	if err := buildPrograms(ctx, progress, programs()); err != nil {
		return err
	}
	unlock, err := lockClusters(progress)
	if err != nil {
		return err
	}
	defer unlock()

	running, err := runsAlready(ctx, progress, name)
	if err != nil || running {
		return err
	}
	c, err := newCluster(name, portBase)
	if err != nil {
		return err
	}
	if taken := c.portsInUse(); len(taken) > 0 {
		return fmt.Errorf("another program listens on port %v; choose other ports with --port-base", taken)
	}
	if err := c.prepare(ctx, progress); err != nil {
		return err
	}
	if err := c.startAll(ctx, progress); err != nil {
		return err
	}
	fmt.Fprintf(progress, "cluster %s is ready\n", c.Name)
	fmt.Fprintf(progress, "export KUBECONFIG=%s\n", c.kubeconfig())
	return nil
}

// lockClusters makes commands that start or stop clusters take turns: two at once would choose the same network.
func lockClusters(progress io.Writer) (func(), error) {
	root, err := clustersRoot()
	if err != nil {
		return nil, err
	}
	return lockFile(root+".lock", func() { fmt.Fprintln(progress, "another up or down is running; waiting for it") })
}

// runsAlready checks the cluster of an earlier up, and removes it when it is no longer whole.
func runsAlready(ctx context.Context, progress io.Writer, name string) (bool, error) {
	c, err := loadCluster(name)
	if errors.Is(err, errNoCluster) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	trouble := c.trouble(ctx)
	if trouble == "" {
		fmt.Fprintf(progress, "cluster %s is running already\nexport KUBECONFIG=%s\n", name, c.kubeconfig())
		return true, nil
	}
	fmt.Fprintf(progress, "cluster %s does not run as it should (%s); starting it afresh\n", name, trouble)
	return false, c.remove(ctx, progress)
}

// trouble returns why the cluster is not complete, or "".
func (c *cluster) trouble(ctx context.Context) string {
	if dead := c.dead(); len(dead) > 0 {
		return "not running: " + strings.Join(dead, ", ")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := errors.Join(c.nodeReady(ctx), c.podsPossible(ctx))
		if err == nil {
			return ""
		}
		select {
		case <-ctx.Done():
			return err.Error()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// prepare makes everything that the daemons find when they start.
func (c *cluster) prepare(ctx context.Context, progress io.Writer) error {
	if err := c.save(); err != nil {
		return err
	}
	token, err := c.writeCredentials()
	if err != nil {
		return err
	}
	if err := c.writeConfigs(cniPlugins(), token); err != nil {
		return err
	}
	for _, dir := range []string{"pod-logs", "volume-plugins"} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			return fmt.Errorf("making %s: %w", dir, err)
		}
	}
	// The data of etcd is private; etcd itself warns if the directory is open.
	if err := os.MkdirAll(c.path("etcd"), 0o700); err != nil {
		return fmt.Errorf("making etcd's directory: %w", err)
	}
	for _, own := range []string{"forward", "pause"} {
		if err := buildOwn(ctx, progress, "./"+own, c.path("bin", own)); err != nil {
			return err
		}
	}
	if err := writeImage(c.path("images", "pause.tar"), pauseImage, c.path("bin", "pause"), "/pause"); err != nil {
		return err
	}
	if err := c.createNetwork(ctx); err != nil {
		return err
	}
	return c.createCgroups()
}

// startAll starts the daemons stage by stage, and reports when each one serves.
func (c *cluster) startAll(ctx context.Context, progress io.Writer) error {
	fmt.Fprintf(progress, "starting cluster %s, logs in %s\n", c.Name, filepath.Dir(c.logFile("etcd")))
	began := time.Now()
	for _, stage := range c.stages() {
		var started []*running
		for _, d := range stage {
			r, err := c.start(d)
			if err != nil {
				return err
			}
			started = append(started, r)
		}
		for _, r := range started {
			if err := c.await(ctx, r); err != nil {
				return err
			}
			fmt.Fprintf(progress, "  %-24s after %s\n", r.name, seconds(time.Since(began)))
			if r.name != "containerd" {
				continue
			}
			if err := c.load(ctx, io.Discard, []string{c.path("images", "pause.tar")}); err != nil {
				return err
			}
		}
	}
	return nil
}
