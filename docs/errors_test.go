package docs_test

import (
	"slices"
	"strings"
	"testing"
)

// block is a block of constants in a file of api/v1alpha1, by the beginning of its comment, and the parts of the page
// that have a section for each.
type block struct {
	file, prefix, title string
	parts               []string
}

// blocks are the constants that users see.
var blocks = []block{
	{"conditions.go", "Condition", "Condition types.", []string{"Conditions"}},
	{"reasons.go", "Reason", "Reasons of ConditionReady.", []string{"Why an object is not ready"}},
	{"reasons.go", "Reason", "Reasons of the conditions of a Budget.", []string{"The conditions of a Budget"}},
	{
		"reasons.go", "Reason", "Reasons of ConditionReady of a LeasedResource",
		[]string{"Why a LeasedResource is not ready"},
	},
	{"reasons.go", "Reason", "Reasons of ConditionReady of a Schedule", []string{"Why a Schedule is not ready"}},
	{"reasons.go", "Reason", "Reasons of ConditionAccepted.", []string{"What became of a ToolResult"}},
	{
		"reasons.go", "Reason", "Reasons of the conditions of a Turn.", []string{"Why a Turn waits", "How a Turn ended"},
	},
	{"progress.go", "StopReason", "", []string{"How a Turn succeeded"}},
	{
		"reasons.go", "Reason", "Reasons of the condition Succeeded of a Turn that failed, one for each ErrorCode.",
		[]string{"Why a Turn failed"},
	},
	{
		"reasons.go", "ToolCallReason", "Reasons of the end of a tool call,", []string{"How a tool call ended"},
	},
	{"reasons.go", "ToolCallReason", "Reasons why a call has not started yet.", []string{"Why a call has not started"}},
	{
		"reasons.go", "ToolCallReason", "Reasons of the end of a call that the manager did not run.",
		[]string{"Calls that the manager did not run"},
	},
}

// nothing stands in the sections of reasons after which there is nothing to do.
const nothing = "Nothing to do."

// TestThePageOfReasonsHasASectionForEach compares the sections with the constants, in both directions.
func TestThePageOfReasonsHasASectionForEach(t *testing.T) {
	parts := map[string][]string{}
	for _, part := range sections(read(t, "errors.md"), "##") {
		for _, reason := range sections(part.text, "###") {
			words := strings.Fields(reason.title)
			word := words[len(words)-1] // A word that stands twice on the page has others before it.
			parts[part.title] = append(parts[part.title], word)
			if !strings.Contains(reason.text, nothing) && !strings.Contains(reason.text, "kubectl ") {
				t.Errorf("the section %q neither has a command nor states that there is %s", reason.title, nothing)
			}
		}
	}
	for _, b := range blocks {
		var want []string
		for title, values := range constants(t, b.file, b.prefix) {
			if strings.HasPrefix(title, b.title) {
				want = append(want, values...)
			}
		}
		if len(want) == 0 {
			t.Errorf("api/v1alpha1/%s has no constants below %q", b.file, b.title)
		}
		var got []string
		for _, part := range b.parts {
			got = append(got, parts[part]...)
			delete(parts, part)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%v have sections for\n%v\nthe constants are\n%v", b.parts, got, want)
		}
	}
	if len(parts) > 0 {
		t.Errorf("the page has parts that no constants belong to: %v", parts)
	}
	for _, prefix := range []string{"Reason", "ToolCallReason"} {
		for title := range constants(t, "reasons.go", prefix) {
			if !slices.ContainsFunc(blocks, func(b block) bool {
				return b.file == "reasons.go" && strings.HasPrefix(title, b.title)
			}) {
				t.Errorf("no part of the page is about the constants below %q", title)
			}
		}
	}
}

// TestThePageOfReasonsHasEveryErrorCode compares the codes: each is in the section of its reason in CamelCase.
func TestThePageOfReasonsHasEveryErrorCode(t *testing.T) {
	var codes []string
	for _, values := range constants(t, "errorcodes.go", "ErrorCode") {
		codes = append(codes, values...)
	}
	if len(codes) < 10 {
		t.Fatal(codes)
	}
	for _, part := range sections(read(t, "errors.md"), "##") {
		if part.title != "Why a Turn failed" {
			continue
		}
		for _, reason := range sections(part.text, "###") {
			code, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(reason.text), "`"), "`: ")
			if camelCase(code) != reason.title {
				t.Errorf("the section %s is about the code %q", reason.title, code)
			}
			if i := slices.Index(codes, code); i >= 0 {
				codes = slices.Delete(codes, i, i+1)
			}
		}
	}
	if len(codes) > 0 {
		t.Errorf("the page lacks the codes %v", codes)
	}
	for _, fields := range constants(t, "errorcodes.go", "ErrorField") {
		for _, field := range fields {
			if !strings.Contains(read(t, "errors.md"), "`"+field+"`") {
				t.Errorf("the page lacks the field %s of an error", field)
			}
		}
	}
}

func camelCase(code string) string {
	var word strings.Builder
	for part := range strings.SplitSeq(code, "_") {
		if part != "" {
			word.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return word.String()
}
