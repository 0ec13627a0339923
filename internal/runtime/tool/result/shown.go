package result

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Shown separates what the launcher shows of a tool's stderr in the log, while the tool runs, from the frames behind
// it. The zero value is at the beginning of a log.
type Shown struct {
	held   []byte
	inLine bool
	ended  bool
}

// Next returns the text that the next bytes of the log complete, in which U+FFFD replaces invalid UTF-8, and whether
// there may be more: nothing of the tool is behind a frame. A tool that writes the first line of a frame itself hides
// only its own output.
func (s *Shown) Next(log []byte) (text string, more bool) {
	if s.ended {
		return "", false
	}
	s.held = append(s.held, log...)
	var shown []byte
	for len(s.held) > 0 {
		if !s.inLine {
			isFrame, known := startsFrame(s.held)
			if isFrame {
				s.held, s.ended = nil, true
				break
			}
			if !known {
				break
			}
		}
		end := bytes.IndexByte(s.held, '\n') + 1
		s.inLine = end == 0
		if end == 0 {
			end = len(withoutBrokenRune(s.held))
		}
		shown = append(shown, s.held[:end]...)
		s.held = s.held[end:]
		if s.inLine {
			break
		}
	}
	return strings.ToValidUTF8(string(shown), string(utf8.RuneError)), !s.ended
}

// startsFrame reports whether a line begins with the first line of a frame, and whether that is known yet.
func startsFrame(line []byte) (isFrame, known bool) {
	known = true
	for _, mark := range []string{frameMark, filesMark} {
		switch rest, found := bytes.CutPrefix(line, []byte(mark)); {
		case found:
			return startsNonce(rest)
		case strings.HasPrefix(mark, string(line)):
			known = false
		}
	}
	return false, known
}

// maxLengthDigits is enough for the length of any frame.
const maxLengthDigits = 8

// startsNonce is startsFrame for the part behind the mark.
func startsNonce(rest []byte) (isFrame, known bool) {
	const digits = 2 * nonceBytes
	for i, b := range rest {
		switch isDigit := '0' <= b && b <= '9'; {
		case i < digits:
			if !isDigit && (b < 'a' || b > 'f') {
				return false, true
			}
		case i == digits:
			if b != ' ' {
				return false, true
			}
		case b == '\n':
			return i > digits+1, true
		case !isDigit || i > digits+maxLengthDigits:
			return false, true
		}
	}
	return false, false
}
