package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Presence is the known state of an object that a layer refers to.
type Presence int

const (
	// Missing: the object does not exist.
	Missing Presence = iota
	// NotReady: the object exists and is not Ready.
	NotReady
	// Usable: the object is Ready.
	Usable
	// Unbound: the Tool is Ready, but the network access list cannot restrict it.
	Unbound
)

// problemOfNamed returns the reason and message of a Ready condition for the named Models, Tools, MCPServers and
// capabilities that cannot be used. The message names all of them and the remedies. Both are empty if all can be used.
// Missing objects precede objects that are not ready, because they may be the cause, and those precede Tools that the
// network access list cannot restrict.
func (r *Resolved) problemOfNamed() (reason, message string) {
	var all Problems
	e := r.Effective
	modelPresence, why := Usable, ""
	if e.ModelRef != "" {
		modelPresence, why = r.modelPresence(e.ModelRef)
	}
	if modelPresence == Missing {
		all.Add(v1alpha1.ReasonModelNotFound,
			fmt.Sprintf("Model %q does not exist. Create it, or change modelRef.", e.ModelRef))
	}
	var missing, unready, unbound []string
	for _, name := range e.Tools {
		switch r.toolPresence(name) {
		case Missing:
			missing = append(missing, strconv.Quote(name))
		case NotReady:
			unready = append(unready, strconv.Quote(name))
		case Unbound:
			unbound = append(unbound, strconv.Quote(name))
		case Usable:
		}
	}
	switch {
	case len(missing) == 1:
		all.Add(v1alpha1.ReasonToolNotFound, fmt.Sprintf("Tool %s does not exist. Create it, or remove it from tools.",
			missing[0]))
	case len(missing) > 1:
		all.Add(v1alpha1.ReasonToolNotFound, fmt.Sprintf("%d Tools do not exist. Create them, or remove them from tools: %s.",
			len(missing), strings.Join(missing, ", ")))
	}
	r.addServerProblems(true, &all)
	all.Add(r.capabilityProblem())
	all.Add(r.blueprintProblem())
	r.addBlueprintProblems(&all)
	all.Add(r.hookProblem())
	if r.fileProblem != "" {
		all.Add(v1alpha1.ReasonInitialFilesInvalid, r.fileProblem)
	}
	if modelPresence == NotReady {
		all.Add(v1alpha1.ReasonModelNotReady, fmt.Sprintf("Model %q is not ready%s", e.ModelRef, why))
	}
	switch {
	case len(unready) == 1:
		all.Add(v1alpha1.ReasonToolNotReady, fmt.Sprintf("Tool %s is not ready. See its condition Ready.", unready[0]))
	case len(unready) > 1:
		all.Add(v1alpha1.ReasonToolNotReady, fmt.Sprintf("%d Tools are not ready. See their conditions Ready: %s.",
			len(unready), strings.Join(unready, ", ")))
	}
	r.addServerProblems(false, &all)
	if len(unbound) > 0 {
		all.Add(v1alpha1.ReasonNetworkAccessUnenforceable,
			fmt.Sprintf("networkAccess cannot be enforced for Tools that run as Jobs with network access. "+
				"Set job.network to None in these Tools, or name them in exemptTools of every layer that has "+
				"networkAccess: %s.", strings.Join(unbound, ", ")))
	}
	return all.First()
}

// Problems are the reasons why an object cannot be used, the most important first.
type Problems struct {
	reason   string
	messages []string
}

// Add records a problem. It ignores an empty reason.
func (p *Problems) Add(reason, message string) {
	if reason == "" {
		return
	}
	if p.reason == "" {
		p.reason = reason
	}
	p.messages = append(p.messages, message)
}

// First returns the reason of the first problem, and the messages of all.
func (p *Problems) First() (reason, message string) {
	return p.reason, strings.Join(p.messages, " ")
}
