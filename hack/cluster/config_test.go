package main

import (
	"encoding/json"
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

func TestKubeletConfigurationIsWhatTheMachineNeeds(t *testing.T) {
	c := testCluster(t, "one", 1)
	content, err := render("kubelet.yaml", c.nodeConfig("/usr/lib/cni"))
	if err != nil {
		t.Fatal(err)
	}
	var config kubelet.KubeletConfiguration
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		t.Fatal(err)
	}
	for _, setting := range []*bool{config.FailSwapOn, config.FailCgroupV1, config.MakeIPTablesUtilChains} {
		if setting == nil || *setting {
			t.Error("swap, cgroup v1 or iptables is insisted on")
		}
	}
	if config.ResolverConfig == nil || *config.ResolverConfig != "" {
		t.Error("the host's resolv.conf would reach pods")
	}
	if config.EnforceNodeAllocatable == nil || len(config.EnforceNodeAllocatable) > 0 {
		t.Error("node allocatable is enforced")
	}
	if high := config.ImageGCHighThresholdPercent; high == nil || *high != 100 {
		t.Error("images are collected")
	}
	if config.MaxPods <= 110 {
		t.Errorf("only %d pods", config.MaxPods)
	}
	if config.Port != int32(c.kubeletPort()) || config.HealthzPort == nil ||
		*config.HealthzPort != int32(c.kubeletHealthPort()) {
		t.Error("ports are not the cluster's")
	}
	for got, want := range map[string]string{
		config.Kind:                     "KubeletConfiguration",
		config.Address:                  "10.77.16.1",
		config.CgroupDriver:             "cgroupfs",
		config.CgroupRoot:               "/capstan-one",
		config.ContainerRuntimeEndpoint: "unix://" + c.path("containerd.sock"),
		config.PodLogsDir:               c.path("pod-logs"),
		config.TLSCertFile:              c.path("pki", "kubelet.crt"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestContainerdConfigurationHoldsWhatWasMeasuredToWork(t *testing.T) {
	c := testCluster(t, "one", 0)
	content, err := render("containerd.toml", c.nodeConfig("/usr/lib/cni"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"version = 3",
		`root = "` + c.path("containerd") + `"`,
		`state = "` + c.path("containerd-run") + `"`,
		`address = "` + c.containerdSocket() + `"`,
		`sandbox = "capstan.dev/pause:dev"`,
		"restrict_oom_score_adj = true",
		`bin_dirs = ["/usr/lib/cni"]`,
		`conf_dir = "` + c.path("cni") + `"`,
		"SystemdCgroup = false",
		`path = "` + c.path("containerd-opt") + `"`,
		`Root = "` + c.path("runc") + `"`,
	} {
		if !strings.Contains(string(content), line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
}

func TestPathsAreQuoted(t *testing.T) {
	c := testCluster(t, "one", 0)
	c.dir = `/home/a "b"/c: d`
	content, err := render("kubelet.yaml", c.nodeConfig("/usr/lib/cni"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ PodLogsDir string }
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	if config.PodLogsDir != c.dir+"/pod-logs" {
		t.Errorf("read back as %q", config.PodLogsDir)
	}
}

func TestPodNetworkUsesTheBridgeAsItsGateway(t *testing.T) {
	c := testCluster(t, "one", 0)
	content, err := c.networkConfig()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Name    string
		Plugins []struct {
			Type, Bridge      string
			IsGateway, IPMasq bool
			IPAM              struct {
				Type, DataDir string
				Ranges        [][]struct{ Subnet, Gateway string }
				Routes        []struct{ Dst string }
			}
		}
	}
	if err := json.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	if config.Name != "capstan-one" || len(config.Plugins) != 1 {
		t.Fatalf("network is %+v", config)
	}
	plugin := config.Plugins[0]
	if plugin.Type != "bridge" || plugin.Bridge != "capstan0" || plugin.IsGateway || plugin.IPMasq {
		t.Errorf("plugin is %+v", plugin)
	}
	if plugin.IPAM.Type != "host-local" || plugin.IPAM.DataDir != c.path("cni-leases") {
		t.Errorf("addresses are by %s in %s", plugin.IPAM.Type, plugin.IPAM.DataDir)
	}
	if got := plugin.IPAM.Ranges[0][0]; got.Subnet != "10.77.0.0/20" || got.Gateway != "10.77.0.1" {
		t.Errorf("the range is %+v", got)
	}
	if plugin.IPAM.Routes[0].Dst != "0.0.0.0/0" {
		t.Errorf("the route is %+v", plugin.IPAM.Routes[0])
	}
}

func TestKubeconfigsHoldATokenOrACertificate(t *testing.T) {
	c := testCluster(t, "one", 0)
	configs := c.kubeconfigs([]byte("authority"), "secret")
	if len(configs) != 4 {
		t.Fatalf("%d kubeconfigs", len(configs))
	}
	for path, config := range configs {
		content, err := render("kubeconfig", config)
		if err != nil {
			t.Fatal(err)
		}
		var read struct {
			CurrentContext string `json:"current-context"`
			Clusters       []struct{ Cluster struct{ Server string } }
			Users          []struct{ User map[string]string }
		}
		if err := yaml.Unmarshal(content, &read); err != nil {
			t.Fatal(err)
		}
		if read.CurrentContext != "capstan-one" || read.Clusters[0].Cluster.Server != "https://127.0.0.1:16443" {
			t.Errorf("%s: %+v", path, read)
		}
		user := read.Users[0].User
		if path == c.kubeconfig() {
			if len(user) != 1 || user["token"] != "secret" {
				t.Errorf("the administrator is %v", user)
			}
			continue
		}
		if len(user) != 2 || user["client-certificate"] == "" || user["client-key"] == "" {
			t.Errorf("%s: %v", path, user)
		}
	}
}

func TestEveryDaemonGetsPathsOfItsOwnCluster(t *testing.T) {
	c := testCluster(t, "one", 0)
	for _, d := range c.daemons() {
		line := strings.Join(append([]string{d.program}, d.args...), " ")
		if !strings.Contains(line, c.dir+"/") {
			t.Errorf("%s could not be recognised as this cluster's: %s", d.name, line)
		}
	}
}
