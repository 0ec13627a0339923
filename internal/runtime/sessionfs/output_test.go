package sessionfs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// keep stores the output of a call under the cause of that call.
func (s *site) keep(turn, call, content string) (*KeptOutput, error) {
	return s.KeepOutput(s.t.Context(), record.Cause{Step: 1, Key: turn + "/" + call + "/output"}, turn, call,
		Output{Content: []byte(content), Total: int64(len(content))})
}

// Rules: TOOL-19.
func TestTheOutputOfACallIsAFile(t *testing.T) {
	s := newSite(t, Initial{Path: "/a", Content: "initial"})
	kept, err := s.keep("demo-1", "1-0", "found")
	if err != nil || kept.Path != "/outputs/demo-1.1-0.txt" || !kept.IsText || string(kept.Content) != "found" {
		t.Fatalf("kept %+v: %v", kept, err)
	}
	if got := s.content(kept.Path); got != "found" {
		t.Errorf("the file has %q", got)
	}
	if got := s.content("/a"); got != "initial" {
		t.Errorf("the initial file has %q", got)
	}
	if kept, err = s.keep("demo-1", "1-1", "\x00\xff"); err != nil || kept.IsText {
		t.Errorf("kept %+v: %v", kept, err)
	}
	output := Output{Content: []byte("x"), Total: 1}
	kept, err = s.KeepOutput(t.Context(), s.cause(), strings.Repeat("x", 253), "1-0", output)
	if err != nil || len(kept.Path) > 100 {
		t.Errorf("of a Turn with a long name: kept %+v: %v", kept, err)
	}
}

// The first output counts, which the model may know already.
func TestAnOutputIsKeptOnce(t *testing.T) {
	s := newSite(t)
	if _, err := s.keep("demo-1", "1-0", "first"); err != nil {
		t.Fatal(err)
	}
	kept, err := s.keep("demo-1", "1-0", "second, and longer")
	if err != nil || string(kept.Content) != "first" || kept.Total != 5 {
		t.Fatalf("kept %+v: %v", kept, err)
	}
	if _, err := s.Write(t.Context(), s.cause(), kept.Path, "changed", Text); err != nil {
		t.Fatal(err)
	}
	if _, err = s.keep("demo-1", "1-0", "second, and longer"); !told(err) {
		t.Errorf("an output that was changed is kept: %v", err)
	}
}

func TestOutputsStayWithinTheirBounds(t *testing.T) {
	for name, test := range map[string]struct {
		size, calls, kept int
	}{
		"many small ones":  {10, maxOutputs + 3, maxOutputs},
		"a few large ones": {record.MaxValueBytes, 10, maxOutputBytes / record.MaxValueBytes},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.write("/outputs/mine")
			for i := range test.calls {
				if _, err := s.keep("demo-1", fmt.Sprintf("1-%d", i), strings.Repeat("x", test.size)); err != nil {
					t.Fatal(err)
				}
			}
			paths := s.paths()
			if len(paths) != test.kept+2 || !slices.Contains(paths, "/outputs/mine") {
				t.Errorf("%d paths are left: %v", len(paths), paths)
			}
			if first := "/outputs/demo-1.1-0.txt"; slices.Contains(paths, first) {
				t.Errorf("%s is left", first)
			}
			if last := fmt.Sprintf("/outputs/demo-1.1-%d.txt", test.calls-1); !slices.Contains(paths, last) {
				t.Errorf("%s is not left", last)
			}
		})
	}
}

// Files that a user or a tool has written are never deleted for outputs.
func TestOutputsYieldToFiles(t *testing.T) {
	s := newSite(t)
	kept, err := s.keep("demo-1", "1-0", "found")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Edit(t.Context(), s.cause(), kept.Path, "found", "mine", false); err != nil {
		t.Fatal(err)
	}
	full := bytes.Repeat([]byte("x"), record.MaxValueBytes)
	o := record.Operation{Cause: s.cause()}
	for i := range record.MaxStoreBytes/record.MaxValueBytes - 1 {
		o.Put = append(o.Put, record.Put{Key: fmt.Sprintf("/%d", i), Value: full, Kind: kindFile})
	}
	if _, err := s.store.Apply(t.Context(), s.scope, o); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("y", record.MaxValueBytes-100)
	for _, call := range []string{"1-1", "1-2"} {
		if _, err := s.keep("demo-1", call, large); err != nil {
			t.Fatalf("call %s: %v", call, err)
		}
	}
	if slices.Contains(s.paths(), "/outputs/demo-1.1-1.txt") {
		t.Error("the older output is left")
	}
	if got := s.content(kept.Path); got != "mine" {
		t.Errorf("the file that was written to has %q", got)
	}
	s.write("/more")
	if _, err := s.keep("demo-1", "1-3", strings.Repeat("z", record.MaxValueBytes)); !told(err) {
		t.Errorf("an output for which there is no room is kept: %v", err)
	}
	output := Output{Content: []byte("x"), Total: 1}
	if _, err := s.KeepOutput(t.Context(), s.cause(), "demo-1", "1-0", output); !told(err) {
		t.Errorf("an output replaces a file: %v", err)
	}
}
