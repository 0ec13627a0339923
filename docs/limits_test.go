package docs_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

// bound is a row of the table of bounds of the API: a field, its maximum, and the unit.
var bound = regexp.MustCompile("(?m)^\\| `([a-z]+)\\.([A-Za-z.]+)` \\| ([0-9]+) \\|")

// TestThePageOfLimitsHasTheBoundsOfTheAPI compares the table with the definitions.
func TestThePageOfLimitsHasTheBoundsOfTheAPI(t *testing.T) {
	rows := bound.FindAllStringSubmatch(read(t, "limits.md"), -1)
	if len(rows) < 10 {
		t.Fatalf("the page has %d bounds", len(rows))
	}
	known := schemas(t)
	for _, row := range rows {
		kind, path := row[1], row[2]
		want, err := strconv.ParseInt(row[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		field := known[kind]
		for name := range strings.SplitSeq(path, ".") {
			property, found := field.Properties[name]
			if !found {
				t.Fatalf("a %s has no %s", kind, path)
			}
			field = &property
		}
		if got := maximum(field); got != want {
			t.Errorf("the maximum of %s of a %s is %d, the page has %d", path, kind, got, want)
		}
	}
}

func maximum(field *apiextensionsv1.JSONSchemaProps) int64 {
	switch {
	case field.MaxLength != nil:
		return *field.MaxLength
	case field.MaxItems != nil:
		return *field.MaxItems
	default:
		return int64(ptr.Deref(field.Maximum, 0))
	}
}
