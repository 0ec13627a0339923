package drivers_test

import (
	"errors"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// TestWhatProvidersSayOfImages: the sources of the texts are at the phrases in the drivers.
func TestWhatProvidersSayOfImages(t *testing.T) {
	claude := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic}
	gpt := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI}
	chat := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, API: v1alpha1.ModelAPIChatCompletions}
	gemini := v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderGoogle}
	const unfetched, unreadable, other = "unfetched", "unreadable", "other"
	for said, test := range map[string]struct {
		spec v1alpha1.ModelSpec
		body string
		want string
	}{
		"robots": {claude, anthropicError("This URL is disallowed by the website's robots.txt file."), unfetched},
		"data":   {claude, anthropicError("Could not process image"), unreadable},
		"media type": {
			claude,
			anthropicError("messages.18.content.1.image.source.base64.data: Image does not match the provided media type"),
			unreadable,
		},
		"no image of Claude's": {claude, anthropicError("max_tokens: Field required"), other},
		"upstream":             {gpt, openAIError("invalid_value", "Error while downloading file. Upstream status code: 404."), unfetched},
		"upstream of chat":     {chat, openAIError("invalid_value", "Error while downloading file. Upstream status code: 403."), unfetched},
		"code":                 {chat, openAIError("invalid_image_url", "Invalid image."), unfetched},
		"format": {
			gpt, openAIError("invalid_image_format", "You uploaded an unsupported image. Please make sure it is valid."), unreadable,
		},
		"no image of GPT's":    {gpt, openAIError("invalid_value", "Invalid 'tools'."), other},
		"address":              {gemini, googleError("Invalid or unsupported file uri: https://example.org/a.png"), unfetched},
		"image":                {gemini, googleError("Unable to process input image. Please retry."), unreadable},
		"no image of Gemini's": {gemini, googleError("Request contains an invalid argument."), other},
	} {
		t.Run(said, func(t *testing.T) {
			server := providertest.Serve(t, providertest.Answer{Status: 400, Body: test.body})
			driver, err := of(test.spec)(server.Client(), "sk-test-12345678")
			if err != nil {
				t.Fatal(err)
			}
			r := model.Request{Model: "some-model", Messages: []event.Message{event.NewUserMessage("Look.")}}
			_, err = driver.Generate(t.Context(), r)
			var refused *provider.ImageRefused
			got := other
			if errors.As(err, &refused) {
				if got = unfetched; refused.Unreadable {
					got = unreadable
				}
			}
			if got != test.want {
				t.Errorf("it counts as %s, want %s: %v", got, test.want, err)
			}
			if code := model.CodeOf(err); code != v1alpha1.ErrorCodeProcessingError {
				t.Errorf("the code is %s", code)
			}
		})
	}
}

func anthropicError(said string) string {
	return `{"type":"error","error":{"type":"invalid_request_error","message":"` + said + `"}}`
}

func openAIError(code, said string) string {
	return `{"error":{"type":"invalid_request_error","param":"url","code":"` + code + `","message":"` + said + `"}}`
}

func googleError(said string) string {
	return `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"` + said + `"}}`
}
