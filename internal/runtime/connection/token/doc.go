// Package token returns the tokens of users' connections, and refreshes them through OAuth. It writes no Secret: what a
// token endpoint issues is kept in memory only.
package token
