package inputschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// MaxErrorBytes is the most that the text of a validation error takes.
	MaxErrorBytes = 2048
	// maxFindingBytes is the most that one finding in it takes, and maxFindings the most findings.
	maxFindingBytes = 300
	maxFindings     = 10
)

// explainSchema returns why a schema cannot be compiled. Of several errors the library reports a random one; this text
// is the same each time.
func explainSchema(err error, document any) error {
	const invalidSchema = "the schema is not a valid JSON Schema"
	var invalid *jsonschema.SchemaValidationError
	var findings *jsonschema.ValidationError
	if errors.As(err, &invalid) && invalid.URL == location+"#" && errors.As(invalid.Err, &findings) {
		return errors.New(describe(invalidSchema, findings))
	}
	if references := referencesOf(document); len(references) > 0 {
		return errors.New(listed(invalidSchema, references))
	}
	var outside *jsonschema.LoadURLError
	if errors.As(err, &outside) {
		return fmt.Errorf("%s: it has a reference outside the schema, and external references are not loaded",
			invalidSchema)
	}
	return fmt.Errorf("%s: it has a malformed or ambiguous $id, $anchor, $schema or $ref", invalidSchema)
}

// mismatch begins the text of a MismatchError.
const mismatch = "the arguments do not match the schema of the tool:"

// MismatchError is the error of a JSON object that violates a schema.
type MismatchError struct {
	// Findings are the positions and the problems, each on a line of its own.
	Findings string
}

// Error implements error.
func (e *MismatchError) Error() string { return mismatch + e.Findings }

// explainArguments returns the error of invalid arguments.
func explainArguments(err *jsonschema.ValidationError) error {
	text := describe(strings.TrimSuffix(mismatch, ":"), err)
	return &MismatchError{Findings: strings.TrimPrefix(text, mismatch)}
}

// describe lists the findings of a validation, in a deterministic order.
func describe(what string, err *jsonschema.ValidationError) string {
	printer := message.NewPrinter(language.English)
	var findings []string
	collect(err, printer, &findings)
	slices.Sort(findings)
	return listed(what, slices.Compact(findings))
}

// listed writes down findings, as many as there is room for.
func listed(what string, findings []string) string {
	text := what + ":"
	for i, finding := range findings {
		line := "\n- " + finding
		if i == maxFindings || len(text)+len(line) > MaxErrorBytes-64 {
			return text + fmt.Sprintf("\n- and %d more", len(findings)-i)
		}
		text += line
	}
	return text
}

// collect adds the innermost findings: the enclosing ones only state that something in them is wrong.
func collect(err *jsonschema.ValidationError, printer *message.Printer, findings *[]string) {
	for _, cause := range err.Causes {
		collect(cause, printer, findings)
	}
	if len(err.Causes) > 0 && !addsInformation(err.ErrorKind) {
		return
	}
	finding := "at " + pointer(err.InstanceLocation) + ": " + findingText(err.ErrorKind, printer)
	if len(finding) > maxFindingBytes {
		finding = result.Head(finding, maxFindingBytes) + "…"
	}
	*findings = append(*findings, strings.ToValidUTF8(strings.ReplaceAll(finding, "\n", " "), "\uFFFD"))
}

// findingText returns the library's own text, without its random parts, and without parts that the model knows and that
// may be long.
func findingText(k jsonschema.ErrorKind, printer *message.Printer) string {
	switch k := k.(type) {
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
	case *kind.Pattern:
		return fmt.Sprintf("the value does not match the pattern %q", k.Want)
	}
	return k.LocalizedString(printer)
}

// addsInformation reports whether a finding with causes adds information to them.
func addsInformation(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.OneOf, *kind.PropertyNames, *kind.Contains, *kind.MinContains:
		return true
	default:
		return false
	}
}

// pointer names a place in a JSON value; the value itself is "the top".
func pointer(location []string) string {
	if len(location) == 0 {
		return "the top"
	}
	var path strings.Builder
	for _, token := range location {
		path.WriteByte('/')
		path.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return path.String()
}
