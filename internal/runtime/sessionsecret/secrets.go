package sessionsecret

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
)

// deletedPrefix is that of the records of deletions, in the store of the Session's values. The name and the id of the
// secret follow.
const deletedPrefix = "deleted-secret/"

// Secrets are those of one Session. It keeps nothing of them.
type Secrets struct {
	read  credential.Reader
	store record.Store
	of    record.Session
}

// Of returns the secrets of a Session. Without a store, models cannot delete any.
func Of(read credential.Reader, store record.Store, of record.Session) *Secrets {
	return &Secrets{read: read, store: store, of: of}
}

// Known is what one read has returned of the secrets of a Session.
type Known struct {
	of *Secrets
	// all are those that exist, by name, the deleted ones as well, and problem is why none can be used; empty if they can.
	all     map[string]secret
	problem string
	hidden  []string
}

// Read reads the secrets of the Session, once.
func (s *Secrets) Read(ctx context.Context) (*Known, error) {
	k := &Known{of: s}
	found, err := s.read(ctx, s.of.Namespace, Name(s.of.UID))
	switch {
	case apierrors.IsNotFound(err):
		return k, nil
	case err != nil:
		return nil, fmt.Errorf("reading the secrets of the Session: %w", err)
	}
	k.hidden = toHide(found)
	if why := unusable(found, s.of); why != "" {
		k.problem = fmt.Sprintf("Secret %s %s", Name(s.of.UID), why)
		return k, nil
	}
	k.all = parse(found)
	return k, nil
}

// Hidden returns all values, in no order: of deleted secrets as well, of those for other hosts, and of those that
// cannot be used any more. A server may have got any of them in an earlier call.
func (k *Known) Hidden() []string { return k.hidden }

// all returns the secrets of the Session, with those that were deleted, or why they cannot be used.
func (s *Secrets) all(ctx context.Context) (all map[string]secret, problem string, err error) {
	k, err := s.Read(ctx)
	if err != nil {
		return nil, "", err
	}
	return k.all, k.problem, nil
}

// Names returns the names of all secrets, sorted. The error has a *record.ExplainedError if the manager cannot read
// them.
func (s *Secrets) Names(ctx context.Context) ([]string, error) {
	all, problem, err := s.all(ctx)
	if err := explained(problem, err); err != nil {
		return nil, err
	}
	names := []string{}
	if len(all) == 0 {
		return names, nil
	}
	index := &record.Index{}
	if s.store != nil {
		if index, err = s.store.List(ctx, storage.ScopeOf(s.of)); err != nil {
			return nil, fmt.Errorf("listing the deleted secrets: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, deleted := index.Find(deletion(name, all[name].ID)); !deleted {
			names = append(names, name)
		}
	}
	return names, nil
}

// explained returns why a model cannot use secrets; nil if it can.
func explained(problem string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return record.Explainf("The secrets of this session cannot be read: the manager has no permission " +
			"(ClusterRole capstan-manager-secrets).")
	case err != nil:
		return err
	case problem != "":
		return record.Explainf("The secrets of this session cannot be used: %s.", problem)
	default:
		return nil
	}
}

// deletion is the key of the record that a secret was deleted. A secret with a new value has another id.
func deletion(name, id string) string { return deletedPrefix + name + "/" + id }

// deleted is the result of a deletion.
type deleted struct {
	Existed bool `json:"existed"`
}

// Delete makes a secret unusable until it is set again, and reports whether it existed. Its value stays in the Secret,
// which the manager cannot write.
func (s *Secrets) Delete(ctx context.Context, cause record.Cause, name string) (bool, error) {
	if !ValidName(name) {
		return false, record.Explainf("%.80q cannot be the name of a secret: %s.", name, nameRule)
	}
	result := &deleted{}
	err := record.Change(ctx, s.store, storage.ScopeOf(s.of), cause, result,
		func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
			all, problem, err := s.all(ctx)
			if err := explained(problem, err); err != nil {
				return nil, nil, err
			}
			one, exists := all[name]
			if _, before := x.Find(deletion(name, one.ID)); !exists || before {
				return nil, deleted{}, nil
			}
			o := &record.Operation{Put: []record.Put{{Key: deletion(name, one.ID), Value: []byte("{}")}}, Delete: old(x, all)}
			return o, deleted{Existed: true}, nil
		})
	const full = "The storage is full. Delete some values."
	return result.Existed, record.Explain(err, full, full)
}

// old returns the keys of deletions of values that do not exist any more.
func old(x *record.Index, all map[string]secret) []string {
	var keys []string
	for _, item := range x.Items {
		rest, is := strings.CutPrefix(item.Key, deletedPrefix)
		name, id, _ := strings.Cut(rest, "/")
		if is && all[name].ID != id {
			keys = append(keys, item.Key)
		}
	}
	return keys
}

const nameRule = "a name has 1 to 63 characters of a-z, 0-9, '.', '_' and '-', and begins and ends with a letter or " +
	"a digit"

// Values returns the values of secrets for a request to a URL, by name, or why one of them is not sent there.
func (k *Known) Values(
	ctx context.Context, names []string, to *url.URL,
) (values map[string]string, why string, err error) {
	if k.problem != "" {
		return nil, k.problem, nil
	}
	s := k.of
	values = map[string]string{}
	for _, name := range names {
		one, exists := k.all[name]
		switch {
		case !ValidName(name):
			return nil, fmt.Sprintf("%.80q is not a reference to a secret: %s", Scheme+name, nameRule), nil
		case !exists:
			return nil, fmt.Sprintf("this session has no secret %q. A user sets it: %s", name, s.remedy(name, to)), nil
		case one.problem != "":
			return nil, fmt.Sprintf("the secret %q cannot be used: %s. A user sets it again: %s", name, one.problem,
				s.remedy(name, to)), nil
		case !credential.Lists(one.Hosts, to):
			return nil, fmt.Sprintf("the secret %q may not be sent to %s. A user who permits that sets it again: %s", name,
				to.Host, s.remedy(name, to)), nil
		}
		gone, err := s.isDeleted(ctx, name, one.ID)
		if err != nil {
			return nil, "", err
		}
		if gone {
			return nil, fmt.Sprintf("the secret %q was deleted in this session. A user sets it again: %s", name,
				s.remedy(name, to)), nil
		}
		values[name] = one.value
	}
	return values, "", nil
}

func (s *Secrets) isDeleted(ctx context.Context, name, id string) (bool, error) {
	if s.store == nil {
		return false, nil
	}
	switch _, _, err := s.store.Get(ctx, storage.ScopeOf(s.of), deletion(name, id)); {
	case errors.Is(err, record.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for the deletion of secret %q: %w", name, err)
	default:
		return true, nil
	}
}

// harmless matches a host that a shell does not interpret: the author of a Tool chooses it.
var harmless = regexp.MustCompile(`^[A-Za-z0-9.:/-]+$`)

// remedy returns the command by which a user sets a secret. Its name must be valid.
func (s *Secrets) remedy(name string, to *url.URL) string {
	host := to.Host
	if strings.EqualFold(to.Scheme, "http") {
		host = "http://" + egress.Place(to)
	}
	if !harmless.MatchString(host) {
		host = "HOST"
	}
	return fmt.Sprintf("kubectl capstan secret set %s --session %s --host %s --namespace %s", name, s.of.Name, host,
		s.of.Namespace)
}
