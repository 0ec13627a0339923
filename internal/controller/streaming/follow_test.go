package streaming

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	internalstream "github.com/capstan-dev/capstan/internal/runtime/stream"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

var session = stream.Session{Namespace: "ns", Name: "s"}

// follower follows the Server of the bench, over connections that a function may change.
func (b *bench) follower(token string, change func(io.ReadCloser) io.ReadCloser) *streamclient.Client {
	client := b.client(token)
	if change != nil {
		client.Transport = cutting{client.Transport, change}
	}
	return &streamclient.Client{Endpoints: streamclient.Fixed{URL: "https://" + b.address, Client: client}}
}

// cutting changes the bodies of answers.
type cutting struct {
	http.RoundTripper
	change func(io.ReadCloser) io.ReadCloser
}

// RoundTrip implements http.RoundTripper.
func (c cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusOK {
		response.Body = c.change(response.Body)
	}
	return response, err
}

// cut is a body that ends after a number of bytes behind the first durable event.
type cut struct {
	io.ReadCloser
	more int
	seen []byte
	left int
	on   bool
}

// Read implements io.Reader, one byte at a time.
func (c *cut) Read(p []byte) (int, error) {
	if c.on && c.left == 0 {
		return 0, errors.New("the connection was cut")
	}
	n, err := c.ReadCloser.Read(p[:1])
	c.seen = append(c.seen, p[:n]...)
	switch {
	case c.on:
		c.left -= n
	case bytes.Contains(c.seen, []byte("id: ")) && bytes.HasSuffix(c.seen, []byte("\n\n")):
		c.on, c.left = true, c.more
	}
	return n, err
}

// journaled are the durable events that the journal has, as clients see them.
func (b *bench) journaled() (all []stream.Event) {
	b.t.Helper()
	of := journal.Session{Namespace: "ns", Name: "s", UID: "s-uid"}
	at := journal.Position{Ordinal: 1, Sequence: 1}
	for {
		first := at.Sequence
		closed, next, err := b.log.NextStep(b.t.Context(), of, at, journal.Unknown)
		if err != nil {
			b.t.Fatal(err)
		}
		if closed == nil {
			return all
		}
		events, err := internalstream.Durable(of, closed, first)
		if err != nil {
			b.t.Fatal(err)
		}
		all, at = append(all, events...), next
	}
}

// TestWhatAFollowerSeesEqualsTheJournalWhereverItIsCut: the connection is cut behind every event, and within the next
// one.
//
// Rules: EVT-02.
func TestWhatAFollowerSeesEqualsTheJournalWhereverItIsCut(t *testing.T) {
	for _, more := range []int{0, 1, 7, 60} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, many(), nil).lead()
			b.step("one")
			connections := 0
			f := b.follower("own", func(body io.ReadCloser) io.ReadCloser {
				connections++
				return &cut{ReadCloser: body, more: more}
			})
			var seen []stream.Event
			for e, err := range f.Follow(t.Context(), session, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Live {
					continue
				}
				seen = append(seen, e)
				if len(seen)%2 == 0 && len(seen) < 10 {
					b.step(fmt.Sprint("step ", len(seen)))
				}
				if len(seen) == 10 {
					break
				}
			}
			got, err := json.Marshal(seen)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(b.journaled())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) || connections < 10 {
				t.Errorf("after %d connections a follower has seen\n%s\nand the journal has\n%s", connections, got, want)
			}
		})
	}
}

// TestAFollowerGetsTheTextAgainAfterItsManagerIsGone: the text of the response begins anew.
//
// Rules: LLM-04.
func TestAFollowerGetsTheTextAgainAfterItsManagerIsGone(t *testing.T) {
	first := newBench(t, many(), nil).lead()
	second := newBench(t, many(), nil).lead()
	second.log, second.hub.Log = first.log, first.hub.Log
	endpoints := &changing{bench: first}
	f := &streamclient.Client{Endpoints: endpoints}
	text := first.bus.Respond(live.Response{UID: "s-uid", Message: "m"})
	text.Write("Hello, ")
	shown := ""
	for e, err := range f.Follow(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != stream.TypeOutputMessageDelta {
			continue
		}
		data, err := stream.Decode[stream.OutputMessageDelta](e)
		if err != nil {
			t.Fatal(err)
		}
		shown = shown[:data.Offset] + data.Text
		switch shown {
		case "Hello, ":
			endpoints.bench = second
			first.stop()
			again := second.bus.Respond(live.Response{UID: "s-uid", Message: "m"})
			again.Write("Hi")
		case "Hi":
			return
		}
	}
	t.Errorf("the text is %q", shown)
}

// changing is the Endpoint of a bench that changes.
type changing struct{ bench *bench }

// Endpoint implements streamclient.Endpoints.
func (c *changing) Endpoint(context.Context) (streamclient.Endpoint, error) {
	return streamclient.Endpoint{URL: "https://" + c.bench.address, Client: c.bench.client("own")}, nil
}

