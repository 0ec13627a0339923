package provider

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

func TestStatusErrorsClassifyRightly(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		kind   string
		want   plan.ErrorCode
		again  bool
	}{
		"400":                        {400, "invalid_request_error", plan.CodeProcessingError, false},
		"400, too long":              {400, KindContextLength, plan.CodeRequestTooLarge, false},
		"400, wrong key":             {400, KindInvalidKey, plan.CodeProviderMisconfigured, false},
		"401":                        {401, "", plan.CodeProviderMisconfigured, false},
		"402":                        {402, "billing_error", plan.CodeProviderQuotaExhausted, false},
		"403":                        {403, "permission_error", plan.CodeProviderMisconfigured, false},
		"403, another model":         {403, KindModelNotFound, plan.CodeModelUnavailable, false},
		"404":                        {404, "not_found_error", plan.CodeModelUnavailable, false},
		"408":                        {408, "", plan.CodeProviderUnavailable, true},
		"409":                        {409, "", plan.CodeProviderUnavailable, true},
		"413":                        {413, "request_too_large", plan.CodeRequestTooLarge, false},
		"422":                        {422, "", plan.CodeProcessingError, false},
		"429":                        {429, "rate_limit_error", plan.CodeProviderRateLimited, true},
		"429, used up":               {429, KindQuota, plan.CodeProviderQuotaExhausted, false},
		"500":                        {500, "api_error", plan.CodeProviderUnavailable, true},
		"501":                        {501, "", plan.CodeProviderUnavailable, true},
		"502":                        {502, "", plan.CodeProviderUnavailable, true},
		"503":                        {503, "", plan.CodeProviderUnavailable, true},
		"504":                        {504, "", plan.CodeProviderUnavailable, true},
		"529":                        {529, "overloaded_error", plan.CodeProviderUnavailable, true},
		"within, overloaded":         {200, "overloaded_error", plan.CodeProviderUnavailable, true},
		"within, limited":            {200, "rate_limit_error", plan.CodeProviderRateLimited, true},
		"within, wrong key":          {0, "authentication_error", plan.CodeProviderMisconfigured, false},
		"within, not permitted":      {0, "PERMISSION_DENIED", plan.CodeProviderMisconfigured, false},
		"within, refused":            {0, "invalid_request_error", plan.CodeProcessingError, false},
		"within, too large":          {0, "request_too_large", plan.CodeRequestTooLarge, false},
		"within, unknown model":      {0, "NOT_FOUND", plan.CodeModelUnavailable, false},
		"within, a word of no class": {0, "sorry", plan.CodeProviderUnavailable, true},
		"within, no word":            {0, "", plan.CodeProviderUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := StatusError("Someone", "large-1", test.status, time.Minute, test.kind)
			if got := Class(err); got != test.want {
				t.Errorf("%q is of the class %s, want %s", err, got, test.want)
			}
			if fields := plan.Classify(
				err.Error(),
			).Fields; test.want == plan.CodeModelUnavailable &&
				fields["model_id"] != "large-1" {
				t.Errorf("the fields are %v", fields)
			}
			if shown := number.FindString(err.Error()); shown != "" && shown != strconv.Itoa(test.status) {
				t.Errorf("no server sent the status in %q", err)
			}
			var own *Error
			if !errors.As(err, &own) || own.Transient() != test.again || own.RetryAfter != time.Minute ||
				own.Kind != test.kind ||
				own.Provider != "Someone" {
				t.Errorf("the error is %+v", err)
			}
			if test.status >= 300 && own.Status != test.status || own.Status < 300 {
				t.Errorf("the status is %d", own.Status)
			}
		})
	}
}

func TestAWaitBackIntoThePastIsNone(t *testing.T) {
	var own *Error
	if err := StatusError("Someone", "large-1", 429, -time.Second, ""); !errors.As(err, &own) || own.RetryAfter != 0 {
		t.Errorf("the error is %+v", err)
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"rate_limit_exceeded": "rate_limit_exceeded", "RESOURCE_EXHAUSTED": "RESOURCE_EXHAUSTED", "a-b.c d": "a-b.c d", "": "",
		"the secret word": "", "(429)": "", "a\nb": "", "sk1": "", "é": "", strings.Repeat("x", 100): strings.Repeat("x", 100), strings.Repeat("x", 101): "",
	} {
		if got := Words(text, "secret"); got != want {
			t.Errorf("Words(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestAWordCannotChangeTheClass(t *testing.T) {
	for _, kind := range []string{"(401)", "Model not available: x", "api key\nmissing (429)", "context length (413)"} {
		err := StatusError("Someone", "large-1", 400, 0, kind)
		if got := Class(err); got != plan.CodeProcessingError {
			t.Errorf("%q classifies as %s", err, got)
		}
	}
}
