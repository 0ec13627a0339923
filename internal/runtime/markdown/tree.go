package markdown

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// The bounds of a page. What is above them is left out.
const (
	// maxNodes is the most elements and texts.
	maxNodes = 20_000
	// maxTextBytes is the most that the texts and addresses take, in bytes.
	maxTextBytes = 1 << 20
	// maxDepth is how deep elements are nested. Deeper ones are not there, and their content is that of the last one.
	maxDepth = 64
	// maxIndent is how deep quotations and lists are nested: each level lengthens all lines within it.
	maxIndent = 6
	// indentBytes is the most that a level lengthens a line: by the number of an item, a dot and a space.
	indentBytes = 7
	// maxCells is the most cells of a row: all rows of a table get as many as the longest one.
	maxCells = 24
	// maxAttributes is how many attributes of an element are looked at, and maxURLBytes the longest address.
	maxAttributes = 32
	maxURLBytes   = 1024
	// maxTitleBytes is the longest title.
	maxTitleBytes = 512
)

// skipped are the elements whose content is not for readers.
var skipped = []atom.Atom{
	atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Svg, atom.Math, atom.Iframe, atom.Object, atom.Canvas,
	atom.Select, atom.Textarea,
}

// empty are the elements that have no content.
var empty = []atom.Atom{
	atom.Area, atom.Base, atom.Br, atom.Col, atom.Embed, atom.Hr, atom.Img, atom.Input, atom.Link, atom.Meta,
	atom.Source, atom.Track, atom.Wbr,
}

// indents are the elements that lengthen all lines of their content.
var indents = []atom.Atom{atom.Blockquote, atom.Ul, atom.Ol, atom.Menu, atom.Dl}

// closes has the elements that end where an element begins, unless an element of the second list is between them.
var closes = map[atom.Atom]struct{ ends, until []atom.Atom }{
	atom.Li: {[]atom.Atom{atom.Li}, []atom.Atom{atom.Ul, atom.Ol, atom.Menu}},
	atom.Dt: {[]atom.Atom{atom.Dt, atom.Dd}, []atom.Atom{atom.Dl}},
	atom.Dd: {[]atom.Atom{atom.Dt, atom.Dd}, []atom.Atom{atom.Dl}},
	atom.Tr: {[]atom.Atom{atom.Tr}, []atom.Atom{atom.Table}},
	atom.Td: {[]atom.Atom{atom.Td, atom.Th}, []atom.Atom{atom.Tr, atom.Table}},
	atom.Th: {[]atom.Atom{atom.Td, atom.Th}, []atom.Atom{atom.Tr, atom.Table}},
	atom.P:  {[]atom.Atom{atom.P}, []atom.Atom{atom.Td, atom.Th, atom.Li, atom.Blockquote, atom.Div}},
}

// tree is a page that is being read.
type tree struct {
	base *url.URL
	// open are the elements that have begun and not ended, the root first.
	open []*html.Node
	// nodes and bytes are what the page has so far, and cells the cells of the last row.
	nodes, bytes, cells int
	title               string
	// cut reports whether a bound was reached.
	cut bool
}

