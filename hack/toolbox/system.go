package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// sleep waits that many seconds.
func sleep(s streams) error {
	args, err := arguments[struct{ Seconds float64 }](s)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(args.Seconds * float64(time.Second)))
	_, err = fmt.Fprintf(s.out, "slept %v s\n", args.Seconds)
	return err
}

// count writes a number a second to the standard error, as a tool that reports its progress does.
func count(s streams) error {
	args, err := arguments[struct{ To int }](s)
	if err != nil {
		return err
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for i := range args.To {
		if _, err := fmt.Fprintf(s.err, "%d of %d\n", i+1, args.To); err != nil {
			return err
		}
		<-second.C
	}
	_, err = fmt.Fprintf(s.out, "counted to %d\n", args.To)
	return err
}

// fail writes its argument to both streams, and ends with the given exit code: 1 if that is invalid.
func fail(s streams) error {
	args, err := arguments[struct {
		Code           int
		Stdout, Stderr string
	}](s)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(s.out, args.Stdout); err != nil {
		return err
	}
	if _, err := io.WriteString(s.err, args.Stderr); err != nil {
		return err
	}
	if args.Code < 1 || args.Code > 255 {
		args.Code = exitFailed
	}
	return exitCode(args.Code)
}

// raise sends itself the signal of that number, SIGKILL by default, and fails if it survives it.
func raise(s streams) error {
	args, err := arguments[struct{ Number int }](s)
	if err != nil {
		return err
	}
	if args.Number == 0 {
		args.Number = int(syscall.SIGKILL)
	}
	if err := syscall.Kill(os.Getpid(), syscall.Signal(args.Number)); err != nil {
		return fmt.Errorf("sending the signal: %w", err)
	}
	time.Sleep(time.Second)
	return fmt.Errorf("signal %d did not end this process", args.Number)
}

// appendLine adds a line to a file, which it creates: its lines count how often a tool ran.
func appendLine(s streams) error {
	args, err := arguments[struct{ Path, Line string }](s)
	if err != nil {
		return err
	}
	if args.Path == "" || strings.ContainsAny(args.Line, "\r\n") {
		return errors.New("append takes a path and one line")
	}
	file, err := os.OpenFile(args.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the file: %w", err)
	}
	// One write, so that lines of tools that run at the same time do not mix.
	if _, err := file.WriteString(args.Line + "\n"); err != nil {
		file.Close()
		return fmt.Errorf("appending the line: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("closing the file: %w", err)
	}
	_, err = fmt.Fprintln(s.out, "appended")
	return err
}

// printEnv prints the environment that the runtime sets, as a JSON object.
func printEnv(s streams) error {
	return writeEnv(s.out, os.Environ())
}

func writeEnv(out io.Writer, environment []string) error {
	found := map[string]string{}
	for _, entry := range environment {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "CAPSTAN_") || name == "TRACEPARENT" {
			found[name] = value
		}
	}
	// Encoding sorts a map's keys.
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(found)
}

// useMemory allocates and touches that much memory, to see what happens beyond a container's limit.
func useMemory(s streams) error {
	args, err := arguments[struct{ MiB int }](s)
	if err != nil {
		return err
	}
	const mib, page = 1 << 20, 4096
	var held [][]byte
	for range args.MiB {
		block := make([]byte, mib)
		for i := 0; i < mib; i += page {
			block[i] = 1
		}
		held = append(held, block)
	}
	_, err = fmt.Fprintf(s.out, "%d MiB touched\n", len(held))
	return err
}

const backgroundTool = "write-in-background"

const backgroundInterval = 200 * time.Millisecond

// fork ends at once, and leaves a child that holds the standard error output open and writes to it for that many
// seconds: 10 by default. With detach the child leaves the session too, out of reach of a signal to the process group.
func fork(s streams) error {
	args, err := arguments[struct {
		Seconds float64
		Detach  bool
	}](s)
	if err != nil {
		return err
	}
	if args.Seconds == 0 {
		args.Seconds = 10
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	child := exec.Command(self, backgroundTool)
	child.Args[0] = "toolbox"
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%v", backgroundSeconds, args.Seconds))
	child.Stderr = s.err
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: args.Detach}
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting the child: %w", err)
	}
	_, err = fmt.Fprintf(s.out, "left process %d behind\n", child.Process.Pid)
	return err
}

const backgroundSeconds = "TOOLBOX_BACKGROUND_SECONDS"

func writeInBackground(s streams) error {
	life, err := time.ParseDuration(os.Getenv(backgroundSeconds) + "s")
	if err != nil {
		return fmt.Errorf("reading how long to write: %w", err)
	}
	ticker := time.NewTicker(backgroundInterval)
	defer ticker.Stop()
	end := time.After(life)
	for n := 1; ; n++ {
		if _, err := fmt.Fprintf(s.err, "background line %d\n", n); err != nil {
			return err
		}
		select {
		case <-end:
			return nil
		case <-ticker.C:
		}
	}
}
