// Package inspection shows what the next model call of a Session would be made with (INSPECT-01), from objects that are
// read with the user's own permissions. Nothing is run.
package inspection
