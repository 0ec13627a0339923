// Package terminal runs kubectl-capstan as a person does: under a pseudo-terminal, or in a script without one.
package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// User runs the program with a kubeconfig in a namespace.
type User struct {
	// Binary is the path of the program.
	Binary                string
	Kubeconfig, Namespace string
}

// Command is the program with arguments.
func (u User) Command(ctx context.Context, arguments ...string) *exec.Cmd {
	own := append([]string{"--kubeconfig", u.Kubeconfig, "-n", u.Namespace}, arguments...)
	command := exec.CommandContext(ctx, u.Binary, own...)
	command.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	command.Cancel = func() error { return command.Process.Signal(os.Kill) }
	return command
}

// Result is what a run of the program has printed.
type Result struct {
	Out, Err string
	Code     int
}

// Run runs the program without a terminal.
func (u User) Run(ctx context.Context, arguments ...string) Result {
	GinkgoHelper()
	return u.Pipe(ctx, "", arguments...)
}

// Pipe runs the program without a terminal, with an input.
func (u User) Pipe(ctx context.Context, input string, arguments ...string) Result {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := u.Command(ctx, arguments...)
	var out, errs bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &errs
	code := exitCode(command.Run())
	GinkgoWriter.Printf(
		"$ kubectl capstan %s\n%s%s[%d]\n",
		strings.Join(arguments, " "),
		out.String(),
		errs.String(),
		code,
	)
	return Result{Out: out.String(), Err: errs.String(), Code: code}
}

func exitCode(err error) int {
	GinkgoHelper()
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	Expect(errors.As(err, &exit)).To(BeTrue(), "%v", err)
	return exit.ExitCode()
}

// Terminal is a run of the program under a pseudo-terminal.
type Terminal struct {
	shown *gbytes.Buffer
	file  *os.File
	ended chan int
}

// Buffer implements gbytes.BufferProvider.
func (t *Terminal) Buffer() *gbytes.Buffer { return t.shown }

// Open runs the program under a pseudo-terminal.
func (u User) Open(ctx context.Context, arguments ...string) *Terminal {
	GinkgoHelper()
	command := u.Command(context.WithoutCancel(ctx), arguments...)
	file, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 120})
	Expect(err).NotTo(HaveOccurred())
	t := &Terminal{shown: gbytes.NewBuffer(), file: file, ended: make(chan int, 1)}
	go func() {
		defer GinkgoRecover()
		// Reading a terminal ends with an error when the program ends.
		_, _ = io.Copy(t.shown, file)
		t.ended <- exitCode(command.Wait())
	}()
	DeferCleanup(func() {
		_ = command.Process.Signal(os.Kill)
		_ = file.Close()
		GinkgoWriter.Printf("$ kubectl capstan %s\n%s\n", strings.Join(arguments, " "), t.Text())
	})
	return t
}

// Type types a text.
func (t *Terminal) Type(text string) {
	GinkgoHelper()
	_, err := t.file.WriteString(text)
	Expect(err).NotTo(HaveOccurred())
}

// Interrupt presses Ctrl-C.
func (t *Terminal) Interrupt() {
	GinkgoHelper()
	t.Type("\x03")
}

// Code waits for the end of the program and returns its exit code.
func (t *Terminal) Code() int {
	GinkgoHelper()
	var code int
	Eventually(t.ended).Should(Receive(&code))
	return code
}

var colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Text is what the terminal has shown, without colors.
func (t *Terminal) Text() string {
	return strings.ReplaceAll(colors.ReplaceAllString(string(t.shown.Contents()), ""), "\r\n", "\n")
}
