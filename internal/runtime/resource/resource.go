package resource

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// MaxIDBytes is the maximum length of the id of a resource.
	MaxIDBytes = 128
	// MaxKindBytes is the maximum length of the kind of a resource.
	MaxKindBytes = 63
	// MaxMetadataKeys is the maximum number of metadata of a resource.
	MaxMetadataKeys = 16
	// MaxMetadataKeyBytes is the maximum length of the key of one of them.
	MaxMetadataKeyBytes = 63
	// MaxMetadataBytes is the maximum size of all keys and values.
	MaxMetadataBytes = 1 << 10
	// MaxResources is the maximum number of entries of a Session.
	MaxResources = 128

	// LeasePrefix begins the ids of the resources that the manager registers for leases. No other id begins with it.
	LeasePrefix = "lease-"
)

// Status is the status of a resource.
type Status string

// The statuses of a resource.
const (
	Active    Status = "active"
	Completed Status = "completed"
	Failed    Status = "failed"
	Released  Status = "released"
)

// ParseStatus returns the status of a text: Active for an unknown one.
func ParseStatus(text string) Status {
	switch status := Status(text); status {
	case Completed, Failed, Released:
		return status
	default:
		return Active
	}
}

// Resource is an entry of the registry.
type Resource struct {
	// ID is unique in the Session.
	ID string `json:"id"`
	// Kind is a free text, such as browser.
	Kind   string `json:"kind"`
	Status Status `json:"status"`
	// Metadata describe the resource. None of them is secret.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Created and Updated are when the entry was written first and last.
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
}

// Draft is a resource to register.
type Draft struct {
	ID, Kind string
	// Status of the resource; Active if it is unknown.
	Status   Status
	Metadata map[string]string
}

// Filter selects resources that have all that is set in it.
type Filter struct {
	// Kind and Status of the resources; empty for all.
	Kind   string
	Status Status
}

// Selects reports whether a filter selects a resource.
func (f Filter) Selects(r *Resource) bool {
	return (f.Kind == "" || f.Kind == r.Kind) && (f.Status == "" || ParseStatus(string(f.Status)) == r.Status)
}

// entry is a resource as it is stored. Its status is the kind of the record as well, so that the index has it.
type entry struct {
	Kind     string            `json:"kind"`
	Status   string            `json:"status"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// checkOwn returns why a model cannot change the entry of an id; nil if it can.
func checkOwn(id string) error {
	if strings.HasPrefix(id, LeasePrefix) {
		return record.Explainf("%.64q belongs to a lease, and its entry follows from that. An id of your own cannot begin "+
			"with %s.", id, LeasePrefix)
	}
	return checkText("id", id, MaxIDBytes)
}

// check returns why a resource cannot be registered; nil if it can.
func (d Draft) check() error {
	if err := checkText("id", d.ID, MaxIDBytes); err != nil {
		return err
	}
	if err := checkText("kind", d.Kind, MaxKindBytes); err != nil {
		return err
	}
	if len(d.Metadata) > MaxMetadataKeys {
		return record.Explainf("The resource has %d metadata. The maximum is %d.", len(d.Metadata), MaxMetadataKeys)
	}
	size := 0
	for key, value := range d.Metadata {
		if err := checkText("key of metadata", key, MaxMetadataKeyBytes); err != nil {
			return err
		}
		if !utf8.ValidString(value) {
			return record.Explainf("The metadata %q is not valid UTF-8.", key)
		}
		size += len(key) + len(value)
	}
	if size > MaxMetadataBytes {
		return record.Explainf("The metadata have %d bytes together. The maximum is %d.", size, MaxMetadataBytes)
	}
	return nil
}

// checkText returns why a text cannot be an id, a kind or a key.
func checkText(what, text string, most int) error {
	if text == "" || len(text) > most || !utf8.ValidString(text) {
		return record.Explainf("%.64q cannot be the %s: it must have 1 to %d bytes of printable characters.",
			text, what, most)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return record.Explainf("%.64q cannot be the %s: it must have 1 to %d bytes of printable characters.",
				text, what, most)
		}
	}
	return nil
}

// put returns the record of an entry.
func (e entry) put(id string) (record.Put, error) {
	e.Status = string(ParseStatus(e.Status))
	value, err := json.Marshal(e)
	if err != nil {
		return record.Put{}, fmt.Errorf("encoding resource %q: %w", id, err)
	}
	return record.Put{Key: prefix + id, Value: value, Kind: e.Status}, nil
}

// resourceOf decodes an entry.
func resourceOf(item record.Item, value []byte) (*Resource, error) {
	var e entry
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, fmt.Errorf("decoding resource %q: %w", idOf(item), err)
	}
	return &Resource{
		ID: idOf(item), Kind: e.Kind, Status: ParseStatus(e.Status), Metadata: e.Metadata,
		Created: item.Created.UTC(), Updated: item.Modified.UTC(),
	}, nil
}
