// Package model is how the runtime calls a language model: one request, one response. A Driver calls one Model; a
// Registry creates drivers by provider (MODEL-03). Drivers keep nothing between calls.
package model
