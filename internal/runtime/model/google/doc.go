// Package google calls models of Google by the Gemini API with an API key (MODEL-03). It keeps nothing between calls.
//
// Models since Gemini 3 require the signatures of their reasoning before a tool call, and refuse a conversation without
// them. The journal does not keep them, and a conversation may come from another provider. So the driver sends the
// value that Google documents for such conversations, which means that there is no signature: the model continues from
// the visible conversation, without its earlier reasoning.
package google
