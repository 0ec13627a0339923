package tooloutput

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

const (
	// deltaEvery is the least time between two pieces of a call.
	deltaEvery = 100 * time.Millisecond
	// firstPause is the time before a log that has ended early is opened again, which doubles each time, and maxOpened
	// how often it is opened then.
	firstPause, maxOpened = 2 * time.Second, 5
	// chunkBytes is how much of a log is read at once.
	chunkBytes = 4 << 10
)

var (
	// errPlace reports that a log has had its place for long enough.
	errPlace = errors.New("another log waits for the place")
	// errOver reports that no container of the call runs: its status will show that.
	errOver = errors.New("the container of the call has ended")
)

// follow passes on the output of a call until it ends.
func (f *Follower) follow(ctx context.Context, c *call) {
	pause := firstPause
	for opened := 1; ; opened++ {
		err := f.once(ctx, c)
		switch {
		case ctx.Err() != nil || c.read.over() || errors.Is(err, errOver):
			return
		case errors.Is(err, errPlace):
			opened--
			continue
		case opened == maxOpened:
			f.Log.V(1).Info("Ceased to follow the log of a tool call", "namespace", c.Namespace, "session", c.Name,
				"turn", c.turn.Name, "call", c.call, "cause", fmt.Sprint(err))
			return
		}
		if backoff.Wait(ctx, pause) != nil {
			return
		}
		pause *= 2
	}
}

// once follows the log of a call, behind the part that was read, within the places of its Session and of its namespace.
func (f *Follower) once(ctx context.Context, c *call) error {
	release, err := f.place(ctx, c)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := f.yield(ctx, c, cancel)
	defer over()
	err = f.open(ctx, c)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// open passes on what was read in an earlier place, and then the rest of the log until its end.
func (f *Follower) open(ctx context.Context, c *call) error {
	if err := f.publish(ctx, c); err != nil || c.read.ended {
		return err
	}
	pod, err := f.pod(ctx, c)
	if err != nil {
		return err
	}
	if err := f.Requests.Spend(ctx, c.Namespace, 1); err != nil {
		return fmt.Errorf("waiting to follow a log: %w", err)
	}
	log, err := f.Logs.FollowToolLog(ctx, pod, maxRead)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := io.CopyN(io.Discard, log, c.read.bytes); err != nil {
		return fmt.Errorf("reading the known part of a log: %w", err)
	}
	return f.pass(ctx, c, log)
}

// place waits for the places of a log in its Session and in its namespace.
func (f *Follower) place(ctx context.Context, c *call) (release func(), err error) {
	f.countWaiting(c.session, 1)
	select {
	case c.places <- struct{}{}:
		f.countWaiting(c.session, -1)
	case <-ctx.Done():
		f.countWaiting(c.session, -1)
		return nil, context.Cause(ctx)
	}
	share, err := f.places.Request(fairshare.Request{Namespace: c.Namespace, Amount: fairshare.Amount{Places: 1}})
	if err == nil {
		f.count(c.Namespace, 0, 1)
		err = share.Wait(ctx)
		f.count(c.Namespace, 0, -1)
	}
	if err != nil {
		share.Release()
		<-c.places
		return nil, fmt.Errorf("waiting for a place to follow a log: %w", err)
	}
	f.count(c.Namespace, 1, 0)
	return func() {
		f.count(c.Namespace, -1, 0)
		share.Release()
		<-c.places
	}, nil
}

// yield ends a log with errPlace once it has had its place for turnTime and another one waits for it. The returned
// function ends that, together with the context.
func (f *Follower) yield(ctx context.Context, c *call, end context.CancelCauseFunc) (over func()) {
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(turnTime, func() {
		<-ready
		switch {
		case ctx.Err() != nil:
			// The place was given back while this began. Stop did not stop it.
		case f.wanted(c.session):
			end(errPlace)
		default:
			timer.Reset(turnTime)
		}
	})
	close(ready)
	return func() { timer.Stop() }
}

// pod returns the pod of the Job that the manager has created for a call.
func (f *Follower) pod(ctx context.Context, c *call) (*corev1.Pod, error) {
	job := &batchv1.Job{}
	name := jobspec.Name(c.turn.UID, c.step, c.call, c.attempt.attempt)
	err := f.Client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, job)
	if apierrors.IsNotFound(err) || err == nil && !jobspec.Matches(job, c.turn.UID, c.status) {
		return nil, errOver
	}
	if err != nil {
		return nil, fmt.Errorf("reading Job %s: %w", name, err)
	}
	var list corev1.PodList
	if err := f.Client.List(ctx, &list, client.InNamespace(c.Namespace),
		client.MatchingFields{fieldindex.TurnUID: string(c.turn.UID)},
		client.MatchingLabels{v1alpha1.LabelStep: strconv.Itoa(int(c.step))}); err != nil {
		return nil, fmt.Errorf("listing the pods of the Turn: %w", err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	pod := jobstatus.SelectPod(pods, job, c.status)
	if pod == nil || pod.DeletionTimestamp != nil || ended(pod) {
		return nil, errOver
	}
	return pod.DeepCopy(), nil
}

// ended reports whether the tool's container of a pod has ended.
func ended(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == v1alpha1.ToolContainerName && status.State.Terminated != nil {
			return true
		}
	}
	return false
}

// chunk is a part of a log, or its end.
type chunk struct {
	bytes []byte
	err   error
}

// pass passes on a log until its end.
func (f *Follower) pass(ctx context.Context, c *call, log io.Reader) error {
	chunks := make(chan chunk)
	go read(ctx, log, chunks)
	for {
		var due <-chan time.Time
		for !c.read.full() {
			select {
			case next := <-chunks:
				c.read.add(next.bytes)
				if next.err != nil || c.read.ended {
					return errors.Join(f.publish(ctx, c), next.err)
				}
				if due == nil {
					due = time.After(time.Until(c.read.next))
				}
				continue
			case <-due:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			break
		}
		if err := f.publish(ctx, c); err != nil {
			return err
		}
	}
}

// publish passes on the text that was read, in pieces. A piece that is not passed on stays the next one.
func (f *Follower) publish(ctx context.Context, c *call) error {
	for {
		text := c.read.piece()
		if text == "" {
			return nil
		}
		if backoff.Wait(ctx, time.Until(c.read.next)) != nil {
			return context.Cause(ctx)
		}
		if err := f.bytes.Spend(ctx, c.Namespace, int64(len(text))); err != nil {
			return fmt.Errorf("waiting to pass on output: %w", err)
		}
		c.read.next = time.Now().Add(deltaEvery)
		c.receive(feed.Output{Turn: c.turn, Step: c.step, Context: c.context, Data: stream.ToolOutputDelta{
			ToolCallID: c.call, ToolName: c.status.Name, Attempt: c.attempt.attempt, Stream: stream.StreamStderr,
			Offset: c.read.offset, Delta: text,
		}})
		c.read.passed(text)
	}
}

// read reads a log in chunks until its end or the end of the context.
func read(ctx context.Context, log io.Reader, chunks chan<- chunk) {
	for {
		buffer := make([]byte, chunkBytes)
		n, err := log.Read(buffer)
		select {
		case chunks <- chunk{buffer[:n], err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
