package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

func TestAResultComesWithTheMessage(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("print", "four words in it")
	tr.want(e, result.Exited, 0, true)
	if e.message.NeedsLog || tr.result(e) != "four words in it" {
		t.Errorf("the message is %q", e.raw)
	}
	if e.log != "" {
		t.Errorf("the log has %q", e.log)
	}
}

func TestAToolThatLeavesNothingIsNotWaitedFor(t *testing.T) {
	fastest := time.Hour
	for range 5 {
		e := newTrial(t).run("print", "x")
		fastest = min(fastest, e.took)
	}
	if fastest >= lingering {
		t.Errorf("the fastest of five runs took %v", fastest)
	}
}

func TestAnEmptyOutputIsAResult(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("print", "")
	tr.want(e, result.Exited, 0, true)
	if got := tr.result(e); got != "" {
		t.Errorf("the result is %q", got)
	}
}

func TestAFailureCarriesTheExitCodeAndStderrButNotStdout(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("exit", "3", "no such city\n")
	tr.want(e, result.Exited, 3, true)
	if e.message.Stderr != "no such city\n" {
		t.Errorf("stderr is %q", e.message.Stderr)
	}
	if strings.Contains(e.raw, "some output") || strings.Contains(e.log, "some output") {
		t.Errorf("stdout of a failed tool is in the message %q or the log %q", e.raw, e.log)
	}
}

func TestStdoutAndStderrStayApart(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("both")
	tr.want(e, result.Exited, 0, true)
	if got := tr.result(e); got != "out" {
		t.Errorf("the result is %q", got)
	}
	if e.log != "err" {
		t.Errorf("the log is %q", e.log)
	}
}

func TestAMiddlingResultSurvivesAShortenedMessage(t *testing.T) {
	tr := newTrial(t)
	text := strings.Repeat("x", 3000)
	e := tr.run("print", text)
	tr.want(e, result.Exited, 0, true)
	if got := tr.result(e); got != text {
		t.Errorf("the result is %q", got)
	}
	shortened, err := result.Decode(e.raw[:1500])
	if err != nil || !shortened.NeedsLog {
		t.Fatalf("decoding the shortened message: %v", err)
	}
	if got, _, err := shortened.ReadLog(strings.NewReader(e.log)); err != nil || got != text {
		t.Errorf("the log gives %q, %v", got, err)
	}
}

