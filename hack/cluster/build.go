package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// program is one binary of a cluster and how it is built.
type program struct {
	// name is the file name in the cache directory.
	name string
	// pkg is the Go package that is built. Where version is empty it is built in this module, else installed at that
	// version, with the dependencies that its own module requires.
	pkg, version string
	// ldflags are the linker's flags.
	ldflags string
	// envtest marks the programs that a control plane for tests needs.
	envtest bool
}

const stripped = "-s -w"

// programs are all programs, in the order in which they are built: those of envtest first, so that tests can start
// soonest.
func programs() []program {
	kubernetes := func(name string, envtest bool) program {
		return program{name: name, pkg: "k8s.io/kubernetes/cmd/" + name, ldflags: kubernetesLinkFlags(), envtest: envtest}
	}
	containerd := func(name string) program {
		return program{
			name:    name,
			pkg:     "github.com/containerd/containerd/v2/cmd/" + name,
			version: containerdVersion,
			ldflags: stripped,
		}
	}
	return []program{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", ldflags: kubernetesLinkFlags(), envtest: true},
		kubernetes("kube-apiserver", true),
		kubernetes("kubectl", true),
		kubernetes("kube-controller-manager", false),
		kubernetes("kube-scheduler", false),
		kubernetes("kubelet", false),
		containerd("containerd"),
		containerd("containerd-shim-runc-v2"),
		containerd("ctr"),
	}
}

// selectPrograms returns the programs that `build --only` names: all for "", the control plane for "envtest".
func selectPrograms(only string) ([]program, error) {
	switch only {
	case "":
		return programs(), nil
	case "envtest":
		var selected []program
		for _, p := range programs() {
			if p.envtest {
				selected = append(selected, p)
			}
		}
		return selected, nil
	default:
		return nil, fmt.Errorf("--only %q is not known; the one choice is envtest", only)
	}
}

// missingPrograms returns those of wanted that dir does not hold.
func missingPrograms(dir string, wanted []program) []program {
	var missing []program
	for _, p := range wanted {
		if info, err := os.Stat(filepath.Join(dir, p.name)); err != nil || !info.Mode().IsRegular() {
			missing = append(missing, p)
		}
	}
	return missing
}

// buildPrograms builds those of wanted that the cache lacks. A program appears in the cache whole or not at all, and
// two builds at once take turns.
func buildPrograms(ctx context.Context, progress io.Writer, wanted []program) error {
	dir, err := assetsDir()
	if err != nil {
		return err
	}
	if len(missingPrograms(dir, wanted)) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the binary cache: %w", err)
	}
	unlock, err := lockFile(dir+".lock", func() { fmt.Fprintln(progress, "another build is running; waiting for it") })
	if err != nil {
		return err
	}
	defer unlock()

	missing := missingPrograms(dir, wanted)
	began := time.Now()
	for i, p := range missing {
		fmt.Fprintf(progress, "building %s (%d of %d) ...\n", p.name, i+1, len(missing))
		started := time.Now()
		stop := everyFewSeconds(reportInterval, func() {
			fmt.Fprintf(progress, "  still building %s (%d of %d): %.0f s, %.0f s in all\n",
				p.name, i+1, len(missing), time.Since(started).Seconds(), time.Since(began).Seconds())
		})
		err := buildProgram(ctx, progress, dir, p)
		stop()
		if err != nil {
			return fmt.Errorf("building %s: %w", p.name, err)
		}
		fmt.Fprintf(progress, "built %s in %s\n", p.name, seconds(time.Since(started)))
	}
	return nil
}

// reportInterval is how often a build that takes long reports that it goes on.
const reportInterval = 15 * time.Second

// everyFewSeconds calls report at intervals until the function that it returns is called, which waits for the last
// report.
func everyFewSeconds(interval time.Duration, report func()) func() {
	done, ended := make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(interval)
	go func() {
		defer close(ended)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				report()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func buildProgram(ctx context.Context, progress io.Writer, dir string, p program) error {
	module, err := moduleDir()
	if err != nil {
		return err
	}
	// The temporary directory is inside the cache directory, so that the rename stays on one file system.
	temp, err := os.MkdirTemp(dir, ".building-")
	if err != nil {
		return fmt.Errorf("making a directory to build in: %w", err)
	}
	defer os.RemoveAll(temp)

	built := filepath.Join(temp, filepath.Base(p.pkg))
	env := []string{"CGO_ENABLED=0"}
	args := []string{"install", "-trimpath", "-buildvcs=false", "-ldflags", p.ldflags, p.pkg + "@" + p.version}
	if p.version == "" {
		built = filepath.Join(temp, p.name)
		args = []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", p.ldflags, "-o", built, p.pkg}
	} else {
		env = append(env, "GOBIN="+temp)
	}
	if err := runGo(ctx, progress, module, env, args...); err != nil {
		return err
	}
	return os.Rename(built, filepath.Join(dir, p.name))
}

// buildOwn builds one of this module's own small programs, fresh every time: their source may have changed and they
// take no time.
func buildOwn(ctx context.Context, progress io.Writer, pkg, out string) error {
	module, err := moduleDir()
	if err != nil {
		return err
	}
	err = runGo(ctx, progress, module, []string{"CGO_ENABLED=0"},
		"build", "-trimpath", "-buildvcs=false", "-ldflags", stripped, "-o", out, pkg)
	if err != nil {
		return fmt.Errorf("building %s: %w", pkg, err)
	}
	return nil
}

func runGo(ctx context.Context, progress io.Writer, dir string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = progress, progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", args[0], err)
	}
	return nil
}

const modulePath = "github.com/capstan-dev/capstan/hack/cluster"

// moduleDir is this module's directory: the programs are built from its go.mod. The command runs in it (`go -C
// hack/cluster run .`) or somewhere below the repository's root.
func moduleDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "hack", "cluster")} {
			if isModule(candidate, modulePath) {
				return candidate, nil
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run this inside the repository, as `go -C hack/cluster run . <verb>`")
		}
		dir = parent
	}
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.1f s", d.Seconds())
}
