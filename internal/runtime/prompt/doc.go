// Package prompt composes the request to a model: the messages of a conversation that may be sent, the system prompt
// and the tools beside them, in the form that is recorded for the later steps of a Turn, and the name by which a
// provider knows the Session. It is pure: it reads neither the journal nor the cluster, and calls no model.
package prompt
