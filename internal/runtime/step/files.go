package step

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// maxFilesNote is the length of a note about files that were not stored: it is the result of an operation.
	maxFilesNote = 900
	// maxNotedPath is the length of a path in it.
	maxNotedPath = 128
)

// Inputs returns the files that a Job tool gets (FS-01), and the outcome of a call for which they are too large; nil
// otherwise. They are read when the call starts: an approval covers the paths, and not the contents.
func (run *Runner) Inputs(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, job *v1alpha1.JobTool,
) (*result.Files, *tool.Outcome, error) {
	if job.Files == nil {
		return nil, nil, nil
	}
	files := run.Files(t, InitialFiles(c))
	if files == nil {
		return nil, nil, errors.New("reading the files for a call: this process stores none")
	}
	paths := make([]string, len(job.Files.Inputs))
	for i, path := range job.Files.Inputs {
		paths[i] = string(path)
	}
	selected, err := files.Select(ctx, paths, result.MaxFiles, result.MaxInputBytes)
	switch {
	case errors.Is(err, sessionfs.ErrTooLarge):
		return nil, inputsTooLarge(paths), nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading the files for a call: %w", err)
	}
	inputs := &result.Files{Revision: selected.Revision}
	for _, file := range selected.Files {
		inputs.Files = append(inputs.Files, result.File{Path: file.Path, Content: file.Content})
	}
	return inputs, nil, nil
}

// Outputs returns the paths of the files and directories that a Job tool returns, as they are in the Session.
func Outputs(job *v1alpha1.JobTool) []string {
	if job.Files == nil {
		return nil
	}
	var paths []string
	for _, output := range job.Files.Outputs {
		// The API accepts no paths that cannot be cleaned.
		if clean, err := sessionfs.Clean(string(output)); err == nil {
			paths = append(paths, clean)
		}
	}
	return paths
}

// EncodedInputs returns the files that a Job tool gets as the value of an annotation; empty for a tool that shares
// none.
func (run *Runner) EncodedInputs(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, job *v1alpha1.JobTool,
) (string, *tool.Outcome, error) {
	inputs, refused, err := run.Inputs(ctx, t, c, job)
	if inputs == nil {
		return "", refused, err
	}
	text, err := result.EncodeInputs(*inputs)
	if errors.Is(err, result.ErrFilesTooLarge) {
		return "", inputsTooLarge([]string{"the files"}), nil
	}
	return text, nil, err
}

// inputsTooLarge is the outcome of a call whose files do not fit.
func inputsTooLarge(paths []string) *tool.Outcome {
	outcome := tool.NotExecuted(v1alpha1.ToolCallReasonFilesTooLarge, fmt.Sprintf(
		"the files that it gets (%s) are too large; the maximum is %d files with %d bytes together, and less if they cannot "+
			"be compressed. Delete or shorten some", excerpt.Of(strings.Join(paths, ", "), maxNotedPath), result.MaxFiles,
		result.MaxInputBytes))
	return &outcome
}

// StoreFiles writes the files that a Job tool has returned, in one operation under the call: a repeated one changes
// nothing. It returns the outcome of the call with a note about those that were not written. An error leaves open
// whether they are written, and it is safe to repeat it.
func (run *Runner) StoreFiles(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, call v1alpha1.ToolCall, outcome tool.Outcome,
	returned *result.Files,
) (tool.Outcome, error) {
	if returned == nil || outcome.Result == nil {
		return outcome, nil
	}
	var written []sessionfs.Content
	var problems []sessionfs.Refusal
	for _, file := range returned.Files {
		if file.Problem != "" {
			problems = append(problems, sessionfs.Refusal{Path: file.Path, Why: problemText(file.Problem)})
			continue
		}
		written = append(written, sessionfs.Content{Path: file.Path, Content: file.Content, Given: file.Given})
	}
	note := func(refused []sessionfs.Refusal) string {
		return filesNote(append(problems, refused...), returned.More)
	}
	cause := invocation.CauseOf(t, call.ID)
	cause.Key += "/files"
	text := note(nil)
	if files := run.Files(t, InitialFiles(c)); len(written) > 0 && files != nil {
		var err error
		text, err = files.Return(ctx, cause, returned.Revision, written, note)
		switch {
		case refusedForGood(err):
			text = "\n\n[No file was copied to the session: " + wordsOf(err) + "]"
		case err != nil:
			return outcome, fmt.Errorf("storing the files of call %s: %w", call.ID, err)
		}
	}
	if text != "" {
		added := content.Add(*outcome.Result, text)
		outcome.Result, outcome.FilesNote = &added, text
	}
	return outcome, nil
}

// refusedForGood reports whether a repeated operation would be refused again.
func refusedForGood(err error) bool {
	var shown *sessionfs.Error
	return errors.As(err, &shown) || errors.Is(err, record.ErrStale) || errors.Is(err, record.ErrInvalid)
}

// wordsOf is what the model reads of an error.
func wordsOf(err error) string {
	var shown *sessionfs.Error
	if errors.As(err, &shown) {
		return shown.Error()
	}
	return "a later step has changed its files."
}

// problemText is why a tool's container has not returned a file.
func problemText(problem result.Problem) string {
	switch problem {
	case result.ProblemSize:
		return "too large"
	case result.ProblemCount:
		return "too many files"
	case result.ProblemType:
		return "a link, or not a regular file"
	default:
		return "cannot be read"
	}
}

// filesNote is the note about files that are not in the Session; empty for none. It names as many as there is room for.
func filesNote(refused []sessionfs.Refusal, more int) string {
	if len(refused) == 0 && more == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("\n\n[Not copied to the session: ")
	for i, file := range refused {
		item := fmt.Sprintf("%s (%s)", nameInNote(file.Path), file.Why)
		if text.Len()+len(item) > maxFilesNote {
			more += len(refused) - i
			break
		}
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(item)
	}
	if more > 0 {
		fmt.Fprintf(&text, " and %d more", more)
	}
	text.WriteString(".]")
	return text.String()
}

// nameInNote is a path that a tool has chosen, in a form that can be shown.
func nameInNote(path string) string {
	if clean, err := sessionfs.Clean(path); err == nil {
		return excerpt.Of(clean, maxNotedPath)
	}
	return excerpt.Of(fmt.Sprintf("%q", path), maxNotedPath)
}
