package stream

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// row is a type of events: what the journal has, nil for a live one, and what clients get.
type row struct{ journal, public any }

var rows = map[string]row{
	stream.TypeInputMessage:           {event.InputMessage{}, stream.InputMessage{}},
	stream.TypeSessionActivated:       {event.SessionActivated{}, stream.SessionActivated{}},
	stream.TypeSessionIdled:           {event.SessionIdled{}, stream.SessionIdled{}},
	stream.TypeTurnStarted:            {event.TurnStarted{}, stream.TurnStarted{}},
	stream.TypeTurnCompleted:          {event.TurnCompleted{}, stream.TurnCompleted{}},
	stream.TypeTurnFailed:             {event.TurnFailed{}, stream.TurnFailed{}},
	stream.TypeReasonStarted:          {event.ReasonStarted{}, stream.ReasonStarted{}},
	stream.TypeReasonCompleted:        {event.ReasonCompleted{}, stream.ReasonCompleted{}},
	stream.TypeReasonRecovered:        {event.ReasonRecovered{}, stream.ReasonRecovered{}},
	stream.TypeOutputMessageStarted:   {event.OutputMessageStarted{}, stream.OutputMessageStarted{}},
	stream.TypeOutputMessageCompleted: {event.OutputMessageCompleted{}, stream.OutputMessageCompleted{}},
	stream.TypeLLMGeneration:          {event.LLMGeneration{}, stream.LLMGeneration{}},
	stream.TypeTranscriptRepaired:     {event.TranscriptRepaired{}, stream.TranscriptRepaired{}},
	stream.TypeContextCompacting:      {event.ContextCompacting{}, stream.ContextCompacting{}},
	stream.TypeContextCompacted:       {event.ContextCompacted{}, stream.ContextCompacted{}},
	stream.TypeActStarted:             {event.ActStarted{}, stream.ActStarted{}},
	stream.TypeActCompleted:           {event.ActCompleted{}, stream.ActCompleted{}},
	stream.TypeToolStarted:            {event.ToolStarted{}, stream.ToolStarted{}},
	stream.TypeToolCompleted:          {event.ToolCompleted{}, stream.ToolCompleted{}},
	stream.TypeToolRateLimited:        {event.ToolRateLimited{}, stream.ToolRateLimited{}},
	stream.TypeToolCallRequested:      {event.ToolCallRequested{}, stream.ToolCallRequested{}},
	stream.TypeBudgetWarning:          {event.Budget{}, stream.Budget{}},
	stream.TypeBudgetPaused:           {event.Budget{}, stream.Budget{}},
	stream.TypeBudgetExhausted:        {event.Budget{}, stream.Budget{}},
	stream.TypeBudgetResumed:          {event.Budget{}, stream.Budget{}},
	stream.TypeSubAgentSpawned:        {event.SubAgent{}, stream.SubAgent{}},
	stream.TypeSubAgentCompleted:      {event.SubAgent{}, stream.SubAgent{}},
	stream.TypeSubAgentFailed:         {event.SubAgent{}, stream.SubAgent{}},
	stream.TypeSubAgentCancelled:      {event.SubAgent{}, stream.SubAgent{}},
	stream.TypeToolProgress:           {event.ToolProgress{}, stream.ToolProgress{}},
	stream.TypeOutputMessageDelta:     {nil, stream.OutputMessageDelta{}},
	stream.TypeOutputMessageReplaced:  {nil, stream.OutputMessageReplaced{}},
	stream.TypeToolOutputDelta:        {nil, stream.ToolOutputDelta{}},
	stream.TypeTurnState:              {nil, stream.TurnState{}},
	stream.TypeStreamSynced:           {nil, stream.StreamSynced{}},
	stream.TypeStreamEnded:            {nil, stream.StreamEnded{}},
}

// withheld are the fields of the journal that no client gets: the fence and reasoning are of use to models only.
var withheld = []string{
	"ToolCompleted.fence", "ToolRateLimited.fence", "Message.fence", "Message.origin", "Part.reasoning",
	// A message of the events input.message and output.message.completed is never the result of a tool.
	"Message.tool_call_id", "Message.tool_name", "Message.error",
}

