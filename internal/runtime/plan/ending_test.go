package plan

import (
	"errors"
	"reflect"
	"testing"
)

func TestFailClosesTheTurn(t *testing.T) {
	tests := map[string]struct {
		err  error
		text string
		code ErrorCode
	}{
		"known class":   {errors.New("calling p: error (503)"), "calling p: error (503)", CodeProviderUnavailable},
		"unknown class": {errors.New("secret-host refused"), "secret-host refused", CodeProcessingError},
		"empty":         {errors.New(""), GenericError, CodeProcessingError},
		"none":          {nil, GenericError, CodeProcessingError},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			outcome := Fail(testState(), test.err)
			complete := planOf[Complete](t, outcome)
			if complete.Error != test.text || complete.StopReason != StopError || complete.Failure.Code != test.code {
				t.Errorf("unexpected plan %+v, failure %+v", complete, complete.Failure)
			}
			expectEffects(t, outcome, failedOrder)
			event := outcome.Effects[1].(EffectTurnFailed)
			if event.Error != (Failure{Code: test.code}).Sentence() || event.Code != test.code {
				t.Errorf("unexpected event %+v", event)
			}
		})
	}
}

func TestFailAsKeepsTheHostsReason(t *testing.T) {
	failure := Failure{Code: "deadline_exceeded", Fields: map[string]any{"seconds": 30}}
	outcome := FailAs(testState(), failure, "The turn took too long.")
	complete := planOf[Complete](t, outcome)
	if complete.Error != "The turn took too long." || complete.StopReason != StopError ||
		!reflect.DeepEqual(*complete.Failure, failure) {
		t.Errorf("unexpected plan %+v", complete)
	}
	expectEffects(t, outcome, failedOrder)
	event := outcome.Effects[1].(EffectTurnFailed)
	if event.Error != complete.Error || event.Code != failure.Code || !reflect.DeepEqual(event.Fields, failure.Fields) {
		t.Errorf("unexpected event %+v", event)
	}
}

func TestFailAsFillsWhatIsMissing(t *testing.T) {
	outcome := FailAs(testState(), Failure{}, "")
	complete := planOf[Complete](t, outcome)
	sentence := Failure{Code: CodeProcessingError}.Sentence()
	if complete.Failure.Code != CodeProcessingError || complete.Error != sentence {
		t.Errorf("unexpected plan %+v, failure %+v", complete, complete.Failure)
	}
	if event := outcome.Effects[1].(EffectTurnFailed); event.Code != CodeProcessingError || event.Error != sentence {
		t.Errorf("unexpected event %+v", event)
	}
}

func TestCancelClosesTheTurn(t *testing.T) {
	outcome := Cancel(testState())
	complete := planOf[Complete](t, outcome)
	if complete.StopReason != StopCancelled || complete.Succeeded() || complete.Failure.Code != CodeCancelled ||
		complete.Error == "" {
		t.Errorf("unexpected plan %+v", complete)
	}
	expectEffects(t, outcome, failedOrder)
	if event := outcome.Effects[1].(EffectTurnFailed); event.Code != CodeCancelled || event.Error == "" {
		t.Errorf("unexpected event %+v", event)
	}
}
