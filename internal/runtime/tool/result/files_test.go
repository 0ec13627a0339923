package result

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// read returns what the manager reads of a report.
func read(t *testing.T, r Report, before string) (string, *Files) {
	t.Helper()
	message, frame := r.Encode(testNonce)
	if len(message) > MaxMessageBytes {
		t.Fatalf("the message has %d bytes", len(message))
	}
	m, err := Decode(string(message))
	if err != nil {
		t.Fatal(err)
	}
	text, files, err := m.ReadLog(strings.NewReader(before + string(frame)))
	if err != nil {
		t.Fatal(err)
	}
	return text, files
}

func random(t *testing.T, size int) []byte {
	t.Helper()
	content := make([]byte, size)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	return content
}

func TestFilesArriveBehindAResultOfAnySize(t *testing.T) {
	files := &Files{
		Revision: 7, More: 2, Output: random(t, MaxOutputBytes),
		Files: []File{
			{Path: "/a", Content: []byte("a\ncapstan-files x 1\n")},
			{Path: "/b", Content: random(t, MaxFileBytes), Given: true},
			{Path: "/c", Content: random(t, MaxOutputFileBytes-MaxFileBytes-100)},
			{Path: "/d", Problem: ProblemType},
		},
	}
	for _, size := range []int{0, 100, 3000, MaxResultBytes} {
		report := success(strings.Repeat("x", size))
		report.Files = files
		text, got := read(t, report, strings.Repeat("y", MaxLogStderrBytes))
		if text != report.Result || !reflect.DeepEqual(got, files) {
			t.Errorf("%d: %d bytes and other files came back", size, len(text))
		}
	}
}

// What the tool itself writes to its log is no file: it cannot know the nonce.
func TestForgedFilesArePassedOver(t *testing.T) {
	forged := success("x")
	forged.Files = &Files{Files: []File{{Path: "/evil"}}}
	_, frame := forged.Encode(strings.Repeat("ab", nonceBytes))
	report := success("x")
	report.Files = &Files{Files: []File{{Path: "/good"}}}
	if _, got := read(t, report, string(frame)); len(got.Files) != 1 || got.Files[0].Path != "/good" {
		t.Errorf("it returns %+v", got)
	}
	message, frame := report.Encode(testNonce)
	m, err := Decode(string(message))
	if err != nil {
		t.Fatal(err)
	}
	for name, log := range map[string]string{
		"nothing":        "",
		"an early end":   string(frame[:len(frame)-5]),
		"a changed byte": strings.Replace(string(frame), "good", "evil", 1),
	} {
		if _, _, err := m.ReadLog(strings.NewReader(log)); !errors.Is(err, ErrNoFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABundleIsBoundedBeforeItIsDecoded(t *testing.T) {
	line := `{"path":"/a"}` + "\n"
	for name, text := range map[string]string{
		"nothing":            "",
		"too many files":     `{"files":129}` + "\n" + strings.Repeat(line, 129),
		"a negative number":  `{"files":-1}` + "\n",
		"fewer than it says": `{"files":2}` + "\n" + line,
		"a long line":        `{"files":1}` + "\n" + `{"path":"` + strings.Repeat("x", maxLineBytes) + `"}` + "\n",
		"a long path":        `{"files":1}` + "\n" + `{"path":"` + strings.Repeat("x", MaxPathBytes+1) + `"}` + "\n",
		"no JSON":            `{"files":1}` + "\n" + "x\n",
	} {
		if files, err := readBundle(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", name, files)
		}
	}
}

func TestTheFilesOfACallFitIntoAnAnnotation(t *testing.T) {
	text := bytes.Repeat([]byte("package main\n"), MaxInputBytes/13)
	for name, test := range map[string]struct {
		files []File
		fits  bool
	}{
		"none":                      {nil, true},
		"as much text as there may": {[]File{{Path: "/a", Content: text}}, true},
		"more text":                 {[]File{{Path: "/a", Content: text}, {Path: "/b", Content: text}}, false},
		"what cannot be compressed": {[]File{{Path: "/a", Content: random(t, 110_000)}}, true},
		"more of that":              {[]File{{Path: "/a", Content: random(t, MaxInputBytes)}}, false},
		"too many":                  {make([]File, MaxFiles+1), false},
	} {
		given := Files{Revision: 3, Files: test.files}
		annotation, err := EncodeInputs(given)
		if (err == nil) != test.fits || err != nil && !errors.Is(err, ErrFilesTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if got, err := DecodeInputs(annotation); err != nil || !reflect.DeepEqual(*got, given) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeInputs(strings.Repeat("A", maxInputText+1)); !errors.Is(err, ErrFilesTooLarge) {
		t.Errorf("a long annotation: %v", err)
	}
}

func TestAFunctionReturnsFilesAsAContainerDoes(t *testing.T) {
	given := Files{
		Revision: 5,
		Files:    []File{{Path: "/src/a", Content: []byte("a")}, {Path: "/src/b", Content: []byte("b")}},
	}
	after := given.Contents()
	after["/src/a"], after["/src/c"], after["/other"] = []byte("changed"), []byte("c"), []byte("not returned")
	after["/src/large"] = make([]byte, MaxFileBytes+1)
	want := &Files{Revision: 5, Files: []File{
		{Path: "/src/a", Content: []byte("changed"), Given: true},
		{Path: "/src/c", Content: []byte("c")},
		{Path: "/src/large", Problem: ProblemSize},
	}}
	if got := given.Returned(after, []string{"/src"}); !reflect.DeepEqual(got, want) {
		t.Errorf("it returns %+v", got)
	}
	for i := range MaxFiles + 1 {
		after[fmt.Sprintf("/many/%03d", i)] = []byte("x")
	}
	if got := given.Returned(after, []string{"/many"}); len(got.Files) != MaxFiles || got.More != 1 {
		t.Errorf("it returns %d files, and %d more", len(got.Files), got.More)
	}
}
