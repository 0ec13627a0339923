// Package httpcall builds the request of a call of an HTTP tool, and concludes from its response, or from the lack of
// one, how the call has ended. It sends nothing.
package httpcall
