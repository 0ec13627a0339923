package builtin

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

const (
	readFileName = "read_file"
	// maxPartBytes is the size of a part that read_file returns by bytes, as JSON.
	maxPartBytes = 48 << 10
	// pathSchema is the schema of a path.
	pathSchema = `{
      "type": "string",
      "maxLength": 1024,
      "description": "Absolute path, such as /notes/today.md. /workspace is another name of the root."
    }`
	// fileClass makes the calls of a step that use files run one after the other, in the order of the response: one may
	// read what another has written.
	fileClass = "session_files"
	// defaultLines is the number of lines that read_file returns at most, unless it is asked for fewer.
	defaultLines = 2000
)

// sessionFileSystem gives the model the files of the Session (FS-01).
//
// The tools that change files are Idempotent: a change is recorded under its call, and a repeated call returns the
// first result.
var sessionFileSystem = Capability{
	Name:        "session_file_system",
	Description: "Gives the model tools for the files of the Session.",
	Tools: []Tool{
		{
			Name: readFileName,
			Description: "Reads a file of this session. Of a text it returns at most 2000 lines; read a longer one in parts, " +
				"with offset and limit, or one with very long lines with byte_offset. A binary file is returned in base64.",
			InputSchema: `{
  "type": "object",
  "required": ["path"],
  "properties": {
    "path": ` + pathSchema + `,
    "offset": {"type": "integer", "minimum": 1, "description": "First line to return, from 1."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 2000, "description": "Number of lines to return."},
    "byte_offset": {
      "type": "integer",
      "minimum": 0,
      "description": "First byte to return, from 0, in place of offset and limit. next_byte_offset is where to read on."
    }
  }
}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(readFile),
		},
		{
			Name: "write_file",
			Description: "Creates a file of this session, or replaces its whole content. " +
				"The directories above it are created.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["path", "content"],
  "properties": {
    "path": ` + pathSchema + `,
    "content": {"type": "string"},
    "encoding": {
      "type": "string",
      "enum": ["text", "base64"],
      "description": "text (default), or base64 for a binary file."
    }
  }
}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(writeFile),
		},
		{
			Name: "edit_file",
			Description: "Replaces a text in a file of this session. old_text must occur exactly once, " +
				"unless replace_all is true.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["path", "old_text", "new_text"],
  "properties": {
    "path": ` + pathSchema + `,
    "old_text": {"type": "string", "minLength": 1},
    "new_text": {"type": "string"},
    "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default: false."}
  }
}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(editFile),
		},
		{
			Name:             "list_directory",
			Description:      "Lists the files and directories in a directory of this session.",
			InputSchema:      `{"type": "object", "properties": {"path": ` + pathSchema + `}}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(listDirectory),
		},
		{
			Name:             "stat_file",
			Description:      "Describes a file or a directory of this session: its size, encoding and times.",
			InputSchema:      `{"type": "object", "required": ["path"], "properties": {"path": ` + pathSchema + `}}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(statFile),
		},
		{
			Name: "grep_files",
			Description: "Searches the lines of all text files of this session for a regular expression (RE2). " +
				"Binary files are skipped.",
			InputSchema: `{
  "type": "object",
  "required": ["pattern"],
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "maxLength": 256},
    "path_pattern": {
      "type": "string",
      "maxLength": 512,
      "description": "Searches only files whose path contains this text."
    }
  }
}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(grepFiles),
		},
		{
			Name:             "create_directory",
			Description:      "Creates a directory of this session, with those above it.",
			SideEffect:       v1alpha1.SideEffectIdempotent,
			InputSchema:      `{"type": "object", "required": ["path"], "properties": {"path": ` + pathSchema + `}}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(createDirectory),
		},
		{
			Name: "delete_file",
			Description: "Deletes a file or a directory of this session. " +
				"A directory that is not empty is deleted with recursive only.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["path"],
  "properties": {
    "path": ` + pathSchema + `,
    "recursive": {"type": "boolean", "description": "Delete a directory with all that is in it. Default: false."}
  }
}`,
			ConcurrencyClass: fileClass,
			Run:              withFiles(deleteFile),
		},
	},
}

// fileArguments are the arguments of all tools.
type fileArguments struct {
	Path, Content, Pattern string
	Encoding               sessionfs.Encoding
	OldText                string `json:"old_text"`
	NewText                string `json:"new_text"`
	PathPattern            string `json:"path_pattern"`
	ReplaceAll             bool   `json:"replace_all"`
	Recursive              bool
	Offset, Limit          int
	ByteOffset             *int `json:"byte_offset"`
}

// withFiles returns the Run of a tool that needs the files of the Session.
func withFiles(
	run func(context.Context, Call, Files, fileArguments) (any, error),
) func(context.Context, Call) (any, error) {
	return using("files", func(s Services) Files { return s.Files }, run)
}

