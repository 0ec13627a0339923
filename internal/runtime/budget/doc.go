// Package budget is the ledger of Budgets: what a model call may cost at most, whether that fits into a Budget, and
// what a status shows of it. It is pure: the time is an argument, and the packages that keep Budgets write what it
// decides.
//
// The worst case of each attempt to call a model is reserved before the attempt begins, and settled after it. The sum
// of what is spent and what is reserved never exceeds the limit, so that the provider is never asked for more; a
// reservation whose outcome is unknown counts in full.
package budget
