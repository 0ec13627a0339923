// Package connection has the connections of users to providers: Secrets of a namespace, each of one user and one
// provider, which a policy binds to its user. It is pure: package token reads them and refreshes their tokens.
package connection
