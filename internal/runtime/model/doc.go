// Package model defines how the runtime calls a language model: one request, one response. A Driver calls one Model; a
// Registry creates drivers by provider (MODEL-03). Drivers are stateless.
package model
