package capstantest

import (
	"context"
	"io"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeOutputs are the logs of containers as they are written, by the UIDs of their pods. Like nodeLogs, they are on a
// node.
var nodeOutputs sync.Map

// nodeOutput is the log of one container.
type nodeOutput struct {
	mu    sync.Mutex
	text  []byte
	ended bool
	// changed is closed with the next change.
	changed chan struct{}
}

// outputOf returns the log of a pod.
func outputOf(pod types.UID) *nodeOutput {
	output, _ := nodeOutputs.LoadOrStore(pod, &nodeOutput{changed: make(chan struct{})})
	return output.(*nodeOutput)
}

// Write implements io.Writer.
func (o *nodeOutput) Write(p []byte) (int, error) {
	o.add(p, false)
	return len(p), nil
}

// end ends the log with the frame of the launcher.
func (o *nodeOutput) end(frame []byte) { o.add(frame, true) }

func (o *nodeOutput) add(p []byte, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text, o.ended = append(o.text, p...), o.ended || ended
	close(o.changed)
	o.changed = make(chan struct{})
}

// FollowToolLog implements the controllers' follower of container logs.
func (p *player) FollowToolLog(ctx context.Context, pod *corev1.Pod, most int64) (io.ReadCloser, error) {
	read, write := io.Pipe()
	go func() {
		_ = write.CloseWithError(outputOf(pod.UID).copy(ctx, &limited{write, most}))
	}()
	context.AfterFunc(ctx, func() { _ = read.CloseWithError(context.Cause(ctx)) })
	return read, nil
}

// copy writes the log as it grows, until its end.
func (o *nodeOutput) copy(ctx context.Context, to io.Writer) error {
	for at := 0; ; {
		o.mu.Lock()
		text, ended, changed := o.text[at:len(o.text):len(o.text)], o.ended, o.changed
		o.mu.Unlock()
		if _, err := to.Write(text); err != nil {
			return err
		}
		at += len(text)
		if ended {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// limited is a writer whose bytes end like those of a log with a limit.
type limited struct {
	io.Writer
	left int64
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	shown := p[:min(int64(len(p)), l.left)]
	n, err := l.Writer.Write(shown)
	if l.left -= int64(n); err == nil && len(shown) < len(p) {
		err = io.EOF
	}
	return n, err
}
