package main

import (
	"errors"
	"slices"
	"testing"
)

// testCluster is a cluster that exists nowhere but in a test's directory.
func testCluster(t *testing.T, name string, index int) *cluster {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := stateDir(name)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{
		Name:     name,
		Index:    index,
		PortBase: defaultPortBase + portsPerCluster*index,
		Assets:   "/assets",
		dir:      dir,
	}
}

func TestStateIsFoundAgain(t *testing.T) {
	c := testCluster(t, "one", 3)
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	loaded, err := loadCluster("one")
	if err != nil {
		t.Fatal(err)
	}
	if *loaded != *c {
		t.Errorf("loaded %+v, want %+v", loaded, c)
	}
	if _, err := loadCluster("two"); !errors.Is(err, errNoCluster) {
		t.Errorf("another cluster: %v", err)
	}
	all, err := listClusters()
	if err != nil || len(all) != 1 || *all[0] != *c {
		t.Errorf("listed %v, %v", all, err)
	}
}

func TestClustersShareNothingOfTheHost(t *testing.T) {
	var clusters []*cluster
	for index := range maxClusters {
		clusters = append(clusters, &cluster{
			Name: "c" + string(rune('a'+index)), Index: index, PortBase: defaultPortBase + portsPerCluster*index,
		})
	}
	for i, a := range clusters {
		for _, b := range clusters[i+1:] {
			if a.podRange().Overlaps(b.podRange()) || a.serviceRange().Overlaps(b.serviceRange()) {
				t.Errorf("%s and %s share addresses", a.Name, b.Name)
			}
			if a.bridge() == b.bridge() || a.fullName() == b.fullName() {
				t.Errorf("%s and %s share a name", a.Name, b.Name)
			}
			if a.schedulerPort() >= b.apiPort() {
				t.Errorf("%s and %s share a port", a.Name, b.Name)
			}
		}
		if a.podRange().Overlaps(a.serviceRange()) {
			t.Errorf("%s has one range twice", a.Name)
		}
		if len(a.bridge()) > 15 {
			t.Errorf("%s is too long for an interface", a.bridge())
		}
	}
}

func TestAddressesAreTheFirstOfTheirRanges(t *testing.T) {
	c := &cluster{Index: 2}
	if got := c.podRange().String(); got != "10.77.32.0/20" {
		t.Errorf("pods are in %s", got)
	}
	if got := c.gateway().String(); got != "10.77.32.1" {
		t.Errorf("the gateway is %s", got)
	}
	if got := c.serviceAddress().String(); got != "10.78.32.1" {
		t.Errorf("the Service kubernetes has %s", got)
	}
}

func TestNewClusterTakesTheFirstFreeIndex(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var indexes []int
	// Clusters of this machine's user are elsewhere, but their bridges are seen: the indexes rise, without fixed values.
	for _, name := range []string{"one", "two"} {
		c, err := newCluster(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if c.PortBase != defaultPortBase+portsPerCluster*c.Index {
			t.Errorf("index %d has ports from %d", c.Index, c.PortBase)
		}
		if err := c.save(); err != nil {
			t.Fatal(err)
		}
		indexes = append(indexes, c.Index)
	}
	if indexes[1] <= indexes[0] {
		t.Errorf("indexes are %d", indexes)
	}
	chosen, err := newCluster("three", 30000)
	if err != nil || chosen.apiPort() != 30000 || slices.Contains(indexes, chosen.Index) {
		t.Errorf("chosen ports: %+v, %v", chosen, err)
	}
}

func TestNamesThatWouldLeaveTheirPlaceAreRefused(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "A", "-a", "a-", "a b", "a123456789012345678901"} {
		if err := validateName(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	for _, name := range []string{"a", "default", "e2e-1", "a1234567890123456789"} {
		if err := validateName(name); err != nil {
			t.Error(err)
		}
	}
}
