package diagnosis

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/pending"
)

// Session is what was read of a Session.
type Session struct {
	Session *v1alpha1.Session
	// Turns are those to look at: the active one, and those in the queue.
	Turns []v1alpha1.Turn
	// Command is the beginning of the commands of this program.
	Command pending.Command
}

// fullAt is the part of the limit of a journal from which on it is reported, in percent.
const fullAt = 90

// Check returns the findings of a Session.
func (s Session) Check() Section {
	section := Section{Name: "Session " + s.Session.Name}
	findings := ready(s.Session.Namespace, Object{"Session", s.Session.Name, s.Session.Status.Conditions})
	if len(findings) == 0 {
		findings = []Finding{{Level: Fine, Subject: "Session", Message: "ready, phase " + string(s.Session.Status.Phase)}}
	}
	if limit := s.Session.Spec.JournalLimit; limit != nil {
		if used := s.Session.Status.Journal.Bytes; used*100 >= limit.Value()*fullAt {
			findings = append(findings, Finding{
				Level: Notable, Subject: "journal", Message: fmt.Sprintf("%d of %d bytes are used", used, limit.Value()),
				Mend: []string{fmt.Sprintf(`kubectl patch session %s -n %s --type=merge -p '{"spec":{"journalLimit":"%d"}}'`,
					s.Session.Name, s.Session.Namespace, 2*limit.Value())},
			})
		}
	}
	for i := range s.Turns {
		findings = append(findings, s.turn(&s.Turns[i])...)
	}
	section.Findings = findings
	return section
}

func (s Session) turn(turn *v1alpha1.Turn) []Finding {
	subject := "Turn " + turn.Name
	var findings []Finding
	for _, call := range pending.Of(turn) {
		findings = append(findings, Finding{
			Level: Notable, Subject: subject,
			Message: fmt.Sprintf("call %s %s waits for %s", call.ID, call.Name, call.Kind.Words()),
			Mend:    pending.Commands(turn.Name, call, s.Command),
		})
	}
	if stalled := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionStalled); stalled != nil &&
		stalled.Status == "True" && !pending.Ended(turn) {
		return append(findings, Finding{
			Level: Wrong, Subject: subject, Message: stalled.Reason + ": " + stalled.Message,
			Mend: []string{fmt.Sprintf("kubectl describe turn %s -n %s", turn.Name, turn.Namespace)},
		})
	}
	if why := pending.Other(turn); why != "" {
		f := Finding{Level: Notable, Subject: subject, Message: why}
		if strings.HasPrefix(why, v1alpha1.ReasonSuspended+":") {
			f.Mend = []string{fmt.Sprintf(`kubectl patch turn %s -n %s --type=merge -p '{"spec":{"suspend":false}}'`, turn.Name,
				turn.Namespace)}
		}
		return append(findings, f)
	}
	if len(findings) == 0 && !pending.Ended(turn) {
		findings = []Finding{{Level: Fine, Subject: subject, Message: "phase " + string(turn.Status.Phase)}}
	}
	return findings
}
