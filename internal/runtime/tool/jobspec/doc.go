// Package jobspec builds the Job of a tool call, and what its pod needs: the ServiceAccount, the NetworkPolicy, and the
// patch that opens its scheduling gate. The same parameters produce the same objects.
package jobspec
