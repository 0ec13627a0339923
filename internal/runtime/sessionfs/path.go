package sessionfs

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// root is the path of the directory that always exists.
	root = "/"
	// workspace, at the beginning of a path, is another name of the root.
	workspace = "workspace"
	// maxNameBytes is the maximum length of a name, and maxDepth the maximum number of names in a path.
	maxNameBytes = 255
	maxDepth     = 32
)

// Clean returns the form of a path in which files are stored (FS-04, CFG-04): absolute, without empty names and
// without a slash at the end. /workspace is the root. A path with `..` or `.` is refused: it is never resolved.
func Clean(path string) (string, error) {
	if !utf8.ValidString(path) {
		return "", Errorf("The path %.200q is not valid UTF-8.", path)
	}
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "", len(names) == 0 && name == workspace:
			// The root has no directory with its own other name, so that a clean path stays the same if cleaned again.
			continue
		case name == "." || name == "..":
			return "", Errorf("The path %.200q has the name %q. Write the path from / on, without it.", path, name)
		case len(name) > maxNameBytes:
			return "", Errorf("The path %.200q has a name of %d bytes; the maximum is %d.", path, len(name), maxNameBytes)
		case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
			return "", Errorf("The path %.200q has a character that is not printable.", path)
		}
		names = append(names, name)
	}
	clean := root + strings.Join(names, "/")
	if len(clean) > record.MaxKeyBytes || len(names) > maxDepth {
		return "", Errorf("The path %.200q is too long: it has %d bytes and %d names; the maximum is %d and %d.", path,
			len(clean), len(names), record.MaxKeyBytes, maxDepth)
	}
	return clean, nil
}

// Parents returns the directories above a clean path, without the root, the highest first.
func Parents(path string) []string {
	var all []string
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			all = append(all, path[:i])
		}
	}
	return all
}

// nameOf is the last name of a clean path; empty for the root.
func nameOf(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// within returns the prefix of the paths below a directory.
func within(directory string) string {
	if directory == root {
		return root
	}
	return directory + "/"
}
