package attacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	schedulecontroller "github.com/capstan-dev/capstan/internal/controller/schedule"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// schedules are calls of the tools for Schedules, with arguments that a model has written.
func schedules(t *testing.T) subject {
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	foreign := func(namespace, name string, owner types.UID, managed bool) *v1alpha1.Schedule {
		yes := true
		s := &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
			Spec: v1alpha1.ScheduleSpec{
				Schedule: "@daily", SessionRef: &v1alpha1.LocalReference{Name: "s"},
				Turn: v1alpha1.ScheduledTurn{Input: tokenSecret},
			},
		}
		if owner != "" {
			s.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "capstan.dev/v1alpha1", Kind: "Session", Name: "s", UID: owner, Controller: &yes,
			}}
		}
		if managed {
			s.Labels = map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan, v1alpha1.LabelSessionUID: string(owner),
			}
		}
		return s
	}
	all := []*v1alpha1.Schedule{
		foreign(attacker, "model-of-another-session", "uid-other", true),
		foreign(attacker, "of-a-user", "", false),
		foreign(attacker, "model-labelled", "", true),
		foreign(attacker, "model-without-label", "uid-"+attacker, false),
		foreign(bystander, "model-of-the-tenant", "uid-"+bystander, true),
	}
	made := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Schedule{})
	for _, s := range all {
		made = made.WithObjects(s)
	}
	live := made.Build()
	host := &schedulecontroller.Reconciler{Client: live, Live: live, Clock: func() time.Time {
		return time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	}}
	call := func(ctx context.Context, namespace, name, arguments string) string {
		return builtinCall(ctx, t, schedule.Capability, name, builtin.Call{
			Arguments: arguments, Services: builtin.Services{Schedules: schedule.Own{
				Host:  host,
				Owner: schedule.Owner{Namespace: namespace, Name: "s", UID: types.UID("uid-" + namespace)}, Key: arguments,
			}},
		})
	}
	cancel := func(name, schedule string) attempt {
		return attempt{name: name, run: func(ctx context.Context) string {
			text, err := json.Marshal(map[string]string{"name": schedule})
			must(t, err)
			return call(ctx, attacker, "cancel_schedule", string(text))
		}}
	}
	create := func(name, arguments string) attempt {
		return attempt{name: name, run: func(ctx context.Context) string {
			return call(ctx, attacker, "create_schedule", arguments)
		}}
	}
	cron := func(name, expression string) attempt {
		return create(name, fmt.Sprintf(`{"message":"m","cron":%q}`, expression))
	}
	return subject{
		name: "Schedules of models",
		classes: []class{
			{name: "a Schedule that is not one's own, cancelled", refused: true, attempts: []attempt{
				cancel("of another Session", "model-of-another-session"), cancel("of a user", "of-a-user"),
				cancel("with the label of models", "model-labelled"),
				cancel("of another tenant", "model-of-the-tenant"),
				cancel("of another tenant, by a path", "../"+bystander+"/model-of-the-tenant"),
			}},
			{name: "messages in the name of others", refused: true, attempts: []attempt{
				create("with a user", `{"message":"m","cron":"@daily","submittedBy":"ann"}`),
				create("to another Session", `{"message":"m","cron":"@daily","session":"other"}`),
				create("in another namespace", `{"message":"m","cron":"@daily","namespace":"`+bystander+`"}`),
				create("without an end", `{"message":"`+strings.Repeat("m", 17<<10)+`","cron":"@daily"}`),
				create("twice at once", `{"message":"m","cron":"@daily","at":"2040-01-01T00:00:00Z"}`),
			}},
			{name: "times", refused: true, attempts: []attempt{
				cron("every minute", "* * * * *"), cron("every second", "* * * * * *"), cron("never", "0 0 31 2 *"),
				cron("in a zone of its own", "TZ=../../etc/passwd 0 0 * * *"),
				create("in a zone that is a file", `{"message":"m","cron":"@daily","timezone":"../../../etc/passwd"}`),
			}},
			{name: "expressions", refused: true, attempts: []attempt{
				cron("of steps of nothing", "*/0 * * * *"), cron("of a range without an end", "0-99999999999 * * * *"),
				cron("of a day that does not exist", "0 0 * * 9"), cron("of no time", "@every 1ns"),
				cron("of a start", "@reboot"),
			}},
		},
		other: func(ctx context.Context) error {
			seen := call(ctx, bystander, "list_schedules", `{}`)
			if !strings.Contains(seen, "model-of-the-tenant") {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			var list v1alpha1.ScheduleList
			must(t, live.List(t.Context(), &list))
			if len(list.Items) != len(all) {
				t.Errorf("there are %d Schedules, want %d", len(list.Items), len(all))
			}
			for _, s := range all {
				now := &v1alpha1.Schedule{}
				must(t, live.Get(t.Context(), client.ObjectKeyFromObject(s), now))
				if now.Spec.Suspend != nil {
					t.Errorf("Schedule %s is suspended", s.Name)
				}
			}
		},
	}
}
