package attacks_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// readFiles returns the paths of the files in a log that begins with what the tool itself has written.
func readFiles(report result.Report, change func(message, frame string) (string, string)) string {
	message, frame := report.Encode(result.NewNonce())
	changed, log := change(string(message), string(frame))
	m, err := result.Decode(changed)
	if err != nil {
		return refused + err.Error()
	}
	_, files, err := m.ReadLog(strings.NewReader(log))
	if err != nil {
		return refused + err.Error()
	}
	var paths []string
	for _, f := range files.Files {
		paths = append(paths, f.Path)
	}
	return strings.Join(paths, " ")
}

// inputs is the annotation with the files of a call, with a text in place of them.
func inputs(text string) string {
	var b bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &b)
	w := gzip.NewWriter(encoder)
	_, _ = w.Write([]byte(text)) // To memory.
	_ = errors.Join(w.Close(), encoder.Close())
	return b.String()
}

// jobFiles are files that the command of a Job returns, as the manager gets them from its log.
func jobFiles(t *testing.T) subject {
	t.Helper()
	files := filesIn(record.New(memory.New(), record.Options{}), attacker, map[string]string{
		"/a.txt": "a", "/locked.txt": "rules",
	})
	var calls atomic.Int64
	returned := func(path string, size int) attempt {
		return attempt{name: path, run: func(ctx context.Context) string {
			why := func(all []sessionfs.Refusal) string { return fmt.Sprint(all) }
			seen, err := files.Return(ctx, record.Cause{Step: calls.Add(1), Key: "t/1-0"}, 1000,
				[]sessionfs.Content{{Path: path, Content: make([]byte, size)}}, why)
			if err == nil && seen != "[]" {
				return refused + seen
			}
			return shown(seen, err)
		}}
	}
	honest := result.ReportOf("fine", "", 0).WithFiles(&result.Files{Files: []result.File{{Path: "/good"}}}, "fine", false)
	evil := result.ReportOf("fine", "", 0).WithFiles(&result.Files{Files: []result.File{{Path: "/evil"}}}, "fine", false)
	_, forged := evil.Encode(strings.Repeat("0", 32))
	log := func(name, want string, change func(message, frame string) (string, string)) attempt {
		return attempt{name: name, want: want, run: func(context.Context) string { return readFiles(honest, change) }}
	}
	decoding := func(name, text string) attempt {
		return attempt{name: name, run: func(context.Context) string {
			_, err := result.DecodeInputs(text)
			return shown("decoded", err)
		}}
	}
	return subject{
		name: "Files of Jobs",
		classes: []class{
			{name: "paths of returned files", refused: true, attempts: []attempt{
				returned("/../../etc/passwd", 1), returned("/workspace/../locked.txt", 1), returned("/a\x1b[31m", 1),
				returned("/locked.txt", 1), returned(strings.Repeat("/d", 200), 1),
			}},
			{name: "places and sizes of returned files", refused: true, attempts: []attempt{
				returned("/", 1), returned("/a.txt/b", 1), returned("/large", record.MaxValueBytes+1), returned("/..", 1),
				returned("/"+strings.Repeat("n", 300), 1),
			}},
			{name: "files forged in the log", attempts: []attempt{
				log("with another nonce", "/good", func(m, f string) (string, string) { return m, string(forged) + f }),
				log("many of them", "/good", func(m, f string) (string, string) {
					return m, strings.Repeat(string(forged), 100) + f
				}),
				log("in place of the true ones", refused, func(m, _ string) (string, string) { return m, string(forged) }),
				log("truncated", refused, func(m, f string) (string, string) { return m, f[:len(f)/2] }),
				log("behind a long log", refused, func(m, f string) (string, string) {
					return m, strings.Repeat("x", 4<<20) + f
				}),
			}},
			{name: "annotations with the files of a call", refused: true, attempts: []attempt{
				decoding("a long text, compressed", inputs(strings.Repeat("\x00", 64<<20))),
				decoding("a billion files", inputs(`{"revision":1,"files":1000000000}`+"\n")),
				decoding("fewer files than none", inputs(`{"revision":1,"files":-1}`+"\n")),
				decoding("a file that is nested deeply", inputs(`{"revision":1,"files":1}`+"\n"+strings.Repeat(`{"a":`, 50_000))),
				decoding("a long annotation", strings.Repeat("A", 1<<20)),
			}},
		},
		other: func(context.Context) error {
			keep := func(m, f string) (string, string) { return m, f }
			if seen := readFiles(honest, keep); seen != "/good" {
				return errors.New(seen)
			}
			return nil
		},
	}
}
