// Package docs_test checks that the pages for users agree with the code, and that their links lead somewhere.
package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// root is the repository, as seen from this folder.
const root = ".."

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// constants returns the values of the string constants in a file of api/v1alpha1 whose names have the prefix, by the
// first line of the comment above their block.
func constants(t *testing.T, file, prefix string) map[string][]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api", "v1alpha1", file), nil,
		parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]string{}
	for _, declaration := range parsed.Decls {
		block, ok := declaration.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		title, _, _ := strings.Cut(block.Doc.Text(), "\n")
		for _, spec := range block.Specs {
			constant := spec.(*ast.ValueSpec)
			if !strings.HasPrefix(constant.Names[0].Name, prefix) {
				continue
			}
			value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values[title] = append(values[title], value)
		}
	}
	return values
}

// section is a heading of a page with what is below it, up to the next heading of its level or above.
type section struct {
	title, text string
}

// sections returns the sections of a level, by their hashes.
func sections(text, hashes string) []section {
	var all []section
	for _, part := range strings.Split("\n"+text, "\n"+hashes+" ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		all = append(all, section{title: title, text: body})
	}
	return all
}

// link is a link in a page to another page or to a heading; not one to a web site.
var link = regexp.MustCompile(`\]\(([^):\s]*)\)`)

// TestTheLinksOfThePagesLeadSomewhere follows the links within the repository, to headings as well.
func TestTheLinksOfThePagesLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	design, err := filepath.Glob("design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(append(pages, design...), filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"),
		filepath.Join(root, "CHANGELOG.md"), filepath.Join(root, "SECURITY.md"))
	for _, page := range pages {
		for _, found := range link.FindAllStringSubmatch(withoutBlocks(read(t, page)), -1) {
			path, heading, _ := strings.Cut(found[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, found[1])
				continue
			}
			if heading != "" && !slices.Contains(anchors(read(t, target)), heading) {
				t.Errorf("%s links to %s, and there is no such heading", page, found[1])
			}
		}
	}
}

// code is a block of code in a page.
var code = regexp.MustCompile("(?s)```.*?\n```")

func withoutBlocks(text string) string {
	return code.ReplaceAllString(text, "")
}

// anchors returns the names by which links refer to the headings of a page.
func anchors(text string) []string {
	var names []string
	times := map[string]int{}
	for line := range strings.Lines(withoutBlocks(text)) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			default:
				return -1
			}
		}, strings.TrimSpace(title))
		if n := times[name]; n > 0 {
			names = append(names, name+"-"+strconv.Itoa(n))
		} else {
			names = append(names, name)
		}
		times[name]++
	}
	return names
}
