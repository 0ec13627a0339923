// Package schedule reconciles Schedules: it creates the Turn of each tick, and its Session where the Schedule has a
// template of one, follows them to their end, and deletes those that the history limits do not keep. When a Schedule is
// due is decided by internal/runtime/schedule.
//
// A tick is written to the status under optimistic lock before its objects are created. A process that was killed
// between two writes has left a tick without the UID of its Turn: the next one creates what is missing, under names
// that follow from the UID of the Schedule and the tick. An idle Schedule has one timer, and costs nothing else.
package schedule
