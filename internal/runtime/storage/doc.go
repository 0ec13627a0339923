// Package storage has the values of a Session by key (KV-01), on a store of package record.
//
// A change carries a cause, by which it happens once, whatever fails: a repeated change returns the first result. Keys
// and values are texts. Their sizes, their number and the size of all values are bounded for each Session, and with
// them what all stores of a namespace have together.
package storage
