// Package simulator responds by script instead of calling a language model (SIM-01). A response depends on the request
// alone: on the iteration and on the messages since the user last spoke. Nothing is counted between calls, so that a
// restart in mid-turn changes no response.
package simulator
