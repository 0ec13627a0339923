// Package outcome has the exit codes of the program: what has become of a Turn, for scripts.
package outcome
