package bash

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/testing/memory"
	"github.com/capstan-dev/capstan/internal/testing/ratio"
)

// argument is the argument with which this test is a process for scripts.
const argument = "run-one-script"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == argument {
		os.Exit(runner.Main(os.Stdin, os.Stdout, shell.Program))
	}
	os.Exit(m.Run())
}

func newPool(t testing.TB) *runner.Pool {
	t.Helper()
	pool := runner.NewPool(runner.Options{Command: []string{"/proc/self/exe", argument}})
	t.Cleanup(pool.Close)
	return pool
}

func newExecutor(t testing.TB) *Executor {
	t.Helper()
	return &Executor{Processes: Confined{newPool(t)}}
}

func call(command string, env ...hook.Variable) hook.Call {
	spec := &hook.Spec{ID: "session:x/y", Event: hook.PreToolUse, Bash: &hook.Bash{Command: command, Env: env}}
	return hook.Call{
		Spec:       spec,
		Tool:       "t",
		ToolCallID: "1-0",
		Key:        "key",
		Identity:   hook.Identity{Namespace: "ns", Session: "s1", Turn: "t1"},
		Payload: []byte(
			`{"event":"pre_tool_use","data":{"tool_name":"t","arguments":{"path":"/etc/passwd","n":1234567890123456789}}}`,
		),
	}
}

// result runs a script and returns its standard output, which a script wraps as the reason of a block.
func result(t *testing.T, e *Executor, command string) string {
	t.Helper()
	out, err := e.Processes.Run(t.Context(), "ns", hook.DefaultTimeout, request(call(command)), nil)
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%s%s[%d]", out.Stdout, out.Stderr, out.Exit)
}

// Rules: HOOK-14, VEC-15.
func TestAScriptDecides(t *testing.T) {
	e := newExecutor(t)
	for name, test := range map[string]struct {
		command string
		want    hook.Outcome
	}{
		"by its exit code": {`echo no >&2; exit 3`, hook.Outcome{Decision: hook.Block, Reason: "no"}},
		"by doing nothing": {`:`, hook.Outcome{Decision: hook.Allow}},
		"by JSON": {
			`echo '{"decision":"block","reason":"r"}'`,
			hook.Outcome{Decision: hook.Block, Reason: "r"},
		},
		"by JSON that jq builds": {
			`jq -n '{decision:"mutate",patch:{a:1}}'`,
			hook.Outcome{Decision: hook.Mutate, Patch: json.RawMessage(`{"a":1}`)},
		},
		"by the payload": {
			`p=$(jq -r .data.arguments.path "$CAPSTAN_HOOK_PAYLOAD_PATH"); [[ $p == /etc/* ]] && { echo "not $p" >&2; exit 1; }`,
			hook.Outcome{Decision: hook.Block, Reason: "not /etc/passwd"},
		},
		"by a pattern": {
			`if echo "$EVERRUNS_HOOK_PAYLOAD_JSON" | grep -qE 'etc/[a-z]+'; then exit 1; fi`,
			hook.Outcome{Decision: hook.Block, Reason: "hook exited non-zero"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.Run(t.Context(), call(test.command))
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
				t.Errorf("it yields %q, want %q", got, test.want)
			}
		})
	}
}

// Rules: HOOK-12.
func TestTheEnvironmentOfAScript(t *testing.T) {
	e := newExecutor(t)
	c := call(`echo "$HOME $SHELL $WORKSPACE $PWD $CAPSTAN_HOOK_EVENT $EVERRUNS_HOOK_ID $EVERRUNS_HOOK_SESSION_ID \
$EVERRUNS_HOOK_TURN_ID $EVERRUNS_HOOK_TOOL_NAME $CAPSTAN_HOOK_TOOL_CALL_ID $OWN" >&2; ls .hooks >&2; exit 1`,
		hook.Variable{Name: "OWN", Value: "1"}, hook.Variable{Name: "EVERRUNS_HOOK_ID", Value: "mine"})
	got := e.Run(t.Context(), c).Reason
	first, second, _ := strings.Cut(got, "\n")
	if want := "/home/agent /bin/bash /workspace /workspace pre_tool_use mine s1 t1 t 1-0 1"; first != want {
		t.Errorf("the environment is %s, want %s", first, want)
	}
	if !strings.HasPrefix(second, "session_x_y-") || !strings.HasSuffix(second, ".json") {
		t.Errorf("the payload is in %s", second)
	}
}

