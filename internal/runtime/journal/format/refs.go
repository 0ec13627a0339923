package format

// SettledRef is the result of a call that counts.
type SettledRef struct {
	// Ordinal of the part; 0 for a part that is not in the journal.
	Ordinal int64
	// Call that was settled.
	Call SettledCall
	// Adopted reports whether the result was there before.
	Adopted bool
}

// ByOthers reports whether a client has answered the call or a person has decided about it, so that no process has
// carried it out.
func (r SettledRef) ByOthers() bool {
	return r.Call.State == "" && !r.IsInput()
}

// IsInput reports whether the part is a question of a tool, or the answer to one, and not the outcome of its call.
func (r SettledRef) IsInput() bool {
	return r.Call.Asked != nil || r.Call.Answered != nil
}

// ClaimRef is the claim of a call.
type ClaimRef struct {
	// Ordinal of the claim; 0 for a call without a claim.
	Ordinal int64
	// Call that is claimed, with its holder.
	Call ClaimedCall
	// Settled is the result of the claimed call; its Ordinal is 0 until the call has one.
	Settled SettledRef
	// Asked is what the tool has asked in response to the request that is claimed; its Ordinal is 0 for nothing.
	Asked SettledRef
}
