// Package discovery asks an MCPServer for its tools, selects those that are used, and stores their definitions. What a
// server has said is in effect until it says something else: calls never ask again.
package discovery
