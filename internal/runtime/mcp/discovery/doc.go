// Package discovery asks an MCPServer for its tools, selects those that are used, and stores their definitions. What a
// server has listed is in effect until it lists something else: calls never discover again.
package discovery
