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

// change is an index that an operation results in.
type change struct {
	index *Index
	// written are the blobs that the index needs, by name; dropped are those that only the index before referred to.
	written map[string][]byte
	dropped []string
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
	next := &Index{
		Revision: x.Revision + 1, Items: slices.Clone(x.Items), step: x.step, outcomes: x.outcomes, kept: x.kept,
	}
	c := &change{index: next, written: map[string][]byte{}}
	now = time.UnixMilli(now.UnixMilli()).UTC() // as it is stored
	for _, key := range o.Delete {
		if i, found := next.at(key); found {
			c.drop(next.Items[i])
			next.Items = slices.Delete(next.Items, i, i+1)
		}
	}
	for _, put := range o.Put {
		c.put(put, o.Cause, now)
	}
	if err := next.record(o); err != nil {
		return nil, err
	}
	if len(next.Items) > MaxKeys {
		return nil, fmt.Errorf("%w: it would have %d keys; the maximum is %d", ErrFull, len(next.Items), MaxKeys)
	}
	if size := next.Bytes(); size > maxBytes && size > x.Bytes() {
		return nil, fmt.Errorf("%w: it would have %d bytes; the maximum is %d", ErrFull, size, maxBytes)
	}
	return c, nil
}

// drop notes that an item is replaced or deleted.
func (c *change) drop(item Item) {
	if item.blob != "" {
		c.dropped = append(c.dropped, item.blob)
	}
}

// put writes the value of a key.
func (c *change) put(p Put, cause Cause, now time.Time) {
	x := c.index
	i, found := x.at(p.Key)
	item := Item{
		Key: p.Key, Revision: x.Revision, Size: int64(len(p.Value)), Encoding: p.Encoding, Kind: p.Kind,
		Created: now, Modified: now,
	}
	if found {
		c.drop(x.Items[i])
		item.Created = x.Items[i].Created
		x.Items = slices.Delete(x.Items, i, i+1)
	}
	if len(p.Value) <= maxInlineBytes && x.inlined()+len(p.Value) <= maxInlineTotal {
		item.inline = slices.Clone(p.Value)
	} else {
		item.blob = blobOf(cause, p)
		c.written[item.blob] = p.Value
	}
	x.Items = slices.Insert(x.Items, i, item)
}

// inlined is the size of the values that are a part of the index.
func (x *Index) inlined() int {
	sum := 0
	for _, item := range x.Items {
		sum += len(item.inline)
	}
	return sum
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
	if changes := len(o.Put) + len(o.Delete); changes > MaxChanges || len(o.Expect) > MaxKeys {
		return invalid("it changes %d keys and expects %d; the maximum is %d", changes, len(o.Expect), MaxChanges)
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

// encode returns the index as it is stored.
func (x *Index) encode() ([]byte, error) {
	stored := storedIndex{Revision: x.Revision, Step: x.step, Outcomes: x.outcomes, Kept: x.kept}
	for _, i := range x.Items {
		stored.Items = append(stored.Items, storedItem{
			Key: i.Key, Revision: i.Revision, Size: i.Size, Encoding: i.Encoding, Kind: i.Kind,
			Created: i.Created.UnixMilli(), Modified: i.Modified.UnixMilli(), Value: i.inline, Blob: i.blob,
		})
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(stored); err != nil {
		return nil, fmt.Errorf("encoding an index: %w", err)
	}
	if text.Len() > maxIndexBytes {
		return nil, fmt.Errorf("%w: its %d keys take %d bytes; the maximum is %d", ErrFull, len(x.Items), text.Len(),
			maxIndexBytes)
	}
	return pack(text.Bytes())
}

// decodeIndex reads an index that is stored at a revision.
func decodeIndex(payload []byte, revision int64) (*Index, error) {
	text, err := unpack(payload, maxIndexBytes)
	if err != nil {
		return nil, err
	}
	var stored storedIndex
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("%w (decoding an index: %w)", ErrFormat, err)
	}
	if stored.Revision != revision || len(stored.Items) > MaxKeys {
		return nil, fmt.Errorf("%w (the index of revision %d with %d keys is stored as revision %d)", ErrFormat,
			stored.Revision, len(stored.Items), revision)
	}
	x := &Index{Revision: revision, step: stored.Step, outcomes: stored.Outcomes, kept: stored.Kept}
	for _, i := range stored.Items {
		x.Items = append(x.Items, Item{
			Key: i.Key, Revision: i.Revision, Size: i.Size, Encoding: i.Encoding, Kind: i.Kind,
			Created: time.UnixMilli(i.Created).UTC(), Modified: time.UnixMilli(i.Modified).UTC(),
			inline: i.Value, blob: i.Blob,
		})
	}
	if !slices.IsSortedFunc(x.Items, func(a, b Item) int { return cmp.Compare(a.Key, b.Key) }) {
		return nil, fmt.Errorf("%w (the keys of an index are out of order)", ErrFormat)
	}
	return x, nil
}
