// Package httptool carries out the calls of HTTP tools: it reads the Secrets of their headers and sends their requests.
package httptool
