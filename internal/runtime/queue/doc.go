// Package queue decides the order in which a Session runs its Turns, and which of them go into the running one. It is
// pure: its results depend on the Turns alone.
package queue
