// Package restclient has code that the Kubernetes backends of the journal and of records share: the client of the API
// group, the owner of the objects that they write, and the meaning of the API server's errors.
package restclient

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// ForConfig returns a REST client of group capstan.dev, version v1alpha1. It uses the given HTTP client, or a new one
// if that is nil. An error names the user of the client.
func ForConfig(config *rest.Config, httpClient *http.Client, user string) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("adding the Capstan kinds to a scheme: %w", err)
	}
	c := rest.CopyConfig(config)
	c.GroupVersion = &v1alpha1.GroupVersion
	c.APIPath = "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	if httpClient == nil {
		var err error
		if httpClient, err = rest.HTTPClientFor(c); err != nil {
			return nil, fmt.Errorf("creating the HTTP client of %s: %w", user, err)
		}
	}
	client, err := rest.RESTClientForConfigAndClient(c, httpClient)
	if err != nil {
		return nil, fmt.Errorf("creating the REST client of %s: %w", user, err)
	}
	return client, nil
}

// OwnedBySession returns the owner reference of an object that is deleted with its Session, and does not delay that.
func OwnedBySession(name string, uid types.UID) []metav1.OwnerReference {
	return ownedBy("Session", name, uid)
}

// OwnedByMCPServer returns the owner reference of an object that is deleted with its MCPServer, and does not delay
// that.
func OwnedByMCPServer(name string, uid types.UID) []metav1.OwnerReference {
	return ownedBy("MCPServer", name, uid)
}

// OwnedBySecret returns the owner reference of an object that is deleted with a Secret, and does not delay that.
func OwnedBySecret(name string, uid types.UID) []metav1.OwnerReference {
	owners := ownedBy("Secret", name, uid)
	owners[0].APIVersion = "v1"
	return owners
}

func ownedBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	no := false
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: name, UID: uid,
		Controller: &no, BlockOwnerDeletion: &no,
	}}
}

// IsMissing reports whether the API server looked for the object and found none. For a kind that it does not serve it
// returns NotFound too, in another form, and a store must not appear empty then.
func IsMissing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err)
}

// IsInvalid reports whether the API server refuses this object for its content.
func IsInvalid(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// IsRefused reports whether the API server responded to a write, wrote nothing, and would reject any such object again:
// the namespace is being deleted or gone, a quota is used, or a permission is missing.
func IsRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
		apierrors.IsMethodNotSupported(err)
}
