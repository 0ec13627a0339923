package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// startRegistry serves an empty registry on this machine, over plain HTTP, and returns its host.
func startRegistry(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: registry.New(
		registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true),
	)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}