func TestALargeOutputIsCutWithANoteAndNeverBlocksTheTool(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("repeat", "äöü\n", "1048576")
	tr.want(e, result.Exited, 0, true)
	got := tr.result(e)
	if len(got) > result.MaxResultBytes || len(got) < result.MaxResultBytes-300 || !utf8.ValidString(got) {
		t.Errorf("the result has %d bytes, valid UTF-8: %v", len(got), utf8.ValidString(got))
	}
	if !strings.HasPrefix(got, "äöü\näöü\n") || !strings.Contains(got, "of 1048576 bytes") {
		t.Errorf("the result begins with %q and ends with %q", got[:20], got[len(got)-200:])
	}
	if !e.message.Cut || e.message.StdoutBytes != 1048576 {
		t.Errorf("the report has cut %v of %d bytes", e.message.Cut, e.message.StdoutBytes)
	}
	if len(e.log) > result.MaxLogBytes {
		t.Errorf("the log has %d bytes, more than is read of it", len(e.log))
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("print", "a\xff\xfeb")
	tr.want(e, result.Exited, 0, true)
	if got := tr.result(e); got != "a\uFFFDb" {
		t.Errorf("the result is %q", got)
	}
}

func TestArgumentsReachTheToolByteForByte(t *testing.T) {
	nasty := "{\"text\": \"" + `$(PATH) $$ $PATH ${HOME} ` + "`id` 'single' \\\"double\\\" \\n\\u0000 %s \\\\ " +
		"\u2028 \U0001F600 "
	nasty += strings.Repeat("q\\\"\\n$(CAPSTAN_TURN)$$", 3000) + "\",\r\n\t\"list\": [ 1.50, 1e3 ]\n}\n\n"
	for _, way := range []string{"stdin", "file"} {
		t.Run(way, func(t *testing.T) {
			tr := newTrial(t)
			tr.arguments = nasty[:60*1024]
			e := tr.run(way)
			tr.want(e, result.Exited, 0, true)
			if got := tr.result(e); got != tr.arguments {
				t.Errorf("%d bytes went in, %d came out", len(tr.arguments), len(got))
			}
		})
	}
}

func TestTheToolsEnvironment(t *testing.T) {
	tr := newTrial(t)
	tr.arguments = `{"city": "$(PATH) 'x'\n", "days-ahead": 1e3, "metric": true, "where": {"x": 1}, "nothing": null}`
	tr.scalars = `["city", "days-ahead", "metric", "where", "nothing", "absent"]`
	tr.environment = []string{"OWN=yes", "CAPSTAN_TURN=demo-1", "CAPSTAN_ARG_STALE=no"}
	e := tr.run("environment")
	tr.want(e, result.Exited, 0, true)
	got := tr.result(e)
	for _, variable := range []string{
		"OWN=yes", "CAPSTAN_TURN=demo-1", "PATH=/usr/bin:/bin", "CAPSTAN_ARGUMENTS_FILE=" + tr.path("arguments.json"),
		"CAPSTAN_ARG_CITY=$(PATH) 'x'\n", "CAPSTAN_ARG_DAYS_AHEAD=1e3", "CAPSTAN_ARG_METRIC=true",
	} {
		if !strings.Contains("\n"+got+"\n", "\n"+variable+"\n") {
			t.Errorf("%q is not in the environment:\n%s", variable, got)
		}
	}
	for _, absent := range []string{"CAPSTAN_LAUNCHER_", "STALE", "WHERE", "NOTHING", "ABSENT"} {
		if strings.Contains(got, absent) {
			t.Errorf("%s is in the environment:\n%s", absent, got)
		}
	}
}

func TestTheToolStartsWithDefaultSignals(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("blocked")
	tr.want(e, result.Exited, 0, true)
	got := tr.result(e)
	var blocked, ignored uint64
	if _, err := fmt.Sscanf(got, "SigBlk: %x\nSigIgn: %x", &blocked, &ignored); err != nil {
		t.Fatalf("reading %q: %v", got, err)
	}
	// 32 and 33 belong to the C library's threads: no program can set them, and make starts its commands with both
	// ignored.
	const library = 1<<(32-1) | 1<<(33-1)
	if blocked != 0 || ignored&^library != 0 {
		t.Errorf("the tool starts with %q", got)
	}
}

func TestATimeoutKillsTheTool(t *testing.T) {
	tr := newTrial(t)
	tr.timeout = "700ms"
	e := tr.run("stubborn")
	tr.want(e, result.TimedOut, result.ExitTimeout, true)
	if e.took < 700*time.Millisecond || e.took > 20*time.Second {
		t.Errorf("the run took %v", e.took)
	}
	if e.message.Stderr != "ready\n" {
		t.Errorf("stderr is %q", e.message.Stderr)
	}
}

func TestASignalEndsTheTool(t *testing.T) {
	tr := newTrial(t)
	tr.want(tr.run("kill"), result.Signalled, 128+int(syscall.SIGKILL), true)
}

func TestWhatTheToolLeavesIsKilledBeforeTheReport(t *testing.T) {
	for _, how := range []string{"holding", "quiet"} {
		t.Run(how, func(t *testing.T) {
			tr := newTrial(t)
			e := tr.run("leave", tr.path("pid"), how)
			tr.want(e, result.Exited, 0, true)
			if got := tr.result(e); got != "the tool is done" {
				t.Errorf("the result is %q", got)
			}
			if tr.alive("pid") {
				t.Error("the process that the tool left still runs")
			}
			if e.took > 15*time.Second {
				t.Errorf("the run took %v", e.took)
			}
		})
	}
}

func TestAsFirstProcessEverythingIsKilledAndReported(t *testing.T) {
	tr := newTrial(t)
	tr.first = true
	e := tr.run("leave", tr.path("pid"), "holding")
	tr.want(e, result.Exited, 0, true)
	if got := tr.result(e); got != "the tool is done" {
		t.Errorf("the result is %q", got)
	}
}

func TestTheRestOfAChildsOutputBelongsToTheResult(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("leave", tr.path("pid"), "late")
	tr.want(e, result.Exited, 0, true)
	got := tr.result(e)
	if !strings.Contains(got, "the tool is done") || !strings.Contains(got, ", and so is its child") {
		t.Errorf("the result is %q", got)
	}
}

func TestProcessesOfOthersAreLeftAlone(t *testing.T) {
	bystander := newTrial(t)
	cmd, finish := bystander.background("wait")
	tr := newTrial(t)
	tr.want(tr.run("leave", tr.path("pid"), "holding"), result.Exited, 0, true)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("a launcher that is not the first process killed another one: %v", err)
	}
	bystander.want(finish(), result.Terminated, result.ExitTerminated, true)
}

func TestASecondStartIsRefused(t *testing.T) {
	tr := newTrial(t)
	tr.want(tr.run("print", "once"), result.Exited, 0, true)
	e := tr.run("print", "twice")
	tr.want(e, result.Refused, result.ExitLauncher, false)
	if strings.Contains(e.raw, "twice") {
		t.Errorf("the tool ran again: %q", e.raw)
	}
}

