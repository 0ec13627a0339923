package record

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
)

// A store with many keys has an index of several pages. Each page has the items of the keys whose hash it is for, and
// is a blob; the index itself has their names, and what an index without pages has besides items. So an operation is
// still one compare-and-set, whichever keys it changes, and writes only the pages of these keys.
const (
	// pageKeys is the maximum number of keys of a page, and of an index without pages.
	pageKeys = 1024
	// maxPages is the maximum number of pages, a power of two as every number of pages.
	maxPages = 16
	// maxItemBytes is the maximum size of the items of all pages, before their compression. It bounds the memory of an
	// operation.
	maxItemBytes = 2 << 20
	// joinKeys is the number of keys up to which an index does without pages again: far fewer than it has when it is
	// split, so that a few operations do not split and join it in turns.
	joinKeys = pageKeys / 2
	// maxReplaced is the maximum number of names of pages that an index keeps until they are deleted.
	maxReplaced = 4 * maxPages
)

// page is a part of an index.
type page struct {
	// Blob is its name.
	Blob string `json:"blob"`
	// Keys is the number of its items, Size that of its text, and Bytes its size as it is stored.
	Keys  int   `json:"keys"`
	Size  int   `json:"size"`
	Bytes int64 `json:"bytes"`
}

// storedPage is the form in which a page is stored.
type storedPage struct {
	Items []storedItem `json:"items"`
}

// pageOf is the page of a key, of so many.
func pageOf(key string, pages int) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	return int(hash.Sum32() % uint32(pages)) //nolint:gosec // There are at most maxPages.
}

// split returns the items of each of a number of pages.
func split(items []Item, pages int) [][]Item {
	parts := make([][]Item, pages)
	for _, item := range items {
		n := pageOf(item.Key, pages)
		parts[n] = append(parts[n], item)
	}
	return parts
}

// encodePages encodes the items of an index to pages: as many as before if they have room, else so many that they are
// half empty.
func (c *change) encodePages() error {
	before := len(c.before.pages)
	if before > 0 {
		if fits, err := c.fill(before, pageKeys, maxIndexBytes); fits || err != nil {
			return err
		}
	}
	for pages := max(2, 2*before); pages < maxPages; pages *= 2 {
		if fits, err := c.fill(pages, pageKeys/2, maxIndexBytes/2); fits || err != nil {
			return err
		}
	}
	if before < maxPages {
		if fits, err := c.fill(maxPages, pageKeys, maxIndexBytes); fits || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: its %d keys have no room in %d pages", ErrFull, len(c.index.Items), maxPages)
}

// fill encodes the items to a number of pages, each with a maximum of keys and bytes, and reports whether they fit. A
// page that the operation does not change stays as it is.
func (c *change) fill(count, keys, size int) (bool, error) {
	pages, written := make([]page, count), map[string][]byte{}
	total := 0
	for n, part := range split(c.index.Items, count) {
		if len(part) > keys {
			return false, nil
		}
		if count == len(c.before.pages) && !c.touches(n, count) {
			pages[n] = c.before.pages[n]
			total += pages[n].Size
			continue
		}
		text, err := encodeJSON(storedPage{Items: storedItems(part)})
		if err != nil {
			return false, err
		}
		if len(text) > size {
			return false, nil
		}
		packed, err := pack(text)
		if err != nil {
			return false, err
		}
		pages[n] = page{
			Blob: pageBlob(), Keys: len(part), Size: len(text), Bytes: int64(len(packed)),
		}
		written[pages[n].Blob] = packed
		total += len(text)
	}
	if total > maxItemBytes {
		return false, fmt.Errorf("%w: its %d keys take %d bytes; the maximum is %d", ErrFull, len(c.index.Items), total,
			maxItemBytes)
	}
	c.index.pages, c.pages = pages, written
	return true, nil
}

// touches reports whether the operation changes a key of a page.
func (c *change) touches(n, pages int) bool {
	return slices.ContainsFunc(c.keys, func(key string) bool { return pageOf(key, pages) == n })
}

// replacedPages are the pages that the index before has and the next one has not, and those before them that may not be
// deleted yet, because their process ended meanwhile.
func (c *change) replacedPages() []string {
	var names []string
	for _, p := range c.before.pages {
		if !c.index.names(p.Blob) {
			names = append(names, p.Blob)
		}
	}
	if !c.before.collected {
		names = append(names, c.before.replaced...)
	}
	return names[:min(len(names), maxReplaced)]
}

// names reports whether a blob is a page of the index.
func (x *Index) names(blob string) bool {
	return slices.ContainsFunc(x.pages, func(p page) bool { return p.Blob == blob })
}

// pageBlob is a name for a page that no other page has. Another process may carry out the same operation on the same
// index: were its pages to have the same names, a process that deletes pages that it has written in vain could delete
// those that the other one has committed.
func pageBlob() string {
	name := make([]byte, blobDigits/2)
	_, _ = rand.Read(name) // It never fails.
	return hex.EncodeToString(name)
}

// checkPages returns why the pages of an index that was decoded are not valid; nil if they are.
func checkPages(stored storedIndex) error {
	count, keys, size := len(stored.Pages), 0, 0
	for _, p := range stored.Pages {
		if p.Keys < 0 || p.Keys > pageKeys || p.Size < 0 || p.Size > maxIndexBytes || p.Bytes < 0 ||
			len(p.Blob) != blobDigits {
			return fmt.Errorf("%w (a page of an index has %d keys, %d bytes and the name %.64q)", ErrFormat, p.Keys, p.Size,
				p.Blob)
		}
		keys, size = keys+p.Keys, size+p.Size
	}
	if stored.Bytes != nil && (*stored.Bytes < 0 || *stored.Bytes > MaxKeys*MaxValueBytes) {
		return fmt.Errorf("%w (an index has values of %d bytes)", ErrFormat, *stored.Bytes)
	}
	if count < 2 || count > maxPages || count&(count-1) != 0 || keys > MaxKeys || size > maxItemBytes ||
		len(stored.Items) > 0 {
		return fmt.Errorf("%w (an index has %d pages with %d keys and %d bytes, and %d keys besides)", ErrFormat, count, keys,
			size, len(stored.Items))
	}
	return nil
}

// decodePage reads the items of page n of so many.
func decodePage(payload []byte, p page, n, pages int) ([]Item, error) {
	text, err := unpack(payload, int64(p.Size))
	if err != nil {
		return nil, err
	}
	var stored storedPage
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("%w (decoding a page of an index: %w)", ErrFormat, err)
	}
	items := itemsOf(stored.Items)
	elsewhere := func(i Item) bool { return pageOf(i.Key, pages) != n }
	if len(items) != p.Keys || !sorted(items) || slices.ContainsFunc(items, elsewhere) {
		return nil, fmt.Errorf("%w (a page of an index has other keys than it must have)", ErrFormat)
	}
	return items, nil
}

// sorted reports whether the keys of items are in order and none is there twice.
func sorted(items []Item) bool {
	for i := 1; i < len(items); i++ {
		if items[i-1].Key >= items[i].Key {
			return false
		}
	}
	return true
}

// join sets the items of an index to those of its pages.
func (x *Index) join(parts [][]Item) {
	x.Items = slices.Concat(parts...)
	slices.SortFunc(x.Items, func(a, b Item) int { return cmp.Compare(a.Key, b.Key) })
}
