package text_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/capstan-dev/capstan/internal/cli/text"
)

func TestARegionIsReplacedWithinItsWidth(t *testing.T) {
	var out bytes.Buffer
	r := text.Region{Printer: text.Printer{Out: &out}}
	show := func(want string, columns int, lines ...text.Line) {
		t.Helper()
		out.Reset()
		if err := r.Show(columns, lines...); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
	show("", 10)
	show("one\ntwo\n", 10, text.Of(text.Plain, "one"), text.Of(text.Plain, "two"))
	show("\x1b[2A\x1b[Jhead  0123\n", 10, text.Line{{Text: "head  "}, {Text: "0123456789"}, {Text: "more"}})
	show("\x1b[1A\x1b[J世界\n", 5, text.Of(text.Plain, "世界世界"))
	show("\x1b[1A\x1b[J\\x1b[1\n", 6, text.Of(text.Plain, "\x1b[1A\x1b[J"))
	out.Reset()
	if err := r.Clear(); err != nil || out.String() != "\x1b[1A\x1b[J" {
		t.Errorf("%v, %q", err, out.String())
	}
	show("", 10)
}

func TestOtherLinesAreAboveARegion(t *testing.T) {
	var out bytes.Buffer
	r := &text.Region{Printer: text.Printer{Out: &out}}
	other := func() error { return r.Lines(text.Of(text.Plain, "other")) }
	failed := errors.New("the file is closed")
	if err := errors.Join(
		r.Above(other), r.Show(10, text.Of(text.Plain, "one")), r.Above(other), r.Show(10, text.Of(text.Plain, "two")),
	); err != nil {
		t.Fatal(err)
	}
	if want := "other\none\n\x1b[1A\x1b[Jother\none\n\x1b[1A\x1b[Jtwo\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	if err := r.Above(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	if err := r.Clear(); err != nil || out.String() != "\x1b[1A\x1b[J" {
		t.Errorf("%v, %q", err, out.String())
	}
}
