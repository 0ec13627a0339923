// Package builtin has the tools that are part of the manager, in capabilities. Each capability is in a file of its own
// and is registered in registry.go; nothing else has to know it. A tool is a function of its Call: what it needs
// besides comes with that.
package builtin
