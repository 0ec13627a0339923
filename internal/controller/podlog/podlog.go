// Package podlog reads the logs of tool containers from the API server.
package podlog

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// limit is the most that is read of one log: a result of 64 KiB with its frame, and what a container runtime may put before it.
const limit = 1 << 20

// Reader reads logs through the API server.
type Reader struct {
	pods kubernetes.Interface
}

// New makes a reader.
func New(config *rest.Config) (*Reader, error) {
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the client that reads container logs: %w", err)
	}
	return &Reader{pods: clients}, nil
}

// ToolLog gives the log of the pod's tool container. The caller closes it.
func (r *Reader) ToolLog(ctx context.Context, pod *corev1.Pod) (io.ReadCloser, error) {
	most := int64(limit)
	stream, err := r.pods.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container:  v1alpha1.ToolContainerName,
		LimitBytes: &most,
	}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return stream, nil
}
