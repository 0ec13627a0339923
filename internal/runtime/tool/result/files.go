package result

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxFiles is the maximum number of files that a tool gets, and of those that it returns.
	MaxFiles = 128
	// MaxFileBytes is the maximum size of one file.
	MaxFileBytes = 512 << 10
	// MaxInputBytes is the maximum size of the files that a tool gets.
	MaxInputBytes = 128 << 10
	// MaxOutputFileBytes is the maximum size of the files that a tool returns.
	MaxOutputFileBytes = 1 << 20
	// MaxPathBytes is the maximum length of the path of a file.
	MaxPathBytes = 512

	// maxInputText is the maximum size of the files that a tool gets as they are in an annotation. All annotations of an
	// object have at most 256 KiB, of which the arguments of a call may have 96 KiB.
	maxInputText = 152 << 10
	// maxLineBytes is the maximum size of a line of a bundle, and maxBundleBytes that of a bundle.
	maxLineBytes   = MaxFileBytes/3*4 + 8<<10
	maxBundleBytes = (MaxOutputFileBytes+MaxOutputBytes)/3*4 + MaxFiles*(2*MaxPathBytes+512)
)

// ErrFilesTooLarge reports files that do not fit into an annotation.
var ErrFilesTooLarge = errors.New("the files are too large")

// Problem is why a file is not returned.
type Problem string

const (
	// ProblemSize is a file that is larger than MaxFileBytes, or with which all are larger than MaxOutputFileBytes.
	ProblemSize Problem = "Size"
	// ProblemCount is a file beyond the first MaxFiles.
	ProblemCount Problem = "Count"
	// ProblemType is a symbolic link, a hard link, a device, a pipe or a socket.
	ProblemType Problem = "Type"
	// ProblemRead is a file that cannot be read.
	ProblemRead Problem = "Read"
)

// File is a file that a tool gets from its Session, or returns to it.
type File struct {
	// Path in the Session, which is that below the working directory in the container.
	Path string `json:"path"`
	// Content of the file.
	Content []byte `json:"content,omitempty"`
	// Given reports whether the tool got the file, and has changed it.
	Given bool `json:"given,omitempty"`
	// Problem is why there is no Content; empty if there is.
	Problem Problem `json:"problem,omitempty"`
}

// Files are the files that a tool gets, or returns.
type Files struct {
	// Revision of the files of the Session that the tool got.
	Revision int64
	// Files in the order of their paths.
	Files []File
	// More is the number of files that are left out without being named.
	More int
	// Output is the start of an output that is longer than a result; nil for none.
	Output []byte
}

// filesHead is the first line of a bundle; the others are files.
type filesHead struct {
	Revision int64  `json:"revision"`
	Files    int    `json:"files"`
	More     int    `json:"more,omitempty"`
	Output   []byte `json:"output,omitempty"`
}

// bundle writes files, one in a line.
func (f Files) bundle() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	// Numbers, strings and bytes always encode.
	_ = encoder.Encode(filesHead{Revision: f.Revision, Files: len(f.Files), More: f.More, Output: f.Output})
	for _, file := range f.Files {
		_ = encoder.Encode(file)
	}
	return text.Bytes()
}

// readBundle reads files. Each line is bounded before it is decoded, and so is their number.
func readBundle(text io.Reader) (*Files, error) {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, maxLineBytes)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("there is no first line"), lines.Err())
	}
	var head filesHead
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
		return nil, fmt.Errorf("decoding the first line: %w", err)
	}
	if head.Files < 0 || head.Files > MaxFiles || head.More < 0 || len(head.Output) > MaxOutputBytes {
		return nil, errors.New("it has more files or a longer output than is possible")
	}
	f := &Files{Revision: head.Revision, More: head.More, Output: head.Output}
	for range head.Files {
		if !lines.Scan() {
			return nil, errors.Join(errors.New("it is truncated"), lines.Err())
		}
		var file File
		if err := json.Unmarshal(lines.Bytes(), &file); err != nil {
			return nil, fmt.Errorf("decoding a file: %w", err)
		}
		if len(file.Path) > MaxPathBytes || len(file.Content) > MaxFileBytes {
			return nil, errors.New("a file is larger than is possible")
		}
		f.Files = append(f.Files, file)
	}
	return f, nil
}

// EncodeInputs returns the files that a tool gets, as the value of an annotation. The error is ErrFilesTooLarge if they
// do not fit.
func EncodeInputs(f Files) (string, error) {
	sum := 0
	for _, file := range f.Files {
		sum += len(file.Content)
	}
	if sum > MaxInputBytes || len(f.Files) > MaxFiles {
		return "", ErrFilesTooLarge
	}
	var text bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &text)
	compressor := gzip.NewWriter(encoder)
	// A buffer accepts everything.
	_, err := compressor.Write(f.bundle())
	if err = errors.Join(err, compressor.Close(), encoder.Close()); err != nil {
		return "", fmt.Errorf("compressing files: %w", err)
	}
	if text.Len() > maxInputText {
		return "", ErrFilesTooLarge
	}
	return text.String(), nil
}

// DecodeInputs reverses EncodeInputs. What is decompressed is bounded.
func DecodeInputs(text string) (*Files, error) {
	if len(text) > maxInputText {
		return nil, fmt.Errorf("reading the files of a call: %w", ErrFilesTooLarge)
	}
	decompressor, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	if err != nil {
		return nil, fmt.Errorf("reading the files of a call: %w", err)
	}
	f, err := readBundle(io.LimitReader(decompressor, maxBundleBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the files of a call: %w", err)
	}
	return f, nil
}
