package main

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

func TestDeclaredScalarsGetVariables(t *testing.T) {
	long := strings.Repeat("x", result.MaxScalarBytes)
	for name, c := range map[string]struct {
		arguments string
		scalars   []string
		want      []string
	}{
		"a string as it is": {`{"a": " x\n\"y\" $(Z)"}`, []string{"a"}, []string{"CAPSTAN_ARG_A= x\n\"y\" $(Z)"}},
		"an empty string":   {`{"a": ""}`, []string{"a"}, []string{"CAPSTAN_ARG_A="}},
		"numbers as they are written": {
			`{"a": 1.50, "b": -1e+3}`, []string{"a", "b"}, []string{"CAPSTAN_ARG_A=1.50", "CAPSTAN_ARG_B=-1e+3"},
		},
		"booleans": {
			`{"a": true, "b": false}`, []string{"a", "b"}, []string{"CAPSTAN_ARG_A=true", "CAPSTAN_ARG_B=false"},
		},
		"nothing that is not declared": {`{"a": "x", "b": "y"}`, []string{"b"}, []string{"CAPSTAN_ARG_B=y"}},
		"nothing that is not a scalar": {`{"a": [1], "b": {"c": 1}, "c": null}`, []string{"a", "b", "c"}, nil},
		"nothing with a NUL byte":      {`{"a": "x\u0000y"}`, []string{"a"}, nil},
		"nothing above the limit": {
			`{"a": "` + long + `", "b": "x` + long + `"}`, []string{"a", "b"}, []string{"CAPSTAN_ARG_A=" + long},
		},
		"nothing where names clash":    {`{"a-b": "x", "a.b": "y"}`, []string{"a-b", "a.b"}, nil},
		"nothing for an absent field":  {`{}`, []string{"a"}, nil},
		"nothing for another type":     {`["a"]`, []string{"a"}, nil},
		"nothing for invalid JSON":     {`{"a": "x"`, []string{"a"}, nil},
		"the last of two":              {`{"a": "x", "a": "y"}`, []string{"a"}, []string{"CAPSTAN_ARG_A=y"}},
		"a name with other characters": {`{"ä-1 ſ": "x"}`, []string{"ä-1 ſ"}, []string{"CAPSTAN_ARG___1__=x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := toolEnvironment(nil, []byte(c.arguments), c.scalars); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheToolDoesNotGetTheLaunchersVariables(t *testing.T) {
	container := []string{"A=1", result.EnvTimeout + "=1s", "CAPSTAN_ARG_OLD=x", "CAPSTAN_TURN=t"}
	if got := toolEnvironment(container, []byte("{}"), nil); !slices.Equal(got, []string{"A=1", "CAPSTAN_TURN=t"}) {
		t.Errorf("got %q", got)
	}
}

func FuzzArgumentVariables(f *testing.F) {
	f.Add(`{"a": "x", "b": 1}`, "a", "b")
	f.Add(`{"a=b": "x\u0000"}`, "a=b", "")
	f.Add(`{"": true}`, "", "ſ")
	variable := regexp.MustCompile(`^CAPSTAN_ARG_[A-Z0-9_]*$`)
	f.Fuzz(func(t *testing.T, arguments, one, two string) {
		base := []string{"A=1"}
		got := toolEnvironment(base, []byte(arguments), []string{one, two})
		if got[0] != "A=1" {
			t.Fatalf("the container's variables are gone: %q", got)
		}
		seen := map[string]bool{}
		for _, entry := range got[1:] {
			name, value, found := strings.Cut(entry, "=")
			if !found || !variable.MatchString(name) || seen[name] {
				t.Errorf("the variable %q of %q, declared %q and %q", entry, arguments, one, two)
			}
			if strings.Contains(value, "\x00") || len(value) > result.MaxScalarBytes {
				t.Errorf("the value %q cannot be one", value)
			}
			seen[name] = true
		}
	})
}

func FuzzStringsReachTheirVariableUnchanged(f *testing.F) {
	f.Add("")
	f.Add("line\nbreak 'quotes' \"double\" $(PATH) $$ `id` \\")
	f.Fuzz(func(t *testing.T, value string) {
		arguments, err := json.Marshal(map[string]string{"a": value})
		if err != nil {
			t.Fatal(err)
		}
		// Bytes that JSON cannot represent were replaced before.
		var decoded map[string]string
		if err := json.Unmarshal(arguments, &decoded); err != nil {
			t.Fatal(err)
		}
		var want []string
		if len(decoded["a"]) <= result.MaxScalarBytes && !strings.Contains(decoded["a"], "\x00") {
			want = []string{"CAPSTAN_ARG_A=" + decoded["a"]}
		}
		if got := toolEnvironment(nil, arguments, []string{"a"}); !slices.Equal(got, want) {
			t.Errorf("%q became %q, want %q", value, got, want)
		}
	})
}

func TestAHeadKeepsTheStartAndCounts(t *testing.T) {
	h := &head{limit: 5}
	for _, part := range []string{"abc", "def", "ghi"} {
		if n, err := h.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("writing gives %d, %v", n, err)
		}
	}
	if kept, total := h.content(); string(kept) != "abcde" || total != 9 {
		t.Errorf("kept %q of %d bytes", kept, total)
	}
}

func TestATailKeepsTheEnd(t *testing.T) {
	for _, parts := range [][]string{{"abcdefghi"}, {"abc", "def", "ghi"}, {"abcdef", "", "ghi"}, {"a", "bcdefgh", "i"}} {
		kept := &tail{limit: 5}
		for _, part := range parts {
			if n, err := kept.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatalf("writing gives %d, %v", n, err)
			}
		}
		if kept.String() != "efghi" {
			t.Errorf("%q: kept %q", parts, kept)
		}
	}
}

type brokenLog struct{}

func (brokenLog) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAnEchoIsCutWithANote(t *testing.T) {
	var log bytes.Buffer
	e := &echo{log: &log, room: 4}
	for _, part := range []string{"ab", "cdef", "gh"} {
		if n, err := e.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("writing gives %d, %v", n, err)
		}
	}
	if got := log.String(); !strings.HasPrefix(got, "abcd\n") || strings.Contains(got, "ef") ||
		strings.Count(got, "not shown") != 1 {
		t.Errorf("the log has %q", got)
	}
}

func TestALogThatCannotBeWrittenDoesNotStopTheTool(t *testing.T) {
	e := &echo{log: brokenLog{}, room: 4}
	if n, err := e.Write([]byte("abcdef")); n != 6 || err != nil {
		t.Errorf("writing gives %d, %v", n, err)
	}
}

func TestTheParentOfAProcess(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (sh) S 7 12 12 0":           7,
		"12 (a) S 9 (b) c) R 34 1 1":    34,
		"12 (sh) S":                     0,
		"12 (sh) S x 1":                 0,
		"":                              0,
		"12 (\n) Z 1 12 12 0 -1 418435": 1,
	} {
		if got := parentOf([]byte(stat)); got != want {
			t.Errorf("%q: got %d, want %d", stat, got, want)
		}
	}
}
