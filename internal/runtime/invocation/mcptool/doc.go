// Package mcptool carries out the calls of the tools of MCPServers: it reads the Secrets of their headers, connects to
// the server and calls the tool.
package mcptool
