package main

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"text/template"
)

//go:embed templates
var templateFiles embed.FS

// templates quote with Go's rules, which YAML's and TOML's double-quoted strings share for every path one would use.
var templates = template.Must(template.New("").
	Funcs(template.FuncMap{"quote": func(v any) string { return strconv.Quote(fmt.Sprint(v)) }}).
	ParseFS(templateFiles, "templates/*.tmpl"))

func render(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name+".tmpl", data); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// nodeConfig is the input of the kubelet's and containerd's templates.
type nodeConfig struct {
	Gateway                        string
	KubeletPort, KubeletHealthPort int
	ContainerdSocket, Cgroup       string
	PauseImage, CNIPlugins         string

	cluster *cluster
}

// File is the path of a file in the cluster's state directory.
func (n nodeConfig) File(name string) string { return n.cluster.path(name) }

func (c *cluster) nodeConfig(cniPlugins string) nodeConfig {
	return nodeConfig{
		Gateway:           c.gateway().String(),
		KubeletPort:       c.kubeletPort(),
		KubeletHealthPort: c.kubeletHealthPort(),
		ContainerdSocket:  c.containerdSocket(),
		Cgroup:            c.fullName(),
		PauseImage:        pauseImage,
		CNIPlugins:        cniPlugins,
		cluster:           c,
	}
}

// kubeconfig is the input of the kubeconfig template: a token, or a certificate and its key.
type kubeconfig struct {
	Cluster, Server, Authority string
	User                       string
	Token, Certificate, Key    string
}

func (c *cluster) kubeconfigs(authority []byte, token string) map[string]kubeconfig {
	base := kubeconfig{
		Cluster:   c.fullName(),
		Server:    fmt.Sprintf("https://127.0.0.1:%d", c.apiPort()),
		Authority: base64.StdEncoding.EncodeToString(authority),
	}
	admin := base
	admin.User, admin.Token = "admin", token
	configs := map[string]kubeconfig{c.kubeconfig(): admin}
	for _, name := range []string{"kubelet-client", "controller-manager", "scheduler"} {
		holder := base
		holder.User = name
		holder.Certificate, holder.Key = c.path("pki", name+".crt"), c.path("pki", name+".key")
		configs[c.path("config", name+".kubeconfig")] = holder
	}
	return configs
}

// writeConfigs writes the configuration of every daemon and the administrator's kubeconfig.
func (c *cluster) writeConfigs(cniPlugins, token string) error {
	authority, err := os.ReadFile(c.path("pki", "ca.crt"))
	if err != nil {
		return fmt.Errorf("reading the authority's certificate: %w", err)
	}
	for path, config := range c.kubeconfigs(authority, token) {
		content, err := render("kubeconfig", config)
		if err != nil {
			return err
		}
		if err := writeFile(path, content, 0o600); err != nil {
			return err
		}
	}
	node := c.nodeConfig(cniPlugins)
	for _, name := range []string{"kubelet.yaml", "containerd.toml"} {
		content, err := render(name, node)
		if err != nil {
			return err
		}
		if err := writeFile(c.path("config", name), content, 0o644); err != nil {
			return err
		}
	}
	network, err := c.networkConfig()
	if err != nil {
		return err
	}
	return writeFile(c.path("cni", "10-capstan.conflist"), network, 0o644)
}

// networkConfig is the pods' network: the bridge that up has made, and addresses from the cluster's range. isGateway
// stays off because the bridge has its address already, and because the plugin would switch on the host's forwarding
// for it.
func (c *cluster) networkConfig() ([]byte, error) {
	type object = map[string]any
	config := object{
		"cniVersion": "1.0.0",
		"name":       c.fullName(),
		"plugins": []object{{
			"type":   "bridge",
			"bridge": c.bridge(),
			"ipam": object{
				"type":    "host-local",
				"dataDir": c.path("cni-leases"),
				"ranges":  [][]object{{{"subnet": c.podRange().String(), "gateway": c.gateway().String()}}},
				"routes":  []object{{"dst": "0.0.0.0/0"}},
			},
		}},
	}
	return json.MarshalIndent(config, "", "  ")
}
