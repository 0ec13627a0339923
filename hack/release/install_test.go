//go:build e2e

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

const (
	systemNamespace = "capstan-system"
	releaseName     = "capstan"
	deployment      = "deployment/capstan-manager"
	// patience bounds what a rollout, or the end of the Turns, may take.
	patience = 3 * time.Minute
)

// turnsAtOnce is the number of Turns that run during each change of version.
func turnsAtOnce(t *testing.T) int {
	t.Helper()
	text := environment("INSTALL_TURNS", "6")
	n, err := strconv.Atoi(text)
	if err != nil || n < len(kindsOfTurns) {
		t.Fatalf("INSTALL_TURNS is %q, not a number of at least %d", text, len(kindsOfTurns))
	}
	return n
}

// From a release in a registry to a Turn that is answered, with all changes of version between: from install.yaml to
// the chart, down to the version before, up again, back, and away. Turns run meanwhile. The version before is built of
// the commit before, or of that of INSTALL_BEFORE.
func TestInstall(t *testing.T) {
	host := startRegistry(t) + "/capstan"
	before := releaseOf(t, host, sourceBefore(t), "v0.0.1", "-platforms", "linux/"+runtime.GOARCH, "-programs=")
	now := releaseOf(t, host, "../..", "v0.0.2", nowArguments()...)
	expectPublished(t, now)

	c := newCluster(t)
	c.prepare()
	n := turnsAtOnce(t)
	c.hold = holdFor(n)

	c.step("install.yaml of the version before")
	c.kubectl("apply", "--server-side", "--force-conflicts", "-f", filepath.Join(before.out, "install.yaml"))
	c.rolledOut(before)

	running := c.start("a", n)
	c.step("the chart takes over what install.yaml had")
	c.install(now, true)
	c.rolledOut(now)
	c.stillRun(running)
	c.finish(running)

	c.step("the chart of the version before")
	c.upgrade(before)
	c.rolledOut(before)

	running = c.start("b", n)
	c.step("an upgrade of the chart")
	c.upgrade(now)
	c.rolledOut(now)
	c.stillRun(running)
	c.finish(running)

	running = c.start("c", n)
	c.step("a rollback")
	c.rollback()
	c.rolledOut(before)
	c.stillRun(running)
	c.finish(running)
	// The manager starts with valid rules of egress only.
	c.upgradeWith(now, object{"egress": object{"rules": someEgressRules()}, "dashboards": object{"enabled": true}})
	c.rolledOut(now)

	running = c.start("d", n)
	c.step("an uninstall that waits for the Turns")
	c.answer(running)
	c.kubectl("wait", "turns", "--all", "--namespace", c.namespace, "--for=condition=Finished",
		"--timeout="+(patience+c.hold).String())
	c.finish(running)
	interrupted := c.start("e", 1)
	c.uninstall()
	if left := c.kubectl("get", "turns", "--namespace", c.namespace, "-o", "name"); !strings.Contains(left, "turn") {
		t.Errorf("the conversations are gone: %q", left)
	}
	c.step("a fresh install, which goes on with the Turn that the uninstall interrupted")
	c.install(now, false)
	c.rolledOut(now)
	c.finish(interrupted)
	c.uninstall()
}

// holdFor returns how long the Turns that wait for a model or a Job take: long enough that all have begun before the
// first one ends.
func holdFor(turns int) time.Duration {
	return 7*time.Second + 1500*time.Millisecond*time.Duration(max(0, turns-6))
}

// nowArguments are those of the release under test: with INSTALL_PLATFORMS, of more platforms than this one.
func nowArguments() []string {
	return []string{"-platforms", environment("INSTALL_PLATFORMS", "linux/"+runtime.GOARCH), "-programs="}
}

