package sessionfs

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Written is the result of a write.
type Written struct {
	// Size of the file in bytes.
	Size int64 `json:"size"`
	// Created reports whether the file did not exist before.
	Created bool `json:"created"`
	// Replaced is the number of places that an edit has replaced.
	Replaced int `json:"replaced,omitempty"`
}

// Write creates a file, with the directories above it, or replaces its content (FS-01, FS-05).
func (fs *FS) Write(
	ctx context.Context, cause record.Cause, path, content string, encoding Encoding,
) (*Written, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	value, encoding, err := decode(path, content, encoding)
	if err != nil {
		return nil, err
	}
	written := &Written{}
	return written, fs.change(ctx, cause, written,
		func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
			return put(x, path, value, encoding)
		})
}

// WriteBytes is Write with the bytes of a file: it is text if they are.
func (fs *FS) WriteBytes(ctx context.Context, cause record.Cause, path string, content []byte) (*Written, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	if len(content) > record.MaxValueBytes {
		return nil, tooLarge(path, int64(len(content)))
	}
	encoding := Base64
	if IsText(content) {
		encoding = Text
	}
	written := &Written{}
	return written, fs.change(ctx, cause, written,
		func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
			return put(x, path, content, encoding)
		})
}

// put is the operation that writes a file.
func put(x *record.Index, path string, value []byte, encoding Encoding) (*record.Operation, any, error) {
	there, found := x.Find(path)
	switch {
	case path == root || there.Kind == kindDirectory:
		return nil, nil, Errorf("%s is a directory.", path)
	case there.Kind == kindReadOnly:
		return nil, nil, Errorf("%s is read-only.", path)
	}
	o, err := createParents(x, path)
	if err != nil {
		return nil, nil, err
	}
	o.Put = append(o.Put, record.Put{Key: path, Value: value, Encoding: string(encoding), Kind: kindFile})
	return o, Written{Size: int64(len(value)), Created: !found}, nil
}

// isWritable reports whether an item is a file that may be written.
func isWritable(item record.Item) bool {
	return item.Kind == kindFile || item.Kind == kindOutput
}

// createParents is the operation that creates the missing directories above a path.
func createParents(x *record.Index, path string) (*record.Operation, error) {
	o := &record.Operation{}
	for _, parent := range Parents(path) {
		switch above, found := x.Find(parent); {
		case !found:
			o.Put = append(o.Put, directory(parent))
		case above.Kind != kindDirectory:
			return nil, Errorf("%s is a file, not a directory.", parent)
		}
	}
	return o, nil
}

// matched is the result of a conditional write. Written is nil for a conflict.
type matched struct {
	Written *Written `json:"written,omitempty"`
}

// WriteIf replaces the content of a file if content and encoding are as expected (FS-02). It returns nil, and no error,
// if they are not, and for a file that does not exist and a directory. Reading and writing are one atomic operation.
func (fs *FS) WriteIf(
	ctx context.Context,
	cause record.Cause,
	path, expected string,
	expectedEncoding Encoding,
	content string,
	encoding Encoding,
) (*Written, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	before, expectedEncoding, err := decode(path, expected, expectedEncoding)
	if err != nil {
		return nil, err
	}
	value, encoding, err := decode(path, content, encoding)
	if err != nil {
		return nil, err
	}
	result := &matched{}
	err = fs.change(ctx, cause, result, func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
		item, found := x.Find(path)
		if !found || item.Kind == kindDirectory || Encoding(item.Encoding) != expectedEncoding ||
			item.Size != int64(len(before)) {
			return nil, matched{}, nil
		}
		there, err := fs.store.Load(ctx, fs.scope, item)
		if err != nil {
			return nil, nil, err
		}
		if !bytes.Equal(there, before) {
			return nil, matched{}, nil
		}
		o, written, err := put(x, path, value, encoding)
		if err != nil {
			return nil, nil, err
		}
		done, _ := written.(Written)
		return o, matched{Written: &done}, nil
	})
	return result.Written, err
}

