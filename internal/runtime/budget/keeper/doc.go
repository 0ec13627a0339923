// Package keeper keeps the ledgers of Budgets in a Store, which other processes may write as well.
//
// One writer for each Budget commits in groups: while a write is in flight, further reservations and settlements
// gather, and the next write has them all. An attempt to call a model begins when its reservation is known to be
// stored: after a write with an unknown outcome the Budget is read first. A call that has no room gets no reservation
// and holds nothing; a Ticket wakes its Turn when it has.
package keeper
