// Package design_test checks that the design documents agree with the code.
package design_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository, as seen from this folder.
const root = "../.."

var (
	ruleID = regexp.MustCompile(`\b[A-Z]{2,7}-[0-9]{2}\b`)
	// tableRow is a row of the table of rules: id, demand, difference.
	tableRow = regexp.MustCompile(`(?m)^\| ([A-Z]{2,7}-[0-9]{2}) \| (.*) \| ?(.*) ?\|$`)
	// holder is a line of an item in the list of tests: a place and its tests.
	holder    = regexp.MustCompile("(?m)^- `([^`]+)`: ((?:`[^`]+`,?\\s+)+)")
	quotation = regexp.MustCompile("`([^`]+)`")
)

// TestEveryRuleIsInTheTable compares the ids that the code, its tests and the other documents name with the table.
func TestEveryRuleIsInTheTable(t *testing.T) {
	named := map[string]string{}
	for _, folder := range []string{"internal", "api", "cmd", "capstantest", "test", "hack", "docs"} {
		for path, text := range filesIn(t, filepath.Join(root, folder), ".go", ".md", ".sh") {
			if filepath.Dir(path) == filepath.Join(root, "docs", "design") {
				continue
			}
			for _, id := range ruleID.FindAllString(text, -1) {
				named[id] = path
			}
		}
	}
	var listed []string
	for _, row := range tableRow.FindAllStringSubmatch(read(t, "rules.md"), -1) {
		id, demand := row[1], row[2]
		if strings.TrimSpace(demand) == "" {
			t.Errorf("rules.md does not state what %s demands", id)
		}
		if named[id] == "" {
			t.Errorf("rules.md lists %s, which nothing names", id)
		}
		listed = append(listed, id)
	}
	for id, path := range named {
		if !slices.Contains(listed, id) {
			t.Errorf("%s names %s, which is missing in docs/design/rules.md", path, id)
		}
	}
	if !slices.IsSorted(listed) || len(slices.Compact(slices.Clone(listed))) != len(listed) {
		t.Errorf("the rules of rules.md are not in order, or one is there twice: %v", listed)
	}
}

// TestFieldsOfTheAPINameNoRule keeps ids, which users cannot look up, out of kubectl explain.
func TestFieldsOfTheAPINameNoRule(t *testing.T) {
	for _, folder := range []string{"api/v1alpha1", "config/crd", "dist"} {
		for path, text := range filesIn(t, filepath.Join(root, folder), ".go", ".yaml", ".json") {
			if found := ruleID.FindAllString(text, -1); len(found) > 0 {
				t.Errorf("%s names %s", path, strings.Join(found, ", "))
			}
		}
	}
}

// TestTheNamedTestsExist finds every test that a document names in the sources of its place. Each invariant names some.
func TestTheNamedTestsExist(t *testing.T) {
	sections := strings.Split(read(t, "invariants.md"), "\n## ")[1:]
	sections = append(sections, strings.Split(read(t, "reason-step.md"), "\n## ")[1:]...)
	for _, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		holders := holder.FindAllStringSubmatch(section+"\n", -1)
		if len(holders) == 0 {
			t.Errorf("no test holds %q", title)
		}
		for _, found := range holders {
			var source strings.Builder
			for _, text := range filesIn(t, filepath.Join(root, found[1]), ".go") {
				source.WriteString(text)
			}
			for _, name := range quotation.FindAllStringSubmatch(found[2], -1) {
				if !isTest(source.String(), name[1]) {
					t.Errorf("%q names %q, which %s does not have", title, name[1], found[1])
				}
			}
		}
	}
}

// isTest reports whether sources have a Go test, or a string, of that name: specs, subtests and the invariants of the
// fault suite are strings.
func isTest(source, name string) bool {
	return strings.Contains(source, "func "+name+"(") || strings.Contains(source, `"`+name+`"`)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// filesIn returns the texts of the files below a folder, or of a file, that have one of the extensions.
func filesIn(t *testing.T, folder string, extensions ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains(extensions, filepath.Ext(path)) {
			texts[path] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) == 0 {
		t.Fatalf("%s has no files", folder)
	}
	return texts
}

// TestTheLayoutNamesEveryPackage compares the tables of development.md with the folders.
func TestTheLayoutNamesEveryPackage(t *testing.T) {
	for _, folder := range []string{"internal/runtime", "internal/runtime/tool", "internal/controller"} {
		_, table, _ := strings.Cut(read(t, "../development.md"), "| `"+folder+"/...` |")
		table, _, _ = strings.Cut(table, "\n\n")
		var listed []string
		for _, row := range strings.Split(table, "\n")[1:] {
			first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
			for _, name := range quotation.FindAllStringSubmatch(first, -1) {
				listed = append(listed, name[1])
			}
		}
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		var exist []string
		for _, entry := range entries {
			if entry.IsDir() {
				exist = append(exist, entry.Name())
			}
		}
		slices.Sort(listed)
		if !slices.Equal(listed, exist) {
			t.Errorf("docs/development.md lists %v in %s, want %v", listed, folder, exist)
		}
	}
}

// TestFoldersOfTheLayoutExist looks for every path that the first table of development.md names.
func TestFoldersOfTheLayoutExist(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "../development.md"), "| folder | contents |")
	table, _, _ = strings.Cut(table, "\n\n")
	paths := regexp.MustCompile("`([a-z0-9]+(?:/[a-z0-9]+)*)`").FindAllStringSubmatch(table, -1)
	if len(paths) < 10 {
		t.Fatalf("the table names %d paths", len(paths))
	}
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
			t.Error(err)
		}
	}
}

// TestLinksOfTheDocumentsResolve looks for the file, and the heading, of every link within the repository.
func TestLinksOfTheDocumentsResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	documents := []string{filepath.Join(root, "hack/cluster/README.md")}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	checked := 0
	for _, document := range documents {
		for _, found := range link.FindAllStringSubmatch(read(t, document), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			checked++
			path, heading, _ := strings.Cut(found[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", document, found[1], err)
			} else if heading != "" && !slices.Contains(anchors(read(t, target)), heading) {
				t.Errorf("%s links to %s, which has no such heading", document, found[1])
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were checked", checked)
	}
}

// anchors returns the anchors of a document's headings, as GitHub makes them.
func anchors(document string) []string {
	removed := regexp.MustCompile(`[^a-z0-9 _-]`)
	var all []string
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(document, -1) {
		all = append(all, strings.ReplaceAll(removed.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	return all
}

// TestTheSupportMatrixNamesTheTestedVersions compares support.md with what the suites and the cluster are built from.
func TestTheSupportMatrixNamesTheTestedVersions(t *testing.T) {
	page, required, built := read(t, "../support.md"), read(t, "../../go.mod"), read(t, "../../hack/cluster/versions.go")
	for _, version := range []struct{ source, pattern, claim string }{
		{built, `kubernetesVersion = "v(\d+\.\d+)\.`, "| %s | tested |"},
		{built, `etcdVersion       = "v(\d+\.\d+)\.`, "etcd %s"},
		{built, `containerdVersion = "v(\d+\.\d+)\.`, "containerd %s"},
		{required, `(?m)^go (\d+\.\d+)`, "Go %s,"},
	} {
		found := regexp.MustCompile(version.pattern).FindStringSubmatch(version.source)
		if found == nil {
			t.Errorf("no source has a version like %s", version.pattern)
			continue
		}
		if claim := fmt.Sprintf(version.claim, found[1]); !strings.Contains(page, claim) {
			t.Errorf("docs/support.md does not have %q", claim)
		}
	}
}
