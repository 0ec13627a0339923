// Package event holds the events of a Session (EVT-02, EVT-03), the messages that are derived from them (MSG-02,
// MSG-03) and the repair of a transcript before a model reads it (DUR-08).
//
// Events are built by a Factory, kept in the Session's log, and read back by MessageOf. Their wire names are snake_case
// and part of the contract: types and fields are added, never renamed or removed. Nothing here does any input or
// output.
package event
