// Package inspect shows what the next model call of a Session would be made with, and what is missing for it, without
// making a call. It is pure.
package inspect
