package capstantest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// root is the repository, as seen from this directory.
const root = ".."

// sdks are modules that only the drivers of real model providers need, or only the manager's export of traces.
var sdks = []string{
	"github.com/openai/openai-go",
	"github.com/anthropics/anthropic-sdk-go",
	"google.golang.org/genai",
	"google.golang.org/grpc",
	"go.opentelemetry.io/otel/sdk",
	"go.opentelemetry.io/otel/exporters",
	"github.com/google/s2a-go",
	"cloud.google.com/go",
	"go.opencensus.io",
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers",
}

// The tests of users compile what these packages import, directly or not. Controllers, and with them the kit, evaluate
// hooks that are CEL expressions.
func TestUsersDoNotCompileTheSDKsOfProviders(t *testing.T) {
	cel, clients := "github.com/google/cel-go", []string{"sigs.k8s.io/controller-runtime", "k8s.io/client-go"}
	for pkg, denied := range map[string][]string{
		"capstantest":                sdks,
		"capstantest/inprocess":      append(clients, sdks...),
		"capstantest/clock":          append(append(clients, cel), sdks...),
		"capstantest/job":            append(append(clients, cel, "k8s.io"), sdks...),
		"api/v1alpha1":               append(append(clients, cel), sdks...),
		"api/applyconfiguration/...": append([]string{cel, "sigs.k8s.io/controller-runtime"}, sdks...),
		"internal/controller/...":    sdks,
		"cmd/manager":                {"go.opencensus.io"},
	} {
		t.Run(pkg, func(t *testing.T) {
			imported := dependencies(t, pkg)
			if len(imported) == 0 {
				t.Fatal("no packages are listed")
			}
			for _, path := range imported {
				for _, prefix := range denied {
					if path == prefix || strings.HasPrefix(path, prefix+"/") {
						t.Errorf("%s is compiled", path)
					}
				}
			}
		})
	}
	for _, sdk := range sdks[:3] {
		found := false
		for _, path := range dependencies(t, "capstantest/providers") {
			found = found || strings.HasPrefix(path, sdk)
		}
		if !found {
			t.Errorf("%s is not compiled with the drivers: the list is out of date", sdk)
		}
	}
}

// dependencies returns the import paths of a package and of all that it imports.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+pkg)
	list.Dir, list.Stderr = root, os.Stderr
	output, err := list.Output()
	if err != nil {
		t.Fatalf("listing the dependencies of %s: %v", pkg, err)
	}
	return strings.Fields(string(output))
}

// A type of an internal package can only be named by users if a public package declares an alias of it.
func TestTheAPIHasNoTypeThatUsersCannotName(t *testing.T) {
	for _, dir := range []string{".", "clock", "inprocess", "job", "providers"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("the files of %s: %v, %v", dir, files, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			positions := token.NewFileSet()
			file, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range internalTypes(file) {
				t.Errorf("%s: the exported API has a type of an internal package", positions.Position(found))
			}
		}
	}
}

func TestInternalTypesAreFound(t *testing.T) {
	const source = `package p
import ("github.com/capstan-dev/capstan/internal/runtime/event"; alias "x/internal/y"; "time")
type Event = event.Event
type Options struct { Shown func(alias.Y); hidden event.Event; Time time.Time }
type Pair map[string]event.Event
type hidden struct { Event event.Event }
func New(e []event.Event) {}
func (h *hidden) Of(event.Event) {}
func (o *Options) Get() (event.Event, error) { var e event.Event; return e, nil }
func unexported(event.Event) {}
var Last event.Event
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if found := internalTypes(file); len(found) != 5 {
		t.Errorf("%d types are found, want 5: in Options, Pair, New, Get and Last", len(found))
	}
}

// internalTypes returns where the exported API of a file has types of internal packages, other than in the declaration
// of an alias.
func internalTypes(file *ast.File) []token.Pos {
	internal := map[string]bool{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if !strings.Contains(path, "/internal/") {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		internal[name] = true
	}
	var found []token.Pos
	look := func(node ast.Node) {
		ast.Inspect(node, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := selector.X.(*ast.Ident); ok && internal[pkg.Name] {
					found = append(found, selector.Pos())
				}
			}
			return true
		})
	}
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
				look(d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				lookInto(spec, look)
			}
		}
	}
	return found
}

// lookInto looks at the exported types of a declaration.
func lookInto(spec ast.Spec, look func(ast.Node)) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		fields, isStruct := s.Type.(*ast.StructType)
		switch {
		case s.Assign.IsValid() || !s.Name.IsExported():
		case !isStruct:
			look(s.Type)
		default:
			for _, field := range fields.Fields.List {
				if len(field.Names) == 0 || ast.IsExported(field.Names[0].Name) {
					look(field.Type)
				}
			}
		}
	case *ast.ValueSpec:
		if s.Type != nil && ast.IsExported(s.Names[0].Name) {
			look(s.Type)
		}
	}
}

// exportedReceiver reports whether a method is one of an exported type.
func exportedReceiver(receiver *ast.FieldList) bool {
	kind := receiver.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	name, ok := kind.(*ast.Ident)
	return ok && name.IsExported()
}
