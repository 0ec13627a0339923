package main

import (
	"context"
	"os"
	"time"

	"go.opentelemetry.io/otel"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/runtime/trace/otlp"
	"github.com/capstan-dev/capstan/internal/version"
)

const (
	// lastSpans is how long the manager takes at its end to send the spans that wait.
	lastSpans = 2 * time.Second
	// complaint is how often the manager logs that spans cannot be sent.
	complaint = time.Minute
)

// trace sets up the export of spans that the environment requests. The returned function sends the last ones.
func (o *options) trace(ctx context.Context) (flush func(), err error) {
	exporter, err := otlp.New(ctx, otlp.Options{
		Getenv: os.Getenv, Version: version.Get().Version, Content: o.traceContent,
	})
	if err != nil || exporter == nil {
		return func() {}, err
	}
	logger := ctrl.Log.WithName("traces")
	otel.SetErrorHandler(rarely(complaint, time.Now, func(err error) {
		logger.Info("Failed to export spans", "error", err.Error())
	}))
	o.controllers.Traces = exporter
	logger.Info("Exporting traces", "content", o.traceContent)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := exporter.Flush(ctx); err != nil {
			logger.Info("Failed to send the last spans", "error", err.Error())
		}
	}, nil
}

// rarely passes on an error only if none was passed on for a while: a collector that is down fails every request.
func rarely(pause time.Duration, now func() time.Time, handle func(error)) otel.ErrorHandlerFunc {
	turn := make(chan time.Time, 1)
	turn <- time.Time{}
	return func(err error) {
		last := <-turn
		at := now()
		if due := last.IsZero() || at.Sub(last) >= pause; due {
			handle(err)
			last = at
		}
		turn <- last
	}
}
