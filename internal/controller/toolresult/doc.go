// Package toolresult reconciles ToolResults that no Turn can take: it says on their Accepted condition why. A
// ToolResult that a Turn can take is left to the Turn's reconciler, which accepts it once it is in the log.
package toolresult
