package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ruleID is the id of a rule, for example TURN-11.
var ruleID = regexp.MustCompile(`\b[A-Z]{2,7}-[0-9]{2}\b`)

// folders of the repository that have tests.
var folders = []string{"api", "capstantest", "cmd", "internal", "test"}

// ginkgoNodes are the functions of Ginkgo whose first argument is the name of a test, or of several.
var ginkgoNodes = []string{"Describe", "DescribeTable", "Context", "When", "It", "Entry"}

// test is a test, a spec, or a row of a table of tests.
type test struct {
	folder string
	name   string
}

// testsBelow returns the tests of a repository by the rules that they name.
func testsBelow(root string) (map[string][]test, error) {
	held := map[string][]test{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			relative, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			found, err := testsOf(path, nil)
			for id, names := range found {
				for _, name := range names {
					held[id] = append(held[id], test{folder: filepath.ToSlash(relative), name: name})
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return held, nil
}

// unit is a named test in a file.
type unit struct {
	name       string
	start, end token.Pos
}

// testsOf returns the names of the tests of a file by the rules that they name. source is the file's text; nil reads
// the file.
func testsOf(path string, source any) (map[string][]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	units := unitsOf(file, strings.HasSuffix(path, "_test.go"))
	held := map[string][]string{}
	add := func(name string, ids []string) {
		for _, id := range ids {
			if !slices.Contains(held[id], name) {
				held[id] = append(held[id], name)
			}
		}
	}
	for _, u := range units {
		add(u.name, ruleID.FindAllString(u.name, -1))
	}
	for _, comment := range file.Comments {
		ids := ruleID.FindAllString(comment.Text(), -1)
		if owner := ownerOf(files, units, comment); owner != nil {
			add(owner.name, ids)
		}
	}
	return held, nil
}

// ownerOf returns the test that a comment is about: the one that begins on the next line, or else the innermost one
// around it.
func ownerOf(files *token.FileSet, units []unit, comment *ast.CommentGroup) *unit {
	next := files.Position(comment.End()).Line + 1
	var around *unit
	for i := range units {
		u := &units[i]
		if u.start > comment.End() && files.Position(u.start).Line == next {
			return u
		}
		if u.start <= comment.Pos() && comment.End() <= u.end && (around == nil || u.start > around.start) {
			around = u
		}
	}
	return around
}

// unitsOf returns the named tests of a file. In a file that is not a test, they are the exported functions of a suite:
// those that take a testing.T or a testing.TB.
func unitsOf(file *ast.File, tests bool) []unit {
	var units []unit
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			units = append(units, unitsWithin(declaration, "", tests)...)
			continue
		}
		name := function.Name.Name
		switch {
		case tests && !hasTestName(name), !tests && !takesT(function):
			// Its specs and rows count under their own names.
			name = ""
		default:
			units = append(units, unit{name, function.Pos(), function.End()})
		}
		units = append(units, unitsWithin(function, name, tests || name != "")...)
	}
	return units
}

// unitsWithin returns the specs of a declaration, with the names of the specs around them in front, and the rows of its
// tables if there are any. Rows have the name of their test in front, if it is known.
func unitsWithin(declaration ast.Node, function string, rows bool) []unit {
	var units, specs []unit
	addRow := func(name string, named bool, node ast.Node) {
		if rows && named {
			units = append(units, unit{strings.TrimPrefix(function+"/"+name, "/"), node.Pos(), node.End()})
		}
	}
	ast.Inspect(declaration, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CallExpr:
			if name, ok := nodeName(n); ok {
				specs = append(specs, unit{pathTo(specs, n) + name, n.Pos(), n.End()})
			}
		case *ast.KeyValueExpr:
			name, ok := text(n.Key)
			addRow(name, ok, n)
		case *ast.CompositeLit:
			name, ok := rowName(n)
			addRow(name, ok, n)
		}
		return true
	})
	return append(units, specs...)
}

// pathTo is the names of the specs around a node, each followed by a space.
func pathTo(specs []unit, node ast.Node) string {
	for _, s := range slices.Backward(specs) {
		if s.start <= node.Pos() && node.End() <= s.end {
			return s.name + " "
		}
	}
	return ""
}

// hasTestName reports whether go test would run a function of that name.
func hasTestName(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Fuzz", "Benchmark", "Example"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// takesT reports whether an exported function has a parameter of type *testing.T or testing.TB.
func takesT(function *ast.FuncDecl) bool {
	if !function.Name.IsExported() {
		return false
	}
	return slices.ContainsFunc(function.Type.Params.List, func(field *ast.Field) bool {
		kind := field.Type
		if pointer, ok := kind.(*ast.StarExpr); ok {
			kind = pointer.X
		}
		selector, ok := kind.(*ast.SelectorExpr)
		return ok && (selector.Sel.Name == "T" || selector.Sel.Name == "TB")
	})
}

// nodeName is the name of a spec of Ginkgo, if the call makes one.
func nodeName(call *ast.CallExpr) (string, bool) {
	function, ok := call.Fun.(*ast.Ident)
	if !ok || len(call.Args) == 0 || !slices.Contains(ginkgoNodes, function.Name) {
		return "", false
	}
	return text(call.Args[0])
}

// rowName is the value of the field name of a row of a table.
func rowName(row *ast.CompositeLit) (string, bool) {
	for _, element := range row.Elts {
		if field, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := field.Key.(*ast.Ident); ok && key.Name == "name" {
				return text(field.Value)
			}
		}
	}
	return "", false
}

// text is the value of a string literal.
func text(expression ast.Expr) (string, bool) {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}
