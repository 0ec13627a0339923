// Package schedule decides when a Schedule is due, and what it creates then. It is pure: the time is an argument.
//
// A tick is a point in time that a Schedule sets. The names of the Turn and the Session of a tick follow from the UID
// of the Schedule and the tick, so that every process creates the same objects for it.
package schedule
