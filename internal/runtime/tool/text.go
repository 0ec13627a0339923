package tool

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// CutResult cuts a result at MaxResultBytes on a rune boundary, with a note about it (TOOL-19), and replaces invalid
// UTF-8 by U+FFFD. Its result is never cut again.
func CutResult(s string) string {
	text, _ := result.Cut([]byte(s), int64(len(s)))
	return text
}

// Preview is the start of a text in one line, at most MaxPreviewBytes.
func Preview(s string) string {
	const ellipsis = "…"
	// Runs of white space shrink, so that a little more than the limit is read; a blank text produces nothing.
	start := strings.ToValidUTF8(result.Head(s, 8*MaxPreviewBytes), string(unicode.ReplacementChar))
	line := strings.Join(
		strings.FieldsFunc(start, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }),
		" ",
	)
	if len(line) <= MaxPreviewBytes && len(s) <= 8*MaxPreviewBytes {
		return line
	}
	return result.Head(line, MaxPreviewBytes-len(ellipsis)) + ellipsis
}

// ShownPreview is the start of a text for status.
func ShownPreview(text string) string {
	return excerpt.Encoded(Preview(text), MaxPreviewBytes)
}

// ArgumentsTooLarge is the error of a call whose arguments have size bytes, more than MaxArgumentsBytes.
func ArgumentsTooLarge(size int) string {
	return fmt.Sprintf(
		"The tool was not executed: its arguments have %d bytes; the maximum is %d. Send less, or split the work into "+
			"several calls.",
		size,
		MaxArgumentsBytes,
	)
}

// NotExecutedText is the error of a call that never started. why is a sentence without its end, or empty.
func NotExecutedText(why string) string {
	return sentence(toolNotExecuted, why) + changedNothing
}

// Texts for the model about a call that never started.
const (
	toolNotExecuted = "The tool was not executed"
	changedNothing  = " It has changed nothing and may be called again."
)

// UnknownText is the error of a call that started and whose outcome cannot be determined. why is a sentence without its
// end, or empty.
func UnknownText(why string) string {
	return sentence("The outcome of this tool call is unknown", why) +
		" The tool may have done all, part or none of its work. It was not run again. Find out what it has done before " +
		"you call it again."
}

// outputLostText is the error of a call that ran to its end and whose output cannot be read. why is a sentence without
// its end, or empty.
func outputLostText(why string) string {
	return sentence("The tool ran to its end, but its output was lost", why) +
		" It was not run again. Find out what it has done before you call it again."
}

// outputLostSafelyText is the same of a call of a Pure or Idempotent tool.
func outputLostSafelyText(why string) string {
	return sentence("The tool ran to its end, but its output was lost", why) + " It is safe to call it again."
}

// InterruptedText is the error of a call of a Pure or Idempotent tool that started and did not end normally. why is a
// sentence without its end, or empty.
func InterruptedText(why string) string {
	return sentence("The tool was interrupted before it returned a result", why) + " It is safe to call it again."
}

func sentence(what, why string) string {
	if why = strings.TrimRight(strings.TrimSpace(why), "."); why == "" {
		return what + "."
	}
	return what + ": " + why + "."
}

// maxWordsBytes bounds the part of a message of the cluster that the model reads.
const maxWordsBytes = 500

// Quoted adds a message of the cluster to a sentence, in one line.
func Quoted(message string) string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(message, "\uFFFD")), " ")
	if line == "" {
		return ""
	}
	return ": " + result.Head(line, maxWordsBytes)
}
