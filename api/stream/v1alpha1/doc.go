// Package v1alpha1 has the events of a Session as the event stream of the manager sends them: types of events, their
// data, and the Follower that clients use. docs/events.md describes the protocol.
//
// The schema is additive: types of events and fields are added, never changed, renamed or removed. A client ignores the
// types and the fields that it does not know.
package v1alpha1
