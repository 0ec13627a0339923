// Package command has the commands of kubectl capstan: their arguments, flags and help, and what they do with the
// packages around it.
package command
