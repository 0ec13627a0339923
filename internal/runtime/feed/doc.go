// Package feed serves the events of Sessions to any number of subscribers.
//
// A subscriber has a position in the journal and asks for the next event: nothing is queued for it, and one that reads
// slowly costs no more than one that reads fast. Durable events come from the journal, whose entries are read and
// encoded once for all subscribers that are near to each other. Live events are levels: a subscriber gets the newest
// state of each Turn, the newest progress of each call, the newest output of its tool, and the part of a response that
// it does not have yet.
//
// Nothing polls: subscribers are woken by entries that this process writes, by the heads in the status of Sessions, and
// by the live Bus. Nothing is written.
package feed
