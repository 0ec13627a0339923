package sessionsecret_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
)

// Rules: KV-02.
func TestReferencesAreFilledInWhereTheToolPermitsThemOnly(t *testing.T) {
	values := map[string]string{"a": "value-of-a", "b.c": "line 1\nline \"2\""}
	for name, test := range map[string]struct {
		arguments string
		pointers  []string
		want      string
	}{
		"a member": {
			`{"k": "secret://a", "l":"secret://a"}`, []string{"/k"}, `{"k": "value-of-a", "l":"secret://a"}`,
		},
		"no permission":    {`{"k":"secret://a"}`, nil, `{"k":"secret://a"}`},
		"a part of a text": {`{"k":"Bearer secret://a"}`, []string{"/k"}, `{"k":"Bearer secret://a"}`},
		"another scheme":   {`{"k":"Secret://a"}`, []string{"/k"}, `{"k":"Secret://a"}`},
		"a nested member": {
			`{"x":{"k":"secret://a"},"k":{"k":"secret://a"}}`,
			[]string{"/x/k"},
			`{"x":{"k":"value-of-a"},"k":{"k":"secret://a"}}`,
		},
		"an element":      {`{"x":["secret://a","secret://a"]}`, []string{"/x/1"}, `{"x":["secret://a","value-of-a"]}`},
		"below a pointer": {`{"x":{"k":"secret://a"}}`, []string{"/x"}, `{"x":{"k":"secret://a"}}`},
		"not a string":    {`{"x":7,"y":null,"z":[],"s":"secret://"}`, []string{"/x", "/y", "/z"}, ""},
		"names to escape": {`{"a/b~c":"secret://a"}`, []string{"/a~1b~0c"}, `{"a/b~c":"value-of-a"}`},
		"escapes":         {`{"\u006b":"\u0073ecret:\/\/a"}`, []string{"/k"}, `{"\u006b":"value-of-a"}`},
		"twice the member": {
			`{"k":"secret://a","k":"secret://b.c"}`, []string{"/k"}, `{"k":"value-of-a","k":"line 1\nline \"2\""}`,
		},
		"the name of a member": {`{"secret://a":"secret://a"}`, []string{"/secret:~1~1a"}, `{"secret://a":"value-of-a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := sessionsecret.References(test.arguments, test.pointers)
			if err != nil {
				t.Fatal(err)
			}
			got, err := sessionsecret.Replace(test.arguments, found, values, 1<<10)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				test.want = test.arguments
			}
			if got != test.want || !json.Valid([]byte(got)) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Rules: KV-02.
func TestFilledArgumentsAreBounded(t *testing.T) {
	arguments := `{` + strings.Repeat(`"k":"secret://a",`, 1000) + `"k":"secret://a"}`
	found, err := sessionsecret.References(arguments, []string{"/k"})
	if err != nil || len(found) != 1001 {
		t.Fatal(len(found), err)
	}
	values := map[string]string{"a": strings.Repeat("x", sessionsecret.MaxValueBytes)}
	if got, err := sessionsecret.Replace(arguments, found, values, 64<<10); err == nil || got != "" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if deep, err := sessionsecret.References(strings.Repeat(`[`, 1<<20)+`"secret://a"`, []string{"/0"}); err == nil {
		t.Errorf("JSON without an end has %v", deep)
	}
}
