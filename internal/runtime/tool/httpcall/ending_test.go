package httpcall

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// TestAnAnswerThatIsAnImage: it is a result with one image, whatever bytes it has.
func TestAnAnswerThatIsAnImage(t *testing.T) {
	const image = "\x89PNG\r\n\x1a\n\xff\x00"
	const block = `[{"type":"image","mimeType":"image/png","data":"iVBORw0KGgr/AA=="}]`
	for name, test := range map[string]struct {
		answer egress.Response
		want   string
	}{
		"whole": {egress.Response{Body: []byte(image)}, block},
		"too large": {
			egress.Response{Body: []byte(image), More: true, Length: 99_999}, " with 99999 bytes that is too large.",
		},
		"of unknown size": {
			egress.Response{Body: []byte(image), More: true, Length: -1}, "of type image/png that is too large.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.answer.Status, test.answer.Header = 200, http.Header{"Content-Type": {"image/png; q=1"}}
			outcome := Ended(v1alpha1.ToolCall{}, egress.Request{}, &test.answer, nil)
			if outcome.State != v1alpha1.ToolCallStateSucceeded || !strings.Contains(*outcome.Result, test.want) {
				t.Errorf("the outcome is %+v", outcome)
			}
			test.answer.Header.Set("Content-Type", "image/tiff")
			outcome = Ended(v1alpha1.ToolCall{}, egress.Request{}, &test.answer, nil)
			if !strings.HasPrefix(*outcome.Result, "\uFFFDPNG") {
				t.Errorf("of another type the result is %q", *outcome.Result)
			}
			test.answer.Status, test.answer.Header = 404, http.Header{"Content-Type": {"image/png"}}
			outcome = Ended(v1alpha1.ToolCall{}, egress.Request{}, &test.answer, nil)
			if outcome.Result != nil || outcome.Reason != v1alpha1.ToolCallReasonHTTPStatus {
				t.Errorf("with another status the outcome is %+v", outcome)
			}
		})
	}
}

func TestAnAnswerIsAResultOrAnError(t *testing.T) {
	long := strings.Repeat("x", tool.MaxResultBytes+MaxHeaderBytes)
	for name, test := range map[string]struct {
		answer egress.Response
		state  v1alpha1.ToolCallState
		reason string
		parts  []string
		size   int
	}{
		"200": {
			answer: egress.Response{Status: 200, Body: []byte("fine")}, state: v1alpha1.ToolCallStateSucceeded,
			reason: v1alpha1.ToolCallReasonCompleted, parts: []string{"fine"}, size: 4,
		},
		"204": {
			answer: egress.Response{Status: 204}, state: v1alpha1.ToolCallStateSucceeded,
			reason: v1alpha1.ToolCallReasonCompleted,
		},
		"not all text": {
			answer: egress.Response{Status: 200, Body: []byte("a\xffb")}, state: v1alpha1.ToolCallStateSucceeded,
			reason: v1alpha1.ToolCallReasonCompleted, parts: []string{"a\uFFFDb"},
		},
		"a body that is just too long": {
			answer: egress.Response{Status: 200, Body: []byte(long[:tool.MaxResultBytes+1])},
			state:  v1alpha1.ToolCallStateSucceeded,
			reason: v1alpha1.ToolCallReasonCompleted, parts: []string{" of 65537 bytes."}, size: tool.MaxResultBytes,
		},
		"a body that is too long": {
			answer: egress.Response{Status: 200, Body: []byte(long), More: true, Length: 1 << 20},
			state:  v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
			parts: []string{" of 1048576 bytes."}, size: tool.MaxResultBytes,
		},
		"a body of unknown length": {
			answer: egress.Response{Status: 200, Body: []byte(long), More: true, Length: -1},
			state:  v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
			parts: []string{"and there are more."}, size: tool.MaxResultBytes,
		},
		"404": {
			answer: egress.Response{Status: 404, Body: []byte("no such city")}, state: v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonHTTPStatus,
			parts:  []string{"The server responded with status 404 (Not Found).", "no such city"},
		},
		"500 without a body": {
			answer: egress.Response{Status: 500}, state: v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonHTTPStatus,
			parts: []string{"status 500 (Internal Server Error) and an empty body."},
		},
		"an unknown status": {
			answer: egress.Response{Status: 799, Body: []byte("?")}, state: v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonHTTPStatus, parts: []string{"status 799."},
		},
		"300": {
			answer: egress.Response{Status: 300}, state: v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonHTTPStatus,
		},
		"a long error": {
			answer: egress.Response{Status: 400, Body: []byte(long)}, state: v1alpha1.ToolCallStateFailed,
			reason: v1alpha1.ToolCallReasonHTTPStatus,
		},
		"a secret that is sent back": {
			answer: egress.Response{Status: 200, Body: []byte("you said hidden-key")}, state: v1alpha1.ToolCallStateSucceeded,
			reason: v1alpha1.ToolCallReasonCompleted, parts: []string{"you said [redacted]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := Ended(
				v1alpha1.ToolCall{},
				egress.Request{Secret: http.Header{"X-Key": {"hidden-key"}}},
				&test.answer,
				nil,
			)
			if outcome.State != test.state || outcome.Reason != test.reason || !outcome.Started || outcome.Retryable ||
				(outcome.Result == nil) != (outcome.Error != "") {
				t.Errorf("the outcome is %+v", outcome)
			}
			text := outcome.Error
			if outcome.Result != nil {
				text = *outcome.Result
			}
			for _, word := range test.parts {
				if !strings.Contains(text, word) {
					t.Errorf("%.200q does not contain %q", text, word)
				}
			}
			if test.size > 0 && len(text) != test.size || len(text) > tool.MaxResultBytes ||
				outcome.Error != "" && len(text) > tool.MaxErrorBodyBytes+200 {
				t.Errorf("the text has %d bytes", len(text))
			}
		})
	}
}

