package validation_test

import (
	"fmt"
	"strings"
)

const messageTooLarge = "spec.message rule the texts and the image data of a message have at most 1 MiB (1048576 " +
	"bytes, images in base64) in total. Use imageRef or url for large images."

// imageID is the id of an image.
const imageID = "img-0123456789abcdef0123456789abcdef"

// parts is the patch that gives a Turn a message of these parts instead of its input.
func parts(content ...string) string {
	return fmt.Sprintf("spec: {input: null, message: {content: [%s]}}", strings.Join(content, ", "))
}

// texts are n parts, each of 65536 times a character.
func texts(n int, character string) []string {
	long := make([]string, n)
	for i := range long {
		long[i] = fmt.Sprintf("{text: %s}", strings.Repeat(character, 65536))
	}
	return long
}

// image is a part that has these fields.
func image(fields string) string { return "{image: {" + fields + "}}" }

var messageCases = []ruleCase{
	{
		rule:     "spec.message required content",
		accepted: parts(`{text: Hello}`),
		rejected: `spec: {input: null, message: {}}`,
		message:  `spec.message.content: Required value`,
	},
	{
		rule:     "spec.message.content[] rule exactly one of text, image and imageRef must be set.",
		accepted: parts(`{text: Hello}`),
		rejected: parts(`{text: Hello, image: {mediaType: image/png, data: AAAA}}`),
	},
	{
		rule:     "spec.message.content[] rule exactly one of text, image and imageRef must be set.",
		accepted: parts(`{text: Hello}`, image(`mediaType: image/png, data: AAAA`)),
		rejected: parts(`{text: Hello}`, `{}`),
	},
	{
		rule:     "spec.message.content[] rule exactly one of text, image and imageRef must be set.",
		accepted: parts(`{text: Hello}`, `{imageRef: {id: `+imageID+`}}`),
		rejected: parts(`{text: Hello, imageRef: {id: ` + imageID + `}}`),
	},
	{
		rule:     "spec.message.content[].imageRef required id",
		accepted: parts(`{imageRef: {id: ` + imageID + `}}`),
		rejected: parts(`{imageRef: {}}`),
		message:  `spec.message.content[0].imageRef.id: Required value`,
	},
	{
		rule:     "spec.message.content[].imageRef.id pattern",
		accepted: parts(`{imageRef: {id: ` + imageID + `}}`),
		rejected: parts(`{imageRef: {id: img-0123456789ABCDEF0123456789ABCDEF}}`),
		message:  `spec.message.content[0].imageRef.id in body should match`,
	},
	{
		rule:     "spec.message.content[].image required mediaType",
		accepted: parts(image(`mediaType: image/png, data: AAAA`)),
		rejected: parts(image(`data: AAAA`)),
		message:  `spec.message.content[0].image.mediaType: Required value`,
	},
	{
		rule:     "spec.message.content[].image.mediaType enum",
		accepted: parts(image(`mediaType: image/webp, data: AAAA`)),
		rejected: parts(image(`mediaType: image/svg+xml, data: AAAA`)),
		message: `spec.message.content[0].image.mediaType: Unsupported value: "image/svg+xml": supported values: ` +
			`"image/png", "image/jpeg", "image/gif", "image/webp"`,
	},
	{
		rule:     "spec.message.content[].image rule exactly one of data and url must be set.",
		accepted: parts(image(`mediaType: image/png, data: AAAA`)),
		rejected: parts(image(`mediaType: image/png, data: AAAA, url: "https://example.org/a.png"`)),
	},
	{
		rule:     "spec.message.content[].image rule exactly one of data and url must be set.",
		accepted: parts(image(`mediaType: image/png, url: "https://example.org/a.png"`)),
		rejected: parts(image(`mediaType: image/png`)),
	},
	{
		rule:     "spec.message.content[].image.data pattern",
		accepted: parts(image(`mediaType: image/png, data: "+/8="`)),
		rejected: parts(image(`mediaType: image/png, data: "-_8="`)),
		message:  `spec.message.content[0].image.data in body should match`,
	},
	{
		rule:     "spec.message.content[].image.data pattern",
		accepted: parts(image(`mediaType: image/png, data: "AA=="`)),
		rejected: parts(image(`mediaType: image/png, data: "A==="`)),
		message:  `spec.message.content[0].image.data in body should match`,
	},
	{
		rule:     "spec.message.content[].image.data rule data must be base64 with padding: its length is a multiple of 4.",
		accepted: parts(image(`mediaType: image/png, data: AAAAAA==`)),
		rejected: parts(image(`mediaType: image/png, data: AAAAAA`)),
	},
	{
		rule:     "spec.message.content[].image.url pattern",
		accepted: parts(image(`mediaType: image/png, url: "https://[2001:db8::1]:8443/a.png?size=2#top"`)),
		rejected: parts(image(`mediaType: image/png, url: "http://example.org/a.png"`)),
		message:  `spec.message.content[0].image.url in body should match`,
	},
	{
		rule:     "spec.message.content[].image.url pattern",
		accepted: parts(image(`mediaType: image/png, url: "https://example.org/a%20b.png"`)),
		rejected: parts(image(`mediaType: image/png, url: "https://example.org/a b.png"`)),
		message:  `spec.message.content[0].image.url in body should match`,
	},
	{
		rule:     messageTooLarge,
		accepted: parts(texts(16, "x")...),
		rejected: parts(texts(17, "x")...),
	},
	{
		rule:     messageTooLarge, // of the bytes, not of the characters
		accepted: parts(texts(8, "é")...),
		rejected: parts(texts(9, "é")...),
	},
	{
		rule:     messageTooLarge,
		accepted: parts(`{text: word}`, image(`mediaType: image/png, data: `+strings.Repeat("A", 1<<20-4))),
		rejected: parts(`{text: words}`, image(`mediaType: image/png, data: `+strings.Repeat("A", 1<<20-4))),
	},
	{
		rule: messageTooLarge,
		accepted: parts(
			image(`mediaType: image/png, data: `+strings.Repeat("A", 1<<19)),
			image(`mediaType: image/png, data: `+strings.Repeat("A", 1<<19)),
		),
		rejected: parts(
			image(`mediaType: image/png, data: `+strings.Repeat("A", 1<<19)),
			image(`mediaType: image/png, data: `+strings.Repeat("A", 1<<19+4)),
		),
	},
	{
		rule:     messageIsKept,
		stored:   parts(`{text: Hello}`, image(`mediaType: image/png, data: AAAA`)),
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {message: {content: [{text: Hello}, {image: {mediaType: image/png, data: AAAB}}]}}`,
	},
	{
		rule:     messageIsKept,
		stored:   parts(`{text: Hello}`),
		accepted: unchanged,
		rejected: `spec: {input: Hello, message: null}`,
	},
	{
		rule:     messageIsKept,
		stored:   unchanged,
		accepted: unchanged,
		rejected: parts(`{text: Hello}`),
	},
}
