// Package pending has the calls of a Turn that wait for people: what they wait for, the commands that continue them,
// and the ToolResults that these commands create. It is pure.
package pending
