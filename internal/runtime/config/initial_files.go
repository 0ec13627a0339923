package config

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

// foldFiles adds the initial files of a layer to those of the layers above it. A file replaces the one with the same
// clean path, in its place (CFG-03, CFG-04). It also replaces a file where it needs a directory, and the files in a
// directory where it is a file, so that the layers of a Session never contradict each other.
func foldFiles(above, layer []v1alpha1.InitialFile) []v1alpha1.InitialFile {
	for _, file := range layer {
		clean, err := sessionfs.Clean(file.Path)
		if err != nil {
			above = append(above, file) // A mark, or an invalid path, with which no Session is Ready.
			continue
		}
		file.Path = clean
		above = slices.DeleteFunc(above, func(other v1alpha1.InitialFile) bool {
			return below(file.Path, other.Path) || below(other.Path, file.Path)
		})
		i := slices.IndexFunc(above, func(other v1alpha1.InitialFile) bool { return other.Path == file.Path })
		if i < 0 {
			above = append(above, file)
		} else {
			above[i] = file
		}
	}
	return above
}

// below reports whether a clean path is below another one.
func below(path, other string) bool {
	return strings.HasPrefix(path, other+"/")
}

// checkFiles returns how many files and directories the initial files of one layer make, and why they are invalid.
func checkFiles(files []v1alpha1.InitialFile) (count int64, problem string) {
	if len(files) == 1 && leftout.Is(files[0].Path) {
		problem, _ = leftout.Note(files[0].Path)
		return leftout.Bytes(files[0].Path), problem
	}
	paths, made := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		path, err := sessionfs.Clean(file.Path)
		switch {
		case err != nil:
			return 0, err.Error()
		case path == "/":
			return 0, fmt.Sprintf("%s is the root directory, and no file.", file.Path)
		case paths[path]:
			return 0, fmt.Sprintf("%s is there twice.", path)
		case file.Encoding == v1alpha1.FileEncodingBase64 && !isBase64(file.Content):
			return 0, fmt.Sprintf("The content of %s is not valid base64.", path)
		}
		paths[path], made[path] = true, true
	}
	for path := range paths {
		for _, parent := range sessionfs.Parents(path) {
			if paths[parent] {
				return 0, fmt.Sprintf("%s is a file, and cannot have files below it.", parent)
			}
			made[parent] = true
		}
	}
	return int64(len(made)), ""
}

func isBase64(content string) bool {
	_, err := base64.StdEncoding.Strict().DecodeString(content)
	return err == nil
}

// checkInitialFiles notes why the initial files of the Capabilities and of the layers cannot be used.
func (r *Resolved) checkInitialFiles(bundles, layers []layered) {
	total, withFiles := int64(0), 0
	for _, b := range bundles {
		if len(b.layer.InitialFiles) > 0 {
			withFiles++
		}
	}
	if withFiles > maxFileCapabilities {
		r.fileProblem = fmt.Sprintf("%d Capabilities have initialFiles; the maximum of a Session is %d. Remove some.",
			withFiles, maxFileCapabilities)
		return
	}
	for _, l := range slices.Concat(bundles, layers) {
		count, problem := checkFiles(l.layer.InitialFiles)
		if problem != "" {
			r.fileProblem = fmt.Sprintf("initialFiles of %s cannot be used: %s Correct them.", l.namespace, problem)
			return
		}
		total += count
	}
	if total > record.MaxChanges {
		r.fileProblem = fmt.Sprintf("initialFiles of all layers make %d files and directories; the maximum is %d. "+
			"Remove some.", total, record.MaxChanges)
	}
}

// maxFileProblem is how much of a problem a cache keeps.
const maxFileProblem = 256

// LeaveOutFiles replaces the initial files of a layer by a mark. Caches that keep many layers use it, and read the
// files when they are written. The mark has what is wrong with them, so that this is known without reading them.
func LeaveOutFiles(layer *v1alpha1.ConfigLayer) {
	if len(layer.InitialFiles) == 0 || FilesLeftOut(layer.InitialFiles) {
		return
	}
	count, problem := checkFiles(layer.InitialFiles)
	mark := leftout.Mark(count, excerpt.Of(problem, maxFileProblem))
	layer.InitialFiles = []v1alpha1.InitialFile{{Path: mark}}
}

// FilesLeftOut reports whether initial files have been left out.
func FilesLeftOut(files []v1alpha1.InitialFile) bool {
	return slices.ContainsFunc(files, func(f v1alpha1.InitialFile) bool { return leftout.Is(f.Path) })
}

// SeedOf returns initial files in the form in which a Session gets them.
func SeedOf(files []v1alpha1.InitialFile) []sessionfs.Initial {
	seed := make([]sessionfs.Initial, len(files))
	for i, file := range files {
		seed[i] = sessionfs.Initial{
			Path: file.Path, Content: file.Content, Encoding: sessionfs.Text,
			ReadOnly: file.Access == v1alpha1.FileAccessReadOnly,
		}
		if file.Encoding == v1alpha1.FileEncodingBase64 {
			seed[i].Encoding = sessionfs.Base64
		}
	}
	return seed
}
