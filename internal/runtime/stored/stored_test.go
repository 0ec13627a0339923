package stored

import (
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
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
	for _, name := range append(Names(), "") {
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
