package pending

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// field is a value that a question requests.
type field struct {
	name, kind, title string
	choices           []string
	required          bool
}

// maxFields bounds the fields that are shown. Content may have no more.
const maxFields = 64

// fieldsOf returns the fields of a schema that is an object of plain values, in the order of their names; none of any
// other schema. The schema comes from a tool.
func fieldsOf(schema []byte) []field {
	var object struct {
		Properties map[string]struct {
			Type        any    `json:"type"`
			Title       string `json:"title"`
			Description string `json:"description"`
			Enum        []any  `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal(schema, &object) != nil {
		return nil
	}
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		if len(fields) == maxFields {
			break
		}
		p := object.Properties[name]
		f := field{name: name, title: p.Title, required: slices.Contains(object.Required, name)}
		if f.title == "" {
			f.title = p.Description
		}
		f.kind, _ = p.Type.(string)
		for _, choice := range p.Enum {
			f.choices = append(f.choices, fmt.Sprint(choice))
		}
		fields = append(fields, f)
	}
	return fields
}

// describe returns the field for the person who answers.
func (f field) describe() string {
	what := f.name
	if f.kind != "" {
		what += " (" + f.kind + ")"
	}
	if f.required {
		what += ", required"
	}
	if f.title != "" {
		what += ": " + f.title
	}
	if len(f.choices) > 0 {
		what += " [" + strings.Join(f.choices, ", ") + "]"
	}
	return what
}

// Content returns the content of an answer: the values of name=value, by the types of the question's schema. Values of
// fields that the schema does not have are texts.
func Content(schema []byte, pairs []string) ([]byte, error) {
	fields := fieldsOf(schema)
	content := map[string]any{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--set %s: write name=value", pair)
		}
		kind := "string"
		if at := slices.IndexFunc(fields, func(f field) bool { return f.name == name }); at >= 0 {
			kind = fields[at].kind
		}
		parsed, err := parse(kind, value)
		if err != nil {
			return nil, fmt.Errorf("--set %s: %w", pair, err)
		}
		content[name] = parsed
	}
	for _, f := range fields {
		if _, ok := content[f.name]; f.required && !ok {
			return nil, fmt.Errorf("the question requires %s: add --set %s=VALUE", f.describe(), f.name)
		}
	}
	return json.Marshal(content)
}

func parse(kind, value string) (any, error) {
	switch kind {
	case "integer":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not an integer", value)
		}
		return n, nil
	case "number":
		if _, err := strconv.ParseFloat(value, 64); err != nil || !json.Valid([]byte(value)) {
			return nil, fmt.Errorf("%q is not a number", value)
		}
		return json.Number(value), nil
	case "boolean":
		b, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%q is not true or false", value)
		}
		return b, nil
	case "array", "object":
		if !json.Valid([]byte(value)) {
			return nil, fmt.Errorf("%q is not JSON", value)
		}
		return json.RawMessage(value), nil
	default:
		return value, nil
	}
}
