package provider

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Rules: ERR-02.
func TestTheCodesOfStatusErrors(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		kind   string
		want   v1alpha1.ErrorCode
		again  bool
	}{
		"400":                        {400, "invalid_request_error", v1alpha1.ErrorCodeProcessingError, false},
		"400, too long":              {400, KindContextLength, v1alpha1.ErrorCodeRequestTooLarge, false},
		"400, wrong key":             {400, KindInvalidKey, v1alpha1.ErrorCodeProviderMisconfigured, false},
		"401":                        {401, "", v1alpha1.ErrorCodeProviderMisconfigured, false},
		"402":                        {402, "billing_error", v1alpha1.ErrorCodeProviderQuotaExhausted, false},
		"403":                        {403, "permission_error", v1alpha1.ErrorCodeProviderMisconfigured, false},
		"403, another model":         {403, KindModelNotFound, v1alpha1.ErrorCodeModelUnavailable, false},
		"404":                        {404, "not_found_error", v1alpha1.ErrorCodeModelUnavailable, false},
		"408":                        {408, "", v1alpha1.ErrorCodeProviderUnavailable, true},
		"409":                        {409, "", v1alpha1.ErrorCodeProviderUnavailable, true},
		"413":                        {413, "request_too_large", v1alpha1.ErrorCodeRequestTooLarge, false},
		"422":                        {422, "", v1alpha1.ErrorCodeProcessingError, false},
		"429":                        {429, "rate_limit_error", v1alpha1.ErrorCodeProviderRateLimited, true},
		"429, used up":               {429, KindQuota, v1alpha1.ErrorCodeProviderQuotaExhausted, false},
		"500":                        {500, "api_error", v1alpha1.ErrorCodeProviderUnavailable, true},
		"501":                        {501, "", v1alpha1.ErrorCodeProviderUnavailable, true},
		"502":                        {502, "", v1alpha1.ErrorCodeProviderUnavailable, true},
		"503":                        {503, "", v1alpha1.ErrorCodeProviderUnavailable, true},
		"504":                        {504, "", v1alpha1.ErrorCodeProviderUnavailable, true},
		"529":                        {529, "overloaded_error", v1alpha1.ErrorCodeProviderUnavailable, true},
		"within, overloaded":         {200, "overloaded_error", v1alpha1.ErrorCodeProviderUnavailable, true},
		"within, limited":            {200, "rate_limit_error", v1alpha1.ErrorCodeProviderRateLimited, true},
		"within, wrong key":          {0, "authentication_error", v1alpha1.ErrorCodeProviderMisconfigured, false},
		"within, not permitted":      {0, "PERMISSION_DENIED", v1alpha1.ErrorCodeProviderMisconfigured, false},
		"within, refused":            {0, "invalid_request_error", v1alpha1.ErrorCodeProcessingError, false},
		"within, too large":          {0, "request_too_large", v1alpha1.ErrorCodeRequestTooLarge, false},
		"within, unknown model":      {0, "NOT_FOUND", v1alpha1.ErrorCodeModelUnavailable, false},
		"within, a word of no class": {0, "sorry", v1alpha1.ErrorCodeProviderUnavailable, true},
		"within, no word":            {0, "", v1alpha1.ErrorCodeProviderUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := StatusError("Someone", "large-1", test.status, time.Minute, test.kind)
			if got := model.CodeOf(err); got != test.want {
				t.Errorf("%q has the code %s, want %s", err, got, test.want)
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

func TestARetryAfterInThePastIsIgnored(t *testing.T) {
	var own *Error
	if err := StatusError("Someone", "large-1", 429, -time.Second, ""); !errors.As(err, &own) || own.RetryAfter != 0 {
		t.Errorf("the error is %+v", err)
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"rate_limit_exceeded": "rate_limit_exceeded", "RESOURCE_EXHAUSTED": "RESOURCE_EXHAUSTED", "a-b.c d": "a-b.c d",
		"":                "",
		"the secret word": "", "(429)": "", "a\nb": "", "sk1": "", "é": "", strings.Repeat(
			"x", 100,
		): strings.Repeat("x", 100), strings.Repeat("x", 101): "",
	} {
		if got := SafeCode(text, "secret"); got != want {
			t.Errorf("Words(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestAWordCannotChangeTheCode(t *testing.T) {
	for _, kind := range []string{"(401)", "Model not available: x", "api key\nmissing (429)", "context length (413)"} {
		err := StatusError("Someone", "large-1", 400, 0, kind)
		if got := model.CodeOf(err); got != v1alpha1.ErrorCodeProcessingError {
			t.Errorf("%q has the code %s", err, got)
		}
	}
}
