// Package egress is the one client for everything that the manager asks of the outside world.
//
// The manager stands inside the cluster, with addresses in reach that whoever writes a Tool may not reach himself. So a
// request goes to public addresses only, and to those that the operator has allowed besides. A host is resolved once
// for each connection, and the connection is made to an address that was checked, so that a name which resolves to
// something else a moment later gains nothing. A redirect is a request of its own: it is checked again, and secrets go
// to no other place than the one that they were meant for.
//
// Every request has a connection of its own and is sent at most once. The standard library sends a request again when a
// connection that was kept open turns out to be dead, which is not for a client to decide whose requests may cost
// money.
package egress
