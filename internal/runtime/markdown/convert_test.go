package markdown

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

func convert(t *testing.T, page string) Document {
	t.Helper()
	at, err := url.Parse("https://example.org/docs/page?q=1")
	if err != nil {
		t.Fatal(err)
	}
	converted, err := FromHTML(t.Context(), "ns", []byte(page), at)
	if err != nil {
		t.Fatal(err)
	}
	return converted
}

func TestAPageBecomesMarkdown(t *testing.T) {
	for name, test := range map[string]struct{ page, want string }{
		"nothing":    {"", ""},
		"text":       {"a &lt; b", "a &lt; b"},
		"paragraphs": {"<p>one<p>two <b>bold</b>", "one\n\ntwo **bold**"},
		"headings":   {"<h1>A</h1><h3>B</h3>text", "# A\n\n### B\n\ntext"},
		"lists":      {"<ul><li>a<li>b<ol><li>c</ol></ul>", "- a\n- b\n  \n  1. c"},
		"code":       {"<pre><code>x := 1\ny</code></pre>", "```\nx := 1\ny\n```"},
		"a table":    {"<table><tr><th>A<th>B<tr><td>1<td>2</table>", "| A | B |\n|---|---|\n| 1 | 2 |"},
		"a link":     {`<a href="../x">there</a>`, "[there](https://example.org/x)"},
		"an image": {`<img src="/i.png" alt="a
		ship">`, "![a ship](https://example.org/i.png)"},
		"scripts":         {"a<script>alert('<p>x')</script><style>b{}</style><svg><text>s</text></svg>c", "ac"},
		"comments":        {"a<!-- <p>hidden -->b", "ab"},
		"a script's link": {`<a href="javascript:alert(1)">x</a><a href="data:text/html,x">y</a>`, "[x]()[y]()"},
		"a password":      {`<a href="https://u:p@example.com/">x</a>`, "[x](https://example.com/)"},
		"unknown":         {"<my-tag>a</my-tag><p>b", "a\n\nb"},
		"unclosed":        {"<div><b>a<div>b", "**a**\n\n**b**"},
		"wrong order":     {"<b>a<i>b</b>c</i>d", "**a*b***cd"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := convert(t, test.page); got.Text != test.want || got.Cut {
				t.Errorf("the page is %q, want %q", got.Text, test.want)
			}
		})
	}
	titled := convert(t, "<html><head><title>A &amp;\n B</title></head><body>c")
	if titled.Title != "A & B" || titled.Text != "c" {
		t.Errorf("the page is %+v", titled)
	}
}

func TestAConversionWaitsForAPlaceOfItsNamespace(t *testing.T) {
	hold := func(namespace string) *fairshare.Share {
		place, err := places.Request(fairshare.Request{Namespace: namespace, Amount: fairshare.Amount{Places: 1}})
		if err != nil {
			t.Fatal(err)
		}
		return place
	}
	// Pages that take long, and more of them that wait.
	loud := []*fairshare.Share{hold("loud"), hold("loud"), hold("loud")}
	if converted := convert(t, "a"); converted.Text != "a" {
		t.Errorf("the page of another namespace is %+v", converted)
	}
	other := hold("other")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := FromHTML(ctx, "ns", []byte("a"), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("without a place a page is converted with %v", err)
	}
	for _, place := range append(loud, other) {
		place.Release()
	}
	if held, waiting := places.Held().Places, places.Waiting(); held != 0 || waiting != 0 {
		t.Errorf("%d places are held, and %d requests wait", held, waiting)
	}
}
