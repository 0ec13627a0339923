package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// scheduleKind is the kind that owns the objects of ticks.
const scheduleKind = "Schedule"

// Name returns the name of the Turn of a tick, and of its Session: that of the Schedule, the tick in minutes since
// 1970, and a hash of the UID and the tick. The name of a Schedule that is longer than its kind permits is cut.
func Name(s *v1alpha1.Schedule, tick time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", s.UID, tick.Unix()))
	name := s.Name[:min(len(s.Name), v1alpha1.MaxScheduleNameLength)]
	return fmt.Sprintf("%s-%d-%s", name, tick.Unix()/60, hex.EncodeToString(sum[:4]))
}

// NewSession returns the Session of a tick; nil if the Turns of the Schedule belong to one that exists.
func NewSession(s *v1alpha1.Schedule, tick time.Time) *v1alpha1.Session {
	template := s.Spec.SessionTemplate
	if template == nil {
		return nil
	}
	template = template.DeepCopy()
	labels := map[string]string{}
	for key, value := range template.Labels {
		labels[key] = string(value)
	}
	return &v1alpha1.Session{
		ObjectMeta: metadata(s, tick, labels),
		Spec: v1alpha1.SessionSpec{
			HarnessRef: template.HarnessRef, AgentRef: template.AgentRef, Blueprint: template.Blueprint,
			Title: template.Title, Locale: template.Locale, JournalLimit: template.JournalLimit,
			ConfigLayer: v1alpha1.ConfigLayer{
				NetworkAccess: template.NetworkAccess, MaxIterations: template.MaxIterations,
			},
			Origin: &v1alpha1.Origin{Type: v1alpha1.OriginTypeSchedule, Schedule: origin(s, tick)},
		},
	}
}

// NewTurn returns the Turn of a tick.
func NewTurn(s *v1alpha1.Schedule, tick time.Time) *v1alpha1.Turn {
	message := s.Spec.Turn.DeepCopy()
	session := v1alpha1.LocalReference{Name: Name(s, tick)}
	if s.Spec.SessionRef != nil {
		session = *s.Spec.SessionRef
	}
	delivery := message.Delivery
	if delivery == "" {
		delivery = v1alpha1.DeliveryQueue
	}
	return &v1alpha1.Turn{
		ObjectMeta: metadata(s, tick, nil),
		Spec: v1alpha1.TurnSpec{
			SessionRef: session, Input: message.Input, Message: message.Message, Controls: message.Controls,
			Delivery: delivery, DesiredState: v1alpha1.DesiredStateRunning, SubmittedBy: s.Spec.SubmittedBy,
			ActiveDeadlineSeconds: message.ActiveDeadlineSeconds, WaitTimeout: message.WaitTimeout,
			Origin: &v1alpha1.TurnOrigin{Type: v1alpha1.TurnOriginTypeSchedule, Schedule: origin(s, tick)},
		},
	}
}

// Runs reports whether an object with an origin was created for a tick of a Schedule.
func Runs(of *v1alpha1.ScheduleOrigin, schedule types.UID, tick time.Time) bool {
	return of != nil && of.Schedule.UID == schedule && of.Tick.Time.Equal(tick)
}

func origin(s *v1alpha1.Schedule, tick time.Time) *v1alpha1.ScheduleOrigin {
	return &v1alpha1.ScheduleOrigin{
		Schedule: v1alpha1.ObjectIdentity{Name: s.Name, UID: s.UID}, Tick: metav1.NewTime(tick.UTC()),
	}
}

// metadata returns that of an object of a tick, which the Schedule owns.
func metadata(s *v1alpha1.Schedule, tick time.Time, labels map[string]string) metav1.ObjectMeta {
	own := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan, v1alpha1.LabelSchedule: s.Name}
	maps.Copy(own, labels)
	own[v1alpha1.LabelManagedBy], own[v1alpha1.LabelSchedule] = v1alpha1.ManagedByCapstan, s.Name
	controller := true
	return metav1.ObjectMeta{
		Namespace: s.Namespace, Name: Name(s, tick), Labels: own,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: scheduleKind, Name: s.Name, UID: s.UID,
			Controller: &controller,
		}},
	}
}

// TickOf returns the tick that a Turn was created for; zero for another Turn.
func TickOf(t *v1alpha1.Turn) time.Time {
	if of := t.Spec.Origin.ScheduleOf(); of != nil {
		return of.Tick.Time
	}
	return time.Time{}
}

// Active reports whether the Turn of a name belongs to an active tick.
func Active(s *v1alpha1.Schedule, name string) bool {
	return slices.ContainsFunc(s.Status.Active, func(a v1alpha1.ActiveTick) bool { return a.Name == name })
}
