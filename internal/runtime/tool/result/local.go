package result

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// Contents returns the files that a tool gets, by path, for a function in place of a container.
func (f Files) Contents() map[string][]byte {
	contents := map[string][]byte{}
	for _, file := range f.Files {
		contents[file.Path] = bytes.Clone(file.Content)
	}
	return contents
}

// Returned returns the files that a function has created or changed at the paths of outputs, and in directories with
// these paths, within the bounds that a container has.
func (f Files) Returned(after map[string][]byte, outputs []string) *Files {
	given := f.Contents()
	returned := &Files{Revision: f.Revision}
	sum := 0
	for _, path := range slices.Sorted(maps.Keys(after)) {
		before, had := given[path]
		if !within(path, outputs) || had && bytes.Equal(before, after[path]) {
			continue
		}
		file := File{Path: path, Content: after[path], Given: had}
		if len(file.Content) > MaxFileBytes || sum+len(file.Content) > MaxOutputFileBytes {
			file.Content, file.Problem = nil, ProblemSize
		}
		if len(returned.Files) == MaxFiles || len(path) > MaxPathBytes {
			returned.More++
			continue
		}
		sum += len(file.Content)
		returned.Files = append(returned.Files, file)
	}
	return returned
}

// within reports whether a path is one of others, or in a directory of one.
func within(path string, others []string) bool {
	return slices.ContainsFunc(others, func(other string) bool {
		return path == other || strings.HasPrefix(path, strings.TrimSuffix(other, "/")+"/")
	})
}

// WithFiles adds files to a report, and the output if it is longer than the result.
func (r Report) WithFiles(files *Files, stdout string, keepsOutput bool) Report {
	if keepsOutput && r.Cut {
		whole := Files{}
		if files != nil {
			whole = *files
		}
		whole.Output = []byte(stdout[:min(len(stdout), MaxOutputBytes)])
		files = &whole
	}
	r.Files = files
	return r
}
