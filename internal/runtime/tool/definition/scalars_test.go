package definition

import (
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestWhichArgumentsAreScalars(t *testing.T) {
	properties := func(schemas string) string { return `{"properties": ` + schemas + `}` }
	for schema, want := range map[string][]string{
		properties(
			`{"a": {"type": "string"}, "b": {"type": "number"}, "c": {"type": "integer"}, "d": {"type": "boolean"}}`,
		): {
			"a", "b", "c", "d",
		},
		properties(`{"a": {"type": "object"}, "b": {"type": "array"}, "c": {"type": "null"}, "d": {}, "e": true}`): nil,
		properties(`{"a": {"type": ["string", "null"]}, "b": {"type": ["string", "array"]}, "c": {"type": ["null"]}}`): {
			"a",
		},
		properties(`{"a": {"type": "text"}, "b": {"type": 5}, "c": {"type": []}, "d": {"type": [5]}}`): nil,

		properties(`[]`):          nil,
		`{"properties": {"a": 5}`: nil,
		`{}`:                      nil,
		`[]`:                      nil,
	} {
		if got := ScalarNames(&v1alpha1.JSON{Raw: []byte(schema)}); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", schema, got, want)
		}
	}
}
