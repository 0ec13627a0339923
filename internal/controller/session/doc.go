// Package session reconciles Sessions: it keeps their Ready condition, admits their Turns one at a time in order, and
// releases a Session when its active Turn has ended.
//
// Admission is a compare-and-set on the Session's status.activeTurn: whatever the number of managers and however stale
// their caches, at most one Turn of a Session is active. A bounded number of slots, shared fairly between namespaces,
// keeps one tenant's load from starving another tenant.
package session
