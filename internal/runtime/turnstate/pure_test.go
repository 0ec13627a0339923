package turnstate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFunctionTakesAContextOrReadsAClock checks that this package has only values, and functions of them. The
// functions that Turn, Config and Steer carry take a context, and are called in package step.
func TestNoFunctionTakesAContextOrReadsAClock(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok {
				continue
			}
			functions++
			ast.Inspect(function, func(n ast.Node) bool {
				switch of := selected(n); of {
				case "context.Context", "context.Background", "context.TODO",
					"time.Now", "time.Since", "time.Until", "metav1.Now", "metav1.NowMicro":
					t.Errorf("%s: %s uses %s", name, function.Name.Name, of)
				}
				return true
			})
		}
	}
	if functions < 20 {
		t.Errorf("only %d functions were looked at", functions)
	}
}

// selected is the name that a node refers to in another package; empty for any other node.
func selected(n ast.Node) string {
	if s, ok := n.(*ast.SelectorExpr); ok {
		if of, ok := s.X.(*ast.Ident); ok {
			return of.Name + "." + s.Sel.Name
		}
	}
	return ""
}
