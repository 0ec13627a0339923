package main

import (
	"errors"
	"testing"
	"time"
)

func TestErrorsOfACollectorAreLoggedRarely(t *testing.T) {
	now := time.Unix(1000, 0)
	handled := 0
	handle := rarely(time.Minute, func() time.Time { return now }, func(error) { handled++ })
	for range 121 {
		handle(errors.New("no connection"))
		now = now.Add(time.Second)
	}
	if handled != 3 {
		t.Errorf("%d errors were logged in two minutes", handled)
	}
}

func TestNoSpansAreMadeWithoutACollector(t *testing.T) {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER",
	} {
		t.Setenv(name, "")
	}
	o, err := parse([]string{"--launcher-image=l"})
	if err != nil {
		t.Fatal(err)
	}
	flush, err := o.trace(t.Context())
	if err != nil || o.controllers.Traces != nil || o.traceContent {
		t.Errorf("traces go to %v, %v", o.controllers.Traces, err)
	}
	flush()
}
