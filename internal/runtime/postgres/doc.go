// Package postgres connects to the PostgreSQL database that keeps journals and records in place of the API server:
// its configuration, its pool of connections, its schema, and the meaning of its errors.
//
// # Statements
//
// No statement is built from text: every one is a constant with parameters, and each names the namespace and the UID of
// the object that its rows belong to. Every change is one statement, so that it is one transaction and one round trip.
//
// # Outcomes
//
// An Error reports what is known of a change that has failed. It was aborted where the server has said so; such a
// change is tried again a few times where the server had to abort it for another one. After a lost connection the
// outcome is unknown: the commit may have been carried out, or may be yet. So a change that has begun is never
// cancelled with its caller: a cancelled wait for a synchronous standby would leave a commit that the standby does not
// have and that others read.
//
// # Owners
//
// The rows of a Session, or of an MCPServer, refer to its row in the table of owners. Deletion marks that row, under a
// lock that waits for the changes in progress, and then deletes the others: a late change is refused.
//
// # Durability
//
// A commit is durable when the server has confirmed it. A connection on which it would not be, because
// synchronous_commit is off or local, gets the setting on. A server that fails over must replicate synchronously:
// otherwise its standby may lack confirmed changes.
package postgres
