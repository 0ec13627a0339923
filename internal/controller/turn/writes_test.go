package turn

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyReconcileWritesTheStatus checks that phases decide on writes and do not make them: what they start is in the
// status before.
func TestOnlyReconcileWritesTheStatus(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	writers := map[string]int{}
	for _, name := range files {
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
			ast.Inspect(function, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				receiver, ok := selector.X.(*ast.Ident)
				if ok && (receiver.Name == "r" && selector.Sel.Name == "write" ||
					receiver.Name == "status" && selector.Sel.Name == "Patch") {
					writers[selector.Sel.Name+" in "+function.Name.Name]++
				}
				return true
			})
		}
	}
	// markAccepted writes the status of a ToolResult, and withdrawFrom that of the Session.
	want := map[string]int{
		"write in Reconcile": 2, "Patch in write": 1, "Patch in markAccepted": 1, "Patch in withdrawFrom": 1,
	}
	if !maps.Equal(writers, want) {
		t.Errorf("the status is written by %v, want %v", writers, want)
	}
}
