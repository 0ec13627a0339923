// Package anthropic calls models of Anthropic, and of servers that implement its Messages API (MODEL-03).
//
// What a model thinks is neither kept nor sent back: a Turn can be taken up again from its journal alone, by another
// model too. So reasoning is asked for as adaptive thinking, which, unlike thinking with a budget, lets the model go on
// from earlier responses without their thoughts.
package anthropic
