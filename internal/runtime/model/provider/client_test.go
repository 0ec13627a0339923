package provider

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

func TestClientReadsNoMoreThanItMay(t *testing.T) {
	for name, test := range map[string]struct {
		status, size int
		limit        int
		want         int
		err          error
	}{
		"all of it":         {200, 10, 10, 10, nil},
		"too much":          {200, 11, 10, 10, errTooLong},
		"an error":          {500, 10, 5, 10, nil},
		"a large error":     {500, MaxErrorBody + 1, 5, MaxErrorBody, nil},
		"nothing to read":   {200, 0, 10, 0, nil},
		"nothing permitted": {200, 1, 0, 0, errTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, strings.Repeat("x", test.size))
			}))
			defer server.Close()
			answer, err := limitedClient(
				server.Client(),
				limits{body: test.limit, events: 1, event: 1 << 20, values: 1, depth: 1},
			).Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if len(body) != test.want || !errors.Is(err, test.err) {
				t.Errorf("read %d bytes, %v; want %d, %v", len(body), err, test.want, test.err)
			}
		})
	}
}

func TestClientFollowsNoRedirectAndLeavesTheOtherAlone(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	given := server.Client()
	transport := given.Transport
	answer, err := Client(given).Get(server.URL)
	if err == nil {
		answer.Body.Close()
	}
	if !errors.Is(err, errRedirected) || asked.Load() != 1 || given.CheckRedirect != nil || given.Transport != transport {
		t.Errorf("Get: %v after %d requests", err, asked.Load())
	}
}

// TestClientReadsNoLongerEventThanItMay: an event may have 10 bytes, the line that ends it included, three commas and
// opening brackets, two of them at a time, and there may be 9 events.
func TestClientReadsNoLongerEventThanItMay(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		fits bool
	}{
		"one":                            {"data: 1\n\n", true},
		"many":                           {strings.Repeat("data: 1\n\n", 9), true},
		"many, with other line breaks":   {strings.Repeat("d: 1\r\n\r\n", 9), true},
		"many, with both":                {strings.Repeat("d: 12\r\n\n", 9), true},
		"empty lines":                    {strings.Repeat("\n", 99), true},
		"one that is too long":           {"data: 12345", false},
		"one of many lines":              {strings.Repeat("data: 1\n", 2), false},
		"a long one behind others":       {strings.Repeat("data: 1\n\n", 9) + "data: 12345\n\n", false},
		"an end that some SDKs miss":     {strings.Repeat("d: 1\n\r\n", 2), false},
		"as many values as there may be": {"[1,2,3]\n\n[1,2,3]\n\n", true},
		"one value more":                 {"[1,2,3,4]", false},
		"as deep as it may be":           {"[[]][]\n\n[[", true},
		"one level more":                 {"[[[", false},
		"brackets in a text":             {`"[[[[{{{"`, true},
		"one event more":                 {strings.Repeat("data: 1\n\n", 10), false},
		"commas in a text":               {`",,\",,,"`, true},
		"commas behind a text":           {`"\\",,,,`, false},
		"commas behind a text cut short": {"\"\n,,,,", false},
		"commas behind a broken escape":  {"\"\\\n,,,,", false},
		"a backslash outside of a text":  {`\",,,",,`, true},
	} {
		for way, wrap := range map[string]func(
			io.Reader,
		) io.Reader{"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader} {
			body := newEventBody(
				io.NopCloser(wrap(strings.NewReader(test.body))),
				limits{body: 1000, events: 9, event: 10, values: 3, depth: 2},
			)
			read, err := io.ReadAll(body)
			if test.fits && (err != nil || string(read) != test.body) || !test.fits && !errors.Is(err, errTooLong) {
				t.Errorf("%s, %s: read %q, %v", name, way, read, err)
			}
		}
	}
}

// TestAnEventIsPassedOnAsAWhole: what an SDK is given is a whole event, so that it need not look through its beginning
// again. One of comments alone is not passed on.
func TestAnEventIsPassedOnAsAWhole(t *testing.T) {
	const stream = "data: 1\ndata: 2\n\nevent: x\r\ndata: 3\r\n\r\n: ping\n\nthe rest"
	body := newEventBody(
		io.NopCloser(iotest.OneByteReader(strings.NewReader(stream))),
		limits{body: 1000, events: 9, event: 100, values: 3, depth: 2},
	)
	var pieces []string
	buffer := make([]byte, 100)
	for {
		n, err := body.Read(buffer)
		if err != nil {
			break
		}
		pieces = append(pieces, string(buffer[:n]))
	}
	want := []string{"data: 1\ndata: 2\n\n", "event: x\r\ndata: 3\r\n\r\n", "the rest"}
	if !slices.Equal(pieces, want) {
		t.Errorf("read %q, want %q", pieces, want)
	}
}

func TestAnErrorIsDecodedAsFarAsItIsInProportion(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"a text":      {`{"error":{"message":"` + strings.Repeat("[", 9000) + `"}}`, 9024},
		"many values": {strings.Repeat(`{},`, 9000), 3 * 1024},
		"deep ones":   {strings.Repeat(`[`, 9000), MaxDepth},
	} {
		body := &errorBody{Reader: strings.NewReader(test.body)}
		read, err := io.ReadAll(body)
		if len(read) != test.want || err != nil {
			t.Errorf("%s: read %d bytes, %v, want %d", name, len(read), err, test.want)
		}
	}
}

// TestHowAnEventComesInDoesNotCount: an SDK that looks through all of an event at each piece of it takes quadratic
// time. The pieces that it is given depend on the size of the event alone.
func TestHowAnEventComesInDoesNotCount(t *testing.T) {
	stream := strings.Repeat("data: "+strings.Repeat("x", 40_000)+"\n\n", 3)
	pieces := func(r io.Reader) (n int) {
		body := newEventBody(io.NopCloser(r), limits{body: 1 << 20, event: 1 << 20, values: 10, depth: 10, events: 10})
		for buffer := make([]byte, 4096); ; n++ {
			if _, err := body.Read(buffer); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	atOnce, bytewise := pieces(strings.NewReader(stream)), pieces(iotest.OneByteReader(strings.NewReader(stream)))
	if atOnce != bytewise || atOnce != 30 {
		t.Errorf(
			"the events come in %d pieces when they are sent at once, and in %d when they are sent byte by byte; want 30",
			atOnce,
			bytewise,
		)
	}
}
