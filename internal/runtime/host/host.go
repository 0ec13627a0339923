package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Host runs steps.
type Host struct {
	// Log is where every step ends.
	Log *journal.Log
	// Models creates the drivers of model providers.
	Models model.Registry
	// Validator checks the model's arguments.
	Validator *tool.Validator
	// Clock returns the current time.
	Clock func() time.Time
	// Egress sends the requests of HTTP tools, and those to model providers.
	Egress *egress.Client
	// Secrets reads the Secrets for headers of HTTP tools and for API keys of Models.
	Secrets SecretReader
	// Account is the user name of the host at the API server, for instructions in messages. Default: the account of a
	// standard installation.
	Account string
	// OnNoKey is called for each Model that could not be called because it has no API key. It may be nil.
	OnNoKey func(types.NamespacedName)
	// OnFirstToken is called with the time to the first content of each response, by provider. It may be nil.
	OnFirstToken func(provider v1alpha1.ModelProvider, after time.Duration)
	// CallLimit is the longest that one model call may take as a whole; 0 for no limit. A call that takes longer loses
	// its slot, and is not repeated.
	CallLimit time.Duration
	// Pause waits before a Model is called again, and returns early when the context ends. Default: it waits in real
	// time.
	Pause func(ctx context.Context, d time.Duration) error
	// OnUnwritten is called with the cause each time that a response cannot be appended. The response is kept. It may
	// be nil.
	OnUnwritten func(ctx context.Context, t Turn, err error)

	// identity identifies this Host.
	identity struct {
		once sync.Once
		id   string
	}
}

// MessageReader returns the spec of a Turn with its whole message.
type MessageReader func(context.Context) (v1alpha1.TurnSpec, error)

// Turn is a Turn as its steps see it.
type Turn struct {
	// Session names the journal.
	Session journal.Session
	// Ref names the Turn in the journal.
	Ref v1alpha1.JournalTurn
	// Input is the user's text; of a message in parts, its texts joined by line breaks.
	Input string
	// Content is the user's message in parts; nil when it is Input alone.
	Content []event.Part
	// ReadMessage returns the whole message if Input is only its beginning; nil if Input and Content are the message.
	ReadMessage MessageReader
	// MessageBytes is the size of a message that is yet to be read.
	MessageBytes int64
	// ConfigBytes is the size of the configuration that is yet to be read.
	ConfigBytes int64
	// Locale that the message is to be answered in; empty for none (CFG-08).
	Locale string
	// Harness and Agent are the names in the Session; Agent may be empty.
	Harness, Agent string
	// Backoff is the state of the open step's attempts before a pause, if this process has it; nil if there is only the
	// plan.
	Backoff *Backoff
	// StoreFirst reports whether an earlier process may have paid for a response of the open step that is not in the
	// journal. No model is called before an entry is stored.
	StoreFirst bool
	// Progress is the Turn's status: the plan is that of the open step.
	Progress v1alpha1.TurnProgress
	// Steers returns the current messages to be steered into the Turn, in order; nil for none.
	Steers func(context.Context) ([]Steer, error)
	// Local reports whether the process which runs the Turn carries out the calls of Job tools itself, so that they are
	// claimed as requests are.
	Local bool
	// ClientTools and Hints are those of the Session.
	ClientTools v1alpha1.ClientToolsPolicy
	Hints       map[string]v1alpha1.JSON
}

// Config is the configuration of a Turn at one point in time.
type Config struct {
	// Blocker stops the Turn; nil for none.
	Blocker *config.Blocker
	// Effective is the merged configuration of the layers.
	Effective config.Effective
	// Model to call; nil if there is none.
	Model *v1alpha1.Model
	// ModelNotFound is the name of the Model that the controls name and that does not exist; empty for none (CFG-07).
	ModelNotFound string
	// NoModel is the wait for a Model where Model is nil.
	NoModel *Keyless
	// Fallbacks are called instead, in order, if Model cannot serve the request.
	Fallbacks []*v1alpha1.Model
	// Tools are the definitions of the tools that the model may call.
	Tools definition.Set
	// Texts reads what is left out of the system prompt, the Tools and the Models. Not needed if all are whole.
	Texts Texts
}

// JournalOf identifies the journal of a Session.
func JournalOf(session *v1alpha1.Session) journal.Session {
	j := journal.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	if limit := session.Spec.JournalLimit; limit != nil {
		j.Limit = limit.Value()
	}
	return j
}

// messageID returns the id of the user's message: a Turn has exactly one, so that it is the Turn's own UID, whichever
// process writes it and however often.
func (t Turn) messageID() string {
	return string(t.Ref.UID)
}

// responseID is the id of the response, or of the message about an error, that closes the open step.
func (t Turn) responseID() string {
	return event.MessageID(t.Ref.UID, t.step())
}

// events builds the events of the Turn.
func (h *Host) events(t Turn) event.Factory {
	return event.NewFactory(event.Identity{Session: t.Session.UID, Turn: t.Ref.UID, InputMessage: t.messageID()}, h.Clock)
}

// step is the number of the open step.
func (t Turn) step() int32 {
	return t.Progress.Plan.Step
}

// record returns the entry that closes the open step, without its content.
func (t Turn) record() journal.Record {
	r := journal.Record{Turn: t.Ref, Step: t.step(), OpenedAt: t.Progress.Plan.OpenedAtOrdinal}
	if t.step() == 1 {
		r.Digest = t.digest()
	}
	return r
}

// opening returns the first events of a Turn: the message, and that the Session works on it (LIFE-01, EVT-04).
func (h *Host) opening(t Turn) []event.Event {
	if t.step() != 1 {
		return nil
	}
	began := h.Clock()
	if sum := t.Progress.Summary; sum != nil && sum.StartedAt != nil {
		began = sum.StartedAt.Time
	}
	f := h.events(t).At(began)
	return []event.Event{f.InputMessage(t.message()), f.SessionActivated(), f.TurnStarted(t.Input)}
}

// Sources are the UIDs of the ToolResults that a closed step has accepted.
func Sources(closed *journal.Closed) []types.UID {
	var uids []types.UID
	for _, e := range closed.Events {
		if uid := e.Context[contextToolResult]; uid != "" {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids
}

// contextToolResult names the ToolResult behind a tool.completed event: the one with its result, or with the decision
// about it.
const contextToolResult = "tool_result_uid"

// contextToolImage names in a tool.completed event the image, with its digest, that the container of the call ran.
const contextToolImage = "tool_image"

// append closes the open step.
func (h *Host) append(ctx context.Context, t Turn, r journal.Record) (*journal.Closed, error) {
	closed, err := h.Log.Append(ctx, t.Session, r)
	if err != nil {
		return nil, fmt.Errorf("closing step %d of Turn %s: %w", t.step(), t.Ref.Name, err)
	}
	return closed, nil
}
