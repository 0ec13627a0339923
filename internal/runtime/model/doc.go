// Package model is how the runtime asks a language model: one request, one answer. A Driver speaks to one Model; a
// Registry makes drivers by provider (MODEL-03). Drivers keep nothing between calls.
package model
