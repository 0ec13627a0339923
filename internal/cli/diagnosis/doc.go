// Package diagnosis finds what is wrong with an install, a namespace or a Session, and the command that mends it. It
// is pure: what is wrong is decided about objects that the caller has read.
package diagnosis
