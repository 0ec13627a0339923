package result

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const testNonce = "00112233445566778899aabbccddeeff"

func success(text string) Report {
	return Report{Outcome: Exited, Started: true, Result: text, StdoutBytes: int64(len(text))}
}

// readBack returns the report that the manager reads from a message and a log.
func readBack(t *testing.T, message, log string) string {
	t.Helper()
	m, err := Decode(message)
	if err != nil {
		t.Fatalf("decoding %q: %v", message, err)
	}
	if !m.NeedsLog {
		if m.Result == nil {
			t.Fatalf("there is no result in %q", message)
		}
		return *m.Result
	}
	text, _, err := m.ReadLog(strings.NewReader(log))
	if err != nil {
		t.Fatalf("reading the log: %v", err)
	}
	return text
}

func TestAResultOfAnySizeArrives(t *testing.T) {
	for _, size := range []int{0, 1, 700, 900, 1000, 3000, 3700, 3850, 4000, 4096, 5000, MaxResultBytes} {
		text := strings.Repeat("a\n", size/2) + strings.Repeat("b", size%2)
		message, frame := success(text).Encode(testNonce)
		if len(message) > MaxMessageBytes {
			t.Errorf("%d: the message has %d bytes", size, len(message))
		}
		if got := readBack(t, string(message), "before"+string(frame)+"after"); got != text {
			t.Errorf("%d: %d bytes came back", size, len(got))
		}
	}
}

func TestASmallResultNeedsNoLog(t *testing.T) {
	message, frame := success("short").Encode(testNonce)
	if len(frame) != 0 || len(message) > sureMessageBytes {
		t.Errorf("the message is %q, the frame %q", message, frame)
	}
}

func TestAShortenedMessageFallsBackToTheLog(t *testing.T) {
	text := strings.Repeat("ä", 1700)
	message, frame := success(text).Encode(testNonce)
	for _, size := range []int{len(message), 3072, 1229, sureMessageBytes} {
		if got := readBack(t, string(message[:size]), string(frame)); got != text {
			t.Errorf("shortened to %d: %d bytes came back", size, len(got))
		}
	}
}

func TestARuntimesOwnTextBeforeTheMessageDoesNotMatter(t *testing.T) {
	message, _ := success("fine").Encode(testNonce)
	if got := readBack(t, "some words of the runtime: "+string(message), ""); got != "fine" {
		t.Errorf("got %q", got)
	}
}

func TestAFailureKeepsTheEndOfStderr(t *testing.T) {
	for name, stderr := range map[string]string{
		"little":      "no such file",
		"nothing":     "",
		"too much":    strings.Repeat("x", 5000) + "the end",
		"odd bytes":   "a\xffb",
		"wide runes":  strings.Repeat("\U0001F600", 2000) + "the end",
		"many breaks": strings.Repeat("\n\x00", 4000) + "the end",
	} {
		t.Run(name, func(t *testing.T) {
			report := Report{Outcome: Exited, Exit: 3, Started: true, Stderr: stderr, StdoutBytes: 10, Result: "not to be shown"}
			message, frame := report.Encode(testNonce)
			if len(message) > MaxMessageBytes || len(frame) > 0 || strings.Contains(string(message), "not to be shown") {
				t.Fatalf("the message has %d bytes: %q", len(message), message)
			}
			m, err := Decode(string(message))
			if err != nil {
				t.Fatal(err)
			}
			if m.Outcome != Exited || m.Exit != 3 || !m.Started || m.StdoutBytes != 10 || m.Result != nil || m.NeedsLog {
				t.Errorf("decoded %+v", m)
			}
			if !strings.HasSuffix(strings.ToValidUTF8(stderr, "\uFFFD"), m.Stderr) || (stderr != "" && m.Stderr == "") {
				t.Errorf("stderr is %q", m.Stderr)
			}
		})
	}
}

func TestEveryOutcomeArrives(t *testing.T) {
	for outcome, exit := range map[Outcome]int{
		Signalled: 137, TimedOut: ExitTimeout, Terminated: ExitTerminated, Refused: ExitLauncher, StartError: ExitNotFound,
	} {
		message, _ := Report{Outcome: outcome, Exit: exit, Stderr: "why"}.Encode(testNonce)
		m, err := Decode(string(message))
		if err != nil {
			t.Fatalf("%s: %v", outcome, err)
		}
		if m.Outcome != outcome || m.Exit != exit || m.Stderr != "why" || m.Started {
			t.Errorf("%s: decoded %+v", outcome, m)
		}
	}
}

func TestAShortenedFailureKeepsItsOutcome(t *testing.T) {
	message, _ := Report{
		Outcome: TimedOut,
		Exit:    ExitTimeout,
		Started: true,
		Stderr:  strings.Repeat("x", 4096),
	}.Encode(
		testNonce,
	)
	m, err := Decode(string(message[:2000]))
	if err != nil || m.Outcome != TimedOut || m.Stderr != "" {
		t.Errorf("decoded %+v, %v", m, err)
	}
}

