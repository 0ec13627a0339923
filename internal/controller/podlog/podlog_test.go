package podlog

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestALogOfANodeThatStoppedRespondingIsAbandoned stops the node before the header of the log, and in the middle of it.
func TestALogOfANodeThatStoppedRespondingIsAbandoned(t *testing.T) {
	for name, begin := range map[string]string{"before its header": "", "in the middle": "some of the log"} {
		t.Run(name, func(t *testing.T) {
			released := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					_, _ = io.WriteString(w, begin)
					_ = http.NewResponseController(w).Flush()
				}
				select {
				case <-r.Context().Done():
				case <-released:
				}
			}))
			t.Cleanup(server.Close)
			t.Cleanup(func() { close(released) })
			reader, err := New(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if reader.timeout != 30*time.Second {
				t.Errorf("a log may take %s", reader.timeout)
			}
			reader.timeout = 200 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			stream, err := reader.ToolLog(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})
			if err == nil {
				var read []byte
				read, err = io.ReadAll(stream)
				if string(read) != begin {
					t.Errorf("read %q", read)
				}
				if err := stream.Close(); err != nil {
					t.Error(err)
				}
			}
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
