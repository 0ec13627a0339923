package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
)

const (
	// MaxPerSession is the number of resources of a Session that are not cleaned up.
	MaxPerSession = 32
	// MaxPerNamespace is the number of resources of a namespace that are not cleaned up.
	MaxPerNamespace = 1000
	// MaxFinished is the number of LeasedResources of a namespace that are kept after their resources were cleaned up or
	// abandoned. The oldest ones are deleted before Retention has passed.
	MaxFinished = 1000
	// MaxIDBytes is the maximum length of an id at a provider.
	MaxIDBytes = 256

	// nameDigits is the number of hexadecimal digits in a name.
	nameDigits = 20
)

// Owner is the Session whose calls use resources.
type Owner struct {
	Namespace, Name string
	UID             types.UID
}

// Identity is that of a resource in its namespace.
type Identity struct {
	Provider, Type, ExternalID string
}

// Name returns the name of the LeasedResource of a resource. It is a hash: a repeated call has the same (LEASE-01).
func Name(namespace string, of Identity) string {
	return resource.LeasePrefix + tool.Hash("lease", namespace, of.Provider, of.Type, of.ExternalID)[:nameDigits]
}

// Request is the use of a resource by a call.
type Request struct {
	Owner    Owner
	Identity Identity
	// Duration of the lease from now on.
	Duration time.Duration
	// Turn and Tool of the Call, which is the id of it in the Turn, and User who has submitted the Turn; empty if that is
	// not known.
	Turn, Tool, Call, User string
	// Cleanup of the resource.
	Cleanup v1alpha1.LeaseCleanup
}

// Host keeps leases.
type Host interface {
	// Cleaner returns the Tool by which a resource would be cleaned up, as the user of a Turn, if a call of a Session may
	// create one, whose id is not known yet. The error is a *RefusedError if it may not.
	Cleaner(ctx context.Context, r Request) (*v1alpha1.Tool, error)
	// Keep creates the lease of a resource, or extends it (LEASE-01). The error is a *RefusedError if it cannot be kept.
	Keep(ctx context.Context, r Request) error
	// Extend extends the lease of a resource that its Session has created, and reports whether there is one.
	Extend(ctx context.Context, of Owner, resource Identity, duration time.Duration) (bool, error)
	// Release requests that a resource is cleaned up now, and returns its state; empty if the Session has no lease on it
	// (LEASE-02).
	Release(ctx context.Context, of Owner, resource Identity) (v1alpha1.LeaseState, error)
}

// Own are the leases of one Session.
type Own struct {
	Host  Host
	Owner Owner
}

// Release requests that a resource is cleaned up now, and returns its state; empty if the Session has no lease on it.
func (o Own) Release(ctx context.Context, resource Identity) (v1alpha1.LeaseState, error) {
	return o.Host.Release(ctx, o.Owner, resource)
}

// RefusedError is why a lease cannot be kept. Its text is for the model.
type RefusedError struct {
	text string
	// Repeated reports whether an earlier process has sent the call, whose resource exists.
	Repeated bool
	// Foreign reports whether another Session has the lease.
	Foreign bool
}

// Error implements error.
func (e *RefusedError) Error() string { return e.text }

// Refusef returns a *RefusedError.
func Refusef(format string, args ...any) error {
	return &RefusedError{text: fmt.Sprintf(format, args...)}
}

// RefuseRepeatedf returns a *RefusedError for a call that an earlier process has sent.
func RefuseRepeatedf(format string, args ...any) error {
	return &RefusedError{text: fmt.Sprintf(format, args...), Repeated: true}
}

// RefuseForeignf returns a *RefusedError for a resource that another Session has the lease on.
func RefuseForeignf(format string, args ...any) error {
	return &RefusedError{text: fmt.Sprintf(format, args...), Foreign: true}
}

// CheckCleaner returns why a Tool cannot clean resources up as a user, who may be unknown; empty if it can.
func CheckCleaner(spec *v1alpha1.ToolSpec, user string) string {
	switch {
	case spec.HTTP == nil:
		return "it is not an HTTP tool"
	case spec.SideEffect != v1alpha1.SideEffectIdempotent:
		return "its sideEffect is not Idempotent, and a clean-up may be repeated"
	case spec.Policy == v1alpha1.ToolPolicyRequiresApproval:
		return "its calls require approval"
	case spec.HTTP.Payment != nil:
		return "its calls are paid for"
	case len(spec.HTTP.SecretArguments) > 0:
		return "it has secretArguments"
	case spec.Lease != nil:
		return "it has a lease itself"
	}
	for _, header := range spec.HTTP.Headers {
		if header.SessionSecret != nil {
			return "it has a header with a secret of the Session, which may be gone by then"
		}
		if header.Connection != nil && header.SecretKeyRef == nil && user == "" {
			return "it needs the connection of one user, and the user of the Turn is not known"
		}
	}
	if httpcall.InQuery(spec.HTTP) {
		declared := definition.ScalarNames(spec.InputSchema)
		for _, name := range []string{"externalID", "type", "provider"} {
			if !slices.Contains(declared, name) {
				return "its arguments are sent in the query, and its inputSchema does not declare " + name + " as a scalar"
			}
		}
	}
	return ""
}

// Arguments are those of the call that cleans a resource up.
func Arguments(of Identity) string {
	raw, err := json.Marshal(map[string]string{"externalID": of.ExternalID, "type": of.Type, "provider": of.Provider})
	if err != nil {
		panic("encoding strings: " + err.Error())
	}
	return string(raw)
}

// FindID returns the id that a JSON Pointer leads to in a JSON text, which may be cut behind the id: a text or an
// integer; false if it leads to nothing that can be an id. Of members with one name the first counts.
func FindID(text, pointer string) (string, bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if !enter(decoder, strings.NewReplacer("~1", "/", "~0", "~").Replace(part)) {
			return "", false
		}
	}
	value, err := decoder.Token()
	if err != nil {
		return "", false
	}
	// What follows must be there, so that it is the whole id.
	if _, err := decoder.Token(); err != nil {
		return "", false
	}
	return asID(value)
}

// asID returns a value of a JSON text as an id; false if it cannot be one.
func asID(value any) (string, bool) {
	switch id := value.(type) {
	case string:
		return id, validID(id)
	case json.Number:
		_, err := id.Int64()
		return id.String(), err == nil
	default:
		return "", false
	}
}

// enter moves a decoder to a member of the object, or to an element of the list, that follows, and reports whether it
// is there.
func enter(decoder *json.Decoder, part string) bool {
	start, err := decoder.Token()
	if err != nil || start != json.Delim('{') && start != json.Delim('[') {
		return false
	}
	for n := 0; decoder.More(); n++ {
		name := any(strconv.Itoa(n))
		if start == json.Delim('{') {
			if name, err = decoder.Token(); err != nil {
				return false
			}
		}
		if name == part {
			return true
		}
		if decoder.Decode(new(json.RawMessage)) != nil {
			return false
		}
	}
	return false
}

// FinishedAt returns when the resource of a finished lease was cleaned up or abandoned.
func FinishedAt(l *v1alpha1.LeasedResource) time.Time { return timeOf(l.Status.FinishedAt) }

func validID(id string) bool {
	return id != "" && len(id) <= MaxIDBytes && utf8.ValidString(id) &&
		!strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Origin is where the requests to a URL go, as scheme://host:port.
func Origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
