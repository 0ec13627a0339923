package cli_test

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

// user runs the program with a kubeconfig in a namespace.
type user struct {
	kubeconfig, namespace string
}

func (u user) command(ctx context.Context, arguments ...string) *exec.Cmd {
	own := append([]string{"--kubeconfig", u.kubeconfig, "-n", u.namespace}, arguments...)
	command := exec.CommandContext(ctx, binary, own...)
	command.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	command.Cancel = func() error { return command.Process.Signal(os.Kill) }
	return command
}

// result is what a run of the program has printed.
type result struct {
	out, err string
	code     int
}

// run runs the program without a terminal.
func (u user) run(ctx context.Context, arguments ...string) result {
	GinkgoHelper()
	return u.pipe(ctx, "", arguments...)
}

// pipe runs the program without a terminal, with an input.
func (u user) pipe(ctx context.Context, input string, arguments ...string) result {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := u.command(ctx, arguments...)
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
	return result{out: out.String(), err: errs.String(), code: code}
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

// terminal is a run of the program under a pseudo-terminal.
type terminal struct {
	shown *gbytes.Buffer
	file  *os.File
	ended chan int
}

// Buffer implements gbytes.BufferProvider.
func (t *terminal) Buffer() *gbytes.Buffer { return t.shown }

// open runs the program under a pseudo-terminal.
func (u user) open(ctx context.Context, arguments ...string) *terminal {
	GinkgoHelper()
	command := u.command(context.WithoutCancel(ctx), arguments...)
	file, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: 120})
	Expect(err).NotTo(HaveOccurred())
	t := &terminal{shown: gbytes.NewBuffer(), file: file, ended: make(chan int, 1)}
	go func() {
		defer GinkgoRecover()
		// Reading a terminal ends with an error when the program ends.
		_, _ = io.Copy(t.shown, file)
		t.ended <- exitCode(command.Wait())
	}()
	DeferCleanup(func() {
		_ = command.Process.Signal(os.Kill)
		_ = file.Close()
		GinkgoWriter.Printf("$ kubectl capstan %s\n%s\n", strings.Join(arguments, " "), t.text())
	})
	return t
}

// write types a text.
func (t *terminal) write(text string) {
	GinkgoHelper()
	_, err := t.file.WriteString(text)
	Expect(err).NotTo(HaveOccurred())
}

// interrupt presses Ctrl-C.
func (t *terminal) interrupt() {
	GinkgoHelper()
	t.write("\x03")
}

// code waits for the end of the program and returns its exit code.
func (t *terminal) code() int {
	GinkgoHelper()
	var code int
	Eventually(t.ended).Should(Receive(&code))
	return code
}

var colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// text is what the terminal has shown, without colors.
func (t *terminal) text() string {
	return strings.ReplaceAll(colors.ReplaceAllString(string(t.shown.Contents()), ""), "\r\n", "\n")
}
