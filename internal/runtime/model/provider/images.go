package provider

import "strings"

// ImageRefused is the error of a request that the provider refused because of an image in it. The same request without
// the image may be accepted.
type ImageRefused struct {
	// Err is the error of the request.
	Err error
	// Unreadable reports whether the provider has the image and cannot read it. Otherwise it could not fetch the image
	// from its address, which may pass.
	Unreadable bool
	// message is the provider's own text.
	message string
}

// Error implements error.
func (e *ImageRefused) Error() string { return e.Err.Error() }

// Unwrap returns the error of the request.
func (e *ImageRefused) Unwrap() error { return e.Err }

// Names reports whether the provider names the address of an image.
func (e *ImageRefused) Names(url string) bool {
	return url != "" && strings.Contains(e.message, url)
}

// WithImage marks the error of a request as caused by an image, if the provider's text matches one of the phrases that
// it uses for images that it could not fetch, or could not read. The phrases are in lower case.
func WithImage(err error, message string, unfetched, unreadable []string) error {
	text := strings.ToLower(message)
	for _, phrase := range unfetched {
		if strings.Contains(text, phrase) {
			return &ImageRefused{Err: err, message: message}
		}
	}
	for _, phrase := range unreadable {
		if strings.Contains(text, phrase) {
			return &ImageRefused{Err: err, message: message, Unreadable: true}
		}
	}
	return err
}
