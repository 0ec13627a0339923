// Package streaming serves the events of Sessions over TLS, to callers that it authenticates and authorizes as the API
// server does. The leader answers; another replica passes connections on to it before TLS, so that callers speak to the
// leader with their own credentials. docs/events.md describes the protocol.
package streaming
