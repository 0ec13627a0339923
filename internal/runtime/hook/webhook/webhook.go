// Package webhook runs hooks that are requests over HTTPS. They go through the egress client, like everything that is
// sent for a tenant, and follow no redirect to another server.
package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// MaxBundleBytes is the longest bundle of certificates.
const MaxBundleBytes = 64 << 10

const (
	mediaTypeJSON        = "application/json"
	headerIdempotencyKey = "Idempotency-Key"
)

// Executor sends the payload of a hook to its URL, and takes the response for what a script would print. It is safe for
// concurrent use.
type Executor struct {
	// Egress sends the requests.
	Egress *egress.Client
	// Secrets reads the Secrets of headers. Nil: none can be read.
	Secrets credential.Reader
}

// Check returns why a webhook cannot be called, whatever happens; nil if it can.
func Check(w *hook.Webhook) error {
	_, err := roots(w.CABundle)
	return err
}

// Run implements hook.Executor. Statuses other than 200 to 299 are errors: the decision of a server that fails is
// unknown.
func (e *Executor) Run(ctx context.Context, c hook.Call) hook.Outcome {
	request, err := e.request(ctx, c)
	if err != nil {
		return hook.FailWith(err)
	}
	response, err := e.Egress.Do(ctx, request)
	switch {
	case err != nil:
		return hook.Fail("calling the webhook: %v", err)
	case response.Status < 200 || response.Status > 299:
		return hook.Fail("the webhook responded with status %d", response.Status)
	case response.More:
		return hook.Fail("the response has more than %d bytes", hook.MaxOutputBytes)
	default:
		return hook.Parse(hook.Output{Stdout: credential.RedactText(string(response.Body), secretOf(request))})
	}
}

// secretOf returns the headers of a request with the values of Secrets: a server may echo them.
func secretOf(r egress.Request) http.Header {
	secret := r.Secret.Clone()
	secret.Del(headerIdempotencyKey)
	return secret
}

func (e *Executor) request(ctx context.Context, c hook.Call) (egress.Request, error) {
	w := c.Spec.Webhook
	r := egress.Request{
		Method: http.MethodPost, URL: w.URL, Body: c.Payload, MaxBody: hook.MaxOutputBytes,
		Timeout: c.Spec.TimeoutOrDefault(), Header: http.Header{},
		// A secret header keeps the request from being redirected to another server, and the payload with it.
		Secret: http.Header{headerIdempotencyKey: {c.Key}},
	}
	var err error
	r.Route.Namespace = c.Identity.Namespace
	if r.Route.Roots, err = roots(w.CABundle); err != nil {
		return r, err
	}
	r.Header.Set("Content-Type", mediaTypeJSON)
	r.Header.Set("Accept", mediaTypeJSON)
	for _, h := range w.Headers {
		if h.SecretName == "" {
			r.Header.Set(h.Name, h.Value)
			continue
		}
		ref := &v1alpha1.SecretKeyReference{Name: h.SecretName, Key: h.SecretKey}
		secret, err := e.secret(ctx, c.Identity.Namespace, h.SecretName)
		if err != nil {
			return r, err
		}
		value, why := credential.HeaderValue(secret, ref, w.URL)
		if why != "" {
			return r, errors.New(why)
		}
		r.Header.Del(h.Name)
		r.Secret.Set(h.Name, value)
	}
	r.Secret.Set(headerIdempotencyKey, c.Key)
	return r, nil
}

// secret reads a Secret; nil for one that does not exist or may not be read.
func (e *Executor) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	if e.Secrets == nil {
		return nil, nil
	}
	secret, err := e.Secrets(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, hook.Internal(fmt.Sprintf("reading Secret %q failed", name), err)
	default:
		return secret, nil
	}
}

// roots are the certificates of a bundle; nil for those of the manager.
func roots(bundle string) (*x509.CertPool, error) {
	if strings.TrimSpace(bundle) == "" {
		return nil, nil
	}
	if len(bundle) > MaxBundleBytes {
		return nil, fmt.Errorf("caBundle has %d bytes; the maximum is %d", len(bundle), MaxBundleBytes)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(bundle)) {
		return nil, errors.New("caBundle has no certificate in PEM form")
	}
	return pool, nil
}
