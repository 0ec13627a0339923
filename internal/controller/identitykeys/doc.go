// Package identitykeys keeps the keys of identity tokens in a Secret, and their public parts in a ConfigMap, both in
// the manager's own namespace.
package identitykeys
