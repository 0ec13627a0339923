package crash_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func refused() (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// isBound reports whether a request holds for one version of its object.
func isBound(r *http.Request) (bool, error) {
	if r.Body == nil {
		return false, nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte(`"resourceVersion"`)), err
}

var errLost = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ETIMEDOUT}

func isLost(err error) bool { return err == error(errLost) } //nolint:errorlint // It is this very one.

func loseResponse(response *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return nil, errLost
}

// answer is a response of an API server that has no object for the caller.
func answer(r *http.Request, code int, reason metav1.StatusReason, message, retryAfter string) (*http.Response, error) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": []string{"application/json"}}
	if retryAfter != "" {
		header.Set("Retry-After", retryAfter)
	}
	return &http.Response{
		Status: fmt.Sprintf(
			"%d %s",
			code,
			http.StatusText(code),
		),
		StatusCode:    code,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}
