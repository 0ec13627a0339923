package streamclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
)

// requestLimit bounds the time of a request that is no stream.
const requestLimit = time.Minute

// Request is a request about a Session that is no stream.
type Request struct {
	// Method of the request.
	Method  string
	Session stream.Session
	// Path below the Session, such as files and then the path of a file.
	Path []string
	// Query and Body of the request; nil for none.
	Query url.Values
	Body  []byte
	// Most is the maximum size of the answer in bytes.
	Most int64
}

// Answer is the answer to a Request.
type Answer struct {
	// Type of the content.
	Type string
	Body []byte
}

// Do sends a request. The error is an *UnreachableError, or the status with which the manager refuses.
func (c *Client) Do(ctx context.Context, r Request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	endpoint, err := c.Endpoints.Endpoint(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	path, err := url.JoinPath(endpoint.URL,
		append([]string{"v1", "namespaces", r.Session.Namespace, "sessions", r.Session.Name}, escaped(r.Path)...)...)
	if err != nil {
		return nil, fmt.Errorf("the address %q of the manager: %w", endpoint.URL, err)
	}
	if len(r.Query) > 0 {
		path += "?" + r.Query.Encode()
	}
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, path, body)
	if err != nil {
		return nil, fmt.Errorf("the address %q of the manager: %w", endpoint.URL, err)
	}
	response, err := endpoint.Client.Do(request)
	if err != nil {
		return nil, unreachable(fmt.Errorf("connecting to the manager: %w", err))
	}
	defer func() { _ = response.Body.Close() }() // What was not read is of no use.
	if response.StatusCode/100 != 2 {
		return nil, refusal(response)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, r.Most+1))
	if err != nil {
		return nil, unreachable(fmt.Errorf("reading the answer of the manager: %w", err))
	}
	if int64(len(raw)) > r.Most {
		return nil, fmt.Errorf("the answer of the manager has more than %d bytes", r.Most)
	}
	return &Answer{Type: response.Header.Get("Content-Type"), Body: raw}, nil
}

// escaped returns the parts of a path as a URL has them.
func escaped(parts []string) []string {
	all := make([]string, len(parts))
	for i, part := range parts {
		all[i] = url.PathEscape(part)
	}
	return all
}

func unreachable(err error) error {
	var known *UnreachableError
	if errors.As(err, &known) {
		return err
	}
	return &UnreachableError{err}
}

// refusal is the status of an answer that refuses.
func refusal(response *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer of the manager: %w", err)
	}
	status := metav1.Status{}
	if json.Unmarshal(raw, &status) != nil || status.Code == 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Code: int32(response.StatusCode), Message: response.Status}
	}
	return apierrors.FromObject(&status)
}
