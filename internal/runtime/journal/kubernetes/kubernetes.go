// Package kubernetes stores the journals of Sessions as JournalEntry objects, one per entry, owned by their Session. It
// reads and creates entries by name, and never lists or watches them.
package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/restclient"
)

const resource = "journalentries"

// Store stores entries in the API server. It is safe for concurrent use.
type Store struct {
	client rest.Interface
}

var (
	_ journal.Store     = (*Store)(nil)
	_ journal.DryRunner = (*Store)(nil)
)

// New is a store on a REST client of group capstan.dev, version v1alpha1.
func New(client rest.Interface) *Store {
	return &Store{client: client}
}

// ForConfig returns a store with its own REST client. It uses the given HTTP client, or a new one if that is nil.
func ForConfig(config *rest.Config, httpClient *http.Client) (*Store, error) {
	client, err := restclient.ForConfig(config, httpClient, "the journal")
	if err != nil {
		return nil, err
	}
	return New(client), nil
}

// EntryName is the name of the entry at an ordinal: 20 hexadecimal digits of the hash of the Session's UID, and the
// ordinal in 8 digits.
func EntryName(session types.UID, ordinal int64) string {
	sum := sha256.Sum256([]byte(session))
	return fmt.Sprintf("%s-%08d", hex.EncodeToString(sum[:10]), ordinal)
}

// Get reads the entry at an ordinal from etcd, past every cache.
func (k *Store) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	name := EntryName(s.UID, ordinal)
	result := k.client.Get().Namespace(s.Namespace).Resource(resource).Name(name).Do(ctx)
	if err := result.Error(); restclient.IsMissing(err) {
		return nil, journal.ErrNotFound
	}
	raw, err := result.Raw()
	if err = cmp.Or(result.Error(), err); err != nil {
		return nil, fmt.Errorf("reading JournalEntry %s/%s: %w", s.Namespace, name, err)
	}
	// The API type drops the content of entries of format 1, which is beside the envelope.
	var entry struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(raw, &entry); err != nil {
		return nil, fmt.Errorf("decoding JournalEntry %s/%s: %w", s.Namespace, name, err)
	}
	spec, err := format.FromJSON(entry.Spec)
	if err != nil {
		return nil, fmt.Errorf("decoding JournalEntry %s/%s: %w", s.Namespace, name, err)
	}
	return spec, nil
}

// Create writes an entry at its ordinal, owned by its Session. A namespace that is being deleted or gone, a missing
// permission and an entry that breaks the schema are refusals (journal.ErrRefused); the API server's own error stays in
// the chain.
func (k *Store) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	return k.create(ctx, s, e, metav1.CreateOptions{})
}

// DryRun makes the API server check an entry, including quotas and policies, without writing it.
func (k *Store) DryRun(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	return k.create(ctx, s, e, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func (k *Store) create(
	ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec, options metav1.CreateOptions,
) error {
	name := EntryName(s.UID, e.Ordinal)
	entry := &v1alpha1.JournalEntry{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "JournalEntry"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.Namespace,
			Name:            name,
			OwnerReferences: restclient.OwnedBySession(s.Name, s.UID),
		},
		Spec: *e,
	}
	request := k.client.Post().Namespace(s.Namespace).Resource(resource).Body(entry)
	for _, value := range options.DryRun {
		request = request.Param("dryRun", value)
	}
	err := request.Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return journal.ErrExists
	case restclient.IsInvalid(err):
		return fmt.Errorf("writing JournalEntry %s/%s: %w", s.Namespace, name,
			errors.Join(journal.ErrRefused, journal.ErrInvalid, err))
	case restclient.IsRefused(err):
		return fmt.Errorf("writing JournalEntry %s/%s: %w", s.Namespace, name, errors.Join(journal.ErrRefused, err))
	default:
		return fmt.Errorf("writing JournalEntry %s/%s: %w", s.Namespace, name, err)
	}
}
