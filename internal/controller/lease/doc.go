// Package lease keeps LeasedResources: it creates and extends them for calls of tools, and cleans up what they describe
// (LEASE-01 to LEASE-04). What is to be done follows from package internal/runtime/lease.
//
// A clean-up is claimed by a write of the status under its optimistic lock, before its request is sent, and its end is
// written only while the claim stands: a call that extends the lease meanwhile wins. Requests are activities, whose
// places namespaces share with those of tools.
package lease