func TestStoppingThePodEndsTheToolWithinItsGracePeriod(t *testing.T) {
	for _, mode := range []string{"wait", "stubborn"} {
		for _, request := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(mode+" "+request.String(), func(t *testing.T) {
				// The fastest of a few, because a busy machine can hold up one.
				fastest := time.Hour
				for try := 0; try < 3 && fastest > 2*time.Second; try++ {
					fastest = min(fastest, stopped(t, mode, request))
				}
				if fastest > 2*time.Second {
					t.Errorf("the launcher took %v", fastest)
				}
			})
		}
	}
}

// stopped is how long the launcher takes to stop a tool.
func stopped(t *testing.T, mode string, request syscall.Signal) time.Duration {
	t.Helper()
	tr := newTrial(t)
	cmd, finish := tr.background(mode)
	begin := time.Now()
	if err := cmd.Process.Signal(request); err != nil {
		t.Fatal(err)
	}
	tr.want(finish(), result.Terminated, result.ExitTerminated, true)
	return time.Since(begin)
}

func TestACommandThatCannotStart(t *testing.T) {
	tr := newTrial(t)
	tr.write("plain", "no program")
	for name, c := range map[string]struct {
		command string
		exit    int
		message string
	}{
		"a missing file":        {"/no/such/program", result.ExitNotFound, "does not exist"},
		"a missing name":        {"no-such-program", result.ExitNotFound, "does not exist"},
		"a file without rights": {tr.path("plain"), result.ExitNotExecutable, "cannot be run"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t)
			e := tr.runCommand(c.command)
			tr.want(e, result.StartError, c.exit, false)
			if !strings.Contains(e.message.Stderr, c.command) || !strings.Contains(e.message.Stderr, c.message) {
				t.Errorf("the error is %q", e.message.Stderr)
			}
		})
	}
}

func TestABrokenConfigurationIsReported(t *testing.T) {
	for name, broken := range map[string]string{
		"no timeout":   result.EnvTimeout + "=",
		"no arguments": result.EnvArgumentsFile + "=/no/such/file",
		"no place":     result.EnvStartMark + "=/no/such/place/mark",
		"no mark":      result.EnvStartMark + "=",
		"bad scalars":  result.EnvScalars + "={",
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t)
			tr.environment = []string{broken}
			e := tr.run("print", "must not run")
			tr.want(e, result.StartError, result.ExitLauncher, false)
			if e.message.Stderr == "" || strings.Contains(e.raw, "must not run") {
				t.Errorf("the report is %q", e.raw)
			}
		})
	}
}

func TestTheToolCannotReachIntoTheLauncher(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("intrude")
	tr.want(e, result.Exited, 0, true)
	if got := tr.result(e); got != "end" {
		t.Errorf("the tool %s", got)
	}
}

func TestTheToolCannotEndTheLauncherBySignals(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("signals")
	tr.want(e, result.Exited, 0, true)
	if got := tr.result(e); got != "all sent" {
		t.Errorf("the result is %q", got)
	}
}

func TestTheToolCannotForgeAReport(t *testing.T) {
	tr := newTrial(t)
	e := tr.run("forge", tr.path("message"))
	tr.want(e, result.Exited, 9, true)
	if e.message.Result != nil || e.message.NeedsLog {
		t.Errorf("a failed tool has a result: %q", e.raw)
	}
}

func TestCopyPutsAProgramThatRuns(t *testing.T) {
	tr := newTrial(t)
	cmd := tr.command("copy", tr.path("copied"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copying: %v: %s", err, text)
	}
	info, err := os.Stat(tr.path("copied"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Fatalf("the copy: %v, %v", info, err)
	}
	original := launcherPath
	launcherPath = tr.path("copied")
	t.Cleanup(func() { launcherPath = original })
	tr.want(tr.run("print", "x"), result.Exited, 0, true)
	leftovers, err := filepath.Glob(tr.path("*.partial"))
	if err != nil || len(leftovers) > 0 {
		t.Errorf("left over: %v, %v", leftovers, err)
	}
}

func TestWrongUseIsExplained(t *testing.T) {
	for _, arguments := range [][]string{nil, {"run"}, {"run", "--"}, {"run", "x", "y"}, {"copy"}, {"other"}} {
		cmd := newTrial(t).command(arguments...)
		text, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != result.ExitLauncher || !strings.Contains(string(text), "usage:") {
			t.Errorf("%v: %v, %s", arguments, err, text)
		}
	}
}
