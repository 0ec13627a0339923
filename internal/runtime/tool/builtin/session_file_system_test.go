package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// desk calls the tools for files, each call with a cause of its own.
type desk struct {
	t     *testing.T
	files Files
	calls int64
}

func newDesk(t *testing.T) *desk {
	store := record.New(memory.New(), record.Options{})
	return &desk{t: t, files: sessionfs.New(store, sessionfs.Session{Namespace: "default", Name: "demo", UID: "1"}, nil)}
}

// call calls a tool whose arguments satisfy the schema.
func (d *desk) call(name, arguments string) tool.Outcome {
	d.t.Helper()
	d.calls++
	definition := definitionOf(d.t, "session_file_system", name)
	_, schema := definition.Offer()
	if err := inputschema.NewValidator().Validate(schema, arguments); err != nil {
		d.t.Fatalf("the schema of %s refuses %s: %v", name, arguments, err)
	}
	planned := v1alpha1.ToolCall{ID: "1-0", Attempt: 1}
	definition.Pin(&planned)
	outcome, defect := Run(d.t.Context(), definition, planned, Call{
		Arguments: arguments,
		Now:       noon,
		Services:  Services{Files: d.files},
		Cause:     record.Cause{Step: d.calls, Key: "turn/1-0"},
	})
	if defect != nil {
		d.t.Fatalf("%s %s: %v", name, arguments, defect)
	}
	return outcome
}

// Rules: FS-01.
func TestTheToolsForFiles(t *testing.T) {
	d := newDesk(t)
	for _, test := range []struct{ tool, arguments, want string }{
		{"list_directory", `{}`, `{"entries":[]}`},
		{
			"write_file", `{"path": "/workspace/a/b.txt", "content": "one\ntwo\nthree"}`,
			`{"path":"/a/b.txt","size":13,"created":true}`,
		},
		{
			"read_file", `{"path": "/a/b.txt"}`,
			`{"path":"/a/b.txt","encoding":"text","size":13,"content":"one\ntwo\nthree"}`,
		},
		{
			"read_file", `{"path": "/a/b.txt", "offset": 2, "limit": 1}`,
			`{"path":"/a/b.txt","encoding":"text","size":13,"first_line":2,"total_lines":3,"content":"two\n"}`,
		},
		{
			"read_file", `{"path": "/a/b.txt", "offset": 3, "limit": 9}`,
			`{"path":"/a/b.txt","encoding":"text","size":13,"first_line":3,"total_lines":3,"content":"three"}`,
		},
		{"read_file", `{"path": "/a/b.txt", "offset": 4}`, `! /a/b.txt has 3 lines.`},
		{
			"edit_file", `{"path": "/a/b.txt", "old_text": "two", "new_text": "<2>"}`,
			`{"path":"/a/b.txt","size":13,"created":false,"replaced":1}`,
		},
		{
			"edit_file", `{"path": "/a/b.txt", "old_text": "e", "new_text": "E"}`,
			`! /a/b.txt contains the text to replace 3 times. Give more of the text around it, or replace all.`,
		},
		{
			"edit_file", `{"path": "/a/b.txt", "old_text": "e", "new_text": "E", "replace_all": true}`,
			`{"path":"/a/b.txt","size":13,"created":false,"replaced":3}`,
		},
		{
			"grep_files", `{"pattern": "^<", "path_pattern": "b.t"}`,
			`{"matches":[{"path":"/a/b.txt","line":2,"text":"<2>"}]}`,
		},
		{"grep_files", `{"pattern": "nothing"}`, `{"matches":[]}`},
		{"grep_files", `{"pattern": "("}`, "! The search is not made: " +
			"the pattern \"(\" is not valid: error parsing regexp: missing closing ): `(`."},
		{"write_file", `{"path": "/c", "content": "AAEC", "encoding": "base64"}`, `{"path":"/c","size":3,"created":true}`},
		{"read_file", `{"path": "/c"}`, `{"path":"/c","encoding":"base64","size":3,"content":"AAEC"}`},
		{
			"write_file", `{"path": "/d", "content": "?", "encoding": "base64"}`,
			`! The content of /d is not valid base64: illegal base64 data at input byte 0.`,
		},
		{
			"write_file", `{"path": "/../d", "content": "?"}`,
			`! The path "/../d" has the name "..". Write the path from / on, without it.`,
		},
		{"create_directory", `{"path": "/e/f"}`, `{"path":"/e/f","size":0,"created":true}`},
		{"read_file", `{"path": "/e"}`, `! /e is a directory. List it with list_directory.`},
		{"read_file", `{"path": "/g"}`, `! /g does not exist.`},
		{"stat_file", `{"path": "/g"}`, `! /g does not exist.`},
		{"delete_file", `{"path": "/e"}`, `{"deleted":false}`},
		{"delete_file", `{"path": "/e", "recursive": true}`, `{"deleted":true}`},
		{"delete_file", `{"path": "/"}`, `! The root directory cannot be deleted.`},
	} {
		outcome := d.call(test.tool, test.arguments)
		got := "! " + outcome.Error
		if outcome.Result != nil {
			got = *outcome.Result
		}
		if got != test.want {
			t.Errorf("%s %s gives %s, want %s", test.tool, test.arguments, got, test.want)
		}
	}
	var listed struct{ Entries []sessionfs.Info }
	outcome := d.call("list_directory", `{"path": "/"}`)
	if err := json.Unmarshal([]byte(*outcome.Result), &listed); err != nil || len(listed.Entries) != 2 ||
		listed.Entries[0].Path != "/a" || !listed.Entries[0].IsDirectory || listed.Entries[1].Name != "c" {
		t.Errorf("the root has %s", *outcome.Result)
	}
	var described sessionfs.Info
	outcome = d.call("stat_file", `{"path": "/c"}`)
	if err := json.Unmarshal([]byte(*outcome.Result), &described); err != nil || described.Size != 3 ||
		described.Encoding != sessionfs.Base64 || described.Created == nil {
		t.Errorf("/c is %s", *outcome.Result)
	}
}

