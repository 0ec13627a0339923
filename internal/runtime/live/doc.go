// Package live carries events that no journal has, such as the progress of tool calls, from where they happen to
// receivers. Nothing waits for a receiver: one that is slow loses events.
package live
