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

// stopped reads logs of a node that sends a beginning, and then nothing until the end of the test.
func stopped(t *testing.T, begin string) *Reader {
	t.Helper()
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
	return reader
}

// TestALogOfANodeThatStoppedRespondingIsAbandoned stops the node before the header of the log, and in the middle of it.
func TestALogOfANodeThatStoppedRespondingIsAbandoned(t *testing.T) {
	for name, begin := range map[string]string{"before its header": "", "in the middle": "some of the log"} {
		t.Run(name, func(t *testing.T) {
			reader := stopped(t, begin)
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

// TestALogIsFollowedUntilItsReaderCloses: a log may be silent for longer than its node may take to begin it.
func TestALogIsFollowedUntilItsReaderCloses(t *testing.T) {
	begin, gone := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("follow") != "true" || q.Get("limitBytes") != "99" || q.Get("container") != "tool" {
			t.Errorf("the request is %s", r.URL)
		}
		flush := http.NewResponseController(w).Flush
		_ = flush()
		<-begin
		_, _ = io.WriteString(w, "late")
		_ = flush()
		<-r.Context().Done()
		close(gone)
	}))
	t.Cleanup(server.Close)
	reader, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	reader.timeout = 200 * time.Millisecond
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	stream, err := reader.FollowToolLog(t.Context(), pod, 99)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*reader.timeout, func() { close(begin) })
	text := make([]byte, 4)
	if _, err := io.ReadFull(stream, text); err != nil || string(text) != "late" {
		t.Errorf("read %q, %v", text, err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the node sends on")
	}
}

func TestALogThatDoesNotBeginIsNotFollowed(t *testing.T) {
	reader := stopped(t, "")
	reader.timeout = 100 * time.Millisecond
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	if _, err := reader.FollowToolLog(t.Context(), pod, 99); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}
