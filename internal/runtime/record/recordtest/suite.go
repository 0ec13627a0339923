package recordtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Run is the suite that every backend passes. newObjects is called once per test; its Sessions are in the namespace
// default and have unique UIDs, so that the tests run in parallel.
func Run(t *testing.T, newObjects func(t *testing.T) record.Objects) {
	tests := []struct {
		name string
		run  func(*fixture)
	}{
		{"ObjectsKeepWhatIsWritten", objectsKeep},
		{"AStoreThatWasNeverWrittenIsEmpty", emptyStore},
		{"EveryKindOfOwnerHasStores", everyOwner},
		{"ValuesOfEverySizeAreReadBack", valuesOfEverySize},
		{"SmallValuesSpillWhenTheIndexIsLarge", smallValuesSpill},
		{"AnOperationChangesSeveralKeysOrNone", severalKeys},
		{"ExpectedRevisionsDecideARace", expectedRevisions},
		{"ConcurrentOperationsAllSucceed", concurrentOperations},
		{"ARepeatedOperationGetsTheFirstOutcome", repeated},
		{"AnOperationOfAnEarlierStepIsRefused", overtaken},
		{"ConcurrentRepetitionsChangeOnce", repeatedConcurrently},
		{"AFaultAtAnyCallChangesOnce", faultAtAnyCall},
		{"AProcessThatDiesAtAnyCallIsRepeated", deathAtAnyCall},
		{"AProcessHeldAtAnyCallChangesNothingMore", heldAtAnyCall},
		{"AnOperationIsDecidedOnTheIndexAsItIs", decidedOnIndex},
		{"AnOperationWithoutACauseIsDecidedAgain", withoutCause},
		{"AProcessHeldWithoutACauseChangesNothingMore", heldWithoutCause},
		{"AnOperationNeedsACauseOrADecision", withoutCauseNorDecision},
		{"BlobsAreDeletedWhenNoKeyNeedsThem", blobsAreCollected},
		{"AValueIsWrittenAgainWhileItIsDeleted", writtenAgain},
		{"AReaderFindsAValueThatIsReplacedMeanwhile", replacedWhileRead},
		{"AStoreHasBounds", storeIsBounded},
		{"AnOperationHasBounds", operationIsBounded},
		{"WhatIsNotAnIndexIsNotDecoded", damagedIndex},
		{"OperationsTakePlaces", placesAreTaken},
		{"WrittenBytesAreLimitedBeforeTheyAreWritten", bytesAreLimited},
		{"ACancelledOperationLeavesNothingHalf", cancelledOperation},
		{"ANamespaceHasACeiling", namespaceIsBounded},
		{"TheCountOfANamespaceGoesOn", countingGoesOn},
		{"AStoreThatCannotBeReadDoesNotStopOthers", unreadableStores},
		{"ACeilingHoldsUnderLoad", ceilingHoldsUnderLoad},
		{"ANamespaceIsDeletedUnderLoad", namespaceIsDeleted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newFixture(t, newObjects(t), 0))
		})
	}
	for _, test := range []struct {
		name string
		run  func(*fixture)
	}{
		{"ManyKeysHavePages", manyKeys},
		{"PagesAreReplacedWhileTheyAreRead", pagesReplacedWhileRead},
		{"PagesThatAreNotNeededAreDeleted", pagesAreCollected},
		{"PagesOfAnotherProcessStay", sameOperationAbandoned},
		{"TriesThatFailLeaveNoPages", triesLeaveNoPages},
		{"ATryThatIsDecidedOtherwiseLeavesNoPages", decidedOtherwise},
		{"AnOperationThatIsOvertakenAndCutOffLeavesNoPages", overtakenAndCutOff},
		{"LongKeysHavePages", longKeys},
		{"PagesAreNotReadToCountAStore", pagesAreNotCounted},
		{"WhatIsNotAPageIsNotDecoded", damagedPages},
		{"AnOperationChangesSeveralKeysOrNone", severalKeys},
		{"ExpectedRevisionsDecideARace", expectedRevisions},
		{"ConcurrentOperationsAllSucceed", concurrentOperations},
		{"ConcurrentRepetitionsChangeOnce", repeatedConcurrently},
		{"AFaultAtAnyCallChangesOnce", faultAtAnyCall},
		{"AProcessThatDiesAtAnyCallIsRepeated", deathAtAnyCall},
		{"AProcessHeldAtAnyCallChangesNothingMore", heldAtAnyCall},
		{"AnOperationIsDecidedOnTheIndexAsItIs", decidedOnIndex},
		{"ANamespaceIsDeletedUnderLoad", namespaceIsDeleted},
	} {
		t.Run("WithManyKeys"+test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newFixture(t, newObjects(t), many))
		})
	}
}