func TestAFollowerLearnsWhyItMayNotFollow(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.tokens["capstan.dev stranger"] = "stranger"
	for name, test := range map[string]struct {
		token   string
		session stream.Session
		after   int64
		want    func(error) bool
	}{
		"unauthorized": {token: "x", session: session, want: apierrors.IsUnauthorized},
		"forbidden":    {token: "stranger", session: session, want: apierrors.IsForbidden},
		"not found":    {token: "own", session: stream.Session{Namespace: "ns", Name: "x"}, want: apierrors.IsNotFound},
		"beyond": {token: "own", session: session, after: 9, want: func(err error) bool {
			var ended *streamclient.EndedError
			return errors.As(err, &ended) && ended.Reason == stream.EndedSequenceUnknown
		}},
		"replaced": {
			token: "own", session: stream.Session{Namespace: "ns", Name: "s", UID: "old"},
			want: func(err error) bool { return errors.Is(err, streamclient.ErrReplaced) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for e, err := range b.follower(test.token, nil).Follow(t.Context(), test.session, test.after) {
				if err == nil {
					t.Fatalf("there is the event %+v", e)
				}
				if !test.want(err) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			t.Error("there is no error")
		})
	}
}

func TestAFollowerGivesUpWhenNothingAnswers(t *testing.T) {
	b := newBench(t, many(), nil)
	b.stop()
	f := b.follower("own", nil)
	f.Patience = 300 * time.Millisecond
	for _, err := range f.Follow(t.Context(), session, 0) {
		var unreachable *streamclient.UnreachableError
		if !errors.As(err, &unreachable) {
			t.Errorf("the error is %v", err)
		}
		return
	}
	t.Error("there is no error")
}

func TestAFollowerConnectsAgainWhenItHearsNothing(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	connections := 0
	f := b.follower("own", func(body io.ReadCloser) io.ReadCloser {
		connections++
		return body
	})
	f.Silence = 100 * time.Millisecond
	synced := 0
	for e, err := range f.Follow(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == stream.TypeStreamSynced {
			synced++
		}
		if synced == 3 {
			break
		}
	}
	if connections < 3 {
		t.Errorf("%d connections", connections)
	}
}

func TestASessionThatIsDeletedEndsTheStream(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	var seen []string
	for e, err := range b.follower("own", nil).Follow(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, e.Type); e.Type == stream.TypeStreamSynced {
			b.hub.End("s-uid", stream.EndedSessionDeleted)
		}
	}
	if got := strings.Join(seen, " "); got != "stream.synced stream.ended" {
		t.Errorf("the events are %s", got)
	}
}

func TestConnectionsWhoseCallerIsNotKnownAreBounded(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	var silent []net.Conn
	for range 3 * maxPending {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		silent = append(silent, conn)
	}
	defer func() {
		for _, conn := range silent {
			_ = conn.Close()
		}
	}()
	// The oldest ones make room for one who says who it is.
	expect(t, lines(b.get(b.client("own"), path).Body, "event: "), "event: stream.synced")
	if _, err := silent[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
		t.Errorf("the oldest connection: %v", err)
	}
	b.server.connections.mu.Lock()
	defer b.server.connections.mu.Unlock()
	if n := b.server.connections.pending.Len(); n > maxPending {
		t.Errorf("%d connections are pending", n)
	}
}

func TestWhoDoesNotSpeakTheProtocolIsClosed(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	for name, begin := range map[string]string{
		"plain HTTP": "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n", "nonsense": "CAPSTAN nonsense, not passed on\n",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(begin)); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn) // It is closed or reset.
		if bytes.Contains(answer, []byte("200 OK")) || bytes.Contains(answer, []byte("event")) {
			t.Errorf("%s is answered: %s", name, answer)
		}
		_ = conn.Close()
	}
	huge := http.Header{"X-Large": {strings.Repeat("x", 10*maxHeaderBytes)}}
	if r, err := b.try(b.client("own"), path, huge); err == nil && r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a huge header: %s", r.Status)
	}
}

// TestACallerThatReadsNothingHarmsNobody: it holds its connection until a write takes too long.
func TestACallerThatReadsNothingHarmsNobody(t *testing.T) {
	b := newBench(t, many(), func(b *bench) {
		b.handler.Intervals = Intervals{Write: 200 * time.Millisecond}
		b.handler.Log = logr.Discard()
	}).lead()
	stuck := b.get(b.client("own"), path)
	other := lines(b.get(b.client("own"), path).Body, "id: ")
	for i := range 100 {
		b.step(strings.Repeat("x", 100_000))
		expect(t, other, fmt.Sprint("id: ", 2*i+1), fmt.Sprint("id: ", 2*i+2))
	}
	// What was written before is read, and then the connection is at its end.
	if raw, err := io.ReadAll(stuck.Body); err == nil || len(raw) > 9_000_000 {
		t.Errorf("it has read %d bytes, %v", len(raw), err)
	}
}
