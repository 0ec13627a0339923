package result

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxOutputBytes is how much is kept as a file of an output that is longer than a result.
const MaxOutputBytes = 256 << 10

// Cut returns a result from the start of a tool's output: invalid UTF-8 becomes U+FFFD and bytes above MaxResultBytes
// are cut on a rune boundary, with a note about it and the remedy (TOOL-19). The note is part of the MaxResultBytes.
// total is the length of the whole output in bytes, of which output may be only the first part. cut reports whether
// anything was left out.
func Cut(output []byte, total int64) (text string, cut bool) {
	total = max(total, int64(len(output)))
	if int64(len(output)) < total {
		output = withoutBrokenRune(output)
	}
	cut = int64(len(output)) < total
	text = strings.ToValidUTF8(string(output), string(utf8.RuneError))
	if !cut && len(text) <= MaxResultBytes {
		return text, false
	}
	// No number of bytes that are shown takes more digits than MaxResultBytes, so this note is the longest.
	text = Head(text, MaxResultBytes-len(cutNote(MaxResultBytes, total)))
	return text + cutNote(len(text), total), true
}

// CutOpen is like Cut for the start of an output of unknown length.
func CutOpen(output []byte) string {
	text := strings.ToValidUTF8(string(withoutBrokenRune(output)), string(utf8.RuneError))
	text = Head(text, MaxResultBytes-len(openNote(MaxResultBytes)))
	return text + openNote(len(text))
}

// CutKept is like Cut for the start of an output that is kept in a file, as a text or in another form. The note has the
// path of the file in place of the remedy. total is -1 if it is unknown.
func CutKept(output []byte, total int64, path string, isText bool) string {
	text := strings.ToValidUTF8(string(withoutBrokenRune(output)), string(utf8.RuneError))
	note := func(shown int) string {
		all := fmt.Sprintf("%d of %d bytes", shown, total)
		if total < 0 {
			all = fmt.Sprintf("%d bytes, and there are more", shown)
		}
		kept := "It is complete"
		if total != int64(len(output)) {
			kept = fmt.Sprintf("Its first %d bytes are", len(output))
		}
		remedy := fmt.Sprintf("read on with read_file and byte_offset %d, or search it with grep_files", shown)
		if !isText {
			remedy = "it is not a text"
		}
		return fmt.Sprintf("%s%s. %s in the file %s: %s%s", noteStart, all, kept, path, remedy, keptEnd)
	}
	text = Head(text, MaxResultBytes-len(note(MaxResultBytes)))
	return text + note(len(text))
}

// The beginning of a note, and its ends: that of an output that is lost, and that of one that is kept in a file.
const (
	noteStart = "\n\n[Output cut: this is the first "
	noteEnd   = ". Call the tool so that it returns less: filter, select a range, or ask for one page.]"
	keptEnd   = ".]"
)

func openNote(shown int) string {
	return fmt.Sprintf("%s%d bytes, and there are more%s", noteStart, shown, noteEnd)
}

func cutNote(shown int, total int64) string {
	return fmt.Sprintf("%s%d of %d bytes%s", noteStart, shown, total, noteEnd)
}

// Uncut returns a result without the note of Cut, CutOpen or CutKept, and whether it has one.
func Uncut(text string) (output string, cut bool) {
	at := strings.LastIndex(text, noteStart)
	if at < 0 || !strings.HasSuffix(text, keptEnd) {
		return text, false
	}
	return text[:at], true
}

// withoutBrokenRune drops the start of a rune that was cut in two at the end of output.
func withoutBrokenRune(output []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(output); back++ {
		if at := len(output) - back; utf8.RuneStart(output[at]) {
			if !utf8.FullRune(output[at:]) {
				return output[:at]
			}
			break
		}
	}
	return output
}

// Head is the start of s, at most limit bytes, cut on a rune boundary.
func Head(s string, limit int) string {
	if limit <= 0 {
		return ""
	}
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Tail is the end of s, at most limit bytes, cut on a rune boundary. Invalid UTF-8 becomes U+FFFD.
func Tail(s string, limit int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if limit <= 0 {
		return ""
	}
	if len(s) <= limit {
		return s
	}
	at := len(s) - limit
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return s[at:]
}
