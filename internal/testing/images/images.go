// Package images has a provider that refuses images, for tests of what is done then.
package images

import (
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// Addresses returns the addresses of the images in a request, in order.
func Addresses(r model.Request) []string {
	var urls []string
	for _, m := range r.Messages {
		for _, image := range m.Images() {
			urls = append(urls, image.URL)
		}
	}
	return urls
}

// Expire returns a provider that refuses every request with an image at one of the expired addresses. named reports
// whether its error names the address.
func Expire(named bool, expired ...string) func(model.Request) (*model.Response, error) {
	return func(r model.Request) (*model.Response, error) {
		for _, url := range Addresses(r) {
			if !slices.Contains(expired, url) {
				continue
			}
			problem := "Timeout while downloading"
			if named {
				problem += " " + url
			}
			err := provider.WithProblem(provider.StatusError("Test", "m", 400, 0, "invalid_value"), problem)
			return nil, provider.WithImage(err, problem, []string{"while downloading"}, nil)
		}
		return &model.Response{Text: "I see."}, nil
	}
}