func TestCommands(t *testing.T) {
	e := newExecutor(t)
	for command, want := range map[string]string{
		`printf 'b\na\na\n' | sort | uniq -c | tr -d ' '`:                                  "2a\n1b\n[0]",
		`printf '3\n10\n' | sort -rn | head -n 1`:                                          "10\n[0]",
		`printf 'a:b:c\n' | cut -d : -f 1,3`:                                               "a:c\n[0]",
		`printf 'one two\n' | wc -w`:                                                       "2\n[0]",
		`echo Hello | tr a-z A-Z`:                                                          "HELLO\n[0]",
		`echo hello | base64 | base64 -d`:                                                  "hello\n[0]",
		`echo -n abc | sha256sum | head -c 6`:                                              "ba7816[0]",
		`basename /a/b.txt .txt; dirname /a/b`:                                             "b\n/a\n[0]",
		`mkdir -p a/b; echo x > a/b/c; cp a/b/c a/d; mv a/b/c e; ls a; cat e; rm -r a; ls`: "b\nd\nx\ne\n[0]",
		`echo '{"a":[1,2]}' | jq -c '.a | map(. * 2)'`:                                     "[2,4]\n[0]",
		`echo '{"n":1234567890123456789}' | jq .n`:                                         "1234567890123456789\n[0]",
		`jq -e -n false`:                                                                   "false\n[1]",
		`f() { echo "$1"; }; for x in 1 2; do f $x; done`:                                  "1\n2\n[0]",
		`cat <<< "here"; cat <<EOF
doc
EOF`: "here\ndoc\n[0]",
		`echo a | tee b >/dev/null; [ -f b ] && [ -r b ] && [ ! -x b ] && cat b`: "a\n[0]",
		`printf 'x\ny\n' | grep -v x; echo abc | grep -o b; echo q | grep -c z`:  "y\nb\n0\n[1]",
		`set -e; false; echo on`:                                    "[1]",
		`echo {a,b}; x=(1 2); echo ${#x[@]}; echo $((2**10))`:       "a b\n2\n1024\n[0]",
		`touch a1 a2; echo a*`:                                      "a1 a2\n[0]",
		`. ./x.sh`:                                                  "source: open /workspace/x.sh: file does not exist\n[1]",
		`echo 'echo lib' > lib.sh; . ./lib.sh`:                      "lib\n[0]",
		`(exit 7); echo $?`:                                         "7\n[0]",
		`sleep 0.01; date +%Y | grep -qE '^20[0-9]{2}$' && echo ok`: "ok\n[0]",
		`head -c 2 <<< abc; tail -n 1 <<< $'a\nb'`:                  "abb\n[0]",
		`printenv HOME; env | grep -c CAPSTAN_HOOK_EVENT=`:          "/home/agent\n1\n[0]",
	} {
		t.Run(command, func(t *testing.T) {
			if got := result(t, e, command); got != want {
				t.Errorf("it yields %q, want %q", got, want)
			}
		})
	}
}

func TestTheProcessesAreShared(t *testing.T) {
	pool := newPool(t)
	e := &Executor{Processes: Confined{pool}}
	slow := make(chan hook.Outcome, 3)
	for range 3 {
		c := call(`sleep 1`)
		c.Identity.Namespace = "many"
		go func() { slow <- e.Run(t.Context(), c) }()
	}
	for pool.Places().Held().Places == 0 || pool.Places().Waiting() < 2 {
		if t.Context().Err() != nil {
			t.Fatal("nothing waits")
		}
		goruntime.Gosched()
	}
	begin := time.Now()
	c := call(`exit 1`)
	c.Identity.Namespace = "other"
	if outcome := e.Run(
		t.Context(),
		c,
	); outcome.Decision != hook.Block || len(slow) != 0 ||
		time.Since(begin) > time.Second {
		t.Errorf("another namespace waits: %q after %v", outcome, time.Since(begin))
	}
	for range 3 {
		if outcome := <-slow; outcome.Decision != hook.Allow {
			t.Errorf("waiting counts as time of the script: %q", outcome)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if outcome := e.Run(ctx, call(`exit 1`)); outcome.Decision != hook.Failed {
		t.Errorf("after the end of its context it yields %q", outcome)
	}
}

func TestAProcessThatCannotStartIsAnError(t *testing.T) {
	for _, command := range [][]string{{"/does/not/exist"}, {"/bin/true"}, {"/bin/echo", "not a message"}} {
		pool := runner.NewPool(runner.Options{Command: command})
		if outcome := (&Executor{Processes: Confined{pool}}).Run(t.Context(), call(`:`)); outcome.Decision != hook.Failed {
			t.Errorf("%v yields %q", command, outcome)
		}
		pool.Close()
	}
}

func TestAProcessThatIsNotUsedEnds(t *testing.T) {
	pool := runner.NewPool(runner.Options{Command: []string{"/proc/self/exe", argument}, Idle: time.Millisecond})
	defer pool.Close()
	e := &Executor{Processes: Confined{pool}}
	for range 3 {
		if outcome := e.Run(t.Context(), call(`exit 1`)); outcome.Decision != hook.Block {
			t.Errorf("it yields %q", outcome)
		}
		for len(memory.Children()) > 0 {
			if t.Context().Err() != nil {
				t.Fatal("processes remain")
			}
			goruntime.Gosched()
		}
	}
}

// BenchmarkScript compares a hook, for which a process is ready, with a program that does nothing and is started.
func BenchmarkScript(b *testing.B) {
	pool := newPool(b)
	e := &Executor{Processes: Confined{pool}}
	c := call(`[[ $CAPSTAN_HOOK_TOOL_NAME == x ]] && exit 1`)
	if outcome := e.Run(b.Context(), c); outcome.Decision != hook.Block {
		b.Fatal(outcome)
	}
	ratio.Report(b, func() error {
		for pool.Ready() == 0 && b.Context().Err() == nil {
			goruntime.Gosched()
		}
		return exec.CommandContext(b.Context(), "true").Run()
	}, func() error {
		if outcome := e.Run(b.Context(), c); outcome.Decision != hook.Block {
			return fmt.Errorf("the outcome is %+v", outcome)
		}
		return nil
	})
}
