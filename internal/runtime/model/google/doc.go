// Package google calls models of Google by the Gemini API with an API key (MODEL-03). It is stateless.
//
// The signatures of a model's reasoning are sent back with the parts that had them. Models since Gemini 3 refuse a tool
// call without one. A call of another model has none: for it the driver sends the value that Google documents, and the
// model continues from the visible conversation.
package google
