package fairshare

const (
	// conversationFactor is how many bytes of memory a model call takes for each byte of its Session's journal: the
	// messages, the prompt made of them, the form of them that a provider's SDK builds, and the body of the request.
	conversationFactor = 8
	// responseRoom is the additional memory of a model call for the largest response while it is received and decoded.
	responseRoom = 4 << 20
)

// ConversationBytes is the memory of a model call, given the size of its Session's journal and of the data that is
// about to be added to it.
func ConversationBytes(journal int64) int64 {
	return conversationFactor*min(max(journal, 0), unlimited/conversationFactor/2) + responseRoom
}

// LargestConversation is the most bytes of a journal for which a model call needs no more memory than given; 0 if none
// does.
func LargestConversation(memory int64) int64 {
	return max(memory-responseRoom, 0) / conversationFactor
}
