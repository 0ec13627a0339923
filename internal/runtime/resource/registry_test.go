package resource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

var (
	demo  = record.Session{Namespace: "team-a", Name: "demo", UID: "1"}
	start = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
)

// desk has stores whose clock goes on by a second with each operation.
type desk struct {
	t     *testing.T
	store record.Store
	now   time.Time
	step  int64
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, now: start}
	d.store = record.New(memory.New(), record.Options{Clock: func() time.Time {
		d.now = d.now.Add(time.Second)
		return d.now
	}})
	return d
}

// next is the cause of an operation of a step of its own.
func (d *desk) next() record.Cause {
	d.step++
	return record.Cause{Step: d.step, Key: "turn/1-0"}
}

func (d *desk) register(r *Registry, draft Draft) *Changed {
	d.t.Helper()
	changed, err := r.Register(d.t.Context(), d.next(), draft)
	if err != nil {
		d.t.Fatal(err)
	}
	return changed
}

// listed is the list of a filter as a text.
func (d *desk) listed(r *Registry, filter Filter) string {
	d.t.Helper()
	found, err := r.List(d.t.Context(), filter)
	if err != nil {
		d.t.Fatal(err)
	}
	var all []string
	for _, f := range found {
		all = append(all, fmt.Sprintf("%s:%s:%s", f.ID, f.Kind, f.Status))
	}
	return strings.Join(all, " ")
}

// explained is the text of an error that the model is shown; empty for none.
func explained(err error) string {
	var e *record.ExplainedError
	if errors.As(err, &e) {
		return e.Error()
	}
	return ""
}

// Rules: RES-01.
func TestResourcesAreRegisteredUpdatedListedAndDeregistered(t *testing.T) {
	d := newDesk(t)
	r := Of(d.store, demo)
	if changed := d.register(r, Draft{ID: "z", Kind: "vm"}); !changed.Created || changed.Status != Active {
		t.Errorf("the first registration is %+v", changed)
	}
	d.register(r, Draft{ID: "a", Kind: "vm", Status: Failed})
	d.register(r, Draft{ID: "m", Kind: "browser", Metadata: map[string]string{"tab": "1"}})
	again := d.register(r, Draft{ID: "m", Kind: "browser", Metadata: map[string]string{"tab": "2"}})
	if again.Created {
		t.Errorf("the second registration is %+v", again)
	}
	changed, err := r.UpdateStatus(t.Context(), d.next(), "m", Completed)
	if err != nil || changed == nil || changed.Status != Completed || changed.Created {
		t.Errorf("the update is %+v, %v", changed, err)
	}
	if changed, err := r.UpdateStatus(t.Context(), d.next(), "unknown", Completed); changed != nil || err != nil {
		t.Errorf("the update of an unknown resource is %+v, %v", changed, err)
	}
	found, err := r.Get(t.Context(), "m")
	if err != nil || found == nil || found.Kind != "browser" || found.Status != Completed ||
		found.Metadata["tab"] != "2" || !found.Created.Equal(start.Add(3*time.Second)) ||
		!found.Updated.Equal(start.Add(5*time.Second)) {
		t.Errorf("the resource is %+v, %v", found, err)
	}
	if found, err := r.Get(t.Context(), "unknown"); found != nil || err != nil {
		t.Errorf("an unknown resource is %+v, %v", found, err)
	}
	for filter, want := range map[Filter]string{
		{}:                             "z:vm:active a:vm:failed m:browser:completed",
		{Kind: "vm"}:                   "z:vm:active a:vm:failed",
		{Status: Failed}:               "a:vm:failed",
		{Kind: "vm", Status: Active}:   "z:vm:active",
		{Kind: "vm", Status: Released}: "",
		{Status: "another"}:            "z:vm:active",
	} {
		if got := d.listed(r, filter); got != want {
			t.Errorf("%+v selects %s, want %s", filter, got, want)
		}
	}
	for _, want := range []bool{true, false} {
		if existed, err := r.Deregister(t.Context(), d.next(), "a"); existed != want || err != nil {
			t.Errorf("the removal returns %v, %v; want %v", existed, err, want)
		}
	}
	if got := d.listed(r, Filter{}); got != "z:vm:active m:browser:completed" {
		t.Errorf("the registry has %s", got)
	}
}

