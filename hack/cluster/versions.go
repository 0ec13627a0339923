package main

import (
	"fmt"
	"strings"
)

// The versions of everything a cluster is made of. They name the cache directory, so a change here builds the programs
// again beside the old ones. kubernetesVersion and etcdVersion must equal what go.mod requires; a test compares them.
const (
	kubernetesVersion = "v1.37.1"
	etcdVersion       = "v3.7.0"
	containerdVersion = "v2.4.2"
)

// The images that this command builds itself. The pause image holds a pod's namespaces open; the node must have it
// before the first pod.
const pauseImage = "capstan.dev/pause:dev"

// versionsName is the name of the cache directory of these versions.
func versionsName() string {
	return fmt.Sprintf("kubernetes-%s-etcd-%s-containerd-%s", kubernetesVersion, etcdVersion, containerdVersion)
}

// kubernetesLinkFlags sets the version in the programs: without it they report v0.0.0-master and clients that compare
// versions misjudge them.
func kubernetesLinkFlags() string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(kubernetesVersion, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const pkg = "k8s.io/component-base/version"
	return fmt.Sprintf("-s -w -X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s",
		pkg, kubernetesVersion, pkg, major, pkg, minor)
}
