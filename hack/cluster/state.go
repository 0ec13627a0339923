package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
)

// maxClusters bounds how many clusters stand side by side on one machine: each has 1/16 of the two address ranges.
const maxClusters = 16

const (
	defaultPortBase = 16443
	portsPerCluster = 10
)

// cluster is one running (or half-running) cluster: everything another invocation needs to find it again. It is written
// to its state directory before anything is started.
type cluster struct {
	// Name is the cluster's and its node's name.
	Name string `json:"name"`
	// Index distinguishes clusters on one machine: it selects the bridge and the address ranges.
	Index int `json:"index"`
	// PortBase is the API server's port on the loopback address; the next ones are those of the other daemons.
	PortBase int `json:"portBase"`
	// Assets is the directory of the programs it was started with, which a newer checkout may have changed.
	Assets string `json:"assets"`

	// dir is the state directory.
	dir string
}

var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$`)

func validateName(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("cluster name %q: use 1 to 20 lower-case letters, digits and dashes", name)
	}
	return nil
}

func stateDir(name string) (string, error) {
	if err := validateName(name); err != nil {
		return "", err
	}
	root, err := clustersRoot()
	return filepath.Join(root, name), err
}

// loadCluster reads a cluster's state; errNoCluster if there is none.
func loadCluster(name string) (*cluster, error) {
	dir, err := stateDir(name)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cluster %s: %w", name, errNoCluster)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of cluster %s: %w", name, err)
	}
	c := &cluster{dir: dir}
	if err := json.Unmarshal(content, c); err != nil {
		return nil, fmt.Errorf("reading the state of cluster %s: %w", name, err)
	}
	return c, nil
}

var errNoCluster = errors.New("not running; start it with the verb up")

func (c *cluster) save() error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(c.path("cluster.json"), append(content, '\n'), 0o644)
}

// newCluster chooses an index that no other cluster and no network of the host uses, and its ports.
func newCluster(name string, portBase int) (*cluster, error) {
	dir, err := stateDir(name)
	if err != nil {
		return nil, err
	}
	assets, err := assetsDir()
	if err != nil {
		return nil, err
	}
	others, err := listClusters()
	if err != nil {
		return nil, err
	}
	taken := map[int]bool{}
	for _, other := range others {
		taken[other.Index] = true
	}
	for index := range maxClusters {
		c := &cluster{Name: name, Index: index, PortBase: portBase, Assets: assets, dir: dir}
		if taken[index] || c.networkInUse() {
			continue
		}
		if portBase == 0 {
			c.PortBase = defaultPortBase + portsPerCluster*index
		}
		return c, nil
	}
	return nil, fmt.Errorf("all %d address ranges are in use; take down another cluster first", maxClusters)
}

func listClusters() ([]*cluster, error) {
	root, err := clustersRoot()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var found []*cluster
	for _, entry := range entries {
		if !entry.IsDir() || validateName(entry.Name()) != nil {
			continue
		}
		if c, err := loadCluster(entry.Name()); err == nil {
			found = append(found, c)
		}
	}
	return found, nil
}

// path is a path inside the state directory.
func (c *cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

// program is the path of one of the cluster's programs.
func (c *cluster) program(name string) string { return filepath.Join(c.Assets, name) }

func (c *cluster) apiPort() int           { return c.PortBase }
func (c *cluster) etcdPort() int          { return c.PortBase + 1 }
func (c *cluster) etcdPeerPort() int      { return c.PortBase + 2 }
func (c *cluster) kubeletPort() int       { return c.PortBase + 3 }
func (c *cluster) kubeletHealthPort() int { return c.PortBase + 4 }
func (c *cluster) controllersPort() int   { return c.PortBase + 5 }
func (c *cluster) schedulerPort() int     { return c.PortBase + 6 }

func (c *cluster) podRange() netip.Prefix     { return subRange("10.77.0.0", c.Index) }
func (c *cluster) serviceRange() netip.Prefix { return subRange("10.78.0.0", c.Index) }

// gateway is the host's address on the pods' bridge, and the node's address.
func (c *cluster) gateway() netip.Addr { return c.podRange().Addr().Next() }

// serviceAddress is the cluster IP that the API server assigns to its own Service: the first of the range.
func (c *cluster) serviceAddress() netip.Addr { return c.serviceRange().Addr().Next() }

// bridge is the name of the pods' bridge; a network interface's name has at most 15 characters.
func (c *cluster) bridge() string { return fmt.Sprintf("capstan%d", c.Index) }

// fullName is the cluster's name among other things of the host: its CNI network, and the control group above all its
// pods'. Clusters must not share the latter: a kubelet kills unknown pods.
func (c *cluster) fullName() string { return "capstan-" + c.Name }

func (c *cluster) kubeconfig() string       { return c.path("kubeconfig") }
func (c *cluster) containerdSocket() string { return c.path("containerd.sock") }

// subRange is the index-th /20 of the /16 that starts at base.
func subRange(base string, index int) netip.Prefix {
	octets := netip.MustParseAddr(base).As4()
	octets[2] = byte(index * 16)
	return netip.PrefixFrom(netip.AddrFrom4(octets), 20)
}

// writeFile makes the parent directories as needed.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the directory of %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}
