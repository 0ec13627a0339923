package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	recordmemory "github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// exchange is a Turn with a file, and a Job tool that gets and returns files.
func exchange(t *testing.T) (*bench, turnstate.Turn, *v1alpha1.JobTool) {
	t.Helper()
	b := newBench(t)
	b.Records = record.New(recordmemory.New(), record.Options{})
	turn := newTurn("demo-1")
	b.writeFile(turn, "/src/a", "a")
	return b, turn, &v1alpha1.JobTool{Files: &v1alpha1.JobFiles{
		Inputs: []v1alpha1.JobFilePath{"/src"}, Outputs: []v1alpha1.JobFilePath{"/src"},
	}}
}

func (b *bench) writeFile(turn turnstate.Turn, path, content string) {
	b.t.Helper()
	cause := record.Cause{Step: 1, Key: "test " + path + content[:1]}
	if _, err := b.Files(turn, nil).Write(b.t.Context(), cause, path, content, sessionfs.Text); err != nil {
		b.t.Fatal(err)
	}
}

func TestAJobGetsFilesUnlessTheyAreTooLarge(t *testing.T) {
	b, turn, job := exchange(t)
	text, refused, err := b.EncodedInputs(t.Context(), turn, turnstate.Config{}, job)
	if err != nil || refused != nil {
		t.Fatalf("refused %+v: %v", refused, err)
	}
	files, err := result.DecodeInputs(text)
	if err != nil || len(files.Files) != 1 || files.Files[0].Path != "/src/a" || files.Revision == 0 {
		t.Errorf("it gets %+v: %v", files, err)
	}
	if text, refused, err := b.EncodedInputs(t.Context(), turn, turnstate.Config{}, &v1alpha1.JobTool{}); text != "" ||
		refused != nil || err != nil {
		t.Errorf("a tool without files gets %q, %+v: %v", text, refused, err)
	}
	b.writeFile(turn, "/src/large", strings.Repeat("x", result.MaxInputBytes))
	_, refused, err = b.EncodedInputs(t.Context(), turn, turnstate.Config{}, job)
	if err != nil || refused == nil || refused.State != v1alpha1.ToolCallStateNotExecuted ||
		refused.Reason != v1alpha1.ToolCallReasonFilesTooLarge || !strings.Contains(refused.Error, "(/src)") {
		t.Errorf("refused %+v: %v", refused, err)
	}
}

func TestTheResultNamesFilesThatAreNotStored(t *testing.T) {
	b, turn, job := exchange(t)
	inputs, _, err := b.Inputs(t.Context(), turn, turnstate.Config{}, job)
	if err != nil {
		t.Fatal(err)
	}
	b.writeFile(turn, "/src/a", "changed")
	long := ended(strings.Repeat("out\n", 30_000))
	returned := &result.Files{Revision: inputs.Revision, More: 3, Files: []result.File{
		{Path: "/src/a", Content: []byte("x"), Given: true},
		{Path: "/src/b", Content: []byte("b")},
		{Path: "/src/c", Problem: result.ProblemType},
	}}
	call := v1alpha1.ToolCall{ID: "1-0", Name: "test"}
	c := turnstate.Config{Tools: builtin.Definitions("session_file_system")}
	const note = "\n\n[Not copied to the session: /src/c (a link, or not a regular file), /src/a (changed meanwhile) " +
		"and 3 more.]"
	for range 2 { // A process that was killed before the call was settled repeats it.
		outcome, err := b.StoreFiles(t.Context(), turn, c, call, long, returned)
		if err != nil || !strings.HasSuffix(*outcome.Result, note) || len(*outcome.Result) > tool.MaxResultBytes {
			t.Fatalf("outcome %+v: %v", outcome, err)
		}
		kept, err := b.After(turn, c, call, "{}")(t.Context(), outcome)
		if err != nil || !strings.HasSuffix(*kept.Result, note) ||
			!strings.Contains(*kept.Result, "/outputs/demo-1.1-0.txt") {
			t.Errorf("outcome %+v: %v", kept, err)
		}
		if len(*kept.Result) > tool.MaxResultBytes {
			t.Errorf("the result has %d bytes", len(*kept.Result))
		}
	}
	for path, want := range map[string]string{"/src/a": "changed", "/src/b": "b"} {
		if file, err := b.Files(turn, nil).Read(t.Context(), path); err != nil || file.Content != want {
			t.Errorf("%s is %+v: %v", path, file, err)
		}
	}
}

func TestALongListOfFilesThatAreNotStoredIsCut(t *testing.T) {
	var refused []sessionfs.Refusal
	for range 100 {
		refused = append(refused, sessionfs.Refusal{Path: "/" + strings.Repeat("x", 100) + "\n]", Why: "read-only"})
	}
	note := filesNote(refused, 0)
	if len(note) > record.MaxResultBytes || strings.Contains(note[2:], "\n") || !strings.HasSuffix(note, " more.]") {
		t.Errorf("the note is %q", note)
	}
}

// A store that refuses the files for good does not keep the call open; any other error does.
func TestFilesThatCannotBeStored(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		note string
	}{
		"a quota":      {record.ErrRefused, "[No file was copied to the session: The server refuses the change."},
		"a lost write": {recordtest.ErrInjected, ""},
	} {
		objects := recordtest.Wrap(recordmemory.New())
		objects.Intercept(func(call recordtest.Call) recordtest.Fault {
			return recordtest.Fault{Before: func(context.Context) error {
				if call.Method == recordtest.ReadIndex {
					return nil
				}
				return test.err
			}}
		})
		b := newBench(t)
		b.Records = record.New(objects, record.Options{})
		outcome, err := b.StoreFiles(t.Context(), newTurn("demo-1"), turnstate.Config{}, v1alpha1.ToolCall{ID: "1-0"},
			ended("done"), &result.Files{Files: []result.File{{Path: "/a", Content: []byte("a")}}})
		switch {
		case test.note == "" && !errors.Is(err, test.err):
			t.Errorf("%s: %v", name, err)
		case test.note != "" && (err != nil || !strings.Contains(*outcome.Result, test.note)):
			t.Errorf("%s: %+v: %v", name, outcome, err)
		}
	}
}
