package configsource

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// check compares the counts with the texts in the cache.
func (k *textCache) check(t *testing.T) {
	t.Helper()
	total, texts := int64(0), 0
	for name, n := range k.namespaces {
		sum := int64(0)
		for e := n.texts.Front(); e != nil; e = e.Next() {
			sum += e.Value.(*text).bytes
			texts++
		}
		if sum != n.bytes || n.bytes > k.limit/perNamespace {
			t.Fatalf("namespace %s has %d bytes of %d, and counts %d", name, sum, k.limit/perNamespace, n.bytes)
		}
		total += sum
	}
	if total != k.bytes || total > k.limit || texts != len(k.byUID) {
		t.Fatalf("%d texts of %d bytes are kept, of %d; counted are %d and %d", texts, total, k.limit, len(k.byUID), k.bytes)
	}
}

func TestANamespaceDisplacesOnlyItsOwnTexts(t *testing.T) {
	k := newTextCache(800)
	k.add("good", "good", 1, "text", 40)
	for i := range 1000 {
		k.add("bad", types.UID(fmt.Sprint(i)), 1, "text", int64(1+i%120))
		k.check(t)
	}
	if _, ok := k.get("good", 1); !ok {
		t.Error("the text of the other namespace was evicted")
	}
}

func TestManyNamespacesDisplaceTheTextsOfTheLargest(t *testing.T) {
	k := newTextCache(800)
	k.add("good", "good", 1, "text", 40)
	for i := range 5000 {
		k.add(fmt.Sprint("bad-", i%9), types.UID(fmt.Sprint(i)), 1, "text", 50)
		k.check(t)
	}
	if _, ok := k.get("good", 1); !ok {
		t.Error("the text of the small namespace was evicted")
	}
}

func TestTheTextThatWasNotUsedForLongestIsDisplaced(t *testing.T) {
	k := newTextCache(800)
	k.add("ns", "a", 1, "a", 40)
	k.add("ns", "b", 1, "b", 40)
	k.get("a", 1)
	k.add("ns", "c", 1, "c", 40)
	for uid, want := range map[types.UID]bool{"a": true, "b": false, "c": true} {
		if value, ok := k.get(uid, 1); ok != want || ok && value != string(uid) {
			t.Errorf("kept of %s: %v, %v", uid, value, ok)
		}
	}
	k.add("ns", "a", 2, "a2", 30)
	k.check(t)
	if _, ok := k.get("a", 1); ok {
		t.Error("the text of an older generation is kept")
	}
	if value, _ := k.get("a", 2); value != "a2" {
		t.Errorf("of the new generation %v is kept", value)
	}
	k.add("ns", "a", 3, "a3", 101)
	k.check(t)
	if _, ok := k.get("a", 3); ok {
		t.Error("a text is kept that is larger than a namespace's part")
	}
}
