// Package identity has the tokens by which servers of tools recognize which agent calls them: who a token is about, the
// keys that sign it, their rotation, and the key set by which servers verify it.
package identity