// many is a number of keys for which an index has pages.
const many = 1100

// fixture is one store of a Session on the objects under test.
type fixture struct {
	t       *testing.T
	objects *Objects
	scope   record.Scope
	// warm is a Store that keeps what it has read, as a process does that has run for a while.
	warm record.Store
	// filled is the number of keys, and base the revision, that the store began with.
	filled int
	base   int64
}

// newFixture returns a store that has a number of keys already.
func newFixture(t *testing.T, objects record.Objects, keys int) *fixture {
	f := &fixture{
		t: t, objects: Wrap(objects), scope: newScope(),
		warm: record.New(objects, record.Options{KeptBytes: 16 << 20}), filled: keys,
	}
	f.fill(keys)
	f.objects.Intercept(nil)
	return f
}

// filler is what the keys begin with that a store was filled with.
const filler = "/filler/"

// fill writes a number of keys.
func (f *fixture) fill(keys int) {
	f.t.Helper()
	for first := 0; first < keys; first += record.MaxChanges {
		o := record.Operation{Cause: record.Cause{Key: fmt.Sprintf("fill-%d", first)}}
		for i := first; i < min(keys, first+record.MaxChanges); i++ {
			o.Put = append(o.Put, text(fmt.Sprintf("%s%04d", filler, i), "x"))
		}
		f.base = f.apply(o).Revision
	}
}

func newScope() record.Scope {
	uid := uuid.NewString()
	return record.Scope{Namespace: "default", Session: "session-" + uid[:8], UID: types.UID(uid), Store: "files"}
}

// another is a further store on the same objects.
func (f *fixture) another(t *testing.T) *fixture {
	return newFixture(t, f.objects.inner, f.filled)
}

// store is a Store as a new process has it.
func (f *fixture) store() record.Store {
	return record.New(f.objects, record.Options{})
}

// cause is one that no other operation has.
func (f *fixture) cause(step int64) record.Cause {
	f.t.Helper()
	return record.Cause{Step: step, Key: uuid.NewString()}
}

// apply carries an operation out and fails the test if that is not possible.
func (f *fixture) apply(o record.Operation) record.Outcome {
	f.t.Helper()
	outcome, err := f.store().Apply(f.t.Context(), f.scope, o)
	if err != nil {
		f.t.Fatalf("applying %s: %v", o.Cause.Key, err)
	}
	return outcome
}

// put writes the values of keys.
func (f *fixture) put(step int64, puts ...record.Put) {
	f.t.Helper()
	f.apply(record.Operation{Cause: f.cause(step), Put: puts})
}

func text(key, value string) record.Put {
	return record.Put{Key: key, Value: []byte(value), Encoding: "text", Kind: "file"}
}

// noise is a value that cannot be compressed.
func noise(key string, seed uint64, size int) record.Put {
	random, value := rand.New(rand.NewPCG(seed, 1)), make([]byte, size)
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	return record.Put{Key: key, Value: value, Encoding: "base64", Kind: "file"}
}

// list reads the index.
func (f *fixture) list() *record.Index {
	f.t.Helper()
	x, err := f.store().List(f.t.Context(), f.scope)
	if err != nil {
		f.t.Fatalf("listing: %v", err)
	}
	// A process that has read the store before sees the same.
	warm, err := f.warm.List(f.t.Context(), f.scope)
	if err != nil || warm.Revision < x.Revision || warm.Revision == x.Revision && !reflect.DeepEqual(warm, x) {
		f.t.Fatalf("a process that has listed the store before finds %+v, %v, not %+v", warm, err, x)
	}
	return x
}

