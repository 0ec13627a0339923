// Package inspect shows the request of the next model call of a Session, and the objects that it lacks, without
// making a call. It is pure.
package inspect
