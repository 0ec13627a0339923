package anthropic

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// TestWhichModelsReason holds which models may send nothing while they think.
func TestWhichModelsReason(t *testing.T) {
	const none, low, high = v1alpha1.ReasoningEffortNone, v1alpha1.ReasoningEffortLow, v1alpha1.ReasoningEffortHigh
	d := newDouble(t, streams())
	for _, test := range []struct {
		model   string
		effort  v1alpha1.ReasoningEffort
		limit   *int32
		reasons bool
	}{
		{"claude-test", "", nil, false},
		{"claude-3-5-haiku-20241022", high, nil, false},
		{"claude-3-7-sonnet-20250219", "", nil, false},
		{"claude-3-7-sonnet-20250219", low, nil, true},
		{"claude-sonnet-4-5-20250929", none, nil, false},
		{"claude-haiku-4-5", high, ptr.To[int32](1000), false},
		{"claude-opus-4-6", "", nil, false},
		{"claude-opus-4-8", "", nil, false},
		{"claude-opus-4-8", low, nil, true},
		{"claude-sonnet-5", "", nil, true},
		{"claude-sonnet-5", none, nil, false},
		{"claude-opus-5", "", nil, true},
		{"claude-opus-5-5", none, nil, true},
		{"claude-haiku-5-5", "", nil, true},
		{"claude-fable-5-1", none, nil, true},
		{"claude-mythos-5", "", nil, true},
		{"claude-opus-6", "", nil, true},
		{"anthropic/claude-sonnet-5", "", nil, true},
	} {
		driver, ok := d.driver(
			t, v1alpha1.ModelParameters{ReasoningEffort: test.effort, MaxOutputTokens: test.limit},
		).(model.Reasoner)
		if !ok {
			t.Fatal("the driver does not report whether its model reasons")
		}
		r := simple()
		r.Model = test.model
		if got := driver.Reasons(r); got != test.reasons {
			t.Errorf("%s, effort %q: reasons %t, want %t", test.model, test.effort, got, test.reasons)
		}
	}
}

// TestTheStartOfAnEmptyThoughtIsNoContent: newer models send the start of a thought, nothing of it while they think,
// and its signature when they have thought.
func TestTheStartOfAnEmptyThoughtIsNoContent(t *testing.T) {
	const (
		empty = `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"",` +
			`"signature":""}}`
		thought = `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"Hm.",` +
			`"signature":""}}`
		signature = `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}`
	)
	for name, test := range map[string]struct {
		start string
		want  int
	}{"empty": {empty, 6}, "with a thought": {thought, 7}} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(
				t,
				streams(
					start,
					test.start,
					ping,
					signature,
					blockStop(0),
					textStart(1),
					text(1, "Hi"),
					blockStop(1),
					ends("end_turn"),
					stop,
				),
			)
			partials := 0
			r := simple()
			r.OnPartial = func(model.Partial) { partials++ }
			if _, err := d.driver(t, v1alpha1.ModelParameters{}).Generate(t.Context(), r); err != nil || partials != test.want {
				t.Errorf("%d of the events were content (%v), want %d", partials, err, test.want)
			}
		})
	}
}
