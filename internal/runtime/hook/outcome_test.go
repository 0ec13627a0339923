package hook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// The rows are in the order of the table of HOOK-14.
// Rules: HOOK-14, VEC-15.
func TestTheOutputOfAScriptIsItsOutcome(t *testing.T) {
	block := func(reason, message string) Outcome {
		return Outcome{Decision: Block, Reason: reason, UserMessage: message}
	}
	allow := Outcome{Decision: Allow}
	for name, test := range map[string]struct {
		output Output
		want   Outcome
	}{
		"nothing":                      {Output{}, allow},
		"blanks":                       {Output{Stdout: " \n\t\u2003"}, allow},
		"nothing, and it fails":        {Output{Exit: 1}, block("hook exited non-zero", "")},
		"nothing, and it complains":    {Output{Exit: 2, Stderr: " no \n"}, block("no", "")},
		"it complains, and succeeds":   {Output{Stderr: "no"}, allow},
		"an empty object":              {Output{Stdout: `{}`}, allow},
		"an object without a decision": {Output{Stdout: `{"reason":"r"}`, Exit: 1}, allow},
		"allow":                        {Output{Stdout: `{"decision":"allow"}`}, allow},
		"allow, and it fails":          {Output{Stdout: `{"decision":"allow"}`, Exit: 1}, allow},
		"block":                        {Output{Stdout: `{"decision":"block"}`}, block("hook blocked", "")},
		"block with texts": {
			Output{Stdout: ` {"decision":"block","reason":"r","user_message":"m"} `}, block("r", "m"),
		},
		"block, and nulls": {Output{Stdout: `{"decision":"block","reason":null}`}, block("hook blocked", "")},
		"mutate": {
			Output{Stdout: `{"decision":"mutate","reason":"r","patch":{"a":1}}`},
			Outcome{Decision: Mutate, Reason: "r", Patch: json.RawMessage(`{"a":1}`)},
		},
		"no decision":    {Output{Stdout: `{"decision":null}`}, allow},
		"another member": {Output{Stdout: `{"Decision":"block","x":[{}]}`}, allow},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Parse(test.output); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
				t.Errorf("%+v: %q, want %q", test.output, got, test.want)
			}
		})
	}
}

// Rules: HOOK-13, VEC-15.
func TestAnOutputThatIsNotValidIsAnError(t *testing.T) {
	long := strings.Repeat("ä", 60)
	for stdout, want := range map[string]string{
		"yes":                                    `not a JSON object: "yes"`,
		`[]`:                                     "not a JSON object",
		`"block"`:                                "not a JSON object",
		"x" + long:                               strings.Repeat("ä", 39) + `"`,
		`{`:                                      "not JSON",
		`{"decision":"block"} x`:                 "more behind",
		`{"decision":"block"}{}`:                 "more behind",
		`{"decision":"stop"}`:                    "unknown decision",
		`{"decision":"mutate"}`:                  "no patch",
		`{"decision":"mutate","patch":null}`:     "no patch",
		`{"decision":1}`:                         "decision is not a string",
		`{"decision":"block","reason":1}`:        "reason is not a string",
		`{"decision":"block","user_message":[]}`: "user_message is not a string",
		`{"decision":"block","decision":"allow"}`:                                 "decision twice",
		"{\"decision\":\"\xff\"}":                                                 "UTF-8",
		`{"a":` + strings.Repeat("[", 12_000) + strings.Repeat("]", 12_000) + `}`: "not JSON",
		strings.Repeat(" ", MaxOutputBytes+1):                                     "more than 65536 bytes",
	} {
		got := Parse(Output{Stdout: stdout, Exit: 1})
		if got.Decision != Failed || !strings.Contains(got.Reason, want) {
			t.Errorf("%.60q: %q, want an error with %q", stdout, got, want)
		}
	}
	if got := Parse(Output{Stdout: "x" + strings.Repeat(" ", MaxOutputBytes-2), Stderr: "yy"}); got.Decision != Failed ||
		!strings.Contains(got.Reason, "more than") {
		t.Errorf("both outputs together: %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"decision":"block"}`, `{"decision":"mutate","patch":{"a":[1]}}`, "x", `{"a":`} {
		f.Add(seed, "", 0)
	}
	f.Fuzz(func(t *testing.T, stdout, stderr string, exit int) {
		o := Parse(Output{Stdout: stdout, Stderr: stderr, Exit: exit})
		switch o.Decision {
		case Allow:
		case Block, Failed:
			if o.Reason == "" {
				t.Errorf("%q has no reason", o.Decision)
			}
		case Mutate:
			if !json.Valid(o.Patch) {
				t.Errorf("the patch is %q", o.Patch)
			}
		default:
			t.Errorf("the decision is %q", o.Decision)
		}
		// What counts survives its own encoding.
		encoded, err := json.Marshal(map[string]any{
			"decision": o.Decision, "reason": o.Reason, "user_message": o.UserMessage, "patch": o.Patch,
		})
		if err != nil {
			t.Fatal(err)
		}
		if again := ParseJSON(
			encoded,
		); o.Decision != Failed && len(encoded) <= MaxOutputBytes &&
			again.Decision != o.Decision {
			t.Errorf("%q becomes %q", o, again)
		}
	})
}
