package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Nearly everything of a cluster is in its state directory. What the programs keep in places of the host that cannot be
// configured is here. Other clusters and other container runtimes use the same places, so only what is the cluster's
// own goes, and a directory only when that leaves it empty.
const (
	cniResultsDir    = "/var/lib/cni/results"
	containerLogsDir = "/var/log/containers"
	shimSocketsDir   = "/run/containerd/s"
	devicePluginsDir = "/var/lib/kubelet/device-plugins"
)

// removeHostFiles removes the cluster's files outside its state directory, which must still exist, because it lists
// them.
func (c *cluster) removeHostFiles() error {
	files := c.shimSockets()
	files = append(files, c.cniResults()...)
	files = append(files, c.logLinks()...)
	files = append(files, c.deviceSocket()...)
	var failures []error
	for _, file := range files {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, fmt.Errorf("removing a file of the cluster: %w", err))
		}
	}
	for _, dir := range []string{cniResultsDir, containerLogsDir, shimSocketsDir, devicePluginsDir} {
		// The parent of the log directory is the host's own.
		if err := os.Remove(dir); err == nil && dir != containerLogsDir {
			_ = os.Remove(filepath.Dir(dir))
		}
	}
	return errors.Join(failures...)
}

// shimSockets are the sockets of the shims, which the shims' bundles name.
func (c *cluster) shimSockets() []string {
	bundles, _ := filepath.Glob(c.path("containerd-run", "io.containerd.runtime.v2.task", "*", "*", "bootstrap.json"))
	var sockets []string
	for _, bundle := range bundles {
		content, err := os.ReadFile(bundle)
		if err != nil {
			continue
		}
		var bootstrap struct{ Address string }
		if err := json.Unmarshal(content, &bootstrap); err != nil {
			continue
		}
		socket := strings.TrimPrefix(bootstrap.Address, "unix://")
		if filepath.Dir(socket) == shimSocketsDir {
			sockets = append(sockets, socket)
		}
	}
	return sockets
}

// cniResults are CNI's notes on the networks of the cluster's pods.
func (c *cluster) cniResults() []string {
	entries, err := os.ReadDir(cniResultsDir)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	var results []string
	for _, name := range ownResults(names, c.fullName()) {
		results = append(results, filepath.Join(cniResultsDir, name))
	}
	return results
}

// ownResults selects a network's results from the names of all, and the loopback's of the same pods. A name is the
// network's, the sandbox's id and the interface's, joined by dashes; a network's name may itself hold dashes, the other
// two do not.
func ownResults(names []string, network string) []string {
	sandbox := func(name, network string) string {
		rest, found := strings.CutPrefix(name, network+"-")
		id, _, two := strings.Cut(rest, "-")
		if !found || !two || !sandboxID.MatchString(id) {
			return ""
		}
		return id
	}
	own := map[string]bool{}
	for _, name := range names {
		if id := sandbox(name, network); id != "" {
			own[id] = true
		}
	}
	var results []string
	for _, name := range names {
		if own[sandbox(name, network)] || own[sandbox(name, "cni-loopback")] {
			results = append(results, name)
		}
	}
	return results
}

var sandboxID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// logLinks are the kubelet's links to the logs of the cluster's containers.
func (c *cluster) logLinks() []string {
	links, _ := filepath.Glob(filepath.Join(containerLogsDir, "*"))
	var own []string
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, c.dir+"/") {
			own = append(own, link)
		}
	}
	return own
}

// deviceSocket is the kubelet's socket for device plugins with its checkpoint. All kubelets of the host share it, and
// the last one started has it, so it stays as long as there is another cluster or a running kubelet.
func (c *cluster) deviceSocket() []string {
	others, err := listClusters()
	if err != nil || slices.ContainsFunc(others, func(other *cluster) bool { return other.Name != c.Name }) {
		return nil
	}
	socket := filepath.Join(devicePluginsDir, "kubelet.sock")
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err == nil {
		conn.Close()
		return nil
	}
	return []string{socket, filepath.Join(devicePluginsDir, "kubelet_internal_checkpoint")}
}