func TestARequestWithoutAnAnswerIsJudgedByWhatIsCertain(t *testing.T) {
	const (
		failed, not, unknown = v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallStateUnknown
		once, again          = v1alpha1.SideEffectAtMostOnce, v1alpha1.SideEffectIdempotent
	)
	for name, test := range map[string]struct {
		err    error
		class  v1alpha1.SideEffect
		state  v1alpha1.ToolCallState
		reason string
		retry  bool
	}{
		"not permitted": {
			&egress.Error{Reason: egress.ReasonForbidden}, again, not, v1alpha1.ToolCallReasonNetworkAccessDenied, false,
		},
		"refused, once": {
			&egress.Error{Reason: egress.ReasonRefused}, once, not, v1alpha1.ToolCallReasonAddressRefused, false,
		},
		"refused": {
			&egress.Error{Reason: egress.ReasonRefused}, again, not, v1alpha1.ToolCallReasonAddressRefused, false,
		},
		"invalid": {
			&egress.Error{Reason: egress.ReasonInvalid}, again, not, v1alpha1.ToolCallReasonInvalidRequest, false,
		},
		"no host, once": {
			&egress.Error{Reason: egress.ReasonUnresolved}, once, not, v1alpha1.ToolCallReasonConnectionFailed, false,
		},
		"no host": {
			&egress.Error{Reason: egress.ReasonUnresolved}, again, not, v1alpha1.ToolCallReasonConnectionFailed, true,
		},
		"no connection, once": {
			&egress.Error{Reason: egress.ReasonUnreachable}, once, not, v1alpha1.ToolCallReasonConnectionFailed, false,
		},
		"no connection": {
			&egress.Error{Reason: egress.ReasonUnreachable}, again, not, v1alpha1.ToolCallReasonConnectionFailed, true,
		},
		"no connection after redirect": {
			&egress.Error{Reason: egress.ReasonUnreachable, Sent: true}, once, unknown, v1alpha1.ToolCallReasonConnectionFailed,
			false,
		},
		"not trusted": {
			&egress.Error{Reason: egress.ReasonUntrusted}, again, not, v1alpha1.ToolCallReasonConnectionFailed, false,
		},
		"lost, once": {
			&egress.Error{Reason: egress.ReasonLost, Sent: true}, once, unknown, v1alpha1.ToolCallReasonConnectionLost, false,
		},
		"lost": {
			&egress.Error{Reason: egress.ReasonLost, Sent: true}, again, failed, v1alpha1.ToolCallReasonConnectionLost, true,
		},
		"lost within a good answer": {
			&egress.Error{Reason: egress.ReasonLost, Sent: true, Status: 200}, once, failed, v1alpha1.ToolCallReasonOutputLost,
			false,
		},
		"lost within a bad answer": {
			&egress.Error{Reason: egress.ReasonLost, Sent: true, Status: 500}, once, unknown,
			v1alpha1.ToolCallReasonConnectionLost, false,
		},
		"redirected elsewhere": {
			&egress.Error{Reason: egress.ReasonRedirect, Sent: true}, once, failed, v1alpha1.ToolCallReasonRedirectRefused,
			false,
		},
		"too slow, once": {
			&egress.Error{Reason: egress.ReasonTimeout, Sent: true}, once, unknown, v1alpha1.ToolCallReasonTimeout, false,
		},
		"too slow": {
			&egress.Error{Reason: egress.ReasonTimeout, Sent: true}, again, failed, v1alpha1.ToolCallReasonTimeout, false,
		},
		"too slow to connect": {
			&egress.Error{Reason: egress.ReasonTimeout}, once, not, v1alpha1.ToolCallReasonTimeout, false,
		},
		"cancelled, once": {
			&egress.Error{Reason: egress.ReasonCancelled, Sent: true}, once, unknown, v1alpha1.ToolCallReasonConnectionLost,
			false,
		},
		"cancelled before": {
			&egress.Error{Reason: egress.ReasonCancelled}, once, not, v1alpha1.ToolCallReasonConnectionLost, false,
		},
		"anything else": {
			errors.New("secret words"), once, unknown, v1alpha1.ToolCallReasonConnectionLost, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			call := v1alpha1.ToolCall{SideEffect: test.class, Attempt: 1}
			outcome := Ended(call, egress.Request{Timeout: 30 * time.Second}, nil, test.err)
			if outcome.State != test.state || outcome.Reason != test.reason || outcome.Retryable != test.retry ||
				outcome.Error == "" ||
				outcome.Result != nil {
				t.Errorf("the outcome is %+v", outcome)
			}
			if outcome.Started != (test.state != not) || strings.Contains(outcome.Error, "secret words") {
				t.Errorf("started %v, it reports %q", outcome.Started, outcome.Error)
			}
			call.Attempt = 2
			if later := Ended(call, egress.Request{}, nil, test.err); test.class == again && later.State == not {
				t.Errorf("the second attempt is reported as without effect: %+v", later)
			}
		})
	}
}

