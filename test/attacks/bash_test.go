package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
)

// scriptTimeout is the timeout of the hooks with scripts.
const scriptTimeout = time.Second

// observed runs scripts and keeps the result of the last one: the outcome of a hook has only a part of it.
type observed struct {
	bash.Processes
	result *shell.Result
}

// Run implements bash.Processes.
func (o *observed) Run(
	ctx context.Context, namespace string, timeout time.Duration, r shell.Request, session shell.Source,
) (*shell.Result, error) {
	var err error
	o.result, err = o.Processes.Run(ctx, namespace, timeout, r, session)
	return o.result, err
}

// listener counts the connections to a port of this machine.
type listener struct {
	net.Listener
	connections atomic.Int64
}

func newListener(t *testing.T) *listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	counted := &listener{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			counted.connections.Add(1)
			fmt.Fprint(c, hostSecret)
			c.Close()
		}
	}()
	return counted
}

// port is the port as a text.
func (l *listener) port() string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// scripts are the attempts of a class, each with its script as its name.
func scripts(name string, all ...string) class {
	c := class{name: name, longest: scriptTimeout + runner.Grace + 5*time.Second}
	for _, script := range all {
		c.attempts = append(c.attempts, attempt{name: script})
	}
	return c
}

// bashHooks are scripts of hooks. Each runs in a process of its own, so that the next one finds nothing of it.
func bashHooks(t *testing.T) subject {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte(hostSecret), 0o600))
	open := newListener(t)
	pool := runner.NewPool(runner.Options{Command: []string{"/proc/self/exe", argument}})
	t.Cleanup(pool.Close)
	names := strings.NewReplacer("SECRETDIR", filepath.Dir(secret), "SECRETS", strings.TrimSuffix(secret, "t"),
		"SECRET", secret, "PORT", open.port())
	classes := scriptClasses()
	for i, c := range classes {
		for j, a := range c.attempts {
			classes[i].attempts[j].run = func(ctx context.Context) string {
				return runScript(ctx, pool, attacker, names.Replace(a.name))
			}
		}
	}
	return subject{
		name: "Hooks that are scripts", classes: classes, runs: true,
		other: func(ctx context.Context) error {
			if seen := runScript(ctx, pool, bystander, "echo fine"); !strings.Contains(seen, "fine") {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			if content, err := os.ReadFile(secret); err != nil || string(content) != hostSecret {
				t.Errorf("the file of the host is %q, %v", content, err)
			}
			if n := open.connections.Load(); n != 0 {
				t.Errorf("%d connections were made", n)
			}
		},
	}
}

// runScript runs a hook with a script for a namespace.
func runScript(ctx context.Context, pool *runner.Pool, namespace, script string) string {
	processes := &observed{Processes: bash.Confined{Pool: pool}}
	spec := &hook.Spec{
		ID: "session:x/y", Event: hook.PreToolUse, Bash: &hook.Bash{Command: script}, Timeout: scriptTimeout,
	}
	outcome := (&bash.Executor{Processes: processes}).Run(ctx, hook.Call{
		Spec: spec, Tool: "t", ToolCallID: "1-0", Key: "key", Files: newFiles(namespace, map[string]string{"/f": "content"}),
		Identity: hook.Identity{Namespace: namespace, Session: "s", Turn: "t"},
		Payload:  []byte(`{"event":"pre_tool_use","data":{"tool_name":"t","arguments":{}}}`),
	})
	if outcome.Decision == hook.Failed {
		return refused + outcome.Reason
	}
	r := processes.result
	seen := fmt.Sprintf("%.2000q %.2000q %d", r.Stdout, r.Stderr, r.Exit)
	if r.Exit != 0 {
		return refused + seen
	}
	return seen
}

