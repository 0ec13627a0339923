package apivalidation

import (
	"fmt"
	"reflect"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// New returns an empty object of a kind; nil for a kind that users do not write, or that does not exist.
func New(kind string) Object {
	switch kind {
	case "Agent":
		return &v1alpha1.Agent{}
	case "Budget":
		return &v1alpha1.Budget{}
	case "Capability":
		return &v1alpha1.Capability{}
	case "Harness":
		return &v1alpha1.Harness{}
	case "MCPServer":
		return &v1alpha1.MCPServer{}
	case "Model":
		return &v1alpha1.Model{}
	case "Schedule":
		return &v1alpha1.Schedule{}
	case "Session":
		return &v1alpha1.Session{}
	case "Tool":
		return &v1alpha1.Tool{}
	case "ToolResult":
		return &v1alpha1.ToolResult{}
	case "Turn":
		return &v1alpha1.Turn{}
	default:
		return nil
	}
}

// kindOf is the kind of an object.
func kindOf(o Object) (string, error) {
	name := reflect.TypeOf(o).Elem().Name()
	if reflect.TypeOf(New(name)) != reflect.TypeOf(o) {
		return "", fmt.Errorf("%T is no object that users of this API write", o)
	}
	return name, nil
}

// reset empties an object, so that no old field remains after decoding into it.
func reset(o Object) {
	value := reflect.ValueOf(o).Elem()
	value.Set(reflect.Zero(value.Type()))
}

// replace makes an object equal to another one of its kind, and returns its kind.
func replace(o, by Object) {
	reflect.ValueOf(o).Elem().Set(reflect.ValueOf(by).Elem())
	kind, err := kindOf(o)
	if err == nil {
		o.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	}
}
