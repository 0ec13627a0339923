// Package budget keeps Budgets in the API server: a Store for the ledgers, and a reconciler that shows changes of the
// spec and of the window in status, and counts reservations in full that an earlier process has left.
package budget
