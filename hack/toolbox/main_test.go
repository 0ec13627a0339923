package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// asProgram makes the test binary the toolbox, for tests that need a process.
const asProgram = "TOOLBOX_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// call runs a tool as `toolbox NAME` would.
func call(t *testing.T, name, input string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errors bytes.Buffer
	code = run([]string{"/toolbox", name}, streams{in: strings.NewReader(input), out: &out, err: &errors})
	return out.String(), errors.String(), code
}

func TestToolsPrintTheirResult(t *testing.T) {
	tests := []struct{ name, tool, input, want string }{
		{"words", "word-count", `{"text":"How many words  has\nthis sentence?"}`, "6\n"},
		{"no words", "word-count", `{"text":"  "}`, "0\n"},
		{"no arguments", "word-count", "", "0\n"},
		{"unknown argument", "word-count", `{"text":"one","language":"en"}`, "1\n"},
		{"calculation", "calculate", `{"expression":"2*(3+4)"}`, "14\n"},
		{"echo of bytes", "echo", "a\x00\xff\n", "a\x00\xff\n"},
		{"digest", "sha256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"},
		{"sleep", "sleep", `{"seconds":0}`, "slept 0 s\n"},
		{"memory", "memory", `{"mib":2}`, "2 MiB touched\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := call(t, test.tool, test.input)
			if stdout != test.want || stderr != "" || code != 0 {
				t.Errorf("got %q, %q and exit code %d, want %q", stdout, stderr, code, test.want)
			}
		})
	}
}

func TestCountWritesItsProgressToStandardError(t *testing.T) {
	stdout, stderr, code := call(t, "count", `{"to":1}`)
	if stdout != "counted to 1\n" || stderr != "1 of 1\n" || code != 0 {
		t.Errorf("got %q, %q and exit code %d", stdout, stderr, code)
	}
}

func TestToolsFailWithAReason(t *testing.T) {
	tests := []struct {
		name, tool, input, want string
		code                    int
	}{
		{"malformed arguments", "word-count", `{"text":`, "not what this tool takes", exitFailed},
		{"argument of another type", "sleep", `{"seconds":"long"}`, "not what this tool takes", exitFailed},
		{"division by zero", "calculate", `{"expression":"1/0"}`, "division by zero", exitFailed},
		{"no city", "weather", `{}`, "which city", exitFailed},
		{"negative size", "emit", `{"bytes":-1}`, "negative", exitFailed},
		{"two lines", "append", `{"path":"/tmp/none","line":"a\nb"}`, "one line", exitFailed},
		{"unknown tool", "no-such-tool", "", "usage:", exitUsage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := call(t, test.tool, test.input)
			if stdout != "" || !strings.Contains(stderr, test.want) || code != test.code {
				t.Errorf("got %q, %q and exit code %d, want %q and %d", stdout, stderr, code, test.want, test.code)
			}
		})
	}
}

func TestToolIsSelectedByTheProgramsName(t *testing.T) {
	var out bytes.Buffer
	code := run([]string{"/usr/bin/echo"}, streams{in: strings.NewReader("hello"), out: &out, err: io.Discard})
	if out.String() != "hello" || code != 0 {
		t.Errorf("got %q and exit code %d", out.String(), code)
	}
}

func TestUsageHidesTheBackgroundTool(t *testing.T) {
	_, stderr, _ := call(t, "no-such-tool", "")
	if strings.Contains(stderr, backgroundTool) || !strings.Contains(stderr, "word-count") {
		t.Errorf("usage is %q", stderr)
	}
}

func TestFailWritesBothStreamsAndChoosesTheExitCode(t *testing.T) {
	tests := []struct {
		input string
		code  int
	}{
		{`{"code":7,"stdout":"so far","stderr":"so bad"}`, 7},
		{`{"code":0,"stdout":"so far","stderr":"so bad"}`, 1},
		{`{"code":300,"stdout":"so far","stderr":"so bad"}`, 1},
	}
	for _, test := range tests {
		stdout, stderr, code := call(t, "fail", test.input)
		if stdout != "so far" || stderr != "so bad" || code != test.code {
			t.Errorf("%s gives %q, %q and exit code %d, want %d", test.input, stdout, stderr, code, test.code)
		}
	}
}

func TestEmitWritesExactlyThatManyBytesOfValidText(t *testing.T) {
	for _, size := range []string{"0", "1", "2", "3", "6", "9", "10", "4096", "65537"} {
		stdout, _, code := call(t, "emit", `{"bytes":`+size+`}`)
		if got := len(stdout); code != 0 || size != itoa(got) {
			t.Errorf("asked for %s bytes, got %d and exit code %d", size, got, code)
		}
		if !utf8.ValidString(stdout) {
			t.Errorf("%s bytes are not valid UTF-8", size)
		}
	}
	stdout, _, _ := call(t, "emit", `{"bytes":4096}`)
	if len(stdout) == utf8.RuneCountInString(stdout) {
		t.Error("no rune has more than one byte")
	}
}

func TestAppendAddsALineForEveryRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	for _, line := range []string{"one", "two"} {
		if _, stderr, code := call(t, "append", `{"path":"`+path+`","line":"`+line+`"}`); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != "one\ntwo\n" {
		t.Errorf("the file holds %q", content)
	}
}

func TestForecastIsTheSameForTheSameCity(t *testing.T) {
	first, _, _ := call(t, "weather", `{"city":"Lisbon"}`)
	second, _, _ := call(t, "weather", `{"city":"Lisbon"}`)
	if first != second || !strings.HasPrefix(first, "Lisbon: ") {
		t.Errorf("got %q and then %q", first, second)
	}
	small := forecast("lisbon")
	if strings.TrimPrefix(small, "lisbon") != strings.TrimPrefix(strings.TrimSpace(first), "Lisbon") {
		t.Errorf("capitals change the weather: %q and %q", first, small)
	}
	if other := forecast("Oslo"); strings.TrimPrefix(other, "Oslo") == strings.TrimPrefix(small, "lisbon") {
		t.Errorf("two cities have the same weather: %q", other)
	}
}

func TestEnvironmentIsSortedAndOnlyTheRuntimes(t *testing.T) {
	var out bytes.Buffer
	err := writeEnv(
		&out,
		[]string{
			"PATH=/bin", "CAPSTAN_TURN=t<1>", "CAPSTAN_SESSION=a=b", "XCAPSTAN_NO=1", "CAPSTAN_EMPTY=", "TRACEPARENT=00-1",
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"CAPSTAN_EMPTY":"","CAPSTAN_SESSION":"a=b","CAPSTAN_TURN":"t<1>","TRACEPARENT":"00-1"}` + "\n"
	if out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}