// fileRead is what read_file returns.
type fileRead struct {
	Path     string             `json:"path"`
	Encoding sessionfs.Encoding `json:"encoding"`
	Size     int64              `json:"size"`
	// FirstLine is the number of the first line of a part, Lines that of all lines.
	FirstLine int `json:"first_line,omitempty"`
	Lines     int `json:"total_lines,omitempty"`
	// FirstByte is the number of the first byte of a part, from 0, NextByte that of the part after it, if there is one.
	FirstByte *int   `json:"byte_offset,omitempty"`
	NextByte  *int   `json:"next_byte_offset,omitempty"`
	Content   string `json:"content"`
}

func readFile(ctx context.Context, _ Call, files Files, a fileArguments) (any, error) {
	file, err := files.Read(ctx, a.Path)
	switch {
	case err != nil:
		return nil, err
	case file == nil:
		return nil, Errorf("%s does not exist.", a.Path)
	case file.IsDirectory:
		return nil, Errorf("%s is a directory. List it with list_directory.", file.Path)
	}
	read := fileRead{Path: file.Path, Encoding: file.Encoding, Size: file.Size, Content: file.Content}
	if file.Encoding != sessionfs.Text {
		return read, nil
	}
	if a.ByteOffset != nil {
		return readBytes(read, *a.ByteOffset)
	}
	lines := strings.SplitAfter(file.Content, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	first, most := max(a.Offset, 1), a.Limit
	if most == 0 {
		most = defaultLines
	}
	if first == 1 && len(lines) <= most {
		return read, nil
	}
	if first > len(lines) {
		return nil, Errorf("%s has %d lines.", file.Path, len(lines))
	}
	read.FirstLine, read.Lines = first, len(lines)
	read.Content = strings.Join(lines[first-1:min(first-1+most, len(lines))], "")
	return read, nil
}

// readBytes returns the part of a text that begins at a byte, or at the next character after it.
func readBytes(read fileRead, offset int) (any, error) {
	text := read.Content
	if offset >= len(text) && offset > 0 {
		return nil, Errorf("%s has %d bytes.", read.Path, len(text))
	}
	for offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset++
	}
	read.FirstByte, read.Content = &offset, fitting(text[offset:], maxPartBytes)
	if next := offset + len(read.Content); next < len(text) {
		read.NextByte = &next
	}
	return read, nil
}

// fileChanged is what the tools return that change files.
type fileChanged struct {
	Path string `json:"path"`
	*sessionfs.Written
}

// changed returns the result of a change of a path.
func changed(path string, written *sessionfs.Written, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	clean, err := sessionfs.Clean(path)
	return fileChanged{Path: clean, Written: written}, err
}

func writeFile(ctx context.Context, call Call, files Files, a fileArguments) (any, error) {
	if !utf8.ValidString(a.Content) {
		return nil, Errorf("The content is not valid UTF-8.")
	}
	written, err := files.Write(ctx, call.Cause, a.Path, a.Content, a.Encoding)
	return changed(a.Path, written, err)
}

func editFile(ctx context.Context, call Call, files Files, a fileArguments) (any, error) {
	written, err := files.Edit(ctx, call.Cause, a.Path, a.OldText, a.NewText, a.ReplaceAll)
	return changed(a.Path, written, err)
}

func createDirectory(ctx context.Context, call Call, files Files, a fileArguments) (any, error) {
	written, err := files.Mkdir(ctx, call.Cause, a.Path)
	return changed(a.Path, written, err)
}

func deleteFile(ctx context.Context, call Call, files Files, a fileArguments) (any, error) {
	deleted, err := files.Delete(ctx, call.Cause, a.Path, a.Recursive)
	return sessionfs.Deleted{Deleted: deleted}, err
}

func listDirectory(ctx context.Context, _ Call, files Files, a fileArguments) (any, error) {
	entries, err := files.List(ctx, a.Path)
	if entries == nil {
		entries = []sessionfs.Info{}
	}
	return map[string][]sessionfs.Info{"entries": entries}, err
}

func statFile(ctx context.Context, _ Call, files Files, a fileArguments) (any, error) {
	info, err := files.Stat(ctx, a.Path)
	if err == nil && info == nil {
		return nil, Errorf("%s does not exist.", a.Path)
	}
	return info, err
}

func grepFiles(ctx context.Context, _ Call, files Files, a fileArguments) (any, error) {
	return files.Grep(ctx, a.Pattern, a.PathPattern)
}

// ReadsFiles reports whether a model has the tools to read the files of its Session.
func ReadsFiles(tools definition.Set) bool {
	d := tools.Find(readFileName)
	return d != nil && d.Source.Kind == definition.KindBuiltin && d.Source.Name == sessionFileSystem.Name
}
