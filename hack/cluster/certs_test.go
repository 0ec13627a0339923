package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertificatesAreSignedForTheirUse(t *testing.T) {
	c := testCluster(t, "one", 0)
	token, err := c.writeCredentials()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	authority, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("the authority: %v", err)
	}
	for name, id := range c.identities() {
		pair, err := tls.LoadX509KeyPair(c.path("pki", name+".crt"), c.path("pki", name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		usage := x509.ExtKeyUsageClientAuth
		if len(id.hosts) > 0 {
			usage = x509.ExtKeyUsageServerAuth
		}
		options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := pair.Leaf.Verify(options); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, host := range id.hosts {
			if err := pair.Leaf.VerifyHostname(host); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if pair.Leaf.Subject.CommonName != id.name || strings.Join(pair.Leaf.Subject.Organization, ",") != id.group {
			t.Errorf("%s is for %s", name, pair.Leaf.Subject)
		}
	}
	tokens, err := os.ReadFile(c.path("pki", "tokens.csv"))
	if err != nil || !strings.HasPrefix(string(tokens), token+",admin,") || len(token) != 64 {
		t.Errorf("the token file does not hold the token, %v", err)
	}
}

func TestTheKubeletIsThisNode(t *testing.T) {
	c := testCluster(t, "one", 0)
	id := c.identities()["kubelet-client"]
	if id.name != "system:node:one" || id.group != "system:nodes" {
		t.Errorf("the kubelet is %+v", id)
	}
}

func TestCredentialsAreReadableByTheirOwnerOnly(t *testing.T) {
	c := testCluster(t, "one", 0)
	if _, err := c.writeCredentials(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(c.path("pki", "*"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", filepath.Base(file), info.Mode().Perm())
		}
	}
}
