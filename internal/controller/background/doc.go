// Package background runs the background tasks of Sessions: it creates their Jobs, lets exactly one pod of each start,
// records their ends, and delivers these as Turns. What follows for a task is decided by internal/runtime/background.
//
// Session.status.backgroundTasks names the tasks whose ends are yet to be delivered. It follows from the records of the
// Session, and is written before anything of a task exists outside of them, so that a manager that starts finds every
// task by its watch of Sessions.
package background
