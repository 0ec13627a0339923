// Package jobspec builds the Job of a tool call, and the objects of its pod: the ServiceAccount, the NetworkPolicy, and
// the patch that opens its scheduling gate. The same parameters produce the same objects.
package jobspec
