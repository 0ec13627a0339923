package schedule

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

var demo = schedule.Owner{Namespace: "ns", Name: "demo", UID: "demo"}

// hourly is a request for a Schedule.
func hourly(key string) schedule.Request {
	return schedule.Request{Message: "Look.", Schedule: "0 * * * *", Key: key, SubmittedBy: "ann"}
}

// Rules: SCHED-01, SCHED-02.
func TestAModelCreatesListsAndCancelsSchedules(t *testing.T) {
	b := newBench(t, session())
	host := b.manager()
	first, err := host.Create(t.Context(), demo, hourly("t1/1-0"))
	if err != nil || !first.Enabled || !first.Next.Equal(began.Add(30*time.Second)) {
		t.Fatalf("it is %+v, %v", first, err)
	}
	again, err := b.manager().Create(t.Context(), demo, hourly("t1/1-0"))
	if err != nil || again.Name != first.Name || len(b.writes) != 1 {
		t.Errorf("the repeated call has %+v, %v, %v", again, err, b.writes)
	}
	s := &v1alpha1.Schedule{}
	key := client.ObjectKey{Namespace: "ns", Name: first.Name}
	if err := b.live.Get(t.Context(), key, s); err != nil {
		t.Fatal(err)
	}
	if s.Spec.SessionRef.Name != "demo" || s.Spec.SubmittedBy != "ann" || s.OwnerReferences[0].UID != "demo" {
		t.Errorf("it is %+v", s)
	}
	once, err := host.Create(t.Context(), demo, schedule.Request{Message: "Now.", At: began.Add(time.Hour), Key: "t1/1-1"})
	if err != nil || !once.Next.Equal(began.Add(time.Hour)) {
		t.Errorf("it is %+v, %v", once, err)
	}
	cancelled, err := host.Cancel(t.Context(), demo, first.Name)
	if err != nil || cancelled == nil || cancelled.Enabled {
		t.Errorf("it is %+v, %v", cancelled, err)
	}
	list, err := host.List(t.Context(), demo)
	if err != nil || len(list) != 2 {
		t.Errorf("the list is %+v, %v", list, err)
	}
	for name, of := range map[string]schedule.Owner{
		first.Name: {Namespace: "ns", Name: "other", UID: "other"}, "nightly": demo,
	} {
		if got, err := host.Cancel(t.Context(), of, name); got != nil || err != nil {
			t.Errorf("%s of %s: %+v, %v", name, of.Name, got, err)
		}
	}
	if list, _ := host.List(t.Context(), schedule.Owner{Namespace: "ns", Name: "demo", UID: "another"}); len(list) != 0 {
		t.Errorf("another Session has %+v", list)
	}
}

// Rules: SCHED-03.
func TestTheLimitsOfModels(t *testing.T) {
	b := newBench(t, session())
	host := b.manager()
	refused := func(of schedule.Owner, r schedule.Request) bool {
		_, err := host.Create(t.Context(), of, r)
		var limit *schedule.LimitError
		if err != nil && !errors.As(err, &limit) {
			t.Fatal(err)
		}
		return err != nil
	}
	for name, r := range map[string]schedule.Request{
		"too often":      {Message: "m", Schedule: "*/4 * * * *"},
		"now and then":   {Message: "m", Schedule: "0,1 * * * *"},
		"never":          {Message: "m", Schedule: "0 0 30 2 *"},
		"invalid":        {Message: "m", Schedule: "every day"},
		"six fields":     {Message: "m", Schedule: "0 0 * * * *"},
		"no zone":        {Message: "m", Schedule: "0 * * * *", TimeZone: "Europe/Atlantis"},
		"both":           {Message: "m", Schedule: "0 * * * *", At: began.Add(time.Hour)},
		"neither":        {Message: "m"},
		"in the past":    {Message: "m", At: began},
		"without a text": {Schedule: "0 * * * *"},
	} {
		if !refused(demo, r) {
			t.Errorf("%s: it is created", name)
		}
	}
	if len(b.writes) != 0 {
		t.Errorf("the writes are %v", b.writes)
	}
	for i := range schedule.MaxPerSession {
		if refused(demo, hourly(fmt.Sprint(i))) {
			t.Fatalf("number %d is refused", i)
		}
	}
	if !refused(demo, hourly("more")) {
		t.Error("a Session has more than it may have")
	}
	if refused(demo, hourly("0")) {
		t.Error("a repeated call is refused")
	}
	for i := range 30 {
		key := fmt.Sprintf("ended-%d", i)
		if _, err := host.Cancel(t.Context(), demo, nameOf(demo, fmt.Sprint(i%schedule.MaxPerSession))); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			if _, err := host.Cancel(t.Context(), demo, nameOf(demo, fmt.Sprintf("ended-%d", i-1))); err != nil {
				t.Fatal(err)
			}
		}
		b.now = b.now.Add(time.Second)
		if refused(demo, hourly(key)) {
			t.Fatalf("number %d behind a cancelled one is refused", i)
		}
	}
	if list, err := host.List(t.Context(), demo); err != nil || len(list) > maxEnded+schedule.MaxPerSession {
		t.Errorf("%d are kept, %v", len(list), err)
	}
	created := 0
	for i := range schedule.MaxPerNamespace + 8 {
		name := fmt.Sprint(i / 4)
		of := schedule.Owner{Namespace: "full", Name: name, UID: types.UID(name)}
		if !refused(of, hourly(fmt.Sprint(i))) {
			created++
		}
	}
	if created != schedule.MaxPerNamespace {
		t.Errorf("a namespace has %d", created)
	}
}
