package prompt

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Rules: CAP-05.
func TestTheSystemPrompt(t *testing.T) {
	const swiss = "The user's locale is de-CH (BCP 47). Answer in that language and by its conventions, unless the user " +
		"asks for another one."
	for name, test := range map[string]struct {
		capabilities   []capability.Prompt
		layers, locale string
		fences         bool
		want           string
	}{
		"no prompts":       {want: ""},
		"the layers alone": {layers: "Be brief.", want: "Be brief."},
		"fences":           {layers: "Be brief.", fences: true, want: "Be brief.\n\n" + event.FenceNote},
		"fences alone":     {fences: true, want: event.FenceNote},
		"the locale alone": {locale: "de-CH", want: swiss},
		"changing parts last": {
			layers: "Be brief.", locale: "de-CH", fences: true, want: "Be brief.\n\n" + event.FenceNote + "\n\n" + swiss,
		},
		"capabilities, before the layers": {
			capabilities: []capability.Prompt{{ID: "a", Text: "Do a."}, {ID: "b", Text: "Do b."}}, layers: "Be brief.",
			locale: "de-CH",
			want: "<capability id=\"a\">\nDo a.\n</capability>\n\n<capability id=\"b\">\nDo b.\n</capability>\n\n" +
				"<system-prompt>\nBe brief.\n</system-prompt>\n\n" + swiss,
		},
		"a capability alone": {
			capabilities: []capability.Prompt{{ID: "a", Text: "Do a."}}, want: "<capability id=\"a\">\nDo a.\n</capability>",
		},
		"layers and a locale": {layers: "Be brief.", locale: "de-CH", want: "Be brief.\n\n" + swiss},
	} {
		t.Run(name, func(t *testing.T) {
			prompts := Prompts{Capabilities: test.capabilities, Layers: test.layers, Locale: test.locale}
			if got := systemPrompt(prompts, test.fences); got != test.want {
				t.Errorf("the system prompt is %q, not %q", got, test.want)
			}
		})
	}
}

// Rules: LLM-01.
func TestAContextIsReadBackAsItWasSent(t *testing.T) {
	var sent Context
	raw := []byte(`{"SystemPrompt":"a","Tools":[{"Name":"look","InputSchema":{"a":"\u003cb\u003e"}}]}`)
	if err := json.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	pinned := sent.Pin(nil, 1<<10)
	read, err := Unpack(pinned.Content)
	if err != nil || !reflect.DeepEqual(read, sent) {
		t.Errorf("read %+v, %v, want %+v", read, err, sent)
	}
	if again := sent.Pin(&format.ContextRef{Digest: pinned.Digest}, 0); again.Digest != pinned.Digest ||
		again.Content != nil {
		t.Errorf("a second time it is recorded as %+v", again)
	}
	if tooLarge := sent.Pin(nil, len(pinned.Content)-1); tooLarge != nil {
		t.Errorf("more than fits is recorded: %+v", tooLarge)
	}
	if _, err := Unpack(pinned.Content[:20]); err == nil {
		t.Error("half a context is read without an error")
	}
}

func TestAContextThatIsSentIsTheOneThatIsRecorded(t *testing.T) {
	look := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: "look"}, Spec: v1alpha1.ToolSpec{
		Description: "Looks.", Client: &v1alpha1.ClientTool{},
		InputSchema: &v1alpha1.JSON{Raw: []byte(`{ "type": "object", "description": "<where & when>" }`)},
	}}
	sent, err := Render(Prompts{Layers: "Be brief."}, definition.Set{definition.Of(look)}, nil).Recorded()
	if err != nil || len(sent.Tools) != 1 || !strings.HasSuffix(sent.SystemPrompt, event.FenceNote) {
		t.Fatalf("the context is %+v, %v", sent, err)
	}
	if read, err := Unpack(sent.Pin(nil, 1<<10).Content); err != nil || !reflect.DeepEqual(read, sent) {
		t.Errorf("read %+v, %v, want %+v", read, err, sent)
	}
	results := []event.Message{{Role: event.RoleToolResult}}
	if got := Render(Prompts{}, nil, results); got.SystemPrompt != event.FenceNote || got.Tools != nil {
		t.Errorf("without tools, but with a result the context is %+v", got)
	}
	large := Render(Prompts{Layers: strings.Repeat("x", maxBytes)}, nil, nil)
	if got, err := large.Recorded(); err != nil || !reflect.DeepEqual(got, large) || got.Pin(nil, 1<<10) != nil {
		t.Errorf("of a large context %d bytes are sent, %v", len(got.SystemPrompt), err)
	}
}
