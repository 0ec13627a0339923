package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// lingering is how long the remaining processes of the tool may continue writing after it has exited.
	lingering = time.Second
	// stopGrace is how long the tool may take to end when the pod is stopped. The pod's own grace period is two seconds.
	stopGrace = time.Second
	// killGrace is how long the launcher waits for killed processes.
	killGrace = 500 * time.Millisecond
)

// run runs the command and reports its end. It returns the launcher's exit code.
func run(command, environment []string, log io.Writer) int {
	begin := time.Now()
	stop := catchSignals()
	conf, err := readConfig(environment)
	if conf.messageFile == "" {
		return complain(err)
	}
	var report result.Report
	if err != nil {
		report = notStarted(&startError{result.ExitLauncher, err})
	} else {
		report = execute(conf, command, environment, log, begin, stop)
	}
	if err := deliver(report, conf.messageFile, log); err != nil {
		return complain(err)
	}
	return report.Exit
}

// deliver writes the frame first, because only the message makes it count. A reader reports a frame that could not be
// written as missing.
func deliver(report result.Report, messageFile string, log io.Writer) error {
	message, frame := report.Encode(result.NewNonce())
	if len(frame) > 0 {
		_, _ = log.Write(frame)
	}
	if err := os.WriteFile(messageFile, message, 0o644); err != nil {
		return fmt.Errorf("writing the termination message: %w", err)
	}
	return nil
}

// execute starts the command unless that was done before, and waits for its end.
func execute(
	conf config,
	command, environment []string,
	log io.Writer,
	begin time.Time,
	stop <-chan os.Signal,
) result.Report {
	if err := harden(); err != nil {
		return notStarted(&startError{result.ExitLauncher, err})
	}
	first, err := claim(conf.markFile)
	if err != nil {
		return notStarted(&startError{result.ExitLauncher, err})
	}
	if !first {
		return result.Report{
			Outcome: result.Refused, Exit: result.ExitLauncher,
			Stderr: "The tool was already started in this pod. It was not started again.",
		}
	}
	stdin, arguments, err := openArguments(conf.argumentsFile)
	if err != nil {
		return notStarted(&startError{result.ExitLauncher, err})
	}
	defer stdin.Close()
	files, err := openWorkspace(conf)
	if err != nil {
		return notStarted(&startError{result.ExitLauncher, err})
	}
	out, err := newOutput(conf.keepOutput)
	if err != nil {
		return notStarted(&startError{result.ExitLauncher, err})
	}
	select {
	case <-stop:
		return result.Report{Outcome: result.Terminated, Exit: result.ExitTerminated}
	default:
	}
	streams := []uintptr{stdin.Fd(), uintptr(out.stdout.writer), uintptr(out.stderr.writer)}
	tool, failure := startProcess(command, toolEnvironment(environment, arguments, conf.scalars), streams)
	if failure != nil {
		return notStarted(failure)
	}
	out.collect(log)
	report := await(tool, out, begin.Add(conf.timeout), stop)
	tool.killAll(time.Now().Add(killGrace))
	out.finish(time.Now().Add(killGrace))
	return complete(report, out, files)
}

// claim creates the mark of the tool's start. It is on disk before the tool runs, so that it survives even a power
// failure of the node. first is false if the mark existed already.
func claim(path string) (first bool, err error) {
	mark, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("creating the start mark: %w", err)
	}
	defer mark.Close()
	if err := mark.Sync(); err != nil {
		return false, fmt.Errorf("writing the start mark: %w", err)
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return false, fmt.Errorf("writing the start mark: %w", err)
	}
	defer directory.Close()
	if err := directory.Sync(); err != nil {
		return false, fmt.Errorf("writing the start mark: %w", err)
	}
	return true, nil
}

// openArguments opens the arguments as the tool's stdin, and reads them.
func openArguments(path string) (*os.File, []byte, error) {
	arguments, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the arguments: %w", err)
	}
	stdin, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the arguments: %w", err)
	}
	return stdin, arguments, nil
}

// await waits until the tool has ended or must end, and returns why. The tool, and its remaining processes, may still
// run afterwards.
func await(tool *process, out *output, deadline time.Time, stop <-chan os.Signal) result.Report {
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	select {
	case status := <-tool.ended:
		return linger(status, out, stop)
	case <-timeout.C:
		return unlessEnded(tool, result.Report{Outcome: result.TimedOut, Exit: result.ExitTimeout, Started: true})
	case received := <-stop:
		report := unlessEnded(tool, result.Report{Outcome: result.Terminated, Exit: result.ExitTerminated, Started: true})
		if report.Outcome == result.Terminated {
			giveGrace(tool, received)
		}
		return report
	}
}

// linger gives the processes that an ended tool left behind a moment to write the rest of its output.
func linger(status syscall.WaitStatus, out *output, stop <-chan os.Signal) result.Report {
	limit := time.NewTimer(lingering)
	defer limit.Stop()
	select {
	case <-out.ended():
	case <-limit.C:
	case <-stop:
	}
	return ended(status)
}

// unlessEnded is the report of a tool that must end, unless it has ended by itself at the same moment.
func unlessEnded(tool *process, report result.Report) result.Report {
	select {
	case status := <-tool.ended:
		return ended(status)
	default:
		return report
	}
}

// giveGrace passes on the signal and waits a moment for the tool to end.
func giveGrace(tool *process, received os.Signal) {
	if s, ok := received.(syscall.Signal); ok {
		tool.forward(s)
	}
	limit := time.NewTimer(stopGrace)
	defer limit.Stop()
	select {
	case <-tool.ended:
	case <-limit.C:
	}
}

// ended is the report of a tool that ended by itself.
func ended(status syscall.WaitStatus) result.Report {
	if status.Signaled() {
		return result.Report{Outcome: result.Signalled, Exit: 128 + int(status.Signal()), Started: true}
	}
	return result.Report{Outcome: result.Exited, Exit: status.ExitStatus(), Started: true}
}

// complete adds the tool's output and its files to its report.
func complete(report result.Report, out *output, files *workspace) result.Report {
	stdout, total := out.out.content()
	report.StdoutBytes = total
	report.Stderr = out.err.String()
	if !report.Succeeded() {
		return report
	}
	report.Result, report.Cut = result.Cut(stdout, total)
	if files != nil {
		report.Files = files.collect()
	}
	if report.Cut && out.whole {
		if report.Files == nil {
			report.Files = &result.Files{}
		}
		report.Files.Output = stdout
	}
	return report
}

// notStarted is the report of a tool that could not be started.
func notStarted(err *startError) result.Report {
	return result.Report{Outcome: result.StartError, Exit: err.exit, Stderr: err.Error()}
}
