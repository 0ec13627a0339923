package inprocess_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// named are the types of internal packages that users can name, by the aliases of this package.
var named = []reflect.Type{
	reflect.TypeFor[inprocess.Request](), reflect.TypeFor[inprocess.Response](), reflect.TypeFor[inprocess.Partial](),
	reflect.TypeFor[inprocess.Content](), reflect.TypeFor[inprocess.Reasoning](), reflect.TypeFor[inprocess.Phase](),
	reflect.TypeFor[inprocess.ToolDefinition](), reflect.TypeFor[inprocess.ModelToolCall](),
	reflect.TypeFor[inprocess.ModelError](), reflect.TypeFor[inprocess.ModelUsage](),
	reflect.TypeFor[inprocess.Message](), reflect.TypeFor[inprocess.MessagePart](),
	reflect.TypeFor[inprocess.MessageToolCall](), reflect.TypeFor[inprocess.MessageRole](),
	reflect.TypeFor[inprocess.MessageOrigin](), reflect.TypeFor[inprocess.MessagePartType](),
	reflect.TypeFor[inprocess.Event](), reflect.TypeFor[inprocess.NetworkAccess](),
	reflect.TypeFor[inprocess.Effective](), reflect.TypeFor[inprocess.CapabilityUse](),
	reflect.TypeFor[inprocess.Context](), reflect.TypeFor[inprocess.Capability](),
	reflect.TypeFor[inprocess.OfferedTool](), reflect.TypeFor[inprocess.Hook](),
	reflect.TypeFor[inprocess.RefusedError](),
	reflect.TypeFor[inprocess.Store](), reflect.TypeFor[inprocess.LogSession](),
}

// A user who builds a Response, or implements a Store, must be able to name what its fields and methods have.
func TestTheFieldsOfTheTypesCanBeNamed(t *testing.T) {
	known := map[reflect.Type]bool{}
	for _, kind := range named {
		known[kind] = true
	}
	for _, kind := range named {
		for _, part := range partsOf(kind) {
			if strings.Contains(part.PkgPath(), "/internal/") && !known[part] {
				t.Errorf("%s has %s, which users cannot name", kind, part)
			}
		}
	}
}

// partsOf returns the types of the exported fields of a struct, and those in the methods of an interface.
func partsOf(kind reflect.Type) []reflect.Type {
	var parts []reflect.Type
	switch kind.Kind() {
	case reflect.Struct:
		for i := range kind.NumField() {
			if field := kind.Field(i); field.IsExported() {
				parts = append(parts, elements(field.Type)...)
			}
		}
	case reflect.Interface:
		for i := range kind.NumMethod() {
			parts = append(parts, elements(kind.Method(i).Type)...)
		}
	default:
	}
	return parts
}

// elements returns a type, or the named types that it is made of.
func elements(kind reflect.Type) []reflect.Type {
	if kind.Name() != "" {
		return []reflect.Type{kind}
	}
	var parts []reflect.Type
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		return elements(kind.Elem())
	case reflect.Map:
		return append(elements(kind.Key()), elements(kind.Elem())...)
	case reflect.Func:
		for i := range kind.NumIn() {
			parts = append(parts, elements(kind.In(i))...)
		}
		for i := range kind.NumOut() {
			parts = append(parts, elements(kind.Out(i))...)
		}
	default:
	}
	return parts
}
