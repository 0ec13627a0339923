package lease

import (
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Rules: LEASE-01.
func TestTheNameOfALeaseFollowsFromTheResource(t *testing.T) {
	of := Identity{Provider: "a", Type: "b", ExternalID: "c"}
	name := Name("ns", of)
	if name != Name("ns", of) || len(validation.IsDNS1123Label(name)) > 0 {
		t.Errorf("the name is %s", name)
	}
	for _, other := range []string{
		Name("n", of), Name("ns", Identity{Provider: "ab", Type: "", ExternalID: "c"}),
		Name("ns", Identity{Provider: "a", Type: "bc", ExternalID: ""}),
	} {
		if other == name {
			t.Errorf("two resources have the name %s", name)
		}
	}
}

// Rules: LEASE-01.
func TestTheIDInAText(t *testing.T) {
	const cut = "\n\n[Output cut: this is the first 9 bytes, and there are more.]"
	for _, test := range []struct{ text, pointer, want string }{
		{`{"id": "vm-1"}`, "/id", "vm-1"},
		{`{"id": 17}`, "/id", "17"},
		{`{"id": 9223372036854775807}`, "/id", "9223372036854775807"},
		{`{"data": [{"a/b": {"~": "x"}}]}`, "/data/0/a~1b/~0", "x"},
		{`{"id": 1.5}`, "/id", ""},
		{`{"id": true}`, "/id", ""},
		{`{"id": ""}`, "/id", ""},
		{`{"id": "a\nb"}`, "/id", ""},
		{`{"id": "` + strings.Repeat("x", MaxIDBytes) + `"}`, "/id", strings.Repeat("x", MaxIDBytes)},
		{`{"id": "` + strings.Repeat("x", MaxIDBytes+1) + `"}`, "/id", ""},
		{`{"id": {"a": 1}}`, "/id", ""},
		{`{}`, "/id", ""},
		{`["a"]`, "/1", ""},
		{`["a"]`, "/-1", ""},
		{`"a"`, "/id", ""},
		{`{"id": "vm-1"`, "/id", ""},
		{`{"id": "vm-1", "log": "aaa` + cut, "/id", "vm-1"},
		{`{"a": {"id": "no"}, "data": [1, {"id": 17, "log": [` + cut, "/data/1/id", "17"},
		{`{"id": "vm-1` + cut, "/id", ""},
		{`{"id": 17` + cut, "/id", ""},
		{`{"log": "aaa` + cut, "/id", ""},
		{`{"id": "first", "id": "second"}`, "/id", "first"},
		{`{"id": "first", "id": "second", "log": "aaa` + cut, "/id", "first"},
		{`["a", "b"]`, "/01", ""},
		{``, "/id", ""},
	} {
		if got, found := FindID(test.text, test.pointer); found != (test.want != "") || found && got != test.want {
			t.Errorf("%s has at %s the id %q, %v; want %q", test.text, test.pointer, got, found, test.want)
		}
	}
}

func FuzzFindID(f *testing.F) {
	f.Add(`{"id": "vm-1"}`, "/id")
	f.Add(`{"id": "vm-1", "log": "a`, "/id")
	f.Add(`[[[{"a": 1e400}]]]`, "/0/0/0/a")
	f.Fuzz(func(t *testing.T, text, pointer string) {
		if id, found := FindID(text, pointer); found && !validID(id) {
			t.Errorf("%q has the id %q", text, id)
		}
	})
}

// Rules: LEASE-04.
func TestWhichToolsCleanUp(t *testing.T) {
	header := func(h v1alpha1.HTTPHeader) *v1alpha1.HTTPTool {
		return &v1alpha1.HTTPTool{Headers: []v1alpha1.HTTPHeader{h}}
	}
	connection := v1alpha1.HTTPHeader{Connection: &v1alpha1.HeaderConnection{Provider: "a"}}
	fallback := connection
	fallback.SecretKeyRef = &v1alpha1.SecretKeyReference{}
	query := func(properties string) v1alpha1.ToolSpec {
		return v1alpha1.ToolSpec{
			HTTP:        &v1alpha1.HTTPTool{Method: v1alpha1.HTTPMethodGet},
			InputSchema: &v1alpha1.JSON{Raw: []byte(`{"type": "object", "properties": {` + properties + `}}`)},
		}
	}
	for name, test := range map[string]struct {
		spec v1alpha1.ToolSpec
		user string
		want string
	}{
		"a request":         {v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{}}, "", ""},
		"a Job":             {v1alpha1.ToolSpec{Job: &v1alpha1.JobTool{}}, "", "not an HTTP tool"},
		"one with approval": {v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{}, Policy: "RequiresApproval"}, "", "approval"},
		"one with payment": {
			v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{Payment: &v1alpha1.HTTPPayment{}}}, "", "paid",
		},
		"one with secrets": {
			v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{SecretArguments: []v1alpha1.SecretArgument{"/a"}}}, "", "secretArguments",
		},
		"one with a lease": {
			v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{}, Lease: &v1alpha1.ToolLease{}}, "", "lease",
		},
		"one that may run once": {
			v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{}, SideEffect: v1alpha1.SideEffectAtMostOnce}, "", "Idempotent",
		},
		"one that changes nothing": {
			v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{}, SideEffect: v1alpha1.SideEffectPure}, "", "Idempotent",
		},
		"one with a secret of the Session": {v1alpha1.ToolSpec{HTTP: header(v1alpha1.HTTPHeader{
			SessionSecret: &v1alpha1.HeaderSessionSecret{Name: "a"},
		})}, "", "secret of the Session"},
		"one with a query": {query(`"externalID": {"type": "string"}, "type": {"type": "string"},
			"provider": {"type": "string"}`), "", ""},
		"one with a query without the id": {
			query(`"type": {"type": "string"}, "provider": {"type": "string"}`), "", "externalID",
		},
		"one with a query with a list": {query(`"externalID": {"type": "string"}, "type": {"type": "array"},
			"provider": {"type": "string"}`), "", "declare type"},
		"one with a query and no schema": {
			v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{Arguments: v1alpha1.HTTPArgumentsQuery}}, "", "externalID",
		},
		"one with the connection of ann":    {v1alpha1.ToolSpec{HTTP: header(connection)}, "ann", ""},
		"one with the connection of no one": {v1alpha1.ToolSpec{HTTP: header(connection)}, "", "connection"},
		"one with a Secret beside it":       {v1alpha1.ToolSpec{HTTP: header(fallback)}, "", ""},
	} {
		if test.spec.SideEffect == "" {
			test.spec.SideEffect = v1alpha1.SideEffectIdempotent
		}
		why := CheckCleaner(&test.spec, test.user)
		if (why == "") != (test.want == "") || !strings.Contains(why, test.want) {
			t.Errorf("%s: %q, want %q", name, why, test.want)
		}
	}
}

func TestTheOriginOfAURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://Example.org/a?b":  "https://example.org:443",
		"http://example.org:8080/": "http://example.org:8080",
		"HTTP://[2001:db8::1]/":    "http://[2001:db8::1]:80",
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Origin(u); got != want {
			t.Errorf("the origin of %s is %s, want %s", text, got, want)
		}
	}
}
