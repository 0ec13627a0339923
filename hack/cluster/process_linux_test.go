package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestAProcessIsKnownByItsStart(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	found, ok := findProcess(cmd.Process.Pid)
	if !ok || !found.running() {
		t.Fatalf("process %d is not found", cmd.Process.Pid)
	}
	path := filepath.Join(t.TempDir(), "sleep.pid")
	if err := writePidFile(path, found); err != nil {
		t.Fatal(err)
	}
	if read, err := readPidFile(path); err != nil || read != found {
		t.Errorf("read %+v, %v", read, err)
	}

	other := process{pid: found.pid, started: found.started + "1"}
	if other.running() {
		t.Error("another process of the same id counts as this one")
	}
	killAll([]process{other})
	if !found.running() {
		t.Fatal("a process was ended that was not meant")
	}
	stopAll([]process{found}, 10*time.Second)
	if found.running() {
		t.Error("the process still runs")
	}
	if err := <-exited; err == nil {
		t.Error("the process ended by itself")
	}
}