// expect checks that the store has exactly these values, all of them readable.
func (f *fixture) expect(want ...record.Put) {
	f.t.Helper()
	x := f.list()
	if len(x.Items) != len(want)+f.filled {
		f.t.Fatalf("the store has %d keys, not %d", len(x.Items), len(want)+f.filled)
	}
	if !slices.IsSortedFunc(x.Items, func(a, b record.Item) int { return strings.Compare(a.Key, b.Key) }) {
		f.t.Fatal("the keys are out of order")
	}
	for _, put := range want {
		item, found := x.Find(put.Key)
		if !found {
			f.t.Fatalf("the key %s is missing", put.Key)
		}
		value, err := f.store().Load(f.t.Context(), f.scope, item)
		if err != nil || !bytes.Equal(value, put.Value) {
			f.t.Fatalf("the key %s has %d bytes, not %d, or another value: %v", put.Key, len(value), len(put.Value), err)
		}
		if kept, err := f.warm.Load(f.t.Context(), f.scope, item); err != nil || !bytes.Equal(kept, put.Value) {
			f.t.Fatalf("a process that has read the key %s before finds %d bytes, %v", put.Key, len(kept), err)
		}
		if item.Size != int64(len(put.Value)) || item.Encoding != put.Encoding || item.Kind != put.Kind {
			f.t.Fatalf("the key %s is listed as %+v", put.Key, item)
		}
	}
}

func objectsKeep(f *fixture) {
	ctx, o, scope := f.t.Context(), f.objects, f.scope
	if _, err := o.ReadIndex(ctx, scope); !errors.Is(err, record.ErrNotFound) {
		f.t.Fatalf("reading an index that is missing: %v", err)
	}
	first := record.Stored{Payload: []byte{1, 2, 3}, Revision: 1, Format: record.Format}
	if err := o.WriteIndex(ctx, scope, first); err != nil {
		f.t.Fatal(err)
	}
	if err := o.WriteIndex(ctx, scope, first); !errors.Is(err, record.ErrChanged) {
		f.t.Fatalf("creating an index that exists: %v", err)
	}
	read, err := o.ReadIndex(ctx, scope)
	if err != nil || !bytes.Equal(read.Payload, first.Payload) || read.Revision != 1 || read.Version == "" ||
		read.Format != record.Format {
		f.t.Fatalf("the index is %+v, %v", read, err)
	}
	next := record.Stored{Payload: []byte{4}, Revision: 2, Format: record.FormatPages, Version: read.Version}
	if err := o.WriteIndex(ctx, scope, next); err != nil {
		f.t.Fatal(err)
	}
	if err := o.WriteIndex(ctx, scope, next); !errors.Is(err, record.ErrChanged) {
		f.t.Fatalf("replacing an index that was replaced: %v", err)
	}
	other := scope
	other.Store = "values"
	if _, err := o.ReadIndex(ctx, other); !errors.Is(err, record.ErrNotFound) {
		f.t.Fatalf("another store has the index: %v", err)
	}
	const name = "0123456789012345678901234567890123456789"
	if _, err := o.ReadBlob(ctx, scope, name); !errors.Is(err, record.ErrNotFound) {
		f.t.Fatalf("reading a blob that is missing: %v", err)
	}
	for range 2 {
		if err := o.CreateBlob(ctx, scope, name, []byte{5}); err != nil {
			f.t.Fatal(err)
		}
	}
	if value, err := o.ReadBlob(ctx, scope, name); err != nil || !bytes.Equal(value, []byte{5}) {
		f.t.Fatalf("the blob is %v, %v", value, err)
	}
	if _, err := o.ReadBlob(ctx, other, name); !errors.Is(err, record.ErrNotFound) {
		f.t.Fatalf("another store has the blob: %v", err)
	}
	for range 2 {
		if err := o.DeleteBlob(ctx, scope, name); err != nil {
			f.t.Fatal(err)
		}
	}
	if _, err := o.ReadBlob(ctx, scope, name); !errors.Is(err, record.ErrNotFound) {
		f.t.Fatalf("the blob was deleted: %v", err)
	}
}

func emptyStore(f *fixture) {
	if x := f.list(); x.Revision != 0 || len(x.Items) != 0 || x.Bytes() != 0 {
		f.t.Fatalf("the index is %+v", x)
	}
	if _, _, err := f.store().Get(f.t.Context(), f.scope, "/a"); !errors.Is(err, record.ErrNotFound) {
		f.t.Fatalf("reading a key: %v", err)
	}
	if outcome := f.apply(record.Operation{Cause: f.cause(1), Delete: []string{"/a"}}); outcome.Revision != 1 {
		f.t.Fatalf("deleting a key that is missing: %+v", outcome)
	}
}

