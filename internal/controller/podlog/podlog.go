// Package podlog reads the logs of tool containers from the API server.
package podlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// limit is the most that is read of one log: a result of 64 KiB and 1 MiB of files with their frames, in base64, and
// the prefixes that a container runtime may add.
const limit = 3 << 20

// timeout bounds reading one log. The node's kubelet serves it, and may have stopped responding without closing
// connections.
const timeout = 30 * time.Second

// Reader reads logs through the API server.
type Reader struct {
	pods    kubernetes.Interface
	timeout time.Duration
}

// New returns a reader.
func New(config *rest.Config) (*Reader, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client for container logs: %w", err)
	}
	return &Reader{pods: clients, timeout: timeout}, nil
}

// ToolLog returns the log of the pod's tool container, which must be read within 30 s. The caller closes it.
func (r *Reader) ToolLog(ctx context.Context, pod *corev1.Pod) (io.ReadCloser, error) {
	most := int64(limit)
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	stream, err := r.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container:  v1alpha1.ToolContainerName,
		LimitBytes: &most,
	}).Stream(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return &log{ReadCloser: stream, cancel: cancel}, nil
}

// FollowToolLog returns at most so many bytes of the log of the pod's tool container, as they are written, until the
// container ends. Its first byte is that of the log. The caller closes it.
func (r *Reader) FollowToolLog(ctx context.Context, pod *corev1.Pod, most int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(r.timeout, func() { cancel(context.DeadlineExceeded) })
	stream, err := r.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container:  v1alpha1.ToolContainerName,
		Follow:     true,
		LimitBytes: &most,
	}).Stream(ctx)
	if !late.Stop() && err == nil {
		err = errors.Join(context.DeadlineExceeded, stream.Close())
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, fmt.Errorf("following the log of pod %s: %w", pod.Name, err)
	}
	return &log{ReadCloser: stream, cancel: func() { cancel(nil) }}, nil
}

// log is a stream that ends with its context.
type log struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (l *log) Close() error {
	l.cancel()
	return l.ReadCloser.Close()
}
