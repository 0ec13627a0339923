package shell

import (
	"context"
	"errors"
	"testing"
	"time"
)

// run runs a script in this process.
func run(t *testing.T, command string, files ...File) (*Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return Run(ctx, Request{Command: command, Files: files, TimeoutMillis: 20_000}, nil)
}

// Rules: HOOK-13.
func TestTheCommandsOfAScriptAreCounted(t *testing.T) {
	for name, command := range map[string]string{
		"in a loop": `for i in {1..201}; do :; done`, "in a function": `f() { :; }; for i in {1..101}; do f; done`,
		"in pipes": `for i in {1..101}; do : | :; done`,
	} {
		if _, err := run(t, command); !errors.Is(err, errCommands) {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
	if _, err := run(t, `for i in {1..199}; do :; done`); err != nil {
		t.Errorf("fewer commands end with %v", err)
	}
}

// No command counts in these loops but their iterations.
//
// Rules: HOOK-13.
func TestEveryLoopCountsItsIterations(t *testing.T) {
	endless := File{Path: Workspace + "/endless", Here: true, Content: []byte("while ((1)); do ((++i)); done")}
	for name, command := range map[string]string{
		"while":                   `while ((1)); do ((++i)); done`,
		"until":                   `until ((0)); do ((++i)); done`,
		"for":                     `for i in {1..3000}; do ((++i)); done`,
		"arithmetic for":          `for ((;1;)); do ((++i)); done`,
		"in a function":           `f() { while ((1)); do ((++i)); done; }; f`,
		"in a substitution":       `x=$(while ((1)); do ((++i)); done)`,
		"evaluated":               `eval 'while ((1)); do ((++i)); done'`,
		"evaluated in words":      `eval while '((1));' do '((++i));' done`,
		"evaluated twice":         `eval 'eval "while ((1)); do ((++i)); done"'`,
		"evaluated as a builtin":  `builtin command eval 'while ((1)); do ((++i)); done'`,
		"a function by eval":      `eval 'f() { while ((1)); do ((++i)); done; }'; f`,
		"evaluated in a variable": `x='while ((1)); do ((++i)); done'; eval "$x"`,
		"at the end":              `trap 'while ((1)); do ((++i)); done' EXIT`,
		"after an error":          `trap -- 'while ((1)); do ((++i)); done' ERR; [[ a == b ]]`,
		"sourced":                 `source endless`,
		"sourced with a dot":      `. /workspace/endless`,
		"sourced with arguments":  `builtin source ./endless a b`,
		"sourced, own file":       `echo 'for ((;1;)); do ((++i)); done' >/tmp/x; . /tmp/x`,
		"sourced in a pipe":       `source endless | source endless`,
		"with a function of its name": `__iteration() { ((++i)); }; true() { ((i++)); }
while ((1)); do ((++i)); done`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := run(t, command, endless); !errors.Is(err, errIterations) {
				t.Errorf("it yields %v, want %v", err, errIterations)
			}
		})
	}
}

func TestATextWithLoopsIsEvaluatedAsItIs(t *testing.T) {
	loops := File{Path: Workspace + "/loops", Here: true, Content: []byte(
		"for x in \"$@\"; do cat <<E\n<$x>\nE\ndone\nset -- changed\nreturn 3\necho never\n")}
	for name, test := range map[string]struct{ command, want string }{
		"here document": {"eval 'for i in a b; do cat <<E\n$i $((1+1))\nE\ndone'", "a 2\nb 2\n"},
		"quotes":        {`x="a  b"; eval 'for i in "$x" $x; do echo "[$i]"; done'`, "[a  b]\n[a]\n[b]\n"},
		"status":        {`eval 'while true; do break; done; false'; echo $?`, "1\n"},
		"invalid":       {`eval 'while true; do'; echo $?`, "1\n"},
		"sourced":       {`. loops a 'b c'; echo "$? $#"`, "<a>\n<b c>\n3 1\n"},
		"sourced twice": {`set -- z; . loops; . loops; echo "$1"`, "<z>\n<changed>\nchanged\n"},
		"no such file":  {`source missing; echo $?`, "1\n"},
		"trap":          {`trap 'for i in 1 2; do echo $i; done' EXIT; echo 0`, "0\n1\n2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := run(t, test.command, loops)
			if err != nil || result.Stdout != test.want {
				t.Errorf("it yields %+v, %v, want %q", result, err, test.want)
			}
		})
	}
}

func TestADeeplyNestedTextEndsTheScript(t *testing.T) {
	for name, command := range map[string]string{
		"evaluated": `x='$('; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do x=$x$x; done; eval "$x"`,
		"sourced":   `x='$('; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do x=$x$x; done; echo "$x" >x; . x`,
		"trapped":   `x='$('; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do x=$x$x; done; trap "$x" EXIT`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := run(t, command); !errors.Is(err, errNesting) {
				t.Errorf("it yields %v, want %v", err, errNesting)
			}
		})
	}
}
