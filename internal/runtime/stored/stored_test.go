package stored

import (
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
)

// Rules: KV-01.
func TestWhatTheServicesOfASessionStore(t *testing.T) {
	store := record.New(memory.New(), record.Options{})
	of := record.Session{Namespace: "ns", Name: "demo", UID: "1"}
	if _, err := storage.Of(store, of).Set(t.Context(), record.Cause{Step: 1, Key: "c"}, "a/b", "one"); err != nil {
		t.Fatal(err)
	}
	services := Of(store, of)
	for _, name := range []string{Values, ""} {
		items, err := services.List(t.Context(), name)
		if err != nil || len(items) != 1 || items[0].Service != Values || items[0].Key != "a/b" || items[0].Size != 3 ||
			items[0].Value != nil {
			t.Errorf("the list of %q is %+v, %v", name, items, err)
		}
	}
	if items, err := services.List(t.Context(), "other"); items != nil || err != nil {
		t.Errorf("an unknown service has %+v, %v", items, err)
	}
	item, err := services.Read(t.Context(), Values, "a/b")
	if err != nil || item == nil || *item.Value != "one" || item.Service != Values {
		t.Errorf("the value is %+v, %v", item, err)
	}
	for _, missing := range [][2]string{{Values, "a"}, {"other", "a/b"}} {
		if item, err := services.Read(t.Context(), missing[0], missing[1]); item != nil || err != nil {
			t.Errorf("%v is %+v, %v", missing, item, err)
		}
	}
	empty, err := Of(store, record.Session{Namespace: "ns", Name: "demo", UID: "2"}).List(t.Context(), "")
	if err != nil || empty == nil || len(empty) != 0 {
		t.Errorf("another Session of the name has %+v, %v", empty, err)
	}
	if !slices.IsSorted(Names()) {
		t.Errorf("the services are %v", Names())
	}
}

// Rules: RES-01.
func TestTheResourcesOfASessionAreListedWithTheirValues(t *testing.T) {
	store := record.New(memory.New(), record.Options{})
	of := record.Session{Namespace: "ns", Name: "demo", UID: "1"}
	_, err := resource.Of(store, of).Register(t.Context(), record.Cause{Step: 1, Key: "c"}, resource.Draft{
		ID: "vm/1", Kind: "vm", Metadata: map[string]string{"zone": "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	services := Of(store, of)
	items, err := services.List(t.Context(), Resources)
	if err != nil || len(items) != 1 || items[0].Key != "vm/1" || items[0].Service != Resources {
		t.Fatalf("the list is %+v, %v", items, err)
	}
	item, err := services.Read(t.Context(), Resources, "vm/1")
	if err != nil || item == nil || *item.Value != *items[0].Value || item.Size != int64(len(*item.Value)) ||
		!strings.Contains(*item.Value, `"kind":"vm","status":"active","metadata":{"zone":"a"}`) {
		t.Errorf("the resource is %+v, %v", item, err)
	}
	if item, err := services.Read(t.Context(), Resources, "vm/2"); item != nil || err != nil {
		t.Errorf("a resource that does not exist is %+v, %v", item, err)
	}
}
