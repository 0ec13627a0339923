package act

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyActDecidesAboutCalls checks that the outcome of a call is decided here, in one place: no other code that runs
// Turns reads the class of a call, a settled state or the times in its status, or keeps facts about calls in a map by
// their ids. Package tool concludes from the class how an attempt has ended.
func TestOnlyActDecidesAboutCalls(t *testing.T) {
	files := 0
	for _, root := range []string{
		"../../controller", "../hook", "../inprocess", "../invocation", "../mcp", "../prompt", "../step", "../subagent",
		"../toolresult", "../turnstate", "../../../capstantest",
	} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, declaration := range file.Decls {
				name := "a declaration"
				if function, ok := declaration.(*ast.FuncDecl); ok {
					name = function.Name.Name
				}
				ast.Inspect(declaration, func(n ast.Node) bool {
					if question := asksAboutCall(n); question != "" {
						t.Errorf("%s: %s asks for %s", path, name, question)
					}
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

// asksAboutCall returns what a node asks about a tool call that only this package may ask; empty for any other node.
func asksAboutCall(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		switch n.Sel.Name {
		case "AtMostOnce", "SideEffect":
			return "the class of a call"
		case "ApproveBy":
			return "the time until which a call can be approved"
		case "Settled":
			if of, ok := n.X.(*ast.SelectorExpr); ok && of.Sel.Name == "State" {
				return "a settled state"
			}
		}
	case *ast.MapType:
		key, named := n.Key.(*ast.Ident)
		value := n.Value
		if pointer, ok := value.(*ast.StarExpr); ok {
			value = pointer.X
		}
		of, ok := value.(*ast.SelectorExpr)
		if !ok || !named || key.Name != "string" {
			return ""
		}
		if from, ok := of.X.(*ast.Ident); ok && (from.Name == "act" || from.Name == "tool" || of.Sel.Name == "ToolCall") {
			return "a map by call id, of " + of.Sel.Name
		}
	case *ast.IndexExpr:
		if field, ok := n.X.(*ast.SelectorExpr); ok && isCallID(n.Index) {
			return "a map by call id, in the field " + field.Sel.Name
		}
	}
	return ""
}

// isCallID reports whether an expression is the id of a call, by its names.
func isCallID(n ast.Expr) bool {
	switch n := n.(type) {
	case *ast.Ident:
		return n.Name == "call" || n.Name == "callID"
	case *ast.SelectorExpr:
		of, named := n.X.(*ast.Ident)
		return n.Sel.Name == "CallID" || n.Sel.Name == "ID" && named && strings.Contains(strings.ToLower(of.Name), "call")
	}
	return false
}
