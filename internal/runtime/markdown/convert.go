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

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// MaxPageBytes is the longest page.
const MaxPageBytes = 256 << 10

// concurrent is how many pages are converted at once, by the whole process: each takes some megabytes of memory. A
// namespace has one place, so that its pages do not delay those of others.
const concurrent, perNamespace = 2, 1

// places are held by the conversions in progress.
var places = fairshare.NewPool(fairshare.Options{
	Total:        fairshare.Amount{Places: concurrent},
	PerNamespace: fairshare.Amount{Places: perNamespace},
})

// Document is a page in Markdown.
type Document struct {
	// Title of the page; empty for none.
	Title string
	// Text is the page.
	Text string
	// Cut reports whether the page has more than a Document can have.
	Cut bool
}

// FromHTML converts a page in UTF-8 for a namespace. At most MaxPageBytes of it are read. Relative addresses belong to
// base. It waits for a place of the namespace, and does not end before the conversion does.
func FromHTML(ctx context.Context, namespace string, page []byte, base *url.URL) (Document, error) {
	place, err := places.Request(fairshare.Request{
		Namespace: namespace, Amount: fairshare.Amount{Places: 1}, Continues: true,
	})
	if err == nil {
		err = place.Wait(ctx)
	}
	if err != nil {
		return Document{}, fmt.Errorf("waiting to convert the page: %w", err)
	}
	defer place.Release()
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
