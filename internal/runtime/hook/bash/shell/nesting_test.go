package shell

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// nested are the constructs that contain others, each with the most of them that a script has room for.
func nested() map[string]string {
	scripts := map[string]string{}
	for name, part := range map[string]struct{ open, inner, end string }{
		"command substitutions":         {"$(", "a", ")"},
		"substitutions in quotes":       {`"$(`, "a", `)"`},
		"subshells":                     {"(", "a", ")"},
		"subshells with spaces":         {"( ", "a", " )"},
		"groups":                        {"{ ", "a;", "};"},
		"arithmetic commands":           {"((", "1", "))"},
		"arithmetic expansions":         {"$((", "1", "))"},
		"arithmetic parentheses":        {"$((" + strings.Repeat("(", 64), "1", strings.Repeat(")", 64) + "))"},
		"old arithmetic expansions":     {"$[", "1", "]"},
		"arithmetic signs":              {"((" + strings.Repeat("- ", 64), "1", "))"},
		"ternaries":                     {"$((1?", "1", ":1))"},
		"assignments in arithmetic":     {"((a=", "1", "))"},
		"powers":                        {"((2**", "1", "))"},
		"tests":                         {"[[ $(", "[[ a ]]", ") ]]"},
		"parentheses of tests":          {"[[ ( ", "a", " ) ]]"},
		"negations in tests":            {"[[ " + strings.Repeat("! ", 64), "a", " ]]"},
		"operators of tests":            {"[[ a || ", "a", " ]]"},
		"parameters":                    {"${a:-", "a", "}"},
		"parameters in quotes":          {`"${a:-`, "a", `}"`},
		"offsets":                       {"${a:$((", "1", "))}"},
		"indexes":                       {"${a[", "1", "]}"},
		"replacements":                  {"${a/b/", "c", "}"},
		"arrays":                        {"a=($(", "a", "))"},
		"array indexes":                 {"a[$((", "1", "))]=1"},
		"process substitutions":         {"cat <(", "a", ")"},
		"process substitutions written": {"cat >(", "a", ")"},
		"extended patterns":             {"@(", "a", ")"},
		"cases":                         {"case a in a) ", "a", ";; esac"},
		"words of cases":                {"case $(", "a", ") in esac"},
		"ifs":                           {"if ", "a", "; then a; fi"},
		"bodies of ifs":                 {"if a; then ", "a", "; fi"},
		"else ifs":                      {"if a; then a; else ", "a", "; fi"},
		"loops":                         {"while ", "a", "; do a; done"},
		"bodies of loops":               {"while a; do ", "a", "; done"},
		"until":                         {"until a; do ", "a", "; done"},
		"for":                           {"for a in b; do ", "a", "; done"},
		"arithmetic for":                {"for ((;;)); do ", "a", "; done"},
		"select":                        {"select a in b; do ", "a", "; done"},
		"functions":                     {"f() { ", "a", "; };"},
		"functions of functions":        {"f() ", "{ a; }", ""},
		"named functions":               {"function f { ", "a", "; }"},
		"coprocesses":                   {"coproc ", "a", ""},
		"times":                         {"time ", "a", ""},
		"negations":                     {"! ", "a", ""},
		"declarations":                  {"declare a=$(", "a", ")"},
		"let":                           {"let a=$((", "1", "))"},
		"and":                           {"a && ", "a", ""},
		"and with new lines":            {"a &&\n", "a", ""},
		"pipes":                         {"a | ", "a", ""},
		"redirections":                  {"a >$(", "a", ")"},
		"here strings":                  {"a <<<$(", "a", ")"},
		"here documents":                {"cat <<E\n$(", "a", ")\nE\n"},
		"here documents in documents":   {"cat <<E\n${a:-$(", "a", ")}\nE\n"},
		"texts in quotes":               {`$"$(`, "a", `)"`},
	} {
		count := hook.MaxCommandBytes / len(part.open+part.end)
		scripts[name] = strings.Repeat(part.open, count) + part.inner + strings.Repeat(part.end, count)
		scripts[name+", open"] = strings.Repeat(part.open, hook.MaxCommandBytes/len(part.open))
	}
	backquotes := "a"
	for range 12 {
		backquotes = "`" + strings.NewReplacer("`", "\\`", `\`, `\\`).Replace(backquotes) + "`"
	}
	scripts["backquotes"] = backquotes
	scripts["backquotes, open"] = strings.Repeat("`a ", hook.MaxCommandBytes/3)
	scripts["sums"] = "((" + strings.Repeat("1+", hook.MaxCommandBytes/2-4) + "1))"
	scripts["here documents side by side"] = strings.Repeat("cat <<E;", 4000) + "\n" + strings.Repeat("E\n", 4000)
	return scripts
}

// A script may be nested so deeply that its parser needs thousands of bytes of stack for each of its bytes. The manager
// parses scripts of tenants before it accepts them.
func TestNoScriptTakesMuchStackToParse(t *testing.T) {
	const most = 6 << 20
	for name, script := range nested() {
		t.Run(name, func(t *testing.T) {
			grown := stackGrowth(func() {
				err := Check(script)
				t.Logf("%.200v", err)
			})
			t.Logf("%d KiB of stack", grown>>10)
			if grown > most {
				t.Errorf("parsing it took %d MiB of stack, want at most %d", grown>>20, most>>20)
			}
		})
	}
}

// stackGrowth is how much memory the stacks of this process take more, once a function has run.
func stackGrowth(f func()) uint64 {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
		runtime.ReadMemStats(&after)
	}()
	<-done
	if after.StackInuse < before.StackInuse {
		return 0
	}
	return after.StackInuse - before.StackInuse
}

func TestADeeplyNestedScriptIsInvalid(t *testing.T) {
	deep := strings.Repeat("$(", 4000) + "a" + strings.Repeat(")", 4000)
	if err := Check(deep); !errors.Is(err, errNesting) {
		t.Errorf("it yields %v, want %v", err, errNesting)
	}
	// Usual scripts are long rather than deep.
	long := strings.Repeat("if [[ $(echo \"${a:-$((1 + (2 * 3)))}\") == x ]]; then echo a; fi\n", 900)
	if err := Check(long); err != nil {
		t.Errorf("a long script: %v", err)
	}
	padding := strings.Repeat("# comment\n", 20)
	for name, part := range map[string]struct{ open, end string }{
		"substitutions": {`x="$( `, ` )"`}, "ifs": {"if a; then ", "\nfi"}, "cases": {"case a in a) ", "\n;; esac"},
		"loops": {"while a; do ", "\ndone"}, "groups": {"{ ", "\n}"}, "functions": {"f() { ", "\n}"},
		"subshells": {"( ", ")"},
	} {
		script := strings.Repeat(part.open+padding, 50) + "a" + strings.Repeat(part.end, 50)
		if err := Check(script); err != nil {
			t.Errorf("50 levels of %s: %v", name, err)
		}
	}
}
