//go:build binaries

// Package binaries pins the Kubernetes programs that a development cluster is made of, so that go.mod and go.sum hold
// exactly the modules their builds need. Nothing compiles this package; the cluster command builds the programs one by
// one.
package binaries

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
