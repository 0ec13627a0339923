package markdown

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
)

// MaxPageBytes is the longest page.
const MaxPageBytes = 256 << 10

// concurrent is how many pages are converted at once, by the whole process: each takes some megabytes of memory.
const concurrent = 2

// places are held by the conversions in progress.
var places = make(chan struct{}, concurrent)

// Document is a page in Markdown.
type Document struct {
	// Title of the page; empty for none.
	Title string
	// Text is the page.
	Text string
	// Cut reports whether the page has more than a Document can have.
	Cut bool
}

// FromHTML converts a page in UTF-8, of which at most MaxPageBytes are read. Relative addresses belong to base. It
// waits for a place, and does not end before the conversion does.
func FromHTML(ctx context.Context, page []byte, base *url.URL) (Document, error) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return Document{}, fmt.Errorf("converting the page: %w", context.Cause(ctx))
	}
	t := parse(page[:min(len(page), MaxPageBytes)], base)
	text, err := newConverter().ConvertNode(t.root())
	if err != nil {
		return Document{}, fmt.Errorf("converting the page: %w", err)
	}
	return Document{
		Title: strings.Join(strings.Fields(strings.ToValidUTF8(html.UnescapeString(t.title), "")), " "),
		Text:  string(text),
		Cut:   t.cut || len(page) > MaxPageBytes,
	}, nil
}

func newConverter() *converter.Converter {
	return converter.NewConverter(converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
}
