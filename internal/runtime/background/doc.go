// Package background has the background tasks of Sessions (TOOL-20, TASK-01): Job tools that run detached from the Turn
// that starts them, and whose ends are delivered as messages.
//
// A task is a record in the store of its Session. Each of its effects is recorded before it happens: the task before
// its Job exists, the only pod that may run it before that pod may start, its end before the Turn that delivers it.
// What follows is decided by Next, which is pure; the hosts carry it out. docs/design/background-tasks.md has the
// reasons.
package background
