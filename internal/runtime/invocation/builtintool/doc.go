// Package builtintool carries out the calls of built-in tools.
package builtintool
