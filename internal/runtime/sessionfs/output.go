package sessionfs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// outputs is the directory of the outputs of calls.
	outputs = "/outputs"
	// maxOutputs and maxOutputBytes bound the outputs that a Session keeps. The oldest ones are deleted.
	maxOutputs     = 32
	maxOutputBytes = 4 << 20
	// sumBytes is how much of a digest identifies an output.
	sumBytes = 16
)

// Output is the output of a call, which is longer than its result (TOOL-19).
type Output struct {
	// Content is the start of the output.
	Content []byte
	// Total is the length of the whole output; -1 if it is unknown.
	Total int64
}

// KeptOutput is an Output that is a file.
type KeptOutput struct {
	Output
	// Path of the file. IsText reports whether its encoding is Text.
	Path   string
	IsText bool
}

// storedOutput is the result of the operation that has stored an output.
type storedOutput struct {
	Path  string `json:"path"`
	Sum   string `json:"sum"`
	Total int64  `json:"total"`
}

// KeepOutput stores the output of a call of a Turn as a file. Older outputs that nothing has written to since are
// deleted where it needs their room. If an output was stored under the cause before, that one counts, and is returned.
func (fs *FS) KeepOutput(
	ctx context.Context, cause record.Cause, turn, call string, output Output,
) (*KeptOutput, error) {
	path, err := Clean(outputs + "/" + outputName(turn, call))
	if err != nil {
		return nil, err
	}
	if len(output.Content) > maxOutputBytes || len(output.Content) > record.MaxValueBytes {
		return nil, tooLarge(path, int64(len(output.Content)))
	}
	kept := &KeptOutput{Output: output, Path: path, IsText: IsText(output.Content)}
	made := storedOutput{Path: path, Sum: sumOf(output.Content), Total: output.Total}
	var first storedOutput
	err = fs.change(ctx, cause, &first, func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
		o, err := keepOutput(x, path, output.Content)
		return o, made, err
	})
	if err != nil || first == made {
		return kept, err
	}
	// An execution before this one has stored another output, and the model may know of that one already.
	content, err := fs.bytesOf(ctx, first.Path)
	if err != nil {
		return nil, err
	}
	if sumOf(content) != first.Sum {
		return nil, Errorf("%s was changed meanwhile.", first.Path)
	}
	return &KeptOutput{
		Output: Output{Content: content, Total: first.Total}, Path: first.Path, IsText: IsText(content),
	}, nil
}

// outputName is the name of the file with the output of a call. The id of a call is unique in its Turn only.
func outputName(turn, call string) string {
	name := turn + "." + call + ".txt"
	if len(name) > maxNameBytes {
		return sumOf([]byte(turn)) + "." + call + ".txt"
	}
	return name
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:sumBytes])
}

// keepOutput is the operation that stores an output. It is a pure function.
func keepOutput(x *record.Index, path string, content []byte) (*record.Operation, error) {
	if there, found := x.Find(path); found && there.Kind != kindOutput {
		return nil, Errorf("%s exists.", path)
	}
	o, err := createParents(x, path)
	if err != nil {
		return nil, err
	}
	encoding := Base64
	if IsText(content) {
		encoding = Text
	}
	o.Put = append(o.Put, record.Put{Key: path, Value: content, Encoding: string(encoding), Kind: kindOutput})
	o.Delete = evicted(x, path, len(o.Put), int64(len(content)))
	return o, nil
}

// evicted are the oldest outputs, as many as must go for a further one that adds so many keys and bytes.
func evicted(x *record.Index, path string, keys int, bytes int64) []string {
	var kept []record.Item
	var sum int64
	for _, item := range x.Items {
		if item.Kind == kindOutput && item.Key != path {
			kept = append(kept, item)
			sum += item.Size
		}
	}
	slices.SortFunc(kept, func(a, b record.Item) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Key, b.Key))
	})
	all := x.Bytes()
	var gone []string
	for _, item := range kept {
		if len(kept)-len(gone) < maxOutputs && sum+bytes <= maxOutputBytes &&
			len(x.Items)-len(gone)+keys <= record.MaxKeys && all+bytes <= record.MaxStoreBytes {
			break
		}
		gone = append(gone, item.Key)
		sum -= item.Size
		all -= item.Size
	}
	return gone
}

// bytesOf returns the content of a file.
func (fs *FS) bytesOf(ctx context.Context, path string) ([]byte, error) {
	item, content, err := fs.store.Get(ctx, fs.scope, path)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return nil, Errorf("%s does not exist.", path)
	case err != nil:
		return nil, err
	case item.Kind == kindDirectory:
		return nil, Errorf("%s is a directory.", path)
	}
	return content, nil
}
