package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// daemon is one long-running program of a cluster.
type daemon struct {
	name string
	// program is the executable's path.
	program string
	args    []string
	// ready returns nil once the daemon serves. Nil means that nothing waits for it.
	ready func(context.Context) error
}

// stages are the daemons in the order in which they start; those of one stage start together, once those before them
// serve.
func (c *cluster) stages() [][]daemon {
	return [][]daemon{
		{c.etcd(), c.containerd()},
		{c.apiServer()},
		{c.forwarder(), c.scheduler(), c.kubelet(), c.controllerManager()},
	}
}

func (c *cluster) daemons() []daemon { return slices.Concat(c.stages()...) }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (c *cluster) etcd() daemon {
	client, peer := "http://"+loopback(c.etcdPort()), "http://"+loopback(c.etcdPeerPort())
	return daemon{
		name:    "etcd",
		program: c.program("etcd"),
		args: []string{
			"--name=" + c.fullName(),
			"--data-dir=" + c.path("etcd"),
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			"--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=" + c.fullName() + "=" + peer,
			// What etcd's documentation recommends at most, and providers of clusters give: the default of 2 GiB is
			// used up within minutes of load, most of it by versions that are not compacted yet.
			"--quota-backend-bytes=8589934592",
		},
		ready: func(ctx context.Context) error { return getHealth(ctx, client+"/health") },
	}
}

func (c *cluster) apiServer() daemon {
	pki := func(name string) string { return c.path("pki", name) }
	return daemon{
		name:    "kube-apiserver",
		program: c.program("kube-apiserver"),
		args: []string{
			"--etcd-servers=http://" + loopback(c.etcdPort()),
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", c.apiPort()),
			"--advertise-address=" + c.gateway().String(),
			// Nothing routes to the endpoints of the Service kubernetes; the forwarder listens on its address instead.
			"--endpoint-reconciler-type=none",
			"--service-cluster-ip-range=" + c.serviceRange().String(),
			"--tls-cert-file=" + pki("apiserver.crt"),
			"--tls-private-key-file=" + pki("apiserver.key"),
			"--client-ca-file=" + pki("ca.crt"),
			"--token-auth-file=" + pki("tokens.csv"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--allow-privileged=true",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + pki("service-accounts.pub"),
			"--service-account-signing-key-file=" + pki("service-accounts.key"),
			"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
			"--kubelet-certificate-authority=" + pki("ca.crt"),
			"--kubelet-preferred-address-types=InternalIP",
		},
		ready: func(ctx context.Context) error {
			client, err := c.apiClient()
			if err != nil {
				return err
			}
			return client.get(ctx, "/readyz", nil)
		},
	}
}

// forwarder makes in-cluster configuration work as it stands: it listens on the address and port of the Service
// kubernetes, which no proxy serves here, and passes connections on to the API server.
func (c *cluster) forwarder() daemon {
	listen := netip.AddrPortFrom(c.serviceAddress(), 443).String()
	return daemon{
		name:    "forwarder",
		program: c.path("bin", "forward"),
		args:    []string{"-listen=" + listen, "-to=" + loopback(c.apiPort())},
		ready: func(ctx context.Context) error {
			conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", listen)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
}

func (c *cluster) controllerManager() daemon {
	return daemon{
		name:    "kube-controller-manager",
		program: c.program("kube-controller-manager"),
		args: []string{
			"--kubeconfig=" + c.path("config", "controller-manager.kubeconfig"),
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", c.controllersPort()),
			"--cert-dir=" + c.path("pki", "controller-manager"),
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			// Every controller makes an account and a token for itself at the start, which the default burst of 30 stretches to
			// five seconds. The lasting rate stays the default.
			"--kube-api-burst=100",
			"--service-account-private-key-file=" + c.path("pki", "service-accounts.key"),
			"--root-ca-file=" + c.path("pki", "ca.crt"),
			"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"),
			"--cluster-signing-key-file=" + c.path("pki", "ca.key"),
			"--flex-volume-plugin-dir=" + c.path("volume-plugins"),
		},
		ready: c.podsPossible,
	}
}

func (c *cluster) scheduler() daemon {
	return daemon{
		name:    "kube-scheduler",
		program: c.program("kube-scheduler"),
		args: []string{
			"--kubeconfig=" + c.path("config", "scheduler.kubeconfig"),
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", c.schedulerPort()),
			"--cert-dir=" + c.path("pki", "scheduler"),
			"--leader-elect=false",
		},
	}
}

func (c *cluster) containerd() daemon {
	return daemon{
		name:    "containerd",
		program: c.program("containerd"),
		args:    []string{"--config=" + c.path("config", "containerd.toml")},
		ready:   func(ctx context.Context) error { return c.ctr(ctx, nil, "version") },
	}
}

func (c *cluster) kubelet() daemon {
	return daemon{
		name:    "kubelet",
		program: c.program("kubelet"),
		args: []string{
			"--config=" + c.path("config", "kubelet.yaml"),
			"--kubeconfig=" + c.path("config", "kubelet-client.kubeconfig"),
			"--hostname-override=" + c.Name,
			"--node-ip=" + c.gateway().String(),
			"--root-dir=" + c.path("kubelet"),
			"--cert-dir=" + c.path("pki", "kubelet"),
		},
		ready: c.nodeReady,
	}
}
