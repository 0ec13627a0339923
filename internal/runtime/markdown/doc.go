// Package markdown turns pages of the web into Markdown, for models.
//
// A page is written by anyone. So its elements are not those of a browser, which repeats elements that were closed in
// the wrong order, and makes millions of a few kilobytes: each tag makes one element at most, and their number, their
// nesting and their texts are bounded before they are converted.
package markdown
