// Package ratelimit keeps calls below limits per minute: those of model calls, which wait for room, and those of tool
// calls, which are refused (RATE-01, TOOL-14).
//
// A limit holds for every minute, whenever it begins. A token bucket as in golang.org/x/time/rate does not: one that is
// full lets up to twice the limit pass within a minute, which providers that count by the minute refuse. Its
// reservations cannot be reduced either, once a call has used fewer tokens than were reserved for it.
//
// The counts are in the memory of one process. A new leader begins with empty ones.
package ratelimit
