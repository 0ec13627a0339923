// Package egress is the single client for all requests of the manager to the outside world.
//
// The manager runs inside the cluster, and can reach addresses that the author of a Tool may not reach. So a request
// goes only to public addresses, and to those that the operator has allowed. A host is resolved once per connection,
// and the connection is made to an address that was checked, so that a name which resolves to another address a moment
// later gains nothing. A redirect is a new request: it is checked again, and secrets go only to the destination that
// they were meant for.
//
// Every request has a connection of its own and is sent at most once. The standard library sends a request again when a
// connection that was kept open turns out to be dead, which is not for a client to decide whose requests may cost
// money.
package egress