// Rules: EVT-03.
func TestEveryTypeOfEventsIsPublic(t *testing.T) {
	public := constants(t, "../../../api/stream/v1alpha1/event.go")
	for _, kind := range constants(t, "../event/types.go") {
		if !slices.Contains(public, kind) {
			t.Errorf("api/stream does not have the type %s of the journal", kind)
		}
		if durable[kind] == nil && kind != event.TypeToolProgress {
			t.Errorf("the data of %s is not converted", kind)
		}
	}
	for _, kind := range public {
		if _, known := rows[kind]; !known {
			t.Errorf("%s has no row in this test", kind)
		}
		if live := rows[kind].journal == nil || kind == stream.TypeToolProgress; live != (durable[kind] == nil) {
			t.Errorf("%s is live: %t, and converted from the journal: %t", kind, live, durable[kind] != nil)
		}
	}
	if len(public) != len(rows) {
		t.Errorf("%d types, and %d rows in this test", len(public), len(rows))
	}
}

// documented is a row of the table of types in docs/events.md: type, kind, data.
var documented = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (durable|live) \\| `(\\w+)` \\|")

// Rules: EVT-03.
func TestTheTableOfTypesIsTheCode(t *testing.T) {
	text, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, found := range documented.FindAllStringSubmatch(string(text), -1) {
		kind, how, data := found[1], found[2], found[3]
		seen = append(seen, kind)
		known, ok := rows[kind]
		if !ok {
			t.Errorf("docs/events.md has the type %s, which does not exist", kind)
			continue
		}
		if (how == "durable") != (durable[kind] != nil) {
			t.Errorf("docs/events.md calls %s %s", kind, how)
		}
		if want := reflect.TypeOf(known.public).Name(); data != want {
			t.Errorf("docs/events.md has the data %s of %s, not %s", data, kind, want)
		}
	}
	for kind := range rows {
		if !slices.Contains(seen, kind) {
			t.Errorf("docs/events.md does not have %s", kind)
		}
	}
	slices.Sort(seen)
	if len(slices.Compact(slices.Clone(seen))) != len(seen) {
		t.Errorf("docs/events.md has a type twice: %v", seen)
	}
}

// Rules: EVT-02.
func TestEveryFieldOfTheJournalIsPublicOrWithheld(t *testing.T) {
	used := map[string]bool{}
	for kind, r := range rows {
		if r.journal != nil {
			compare(t, kind, reflect.TypeOf(r.journal), reflect.TypeOf(r.public), used)
		}
	}
	for _, field := range withheld {
		if !used[field] {
			t.Errorf("%s is withheld, and does not exist", field)
		}
	}
}

// compare checks that the public type has each field of that of the journal, with the same JSON name and form.
func compare(t *testing.T, kind string, from, to reflect.Type, used map[string]bool) {
	t.Helper()
	public := map[string]reflect.StructField{}
	for i := range to.NumField() {
		public[jsonName(to.Field(i))] = to.Field(i)
	}
	for i := range from.NumField() {
		field := from.Field(i)
		name := from.Name() + "." + jsonName(field)
		if slices.Contains(withheld, name) {
			used[name] = true
			continue
		}
		other, ok := public[jsonName(field)]
		if !ok {
			t.Errorf("%s: the field %s is neither public nor withheld", kind, name)
			continue
		}
		if field.Tag.Get("json") != other.Tag.Get("json") {
			t.Errorf("%s: %s is %q in the journal and %q for clients", kind, name, field.Tag.Get("json"), other.Tag.Get("json"))
		}
		a, b := element(field.Type), element(other.Type)
		if a.Kind() != b.Kind() {
			t.Errorf("%s: %s is of the kind %s in the journal and %s for clients", kind, name, a.Kind(), b.Kind())
		}
		if a.Kind() == reflect.Struct && a != b {
			compare(t, kind, a, b, used)
		}
	}
}

func element(of reflect.Type) reflect.Type {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	return of
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// constants returns the values of the constants of a file whose names begin with Type.
func constants(t *testing.T, path string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Type") {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no types", path)
	}
	return values
}