// releaseOf releases a source tree to a registry, on an empty base.
func releaseOf(t *testing.T, registry, root, version string, more ...string) options {
	t.Helper()
	args := append([]string{
		"-root", root, "-registry", registry, "-version", version, "-base", scratch,
		"-out", filepath.Join(t.TempDir(), "release"),
	}, more...)
	o, err := parse(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(t.Context(), o, os.Stderr); err != nil {
		t.Fatal(err)
	}
	return o
}

// cluster is the one of KUBECONFIG, with Helm and kubectl.
type cluster struct {
	t          *testing.T
	config     *action.Configuration
	kubeconfig string
	binary     string
	namespace  string
	began      time.Time
	// hold is how long a model or a Job of the Turns takes.
	hold time.Duration
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{
		t: t, kubeconfig: os.Getenv("KUBECONFIG"), binary: environment("E2E_KUBECTL", "kubectl"),
		namespace: "install-" + strconv.FormatInt(time.Now().Unix(), 36), began: time.Now(),
	}
	if c.kubeconfig == "" {
		t.Fatal("KUBECONFIG is not set: run this with make test-install")
	}
	flags := genericclioptions.NewConfigFlags(false)
	space := systemNamespace
	flags.KubeConfig, flags.Namespace = &c.kubeconfig, &space
	c.config = action.NewConfiguration()
	if err := c.config.Init(flags, systemNamespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) step(text string) {
	fmt.Fprintf(os.Stderr, "--- [%3.0fs] %s\n", time.Since(c.began).Seconds(), text)
}

// run returns the output of kubectl.
func (c *cluster) run(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, c.binary, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	command.Stdin = strings.NewReader(input)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.run("", args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *cluster) apply(manifest string) {
	c.t.Helper()
	if _, err := c.run(manifest, "apply", "--server-side", "--namespace", c.namespace, "-f", "-"); err != nil {
		c.t.Fatal(err)
	}
}

// prepare removes what an earlier run has left, and sees to it that this one leaves nothing but definitions.
func (c *cluster) prepare() {
	c.t.Helper()
	history, err := c.config.Releases.History(releaseName)
	if err == nil && len(history) > 0 {
		c.uninstall()
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			out, _ := c.run("", "--namespace", systemNamespace, "get", "pods,events")
			log, _ := c.run("", "--namespace", systemNamespace, "logs", deployment, "--tail=30")
			turns, _ := c.run("", "--namespace", c.namespace, "get", "turns,sessions,jobs,pods")
			c.t.Logf("%s\n%s\n%s", out, log, turns)
		}
		_, _ = c.run("", "delete", "namespace", c.namespace, "--ignore-not-found", "--wait=false")
	})
}

// chart pulls the chart of a release by its digest.
func (c *cluster) chart(o options) *chartv2.Chart {
	c.t.Helper()
	tag, err := name.NewTag(chartRepository(o) + ":" + chartVersion(o.version))
	if err != nil {
		c.t.Fatal(err)
	}
	found, err := remote.Head(tag)
	if err != nil {
		c.t.Fatal(err)
	}
	client, err := helmClient(tag.Registry)
	if err != nil {
		c.t.Fatal(err)
	}
	pulled, err := client.Pull(tag.Context().Digest(found.Digest.String()).String())
	if err != nil {
		c.t.Fatal(err)
	}
	loaded, err := loader.LoadArchive(bytes.NewReader(pulled.Chart.Data))
	if err != nil {
		c.t.Fatal(err)
	}
	return loaded.(*chartv2.Chart)
}

func (c *cluster) install(o options, takeOwnership bool) {
	c.t.Helper()
	install := action.NewInstall(c.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = releaseName, systemNamespace, true
	install.TakeOwnership, install.ForceConflicts, install.ServerSideApply = takeOwnership, takeOwnership, true
	install.WaitStrategy, install.Timeout = kube.StatusWatcherStrategy, patience
	if _, err := install.Run(c.chart(o), nil); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) upgrade(o options) {
	c.t.Helper()
	c.upgradeWith(o, nil)
}

func (c *cluster) upgradeWith(o options, values object) {
	c.t.Helper()
	upgrade := action.NewUpgrade(c.config)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = systemNamespace, kube.StatusWatcherStrategy, patience
	// kubectl stays an owner of the fields that were the same when the chart took install.yaml over.
	upgrade.ForceConflicts = true
	if _, err := upgrade.Run(releaseName, c.chart(o), values); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) rollback() {
	c.t.Helper()
	rollback := action.NewRollback(c.config)
	rollback.WaitStrategy, rollback.Timeout = kube.StatusWatcherStrategy, patience
	if err := rollback.Run(releaseName); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) uninstall() {
	c.t.Helper()
	uninstall := action.NewUninstall(c.config)
	uninstall.WaitStrategy, uninstall.Timeout = kube.StatusWatcherStrategy, patience
	if _, err := uninstall.Run(releaseName); err != nil {
		c.t.Fatal(err)
	}
	for _, gone := range []string{"deployments", "serviceaccounts", "roles"} {
		left := c.kubectl("--namespace", systemNamespace, "get", gone, "-l", "app.kubernetes.io/name=capstan", "-o", "name")
		if left != "" {
			c.t.Errorf("after the uninstall there are %s", left)
		}
	}
	if kept := c.kubectl("get", "crds", "-o", "name"); !strings.Contains(kept, "turns.capstan.dev") {
		c.t.Errorf("the definitions are gone: %s", kept)
	}
}

// rolledOut waits until the only manager is that of a release.
func (c *cluster) rolledOut(o options) {
	c.t.Helper()
	c.kubectl("--namespace", systemNamespace, "rollout", "status", deployment, "--timeout=2m")
	got := c.kubectl("--namespace", systemNamespace, "get", deployment, "-o",
		"jsonpath={.spec.template.spec.containers[0].image}{\"\\n\"}{.spec.template.spec.containers[0].args}")
	content, err := os.ReadFile(filepath.Join(o.out, "install.yaml"))
	if err != nil {
		c.t.Fatal(err)
	}
	images, err := namedImages(content)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, image := range images {
		if !strings.Contains(got, image) {
			c.t.Errorf("the manager runs %s, without %s of %s", got, image, o.version)
		}
	}
}
