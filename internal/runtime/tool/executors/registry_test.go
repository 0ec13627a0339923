package executors

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Rules: TOOL-01.
func TestWhoCarriesOutTheCallsOfAnExecutor(t *testing.T) {
	for executor, want := range map[v1alpha1.ToolExecutor]struct{ carriedOut, inProcess bool }{
		v1alpha1.ToolExecutorJob:     {carriedOut: true},
		v1alpha1.ToolExecutorHTTP:    {carriedOut: true, inProcess: true},
		v1alpha1.ToolExecutorMCP:     {carriedOut: true, inProcess: true},
		v1alpha1.ToolExecutorBuiltin: {carriedOut: true, inProcess: true},
		v1alpha1.ToolExecutorClient:  {},
		v1alpha1.ToolExecutorNone:    {},
	} {
		if CarriedOut(executor) != want.carriedOut || InProcess(executor) != want.inProcess {
			t.Errorf("%s: carried out %v, in process %v", executor, CarriedOut(executor), InProcess(executor))
		}
	}
}

// TestEveryFieldOfAToolChoosesItsExecutor sets each field of ToolSpec that configures an executor: the types of these
// fields end with Tool.
func TestEveryFieldOfAToolChoosesItsExecutor(t *testing.T) {
	fields := map[string]bool{}
	spec := reflect.TypeFor[v1alpha1.ToolSpec]()
	for i := range spec.NumField() {
		field := spec.Field(i)
		if field.Type.Kind() != reflect.Pointer || !strings.HasSuffix(field.Type.Elem().Name(), "Tool") {
			continue
		}
		set := &v1alpha1.ToolSpec{}
		reflect.ValueOf(set).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		chosen := Chosen(set)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if chosen.Name == "" || chosen.Field.Name != name || fields[name] {
			t.Errorf("a Tool with %s is run by executor %q, whose field is %q", name, chosen.Name, chosen.Field.Name)
		}
		fields[name] = true
	}
	for _, e := range All() {
		if (e.Field.Name != "") != fields[e.Field.Name] || Named(e.Name).Carrier != e.Carrier || e.Carrier == "" {
			t.Errorf("executor %s has the field %q and the carrier %q", e.Name, e.Field.Name, e.Carrier)
		}
	}
	if len(fields) < 3 {
		t.Errorf("only %d fields were found", len(fields))
	}
	if chosen := Chosen(&v1alpha1.ToolSpec{}); chosen.Name != "" {
		t.Errorf("a Tool without such a field is run by executor %s", chosen.Name)
	}
}

func TestTheTimeoutOfACallIsThePinnedOneOrThatOfItsTool(t *testing.T) {
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	http := Named(v1alpha1.ToolExecutorHTTP)
	spec := &v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{Timeout: duration(time.Minute)}}
	for name, c := range map[string]struct {
		executor Executor
		call     v1alpha1.ToolCall
		spec     *v1alpha1.ToolSpec
		want     time.Duration
	}{
		"none":              {http, v1alpha1.ToolCall{}, nil, 30 * time.Second},
		"of another field":  {Named(v1alpha1.ToolExecutorJob), v1alpha1.ToolCall{}, spec, 5 * time.Minute},
		"of the Tool":       {http, v1alpha1.ToolCall{}, spec, time.Minute},
		"pinned":            {http, v1alpha1.ToolCall{Timeout: duration(time.Second)}, spec, time.Second},
		"pinned to nothing": {http, v1alpha1.ToolCall{Timeout: duration(0)}, spec, time.Minute},
		"of a client":       {Named(v1alpha1.ToolExecutorClient), v1alpha1.ToolCall{}, spec, 0},
		"of a built-in":     {Named(v1alpha1.ToolExecutorBuiltin), v1alpha1.ToolCall{}, spec, 0},
	} {
		if got := c.executor.TimeoutOf(c.call, c.spec); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
