// Package history reads the journal of a Session with the permissions of a user, and returns its events in order.
package history