// Rules: RES-01.
func TestAnUnknownStatusReadsAsActive(t *testing.T) {
	d := newDesk(t)
	r := Of(d.store, demo)
	d.register(r, Draft{ID: "a", Kind: "vm", Status: "odd"})
	_, err := d.store.Update(t.Context(), ScopeOf(demo), d.next(),
		func(context.Context, *record.Index) (*record.Operation, error) {
			return &record.Operation{Put: []record.Put{{
				Key: prefix + "b", Value: []byte(`{"kind":"vm","status":"of-a-later-release"}`), Kind: "of-a-later-release",
			}}}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.listed(r, Filter{Status: Active}); got != "a:vm:active b:vm:active" {
		t.Errorf("active are %s", got)
	}
}

// Rules: RES-01.
func TestAChangeOfAResourceHappensOnce(t *testing.T) {
	d := newDesk(t)
	r := Of(d.store, demo)
	cause := d.next()
	for range 2 {
		if c, err := r.Register(t.Context(), cause, Draft{ID: "a", Kind: "vm"}); err != nil || !c.Created {
			t.Fatalf("the registration is %+v, %v", c, err)
		}
	}
	second := record.Cause{Step: cause.Step, Key: "turn/1-1"}
	for range 2 {
		if c, err := r.UpdateStatus(t.Context(), second, "a", Failed); err != nil || c == nil || c.Status != Failed {
			t.Fatalf("the update is %+v, %v", c, err)
		}
	}
	third := record.Cause{Step: cause.Step, Key: "turn/1-2"}
	for range 2 {
		if existed, err := r.Deregister(t.Context(), third, "a"); err != nil || !existed {
			t.Fatalf("the removal is %v, %v", existed, err)
		}
	}
	if _, err := r.Register(t.Context(), cause, Draft{ID: "a", Kind: "vm"}); err != nil {
		t.Fatal(err)
	}
	if got := d.listed(r, Filter{}); got != "" {
		t.Errorf("a repeated call has registered %s", got)
	}
	d.register(r, Draft{ID: "b", Kind: "vm"})
	if _, err := r.Register(t.Context(), cause, Draft{ID: "c", Kind: "vm"}); !errors.Is(err, record.ErrStale) {
		t.Errorf("a process that was overtaken registers: %v", err)
	}
}

// Rules: RES-01.
func TestResourcesAreBounded(t *testing.T) {
	d := newDesk(t)
	r := Of(d.store, demo)
	many := map[string]string{}
	for n := range MaxMetadataKeys + 1 {
		many[fmt.Sprint(n)] = ""
	}
	for _, draft := range []Draft{
		{ID: "", Kind: "vm"},
		{ID: strings.Repeat("i", MaxIDBytes+1), Kind: "vm"},
		{ID: "a\nb", Kind: "vm"},
		{ID: "\xff", Kind: "vm"},
		{ID: "a", Kind: ""},
		{ID: "a", Kind: strings.Repeat("k", MaxKindBytes+1)},
		{ID: "a", Kind: "vm", Metadata: many},
		{ID: "a", Kind: "vm", Metadata: map[string]string{"k": strings.Repeat("v", MaxMetadataBytes)}},
		{ID: "a", Kind: "vm", Metadata: map[string]string{"": "v"}},
		{ID: "a", Kind: "vm", Metadata: map[string]string{"k": "\xff"}},
	} {
		if _, err := r.Register(t.Context(), d.next(), draft); explained(err) == "" {
			t.Errorf("%+v: %v", draft, err)
		}
	}
	if got := d.listed(r, Filter{}); got != "" {
		t.Errorf("the registry has %s", got)
	}
	// The result of the longest id fits, with an id that JSON has to escape.
	d.register(r, Draft{
		ID: strings.Repeat("<", MaxIDBytes), Kind: strings.Repeat("k", MaxKindBytes),
		Metadata: map[string]string{"k": strings.Repeat("v", MaxMetadataBytes-1)},
	})
}

// Rules: RES-01.
func TestAFullRegistryForgetsWhatIsNotActive(t *testing.T) {
	d := newDesk(t)
	r := Of(d.store, demo)
	for n := range MaxResources {
		status := Active
		if n == 2 || n == 1 {
			status = Released
		}
		d.register(r, Draft{ID: fmt.Sprintf("r%03d", n), Kind: "vm", Status: status})
	}
	for _, forgotten := range []string{"r001", "r002"} {
		if found, err := r.Get(t.Context(), forgotten); found == nil || err != nil {
			t.Errorf("%s is forgotten too early: %v", forgotten, err)
		}
		d.register(r, Draft{ID: "more-" + forgotten, Kind: "vm"})
		if found, err := r.Get(t.Context(), forgotten); found != nil || err != nil {
			t.Errorf("%s is kept: %v", forgotten, err)
		}
	}
	if _, err := r.Register(t.Context(), d.next(), Draft{ID: "z", Kind: "vm"}); !strings.Contains(explained(err), "full") {
		t.Errorf("a further resource: %v", err)
	}
	d.register(r, Draft{ID: "r000", Kind: "browser"})
}

// Rules: RES-01.
func TestASessionHasItsOwnResources(t *testing.T) {
	d := newDesk(t)
	d.register(Of(d.store, demo), Draft{ID: "a", Kind: "vm"})
	for _, other := range []record.Session{
		{Namespace: "team-a", Name: "demo", UID: "2"},
		{Namespace: "team-b", Name: "demo", UID: "4"},
	} {
		if got := d.listed(Of(d.store, other), Filter{}); got != "" {
			t.Errorf("%+v lists %s", other, got)
		}
	}
}

// Rules: RES-01.
func TestModelsDoNotChangeTheEntriesOfLeases(t *testing.T) {
	d := newDesk(t)
	r := Of(d.store, demo)
	lease := Draft{ID: LeasePrefix + "1", Kind: "vm", Metadata: map[string]string{"provider": "a"}}
	for range 2 {
		if err := r.RegisterLease(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	x, err := d.store.List(t.Context(), ScopeOf(demo))
	if err != nil || x.Revision != 1 {
		t.Errorf("the registry has revision %d, %v: the same entry was written again", x.Revision, err)
	}
	_, register := r.Register(t.Context(), d.next(), lease)
	_, update := r.UpdateStatus(t.Context(), d.next(), lease.ID, Released)
	_, deregister := r.Deregister(t.Context(), d.next(), lease.ID)
	for _, err := range []error{register, update, deregister} {
		if !strings.Contains(explained(err), "belongs to a lease") {
			t.Errorf("a change of the entry of a lease: %v", err)
		}
	}
	lease.Status = Released
	if err := r.RegisterLease(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if got := d.listed(r, Filter{}); got != "lease-1:vm:released" {
		t.Errorf("the registry has %s", got)
	}
	for n := range MaxResources {
		d.register(r, Draft{ID: fmt.Sprint(n), Kind: "vm"})
	}
	if err := r.RegisterLease(t.Context(), Draft{ID: LeasePrefix + "2", Kind: "vm"}); err != nil {
		t.Errorf("a lease in a full registry: %v", err)
	}
}
