// Package kubernetes stores records as Record objects, owned by their Session, MCPServer or Secret: one for the index
// of a store, and one for each blob. It reads, writes and deletes them by name, and never lists or watches them.
package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/restclient"
)

const resource = "records"

// Objects stores indexes and blobs in the API server. It is safe for concurrent use.
type Objects struct {
	client rest.Interface
}

var _ record.Objects = (*Objects)(nil)

// ForConfig returns Objects with their own REST client. It uses the given HTTP client, or a new one if that is nil.
func ForConfig(config *rest.Config, httpClient *http.Client) (*Objects, error) {
	client, err := restclient.ForConfig(config, httpClient, "the records")
	if err != nil {
		return nil, err
	}
	return &Objects{client: client}, nil
}

// IndexName is the name of the index of a store: 20 hexadecimal digits of a hash of the owner's UID and the name of
// the store.
func IndexName(scope record.Scope) string {
	sum := sha256.Sum256([]byte(string(scope.UID) + "/" + scope.Store))
	return hex.EncodeToString(sum[:10])
}

// BlobName is the name of the Record of a blob: the name of the index, and that of the blob.
func BlobName(scope record.Scope, blob string) string {
	return IndexName(scope) + "-" + blob
}

// ReadIndex reads the index of a store from etcd, past every cache.
func (k *Objects) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	r, payload, err := k.read(ctx, scope, IndexName(scope), v1alpha1.RecordTypeIndex)
	if err != nil {
		return record.Stored{}, err
	}
	return record.Stored{
		Payload: payload, Revision: r.Spec.Revision, Format: r.Spec.Format, Version: r.ResourceVersion,
	}, nil
}

// ReadBlob reads a blob from etcd, past every cache.
func (k *Objects) ReadBlob(ctx context.Context, scope record.Scope, name string) ([]byte, error) {
	_, payload, err := k.read(ctx, scope, BlobName(scope, name), v1alpha1.RecordTypeBlob)
	return payload, err
}

func (k *Objects) read(
	ctx context.Context, scope record.Scope, name string, of v1alpha1.RecordType,
) (*v1alpha1.Record, []byte, error) {
	r := &v1alpha1.Record{}
	err := k.client.Get().Namespace(scope.Namespace).Resource(resource).Name(name).Do(ctx).Into(r)
	switch {
	case restclient.IsMissing(err):
		return nil, nil, record.ErrNotFound
	case err != nil:
		return nil, nil, fmt.Errorf("reading Record %s/%s: %w", scope.Namespace, name, err)
	case r.Spec.Type != of || !supported(of, r.Spec.Format):
		return nil, nil, fmt.Errorf("reading Record %s/%s: %w (%s of format %d)", scope.Namespace, name, record.ErrFormat,
			r.Spec.Type, r.Spec.Format)
	}
	payload, err := base64.StdEncoding.DecodeString(r.Spec.Payload)
	if err != nil {
		return nil, nil, fmt.Errorf("reading Record %s/%s: %w (%w)", scope.Namespace, name, record.ErrFormat, err)
	}
	return r, payload, nil
}

// supported reports whether a Record of a type may have a format.
func supported(of v1alpha1.RecordType, format int32) bool {
	return format == record.Format || of == v1alpha1.RecordTypeIndex && format == record.FormatPages
}

// WriteIndex creates the index of a store, or replaces the version that was read.
func (k *Objects) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	name := IndexName(scope)
	r := newRecord(scope, name, v1alpha1.RecordTypeIndex, index.Payload)
	r.Spec.Revision, r.Spec.Format, r.ResourceVersion = index.Revision, index.Format, index.Version
	request := k.client.Post()
	if index.Version != "" {
		request = k.client.Put().Name(name)
	}
	err := request.Namespace(scope.Namespace).Resource(resource).Body(r).Do(ctx).Error()
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), index.Version != "" && restclient.IsMissing(err):
		return record.ErrChanged
	default:
		return written(scope, name, err)
	}
}

// CreateBlob creates a blob, unless there is one.
func (k *Objects) CreateBlob(ctx context.Context, scope record.Scope, name string, payload []byte) error {
	r := newRecord(scope, BlobName(scope, name), v1alpha1.RecordTypeBlob, payload)
	err := k.client.Post().Namespace(scope.Namespace).Resource(resource).Body(r).Do(ctx).Error()
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return written(scope, r.Name, err)
}

// DeleteBlob deletes a blob, if there is one.
func (k *Objects) DeleteBlob(ctx context.Context, scope record.Scope, name string) error {
	name = BlobName(scope, name)
	err := k.client.Delete().Namespace(scope.Namespace).Resource(resource).Name(name).Do(ctx).Error()
	if err != nil && !restclient.IsMissing(err) {
		return fmt.Errorf("deleting Record %s/%s: %w", scope.Namespace, name, err)
	}
	return nil
}

// newRecord returns a Record that is owned by the object that its store belongs to.
func newRecord(scope record.Scope, name string, of v1alpha1.RecordType, payload []byte) *v1alpha1.Record {
	owners := restclient.OwnedBySession(scope.Session, scope.UID)
	switch {
	case scope.MCPServer != "":
		owners = restclient.OwnedByMCPServer(scope.MCPServer, scope.UID)
	case scope.Secret != "":
		owners = restclient.OwnedBySecret(scope.Secret, scope.UID)
	}
	return &v1alpha1.Record{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Record"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       scope.Namespace,
			Name:            name,
			OwnerReferences: owners,
		},
		Spec: v1alpha1.RecordSpec{
			Session: scope.Session, MCPServer: scope.MCPServer, Secret: scope.Secret, Store: scope.Store, Type: of,
			Format: record.Format, Payload: base64.StdEncoding.EncodeToString(payload),
		},
	}
}

// written is the error of a write. It has ErrRefused if the API server responded, wrote nothing, and would reject the
// same Record again: a namespace that is being deleted or gone, a quota, a missing permission, or a violated schema.
func written(scope record.Scope, name string, err error) error {
	if restclient.IsRefused(err) || restclient.IsInvalid(err) {
		err = errors.Join(record.ErrRefused, err)
	}
	return fmt.Errorf("writing Record %s/%s: %w", scope.Namespace, name, err)
}