func TestTextsOfCallsThatWereNotCarriedOut(t *testing.T) {
	once, again := v1alpha1.ToolCall{
		SideEffect: v1alpha1.SideEffectAtMostOnce,
	}, v1alpha1.ToolCall{
		SideEffect: v1alpha1.SideEffectPure,
	}
	for name, test := range map[string]struct {
		outcome tool.Outcome
		state   v1alpha1.ToolCallState
		reason  string
	}{
		"changed, once":    {tool.CallChanged(once), v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonToolChanged},
		"changed":          {tool.CallChanged(again), v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonToolChanged},
		"claimed by other": {Abandoned(), v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonManagerLost},
		"not claimed":      {tool.CallUnclaimed(), v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonLogFull},
	} {
		if test.outcome.State != test.state || test.outcome.Reason != test.reason || test.outcome.Error == "" {
			t.Errorf("%s: %+v", name, test.outcome)
		}
	}
}

// A server may redirect to a host with a value that it has got in an earlier call. Hosts are written in lower case.
//
// Rules: KV-02.
func TestAnErrorDoesNotNameAHostThatIsASecret(t *testing.T) {
	for _, reason := range []egress.Reason{
		egress.ReasonRedirect, egress.ReasonRefused, egress.ReasonUnresolved, egress.ReasonUntrusted, egress.ReasonLost,
	} {
		for _, sent := range []bool{true, false} {
			err := &egress.Error{Reason: reason, Text: "failed to resolve the host hunter2-hunter2", Sent: sent}
			call := v1alpha1.ToolCall{SideEffect: v1alpha1.SideEffectPure, Attempt: 1}
			outcome := Ended(call, egress.Request{}, nil, err, "Hunter2-Hunter2")
			if strings.Contains(outcome.Error, "hunter2") || !strings.Contains(outcome.Error, "the host [redacted]") ||
				!strings.Contains(err.Text, "hunter2") {
				t.Errorf("%s: it reports %q", reason, outcome.Error)
			}
		}
	}
}
