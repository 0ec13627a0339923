package main

import (
	"context"
	"fmt"
	"io"
)

// status prints how the cluster does, and fails when it is not whole.
func status(ctx context.Context, out io.Writer, name string) error {
	c, err := loadCluster(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		out,
		"cluster %s\n  state       %s\n  kubeconfig  %s\n  API server  https://%s, in pods https://%s\n  "+
			"pods        %s on %s\n",
		c.Name,
		c.dir,
		c.kubeconfig(),
		loopback(c.apiPort()),
		c.serviceAddress(),
		c.podRange(),
		c.bridge(),
	)
	for _, d := range c.daemons() {
		p, err := readPidFile(c.pidFile(d.name))
		if err != nil || !p.running() {
			fmt.Fprintf(out, "  %-24s dead\n", d.name)
			continue
		}
		fmt.Fprintf(out, "  %-24s process %d\n", d.name, p.pid)
	}
	if trouble := c.trouble(ctx); trouble != "" {
		return fmt.Errorf("cluster %s does not run as it should: %s", name, trouble)
	}
	fmt.Fprintf(out, "  node %s is Ready\n", c.Name)
	return nil
}
