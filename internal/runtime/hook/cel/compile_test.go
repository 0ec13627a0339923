package cel

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/testing/memory"
)

// costly are expressions that take the most to compile.
func costly() map[string]string {
	deep := strings.Repeat("[", 20) + strings.Repeat("]", 20) + ","
	return map[string]string{
		"maps":                "1 in [" + strings.Repeat("{},", 1360) + "{}]",
		"maps at the limit":   "1 in [" + strings.Repeat("{},", 494) + "{}]",
		"lists":               "1 in [" + strings.Repeat("[],", 1360) + "[]]",
		"lists at the limit":  "1 in [" + strings.Repeat("[],", 494) + "[]]",
		"members":             "{" + strings.Repeat("'a':{},", 248) + "'a':{}}",
		"members of members":  "{" + strings.Repeat("'a':{'b':[]},", 100) + "'a':{}}",
		"lists of lists":      "1 in [" + strings.Repeat(deep, 24) + "1]",
		"comparisons":         strings.Repeat("[]==[]||", 124) + "true",
		"conditions":          strings.Repeat("(true?[]:{})==1||", 80) + "true",
		"sums":                strings.Repeat("1+", 2000) + "1 == 1",
		"or":                  strings.Repeat("data.a||", 500) + "true",
		"macros":              strings.Repeat("[].exists(a,true)||", 200) + "true",
		"macros in macros":    strings.Repeat("[1].all(a,[1].all(b,[1].all(c,[1].all(d,true))))||", 20) + "true",
		"selections":          strings.Repeat("data.b.c.d.e.f.g.h.i||", 54) + "true",
		"unknown selections":  strings.Repeat("a.b.c.d.e.f.g.h.i.j||", 190) + "true",
		"unknown at the end":  strings.Repeat("a.b.c.d.e.f.g.h.i.j||", 45) + strings.Repeat(" ", 3000) + "true",
		"wrong types":         strings.Repeat("((((((((1))))))))||", 200) + "true",
		"unknown functions":   strings.Repeat("z()||", 800) + "true",
		"unknown overloads":   strings.Repeat("(1+'')==1||", 90) + strings.Repeat(" ", 3000) + "true",
		"brackets":            strings.Repeat("[)", 2000),
		"signs":               strings.Repeat("!-", 2000) + "1",
		"commas":              strings.Repeat("z,", 2000),
		"questions":           strings.Repeat("a?", 2000),
		"quotes":              strings.Repeat("'", 4000),
		"patterns":            strings.Repeat("''.matches('x{240}')||", 100) + "true",
		"different patterns":  manyPatterns(),
		"characters":          "'" + strings.Repeat("語", 1000) + "' == " + strings.Repeat("'語' + ", 20) + "1",
		"unknown, wide":       strings.Repeat("'語'||", 400) + "true",
		"a type without end":  strings.Repeat("[", 30) + strings.Repeat("]", 30),
		"lambdas of one list": strings.Repeat("[[],{}].exists(a,a==1)||", 30) + "true",
	}
}

func manyPatterns() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "''.matches('[a%d]{40}')||", i)
	}
	return b.String() + "true"
}

// Compiling takes more than evaluating, and is done before anything is known about the expression but its length.
func TestNoExpressionTakesLongToCompile(t *testing.T) {
	for name, expression := range costly() {
		t.Run(name, func(t *testing.T) {
			expression = expression[:min(len(expression), hook.MaxExpressionBytes)]
			e := newExecutor(t)
			var err error
			begin := time.Now()
			allocated := memory.Allocated(func() { _, _, err = e.compile(expression) })
			t.Logf("%v, %d KiB: %.150v", time.Since(begin), allocated>>10, err)
			if allocated > 32<<20 {
				t.Errorf("it takes %d MiB", allocated>>20)
			}
			if err != nil && len(err.Error()) > 1500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// What is kept is bounded by an estimate, which must not be below what an expression takes.
func TestTheMemoryOfAProgramIsKnown(t *testing.T) {
	all := costly()
	all["constants"] = `data.tool_name in ["` + strings.Repeat(`a","`, 400) + `"]`
	all["long text"] = `data.tool_name == "` + strings.Repeat("x", 4000) + `"`
	all["short"] = `true`
	all["patterns at the limit"] = `"a".matches("[a-c]{240}") || "a".matches("(a?){240}") || "a".matches("x{240}")`
	for name, expression := range all {
		e := newExecutor(t)
		if _, _, err := e.compile(expression); err != nil || len(expression) > hook.MaxExpressionBytes {
			continue
		}
		const copies = 20
		var before, after runtime.MemStats
		programs := make([]any, copies)
		runtime.GC()
		runtime.ReadMemStats(&before)
		estimate := int64(0)
		for i := range programs {
			program, bytes, err := e.compile(expression)
			if err != nil {
				t.Fatal(err)
			}
			programs[i], estimate = program, bytes
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		taken := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / copies
		t.Logf("%s: %d KiB, estimated %d KiB", name, taken>>10, estimate>>10)
		if taken > estimate {
			t.Errorf("%s takes %d bytes, estimated %d", name, taken, estimate)
		}
		runtime.KeepAlive(programs)
	}
}

func TestAnExpressionHasABoundedNumberOfNodes(t *testing.T) {
	e := newExecutor(t)
	for expression, want := range map[string]string{
		`data.tool_name in ["` + strings.Repeat(`a","`, 400) + `"]`: "",
		`data.tool_name in ["` + strings.Repeat(`a","`, 600) + `"]`: "the maximum is 500",
		strings.Repeat(`[1].exists(a, a > 1) || `, 60) + "true":     "the maximum is 500",
		`unknown || other || third || fourth`: "the expression is invalid: 1:1: undeclared reference to 'unknown' " +
			"(in container ''); 1:12: undeclared reference to 'other' (in container ''); 1:21: undeclared reference to " +
			"'third' (in container ''); and 1 more",
		`"a".matches("(")`: "not valid",
		`[1].all(a, [1].all(b, [1].all(c, [1].all(d, true))))`:              "nesting",
		`"a".matches("x{240}") || "a".matches("y{240}") || "a".matches(x1)`: "undeclared",
		`"a".matches("v{240}") || "a".matches("w{240}") || "a".matches("x{240}") || "a".matches("y{240}") ||
"a".matches("z{240}")`: "together too complex",
	} {
		err := e.Check(t.Context(), "ns", expression)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s yields %v, want %q", expression, err, want)
		}
	}
}
