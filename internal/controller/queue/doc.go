// Package queue is the order in which a Session takes up the Turns that name it, and which of them go into the one that
// is running. It is pure: what it says depends on the Turns alone.
package queue
