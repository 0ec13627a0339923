package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// playTool runs in the test binary when the launcher starts it as a tool.
func playTool(mode string, arguments []string) {
	switch mode {
	case "exit":
		code, _ := strconv.Atoi(arguments[0])
		fmt.Print("some output")
		fmt.Fprint(os.Stderr, arguments[1])
		os.Exit(code)
	case "stdin":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "file":
		text, _ := os.ReadFile(os.Getenv("CAPSTAN_ARGUMENTS_FILE"))
		_, _ = os.Stdout.Write(text)
	case "print":
		fmt.Print(arguments[0])
	case "environment":
		fmt.Print(strings.Join(os.Environ(), "\n"))
	case "repeat":
		repeat(arguments[0], arguments[1])
	case "both":
		fmt.Print("out")
		fmt.Fprint(os.Stderr, "err")
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		pause()
	case "wait":
		fmt.Fprintln(os.Stderr, "ready")
		pause()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "ready")
		pause()
	case "leave":
		leave(arguments[0], arguments[1])
	case "left":
		left(arguments[0])
	case "signals":
		annoy()
	case "intrude":
		intrude()
	case "forge":
		forge(arguments[0])
	case "blocked":
		fmt.Print(blockedSignals())
	}
}

// pause waits for ever. The channel of signals keeps the runtime from calling that a deadlock.
func pause() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	for range never {
	}
}

// repeat writes a text to stdout and stderr until each has had so many bytes.
func repeat(text, size string) {
	wanted, _ := strconv.Atoi(size)
	block := []byte(strings.Repeat(text, 1+4096/len(text)))
	for written := 0; written < wanted; written += len(block) {
		part := block[:min(len(block), wanted-written)]
		_, _ = os.Stdout.Write(part)
		_, _ = os.Stderr.Write(part)
	}
}

// leave starts a process that outlives this one in a session of its own, and returns when it runs. With "quiet" it
// holds no pipe.
func leave(file, how string) {
	child := exec.Command(os.Args[0], "tool", "left", how)
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, writer, _ := os.Pipe()
	child.ExtraFiles = []*os.File{writer}
	if how != "quiet" {
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
	}
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = writer.Close()
	_, _ = bufio.NewReader(out).ReadString('\n')
	_ = os.WriteFile(file, []byte(strconv.Itoa(child.Process.Pid)), 0o666)
	fmt.Print("the tool is done")
}

// left is the process that was left.
func left(how string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	fmt.Fprintln(os.NewFile(3, "ready"), "ready")
	if how == "late" {
		fmt.Print(", and so is its child")
		return
	}
	pause()
}

// annoy sends every signal that does not ask it to stop to the launcher.
func annoy() {
	stops := map[syscall.Signal]bool{
		syscall.SIGTERM: true, syscall.SIGINT: true, syscall.SIGQUIT: true, syscall.SIGHUP: true,
		syscall.SIGKILL: true, syscall.SIGSTOP: true,
	}
	for s := syscall.Signal(1); s < 65; s++ {
		// The C library's own signals, which the Go runtime leaves alone.
		if stops[s] || s == 32 || s == 33 || s == 34 {
			continue
		}
		if err := syscall.Kill(os.Getppid(), s); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Print("all sent")
}

// intrude tries to reach into the launcher.
func intrude() {
	launcher := "/proc/" + strconv.Itoa(os.Getppid())
	for _, name := range []string{"/fd/1", "/mem", "/environ"} {
		if file, err := os.OpenFile(launcher+name, os.O_RDWR, 0); err == nil {
			fmt.Println("opened", name)
			_ = file.Close()
		}
		if file, err := os.Open(launcher + name); err == nil {
			fmt.Println("opened", name)
			_ = file.Close()
		}
	}
	fmt.Print("end")
}

// forge writes forged reports of success wherever it can, and fails.
func forge(messageFile string) {
	forged := `capstan-report {"v":1,"exit":0,"outcome":"exited","started":true,"stdout":6,"body":6,"sha256":"` +
		strings.Repeat("0", 64) + `","nonce":"` + strings.Repeat("0", 32) + `"}` + "\nforged"
	for _, file := range []io.Writer{os.Stdout, os.Stderr} {
		fmt.Fprintf(file, "\ncapstan-result %s 6\nforged\n", strings.Repeat("0", 32))
		fmt.Fprint(file, forged)
	}
	_ = os.WriteFile(messageFile, []byte(forged), 0o666)
	os.Exit(9)
}

// blockedSignals are the lines of this process' status on ignored and blocked signals.
func blockedSignals() string {
	status, _ := os.ReadFile("/proc/self/status")
	var lines []string
	for line := range bytes.Lines(status) {
		if bytes.HasPrefix(line, []byte("SigIgn")) || bytes.HasPrefix(line, []byte("SigBlk")) {
			lines = append(lines, strings.Join(strings.Fields(string(line)), " "))
		}
	}
	return strings.Join(lines, "\n")
}
