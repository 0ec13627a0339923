// Package mcpcall concludes how a call of a tool of an MCPServer has ended, from the result of the server or from the
// lack of one. It sends nothing.
package mcpcall