func TestALongFileIsReadInParts(t *testing.T) {
	d := newDesk(t)
	content, err := json.Marshal(strings.Repeat("line\n", 3_000))
	if err != nil {
		t.Fatal(err)
	}
	d.call("write_file", `{"path": "/long", "content": `+string(content)+`}`)
	for arguments, lines := range map[string]int{
		`{"path": "/long"}`: 2_000, `{"path": "/long", "offset": 2001}`: 1_000, `{"path": "/long", "limit": 7}`: 7,
	} {
		var read fileRead
		if err := json.Unmarshal([]byte(*d.call("read_file", arguments).Result), &read); err != nil ||
			strings.Count(read.Content, "\n") != lines || read.Lines != 3_000 {
			t.Errorf("%s gives %d of %d lines, %v", arguments, strings.Count(read.Content, "\n"), read.Lines, err)
		}
	}
}

func TestAFileWithALongLineIsReadByBytes(t *testing.T) {
	d := newDesk(t)
	whole := strings.Repeat("ä\t", 20_000)
	content, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	d.call("write_file", `{"path": "/long", "content": `+string(content)+`}`)
	text, parts := "", 0
	for next := new(int); next != nil; parts++ {
		outcome := d.call("read_file", fmt.Sprintf(`{"path": "/long", "byte_offset": %d}`, *next))
		var read fileRead
		if err := json.Unmarshal([]byte(*outcome.Result), &read); err != nil || len(*outcome.Result) > tool.MaxResultBytes {
			t.Fatalf("part %d has %d bytes: %v", parts, len(*outcome.Result), err)
		}
		text += read.Content
		next = read.NextByte
	}
	if text != whole || parts < 2 {
		t.Errorf("%d bytes in %d parts", len(text), parts)
	}
	got := *d.call("read_file", `{"path": "/long", "byte_offset": 1}`).Result
	if !strings.Contains(got, `"byte_offset":2,`) {
		t.Errorf("from within a character it reads %.100s", got)
	}
	if got := d.call("read_file", `{"path": "/long", "byte_offset": 60000}`); got.Error != "/long has 60000 bytes." {
		t.Errorf("beyond the end it reads %+v", got)
	}
}

// Rules: CTX-01.
func TestWithoutFilesTheToolsSaySo(t *testing.T) {
	d := newDesk(t)
	d.files = nil
	for name, arguments := range map[string]string{
		"read_file": `{"path": "/a"}`, "write_file": `{"path": "/a", "content": ""}`, "list_directory": `{}`,
		"edit_file": `{"path": "/a", "old_text": "a", "new_text": "b"}`, "grep_files": `{"pattern": "a"}`,
		"stat_file": `{"path": "/a"}`, "create_directory": `{"path": "/a"}`, "delete_file": `{"path": "/a"}`,
	} {
		if outcome := d.call(name, arguments); outcome.Error != "This session has no files." ||
			outcome.Reason != v1alpha1.ToolCallReasonToolError {
			t.Errorf("%s ends with %+v", name, outcome)
		}
	}
}

// An error of the store is for the log, and the model learns only that the call may be repeated.
func TestAStoreThatFailsIsADefect(t *testing.T) {
	store := record.New(&brokenObjects{Objects: memory.New()}, record.Options{})
	files := sessionfs.New(store, sessionfs.Session{Namespace: "default", Name: "demo", UID: "1"}, nil)
	definition := definitionOf(t, "session_file_system", "write_file")
	planned := v1alpha1.ToolCall{ID: "1-0", Attempt: 1}
	definition.Pin(&planned)
	outcome, defect := Run(t.Context(), definition, planned, Call{
		Arguments: `{"path": "/a", "content": "a"}`,
		Services:  Services{Files: files},
		Cause:     record.Cause{Step: 1, Key: "turn/1-0"},
	})
	if outcome.Reason != v1alpha1.ToolCallReasonInternalError || strings.Contains(outcome.Error, "hunter2") ||
		defect == nil || !strings.Contains(defect.Error(), "hunter2") {
		t.Errorf("it ends with %+v, %v", outcome, defect)
	}
}

// brokenObjects cannot be reached.
type brokenObjects struct{ *memory.Objects }

// ReadIndex implements record.Objects.
func (*brokenObjects) ReadIndex(context.Context, record.Scope) (record.Stored, error) {
	return record.Stored{}, errors.New("dial tcp: password hunter2")
}
