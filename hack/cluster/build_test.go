package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

func names(programs []program) []string {
	var all []string
	for _, p := range programs {
		all = append(all, p.name)
	}
	return all
}

func TestEnvtestIsTheControlPlaneOnly(t *testing.T) {
	selected, err := selectPrograms("envtest")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"etcd", "kube-apiserver", "kubectl"}; !slices.Equal(names(selected), want) {
		t.Errorf("envtest is %q, want %q", names(selected), want)
	}
}

func TestUnknownSelectionIsRefused(t *testing.T) {
	if _, err := selectPrograms("everything"); err == nil {
		t.Error("no error")
	}
}

func TestProgramsInTheCacheAreNotBuiltAgain(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := assetsDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs() {
		if err := writeFile(filepath.Join(dir, p.name), []byte("built before"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var progress bytes.Buffer
	if err := buildPrograms(t.Context(), &progress, programs()); err != nil {
		t.Fatal(err)
	}
	if progress.Len() > 0 {
		t.Errorf("it did something: %s", progress.String())
	}
}

func TestMissingProgramsKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	for _, present := range []string{"kubectl", "containerd"} {
		if err := writeFile(filepath.Join(dir, present), []byte("x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A directory of a program's name is not the program.
	if err := os.Mkdir(filepath.Join(dir, "kubelet"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"etcd",
		"kube-apiserver",
		"kube-controller-manager",
		"kube-scheduler",
		"kubelet",
		"containerd-shim-runc-v2",
		"ctr",
	}
	if got := names(missingPrograms(dir, programs())); !slices.Equal(got, want) {
		t.Errorf("missing are %q, want %q", got, want)
	}
}

func TestModuleIsFoundFromInsideAndFromTheRepository(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{".", "image", "../..", "../../hack"} {
		t.Chdir(filepath.Join(here, from))
		if got, err := moduleDir(); err != nil || got != here {
			t.Errorf("from %s: %q, %v", from, got, err)
		}
	}
	t.Chdir(t.TempDir())
	if got, err := moduleDir(); err == nil {
		t.Errorf("found %s from outside the repository", got)
	}
}

func TestLockIsHeldUntilItIsGivenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "a.lock")
	unlock, err := lockFile(path, func() { t.Error("a free lock had to wait") })
	if err != nil {
		t.Fatal(err)
	}
	waits, got := make(chan struct{}), make(chan error, 1)
	go func() {
		second, err := lockFile(path, func() { close(waits) })
		if err == nil {
			second()
		}
		got <- err
	}()
	<-waits
	select {
	case err := <-got:
		t.Fatalf("the lock was had twice: %v", err)
	default:
	}
	unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestProgressIsReportedUntilTheBuildEnds(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Int32
	stop := everyFewSeconds(time.Millisecond, func() {
		begun <- struct{}{}
		<-release
		ended.Add(1)
	})
	<-begun
	release <- struct{}{}
	<-begun // the second report is being written when the build ends
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	select {
	case <-stopped:
		t.Error("the last report is not waited for")
	case release <- struct{}{}:
	}
	for {
		select {
		case <-begun: // one that was due before the end was known
			release <- struct{}{}
			continue
		case <-stopped:
		}
		break
	}
	if ended.Load() < 2 {
		t.Errorf("%d reports were written", ended.Load())
	}
}
