// Package streamcert keeps the serving certificate of event streams, and the authority that signs it, in a Secret of
// the manager's namespace. A ConfigMap that everyone may read by name has the certificates of the authority and the
// address.
package streamcert
