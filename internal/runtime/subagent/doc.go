// Package subagent describes the sub-agents that calls of Tools with an agent run as: the Session and the Turn of a
// call (SPAWN-01), whether an existing one is that of the call, and the outcome of the call (SPAWN-03). It is pure: the
// Turn reconciler and the in-process runtime create the objects and wait for the Turn.
//
// The Session of a call is created first, and its UID is recorded in the status of the calling Turn before the Turn of
// the sub-agent is created (SPAWN-02). Until then nothing has begun, so that the call can be withdrawn. From then on,
// another process finds the sub-agent by its name: a Turn that is created again in the same Session takes over what the
// journal of that Session has.
package subagent
