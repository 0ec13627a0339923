// Package egresspolicy reads the operator's egress configuration, at start and whenever it changes.
package egresspolicy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/egress/policyfile"
)

// interval is the time between two looks at the file. The kubelet updates a mounted ConfigMap about once a minute.
const interval = 10 * time.Second

// current reports whether the last version of the file is in force: 1, or 0 while an earlier one is, because the last
// one is invalid.
var current = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "capstan_egress_config_current",
	Help: "Whether the last version of the file of --egress-config is in force: 0 while it is invalid and an earlier " +
		"one is in force, otherwise 1.",
})

func init() { metrics.Registry.MustRegister(current) }

// File keeps a Policy as a file has it.
type File struct {
	// Path of the file.
	Path string
	// Set receives each valid version.
	Set func(*egress.Policy)

	seen    []byte
	problem string
}

// Load reads the file for the first time. It must be valid.
func (f *File) Load() error {
	raw, err := f.read()
	if err != nil {
		return err
	}
	policy, err := policyfile.Parse(raw)
	if err != nil {
		return fmt.Errorf("reading the egress configuration %s: %w", f.Path, err)
	}
	f.seen = raw
	f.Set(policy)
	current.Set(1)
	return nil
}

func (f *File) read() ([]byte, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("reading the egress configuration: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, policyfile.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the egress configuration: %w", err)
	}
	return raw, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a manager that waits to take over is up to date.
func (*File) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it looks at the file until the context ends.
func (f *File) Start(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			f.Refresh(ctx)
		}
	}
}

// Refresh reads the file again. While it is invalid, the last valid version stays in force.
func (f *File) Refresh(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx).WithName("egress")
	raw, err := f.read()
	if err == nil && bytes.Equal(raw, f.seen) {
		if f.problem != "" {
			f.problem = ""
			current.Set(1)
			log.Info("The egress configuration is again the one that is in force", "path", f.Path)
		}
		return
	}
	var policy *egress.Policy
	if err == nil {
		policy, err = policyfile.Parse(raw)
	}
	if err != nil {
		current.Set(0)
		if f.problem != err.Error() {
			f.problem = err.Error()
			log.Error(err, "Failed to read the changed egress configuration; the last valid one stays in force",
				"path", f.Path)
		}
		return
	}
	f.seen, f.problem = raw, ""
	f.Set(policy)
	current.Set(1)
	log.Info("Read the changed egress configuration", "path", f.Path, "rules", len(policy.Rules))
}