// parse reads a page in UTF-8, whose relative addresses belong to base.
func parse(page []byte, base *url.URL) *tree {
	t := &tree{base: base, open: []*html.Node{{Type: html.DocumentNode}}}
	z := html.NewTokenizer(bytes.NewReader(page))
	for !t.cut {
		switch z.Next() {
		case html.ErrorToken:
			return t
		case html.TextToken:
			t.text(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			t.start(z)
		case html.EndTagToken:
			name, _ := z.TagName()
			t.end(atom.Lookup(name))
		default:
		}
	}
	return t
}

// root is the page.
func (t *tree) root() *html.Node { return t.open[0] }

// within reports whether an element of a kind is open.
func (t *tree) within(kinds ...atom.Atom) bool {
	return slices.ContainsFunc(t.open, func(n *html.Node) bool { return slices.Contains(kinds, n.DataAtom) })
}

// room reports whether a further node with a text fits.
func (t *tree) room(size int) bool {
	if t.nodes == maxNodes || t.bytes+size > maxTextBytes {
		t.cut = true
		return false
	}
	t.nodes++
	t.bytes += size
	return true
}

func (t *tree) text(text []byte) {
	if t.within(atom.Title) {
		t.title += string(text[:min(len(text), maxTitleBytes-len(t.title))])
		return
	}
	if t.within(skipped...) || len(text) == 0 || !t.room(t.size(text)) {
		return
	}
	t.last().AppendChild(&html.Node{Type: html.TextNode, Data: string(text)})
}

// size is the most that a text takes in Markdown, in bytes, without escapes. Only preformatted text keeps its lines.
func (t *tree) size(text []byte) int {
	if !t.within(atom.Pre) {
		return len(text)
	}
	return len(text) + bytes.Count(text, []byte("\n"))*t.indent()*indentBytes
}

// indent is how deep open quotations and lists are nested.
func (t *tree) indent() int {
	deep := 0
	for _, n := range t.open {
		if slices.Contains(indents, n.DataAtom) {
			deep++
		}
	}
	return deep
}

func (t *tree) last() *html.Node { return t.open[len(t.open)-1] }

func (t *tree) start(z *html.Tokenizer) {
	name, has := z.TagName()
	kind := atom.Lookup(name)
	if t.within(skipped...) && !slices.Contains(skipped, kind) {
		return
	}
	if rule, ends := closes[kind]; ends {
		t.endOneOf(rule.ends, rule.until)
	}
	if !t.opens(kind) {
		return
	}
	n := &html.Node{Type: html.ElementNode, DataAtom: kind, Data: kind.String()}
	if has {
		t.attributes(z, n)
	}
	size := 0
	for _, a := range n.Attr {
		size += len(a.Val)
	}
	if !t.room(size) {
		return
	}
	t.last().AppendChild(n)
	if !slices.Contains(empty, kind) {
		t.open = append(t.open, n)
	}
}

// opens reports whether an element is part of the page. The content of others is that of the element around them.
func (t *tree) opens(kind atom.Atom) bool {
	switch {
	case kind == 0 || len(t.open) > maxDepth:
		return false
	case kind == atom.Tr:
		t.cells = 0
	case kind == atom.Td || kind == atom.Th:
		t.cells++
		return t.cells <= maxCells
	case kind == atom.Table:
		return !t.within(atom.Table)
	case slices.Contains(indents, kind):
		return t.indent() < maxIndent
	}
	return true
}

// end ends an element that is open, and those within it.
func (t *tree) end(kind atom.Atom) {
	if kind != 0 {
		t.endOneOf([]atom.Atom{kind}, nil)
	}
}

// endOneOf ends the innermost open element of some kinds, unless one of others is within it.
func (t *tree) endOneOf(kinds, until []atom.Atom) {
	for i := len(t.open) - 1; i > 0; i-- {
		switch {
		case slices.Contains(kinds, t.open[i].DataAtom):
			t.open = t.open[:i]
			return
		case slices.Contains(until, t.open[i].DataAtom):
			return
		}
	}
}

// attributes keeps the addresses of links and images, and the texts of images.
func (t *tree) attributes(z *html.Tokenizer, n *html.Node) {
	for range maxAttributes {
		key, value, more := z.TagAttr()
		switch name := string(key); {
		case n.DataAtom == atom.A && name == "href", n.DataAtom == atom.Img && name == "src":
			if address := t.address(string(value)); address != "" {
				n.Attr = append(n.Attr, html.Attribute{Key: name, Val: address})
			}
		case n.DataAtom == atom.Img && name == "alt":
			text := strings.Join(strings.Fields(string(value)), " ")
			n.Attr = append(n.Attr, html.Attribute{Key: name, Val: text})
		}
		if !more {
			return
		}
	}
}

// address returns the absolute form of an address of the web; empty for any other.
func (t *tree) address(written string) string {
	if len(written) > maxURLBytes {
		return ""
	}
	u, err := url.Parse(strings.TrimSpace(written))
	if err != nil {
		return ""
	}
	if t.base != nil {
		u = t.base.ResolveReference(u)
	}
	u.User = nil
	if absolute := u.String(); (u.Scheme == "https" || u.Scheme == "http") && len(absolute) <= maxURLBytes {
		return absolute
	}
	return ""
}
