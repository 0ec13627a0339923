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
	"github.com/capstan-dev/capstan/internal/testing/ratio"
)

// runner is the argument with which this test is a process for scripts.
const runner = "run-one-script"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == runner {
		os.Exit(shell.Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func newPool(t testing.TB) *Pool {
	t.Helper()
	pool := NewPool(Options{Command: []string{"/proc/self/exe", runner}})
	t.Cleanup(pool.Close)
	return pool
}

func newExecutor(t testing.TB) *Executor {
	t.Helper()
	return &Executor{Processes: newPool(t)}
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

// Each attempt is refused, or ends in time and in memory. Each runs in a process of its own, so that the next one finds
// nothing of it.
// Rules: HOOK-13.
func TestNoScriptEscapes(t *testing.T) {
	e := newExecutor(t)
	files := newFiles(map[string]string{"/f": "content"})
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("the secret of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	for class, attempts := range map[string][]string{
		"files of the host": {
			`cat SECRET`, `cat < SECRET`, `echo "$(<SECRET)"`, `source SECRET`, `. SECRET`, `mapfile x < SECRET; echo "${x[@]}"`,
			`cp SECRET /workspace/x; cat x`, `grep -r secret SECRET`, `jq . SECRET`, `exec 3< SECRET; cat <&3`,
			`echo SECRETS*`, `ls SECRETDIR`, `cat /etc/passwd`, `[ -e SECRET ] && echo "the secret"`,
			`[[ -r SECRET ]] && echo "the secret"`, `command -v SECRET | grep -q . && echo the secret`,
			`jq -n 'input_filename, $ENV.HOSTNAME, (try import "a" as a; .)'`,
		},
		"parents": {
			`cat ../../../../SECRET`,
			`cd ..; cd ..; cd ..; cat SECRET`,
			`cat /workspace/../SECRET`,
			`cd -P /; cat SECRET`,
			`pwd -P`,
		},
		"links": {
			`ln -s SECRET x; cat x`,
			`cp -s SECRET x; cat x`,
			`readlink SECRET`,
			`mv SECRET x; cat x`,
			`cat /dev/fd/0 /proc/self/fd/0`,
		},
		"the kernel": {
			`cat /proc/self/environ`,
			`cat /proc/1/environ`,
			`echo /proc/*`,
			`cat /sys/fs/cgroup/memory.max`,
			`echo x > /proc/self/oom_score_adj`,
			`cat /dev/zero | head -c 3`,
			`cat /dev/mem`,
			`ls /proc/self/fd`,
			`cat /var/run/secrets/kubernetes.io/serviceaccount/token`,
		},
		"other programs": {
			`/bin/sh -c 'cat SECRET'`,
			`exec /bin/cat SECRET`,
			`sh -c id`,
			`busybox cat SECRET`,
			`/proc/self/exe run`,
			`command /bin/ls /`,
			`PATH=/bin:/usr/bin id`,
			`builtin exec /usr/bin/id`,
			`nohup id &`,
			`kill -9 1; kill -9 $PPID`,
			`echo '#!/bin/cat' > x; ./x`,
		},
		"processes and pipes of the host": {
			`cat <(echo the secret)`,
			`echo x > >(cat)`,
			`TMPDIR=/tmp; cat <(echo the secret)`,
			`echo ~root`,
			`mkfifo x`,
			`coproc cat`,
		},
		"the network": {
			`cat < /dev/tcp/127.0.0.1/80`, `exec 3<>/dev/tcp/10.96.0.1/443; echo hi >&3; cat <&3`, `cat < /dev/udp/1.1.1.1/53`,
			`curl http://169.254.169.254/`, `wget -O- http://127.0.0.1`, `nc 127.0.0.1 1`,
		},
		"writing elsewhere": {
			`echo x > /etc/x`,
			`echo x > SECRET`,
			`mkdir /x`,
			`rm SECRET`,
			`rm -rf /`,
			`touch /x`,
			`mv /workspace/f /f`,
			`echo x >> /dev/full`,
		},
		"endless output": {
			`while :; do echo yes; done`,
			`printf '%070000d' 0`,
			`cat /dev/zero`,
			`x=a; while [ ${#x} -lt 40000 ]; do x=$x$x; done; echo $x$x >&2`,
			`for ((;;)); do printf x; done`,
		},
		"endless loops": {
			`while :; do :; done`,
			`for ((;;)); do ((x++)); done`,
			`until false; do x=1; done`,
			`eval 'while ((1)); do ((x++)); done'`,
			`for x in {1..100000000}; do y=1; done`,
			`while ((1)); do x=1; done`,
			`sleep 3000`,
			`read x`,
			`wait; trap 'while :; do :; done' EXIT`,
			`jq -n '[range(1e12)] | length'`, `jq -n 'def f: f; f'`, `select x in a b; do :; done`,
		},
		"recursion": {
			`f() { f; }; f`,
			`f() { f | f & }; f`,
			`:(){ :|:& };:`,
			`f() { (f); }; f`,
			`f() { x=$(f); }; f`,
			`eval "$(cat <<< 'eval "$BASH_COMMAND"')"`,
			`x='echo $(eval "$x")'; eval "$x"`, `echo '. ./x' > x; . ./x`, `trap 'false' ERR; false`, `alias a=a; a`,
		},
		"memory": {
			`x=aaaaaaaa; for i in {1..30}; do x=$x$x; done`,
			`x=({1..100000000})`, `echo {1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}`, `printf '%2000000000d' 1`,
			`echo ${x:-{1..99999999}}`, `x=a; while ((1)); do x=$x$x; done`, `a[2000000000]=1; echo "${a[@]}"`,
			`jq -n '[limit(1e9; repeat("aaaaaaaa"))]'`,
			`jq -n '"a" * 2000000000'`,
			`x=$(printf '%1000000s' a); echo "${x//a/$x$x$x$x$x$x$x$x$x}"`,
			`[[ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa =~ ((a{1000}){1000}){1000} ]]`,
			`x=$(printf '%1000000s' a); [[ $x == *(*(*(*(*(a)))))b ]]`,
			`shopt -s extglob globstar; echo **/**/**/**/**/*`, `echo $((9**9**9**9))`,
		},
		"files without end": {
			`x=$(printf '%70000s' a); while :; do echo "$x" >> big; done`, `i=0; while ((i++ < 2000)); do echo > f$i; done`,
			`echo a > a; while :; do cat a a > b; mv b a; done`, `mkdir -p ` + strings.Repeat("a/", 5000),
			`cat f f f f f f f f > f; cat f`,
		},
		"the parser": {
			strings.Repeat("(", 30_000),
			strings.Repeat("$(", 20_000),
			strings.Repeat("{ ", 20_000),
			strings.Repeat("if ", 20_000),
			"echo " + strings.Repeat("${x:-", 10_000), "((" + strings.Repeat("(", 20_000), strings.Repeat("! ", 30_000) + "true",
			strings.Repeat("a | ", 15_000) + "b",
			strings.Repeat("`", 60_000),
			"\x00\xff\xfe",
			"echo " + strings.Repeat("{a,", 15_000),
			"x=" + strings.Repeat("'a'", 20_000), strings.Repeat("<<a ", 10_000),
		},
		"descriptors": {
			`for i in {1..150}; do eval "exec $i< f"; done`, `for i in {1..150}; do cat <<< x & done; wait`,
			`for i in {1..100}; do sleep 100 | cat & done; wait`, `echo x >&1000`, `cat <&99`,
		},
	} {
		for i, attempt := range attempts {
			attempt = strings.NewReplacer("SECRETDIR", "/tmp", "SECRETS", strings.TrimSuffix(secret, "t"), "SECRET", secret).
				Replace(attempt)
			t.Run(fmt.Sprintf("%s/%d", class, i), func(t *testing.T) {
				begin := time.Now()
				c := call(attempt)
				c.Spec.Timeout = 2 * time.Second
				peak := make(chan int64, 1)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { peak <- watchMemory(ctx) }()
				out, err := e.Processes.Run(t.Context(), "ns", c.Spec.Timeout, request(c),
					&workspace{files: files})
				took := time.Since(begin)
				cancel()
				memory := <-peak
				seen := fmt.Sprint(err)
				if out != nil {
					seen = fmt.Sprintf("%.300q %.300q %d", out.Stdout, out.Stderr, out.Exit)
				}
				t.Logf("%v, %d MiB: %s", took.Round(time.Millisecond), memory>>20, seen)
				if strings.Contains(seen, "the secret") || strings.Contains(seen, "root:") || strings.Contains(seen, "uid=") {
					t.Errorf("%s reads the host: %s", attempt, seen)
				}
				if took > c.Spec.Timeout+Grace+startTimeout/2 {
					t.Errorf("%.100s takes %v", attempt, took)
				}
				if memory > maxProcess {
					t.Errorf("%.100s takes %d MiB", attempt, memory>>20)
				}
			})
		}
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "the secret of the host" {
		t.Errorf("the file of the host is %q, %v", content, err)
	}
	if got := e.Run(t.Context(), call(`exit 1`)); got.Decision != hook.Block {
		t.Errorf("after all that a script yields %q", got)
	}
}

// maxProcess is the most memory of a process: what docs/operations.md counts for each.
const maxProcess = 64 << 20

func TestTheProcessesAreShared(t *testing.T) {
	pool := newPool(t)
	e := &Executor{Processes: pool}
	slow := make(chan hook.Outcome, 3)
	for range 3 {
		c := call(`sleep 1`)
		c.Identity.Namespace = "many"
		go func() { slow <- e.Run(t.Context(), c) }()
	}
	for pool.places.Held().Places == 0 || pool.places.Waiting() < 2 {
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
		pool := NewPool(Options{Command: command})
		if outcome := (&Executor{Processes: pool}).Run(t.Context(), call(`:`)); outcome.Decision != hook.Failed {
			t.Errorf("%v yields %q", command, outcome)
		}
		pool.Close()
	}
}

func TestAProcessThatIsNotUsedEnds(t *testing.T) {
	pool := NewPool(Options{Command: []string{"/proc/self/exe", runner}, Idle: time.Millisecond})
	defer pool.Close()
	e := &Executor{Processes: pool}
	for range 3 {
		if outcome := e.Run(t.Context(), call(`exit 1`)); outcome.Decision != hook.Block {
			t.Errorf("it yields %q", outcome)
		}
		for len(children()) > 0 {
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
	e := &Executor{Processes: pool}
	c := call(`[[ $CAPSTAN_HOOK_TOOL_NAME == x ]] && exit 1`)
	if outcome := e.Run(b.Context(), c); outcome.Decision != hook.Block {
		b.Fatal(outcome)
	}
	ratio.Report(b, func() error {
		for len(pool.ready) == 0 && b.Context().Err() == nil {
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
