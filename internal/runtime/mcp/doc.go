// Package mcp is the client for servers of the Model Context Protocol, on the official SDK. It speaks both generations
// of the protocol over streamable HTTP, through the egress client: it finds out with each connection which one the
// server speaks. It offers servers no sampling and no roots. With the newer generation a tool may ask the user in its
// response (elicitation); the answers are sent with a further call.
//
// What a server sends is bounded before it is decoded. A call is sent at most once, whatever the SDK would repeat.
package mcp
