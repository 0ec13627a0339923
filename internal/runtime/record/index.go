package record

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxInlineBytes is the size up to which a value is a part of the index, and maxInlineTotal bounds all of these.
	maxInlineBytes = 4 << 10
	maxInlineTotal = 64 << 10
	// maxIndexBytes is the maximum size of an index before its compression.
	maxIndexBytes = 512 << 10
	// maxOutcomes is the maximum number of outcomes of one step, and maxKept that of operations without a step.
	maxOutcomes = 256
	maxKept     = 16
	// blobDigits is the length of the hash in the name of a blob.
	blobDigits = 40
)

// Index is the keys of a store at one moment. It does not change.
type Index struct {
	// Revision of the store: the number of operations that changed it.
	Revision int64
	// Items are sorted by key.
	Items []Item

	// step is the newest step that has changed the store, and outcomes are those of its operations. kept are those of
	// operations without a step.
	step           int64
	outcomes, kept []outcome
	// pages have the items as they are stored; nil for an index that has them itself.
	pages []page
	// stored is the size of all values as an index with pages has it; nil for one that was written before it had it.
	stored *int64
	// replaced are the pages that the last operation has replaced, and collected reports whether this process knows that
	// they are deleted.
	replaced  []string
	collected bool
}

// outcome is the outcome of an operation under the key of its cause.
type outcome struct {
	Key      string `json:"key"`
	Revision int64  `json:"revision"`
	Result   []byte `json:"result,omitempty"`
}

// Find returns the item of a key, and whether there is one.
func (x *Index) Find(key string) (Item, bool) {
	if i, found := x.at(key); found {
		return x.Items[i], true
	}
	return Item{}, false
}

func (x *Index) at(key string) (int, bool) {
	return slices.BinarySearchFunc(x.Items, key, func(i Item, key string) int { return strings.Compare(i.Key, key) })
}

// Outcome returns the outcome of an operation that was carried out, and whether it was.
func (x *Index) Outcome(cause Cause) (Outcome, bool) {
	if cause.none() {
		return Outcome{}, false
	}
	known := x.kept
	if cause.Step != 0 {
		if known = x.outcomes; cause.Step != x.step {
			return Outcome{}, false
		}
	}
	for _, o := range known {
		if o.Key == cause.Key {
			return Outcome{Revision: o.Revision, Result: o.Result}, true
		}
	}
	return Outcome{}, false
}

// Bytes is the size of all values.
func (x *Index) Bytes() int64 {
	var sum int64
	for _, item := range x.Items {
		sum += item.Size
	}
	return sum
}

// weight is the size of all values and, as they are stored, of all pages.
func (x *Index) weight() int64 {
	return x.Bytes() + x.pageBytes()
}

// pageBytes is the size of all pages as they are stored.
func (x *Index) pageBytes() int64 {
	var sum int64
	for _, p := range x.pages {
		sum += p.Bytes
	}
	return sum
}

// change is an index that an operation results in.
type change struct {
	index, before *Index
	// keys are those that the operation writes or deletes.
	keys []string
	// written are the values that the index needs as blobs, by name, and pages the pages of the index, compressed; dropped
	// are the blobs that only the index before referred to.
	written, pages map[string][]byte
	dropped        []string
	// inlined is the size of the values that are a part of the index.
	inlined int
}

// apply returns the index after an operation that was not carried out yet. It is a pure function.
func (x *Index) apply(o Operation, now time.Time, maxBytes int64) (*change, error) {
	if o.Cause.Step != 0 && o.Cause.Step < x.step {
		return nil, fmt.Errorf("%w: the operation belongs to step %d, the change to %d", ErrStale, o.Cause.Step, x.step)
	}
	for key, expected := range o.Expect {
		if item, _ := x.Find(key); item.Revision != expected {
			return nil, &ConflictError{Key: key, Revision: item.Revision, Expected: expected}
		}
	}
	next := &Index{Revision: x.Revision + 1, step: x.step, outcomes: x.outcomes, kept: x.kept}
	c := &change{index: next, before: x, written: map[string][]byte{}, pages: map[string][]byte{}}
	now = time.UnixMilli(now.UnixMilli()).UTC() // as it is stored
	c.keep(o)
	for _, put := range o.Put {
		c.put(put, o.Cause, now)
	}
	slices.SortFunc(next.Items, func(a, b Item) int { return cmp.Compare(a.Key, b.Key) })
	if err := next.record(o); err != nil {
		return nil, err
	}
	if len(next.Items) > MaxKeys && len(next.Items) > len(x.Items) {
		return nil, fmt.Errorf("%w: it would have %d keys; the maximum is %d", ErrFull, len(next.Items), MaxKeys)
	}
	if size := next.Bytes(); size > maxBytes && size > x.Bytes() {
		return nil, fmt.Errorf("%w: it would have %d bytes; the maximum is %d", ErrFull, size, maxBytes)
	}
	return c, nil
}

