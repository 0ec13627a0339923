// Package sqlcall is one call of a SQL database as it crosses from the manager to the process that runs it and back:
// what is to be run, the parts of the database file that the process asks for, and the result with the parts that it
// has changed. Both sides bound what they read.
package sqlcall
