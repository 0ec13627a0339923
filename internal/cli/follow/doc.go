// Package follow reports what happens in a Turn or a Session until it ends: the events of the journal, the states of
// Turns, and, where the manager's event stream can be reached, the words of a response as they arrive.
package follow
