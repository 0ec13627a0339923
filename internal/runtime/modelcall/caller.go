package modelcall

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/trust"
)

// Caller calls Models.
type Caller struct {
	Options
	// Clock returns the current time.
	Clock func() time.Time
	// Egress sends requests.
	Egress *egress.Client
	// Secrets reads the Secrets with the API keys.
	Secrets credential.Reader
	// ConfigMaps reads the ConfigMaps with the certificates of providers.
	ConfigMaps trust.ConfigMapReader
	// Account is the user name of the process at the API server, for instructions in messages. Default: the account of a
	// standard installation.
	Account string
}

// Options are the settings for model calls alone.
type Options struct {
	// Models creates the drivers of model providers.
	Models model.Registry
	// OnNoKey is called for each Model that could not be called because it has no API key. It may be nil.
	OnNoKey func(types.NamespacedName)
	// OnFirstToken is called with the time to the first content of each response, by provider. It may be nil.
	OnFirstToken func(provider v1alpha1.ModelProvider, after time.Duration)
	// OnCall is called with the end of the call of each Model, with all its attempts, unless it was abandoned. It may be
	// nil.
	OnCall func(Ended)
	// CallLimit is the longest that one model call may take as a whole; 0 for no limit. A call that takes longer loses
	// its slot, and is not repeated.
	CallLimit time.Duration
	// Budgets reserve the cost of each attempt. Nil: nothing is limited.
	Budgets *keeper.Keeper
	// Limits keep the calls below the limits of Models. Nil: nothing is limited.
	Limits *ratelimit.Models
	// LimitedModels returns the Models of a namespace that state limits. Nil: each Model has only its own.
	LimitedModels func(ctx context.Context, namespace string) ([]v1alpha1.Model, error)
	// Pause waits before a Model is called again, and returns early when the context ends. Default: it waits in real
	// time.
	Pause func(ctx context.Context, d time.Duration) error
}

// Ended is the end of the call of a Model.
type Ended struct {
	Provider v1alpha1.ModelProvider
	// API is that of provider OpenAI; empty for another.
	API v1alpha1.ModelAPI
	// Code is the class of the error; empty for a response.
	Code v1alpha1.ErrorCode
	// Took is how long the call took, with the pauses between its attempts.
	Took time.Duration
	// Usage of the response.
	Usage model.Usage
}

// Request is a response to be made.
type Request struct {
	// Content is the request to each Model, with the messages from all Models; its Model and OnPartial are not used.
	Content model.Request
	// Input is the ID of the message that the Turn is about. The images of those before it may have expired.
	Input string
	// Namespace is that of the Models, and of their Secrets.
	Namespace string
	// Models may be called, in this order. Without one the result is a failure.
	Models []*v1alpha1.Model
	// Payer is what the attempts are charged to. It is required if there are Budgets or Limits.
	Payer budget.Payer
	// OnLowBudget is called for each Budget with a low balance under which an attempt begins. It may be nil.
	OnLowBudget func(name string)
	// Read returns a Model with all its texts, of which a cache may have left out some.
	Read func(ctx context.Context, m *v1alpha1.Model) (*v1alpha1.Model, error)
	// Record begins to record the streaming response to one attempt, which has this ID; abandon ends the attempt. It is
	// called for Models whose responses are finalized after a crash.
	Record func(ctx context.Context, m *v1alpha1.Model, attempt string, abandon context.CancelFunc) Recording
	// Live receives the text of the response while it streams; nil for none.
	Live Text
	// TraceParent returns the W3C trace context of the call of the n-th Model, counted from 0. It may be nil.
	TraceParent func(n int) string
	// Earlier is the Backoff after which the call continues; nil for none.
	Earlier *Backoff
}

// Text receives the text of a response while it streams. Its methods return at once.
type Text interface {
	// Write passes on the text so far.
	Write(text string)
	// Replace reports that the text so far is not the response.
	Replace()
}

// Recording records the response to one attempt while it streams.
type Recording interface {
	// Observe consumes the next part of the stream. It does not delay it.
	Observe(p model.Partial)
	// End ends the recording of a finished attempt, which has a response or a failure. After an error the call must not
	// continue.
	End(ctx context.Context, response *model.Response, failure error) error
}