func valuesOfEverySize(f *fixture) {
	var all []record.Put
	for i, size := range []int{0, 1, 4 << 10, 4<<10 + 1, 100_000, record.MaxValueBytes} {
		all = append(all, noise(fmt.Sprintf("/noise-%d", i), uint64(i), size),
			record.Put{Key: fmt.Sprintf("/zeros-%d", i), Value: make([]byte, size), Encoding: "base64"})
	}
	f.put(1, all...)
	f.expect(all...)
	var sum int64
	for _, put := range all {
		item, value, err := f.store().Get(f.t.Context(), f.scope, put.Key)
		if err != nil || !bytes.Equal(value, put.Value) || item.Revision != 1 || item.Created.IsZero() {
			f.t.Fatalf("%s is %+v, %v", put.Key, item, err)
		}
		sum += int64(len(put.Value))
	}
	if got := f.list().Bytes(); got != sum {
		f.t.Fatalf("the store has %d bytes, not %d", got, sum)
	}
	later := time.Now().Add(time.Hour)
	store := record.New(f.objects, record.Options{Clock: func() time.Time { return later }})
	change := record.Operation{Cause: f.cause(2), Put: []record.Put{
		text("/noise-0", "more"), noise("/noise-4", 9, 50_000),
	}}
	if _, err := store.Apply(f.t.Context(), f.scope, change); err != nil {
		f.t.Fatal(err)
	}
	all[0], all[8] = text("/noise-0", "more"), noise("/noise-4", 9, 50_000)
	f.expect(all...)
	if item, _ := f.list().Find("/noise-0"); item.Revision != 2 ||
		item.Modified.UnixMilli() != later.UnixMilli() || !item.Created.Before(time.Now().Add(time.Minute)) {
		f.t.Fatalf("the changed key is %+v", item)
	}
}

// smallValuesSpill writes more small values than an index holds.
func smallValuesSpill(f *fixture) {
	var all []record.Put
	for i := range 40 {
		all = append(all, noise(fmt.Sprintf("/%03d", i), uint64(i), 4<<10))
	}
	f.put(1, all...)
	f.expect(all...)
	if blobs := f.objects.Blobs(); blobs != 24 {
		f.t.Fatalf("%d of 40 values of 4 KiB are blobs, not 24", blobs)
	}
}

func severalKeys(f *fixture) {
	f.put(1, text("/a", "1"), text("/b", "2"))
	f.objects.Intercept(nil)
	_, err := f.store().Apply(f.t.Context(), f.scope, record.Operation{
		Cause: f.cause(2), Expect: map[string]int64{"/a": f.base + 1, "/c": 1},
		Put: []record.Put{text("/a", "changed"), noise("/d", 1, 10_000)}, Delete: []string{"/b"},
	})
	var conflict *record.ConflictError
	if !errors.As(err, &conflict) || conflict.Key != "/c" || conflict.Revision != 0 || conflict.Expected != 1 {
		f.t.Fatalf("an unexpected revision: %v", err)
	}
	if writes := f.objects.Calls(WriteIndex, CreateBlob, DeleteBlob); writes != 0 {
		f.t.Fatalf("a conflict takes %d writes", writes)
	}
	f.expect(text("/a", "1"), text("/b", "2"))
	f.objects.Intercept(nil)
	f.apply(record.Operation{
		Cause: f.cause(2), Expect: map[string]int64{"/a": f.base + 1, "/c": 0},
		Put: []record.Put{text("/a", "changed"), noise("/d", 1, 10_000)}, Delete: []string{"/b"},
	})
	// The three keys are on at most three pages.
	most := 2
	if f.filled > 0 {
		most = 5
	}
	if reads, writes := f.objects.Calls(ReadIndex), f.objects.Calls(WriteIndex, CreateBlob); reads != 1 || writes > most {
		f.t.Fatalf("the operation takes %d reads and %d writes, not 1 and %d", reads, writes, most)
	}
	f.expect(text("/a", "changed"), noise("/d", 1, 10_000))
}

// deadline bounds calls that another one is to let go.
func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