// Edit replaces one text in a file by another: the only place where it is, or all places. It is one atomic operation.
func (fs *FS) Edit(
	ctx context.Context, cause record.Cause, path, before, after string, everywhere bool,
) (*Written, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	if before == "" || before == after || !utf8.ValidString(before+after) {
		return nil, Errorf("The text to replace must not be empty, and must differ from the new one.")
	}
	written := &Written{}
	return written, fs.change(ctx, cause, written,
		func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
			item, found := x.Find(path)
			switch {
			case !found:
				return nil, nil, Errorf("%s does not exist.", path)
			case isWritable(item) && Encoding(item.Encoding) != Text:
				return nil, nil, Errorf("%s is not a text.", path)
			}
			there, err := fs.store.Load(ctx, fs.scope, item)
			if err != nil {
				return nil, nil, err
			}
			text := string(there)
			places := strings.Count(text, before)
			switch {
			case isWritable(item) && places == 0:
				return nil, nil, Errorf("%s does not contain the text to replace. Read the file again.", path)
			case places > 1 && !everywhere:
				return nil, nil, Errorf("%s contains the text to replace %d times. Give more of the text around it, or "+
					"replace all.", path, places)
			}
			// The size is checked before the text is made: a few bytes in many places could become gigabytes.
			if size := item.Size + int64(places)*int64(len(after)-len(before)); size > record.MaxValueBytes {
				return nil, nil, tooLarge(path, size)
			}
			o, made, err := put(x, path, []byte(strings.ReplaceAll(text, before, after)), Text)
			if err != nil {
				return nil, nil, err
			}
			done, _ := made.(Written)
			done.Replaced = places
			return o, done, nil
		})
}

// Deleted is the result of a deletion.
type Deleted struct {
	// Deleted reports whether there is nothing left of the path. It is false for one that does not exist, and for a
	// directory that is not empty.
	Deleted bool `json:"deleted"`
}

// Delete deletes a file or a directory (FS-05). A directory that is not empty is deleted with recursive only.
func (fs *FS) Delete(ctx context.Context, cause record.Cause, path string, recursive bool) (bool, error) {
	path, err := Clean(path)
	if err != nil {
		return false, err
	}
	if path == root {
		return false, Errorf("The root directory cannot be deleted.")
	}
	result := &Deleted{}
	err = fs.change(ctx, cause, result, func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
		item, found := x.Find(path)
		if !found {
			return nil, Deleted{}, nil
		}
		o := &record.Operation{Delete: []string{path}}
		locked := ""
		if item.Kind == kindReadOnly {
			locked = path
		}
		for _, below := range x.Items {
			if item.Kind != kindDirectory || !strings.HasPrefix(below.Key, within(path)) {
				continue
			}
			if !recursive {
				return nil, Deleted{}, nil
			}
			if below.Kind == kindReadOnly && locked == "" {
				locked = below.Key
			}
			o.Delete = append(o.Delete, below.Key)
		}
		if locked != "" {
			return nil, nil, Errorf("%s is read-only.", locked)
		}
		return o, Deleted{Deleted: true}, nil
	})
	return result.Deleted, err
}

// Mkdir creates a directory with those above it. It is no error if it exists.
func (fs *FS) Mkdir(ctx context.Context, cause record.Cause, path string) (*Written, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	written := &Written{}
	return written, fs.change(ctx, cause, written,
		func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
			there, found := x.Find(path)
			switch {
			case path == root || there.Kind == kindDirectory:
				return nil, Written{}, nil
			case found:
				return nil, nil, Errorf("%s is a file.", path)
			}
			o, err := createParents(x, path)
			if err != nil {
				return nil, nil, err
			}
			o.Put = append(o.Put, directory(path))
			return o, Written{Created: true}, nil
		})
}
