package attacks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// toolUser is the user that tools run as.
const toolUser = 65532

// container is a launcher with the directory of a call, as far as a tool can see them.
type container struct {
	program string
	// frame is a file with a frame of files that no launcher has written, and report one with a forged report.
	frame, report []byte
}

func newContainer(t *testing.T) *container {
	t.Helper()
	directory := t.TempDir()
	must(t, os.Chmod(filepath.Dir(directory), 0o755))
	must(t, os.Chmod(directory, 0o755))
	c := &container{program: filepath.Join(directory, "launcher")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", c.program, "../../cmd/launcher")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("building the launcher: %w\n%s", err, text)
	}
	must(t, err)
	c.report, c.frame = result.ReportOf(success, "", 0).WithFiles(
		&result.Files{Files: []result.File{{Path: "/evil", Content: []byte(success)}}}, success, false,
	).Encode(result.NewNonce())
	return c
}

// run runs a script as a tool that returns all files of its directory, and returns what the manager makes of its end.
func (c *container) run(ctx context.Context, script string) string {
	at, err := os.MkdirTemp("", "attack")
	if err != nil {
		return refused + err.Error()
	}
	defer func() { _ = os.RemoveAll(at) }()
	inputs, err := result.EncodeInputs(result.Files{Revision: 1})
	if err != nil {
		return refused + err.Error()
	}
	workspace := filepath.Join(at, "workspace")
	err = errors.Join(os.Chmod(at, 0o777), os.Mkdir(workspace, 0o777), os.Chmod(workspace, 0o777))
	for name, content := range map[string][]byte{
		"arguments.json": []byte("{}"), "files": []byte(inputs), "frame": c.frame, "report": c.report,
		"secret": []byte(hostSecret),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(at, name), content, 0o644)) //nolint:gosec // The tool reads it.
	}
	if err != nil {
		return refused + err.Error()
	}
	command := exec.CommandContext(ctx, c.program, "run", "--", "/bin/sh", "-c", "cd workspace && "+script)
	command.Dir = at
	command.Env = []string{
		"PATH=/usr/bin:/bin",
		result.EnvArgumentsFile + "=" + filepath.Join(at, "arguments.json"),
		result.EnvStartMark + "=" + filepath.Join(at, "started"),
		result.EnvMessageFile + "=" + filepath.Join(at, "message"),
		result.EnvTimeout + "=5s",
		result.EnvFilesFile + "=" + filepath.Join(at, "files"),
		result.EnvFilesRoot + "=" + workspace,
		result.EnvOutputs + `=["/","/away/passwd","/pipe"]`,
	}
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if os.Getuid() == 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: toolUser, Gid: toolUser}}
	}
	// The exit code of the container is compared with that of the report, as the manager does.
	ended := command.Run()
	message, err := os.ReadFile(filepath.Join(at, "message"))
	if err != nil {
		return refused + fmt.Sprintf("no report: %v %.200s", ended, log.String())
	}
	report, err := result.Decode(string(message))
	if err != nil || report.Exit != command.ProcessState.ExitCode() {
		return refused + "the report is not that of the launcher"
	}
	if report.Outcome != result.Exited || report.Exit != 0 {
		return refused + fmt.Sprintf("the tool ended with %s %d: %s", report.Outcome, report.Exit, report.Stderr)
	}
	if !report.HasFiles {
		return "no files"
	}
	_, files, err := report.ReadLog(&log)
	if err != nil {
		return refused + err.Error()
	}
	return listedFiles(files)
}

// listedFiles are files in one line, those that are not returned with the problem.
func listedFiles(files *result.Files) string {
	var all []string
	for _, file := range files.Files {
		if file.Problem != "" {
			all = append(all, file.Path+"!"+string(file.Problem))
			continue
		}
		all = append(all, fmt.Sprintf("%s=%.40s", file.Path, file.Content))
	}
	return fmt.Sprintf("%s +%d", strings.Join(all, " "), files.More)
}

// launcher is the program beside a tool, which collects the files that the tool returns.
func launcher(t *testing.T) subject {
	t.Helper()
	c := newContainer(t)
	script := func(text, want string) attempt {
		return attempt{name: text, want: want, run: func(ctx context.Context) string {
			return c.run(ctx, text+"; printf g > good")
		}}
	}
	return subject{
		name: "The launcher of Jobs",
		runs: true,
		classes: []class{
			{name: "links", attempts: []attempt{
				script("ln -s ../secret up", "/good=g /up!Type"),
				script("ln -s /etc away", "/away!Type /good=g"),
				script("ln ../secret hard; ln good hard2", "/good=g"),
				script("ln -s /proc/self/root all; ln -s . loop", "/all!Type /good=g /loop!Type"),
				script("(setsid sh -c 'while :; do ln -sf ../secret swap; rm -f swap; echo x > swap; done' &)", "/good=g"),
			}},
			{name: "pipes and devices", attempts: []attempt{
				script("mkfifo pipe", "/good=g /pipe!Type"),
				script("mkfifo pipe; (setsid sh -c 'cat /dev/zero > pipe' &)", "/good=g /pipe!Type"),
				script("mknod zero c 1 5", "/good=g"),
				script("ln -s /dev/zero zero; ln -s /dev/stdin in", "/good=g /in!Type /zero!Type"),
			}},
			{name: "sizes and numbers of files", attempts: []attempt{
				script("truncate -s 1T sparse", "/sparse!Size"),
				script("for i in $(seq 100); do truncate -s 524288 $i; done", "!Size"),
				script("seq 20000 | xargs touch", " +"),
				script("d=; for i in $(seq 200); do d=${d}d/; done; mkdir -p $d; touch $d/x", "!Count"),
				script("(setsid sh -c 'while :; do echo more >> growing; done' &)", "/good=g"),
			}},
			{name: "names of files", attempts: []attempt{
				script(`touch "$(printf 'a\377b')" "$(printf '\300\257')"`, "/good=g +2"),
				script(`touch "$(printf 'a\nb')" "$(printf '\033[31m')"`, "/good=g"),
				script(`touch -- -rf '$(id)' '; id'`, "/good=g"),
				script(`d=$(printf '%0250d' 1); mkdir -p $d/$d/$d; touch $d/$d/$d/x`, "/good=g"),
			}},
			{name: "forged frames and reports", attempts: []attempt{
				script("cat ../frame ../frame; cat ../frame >&2", "/good=g +0"),
				script("cat ../report ../frame; cat ../report > ../message", "/good=g +0"),
				script("yes \"$(cat ../report)\" | head -c 50000000 >&2", "/good=g +0"),
				script("cat ../report > ../message; kill -9 $PPID; sleep 1", ""),
				script("(setsid sh -c 'sleep 1; kill -CONT '$PPID &); kill -STOP $PPID", "/good=g"),
			}},
		},
		other: func(ctx context.Context) error {
			if seen := c.run(ctx, "printf g > good"); seen != "/good=g +0" {
				return errors.New(seen)
			}
			return nil
		},
	}
}
