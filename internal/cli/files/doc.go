// Package files reads and writes the files of a Session: at the manager or, if that cannot be reached, by reading the
// Records that have them.
package files
