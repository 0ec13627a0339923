// Package anthropic calls models of Anthropic, and of servers that implement its Messages API (MODEL-03).
//
// Thinking blocks are sent back in their places, as the API demands within a tool loop. In a loop that another model
// began, a model that thinks with a budget continues without thinking until the next message of the user.
package anthropic
