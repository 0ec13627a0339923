package providertest

import (
	"bytes"
	"context"
	"errors"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// stream is the response of a step as the API sends it.
func (s Subject) stream(step Step) string {
	return s.Dialect.Stream(&Double{Dialect: s.Dialect}, step)
}

// firstRequest is the first request of a conversation.
func (s Subject) firstRequest() model.Request {
	r, _ := newTalk().request(&Player{Subject: s}, s.Name)
	return r
}

// endsWithContext: a call ends with the error of its context, whatever has arrived, and the SDK logs nothing.
func endsWithContext(t *testing.T, s Subject) {
	var logged bytes.Buffer
	before := log.Writer()
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(before) })
	whole := s.stream(loop()[0])
	last := strings.LastIndex(strings.TrimSuffix(whole, "\n\n"), "\n\n") + 2
	for name, cut := range map[string]int{
		"before anything": 0, "within the response": len(whole) / 2, "before the last event": last,
	} {
		t.Run(name, func(t *testing.T) {
			server := Serve(t, Answer{Body: whole[:cut], Hold: true})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.ends(ctx, t, After(server.Client(), cut, cancel), s.firstRequest(), context.Canceled)
		})
	}
	t.Run("between two events that came together", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		partials := 0
		r := s.firstRequest()
		r.OnPartial = func(model.Partial) { partials++; cancel() }
		s.ends(ctx, t, Serve(t, Answer{Body: whole}).Client(), r, context.Canceled)
		if partials != 1 {
			t.Errorf("it goes on for %d events", partials)
		}
	})
	t.Run("at its deadline", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		server := Serve(t, Answer{Body: whole})
		s.ends(ctx, t, server.Client(), s.firstRequest(), context.DeadlineExceeded)
		if n := len(server.Seen()); n > 0 {
			t.Errorf("the server received %d requests", n)
		}
	})
	if logged.Len() > 0 {
		t.Errorf("the log has %s", &logged)
	}
}

// ends expects that a call ends with an error and without a response.
func (s Subject) ends(ctx context.Context, t *testing.T, h *http.Client, r model.Request, want error) {
	t.Helper()
	driver, err := s.New(h, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := driver.Generate(ctx, r); response != nil || !errors.Is(err, want) {
		t.Errorf("Generate = %+v, %v, want %v", response, err, want)
	}
}

// unreachable is a network without the server.
type unreachable struct{}

// RoundTrip implements http.RoundTripper.
func (unreachable) RoundTrip(r *http.Request) (*http.Response, error) {
	key := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key")
	return nil, errors.New("connecting to " + r.URL.String() + " with " + key + ": refused")
}

// noServer: a server that cannot be reached may be reached later, and the error gives nothing away.
func noServer(t *testing.T, s Subject) {
	r := s.firstRequest()
	response, err := s.generate(t, &http.Client{Transport: unreachable{}}, r)
	var partials *provider.Error
	if response != nil || !errors.As(err, &partials) || !partials.Transient() ||
		model.CodeOf(err) != v1alpha1.ErrorCodeProviderUnavailable {
		t.Errorf("Generate = %+v, %v", response, err)
	}
	CheckSecrets(t, err, testKey, r.Messages[0].PlainText(), "Bearer")
}

// progressReported: content is reported while it arrives: a text grows, and no text follows a call.
func progressReported(t *testing.T, s Subject) {
	p := s.play(t, loop()[0])
	r, _ := newTalk().request(p, p.Name)
	var partials []model.Partial
	r.OnPartial = func(m model.Partial) { partials = append(partials, m) }
	response, err := p.driver.Generate(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	texts, last := 0, model.Partial{}
	for _, m := range partials {
		if !strings.HasPrefix(m.Text, last.Text) || last.ToolCalls && !m.ToolCalls {
			t.Errorf("after %+v comes %+v", last, m)
		}
		if m.Text != "" && !m.ToolCalls {
			texts++
		}
		last = m
	}
	if texts == 0 || last != (model.Partial{Text: response.Text, ToolCalls: true}) {
		t.Errorf("%d texts came before the calls, and at last %+v", texts, last)
	}
}
