// Package stream makes the events that clients follow of what the journal and the status of Turns have. The functions
// are pure: an entry has the same events with the same sequence numbers whichever process reads it, also after a crash.
package stream
