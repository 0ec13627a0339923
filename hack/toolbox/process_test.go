package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func itoa(n int) string { return strconv.Itoa(n) }

// program is a command that runs the toolbox as a process of its own.
func program(t *testing.T, tool, input string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, tool)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdin = strings.NewReader(input)
	return cmd
}

func TestForkEndsAtOnceAndLeavesAWriter(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, detach := range []string{"false", "true"} {
		cmd := program(t, "fork", `{"seconds":0.5,"detach":`+detach+`}`)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, writer
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), "left process ") {
			t.Errorf("printed %q", out.String())
		}
	}
	writer.Close()

	// The parents are gone and this end of the pipe is closed: what can be read comes from the children, up to their end.
	lines := bufio.NewScanner(reader)
	seen := 0
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "background line ") {
			t.Errorf("read %q", lines.Text())
		}
		seen++
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if seen < 4 {
		t.Errorf("the children wrote %d lines, want at least 2 each", seen)
	}
}

func TestProgramEndsWithTheToolsExitCode(t *testing.T) {
	cmd := program(t, "fail", `{"code":42}`)
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 42 {
		t.Errorf("ended with %v, want exit code 42", err)
	}
}

func TestSignalEndsTheProgramByThatSignal(t *testing.T) {
	for input, want := range map[string]syscall.Signal{"": syscall.SIGKILL, `{"number":15}`: syscall.SIGTERM} {
		cmd := program(t, "signal", input)
		err := cmd.Run()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != want {
			t.Errorf("%q ends the program with %v, want %v", input, err, want)
		}
	}
	if _, stderr, code := call(
		t,
		"signal",
		`{"number":999}`,
	); code != exitFailed ||
		!strings.Contains(stderr, "sending the signal") {
		t.Errorf("a signal that does not exist gives %q and exit code %d", stderr, code)
	}
}