// keep keeps the items that an operation does not change. The blobs of others are dropped.
func (c *change) keep(o Operation) {
	c.keys = slices.Clone(o.Delete)
	for _, put := range o.Put {
		c.keys = append(c.keys, put.Key)
	}
	changed := make(map[string]bool, len(c.keys))
	for _, key := range c.keys {
		changed[key] = true
	}
	c.index.Items = make([]Item, 0, len(c.before.Items)+len(o.Put))
	for _, item := range c.before.Items {
		switch {
		case !changed[item.Key]:
			c.index.Items = append(c.index.Items, item)
			c.inlined += len(item.inline)
		case item.blob != "":
			c.dropped = append(c.dropped, item.blob)
		}
	}
}

// put writes the value of a key.
func (c *change) put(p Put, cause Cause, now time.Time) {
	item := Item{
		Key: p.Key, Revision: c.index.Revision, Size: int64(len(p.Value)), Encoding: p.Encoding, Kind: p.Kind,
		Created: now, Modified: now,
	}
	if before, found := c.before.Find(p.Key); found {
		item.Created = before.Created
	}
	if len(p.Value) <= maxInlineBytes && c.inlined+len(p.Value) <= maxInlineTotal {
		item.inline = slices.Clone(p.Value)
		c.inlined += len(p.Value)
	} else {
		item.blob = blobOf(cause, p)
		c.written[item.blob] = p.Value
	}
	c.index.Items = append(c.index.Items, item)
}

// record adds the outcome of an operation.
func (x *Index) record(o Operation) error {
	if o.Cause.none() {
		return nil
	}
	made := outcome{Key: o.Cause.Key, Revision: x.Revision, Result: o.Result}
	if o.Cause.Step == 0 {
		if len(x.kept) == maxKept {
			return fmt.Errorf("%w: it keeps the outcomes of %d operations without a step", ErrFull, maxKept)
		}
		x.kept = append(slices.Clone(x.kept), made)
		return nil
	}
	if o.Cause.Step != x.step {
		x.step, x.outcomes = o.Cause.Step, nil
	}
	if len(x.outcomes) == maxOutcomes {
		return fmt.Errorf("%w: it keeps the outcomes of %d operations of one step", ErrFull, maxOutcomes)
	}
	x.outcomes = append(slices.Clone(x.outcomes), made)
	return nil
}

// blobOf is the name of the blob of a value.
func blobOf(cause Cause, p Put) string {
	hash := sha256.New()
	for _, part := range []string{fmt.Sprint(cause.Step), cause.Key, p.Key} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	hash.Write(p.Value)
	return hex.EncodeToString(hash.Sum(nil))[:blobDigits]
}

// check returns why no store carries out an operation; nil if one may.
func (o Operation) check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
	}
	key := o.Cause.Key
	if key == "" && !o.Cause.none() || len(key) > maxCauseBytes || !utf8.ValidString(key) || o.Cause.Step < 0 {
		return invalid("the cause %.64q of step %d cannot be kept", o.Cause.Key, o.Cause.Step)
	}
	if len(o.Result) > MaxResultBytes {
		return invalid("the result has %d bytes; the maximum is %d", len(o.Result), MaxResultBytes)
	}
	if len(o.Put) > MaxChanges || len(o.Delete) > MaxKeys || len(o.Expect) > MaxKeys {
		return invalid("it writes %d keys, deletes %d and expects %d; the maximum is %d, %d and %d", len(o.Put),
			len(o.Delete), len(o.Expect), MaxChanges, MaxKeys, MaxKeys)
	}
	keys := slices.Clone(o.Delete)
	for _, put := range o.Put {
		keys = append(keys, put.Key)
		if len(put.Value) > MaxValueBytes {
			return invalid("the value of %.64q has %d bytes; the maximum is %d", put.Key, len(put.Value), MaxValueBytes)
		}
		if !validLabel(put.Encoding) || !validLabel(put.Kind) {
			return invalid("the encoding or the kind of %.64q is longer than %d bytes or not UTF-8", put.Key, maxLabelBytes)
		}
	}
	slices.Sort(keys)
	for i, key := range keys {
		switch {
		case key == "" || len(key) > MaxKeyBytes || !utf8.ValidString(key):
			return invalid("the key %.64q is empty, longer than %d bytes or not UTF-8", key, MaxKeyBytes)
		case i > 0 && keys[i-1] == key:
			return invalid("the key %.64q is changed twice", key)
		}
	}
	return nil
}

// validLabel reports whether a text can be an encoding or a kind.
func validLabel(text string) bool {
	return len(text) <= maxLabelBytes && utf8.ValidString(text)
}