func TestWhatIsNoReportIsRefused(t *testing.T) {
	good, _ := success("fine").Encode(testNonce)
	replaced := func(from, to string) string {
		changed := strings.Replace(string(good), from, to, 1)
		if changed == string(good) {
			t.Fatalf("%q is not in %q", from, good)
		}
		return changed
	}
	for name, message := range map[string]string{
		"nothing":               "",
		"other text":            "OOMKilled",
		"a header without end":  strings.TrimSuffix(string(good), "\nfine"),
		"a header cut in half":  string(good[:40]),
		"no JSON":               "capstan-report {]\nfine",
		"another version":       replaced(`"v":1`, `"v":2`),
		"no version":            replaced(`"v":1,`, ``),
		"an impossible exit":    replaced(`"exit":0`, `"exit":256`),
		"a negative exit":       replaced(`"exit":0`, `"exit":-1`),
		"an unknown outcome":    replaced(`"exited"`, `"slept"`),
		"no outcome":            replaced(`"exited"`, `""`),
		"a failure with exit 0": replaced(`"exited"`, `"timeout"`),
		"an exit unstarted":     replaced(`"started":true`, `"started":false`),
		"a negative body":       replaced(`"body":4`, `"body":-4`),
		"a body too long":       replaced(`"body":4`, `"body":4097`),
		"negative output":       replaced(`"stdout":4`, `"stdout":-4`),
		"no nonce":              replaced(testNonce, ""),
		"an odd nonce":          replaced(testNonce, "xyz"),
		"no digest":             replaced(digest("fine"), ""),
		"another digest":        replaced(digest("fine"), digest("Fine")),
		"another result":        replaced("\nfine", "\nFine"),
		"a shorter result":      replaced("\nfine", "\nfin"),
		"a longer result":       replaced("\nfine", "\nfine "),
		"an impossible log":     replaced(`"sha256"`, `"log":-1,"sha256"`),
		"a log too long":        replaced(`"sha256"`, `"log":65537,"sha256"`),
	} {
		if m, err := Decode(message); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: decoded %+v, %v", name, m, err)
		}
	}
}

func TestALogThatDoesNotHoldTheResult(t *testing.T) {
	text := strings.Repeat("x", 5000)
	message, frame := success(text).Encode(testNonce)
	m, err := Decode(string(message))
	if err != nil {
		t.Fatal(err)
	}
	other, otherFrame := success(strings.Repeat("y", 5000)).Encode(strings.Repeat("0", 32))
	if len(other) == 0 {
		t.Fatal("there is no message")
	}
	for name, log := range map[string]string{
		"nothing":            "",
		"another run":        string(otherFrame),
		"another length":     strings.Replace(string(frame), " 5000\n", " 4999\n", 1),
		"an early end":       string(frame[:4000]),
		"a changed byte":     strings.Replace(string(frame), "xxxx", "xxyx", 1),
		"only the first row": string(frame[:len(frameLine(frameMark, testNonce, 5000))+1]),
		"beyond the limit":   strings.Repeat("z", MaxLogBytes) + string(frame),
	} {
		if got, _, err := m.ReadLog(strings.NewReader(log)); !errors.Is(err, ErrNoFrame) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
	}
	broken := errors.New("the connection broke")
	if _, _, err := m.ReadLog(
		io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)),
	); !errors.Is(err, broken) ||
		errors.Is(err, ErrNoFrame) {
		t.Errorf("a log that cannot be read gives %v", err)
	}
}

func TestAMessageWithoutALogHasNoneToRead(t *testing.T) {
	message, _ := success("fine").Encode(testNonce)
	m, err := Decode(string(message))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.ReadLog(strings.NewReader("")); !errors.Is(err, ErrNoFrame) {
		t.Errorf("reading gives %v", err)
	}
}

func TestAForgedFrameIsPassedOver(t *testing.T) {
	text := strings.Repeat("x", 5000)
	message, frame := success(text).Encode(testNonce)
	_, forged := success(strings.Repeat("f", 5000)).Encode(strings.Repeat("ab", 16))
	if got := readBack(t, string(message), string(forged)+string(frame)); got != text {
		t.Error("the forged frame was read")
	}
}

func TestNoncesDiffer(t *testing.T) {
	one, two := NewNonce(), NewNonce()
	if one == two || !isHex(one, nonceBytes) {
		t.Errorf("drew %q and %q", one, two)
	}
}

func FuzzDecode(f *testing.F) {
	small, _ := success("fine").Encode(testNonce)
	large, frame := success(strings.Repeat("x", 5000)).Encode(testNonce)
	failed, _ := Report{Outcome: TimedOut, Exit: ExitTimeout, Stderr: "why"}.Encode(testNonce)
	for _, message := range [][]byte{small, large, failed, nil} {
		f.Add(string(message), string(frame))
	}
	f.Fuzz(func(t *testing.T, message, log string) {
		m, err := Decode(message)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || m != nil {
				t.Errorf("decoding gives %+v, %v", m, err)
			}
			return
		}
		if m.Exit < 0 || m.Exit > 255 || (m.Result != nil) == m.NeedsLog && m.Outcome == Exited && m.Exit == 0 {
			t.Errorf("decoded %+v", m)
		}
		if m.Result != nil && m.Outcome != Exited {
			t.Errorf("%s has a result", m.Outcome)
		}
		if text, _, err := m.ReadLog(strings.NewReader(log)); err == nil && digest(text) != m.head.SHA256 {
			t.Error("a result without the right digest was read")
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add("a result", "before", 0)
	f.Add(strings.Repeat("ä", 3000), "\ncapstan-result 0 0\n", 3072)
	f.Fuzz(func(t *testing.T, output, before string, shortened int) {
		text, cut := Cut([]byte(output), int64(len(output)))
		message, frame := Report{
			Outcome:     Exited,
			Started:     true,
			Result:      text,
			Cut:         cut,
			StdoutBytes: int64(len(output)),
		}.Encode(
			NewNonce(),
		)
		if len(message) > MaxMessageBytes {
			t.Fatalf("the message has %d bytes", len(message))
		}
		if shortened >= sureMessageBytes && shortened < len(message) {
			message = message[:shortened]
		}
		before = before[:min(len(before), MaxLogStderrBytes)]
		if got := readBack(t, string(message), before+string(frame)); got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
