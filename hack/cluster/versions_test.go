package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestVersionsAreThoseOfTheModuleFile(t *testing.T) {
	content, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for module, version := range map[string]string{
		"k8s.io/kubernetes":         kubernetesVersion,
		"go.etcd.io/etcd/server/v3": etcdVersion,
	} {
		required := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (\S+)$`).FindSubmatch(content)
		if required == nil || string(required[1]) != version {
			t.Errorf("go.mod requires %s as %q, versions.go reports %s", module, required, version)
		}
	}
}

func TestCacheDirectoryNamesEveryVersion(t *testing.T) {
	for _, version := range []string{kubernetesVersion, etcdVersion, containerdVersion} {
		if !strings.Contains(versionsName(), version) {
			t.Errorf("%s is not in %s", version, versionsName())
		}
	}
}

func TestLinkFlagsSetTheVersion(t *testing.T) {
	flags := kubernetesLinkFlags()
	for _, want := range []string{".gitVersion=v1.37.1", ".gitMajor=1 ", ".gitMinor=37"} {
		if !strings.Contains(flags+" ", want) {
			t.Errorf("%q lacks %q", flags, want)
		}
	}
}
