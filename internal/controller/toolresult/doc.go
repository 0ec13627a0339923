// Package toolresult reconciles ToolResults that no Turn can accept: their Accepted condition has the reason. All
// others are left to the Turn's reconciler, which accepts a ToolResult once it is in the journal.
package toolresult
