// Package transcript turns the events of a Session into lines as a person reads them. It is pure.
package transcript