func scriptClasses() []class {
	return []class{
		scripts("files of the host, read by commands",
			`cat SECRET`, `cp SECRET /workspace/x; cat x`, `grep -r secret SECRET`, `jq . SECRET`, `cat /etc/passwd`),
		scripts("files of the host, read by the shell",
			`cat < SECRET`, `echo "$(<SECRET)"`, `source SECRET`, `mapfile x < SECRET; echo "${x[@]}"`,
			`exec 3< SECRET; cat <&3`),
		scripts("files of the host, looked for",
			`echo SECRETS*`, `ls SECRETDIR`, `[ -e SECRET ] && echo "the secret of the host"`,
			`[[ -r SECRET ]] && echo "the secret of the host"`,
			`command -v SECRET | grep -q . && echo the secret of the host`),
		scripts("files of the host, by jq and the environment",
			`jq -n 'input_filename, $ENV.HOSTNAME, (try import "a" as a; .)'`, `. SECRET`, `jq -n --rawfile a SECRET '$a'`,
			`env; printenv PATH; declare -p`, `jq -n 'include "SECRET"; .'`),
		scripts("parents",
			`cat ../../../../SECRET`, `cd ..; cd ..; cd ..; cat SECRET`, `cat /workspace/../SECRET`, `cd -P /; cat SECRET`,
			`pwd -P`),
		scripts("links",
			`ln -s SECRET x; cat x`, `cp -s SECRET x; cat x`, `readlink SECRET`, `mv SECRET x; cat x`,
			`cat /dev/fd/0 /proc/self/fd/0`),
		scripts("/proc and /sys",
			`cat /proc/self/environ`, `cat /proc/1/environ`, `echo /proc/*`, `cat /sys/fs/cgroup/memory.max`,
			`ls /proc/self/fd`),
		scripts("the kernel and the account",
			`echo x > /proc/self/oom_score_adj`, `cat /dev/zero | head -c 3`, `cat /dev/mem`,
			`cat /var/run/secrets/kubernetes.io/serviceaccount/token`, `kill -9 1; kill -9 $PPID`),
		scripts("other programs",
			`/bin/sh -c 'cat SECRET'`, `exec /bin/cat SECRET`, `sh -c id`, `busybox cat SECRET`, `/proc/self/exe run`),
		scripts("other programs, in disguise",
			`command /bin/ls /`, `PATH=/bin:/usr/bin id`, `builtin exec /usr/bin/id`, `nohup id &`,
			`echo '#!/bin/cat' > x; ./x`),
		scripts("processes and pipes of the host",
			`cat <(echo the secret of the host)`, `echo x > >(cat)`, `TMPDIR=/tmp; cat <(echo the secret of the host)`,
			`echo ~root`, `mkfifo x; coproc cat`),
		scripts("the network",
			`cat < /dev/tcp/127.0.0.1/PORT`, `exec 3<>/dev/tcp/127.0.0.1/PORT; echo hi >&3; cat <&3`,
			`cat < /dev/udp/127.0.0.1/PORT`, `curl http://127.0.0.1:PORT/; wget -O- http://127.0.0.1:PORT`,
			`nc 127.0.0.1 PORT`),
		scripts("writing to the host",
			`echo x > /etc/x; touch /x; mkdir /x`, `echo x > SECRET`, `rm SECRET; rm -rf /`, `mv /workspace/f /f`,
			`echo x >> /dev/full`),
		scripts("endless output",
			`while :; do echo yes; done`, `printf '%070000d' 0`, `cat /dev/zero`,
			`x=a; while [ ${#x} -lt 40000 ]; do x=$x$x; done; echo $x$x >&2`, `for ((;;)); do printf x; done`),
		scripts("endless loops",
			`while :; do :; done`, `for ((;;)); do ((x++)); done`, `until false; do x=1; done`,
			`eval 'while ((1)); do ((x++)); done'`, `for x in {1..100000000}; do y=1; done`),
		scripts("endless waits",
			`sleep 3000`, `read x`, `wait; trap 'while :; do :; done' EXIT`, `select x in a b; do :; done`,
			`jq -n '[range(1e12)] | length'`),
		scripts("fork bombs",
			`:(){ :|:& };:`, `f() { f | f & }; f`, `f() { (f); }; f`, `f() { x=$(f); }; f`,
			`for i in {1..150}; do cat <<< x & done; wait`),
		scripts("recursion",
			`f() { f; }; f`, `eval "$(cat <<< 'eval "$BASH_COMMAND"')"`, `x='echo $(eval "$x")'; eval "$x"`,
			`echo '. ./x' > x; . ./x`, `jq -n 'def f: f; f'`),
		scripts("recursion of traps and names",
			`trap 'false' ERR; false`, `alias a=a; a`, `declare -n a=b b=a; echo $a`, `a=b; b=a; ((a))`,
			`PROMPT_COMMAND=f; f() { eval f; }; f`),
		scripts("memory, by variables",
			`x=aaaaaaaa; for i in {1..30}; do x=$x$x; done`, `x=a; while ((1)); do x=$x$x; done`, `x=({1..100000000})`,
			`a[2000000000]=1; echo "${a[@]}"`, `x=$(printf '%1000000s' a); echo "${x//a/$x$x$x$x$x$x$x$x$x}"`),
		scripts("expansions that multiply",
			`echo {1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}`, `echo ${x:-{1..99999999}}`,
			`a=lollollol b=$a$a$a c=$b$b$b$b d=$c$c$c$c; for i in {1..9}; do d=$d$d$d$d; done; echo $d`,
			`printf '%2000000000d' 1`, `shopt -s extglob globstar; echo **/**/**/**/**/*`),
		scripts("memory, by jq and arithmetic",
			`jq -n '[limit(1e9; repeat("aaaaaaaa"))]'`, `jq -n '"a" * 2000000000'`, `echo $((9**9**9**9))`,
			`jq -n '[range(30)] | reduce .[] as $x ("aaaaaaaa"; . + .) | length'`,
			`jq -n 'def f: [., .] | f; 1 | f'`),
		scripts("patterns",
			`[[ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa =~ ((a{1000}){1000}){1000} ]]`,
			`x=$(printf '%1000000s' a); [[ $x == *(*(*(*(*(a)))))b ]]`,
			`printf '%60000s' a | grep -E '(( *)*)*b'`, `jq -n '"a" * 30000 | test("(a?){500}b")'`,
			`x=$(printf '%60000s' a); echo "${x##*(*( ))b}"`),
		scripts("files without end",
			`x=$(printf '%70000s' a); while :; do echo "$x" >> big; done`, `i=0; while ((i++ < 2000)); do echo > f$i; done`,
			`echo a > a; while :; do cat a a > b; mv b a; done`, `mkdir -p `+strings.Repeat("a/", 5000),
			`cat f f f f f f f f > f; cat f`),
		scripts("descriptors",
			`for i in {1..150}; do eval "exec $i< f"; done`, `for i in {1..100}; do sleep 100 | cat & done; wait`,
			`echo x >&1000`, `cat <&99`, `exec 1>&-; exec 2>&-; exec 0<&-; echo x`),
		scripts("brackets for the parser",
			strings.Repeat("(", 30_000), strings.Repeat("$(", 20_000), strings.Repeat("{ ", 20_000),
			"(("+strings.Repeat("(", 20_000), "echo "+strings.Repeat("${x:-", 10_000)),
		scripts("words for the parser",
			strings.Repeat("if ", 20_000), strings.Repeat("! ", 30_000)+"true", strings.Repeat("a | ", 15_000)+"b",
			strings.Repeat("<<a ", 10_000), "x="+strings.Repeat("'a'", 20_000)),
		scripts("bytes for the parser",
			"\x00\xff\xfe", strings.Repeat("`", 60_000), "echo "+strings.Repeat("{a,", 15_000),
			"echo "+strings.Repeat("\\\n", 30_000), "echo \x1b]0;title\x07 \u202e"),
		scripts("what the hook reports",
			`printf '{"decision":"mutate","patch":'; for i in {1..30000..200}; do printf '[[[[[[[[['; done`,
			`jq -n '[range(3000)] | {decision: "mutate", patch: {arguments: {a: .}}}'`,
			`printf '{"decision":"allow","decision":"block"}'`, `printf '{"decision":"\xff\xfe"}'`,
			`printf '{"decision":1e999999999}'`),
	}
}
