package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func TestMetricsAreServedInPlainTextOnlyWhereThatIsAskedFor(t *testing.T) {
	options := func(args ...string) metricsserver.Options {
		t.Helper()
		o, err := parse(append(args, "--launcher-image=l", "--metrics-bind-address=127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		return o.metrics()
	}
	if secure := options(); !secure.SecureServing || secure.FilterProvider == nil {
		t.Error("metrics are served without TLS, or to callers without a right")
	}
	server, err := metricsserver.NewServer(options("--metrics-secure=false"), &rest.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bound, ok := server.(interface{ GetBindAddr() string })
	if !ok {
		t.Fatal("the server does not report its address")
	}
	for begun := time.Now(); bound.GetBindAddr() == "" && time.Since(begun) < 10*time.Second; {
		<-time.After(time.Millisecond)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+bound.GetBindAddr()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), "# HELP ") {
		t.Errorf("%s, %v, %d bytes", response.Status, err, len(text))
	}
}
