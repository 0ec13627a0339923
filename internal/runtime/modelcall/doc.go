// Package modelcall makes one response of a model: it calls the Models that may be called, in order, until one of them
// responds. For each it reads the API key, creates the driver, enforces the time limits, and retries calls that may
// succeed later, or without the reasoning or the images that the provider has refused.
//
// It gets the content of the request, and does not know the Turn that needs the response. What must be recorded of a
// response that streams is recorded by the caller's Recording. A pause that is not short is not waited for: it is
// returned as a Backoff, with which the caller continues.
package modelcall