// storedIndex is the form in which an index is stored.
type storedIndex struct {
	Revision int64        `json:"revision"`
	Step     int64        `json:"step,omitempty"`
	Outcomes []outcome    `json:"outcomes,omitempty"`
	Kept     []outcome    `json:"kept,omitempty"`
	Items    []storedItem `json:"items,omitempty"`
	Pages    []page       `json:"pages,omitempty"`
	// Bytes is the size of all values, where these are not listed in Items.
	Bytes    *int64   `json:"bytes,omitempty"`
	Replaced []string `json:"replaced,omitempty"`
}

// storedItem is the form in which an item is stored, with its times in milliseconds since 1970.
type storedItem struct {
	Key      string `json:"key"`
	Revision int64  `json:"revision"`
	Size     int64  `json:"size,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Created  int64  `json:"created"`
	Modified int64  `json:"modified"`
	Value    []byte `json:"value,omitempty"`
	Blob     string `json:"blob,omitempty"`
}

// storedItems returns items as they are stored.
func storedItems(items []Item) []storedItem {
	stored := make([]storedItem, len(items))
	for n, i := range items {
		stored[n] = storedItem{
			Key: i.Key, Revision: i.Revision, Size: i.Size, Encoding: i.Encoding, Kind: i.Kind,
			Created: i.Created.UnixMilli(), Modified: i.Modified.UnixMilli(), Value: i.inline, Blob: i.blob,
		}
	}
	return stored
}

// itemsOf returns the items that are stored.
func itemsOf(stored []storedItem) []Item {
	items := make([]Item, len(stored))
	for n, i := range stored {
		items[n] = Item{
			Key: i.Key, Revision: i.Revision, Size: i.Size, Encoding: i.Encoding, Kind: i.Kind,
			Created: time.UnixMilli(i.Created).UTC(), Modified: time.UnixMilli(i.Modified).UTC(),
			inline: i.Value, blob: i.Blob,
		}
	}
	return items
}

func encodeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding an index: %w", err)
	}
	return text.Bytes(), nil
}

// encode returns the index of a change as it is stored, and writes its pages.
func (c *change) encode() (Stored, error) {
	x := c.index
	stored := storedIndex{Revision: x.Revision, Step: x.step, Outcomes: x.outcomes, Kept: x.kept}
	format := int32(Format)
	whole := len(x.Items) <= joinKeys || len(c.before.pages) == 0 && len(x.Items) <= pageKeys
	if whole {
		stored.Items = storedItems(x.Items)
	}
	text, err := encodeJSON(stored)
	if err != nil {
		return Stored{}, err
	}
	if !whole || len(text) > maxIndexBytes && len(x.Items) > 0 {
		if err := c.encodePages(); err != nil {
			return Stored{}, err
		}
		sum := x.Bytes()
		stored.Items, stored.Pages, stored.Bytes, format = nil, x.pages, &sum, FormatPages
	}
	x.replaced = c.replacedPages()
	if stored.Replaced = x.replaced; len(x.pages)+len(x.replaced) > 0 {
		if text, err = encodeJSON(stored); err != nil {
			return Stored{}, err
		}
	}
	if len(text) > maxIndexBytes {
		return Stored{}, fmt.Errorf("%w: its %d keys take %d bytes; the maximum is %d", ErrFull, len(x.Items), len(text),
			maxIndexBytes)
	}
	packed, err := pack(text)
	return Stored{Payload: packed, Revision: x.Revision, Format: format}, err
}

// decodeIndex reads an index that is stored. The items of one with pages are missing.
func decodeIndex(from Stored) (*Index, error) {
	text, err := unpack(from.Payload, maxIndexBytes)
	if err != nil {
		return nil, err
	}
	var stored storedIndex
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("%w (decoding an index: %w)", ErrFormat, err)
	}
	if stored.Revision != from.Revision || len(stored.Items) > pageKeys {
		return nil, fmt.Errorf("%w (the index of revision %d with %d keys is stored as revision %d)", ErrFormat,
			stored.Revision, len(stored.Items), from.Revision)
	}
	if (from.Format == FormatPages) != (len(stored.Pages) > 0) || len(stored.Replaced) > maxReplaced {
		return nil, fmt.Errorf("%w (an index of format %d has %d pages)", ErrFormat, from.Format, len(stored.Pages))
	}
	x := &Index{
		Revision: stored.Revision, step: stored.Step, outcomes: stored.Outcomes, kept: stored.Kept, pages: stored.Pages,
		replaced: stored.Replaced, stored: stored.Bytes,
	}
	if len(x.pages) > 0 {
		return x, checkPages(stored)
	}
	if x.Items = itemsOf(stored.Items); !sorted(x.Items) {
		return nil, fmt.Errorf("%w (the keys of an index are out of order)", ErrFormat)
	}
	return x, nil
}
