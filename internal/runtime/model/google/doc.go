// Package google calls models of Google by the Gemini API with an API key (MODEL-03). It keeps nothing between calls.
//
// Models since Gemini 3 want back the signatures of what they thought before they called a tool, and refuse a
// conversation without them. The log has no place for them, and a conversation may come from another provider. So the
// driver sends the value that Google documents for such conversations, which says that there is no signature: the model
// goes on from what was said and done, without its earlier thoughts.
package google
