package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// kept is the recording in docs.
func kept(t *testing.T) recording {
	t.Helper()
	file, err := os.Open("../../docs/chat.cast")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scenes are what the terminal shows before and after the mark, and the mark.
func scenes(t *testing.T, r recording) (before, mark, after string) {
	t.Helper()
	var b, a strings.Builder
	for _, m := range r.moments {
		switch {
		case m.kind == marked && mark != "":
			t.Fatalf("there are two marks, %q and %q", mark, m.text)
		case m.kind == marked:
			mark = m.text
		case mark == "":
			b.WriteString(m.text)
		default:
			a.WriteString(m.text)
		}
	}
	return plain(b.String()), mark, plain(a.String())
}

// script is the response of the simulated model of chat.yaml.
func script(t *testing.T) string {
	t.Helper()
	manifest, err := os.ReadFile("chat.yaml")
	if err != nil {
		t.Fatal(err)
	}
	model := v1alpha1.Model{}
	first, _, _ := strings.Cut(string(manifest), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(first), &model); err != nil {
		t.Fatal(err)
	}
	return model.Spec.Simulation.Response.Text
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestThePictureIsThatOfTheRecording(t *testing.T) {
	var drawn bytes.Buffer
	if err := kept(t).render(&drawn); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../docs/chat.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(picture, drawn.Bytes()) {
		t.Error("docs/chat.svg is stale: go run ./hack/record -draw")
	}
}

func TestTheRecordingShowsAChatThatGoesOnWhileItsManagerIsKilled(t *testing.T) {
	before, mark, after := scenes(t, kept(t))
	if !strings.Contains(mark, "kill -9 ") {
		t.Errorf("the mark names no kill: %q", mark)
	}
	all := before + after
	_, said, _ := strings.Cut(before, "agent      ")
	answer := script(t)
	// What was said when the manager was killed is the beginning of the response; the last word may be cut.
	said = words(said)
	if !strings.HasPrefix(answer, said) || len(strings.Fields(said)) < struckAfter-1 || said == answer {
		t.Errorf("before the kill, the agent has said %q", said)
	}
	for _, want := range []string{"$ " + shownCommands[0] + "\n", message, "$ " + shownCommands[1] + "\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("the recording lacks %q", want)
		}
	}
	chat, pods, found := strings.Cut(all, "── done")
	response := chat[strings.LastIndex(chat, "agent      ")+len("agent      "):]
	if !found || words(response) != answer {
		t.Errorf("the response is %q, not %q", words(response), answer)
	}
	if !regexp.MustCompile(`capstan-manager-\S+ +1/1 +Running +[1-9]`).MatchString(pods) {
		t.Errorf("the pod of the manager was not restarted:\n%s", pods)
	}
}

func TestTheRecordedCommandExists(t *testing.T) {
	for _, line := range shownCommands {
		arguments, own := strings.CutPrefix(line, "kubectl capstan ")
		if !own {
			continue
		}
		if found, _, err := command.Root().Find(strings.Fields(arguments)); err != nil || !found.Runnable() {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestARecordingIsReadAsItWasWritten(t *testing.T) {
	r := recording{header: header{Version: 2, Width: 10, Height: 2, Title: "<&>"}, moments: []moment{
		{at: 5 * time.Millisecond, kind: shown, text: "\x1b[32mü<\x1b[0m\r\n"},
		{at: 3 * time.Second, kind: marked, text: "kill"},
	}}
	var b bytes.Buffer
	if err := r.encode(&b); err != nil {
		t.Fatal(err)
	}
	again, err := decode(&b)
	if err != nil || len(again.moments) != 2 || again.header != r.header || again.moments[0] != r.moments[0] ||
		again.moments[1] != r.moments[1] {
		t.Errorf("%+v, %v", again, err)
	}
	for _, broken := range []string{"", "{}\n[1]\n", "{}\n[\"1\",\"o\",\"\"]\n", "[]\n"} {
		if _, err := decode(strings.NewReader(broken)); err == nil {
			t.Errorf("%q is read", broken)
		}
	}
}

func TestWaitsAreShortened(t *testing.T) {
	r := recording{moments: []moment{{at: time.Second}, {at: 30 * time.Second}, {at: 31 * time.Second}}}
	fast := r.hurried(2 * time.Second)
	for i, want := range []time.Duration{time.Second, 3 * time.Second, 4 * time.Second} {
		if fast.moments[i].at != want {
			t.Errorf("moment %d is at %s, not %s", i, fast.moments[i].at, want)
		}
	}
}

func TestCharactersThatWereReadInPiecesAreJoined(t *testing.T) {
	r := recording{moments: []moment{{kind: shown, text: "a\xe2\x94"}, {kind: marked, text: "kill"}, {
		kind: shown, text: "\x80b",
	}}}
	got := r.whole().moments
	if len(got) != 3 || got[0].text != "a" || got[1].text != "kill" || got[2].text != "─b" {
		t.Errorf("%+v", got)
	}
}

func TestWhatCannotBeDrawnIsRefused(t *testing.T) {
	s := &screen{width: 3}
	if err := s.draw("ab\x1b[1mcd\r\n\x1b[0me", 0); err != nil {
		t.Fatal(err)
	}
	want := []run{
		{text: "ab"}, {column: 2, style: "1", text: "c"}, {row: 1, style: "1", text: "d"}, {row: 2, text: "e"},
	}
	for i, w := range want {
		if len(s.runs) != len(want) || s.runs[i] != w {
			t.Errorf("%+v", s.runs)
		}
	}
	for _, bad := range []string{"\x1b[2J", "\x1b]0;title\a", "\a"} {
		if err := (&screen{width: 3}).draw(bad, 0); err == nil {
			t.Errorf("%q is drawn", bad)
		}
	}
}
