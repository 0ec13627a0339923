// Package lease decides about the leases on what calls of tools create outside of the cluster: when a resource is
// cleaned up, and what follows from the end of a clean-up (LEASE-01, LEASE-02, LEASE-04). It is pure: it imports no
// client.
package lease
