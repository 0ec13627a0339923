// Package inputschema checks the inputSchema of tools, and the arguments of calls against it. It bounds the memory and
// the time that both may take.
package inputschema
